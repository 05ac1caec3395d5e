"""Approximate and compressed dense search by Faiss, any index of its factory: graphs, inverted lists, product quantisation.

M. Douze et al., "The Faiss library", 2024 (arXiv 2401.08281); the package faiss-cpu.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.engines.kernels.checks import all_finite, no_hits, one_width, ordered, quiet, same_width
from lexbench.errors import CommandError, LexbenchError
from lexbench.plugins import Engine, Index
from lexbench.registry import at_search, runtime
from lexbench.types import Hits, Kind

_QUERIES = 1024  # searched at a time: product quantisation makes a table for each, 50 KB at 48 bytes
_VECTORS = 16_384  # added at a time
_TRIAL_WIDTH = 768  # dimensions of the index that shows whether Faiss reads a factory's text
_WIDEST = 1 << 16
_EXAMPLES = "'Flat', 'HNSW32', 'IVF1024,Flat', 'PQ48', 'OPQ48_384,PQ48', 'IVF1024,PQ48', 'SQ8'"
_INDEX = "index.faiss"
_NOTHING = np.float32(-np.inf)  # the score of position -1


@dataclass(frozen=True)
class Faiss(Engine):
    """An index of Faiss for inner products, made by its `index_factory` from the text *factory*.

    'Flat' keeps vectors as they are, 'SQ8' one byte per dimension, 'PQ48' 48 bytes per vector (dimensions must be a multiple of
    48), 'OPQ48_384,PQ48' the same after a rotation. 'HNSW32' is a graph of 32 links per vector; with 'IVF1024,…' a search
    visits *nprobe* of 1,024 lists. RepCONC (PQ of 48 or 64 bytes) and ADORE with IVF are the compressed rows of the LexMAE
    paper's table.

    *ef_construction* and *ef_search* are how many candidates a graph keeps while building and searching; give at least the
    number of documents to find. An index that needs training is trained on at most *training* vectors, evenly spaced, so
    nothing is random. Faiss advises 39 vectors per cluster; 'PQ48' has 256 clusters. Settings that an index does not use change
    nothing. Scores of compressed vectors are computed from their compressed form.

    Lists are not exact, not even among equal scores. Graphs differ if *threads* is above 1, or if the shards differ.
    """

    factory: str = "HNSW32"
    ef_construction: int = 200
    training: int = 262_144
    ef_search: int = at_search(128)
    nprobe: int = at_search(32)
    threads: int = runtime(1)  # of building and searching

    kind: ClassVar[Kind] = Kind.DENSE
    deterministic: ClassVar[bool] = True  # with one thread
    exact: ClassVar[bool] = False
    requires: ClassVar[tuple[str, ...]] = ("faiss",)
    extra: ClassVar[str] = "faiss"

    def __post_init__(self) -> None:
        """Raise CommandError for settings that Faiss cannot read, that crash it, or with which it finds nothing."""
        if min(self.ef_construction, self.training, self.ef_search, self.nprobe, self.threads) < 1:
            raise CommandError(f"{self}: every number of faiss is above 0")
        if re.search(r"(?<!\d)0+(?!\d)|(HNSW|NSG)0*1(?!\d)", self.factory) or not _is_factory(self.factory):
            raise CommandError(f"faiss makes no index of inner products of factory={self.factory!r}; e.g. {_EXAMPLES}")

    def build(self, shards: Iterable[NDArray[np.float32]], path: Path) -> None:
        """Write the index of *shards* (n, dimensions) into *path*; it is built in memory.

        An index that needs training reads the vectors twice, the second time from a temporary file in *path*. Raises
        LexbenchError for vectors that are not finite, and if Faiss cannot make the index, e.g. from too few vectors or because
        of their width.
        """
        index: Any = None
        width = 0
        with TemporaryFile(dir=path) as waiting, _threads(self.threads):
            for shard in shards:
                width = one_width("faiss", width, shard.shape[1])
                all_finite(shard, "a document vector")
                vectors = np.ascontiguousarray(shard, np.float32)
                with self._errors_explained(width):
                    index = index or self._empty_index(width)
                    if index.is_trained:
                        index.add(vectors)
                    else:
                        vectors.tofile(waiting)
            waiting.flush()
            with self._errors_explained(width):
                if waiting.tell():
                    self._train_and_fill(index, np.memmap(waiting, np.float32, "r").reshape(-1, width))
                if index is not None and index.ntotal:
                    import_module("faiss").write_index(index, str(path / _INDEX))

    def _empty_index(self, width: int) -> Any:
        """Return an empty index with the settings."""
        index = _empty(self.factory, width)
        for part in _parts(index):
            if hasattr(part, "hnsw"):
                part.hnsw.efConstruction = self.ef_construction
            if hasattr(part, "do_polysemous_training"):
                part.do_polysemous_training = False  # takes minutes and is for Hamming distances, which nobody uses
        return index

    def _train_and_fill(self, index: Any, vectors: NDArray[np.float32]) -> None:
        """Train *index* on a sample of *vectors*, and add all of them."""
        count = min(self.training, len(vectors))
        if (clusters := _clusters(index)) > count:
            raise LexbenchError(
                f"faiss cannot learn the {clusters:,} clusters of {self.factory!r} from {count:,} vectors; use fewer, e.g. "
                f"'IVF{max(1, int(count**0.5))},Flat' or 'PQ48x4', which has 16, or what is not trained: 'HNSW32' or 'Flat'"
            )
        with quiet():  # it prints how many vectors it would like
            index.train(np.asarray(vectors[np.arange(count) * len(vectors) // count]))
        for start in range(0, len(vectors), _VECTORS):
            index.add(np.asarray(vectors[start : start + _VECTORS]))

    @contextmanager
    def _errors_explained(self, width: int) -> Iterator[None]:
        """Turn errors of Faiss, which name a C++ function and a condition, into LexbenchError."""
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            condition = " ".join(str(error).rpartition("' failed: ")[2].rpartition(".cpp:")[2].split())
            raise LexbenchError(
                f"faiss cannot make {self.factory!r} of vectors of {width:,} dimensions: {condition}; "
                "use another factory, e.g. 'HNSW32'"
            ) from error

    def open(self, path: Path) -> "FaissIndex":
        """Open the index in *path*, mapped into memory if Faiss can do that."""
        return FaissIndex(self, path)


class FaissIndex(Index):
    """An opened index."""

    def __init__(self, settings: Faiss, path: Path) -> None:
        self._threads = settings.threads
        self._index: Any = None  # if there are no documents
        if (path / _INDEX).exists():
            faiss = import_module("faiss")
            self._index = faiss.read_index(str(path / _INDEX), faiss.IO_FLAG_MMAP_IFC)
            for part in _parts(self._index):
                if hasattr(part, "hnsw"):
                    part.hnsw.efSearch = settings.ef_search
                if hasattr(part, "nprobe"):
                    part.nprobe = min(settings.nprobe, part.nlist)

    def search(self, queries: NDArray[np.float32], k: int) -> Hits:
        """Return about the *k* largest inner products of each of *queries* (queries, dimensions), fewer if no more are found.

        Raises LexbenchError for queries of another width, or that are not finite.
        """
        if self._index is None:
            return no_hits(len(queries), 0)
        same_width(queries.shape[1], self._index.d, "dimensions")
        all_finite(queries, "a query vector")
        hits = no_hits(len(queries), min(k, self._index.ntotal))
        if not hits.docs.size:
            return hits
        with _threads(self._threads):
            for start in range(0, len(queries), _QUERIES):
                batch = slice(start, start + _QUERIES)
                scores, docs = self._index.search(np.ascontiguousarray(queries[batch], np.float32), hits.docs.shape[1])
                hits.docs[batch], hits.scores[batch] = ordered(docs.astype(np.int32), np.where(docs < 0, _NOTHING, scores))
        return hits


def _is_factory(text: str) -> bool:
    """Return whether Faiss can make an index for inner products from *text*, at least for some widths."""
    # A number in the text may have to divide the width, e.g. that of PQ50.
    numbers = [number for number in map(int, re.findall(r"[0-9]+", text)) if 0 < number <= _WIDEST]
    for width in (_TRIAL_WIDTH, *numbers):
        with suppress(RuntimeError, MemoryError):
            return bool(_empty(text, width).metric_type == import_module("faiss").METRIC_INNER_PRODUCT)
    return False


def _empty(factory: str, dimensions: int) -> Any:
    """Return an empty index for inner products."""
    faiss = import_module("faiss")
    return faiss.index_factory(dimensions, factory, faiss.METRIC_INNER_PRODUCT)


def _parts(index: Any) -> Iterator[Any]:
    """Yield *index* and the indexes inside it, each as its own class."""
    faiss = import_module("faiss")
    index = faiss.downcast_index(index)
    yield index
    for name in ("index", "base_index", "quantizer", "storage"):
        inner = getattr(index, name, None)
        if isinstance(inner, faiss.Index):
            yield from _parts(inner)


def _clusters(index: Any) -> int:
    """Return the largest number of clusters that a part of *index* learns, 0 for none: it needs as many vectors."""
    parts = list(_parts(index))
    lists = [part.nlist for part in parts if hasattr(part, "nlist")]
    return int(max([0, *lists, *(part.pq.ksub for part in parts if hasattr(part, "pq"))]))


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let Faiss use *count* threads inside the context."""
    faiss = import_module("faiss")
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
