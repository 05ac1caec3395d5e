"""PLAID by fast-plaid, compared with exact late interaction; most tests skip where the library is not installed."""

import re
from functools import partial

import numpy as np
import pytest
from workbench import built, engine

from lexbench.engines import plaid as module
from lexbench.engines.maxsim import MaxSim
from lexbench.engines.plaid import Plaid
from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.types import MultiVectors

WIDTH, TOPICS = 64, 200
EMPTY = (0, 7, 8, 1499)  # documents without tokens


@pytest.fixture
def plaid():
    """Return a function that makes the engine; skip where fast-plaid or its torch is not installed."""
    try:
        engine("plaid")
    except CannotStart as missing:
        pytest.skip(str(missing))
    return partial(engine, "plaid")


def texts(count, seed, empty=()):
    """Return texts of 5 to 40 tokens of length 1, each near one of 200 directions, like words of one meaning."""
    topics = np.random.default_rng(0).normal(size=(TOPICS, WIDTH))
    rng = np.random.default_rng(seed)
    counts = rng.integers(5, 41, count)
    counts[list(empty)] = 0
    values = topics[rng.integers(0, TOPICS, counts.sum())] + rng.normal(size=(counts.sum(), WIDTH)) / 2
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return MultiVectors(values.astype(np.float32), np.cumsum([0, *counts]))


def test_it_finds_what_exact_search_finds(plaid, tmp_path):
    """Of the exact ten best of each query most are found, with scores that compression hardly changes, in order of score.

    Documents of three shards are numbered through; those without tokens are left out.
    """
    whole = texts(1500, 1, EMPTY)
    cuts = [(0, 600), (600, 600), (600, 1500)]
    shards = [whole.offsets[start : stop + 1] for start, stop in cuts]
    shards = [MultiVectors(whole.values[part[0] : part[-1]], part - part[0]) for part in shards]
    queries = texts(30, 2)
    exact = built(MaxSim(), tmp_path / "exact", whole).search(queries, 1500)
    hits = built(plaid(nbits=4), tmp_path / "plaid", *shards).search(queries, 10)
    found = np.mean([len(set(ours) & set(theirs)) / 10 for ours, theirs in zip(hits.docs, exact.docs[:, :10], strict=True)])

    assert found > 0.9
    assert hits.docs.dtype == np.int32
    assert hits.scores.dtype == np.float32
    assert (hits.docs >= 0).all()
    for docs, scores, ranked, true in zip(hits.docs, hits.scores, exact.docs, exact.scores, strict=True):
        places = [ranked.tolist().index(doc) for doc in docs]
        assert scores == pytest.approx(true[places], rel=0.03)
        assert np.array_equal(np.lexsort((docs, -scores)), np.arange(10))
        assert not set(docs.tolist()) & set(EMPTY)


def test_no_tokens_and_no_queries_find_nothing(plaid, tmp_path):
    """Without any tokens, without queries, and for queries without tokens nothing is found and nothing fails."""
    nothing = MultiVectors(np.zeros((0, WIDTH), np.float32), np.zeros(3, np.int64))
    queries = texts(3, 5, empty=[0, 2])
    index = built(plaid(), tmp_path / "index", texts(50, 6))

    assert built(plaid(), tmp_path / "none", nothing).search(queries, 2).docs.tolist() == [[-1, -1]] * 3
    assert index.search(MultiVectors(queries.values[:0], queries.offsets[:1]), 5).docs.shape == (0, 5)
    assert ((index.search(queries, 5).docs >= 0).sum(axis=1) == [0, 5, 0]).all()


def test_an_index_opens_again_and_says_nothing(plaid, tmp_path, capfd):
    """Opened twice, moved, and with more threads it answers the same; opening changes no vectors; nothing is printed."""
    queries = texts(30, 7)
    first = built(plaid(), tmp_path / "here", texts(300, 8)).search(queries, 10)
    before = {file.name: file.read_bytes() for file in (tmp_path / "here").rglob("*.npy")}
    moved = (tmp_path / "here").rename(tmp_path / "there")
    again = [plaid(threads=threads).open(moved).search(queries, 10) for threads in (1, 2)]

    assert all(np.array_equal(first.docs, hits.docs) and np.array_equal(first.scores, hits.scores) for hits in again)
    assert {file.name: file.read_bytes() for file in moved.rglob("*.npy")} == before
    assert capfd.readouterr() == ("", "")


def test_wrong_vectors_are_refused(plaid, tmp_path):
    """Queries of another width and documents with NaN are refused."""
    index = built(plaid(), tmp_path / "index", texts(20, 9))
    wrong = MultiVectors(np.full((1, WIDTH), np.nan, np.float32), np.array([0, 1]))

    with pytest.raises(LexbenchError, match="the queries have 3 dimensions and the index has 64"):
        index.search(MultiVectors(np.ones((1, 3), np.float32), np.array([0, 1])), 1)
    with pytest.raises(LexbenchError, match="a document vector has nan"):
        plaid().build(iter([wrong]), tmp_path)


def test_settings_that_cannot_be():
    """Bits that the library does not pack, and nothing to search in."""
    with pytest.raises(CommandError, match=re.escape("plaid(nbits=3): there is 1, 2, 4, 8")):
        Plaid(nbits=3)
    with pytest.raises(CommandError, match="every setting of plaid is above 0"):
        Plaid(n_ivf_probe=0)


def test_another_torch_than_it_was_built_for_is_refused(monkeypatch):
    """With another torch the library would end the process, so the error names both versions."""
    versions = {"torch": "2.13.0+cpu", "fast-plaid": "1.7.0.2110"}
    monkeypatch.setattr(module, "requires", lambda _: ["numpy>=1.26.4", "torch==2.11.0"])
    monkeypatch.setattr(module, "version", versions.get)

    with pytest.raises(CannotStart, match=r"fast-plaid 1\.7\.0\.2110 was built for torch 2\.11\.0, and this is torch 2\.13\.0"):
        Plaid()
    versions["torch"] = "2.11.0+cu130"
    assert Plaid().nbits == 2
