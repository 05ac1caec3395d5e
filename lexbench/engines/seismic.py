"""Approximate sparse search on real weights by Seismic: inverted lists in clusters, each with a summary.

S. Bruch, F. M. Nardini, C. Rulli, R. Venturini, "Efficient Inverted Indexes for Approximate Retrieval over Learned Sparse
Representations", SIGIR 2024; the package pyseismic-lsr.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from lexbench.arrays.vectors import canonical
from lexbench.engines.kernels.checks import fill, no_hits, quiet
from lexbench.errors import CommandError, LexbenchError
from lexbench.plugins import Engine, Index
from lexbench.registry import at_search, runtime
from lexbench.types import Hits, Kind

_MOST = float(np.finfo(np.float16).max)  # Seismic keeps weights in half precision
_NARROW = 1 << 16  # terms whose numbers fit the smaller of its indexes


@dataclass(frozen=True)
class Seismic(Engine):
    """Seismic, built in memory. The settings have the library's names and defaults.

    *n_postings* is the mean length of an inverted list, and *max_fraction* times that is the greatest length.
    *centroid_fraction* is the number of clusters per posting, and *min_cluster_size* the fewest postings of a cluster.
    *summary_energy* is the share of the weight that a summary keeps. *doc_cut* terms of a document decide on its cluster. A
    search reads the lists of the *query_cut* largest weights of a query. It skips clusters whose summary promises less than
    *heap_factor* times the k-th best score so far: a smaller factor finds more. Seismic is made for long, sparse vectors; with
    few dimensions the summaries promise too little.

    Answers are not exact. Clusters are random, so two builds differ. Negative weights and document weights above 65,504 are
    refused. Document weights are kept in half precision: whole numbers are exact up to 2,048.
    """

    n_postings: int = 3500
    centroid_fraction: float = 0.1
    min_cluster_size: int = 2
    summary_energy: float = 0.4
    max_fraction: float = 1.5
    doc_cut: int = 15
    query_cut: int = at_search(25)
    heap_factor: float = at_search(0.8)
    threads: int = runtime(1)  # of building

    kind: ClassVar[Kind] = Kind.SPARSE
    exact: ClassVar[bool] = False
    requires: ClassVar[tuple[str, ...]] = ("seismic",)
    extra: ClassVar[str] = "seismic"

    def __post_init__(self) -> None:
        """Raise CommandError for settings with which the library would panic."""
        whole = (self.n_postings, self.min_cluster_size, self.doc_cut, self.query_cut, self.threads)
        real = (self.centroid_fraction, self.summary_energy, self.max_fraction, self.heap_factor)
        if min(whole) < 1 or min(real) <= 0:
            raise CommandError(f"{self}: every setting of seismic is above 0")

    def build(self, shards: Iterable[sparse.csr_array], path: Path) -> None:
        """Write the index of *shards* (n, vocabulary) into *path*; vectors and index are built in memory.

        Raises LexbenchError for weights that Seismic cannot hold.
        """
        dataset: Any = None
        documents = vocabulary = 0
        for shard in shards:
            matrix = _checked(shard, _MOST)
            if dataset is None:
                vocabulary = matrix.shape[1]
                dataset = _library("Dataset", vocabulary)(vocabulary)
            names = [str(position) for position in range(documents, documents + matrix.shape[0])]
            dataset.add_documents_by_id(
                names, matrix.indices.astype(np.int64), matrix.data.astype(np.float32), matrix.indptr.astype(np.int64)
            )
            documents += matrix.shape[0]
        filled = dataset is not None and dataset.len > 0
        facts = {"documents": documents, "vocabulary": vocabulary, "filled": filled}
        (path / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
        if filled:
            with quiet():
                fields = ("n_postings", "centroid_fraction", "min_cluster_size", "summary_energy", "max_fraction", "doc_cut")
                settings = {name: getattr(self, name) for name in fields}
                index = _library("Index", vocabulary).build_from_dataset(dataset, **settings, num_threads=self.threads)
                index.save(str(path / "vectors"))

    def open(self, path: Path) -> "SeismicIndex":
        """Read the index in *path* into memory."""
        return SeismicIndex(self, path)


class SeismicIndex(Index):
    """An opened index."""

    def __init__(self, settings: Seismic, path: Path) -> None:
        facts = json.loads((path / "facts.json").read_bytes())
        self._documents = int(facts["documents"])
        self._settings = settings
        self._text = import_module("seismic").get_seismic_string()
        with quiet():
            library = _library("Index", facts["vocabulary"])
            self._index = library.load(str(path / "vectors.index.seismic")) if facts["filled"] else None

    def prepare(self, queries: sparse.csr_array) -> list[Any]:
        """Return each of *queries* (queries, vocabulary) in Seismic's form: terms, as text, and weights."""
        matrix = _checked(queries, float(np.finfo(np.float32).max))
        terms, weights, starts = matrix.indices.astype(self._text), matrix.data.astype(np.float32), matrix.indptr
        return [(terms[start:stop], weights[start:stop]) for start, stop in pairwise(starts)]

    def retrieve(self, prepared: list[Any], k: int) -> list[Any]:
        """Return Seismic's answer to each prepared query: triples (query, score, document), best first."""
        cut, factor = self._settings.query_cut, self._settings.heap_factor
        return [
            self._index.search("", terms, weights, k=k, query_cut=cut, heap_factor=factor) if self._index else []
            for terms, weights in prepared
        ]

    def search(self, queries: sparse.csr_array, k: int) -> Hits:
        """Return about the *k* largest dot products of each of *queries* (queries, vocabulary); hits share a query term."""
        hits = no_hits(queries.shape[0], min(k, self._documents))
        for row, answer in enumerate(self.retrieve(self.prepare(queries), max(1, hits.docs.shape[1]))):
            docs = np.array([int(name) for _, _, name in answer], np.int32)
            scores = np.array([score for _, score, _ in answer], np.float32)
            fill(hits, row, docs[scores > 0], scores[scores > 0])
        return hits


def _library(part: str, vocabulary: int) -> Any:
    """Return Seismic's class *part* ("Dataset" or "Index") for so many terms."""
    return getattr(import_module("seismic"), f"Seismic{part}" + ("" if vocabulary <= _NARROW else "LV"))


def _checked(vectors: sparse.csr_array, most: float) -> sparse.csr_array:
    """Return *vectors* with ascending columns and no stored zeros. Raises LexbenchError for weights outside 0 to *most*."""
    matrix = canonical(vectors)
    wrong = ~((matrix.data >= 0) & (matrix.data <= most))
    if wrong.any():
        weight = matrix.data[wrong][0]
        raise LexbenchError(f"seismic takes weights from 0 to {most:,g}, and there is {weight:g}; scale the vectors")
    return matrix
