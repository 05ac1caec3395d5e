"""Exact sparse search on whole weights by PISA, compressed by block_simdbp.

A. Mallia, M. Siedlaczek, J. Mackenzie, T. Suel, "PISA: Performant Indexes and Search for Academia", OSIRRC at SIGIR 2019; the
compiled part of the package pyterrier_pisa, without PyTerrier and without Java.

PISA compresses an uncompressed collection, which this module writes in memory that grows with a shard, not with the documents.
It consists of sequences of uint32, each after its length: `inv.docs` has [1, documents] and then the positions of every term
that occurs, `inv.freqs` the weights in the same order, and `inv.sizes` the number of terms of each document. `fwd.termlex` and
`fwd.doclex` are lists of names. PISA wants sorted names, so a term's name is its number with leading zeros; a document's name
is its position.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.arrays.vectors import offsets_of, pieces
from lexbench.engines.kernels.checks import no_hits, quiet, whole_weights
from lexbench.engines.kernels.inversion import SortedRun, merge_runs, write_run
from lexbench.errors import CannotStart, UnknownName
from lexbench.plugins import Engine, Index
from lexbench.registry import at_search
from lexbench.types import Hits, Kind

_ALGORITHMS = ("block_max_maxscore", "block_max_wand", "maxscore", "ranked_or", "ranked_or_taat", "wand")
_ENCODING, _SCORER, _NO_STEMMER = "block_simdbp", "quantized", ""
_QUERIES = 256  # searched at a time: PISA needs room for all their hits
_POSTINGS = 1 << 22  # merged at a time
_DIGITS = 10  # of the name of a term
_LEXICONS = {"documents": "doclex", "terms": "termlex"}  # by the file of names, one per line
_SPARE = 8  # hits fetched beyond k and a sixteenth of k: nearly always enough to see where the last score ends


@dataclass(frozen=True)
class Pisa(Engine):
    """PISA with one thread.

    All values of *algorithm* give the same answer: maxscore, wand, block_max_maxscore and block_max_wand skip documents that
    cannot be among the best k; ranked_or and ranked_or_taat (term at a time) skip none. Which is fastest depends on the
    vectors.

    Of equal scores PISA keeps any. So hits are fetched until the last score ends, and the lowest positions are kept.

    Weights of documents and queries must be whole numbers from 0 to 65,535. Scores are float32, so they are exact below 2**24.
    """

    algorithm: str = at_search("maxscore")

    kind: ClassVar[Kind] = Kind.SPARSE
    deterministic: ClassVar[bool] = True
    impacts: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    requires: ClassVar[tuple[str, ...]] = ("pyterrier_pisa",)
    extra: ClassVar[str] = "pisa"

    def __post_init__(self) -> None:
        """Raise UnknownName for an unknown algorithm."""
        if self.algorithm not in _ALGORITHMS:
            raise UnknownName("algorithm of pisa:", self.algorithm, _ALGORITHMS)

    def build(self, shards: Iterable[sparse.csr_array], path: Path) -> None:
        """Write PISA's index of *shards* (n, vocabulary) into *path*, by way of the uncompressed collection.

        Raises LexbenchError for weights that are not whole or too large.
        """
        documents = write_collection(shards, path)
        _context(path)  # compresses, the first time
        remove_collection(path)
        (path / "documents").write_text(str(documents), encoding="ascii")

    def open(self, path: Path) -> "PisaIndex":
        """Map the index in *path* into memory."""
        return PisaIndex(self, path)


class PisaIndex(Index):
    """An opened index."""

    def __init__(self, settings: Pisa, path: Path) -> None:
        self._algorithm = settings.algorithm
        self._documents = int((path / "documents").read_text(encoding="ascii"))
        self._context = _context(path)

    def prepare(self, queries: sparse.csr_array) -> list[tuple[int, dict[str, float]]]:
        """Return each of *queries* (queries, vocabulary) in PISA's form: its number, and weights by the names of terms."""
        matrix = whole_weights(queries, "pisa")
        names, weights = list(map(term_name, matrix.indices.tolist())), matrix.data.astype(float).tolist()
        starts = matrix.indptr.tolist()
        rows = enumerate(slice(start, stop) for start, stop in pairwise(starts))
        return [(number, dict(zip(names[row], weights[row], strict=True))) for number, row in rows]

    def retrieve(self, prepared: list[tuple[int, dict[str, float]]], k: int) -> tuple[NDArray[Any], ...]:
        """Return PISA's hits of the best *k* for each prepared query: numbers of queries, names of documents, scores."""
        room = len(prepared) * k
        numbers, ranks = np.empty(room, np.int32), np.empty(room, np.int32)
        names, scores = np.empty(room, object), np.empty(room, np.float32)
        size = 0
        if self._context is not None:
            results = {"result_qidxs": numbers, "result_docnos": names, "result_ranks": ranks, "result_scores": scores}
            settings = {"k": k, "threads": 1, "query_weighted": 1, "pretokenised": 1}
            size = compiled_library().retrieve(self._context, self._algorithm, prepared, **settings, **results)
        return numbers[:size], names[:size], scores[:size]

    def search(self, queries: sparse.csr_array, k: int) -> Hits:
        """Return the *k* largest dot products of each of *queries* (queries, vocabulary); hits share a term with the query."""
        k = min(k, self._documents)
        hits = no_hits(queries.shape[0], k)
        pending = [query for query in self.prepare(queries) if query[1] and k]
        depth = min(k + k // 16 + _SPARE, self._documents)
        while pending:
            unsettled = []
            for query, docs, scores in self._hits(pending, depth):
                if len(docs) >= depth < self._documents and scores[-1] == scores[k - 1]:  # more documents may have this score
                    unsettled.append(query)
                else:
                    hits.docs[query[0], : len(docs[:k])] = docs[:k]
                    hits.scores[query[0], : len(docs[:k])] = scores[:k]
            pending, depth = unsettled, min(2 * depth, self._documents)
        return hits

    def _hits(
        self, queries: list[tuple[int, dict[str, float]]], depth: int
    ) -> Iterator[tuple[tuple[int, dict[str, float]], NDArray[np.int32], NDArray[np.float32]]]:
        """Yield each query with the documents and scores of its hits; PISA sorts equal scores by position."""
        for first in range(0, len(queries), _QUERIES):
            block = queries[first : first + _QUERIES]
            numbers, names, scores = self.retrieve(block, depth)
            docs = np.fromiter(map(int, names), np.int32, len(names))
            starts = np.searchsorted(numbers, [number for number, _ in block])  # queries come in ascending number
            for query, start, stop in zip(block, starts, [*starts[1:], len(numbers)], strict=True):
                positive = int(np.count_nonzero(scores[start:stop] > 0))  # ranked_or_taat returns zeros at the end
                matches = slice(start, start + positive)
                yield query, docs[matches], scores[matches]


def term_name(term: int) -> str:
    """Return the name of a term in PISA's lexicon."""
    return f"{term:0{_DIGITS}}"


def write_collection(shards: Iterable[sparse.csr_array], path: Path) -> int:
    """Write the uncompressed collection of *shards* (n, vocabulary) into *path*; return the number of documents.

    If no document has a term, PISA could not index anything, and nothing is written.
    """
    runs: list[SortedRun] = []
    postings, terms = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]  # per shard: of each term; of each document
    with TemporaryDirectory(dir=path) as folder:
        for shard in shards:
            matrix = whole_weights(shard, "pisa")
            runs.append(write_run(Path(folder, str(len(runs))), matrix.T.tocsr()))
            postings.append(np.bincount(matrix.indices, minlength=matrix.shape[1]))
            terms.append(np.diff(matrix.indptr))
        lengths, totals = np.concatenate(terms), np.sum(postings[1:], axis=0) if runs else postings[0]
        if totals.any():
            _write_postings(runs, totals, len(lengths), path)
            np.append(len(lengths), lengths).astype(np.uint32).tofile(path / "inv.sizes")
            names = {"documents": range(len(lengths)), "terms": map(term_name, np.flatnonzero(totals).tolist())}
            for kind, lexicon in _LEXICONS.items():
                (path / f"fwd.{kind}").write_text("".join(f"{name}\n" for name in names[kind]), encoding="ascii")
                compiled_library().build_binlex(str(path / f"fwd.{kind}"), str(path / f"fwd.{lexicon}"))
    return len(lengths)


