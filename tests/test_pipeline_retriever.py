"""Candidates of one retriever, scored by others from stored data: the scores equal those of full exact searches."""

import random
import re

import pytest
import tiny
import workbench
from workbench import BM25, Bag, Folded, encoded, searched

from lexbench.encodings.shards import SHARD
from lexbench.errors import CommandError
from lexbench.notation import parse
from lexbench.retrievers.ensemble import Ensemble
from lexbench.retrievers.pipeline import Pipeline
from lexbench.runner import plan
from lexbench.runner.systems import resolve, system
from lexbench.storage.store import Store

DOCUMENTS, QUERIES = 2 * SHARD + 300, 12
BAG, HALF, FOLDED = Bag(300), Bag(300, "float16"), Folded(300)
WORDS = [f"w{i}" for i in range(300)]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Return a store for all tests of this file, which share its artifacts."""
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a BEIR folder of three shards of documents, some of them empty."""
    chance = random.Random(4)
    texts = {f"d{i:05d}": " ".join(chance.choices(WORDS, k=chance.randrange(12))) for i in range(DOCUMENTS)}
    queries = {f"q{i}": " ".join(chance.choices(WORDS, k=4)) for i in range(QUERIES)}
    judged = [(f"q{i}", f"d{j:05d}", 1) for i in range(QUERIES) for j in range(i, DOCUMENTS, 400)]
    return tiny.write(tmp_path_factory.mktemp("words") / "words", texts, queries, judged)


@pytest.fixture(scope="module")
def bench(folder, store):
    """Open the dataset in the store."""
    return workbench.opened(folder, store)


@pytest.mark.parametrize(
    ("encoder", "written", "exactly"),
    [
        (BAG, "|quantize(100)@impact", True),
        (BAG, "|top_k(3)|quantize(50)@impact", True),
        (BAG, "|quantize(100)@csr", True),
        (BAG, "@csr", False),
        (HALF, "|top_k(4)@csr", False),
        (FOLDED, "@flat", False),
    ],
)
def test_the_scores_are_those_of_a_full_search(bench, encoder, written, exactly):
    """Each candidate, from three shards, has the score of a search of the whole corpus; whole numbers to the bit."""
    second = encoded(encoder, written)
    first = searched(bench, resolve(parse(BM25)), 150)
    found = searched(bench, Pipeline(members=(resolve(parse(BM25)), second), weights=(0, 1), scores="raw", k=150), DOCUMENTS)
    everything = searched(bench, second, DOCUMENTS)
    for candidates, scored, full in zip(first, found, everything, strict=True):
        expected = {doc: full.get(doc, 0.0) for doc in candidates}  # a sparse engine does not list what has no common term
        assert len(candidates) > 20
        assert scored == (expected if exactly else pytest.approx(expected, rel=1e-5, abs=1e-5))
        ranked = sorted(scored, key=lambda doc: (-scored[doc], doc))
        assert list(scored) == ranked


def test_bm25_scores_what_another_found(bench):
    """Candidates of a dense retriever have the BM25 scores of a full search to the bit, and 0 without a query term."""
    first = encoded(FOLDED, "@flat")
    found = searched(bench, Pipeline(members=(first, resolve(parse(BM25))), weights=(0, 1), scores="raw", k=200), 1000)
    candidates = searched(bench, first, 200)
    everything = searched(bench, resolve(parse(BM25)), DOCUMENTS)
    zeros = 0
    for wanted, scored, full in zip(candidates, found, everything, strict=True):
        assert scored == {doc: full.get(doc, 0.0) for doc in wanted}
        zeros += list(scored.values()).count(0.0)

    assert 0 < zeros < 200 * QUERIES


def test_no_second_index_is_built(folder, tmp_path):
    """A later member needs only stored vectors and no index; the size counts the first index and these vectors."""
    made = Pipeline(members=(system("bm25").retriever, encoded(FOLDED, "@flat")), k=50)
    both = workbench.results(folder, Store(tmp_path / "store"), {"p": made, "bm25": "bm25"})
    (vectors,) = (tmp_path / "store" / "encodings").glob("*-*")
    bytes_of_vectors = sum(path.stat().st_size for path in vectors.glob("shard-*"))

    assert len(list((tmp_path / "store" / "indexes").glob("*-*"))) == 1
    assert both[0].sizes["index"] == both[1].sizes["index"] + bytes_of_vectors


