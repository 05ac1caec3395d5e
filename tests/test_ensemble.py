"""Several retrievers fused into one list: every rule by hand, by an independent reference, and through the whole harness."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
from tiny import tree
from tiny import write as beir_folder
from workbench import bytes_needed, results

from lexbench.analysis.stored_results import stored_results
from lexbench.arrays.fusion import Rule, weighted_sum
from lexbench.display.progress import Progress
from lexbench.engines.csr import Csr
from lexbench.engines.flat import Flat
from lexbench.engines.impact import Impact
from lexbench.errors import LexbenchError
from lexbench.plugins import Searcher
from lexbench.retrievers.encoded import Encoded
from lexbench.retrievers.ensemble import Ensemble, EnsembleSearcher
from lexbench.retrievers.pipeline import Pipeline
from lexbench.runner import jobs, plan
from lexbench.runner.plan import systems_of
from lexbench.runner.search import read_run
from lexbench.runner.systems import describe, system, variants
from lexbench.storage.store import Store
from lexbench.types import Hits

# Two lists over four documents at the positions 0 to 3; document 1 is in both.
FIRST = ((1, 4.0), (0, 2.0), (2, 1.0))
SECOND = ((3, 10.0), (1, 5.0))
ROOT = math.sqrt(14)  # the scores of FIRST have the standard deviation ROOT / 3 about 7 / 3


class Listed(Searcher):
    """A searcher whose encoded queries are finished lists."""

    def search(self, encoded, k):
        """Return the first *k* entries of the list of each query."""
        rows = [list(one)[:k] + [(-1, -np.inf)] * (k - len(one)) for one in encoded]
        docs, scores = zip(*(zip(*row, strict=True) for row in rows), strict=True)
        return Hits(np.array(docs, np.int32), np.array(scores, np.float32))


def ensemble(lists, weights, scores="minmax", missing="min"):
    """Fuse *lists*, one per member, of a single query; return {position: score} in the order of the ranking."""
    searcher = EnsembleSearcher(tuple(Listed() for _ in lists), Rule(weights, scores, missing, 60), 1000, None)
    hits = searcher.search([[one] for one in lists], 10)
    return by_position(hits.docs[0], hits.scores[0])


def by_position(docs, scores):
    """Return {position: score} of the documents of one query."""
    there = docs >= 0
    return dict(zip(docs[there].tolist(), scores[there].tolist(), strict=True))


@pytest.mark.parametrize(
    ("scores", "missing", "expected"),
    [
        ("raw", "min", {1: 4 + 2.5, 3: 1 + 5, 0: 2 + 2.5, 2: 1 + 2.5}),
        ("raw", "zero", {1: 4 + 2.5, 3: 5, 0: 2, 2: 1}),
        ("minmax", "min", {1: 1, 3: 0.5, 0: 1 / 3, 2: 0}),
        ("minmax", "zero", {1: 1, 3: 0.5, 0: 1 / 3, 2: 0}),
        ("z", "min", {1: 5 / ROOT - 0.5, 3: -4 / ROOT + 0.5, 0: -1 / ROOT - 0.5, 2: -4 / ROOT - 0.5}),
        ("z", "zero", {1: 5 / ROOT - 0.5, 3: 0.5, 0: -1 / ROOT, 2: -4 / ROOT}),
        ("rrf", "zero", {1: 1 / 61 + 0.5 / 62, 0: 1 / 62, 2: 1 / 63, 3: 0.5 / 61}),
        ("rrf", "min", {1: 1 / 61 + 0.5 / 62, 0: 1.5 / 62, 3: 1 / 63 + 0.5 / 61, 2: 1 / 63 + 0.5 / 62}),
    ],
)
def test_every_rule_by_hand(scores, missing, expected):
    """Two lists, weights 1 and 0.5: the sums are calculated by hand, best first."""
    found = ensemble([FIRST, SECOND], (1.0, 0.5), scores, missing)

    assert list(found) == sorted(expected, key=lambda doc: (-expected[doc], doc))
    assert found == pytest.approx(expected, abs=1e-6)


def test_ties_go_to_the_lower_position():
    """Equal sums stand in the canonical order, also across the lists and in ranks."""
    assert list(ensemble([((3, 1.0), (0, 0.0)), ((1, 1.0), (0, 0.0))], (1.0, 1.0))) == [1, 3, 0]
    by_rank = ensemble([((0, 2.0), (5, 2.0)), ((7, 1.0),)], (1.0, 1.0), "rrf", "zero")
    assert by_rank == pytest.approx({0: 1 / 61, 7: 1 / 61, 5: 1 / 62})


def test_lists_without_spread_and_without_documents():
    """If all scores of a list are equal, minmax is 1 and z is 0. An empty list adds nothing, and two give no documents."""
    alike = ((0, 3.0), (2, 3.0))
    assert ensemble([alike, ((1, 5.0), (0, 4.0))], (1.0, 1.0), "minmax", "zero") == {0: 1, 1: 1, 2: 1}
    assert ensemble([alike, ()], (1.0, 1.0), "z") == {0: 0, 2: 0}
    assert ensemble([alike, ()], (1.0, 1.0), "raw") == {0: 3, 2: 3}
    assert ensemble([(), ()], (1.0, 1.0)) == {}


@pytest.mark.parametrize("scores", ["raw", "minmax", "z", "rrf"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_score_that_is_no_number_is_not_taken_for_none(scores, wrong):
    """A score of NaN or infinity is an error. It does not count as a document that the member did not find."""
    with pytest.raises(LexbenchError, match="not a finite number; run each alone"):
        ensemble([((1, wrong), (0, 2.0)), SECOND], (1.0, 1.0), scores)


def test_each_list_is_cut_to_the_depth():
    """With depth 1 only the best of each list counts; with a larger k lists are as long as k."""
    searcher = EnsembleSearcher((Listed(),) * 2, Rule((1.0, 1.0), "raw", "zero", 60), 1, None)
    assert searcher.search([[FIRST], [SECOND]], 1).docs.tolist() == [[3]]
    assert searcher.search([[FIRST], [SECOND]], 2).docs.tolist() == [[3, 1]]


def random_list(rng, corpus, longest):
    """Return a list in canonical order: up to *longest* of *corpus* positions, with scores that often tie."""
    docs = rng.choice(corpus, rng.integers(0, longest), replace=False)
    scores = (rng.integers(0, 40, len(docs)) / 8).tolist()
    return tuple(sorted(zip(docs.tolist(), scores, strict=True), key=lambda entry: (-entry[1], entry[0])))


@pytest.mark.parametrize("scores", ["minmax", "rrf"])
def test_pyserini_gives_the_same_sums(scores):
    """pyserini.fusion, where it has the rule: normalised scores and reciprocal ranks, summed, a missing document counting 0."""
    fusion = pytest.importorskip("pyserini.fusion", reason="pyserini is in the extra lucene")
    from pyserini.trectools import TrecRun

    rng = np.random.default_rng(9)
    lists = [random_list(rng, 60, 50) for _ in range(3)]
    rows = [[("q", "Q0", str(doc), rank, score, "t") for rank, (doc, score) in enumerate(one, 1)] for one in lists]
    runs = [TrecRun.from_list(row) for row in rows]
    theirs = fusion.normalize(runs) if scores == "minmax" else fusion.reciprocal_rank_fusion(runs)
    expected = {int(doc): float(score) for doc, score in zip(theirs.run_data["docid"], theirs.run_data["score"], strict=True)}
    found = EnsembleSearcher((Listed(),) * 3, Rule((1.0,) * 3, scores, "zero", 60), 60, None).search([[o] for o in lists], 60)

    assert by_position(found.docs[0], found.scores[0]) == pytest.approx(expected, abs=1e-6)


TEXTS = ("red fox", "a red red car", "blue sky", "blue blue car park", "the fox and the sky", "a car", "sky sky sky fox")


@pytest.fixture
def tiny(store, tmp_path):
    """Write a BEIR folder of seven documents and three queries; its store is empty."""
    documents = {f"d{i}": text for i, text in enumerate(TEXTS)}
    judged = [("q0", "d1", 1), ("q1", "d4", 1), ("q1", "d6", 1), ("q2", "d3", 1)]
    return beir_folder(tmp_path / "tiny", documents, {"q0": "red car", "q1": "fox sky", "q2": "blue"}, judged)


def entries(run):
    """Return the scores of a run: {(query, position): score}."""
    queries = np.repeat(np.arange(len(run.query_ids)), np.diff(run.offsets))
    return dict(zip(zip(queries.tolist(), run.docs.tolist(), strict=True), run.scores.tolist(), strict=True))


class Counted:
    """A dense encoder that counts letters, and how many documents it has seen; its identity is its name."""

    seen = 0

    def identity(self):
        """Say the same always."""
        return "letters"

    def encode_document(self, texts):
        """Count the texts, and return counts (texts, 26)."""
        type(self).seen += len(texts)
        return self.encode_query(texts)

    def encode_query(self, texts):
        """Return counts (texts, 26)."""
        return np.array([[text.count(chr(97 + i)) for i in range(26)] for text in texts], np.float32)


def test_members_share_artifacts_with_the_same_systems_alone(tiny, store):
    """A member that runs alone and in two ensembles is encoded and indexed once; sizes and times are sums over members."""
    Counted.seen = 0
    dense, bm25 = system(Counted()).retriever, system("bm25").retriever
    both = Ensemble(members=(bm25, dense), weights=(1, 0.3))
    given = {"bm25": "bm25", "dense": dense, "both": both, "twice": replace(both, members=(both, dense, bm25), weights=())}
    found = results(tiny, store, given)

    assert Counted.seen == len(TEXTS)
    assert len(list((store.root / "encodings").glob("*-*"))) == 1
    assert len(list((store.root / "indexes").glob("*-*"))) == 2
    sizes = [one.sizes["index"] for one in found]
    assert sizes[2] == sizes[3] == sizes[0] + sizes[1]
    bm25_took, dense_took, both_took, twice_took = (one.measured.seconds for one in found)
    assert twice_took["build"] == both_took["build"] == pytest.approx(bm25_took["build"] + dense_took["build"])
    assert both_took["encode"] == twice_took["encode"] == dense_took["encode"]


def test_the_run_is_the_sum_of_the_members_runs(tiny, store):
    """Typed, stored and run, an ensemble has the sums of its members' scores."""
    typed = "ensemble(bm25, bm25(k1=2.0, b=0.9), weights=[1, 0.25], scores='raw', missing='zero')"
    results(tiny, store, ["bm25", "bm25(k1=2.0, b=0.9)", typed])
    kept = {one.result.system: read_run(one.run).run for one in stored_results(store).entries}
    fused = entries(next(run for name, run in kept.items() if name.startswith("ensemble")))
    plain, tuned = entries(kept["bm25"]), entries(kept["bm25(b=0.9, k1=2.0)"])

    assert fused == pytest.approx({at: plain.get(at, 0) + 0.25 * tuned.get(at, 0) for at in {*plain, *tuned}}, abs=1e-5)


