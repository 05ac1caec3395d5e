"""What `faiss` asks of the library: making, training, filling, writing and opening an index."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from lexbench.engines._quiet import quiet
from lexbench.errors import LexbenchError

_TRIED = 768  # dimensions of the index that shows whether a factory's text is read
_ADDED = 16_384  # vectors that are added at a time


def readable(factory: str) -> bool:
    """Tell whether Faiss reads *factory*, and knows inner products of it; some widths may be wrong for it all the same."""
    try:
        return bool(_made(factory, _TRIED).metric_type == faiss.METRIC_INNER_PRODUCT)
    except (RuntimeError, MemoryError) as refused:
        return "d % M == 0" in str(refused)  # it is the width


def opened(file: Path, ef_search: int, nprobe: int) -> Any:
    """Return the index in *file*, mapped as far as Faiss can, set to search with these."""
    index = faiss.read_index(str(file), faiss.IO_FLAG_MMAP_IFC)
    for part in _parts(index):
        if hasattr(part, "hnsw"):
            part.hnsw.efSearch = ef_search
        if hasattr(part, "nprobe"):
            part.nprobe = min(nprobe, part.nlist)
    return index


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let Faiss use so many threads meanwhile."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


class Builder:
    """An index in the making; vectors that it has to be trained on first wait in a file of *folder*."""

    def __init__(self, factory: str, ef_construction: int, training: int, count: int, folder: Path) -> None:
        self._factory, self._ef_construction, self._training, self._threads = factory, ef_construction, training, count
        self._waiting = folder / "vectors"
        self._dimensions = 0
        self._index: Any = None

    def add(self, vectors: NDArray[np.float32]) -> None:
        """Take the next vectors (n, dimensions). LexbenchError for what Faiss raises."""
        with self._telling():
            if self._index is None:
                self._dimensions = vectors.shape[1]
                self._index = self._empty()
            if self._index.is_trained:
                self._index.add(vectors)
                return
        with self._waiting.open("ab") as file:
            vectors.tofile(file)

    def write(self, target: Path) -> None:
        """Train the index if it has to be, fill it, and write it, if there were any vectors. LexbenchError likewise."""
        with self._telling():
            if self._waiting.exists() and self._waiting.stat().st_size:
                self._train_and_fill(np.memmap(self._waiting, np.float32, "r").reshape(-1, self._dimensions))
            if self._index is not None and self._index.ntotal:
                faiss.write_index(self._index, str(target))

    def _empty(self) -> Any:
        index = _made(self._factory, self._dimensions)
        for part in _parts(index):
            if hasattr(part, "hnsw"):
                part.hnsw.efConstruction = self._ef_construction
            if hasattr(part, "do_polysemous_training"):
                part.do_polysemous_training = False  # minutes, to number centroids for Hamming distances, which nobody uses
        return index

    def _train_and_fill(self, vectors: NDArray[np.float32]) -> None:
        count = min(self._training, len(vectors))
        with quiet():  # it prints how many it would like
            self._index.train(np.asarray(vectors[np.arange(count) * len(vectors) // count]))
        for start in range(0, len(vectors), _ADDED):
            self._index.add(np.asarray(vectors[start : start + _ADDED]))

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            with threads(self._threads):
                yield
        except (RuntimeError, MemoryError) as refused:
            raise LexbenchError(self._told(str(refused))) from refused

    def _told(self, reason: str) -> str:
        """Return what Faiss says, a C++ function and a condition, as a line that helps."""
        few = re.search(r"training points \((\d+)\) should be at least as large as number of clusters \((\d+)\)", reason)
        if few:
            vectors, clusters = map(int, few.groups())
            return (
                f"faiss cannot learn the {clusters:,} clusters of {self._factory!r} from {vectors:,} vectors; use fewer, as in "
                f"'IVF{max(1, int(vectors**0.5))},Flat' or 'PQ48x4', which has 16, or what is not trained: 'HNSW32' or 'Flat'"
            )
        said = " ".join(reason.rpartition("' failed: ")[2].rpartition(".cpp:")[2].split())
        return (
            f"faiss cannot make {self._factory!r} of vectors of {self._dimensions:,} dimensions: {said}; "
            "use another factory, such as 'HNSW32'"
        )


def _made(factory: str, dimensions: int) -> Any:
    """Return an empty index for inner products."""
    return faiss.index_factory(dimensions, factory, faiss.METRIC_INNER_PRODUCT)


def _parts(index: Any) -> Iterator[Any]:
    """Yield *index* and the indexes inside it, each as what it is."""
    index = faiss.downcast_index(index)
    yield index
    for name in ("index", "base_index", "quantizer", "storage"):
        inner = getattr(index, name, None)
        if isinstance(inner, faiss.Index):
            yield from _parts(inner)
