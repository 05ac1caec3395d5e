"""Exact dense search: every product, a block at a time, over memory-mapped vectors.

`maxsim` stores its vectors in the same files: one raw matrix, float32 or float16.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from lexbench.engines._codes import mapped, open_codes, write_codes
from lexbench.engines.kernels.checks import all_finite, no_hits, one_width, same_width
from lexbench.engines.kernels.on_devices import DeviceVectors, check_settings, places
from lexbench.errors import CommandError
from lexbench.plugins import Engine, Index
from lexbench.registry import optional, optional_at_search, runtime
from lexbench.types import Codes, Hits, Kind

_STORAGE = ("float32", "float16")
_METRICS = ("dot", "euclidean", "manhattan")
_QUERIES = 4096  # searched in one pass over the index: more would hardly be faster, and take more memory


@dataclass(frozen=True)
class FlatIndex(Index):
    """Document vectors on disk, row i at position i."""

    vectors: NDArray[Any]  # (documents, dimensions), float32 or float16, memory-mapped
    on: DeviceVectors | None = None  # the same vectors, for other devices than the processor
    similarity: str = "dot"

    def search(self, queries: NDArray[np.float32], k: int) -> Hits:
        """Return the *k* largest scores of each of *queries* (queries, dimensions); float32 as BLAS adds up products.

        Memory: 16 MB of scores, at most 17 bytes x 4,096 x k of candidates, and the hits. Raises LexbenchError for queries of
        another width, or with values that are not finite, and the errors of `DeviceVectors`.
        """
        from lexbench.engines.kernels.dense import Best, tiles
        from lexbench.engines.kernels.distances import products_of

        if len(self.vectors):
            same_width(queries.shape[1], self.vectors.shape[1], "dimensions")
        all_finite(queries, "a query vector")
        if self.on:
            return self.on.search(queries, None, k)
        hits = no_hits(len(queries), min(k, len(self.vectors)))
        for start in range(0, len(queries), _QUERIES):
            batch = slice(start, start + _QUERIES)
            best = Best(len(queries[batch]), hits.docs.shape[1])
            for query, position, products in tiles([self.vectors], queries[batch], products_of(self.similarity)):
                best.add(products, position, query)
            hits.docs[batch], hits.scores[batch] = best.hits()
        return hits


@dataclass(frozen=True)
class Flat(Engine):
    """Every document vector is multiplied with every query vector; nothing is approximate.

    With *storage* float16 the index is half as large, and scores are those of the rounded document vectors; products and sums
    are float32 in both cases. BLAS chooses its number of threads (OMP_NUM_THREADS and the like). *similarity* is "dot", or
    "euclidean" or "manhattan", which models may state: scores are then distances below 0.

    Codes of `binary` are compared by Hamming distance, codes of `int8` by products of whole numbers. With *rescore* above 0,
    that many times k candidates are found by codes and scored again by the vectors, or by int8 codes: `int8|binary`.

    *device*: "auto" searches an index of 64 MiB or more on the first GPU, if there is one; several, e.g. "cuda:0,cuda:1", share
    the index. Scores differ between devices in the last digits. *precision* "tf32" and "bfloat16" are faster on GPUs: before
    they are multiplied, numbers are rounded to 11 and to 8 significant bits.
    """

    storage: str = "float32"
    precision: str = optional_at_search("float32")
    device: str = runtime("auto")
    similarity: str = optional("dot")
    rescore: int = optional(0)

    kind: ClassVar[Kind] = Kind.DENSE
    exact: ClassVar[bool] = True
    codes: ClassVar[tuple[str, ...]] = ("int8", "bits")
    version: ClassVar[int] = 2
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for an unknown storage, similarity, device or precision, or what goes with none of them."""
        check_storage("flat", self.storage)
        check_settings("flat", self.device, self.precision)
        if self.similarity not in _METRICS:
            raise CommandError(f"flat(similarity={self.similarity!r}): there is {', '.join(_METRICS)}; for cosine type dot")
        if self.rescore < 0:
            raise CommandError(f"flat(rescore={self.rescore}): give a number above 0, e.g. 4, or 0 to score codes alone")
        if self.similarity != "dot":
            self._on_processor(self.similarity)

    def _on_processor(self, what: str) -> None:
        """Raise CommandError if another device or precision is stated than *what* is computed with."""
        if self.device not in ("auto", "cpu") or self.precision != "float32":
            raise CommandError(f'flat: {what} is computed on the processor in float32; type device="cpu", precision="float32"')

    def for_metric(self, metric: str) -> Self:
        """Return the engine that compares vectors by *metric*, if that is not the dot product."""
        return self if metric == "dot" else replace(self, similarity=metric)

    def build(self, shards: Iterable[NDArray[np.float32]], path: Path) -> None:
        """Write the vectors, or codes, of *shards* (n, dimensions) into *path*. Raises LexbenchError as `write_matrix` does."""
        left = iter(shards)
        first = next(left, None)
        if isinstance(first, Codes):
            write_codes(first, left, self.storage, path)
        else:
            write_matrix("flat", self.storage, () if first is None else chain([first], left), path)

    def open(self, path: Path) -> Index:
        """Map the vectors into memory, and compile the search if it has not been compiled on this machine before.

        Raises CannotStart if this machine lacks the device.
        """
        if codes := open_codes(path, self.rescore):
            self._on_processor("search by codes")
            return codes
        vectors = map_matrix(path)
        if self.similarity == "dot" and (found := places(self.device, self.precision, vectors.nbytes)):
            return FlatIndex(vectors, DeviceVectors(vectors, None, found, self.precision))
        if len(vectors):
            FlatIndex(vectors[:1]).search(np.zeros((1, vectors.shape[1]), np.float32), 1)
        return FlatIndex(vectors, similarity=self.similarity)


# ---- files -----------------------------------------------------------------------------------------------------------------


def check_storage(engine: str, storage: str) -> None:
    """Raise CommandError unless vectors can be stored as *storage*."""
    if storage not in _STORAGE:
        raise CommandError(f"{engine}(storage=…) takes {' or '.join(map(repr, _STORAGE))}, not {storage!r}")


def write_matrix(engine: str, storage: str, blocks: Iterable[NDArray[np.float32]], path: Path) -> None:
    """Write *blocks* (n, dimensions), one after another, into the folder *path*.

    Raises LexbenchError, naming *engine*, for blocks of different widths, and for values that are not finite as *storage*.
    """
    width = 0
    with (path / "vectors").open("wb") as file:
        for block in blocks:
            width = one_width(engine, width, block.shape[1])
            with np.errstate(over="ignore"):
                stored = np.ascontiguousarray(block, np.dtype(storage))
            all_finite(stored, "a document vector")
            stored.tofile(file)
    (path / "facts.json").write_text(json.dumps({"width": width, "storage": storage}) + "\n", encoding="utf-8")


def map_matrix(path: Path) -> NDArray[Any]:
    """Return the matrix (n, dimensions) in the folder *path*, mapped into memory."""
    facts = json.loads((path / "facts.json").read_bytes())
    return mapped(path / "vectors", np.dtype(facts["storage"]), facts["width"])
