"""A retriever finds candidates, and a reranker that reads query and document together orders them.

The *retrieve and rerank* of Shen et al., "LexMAE: Lexicon-Bottlenecked Pretraining for Large-Scale Retrieval" (ICLR 2023),
Table 9. What the retriever does not find no reranker can bring back, so a result says how much of what is relevant is among
the candidates.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.datasets.corpus import StoredCorpus, open_corpus
from lexbench.errors import CommandError
from lexbench.fusion.normalise import best, union
from lexbench.registry import at_search
from lexbench.retrievers._combination import Opened, check_candidates, key_of, refer, referred
from lexbench.retrievers.ensemble import Ensemble
from lexbench.types import Corpus, Document, Hits, Query, Reranker, Workshop

_PAIRS = 1500  # scored at a time, between which a run is kept; another number needs another version


@dataclass(frozen=True)
class Rerank:
    """The best *k* documents of the one of *parts*, in the order of the *reranker*'s scores alone; no others are returned.

    Of equal scores the lower position comes first. On a dataset that drops a query's own document that is one of the k where
    the retriever finds it: k - 1 others are ranked then, as in `pipeline`. The time that scoring takes is part of `search`.
    """

    parts: tuple[Any, ...]
    reranker: Reranker = field(metadata={"search": True})
    k: int = at_search(100)

    family: ClassVar[str] = "reranker"
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for settings that cannot be."""
        if len(self.parts) != 1 or not isinstance(self.reranker, Reranker):
            raise CommandError(
                'rerank takes a retriever and a reranker, as in rerank(bm25, cross_encoder(model="FOLDER"), k=100)'
            )
        if self.k < 1:
            raise CommandError(f"rerank(k={self.k}): a whole number from 1, as in k=100")
        (first,) = self.parts
        if not hasattr(first, "open"):
            raise CommandError(f"rerank: {type(first).__name__} has no index to search, so there are no candidates to rerank")
        if isinstance(first, Ensemble):
            first.check_depth(self.k)

    def check_depth(self, depth: int) -> None:
        """Raise CommandError where not all candidates are kept: their recall could not be told."""
        check_candidates("rerank", self.k, depth)

    def folders(self, workshop: Workshop) -> list[Path]:
        """Return the index of the retriever, and the corpus, whose texts are read."""
        return [workshop.index(self.parts[0]), workshop.texts()]

    def assemble(self, corpus: Corpus, path: Path, workshop: Workshop) -> None:  # noqa: ARG002 - the retriever reads the corpus
        """Write down in *path* which folders searching reads."""
        refer(self.folders(workshop), path)

    def open(self, path: Path) -> "RerankSearcher":
        """Open the retriever and the corpus."""
        index, texts = referred(path)
        return RerankSearcher((self.parts[0].open(index),), open_corpus(texts), self.reranker, self.k)


@dataclass(frozen=True)
class Asked:
    """Queries as text, as the retriever encoded them, and the scores of pairs that are known."""

    texts: Sequence[str]
    encoded: Any
    known: dict[tuple[str, int], float] = field(default_factory=dict)  # by query and position


@dataclass(frozen=True)
class RerankSearcher(Opened):
    """The opened retriever, and what orders its candidates."""

    corpus: StoredCorpus
    reranker: Reranker
    candidates: int

    @property
    def queries_at_a_time(self) -> int:
        """How many queries have about 1,500 pairs, or fewer if the retriever wants that."""
        return min(super().queries_at_a_time, max(1, _PAIRS // self.candidates))

    def encode(self, queries: Sequence[str]) -> Asked:
        """Let the retriever encode query texts."""
        return Asked(queries, self.parts[0].encode(queries))

    def encode_queries(self, queries: Sequence[Query], made: dict[Any, Any] | None = None) -> Asked:
        """Do the same for queries with their ids. Parts of one system with equal rerankers share the scores in *made*."""
        made = {} if made is None else made
        (encoded,) = super().encode_queries(queries, made)
        return Asked([query.text for query in queries], encoded, made.setdefault(("pairs", key_of(self.reranker)), {}))

    def search(self, encoded: Asked, k: int) -> Hits:
        """Return the best *k* of the candidates."""
        docs = union([self.parts[0].search(encoded.encoded, self.candidates)])
        return best(docs, self._scores(encoded, docs), k)

    def _scores(self, asked: Asked, docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the scores (queries, n) of *docs*, minus infinity where there is none; pairs that are known are not scored."""
        there = docs >= 0
        pairs = list(zip((asked.texts[row] for row in np.nonzero(there)[0].tolist()), docs[there].tolist(), strict=True))
        if new := [pair for pair in dict.fromkeys(pairs) if pair not in asked.known]:
            texts = self._documents(position for _, position in new)
            found = self.reranker.score([query for query, _ in new], [texts[position] for _, position in new])
            asked.known.update(zip(new, np.asarray(found, np.float32).tolist(), strict=True))
        scores = np.full(docs.shape, -np.inf, np.float32)
        scores[there] = [asked.known[pair] for pair in pairs]
        return scores

    def _documents(self, positions: Iterable[int]) -> dict[int, Document]:
        """Return the documents at *positions*, in the order of which they are read."""
        return {one: next(self.corpus.documents(one, one + 1)) for one in sorted(set(positions))}
