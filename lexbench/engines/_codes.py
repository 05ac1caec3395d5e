"""Indexes of codes for `flat`: exact search of bits and of int8, whose candidates may be scored again by the vectors.

The folder has a file per part: the codes, and what they were made from if candidates are scored again.
"""

import json
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.engines.kernels.checks import all_finite, no_hits, ordered
from lexbench.engines.kernels.code_products import raw_scores, scored, source_scores
from lexbench.errors import LexbenchError
from lexbench.plugins import Index
from lexbench.types import Codes, Hits

_FACTS = "codes.json"
_DOCUMENTS = 4096  # scored at a time: 16 MB for 1,024 queries
_QUERIES = 1024
_FORMS = {"uint8": "bits", "int8": "int8"}


@dataclass(frozen=True)
class CodesIndex(Index):
    """Codes of documents on disk, and the vectors or finer codes that score candidates again."""

    codes: NDArray[Any]  # (documents, bytes), memory-mapped
    source: NDArray[Any] | None  # (documents, dimensions) float32, float16 or int8; None: candidates are not scored again
    rescore: int

    def search(self, queries: Codes, k: int) -> Hits:
        """Return the *k* best documents of each of *queries* by their codes; with *rescore*, of that many times k candidates.

        Raises LexbenchError for queries in other codes.
        """
        from lexbench.engines.kernels.dense import Best

        if not isinstance(queries, Codes) or queries.values.dtype != self.codes.dtype:
            raise LexbenchError(f"the index has codes ({_FORMS[self.codes.dtype.name]}) and the queries have none of these")
        wanted = min(k * max(self.rescore, 1), len(self.codes))
        hits = no_hits(len(queries.values), min(k, len(self.codes)))
        for start in range(0, len(queries.values), _QUERIES):
            batch = slice(start, start + _QUERIES)
            some = queries.rows(batch)
            best = Best(len(some.values), wanted)
            for position in range(0, len(self.codes), _DOCUMENTS):
                best.add(raw_scores(some, np.asarray(self.codes[position : position + _DOCUMENTS])), position)
            docs, raw = best.hits()
            found = Hits(docs, np.where(docs < 0, -np.inf, scored(some, raw)).astype(np.float32))
            again = self._scored_again(some, docs) if self.rescore else found
            hits.docs[batch], hits.scores[batch] = (part[:, : hits.docs.shape[1]] for part in again)
        return hits

    def _scored_again(self, queries: Codes, docs: NDArray[np.int32]) -> Hits:
        """Return the candidates *docs* (queries, n) ordered by the scores of what the codes were made from."""
        assert self.source is not None
        scores = np.full(docs.shape, -np.inf, np.float32)
        for row, candidates in enumerate(docs):
            there = candidates >= 0
            vectors = np.asarray(self.source[candidates[there]])
            scores[row, there] = source_scores(queries.rows(slice(row, row + 1)), vectors)[0]
        return ordered(docs, scores)


# ---- files -----------------------------------------------------------------------------------------------------------------


def write_codes(first: Codes, others: Iterable[Codes], storage: str, path: Path) -> None:
    """Write codes, and their source if they have one, into *path*; float sources as *storage*."""
    names = ["codes", *(["source"] if first.source is not None else [])]
    kinds = [part.dtype.name for part in _parts(first, storage)]
    with ExitStack() as stack:
        files = [stack.enter_context((path / name).open("wb")) for name in names]
        for shard in chain([first], others):
            for file, part in zip(files, _parts(shard, storage), strict=True):
                part.tofile(file)
    widths = [part.shape[1] for part in _parts(first, storage)]
    (path / _FACTS).write_text(json.dumps({"widths": widths, "kinds": kinds}) + "\n", encoding="utf-8")


def _parts(codes: Codes, storage: str) -> list[NDArray[Any]]:
    """Return the arrays that are written for *codes*."""
    source = codes.source.values if isinstance(codes.source, Codes) else codes.source
    if source is None:
        return [np.ascontiguousarray(codes.values)]
    if source.dtype != np.int8:
        with np.errstate(over="ignore"):
            source = np.ascontiguousarray(source, np.dtype(storage))
        all_finite(source, "a document vector")
    return [np.ascontiguousarray(codes.values), np.ascontiguousarray(source)]


def open_codes(path: Path, rescore: int) -> CodesIndex | None:
    """Return the index of codes in *path*, None if there is none."""
    if not (path / _FACTS).is_file():
        return None
    facts = json.loads((path / _FACTS).read_bytes())
    parts = zip(("codes", "source"), facts["kinds"], facts["widths"], strict=False)
    arrays = [mapped(path / name, np.dtype(kind), width) for name, kind, width in parts]
    return CodesIndex(arrays[0], arrays[1] if rescore else None, rescore)


def mapped(path: Path, kind: np.dtype[Any], width: int) -> NDArray[Any]:
    """Return the array (documents, width) in a file, mapped into memory."""
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty((0, width), kind)
    return np.asarray(np.memmap(path, kind, "r")).reshape(-1, width)
