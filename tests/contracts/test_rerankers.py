"""What every reranker must do, checked on each by name."""

import checkpoints
import numpy as np
import pytest

from lexbench import registry
from lexbench.errors import CommandError, MissingExtra, UnknownName
from lexbench.notation import Call
from lexbench.plugins import Reranker
from lexbench.runner import systems
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a tiny model, for rerankers that take one."""
    return checkpoints.cross_encoder(tmp_path_factory.mktemp("model"))


@pytest.fixture(params=registry.names("rerankers"))
def name(request):
    """Name one reranker; skip it where its extra is not installed."""
    try:
        registry.load("rerankers", request.param)
    except MissingExtra as missing:
        pytest.skip(str(missing))
    return request.param


@pytest.fixture
def reranker(name, folder):
    """Make one reranker with its default settings."""
    takes = registry.load("rerankers", name).__dataclass_fields__
    return registry.create("rerankers", Call(name, kwargs=(("model", str(folder)),) if "model" in takes else ()))


def test_one_score_a_pair(reranker):
    """Each pair has one finite float32 score, empty and very long texts too, and no pairs have none."""
    scores = reranker.score(QUERIES, DOCUMENTS)

    assert isinstance(reranker, Reranker)
    assert (scores.shape, scores.dtype) == ((6,), np.float32)
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0, "the pairs can be told apart"
    assert reranker.score([], []).shape == (0,)


def test_a_score_depends_on_its_pair_alone(reranker):
    """Alone, among others and in another order a pair has the same score, but for rounding."""
    scores = reranker.score(QUERIES, DOCUMENTS)
    alone = [reranker.score([query], [document])[0] for query, document in zip(QUERIES, DOCUMENTS, strict=True)]
    backwards = reranker.score(QUERIES[::-1] * 3, DOCUMENTS[::-1] * 3)

    assert scores == pytest.approx(alone, abs=1e-4)
    assert backwards.reshape(3, 6)[:, ::-1] == pytest.approx(np.tile(scores, (3, 1)), abs=1e-4)


def test_the_same_pairs_score_the_same(reranker):
    """A reranker that calls itself deterministic gives the same bits twice."""
    if not getattr(reranker, "deterministic", False):
        pytest.skip("it does not call itself deterministic")
    assert np.array_equal(reranker.score(QUERIES, DOCUMENTS), reranker.score(QUERIES, DOCUMENTS))


def test_another_session_knows_it(reranker):
    """What decides its scores is told in full, so that runs are found again."""
    assert systems.reusable(systems.describe(reranker))


def test_an_unknown_setting_is_refused(name):
    """A setting that there is not costs one line."""
    with pytest.raises((UnknownName, CommandError)) as caught:
        registry.create("rerankers", Call(name, kwargs=(("no_such_setting", 1),)))
    assert "\n" not in str(caught.value)
