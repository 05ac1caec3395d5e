"""PLAID: late interaction on vectors compressed to a centroid and a few bits per number, by the library fast-plaid (LightOn).

K. Santhanam et al., "PLAID: An Efficient Engine for Late Interaction Retrieval", CIKM 2022, with the residual compression of
ColBERTv2. Each fast-plaid is built for one release of torch: 1.7.0.2110 for torch 2.11; there was none for torch 2.12 or later.
So the extra `plaid` is not in `all`. It needs a separate environment, installed without constraints.txt.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import requires, version
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.arrays.vectors import offsets_of
from lexbench.engines.kernels.checks import all_finite, fill, no_hits, one_width, same_width
from lexbench.errors import CannotStart, CommandError
from lexbench.plugins import Engine, Index
from lexbench.registry import at_search, runtime
from lexbench.types import Hits, Kind, MultiVectors

_BITS = (1, 2, 4, 8)
_INDEX = "plaid"  # the folder of the library's files


@dataclass(frozen=True)
class Plaid(Engine):
    """PLAID by fast-plaid; the settings have the library's names.

    *nbits* (1, 2, 4 or 8) are kept of each number; *kmeans_niters* iterations make the centroids. A search takes candidates
    from the *n_ivf_probe* nearest centroids of each query token. The best *n_full_scores* of them, by centroids alone, are
    scored in full. *threads* search different queries. It is made for vectors of length 1.

    Answers are never exact: scores are those of the compressed vectors, in half precision. Documents without tokens are never
    found, and queries without tokens find nothing.
    """

    nbits: int = 2
    kmeans_niters: int = 4
    n_ivf_probe: int = at_search(8)
    n_full_scores: int = at_search(4096)
    threads: int = runtime(1)

    kind: ClassVar[Kind] = Kind.MULTI
    exact: ClassVar[bool] = False
    compressed: ClassVar[bool] = True
    requires: ClassVar[tuple[str, ...]] = ("fast_plaid",)
    extra: ClassVar[str] = "plaid"

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings, and CannotStart for a torch that would crash the library."""
        if self.nbits not in _BITS:
            raise CommandError(f"plaid(nbits={self.nbits}): there is {', '.join(map(str, _BITS))}")
        if min(self.kmeans_niters, self.n_ivf_probe, self.n_full_scores, self.threads) < 1:
            raise CommandError(f"{self}: every setting of plaid is above 0")
        built_for = [pin[1] for line in requires("fast-plaid") or () if (pin := re.match(r"torch==([\d.]+)$", line))]
        if built_for and version("torch").partition("+")[0] != built_for[0]:
            raise CannotStart(
                f"plaid: fast-plaid {version('fast-plaid')} was built for torch {built_for[0]}, and this is torch "
                f"{version('torch')}; make an environment of its own: pip install 'lexbench[plaid]'"
            )

    def build(self, shards: Iterable[MultiVectors], path: Path) -> None:
        """Write the index of *shards* into *path*; meanwhile a temporary file in it holds the vectors as float32.

        Raises LexbenchError for shards of different widths, and for values that are not finite.
        """
        width, counts = 0, [np.zeros(0, np.int64)]
        with TemporaryFile(dir=path) as file:
            for shard in shards:
                width = one_width("plaid", width, shard.shape[1])
                counts.append(np.diff(shard.offsets))
                all_finite(shard.values, "a document vector")
                file.write(np.ascontiguousarray(shard.values, np.float32).tobytes())
            lengths = np.concatenate(counts)
            if lengths.any():
                index = _library(path).create(
                    list(_tensors(file, offsets_of(lengths[lengths > 0]), width)),
                    nbits=self.nbits,
                    kmeans_niters=self.kmeans_niters,
                    start_from_scratch=0,  # else it keeps the vectors of small collections, for additions
                )
                index.close()
        np.save(path / "positions.npy", np.flatnonzero(lengths))
        (path / "facts.json").write_text(json.dumps({"width": width, "documents": len(lengths)}) + "\n", encoding="utf-8")

    def open(self, path: Path) -> "PlaidIndex":
        """Map the index in *path* into memory."""
        facts = json.loads((path / "facts.json").read_bytes())
        return PlaidIndex(self, facts["width"], facts["documents"], np.load(path / "positions.npy"), path)


class PlaidIndex(Index):
    """An opened index."""

    def __init__(self, settings: Plaid, width: int, documents: int, positions: NDArray[np.int64], path: Path) -> None:
        self._settings, self._width, self._documents = settings, width, documents
        self._positions = positions  # of the documents with tokens: the library knows no others
        self._index = _library(path) if len(positions) else None

    def search(self, queries: MultiVectors, k: int) -> Hits:
        """Return about the best *k* documents of each of *queries*. Raises LexbenchError for queries of another width."""
        import torch

        hits = no_hits(queries.shape[0], min(k, self._documents))
        rows = np.flatnonzero(np.diff(queries.offsets))  # the queries that have tokens
        if self._index is None or not len(rows) or not k:
            return hits
        same_width(queries.shape[1], self._width, "dimensions")
        all_finite(queries.values, "a query vector")
        answers = self._index.search(
            [torch.from_numpy(queries.values[slice(*queries.offsets[row : row + 2])].copy()) for row in rows],
            top_k=min(k, len(self._positions)),
            n_ivf_probe=self._settings.n_ivf_probe,
            n_full_scores=max(k, self._settings.n_full_scores),
            n_processes=self._settings.threads,
            show_progress=False,
        )
        for row, pairs in zip(rows, answers, strict=True):
            docs = self._positions[[doc for doc, _ in pairs]].astype(np.int32)
            scores = np.array([score for _, score in pairs], np.float32)
            fill(hits, row, docs, scores)
        return hits


def _library(path: Path) -> Any:
    """Return the library's index in *path*."""
    return import_module("fast_plaid.search").FastPlaid(str(path / _INDEX), device="cpu")


def _tensors(file: IO[bytes], offsets: NDArray[np.int64], width: int) -> Iterator[Any]:
    """Yield the vectors (tokens, width) of each document, as tensors mapped from *file*."""
    import torch

    file.flush()
    # Mode "c" (copy on write), because torch warns of read-only arrays. No code writes to them.
    vectors = torch.from_numpy(np.memmap(file, np.float32, "c").reshape(-1, width))
    for start, stop in pairwise(offsets.tolist()):
        yield vectors[start:stop]
