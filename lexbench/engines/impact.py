"""Exact sparse search on quantised weights: postings are added up at the speed of the first-level cache."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.engines.kernels.checks import in_threads, map_bytes, no_hits, ordered, read_facts, same_width, whole_weights
from lexbench.errors import LexbenchError
from lexbench.plugins import Engine, Index
from lexbench.registry import runtime
from lexbench.types import Hits, Kind

_LAYOUT = 2  # version of the files; raise it when older indexes would be misread
_EXACT = 1 << 24  # float32 represents every whole number below
_MOST = 2**31 - 1  # the largest sum: compiled loops add in int32
_PARTS = 8  # parts of the queries per thread: queries differ, so a thread that is done takes the next part


@dataclass(frozen=True)
class Impact(Engine):
    """An inverted index of whole weights, searched exactly by a compiled loop; *threads* search different queries."""

    threads: int = runtime(1)

    kind: ClassVar[Kind] = Kind.SPARSE
    exact: ClassVar[bool] = True
    impacts: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True

    def index_identity(self) -> dict[str, int]:
        """Return the layout of the files: an index with another layout is built again."""
        return {"layout": _LAYOUT}

    def build(self, shards: "Iterable[scipy.sparse.csr_array]", path: Path) -> None:
        """Write the index of *shards* (n, vocabulary) of whole weights up to 65,535, in memory that does not grow with them.

        Raises LexbenchError for any other weight.
        """
        from lexbench.engines.kernels import impact_index

        with TemporaryDirectory(dir=path) as folder:
            postings = impact_index.Sorter(Path(folder))
            for shard in shards:
                postings.add(shard)
            postings.flush()
            impact_index.write_index(postings, path, _LAYOUT)

    def open(self, path: Path) -> "ImpactIndex":
        """Map the index into memory, and compile the search if it has not been compiled on this machine before."""
        return ImpactIndex(path, self.threads)


class ImpactIndex(Index):
    """An opened index."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        from lexbench.engines.kernels import impact_search, llvm

        self._kernel: Any = impact_search
        self._threads = threads
        self._expands = llvm.machine_expands()
        facts = read_facts(path, "impact", _LAYOUT)
        self.documents, self.vocabulary, self._window = facts["documents"], facts["vocabulary"], facts["window"]
        self._largest, self._lists = np.load(path / "largest_weight.npy"), np.load(path / "lists.npy")
        packed = (map_bytes(path / f"{name}.bin") for name in ("gaps", "weights"))
        bitmaps = np.asarray(np.load(path / "bitmaps.npy", mmap_mode="c"))  # mode "c" as in `map_bytes`
        self._arrays: tuple[Any, ...] = (*packed, bitmaps, np.load(path / "starts.npy"), self._window, self.documents)
        self.search(scipy.sparse.csr_array((1, self.vocabulary), dtype=np.float32), 1)

    def search(self, queries: "scipy.sparse.csr_array", k: int) -> Hits:
        """Return the best *k* documents of each of *queries* (queries, vocabulary) of whole weights up to 65,535.

        Sums are exact. Scores above 2**24 are then rounded to float32, and ties are put in order of position again. Raises
        LexbenchError for any other weight, or if a sum could reach 2**31.
        """
        count, k = queries.shape[0], min(k, self.documents)
        if not (count and k):
            return no_hits(count, k)
        query_lists = self._lists_of(queries)
        each = count if self._threads == 1 else -(-count // (_PARTS * self._threads))
        parts = [slice(first, min(first + each, count)) for first in range(0, count, each)]
        found = in_threads(lambda rows: self._search(query_lists, k, rows), parts, self._threads)
        return Hits(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))

    def _lists_of(self, queries: "scipy.sparse.csr_array") -> tuple[NDArray[Any], ...]:
        """Return the lists of postings of *queries*: where those of each query start, the lists, factors and bounds."""
        same_width(queries.shape[1], self.vocabulary)
        columns = queries.indptr.astype(np.int64), queries.indices.astype(np.int32), queries.data.astype(np.float32)
        starts, *of_lists, valid, most = self._kernel.lists_of(*columns, self._lists, self._largest)
        if not valid:
            whole_weights(queries, "impact")  # raises an error that says what is wrong
        if most > _MOST:
            raise LexbenchError(
                f"impact adds up to {_MOST:,}, and the scores of a query could reach {most:,}; quantise with a smaller factor"
            )
        return starts, *of_lists

    def _search(self, query_lists: tuple[Any, ...], k: int, rows: slice) -> Hits:
        """Return the hits (n, k) of the queries in *rows*."""
        starts, *of_lists = query_lists
        # Keys come with all bits flipped, so that an ascending sort puts the best first and untouched rows last.
        best = np.full((rows.stop - rows.start, k), ~np.uint64(0))
        self._kernel.search(*self._arrays, starts[rows.start : rows.stop + 1], *of_lists, self._expands, best)
        best.sort(axis=1)
        docs = (best & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32)  # of an untouched key: -1
        hits = Hits(docs, np.where(docs < 0, np.float32(-np.inf), (~best >> np.uint64(32)).astype(np.float32)))
        return ordered(*hits) if hits.scores.max() >= _EXACT else hits