def test_a_pipeline_adds_normalised_scores(bench):
    """With minmax and weights 2 and 1 each candidate has twice its BM25 score, and its second score, on scales from 0 to 1."""
    second = encoded(BAG, "|quantize(100)@impact")
    found = searched(bench, Pipeline(members=(resolve(parse(BM25)), second), weights=(2, 1), k=30), 1000)
    first, full = searched(bench, resolve(parse(BM25)), 30), searched(bench, second, DOCUMENTS)
    for scored, ones, every in zip(found, first, full, strict=True):
        twos = {doc: every.get(doc, 0.0) for doc in ones}
        low, high = min(twos.values()), max(twos.values())
        one_low, one_high = min(ones.values()), max(ones.values())
        expected = {d: 2 * (ones[d] - one_low) / (one_high - one_low) + (twos[d] - low) / (high - low) for d in ones}
        assert scored == pytest.approx(expected, abs=1e-6)


def test_members_can_be_nested(bench):
    """A pipeline of an ensemble and a pipeline: raw sums are the sums of the scores of each member alone."""
    bm25, bag, dense = resolve(parse(BM25)), encoded(BAG, "|quantize(100)@impact"), encoded(FOLDED, "@flat")
    finds = Ensemble(members=(bm25, bag), scores="raw", missing="rescored", weights=(1, 0.01), depth=40)
    scores = Pipeline(members=(Ensemble(members=(dense, bm25), scores="raw"), bag), scores="raw", weights=(1, 0.5))
    found = searched(bench, Pipeline(members=(finds, scores), scores="raw", weights=(1, 2), k=25), 25)
    full = [searched(bench, part, DOCUMENTS) for part in (bm25, bag, dense)]
    for row, scored in enumerate(found):
        words, bags, folds = (one[row] for one in full)
        assert len(scored) == 25
        for doc, score in scored.items():
            one, two = words.get(doc, 0), bags.get(doc, 0)
            assert score == pytest.approx(one + 0.01 * two + 2 * (folds[doc] + one + 0.5 * two), rel=1e-5)


def test_the_recall_of_the_candidates_is_noted(folder, store):
    """A note states the first retriever's recall at k, as it has alone; keeping fewer than k documents is refused."""
    with pytest.raises(CommandError, match=re.escape("pipeline(k=100) ranks 100 candidates and 10 are kept")):
        plan.plan_dataset(str(folder), ["pipeline(bm25, bm25)"], ["nDCG@10"], 10)
    made = Pipeline(members=(system("bm25").retriever, encoded(FOLDED, "@flat")), k=70)
    ranked, first = workbench.results(folder, store, {"p": made, "bm25": "bm25"}, ["nDCG@10", "R@70"])

    assert 0 < first.means["R@70"] < 1
    assert ranked.means["R@70"] == first.means["R@70"]
    assert ranked.means["nDCG@10"] != first.means["nDCG@10"]
    assert [note.text for note in ranked.notes] == [
        f"the candidates that its first retriever found have R@70 {first.means['R@70']:.4f}"
    ]
    assert first.notes == []


def test_a_pipeline_never_returns_more_than_its_candidates(bench):
    """Only the first retriever's k candidates are returned, even if more documents are asked for."""
    made = Pipeline(members=(resolve(parse(BM25)), resolve(parse("bm25(k1=2.0)"))), k=7)
    assert {len(found) for found in searched(bench, made, 1000)} == {7}
    assert {len(found) for found in searched(bench, made, 3)} == {3}


def test_retrievers_that_cannot_rescore_must_come_first():
    """Lucene's BM25 finds candidates but cannot score those of others, not even inside an ensemble."""
    pytest.importorskip("pyserini", reason="bm25@lucene is in the extra lucene")
    assert system("pipeline(bm25@lucene, bm25)").reusable
    for given in ("pipeline(bm25, bm25@lucene)", "pipeline(bm25, ensemble(bm25, bm25@lucene))"):
        with pytest.raises(CommandError, match="BM25Lucene cannot score documents that others found; bm25 and encoders can"):
            system(given)