def test_a_removed_member_index_is_made_again(tiny, store):
    """If the index of a member was removed from the store, its results stay, and the same command makes it again."""
    typed = "ensemble(bm25, bm25(k1=2.0))"
    (first,) = results(tiny, store, [typed])
    (part,) = (store.root / "indexes").glob("*bm25-*")
    shutil.rmtree(part)
    assert [one.means for one in stored_results(store)] == [first.means]
    (again,) = results(tiny, store, [typed])

    assert again.means == first.means
    assert part.is_dir()


def test_defaults_are_filled_in():
    """Defaults typed or left out have one key: weights, and the rule for missing documents."""
    plain = system("ensemble(bm25, bm25(k1=2.0))")

    assert plain.recipe == system("ensemble(bm25, bm25(k1=2), weights=[1, 1.0], missing='min', depth=1000)").recipe
    assert plain.recipe != system("ensemble(bm25, bm25(k1=2.0), weights=[1, 0.5])").recipe
    assert replace(plain.retriever, weights=tuple(np.float32([1, 2]))).weights == (1.0, 2.0)
    assert plain.recipe != system("ensemble(bm25, bm25(k1=2.1))").recipe
    assert plain.name == "ensemble(bm25, bm25(k1=2.0))"
    assert system("ensemble(bm25, bm25, scores='rrf')").retriever.missing == "zero"
    assert system("ensemble(bm25, bm25(k1=2.0), weights=[1, 1])").name == "ensemble(bm25, bm25(k1=2.0), weights=[1, 1])"
    weighted = system("ensemble(bm25, bm25(k1=2.0), weights=[3, 1])").retriever
    assert describe(weighted, index=True) == describe(plain.retriever, index=True)


