"""A retriever: documents by their text, whatever is asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lexbench import Corpus, Hits, Retriever, Searcher


@dataclass(frozen=True)
class Opened(Searcher):
    """Positions (documents,) in the order of the texts."""

    order: NDArray[np.int32]

    def encode(self, queries: Sequence[str]) -> int:
        """Only the number of queries matters."""
        return len(queries)

    def search(self, encoded: int, k: int) -> Hits:
        """Return the same list for every query, scored by one over the rank."""
        docs = np.tile(self.order[:k], (encoded, 1))
        scores = np.tile(1 / np.arange(1, docs.shape[1] + 1, dtype=np.float32), (encoded, 1))
        return Hits(docs, scores)


@dataclass(frozen=True)
class Alphabetical(Retriever):
    """*backwards* puts the last text first."""

    backwards: bool = False

    def build(self, corpus: Corpus, path: Path) -> None:
        """Write the order of the texts."""
        texts = [document.text for document in corpus.documents()]
        order = np.argsort(np.array(texts), kind="stable").astype(np.int32)
        np.save(path / "order.npy", order[::-1] if self.backwards else order)

    def open(self, path: Path) -> Opened:
        """Read it."""
        return Opened(np.load(path / "order.npy"))