def remove_collection(path: Path) -> None:
    """Remove the uncompressed collection in *path*, which only compressing needs."""
    for name in ("inv.docs", "inv.freqs", "inv.sizes", "fwd.documents", "fwd.terms"):
        (path / name).unlink(missing_ok=True)


def _write_postings(runs: list[SortedRun], totals: NDArray[np.int64], documents: int, path: Path) -> None:
    """Write `inv.docs` and `inv.freqs`: the postings of each term, *totals* (vocabulary,) of them, after their number."""
    with (path / "inv.docs").open("wb") as docs, (path / "inv.freqs").open("wb") as frequencies:
        np.array([1, documents], np.uint32).tofile(docs)
        for some in pieces(offsets_of(totals), _POSTINGS):
            merged = merge_runs(runs, some)
            present = np.flatnonzero(totals[some])
            for file, values in ((docs, merged.indices), (frequencies, merged.data)):
                np.insert(values, merged.indptr[present], totals[some][present]).astype(np.uint32).tofile(file)


def _context(path: Path) -> Any:
    """Return the index in *path*, which PISA compresses when it is first opened; None if no document has a term."""
    if not (path / "fwd.termlex").exists():
        return None
    library = compiled_library()
    context = library.RetrievalContext()
    with quiet():
        library.prepare_index(context, str(path), _ENCODING, _SCORER, _NO_STEMMER)
    return context


@cache
def compiled_library() -> Any:
    """Return the compiled part of pyterrier_pisa; importing the package would import PyTerrier."""
    package = find_spec("pyterrier_pisa")
    spec = PathFinder.find_spec("_pisathon", package.submodule_search_locations) if package else None
    if spec is None or spec.loader is None:
        raise CannotStart("pyterrier_pisa has no compiled part here; type: pip install --force-reinstall pyterrier_pisa")
    library = module_from_spec(spec)
    spec.loader.exec_module(library)
    return library