def test_lists_in_members_make_several_systems_and_weights_one():
    """top_k([64, 32]) in a member makes two ensembles at any depth of nesting; weights=[...] is a setting."""
    nested = "ensemble(bm25, ensemble(bm25, x|top_k([64, 32])@csr, weights=[1, 2]), weights=[1, 0.5])"

    assert variants(nested) == [nested.replace("[64, 32]", k) for k in ("64", "32")]
    four = [f'a|top_k(k={k})|quantize({scale}, mode="floor")' for k in (2, 1) for scale in (8, 9)]
    assert variants("a|top_k(k=[2, 1])|quantize([8, 9], mode='floor')") == four
    assert variants("bm25(k1=1.2)") == ["bm25(k1=1.2)"]
    weighted = "ensemble(bm25, bm25(k1=2.0), weights=[1, 2])"
    assert [one.name for one in systems_of([weighted])] == [weighted]


def test_the_disk_estimate_counts_members_once(tmp_path):
    """An ensemble of systems that also run alone needs only its run: 300 queries, 1,000 documents, 16 bytes."""
    alone = plan.plan_dataset("beir/scifact/test", ["bm25", "bm25(k1=2.0)"], ["nDCG@10"], 1000)
    both = plan.plan_dataset("beir/scifact/test", ["bm25", "bm25(k1=2.0)", "ensemble(bm25, bm25(k1=2.0))"], ["nDCG@10"], 1000)

    assert bytes_needed(both, tmp_path) == bytes_needed(alone, tmp_path) + 300 * 1000 * 16


