"""The contract of rerankers, on six pairs of a query and a document, some of them empty or very long."""

from typing import Any

import numpy as np
import pytest

from lexbench.artifacts.describe import describe, is_lasting
from lexbench.plugins import Reranker
from lexbench.types import Document

QUERIES = ["sparse retrieval", "the query", "w7", "", "sparse retrieval", "dense " * 300]
DOCUMENTS = [
    Document("a", "neural search dense term weight model", body_at=14),
    Document("b", "lexical"),
    Document("c", "the of and in is sparse dense retrieval " * 100),
    Document("d", "w8 w9 document"),
    Document("e", ""),
    Document("f", "query " * 300, body_at=6),
]


class RerankerContract:
    """The tests of a reranker. A subclass sets `plugin` to one, or overrides the fixture `reranker`."""

    plugin: Any

    @pytest.fixture
    def reranker(self) -> Any:
        """Return the reranker to check."""
        return self.plugin

    def test_one_score_per_pair(self, reranker: Any) -> None:
        """Each pair, also of empty and very long texts, has one finite float32 score."""
        scores = reranker.score(QUERIES, DOCUMENTS)

        assert isinstance(reranker, Reranker)
        assert (scores.shape, scores.dtype) == ((6,), np.float32)
        assert np.isfinite(scores).all()
        assert np.ptp(scores) > 0, "the pairs can be told apart"
        assert reranker.score([], []).shape == (0,)

    def test_a_score_depends_on_its_pair_alone(self, reranker: Any) -> None:
        """A pair has the same score alone, among others and in another order, except for rounding."""
        scores = reranker.score(QUERIES, DOCUMENTS)
        alone = [reranker.score([query], [document])[0] for query, document in zip(QUERIES, DOCUMENTS, strict=True)]
        backwards = reranker.score(QUERIES[::-1] * 3, DOCUMENTS[::-1] * 3)

        assert scores == pytest.approx(alone, abs=1e-4)
        assert backwards.reshape(3, 6)[:, ::-1] == pytest.approx(np.tile(scores, (3, 1)), abs=1e-4)

    def test_scores_are_repeatable(self, reranker: Any) -> None:
        """If the reranker is `deterministic`, it gives the same bits twice."""
        if not reranker.deterministic:
            pytest.skip("it is not `deterministic`")
        assert np.array_equal(reranker.score(QUERIES, DOCUMENTS), reranker.score(QUERIES, DOCUMENTS))

    def test_its_key_is_reusable(self, reranker: Any) -> None:
        """Its key identifies its scores in other sessions."""
        assert is_lasting(describe(reranker))