class Interrupting(Progress):
    """Progress that interrupts the work like Ctrl-C after an allowed number of reports."""

    def __init__(self, allowed):
        self.left = allowed

    def start(self, *_arguments):
        """Count."""
        self.advance()

    def advance(self, count=1):
        """Count."""
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_an_interruption_anywhere_changes_no_byte(tiny, tmp_path):
    """Hybrids that are interrupted at any report of progress and started again end in the same bytes."""
    dense = system(Counted()).retriever
    both = Ensemble(members=(system("bm25").retriever, dense), missing="rescored")
    planned = plan.plan_dataset(str(tiny), {"both": both, "nested": Pipeline(members=(both, both), k=3)}, ["nDCG@10"], 1000)
    list(jobs.run(planned, Store(tmp_path / "calm")))
    interruptions = 0
    for allowed in range(1, 100):
        try:
            list(jobs.run(planned, Store(tmp_path / "hurried"), Interrupting(allowed)))
        except KeyboardInterrupt:
            interruptions += 1
        else:
            break

    assert interruptions > 5
    assert tree(tmp_path / "hurried") == tree(tmp_path / "calm")


def fused(lists, own=None, *, scores="minmax", missing="min", depth=3):
    """Fuse *lists* of a single query, the first of which is of a retriever that scores term by term; {position: score}."""
    members, rule = tuple(Listed() for _ in lists), Rule((1.0, 1.0), scores, missing, 60)
    searcher = EnsembleSearcher(members, rule, depth, None, (True, False))
    encoded = [[one] for one in lists]
    matrix = searcher.score_matrix(encoded if own is None else searcher.without(encoded, np.array([own], np.int32)), depth)
    return by_position(matrix.docs[0], weighted_sum(matrix, (1, 1))[0])


DENSE = ((0, 0.9), (2, 0.8), (1, 0.1))  # finds the document 1 last


ONE = ((1, 7.0),)  # of term scores: finds only document 1
FULL = ((1, 7.0), (0, 5.0), (3, 2.0))


@pytest.mark.parametrize(
    ("lists", "settings", "expected"),
    [
        pytest.param([ONE, DENSE], {}, {0: 0 + 1, 1: 1 + 0, 2: 0 + 0.7 / 0.8}, id="absent documents get 0 before minmax"),
        pytest.param([ONE, DENSE], {"scores": "raw"}, {0: 0.9, 1: 7.1, 2: 0.8}, id="raw scores add 0"),
        pytest.param(
            [ONE, tuple((doc, 1.0) for doc, _ in DENSE)],  # the second list has no deviation, so it adds 0
            {"scores": "z"},
            {0: -1 / math.sqrt(2), 1: math.sqrt(2), 2: -1 / math.sqrt(2)},
            id="absent documents are part of mean and deviation",
        ),
        pytest.param([FULL, DENSE], {"depth": 3}, {2: 0.7 / 0.8, 3: 0}, id="a full list has not ended: the rest has its least"),
        pytest.param([FULL, DENSE], {"depth": 4}, {3: 2 / 7}, id="the same list, ended"),
        pytest.param([ONE, DENSE], {"scores": "rrf", "missing": "zero"}, {0: 1 / 61}, id="absent documents have no rank"),
        pytest.param([FULL[:2], DENSE], {"missing": "zero"}, {0: 1, 1: 1, 2: 0.7 / 0.8}, id="zero of the common scale"),
    ],
)
def test_a_list_of_term_scores_that_ended_gives_absent_documents_0(lists, settings, expected):
    """Documents that BM25 does not find have no query term, so they get 0 on its scale, and a single hit is not the least."""
    found = fused(lists, **{"depth": 20, **settings})

    assert {doc: found[doc] for doc in expected} == pytest.approx(expected, abs=1e-6)


def test_the_query_itself_is_left_out_before_scores_are_made_comparable():
    """Its own document, far above the rest, sets no scale; the lists are as long without it."""
    lists = [((5, 90.0), (1, 7.0), (0, 5.0), (2, 3.0)), ((5, 1.0), *DENSE)]

    assert fused(lists, own=5, depth=3) == pytest.approx({0: 0.5 + 1, 1: 1 + 0, 2: 0 + 0.7 / 0.8})
    assert 5 in fused(lists, depth=3)
    assert fused(lists, own=-1, depth=3) == pytest.approx(fused(lists, depth=3))


def test_only_term_scores_make_absent_documents_0():
    """BM25 and exact engines of sparse vectors do; dense ones, and ensembles, do not."""
    assert [system(text).retriever.absent_is_zero for text in ("bm25", "ensemble(bm25, bm25(k1=2.0))")] == [True, False]
    assert [Encoded(None, engine).absent_is_zero for engine in (Impact(), Csr(), Flat())] == [True, True, False]
