"""Chosen weights: on a dataset of five documents by hand, by trying everything, and through the whole harness."""

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import ClassVar

import msgspec
import numpy as np
import pytest
import tiny
from samples import texts_of

import lexbench
from lexbench.arrays.fusion import ScoreMatrix, top_k, weighted_sum
from lexbench.contracts import Protocol, Relevance, all_contracts
from lexbench.errors import CommandError
from lexbench.plugins import Encoder
from lexbench.report.leaderboard import sections
from lexbench.results import write_results
from lexbench.retrievers.ensemble import Ensemble
from lexbench.retrievers.pipeline import Pipeline
from lexbench.runner import jobs, plan
from lexbench.runner.systems import system
from lexbench.runner.tuning import candidates, grid
from lexbench.storage.store import Store
from lexbench.suites import Suite
from lexbench.types import Kind

DOCUMENTS = 5
# Scores of two members for the documents d0 to d4, from 0 to 1, so that minmax does not change them. d0 is relevant.
SURE = (1.0, 0.99, 0.5, 0.2, 0.0)
WRONG = (0.0, 1.0, 0.9, 0.8, 0.7)
RATHER = (1.0, 0.6, 0.2, 0.1, 0.0)  # before d1 with w * 0.4 > (1 - w) * 0.7, so from 0.636
HARDLY = (0.3, 1.0, 0.2, 0.1, 0.0)


@dataclass(frozen=True)
class FixedScores(Encoder):
    """A dense encoder that gives each query fixed scores, by *name* and text, and counts queries."""

    name: str
    kind: ClassVar[Kind] = Kind.DENSE
    scores: ClassVar[dict[tuple[str, str], tuple[float, ...]]] = {}
    asked: ClassVar[Counter[str]] = Counter()
    broken: ClassVar[set[str]] = set()  # at these queries the process is killed

    def encode_document(self, texts):
        """Return a row of the unit matrix for each text."""
        return np.eye(DOCUMENTS, dtype=np.float32)[[int(text) for text in texts]]

    def encode_query(self, texts):
        """Return the scores (texts, 5)."""
        if self.broken & set(texts):
            raise KeyboardInterrupt
        self.asked.update(texts)
        return np.array([self.scores[self.name, text] for text in texts], np.float32)


def retriever(name):
    """Return the exact retriever of an encoder."""
    return system(FixedScores(name)).retriever


def both(weights="tuned", **settings):
    """Return an ensemble of the members a and b."""
    return Ensemble(members=(retriever("a"), retriever("b")), weights=weights, **settings)


class Place:
    """A corpus with queries to tune on and to test on, under its own contracts."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.monkeypatch, self.known = folder, monkeypatch, {}
        monkeypatch.setattr("lexbench.runner.tuning.all_contracts", lambda: self.known)
        monkeypatch.setenv("LEXBENCH_OFFLINE", "1")
        monkeypatch.setenv("LEXBENCH_DATA", str(folder))
        FixedScores.scores.clear()
        FixedScores.asked.clear()
        FixedScores.broken.clear()
        self.queries = {}
        self.contract("test", tuning="tiny/dev")
        self.contract("dev")

    def contract(self, split, **facts):
        """Make the contract of a split, with other *facts* than usual."""
        self.known[f"tiny/{split}"] = msgspec.structs.replace(tiny.contract(f"tiny/{split}", "files", split=split), **facts)
        self.monkeypatch.setitem(all_contracts(), f"tiny/{split}", self.known[f"tiny/{split}"])

    def judge(self, split, judged, a=None, b=None):
        """Write queries with the relevant document of each, {id: document}; *a* and *b* are the scores of the members."""
        for query in judged:
            self.queries.setdefault(query, f"text of {query}")
            for name, scores in (("a", a), ("b", b)):
                if scores:
                    FixedScores.scores[name, self.queries[query]] = scores
        rows = [(query, f"d{document}", 1) for query, document in judged.items()]
        tiny.write(self.folder / "tiny", {f"d{i}": f"{i}" for i in range(DOCUMENTS)}, self.queries, rows, split)

    def ended(self, given, store="store", depth=10, measures=("nDCG@10",)):
        """Run a system on the tested queries and return its outcome."""
        planned = plan.plan_dataset("tiny/test", {"mine": given}, measures, depth)
        (outcome,) = jobs.run(planned, Store(self.folder / store))
        return outcome

    def result(self, *given, **options):
        """Run a system and return its result."""
        outcome = self.ended(*given, **options)
        assert outcome.error is None, outcome.error
        return outcome.result


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Write two queries to tune on, where member a is mostly right, and two to test on, where b is."""
    made = Place(tmp_path, monkeypatch)
    made.judge("dev", {"t1": 0, "t2": 0}, RATHER, HARDLY)
    made.judge("test", {"q1": 0, "q2": 0}, HARDLY, RATHER)
    return made


def suite_of(measure):
    """Return a suite of tiny/test with one measure."""
    facts = {"schema": 1, "id": "s", "version": 1, "name": "s", "description": "s", "retrievers": ("bm25",)}
    return Suite(**facts, datasets=("tiny/test",), measures=(measure,), headline=measure)


def weights_of(result):
    """Return the weights in a result's recipe."""
    return result.recipe["settings"]["weights"]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (SURE, WRONG, [1, 0]), (WRONG, SURE, [0, 1]), (WRONG, WRONG, [0.5, 0.5]),
        (RATHER, HARDLY, [0.65, 0.35]), (HARDLY, RATHER, [0.35, 0.65]), (RATHER, SURE, [0.5, 0.5]),
    ],
)  # fmt: skip
def test_weights_by_hand(place, a, b, expected):
    """A member that alone is right has weight 1; else the most even weights that rank the relevant document first."""
    place.judge("dev", {"t1": 0, "t2": 0}, a, b)
    for made in (both(), Pipeline(members=(retriever("a"), retriever("b")), weights="tuned", k=5)):
        assert weights_of(place.result(made)) == expected


def test_the_note_has_weights_queries_and_mean(place):
    """The note has the weights, the queries they were chosen on, and their mean; the name keeps what was typed."""
    typed = place.result('ensemble(bm25, bm25(k1=2.0), weights="tuned")')
    assert (typed.expression, weights_of(typed)) == ('ensemble(bm25, bm25(k1=2.0), weights="tuned")', [0.5, 0.5])
    found = place.result(both())

    assert texts_of(found.notes) == [
        "weights [0.65, 0.35], tuned on 2 queries of tiny/dev, where nDCG@10 1.0000 is the best of 21, in steps of 0.05"
    ]
    assert found.means["nDCG@10"] == pytest.approx(1 / np.log2(3))  # d0 is second: b would have been right here


@dataclass(frozen=True)
class TrainedScores(FixedScores):
    """An encoder that was trained on the queries of both datasets."""

    model: str = "mine"

    def trained_on(self):
        """Return the ids of the datasets."""
        return ["tiny/dev", "tiny/test"]

    def models(self):
        """Return its name."""
        return [self.model]


def test_a_member_trained_on_the_queries_gets_a_warning(place):
    """The result warns of an encoder that was trained on the tuning queries or on the tested ones, and of no other."""
    found = place.result(Ensemble(members=(system(TrainedScores("a")).retriever, retriever("b")), weights="tuned"))

    warning = "TrainedScores mine was trained on the queries of tiny/dev, on which weights are chosen: it looks"
    assert found.notes[1].text.startswith(warning)
    assert texts_of(found.notes[2:]) == ["mine was trained on the very queries that are scored, so it may do worse on others"]


def test_tuned_weights_are_those_typed(place):
    """The run is the one of the same weights typed. Only the result with chosen weights has the note.

    A second run encodes no query; the oracle of the same members encodes only the tested queries. Other relevant documents in
    the test change the scores and not the weights.
    """
    tuned = place.result(both())
    typed = place.result(both((0.65, 0.35)))

    assert tuned.means == typed.means
    assert tuned.recipe == typed.recipe
    assert typed.notes == []
    assert len(list((place.folder / "store" / "runs").glob("*-*"))) == 1

    asked = Counter(FixedScores.asked)
    assert place.result(both()).notes == tuned.notes
    assert FixedScores.asked == asked
    place.result(both("oracle"))
    assert FixedScores.asked["text of t1"] == asked["text of t1"] == 2  # once for each part
    assert not list((place.folder / "store" / "weights").glob("*/part-*"))

    place.judge("test", {"q1": 1, "q2": 4})
    other = place.result(both())
    assert (weights_of(other), other.notes, other.means == tuned.means) == (weights_of(tuned), tuned.notes, False)


def test_the_oracle_is_an_upper_bound(place):
    """Weights chosen on the test itself score what their note says, at least as much as tuned ones, and are marked."""
    tuned, oracle = place.result(both()), place.result(both("oracle"))

    assert weights_of(oracle) == [0.35, 0.65]
    assert oracle.means["nDCG@10"] == 1 > tuned.means["nDCG@10"]
    (note,) = oracle.notes
    assert oracle.bound
    assert note.kind == "bound"
    assert note.text.startswith(
        "upper bound, no result: weights [0.35, 0.65], chosen on the very 2 queries of tiny/test that are scored"
    )
    assert note.text.endswith("; nDCG@10 1.0000 is the best of 21, in steps of 0.05")


@pytest.mark.parametrize(
    ("scores", "missing"),
    [("minmax", "min"), *(pytest.param(*each, marks=pytest.mark.slow) for each in (("rrf", "zero"), ("z", "rescored")))],
)
def test_no_weights_are_better_than_the_oracles(place, scores, missing):
    """The oracle's value is the result's own, and no typed weights score more."""
    chance = np.random.default_rng(3)
    queries = {f"q{i}": int(chance.integers(DOCUMENTS)) for i in range(30)}
    place.judge("test", queries)
    for name, query in product("ab", queries):
        FixedScores.scores[name, place.queries[query]] = tuple(chance.random(DOCUMENTS).tolist())
    made = both("oracle", scores=scores, missing=missing, depth=3)
    oracle = place.result(made, depth=3, measures=["nDCG@3"])

    assert f"nDCG@10 {oracle.means['nDCG@3']:.4f} is the best of 21" in oracle.notes[0].text  # of lists that end at 3
    for weight in (0.0, 0.3, 0.5, 1.0):
        typed = place.result(both((weight, 1 - weight), scores=scores, missing=missing, depth=3), depth=3, measures=["nDCG@3"])
        assert typed.means["nDCG@3"] <= oracle.means["nDCG@3"] + 1e-9


def test_nested_combinations_are_settled_from_the_inside_out(place):
    """The weights of an inner ensemble are chosen first, then the outer's with them fixed; each has a note."""
    place.judge("dev", {"t1": 0, "t2": 0}, SURE, WRONG)
    inner = both()
    found = place.result(Pipeline(members=(inner, retriever("b")), weights="tuned", k=5))
    parts = found.recipe["settings"]["members"]

    assert parts[0]["settings"]["weights"] == [1, 0]
    assert weights_of(found) == [1, 0]
    assert [note.text.split(", tuned")[0] for note in found.notes[:2]] == ["weights [1, 0] of member 1", "weights [1, 0]"]
    fixed = Pipeline(members=(replace(inner, weights=(1.0, 0.0)), retriever("b")), weights=(1.0, 0.0), k=5)
    assert place.result(fixed).means == found.means
    deep = place.result(Ensemble(members=(retriever("b"), Ensemble(members=(retriever("a"), inner), depth=1000))))
    assert deep.notes[0].text.startswith("weights [1, 0] of member 2.2, tuned")
    assert weights_of(deep) == [1, 1]


def test_a_killed_run_goes_on(place, monkeypatch):
    """Blocks of tuning queries that were searched before a kill are not searched again, and the weights are the same."""
    monkeypatch.setattr("lexbench.runner.search._QUERIES", 2)
    judged = {f"t{i}": 0 for i in range(1, 8)}
    place.judge("dev", judged, RATHER, HARDLY)
    whole = place.result(both(), store="other")
    FixedScores.asked.clear()
    FixedScores.broken.add("text of t5")
    with pytest.raises(KeyboardInterrupt):
        place.ended(both())
    assert set(FixedScores.asked) == {f"text of t{i}" for i in (1, 2, 3, 4)}
    FixedScores.broken.clear()
    found = place.result(both())

    assert set(FixedScores.asked.values()) == {2}
    assert (found.means, found.notes) == (whole.means, whole.notes)


def test_queries_that_are_tested_are_left_out(place):
    """Tested queries, by id or by text regardless of case and spaces, choose nothing; the note counts them."""
    place.judge("test", {"q1": 0, "q2": 0, "t3": 0}, HARDLY, RATHER)
    place.queries["t4"] = "TEXT  of q1 "
    place.judge("dev", {"t3": 0, "t4": 0}, HARDLY, RATHER)
    FixedScores.scores["a", "TEXT  of q1 "], FixedScores.scores["b", "TEXT  of q1 "] = HARDLY, RATHER
    ended = place.ended(both())
    assert ended.error == "every query of tiny/dev is one of tiny/test, so none is left to tune on; type weights=[…]"

    place.judge("dev", {"t1": 0})
    place.judge("dev", {"t1": 0, "t3": 0, "t4": 0})
    found = place.result(both())
    assert weights_of(found) == [0.65, 0.35]
    assert "tuned on 1 query of tiny/dev" in found.notes[0].text
    assert found.notes[0].text.endswith("; test queries left out: 2")


def test_the_tuning_contracts_own_rules_hold(place):
    """A query's own document is dropped, and the relevance threshold is that of the tuning contract."""
    place.contract("dev", protocol=Protocol(self_match="drop"), relevance=Relevance(default=2))
    place.judge("dev", {"d1": 0, "t1": 0}, SURE, (0.9, 1.0, 0.5, 0.2, 0.0))
    folder = place.folder / "tiny" / "qrels" / "dev.tsv"
    folder.write_text("query-id\tcorpus-id\tscore\nd1\td0\t2\nd1\td4\t1\nt1\td0\t1\nt1\td2\t2\n")
    planned = plan.plan_suite(suite_of("RR@10"), {"mine": both()}, depth=10)
    (ended,) = jobs.run(planned, Store(place.folder / "store"))

    assert ended.error is None, ended.error
    # d1 finds d0 first whatever the weights, its own document being dropped; t1 finds d2 third: (1 + 1/3) / 2.
    assert "where RR(rel=2)@10 0.6667 is the best of 21" in ended.result.notes[0].text


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"tuning": None}, 'its contract names no tuning queries, which weights="tuned" needs; type weights=[…]'),
        ({"tuning": "tiny/dve"}, "no dataset 'tiny/dve'; did you mean 'tiny/dev'"),
        ({"corpus": "small"}, "has the corpus small, and tiny/dev, its tuning queries, tiny; type weights=[…]"),
    ],
)
def test_impossible_tuning_is_refused_in_the_plan(place, facts, said):
    """One line says why and what to type before anything is read; the oracle needs no tuning queries."""
    place.contract("test", **({"tuning": "tiny/dev"} | facts))
    with pytest.raises(lexbench.errors.LexbenchError, match=re.escape(said)) as caught:
        plan.plan_dataset("tiny/test", {"mine": Pipeline(members=(both(), retriever("a")))}, ["nDCG@10"], 1000)
    assert "\n" not in str(caught.value)
    assert plan.plan_dataset("tiny/test", {"mine": both("oracle")}, ["nDCG@10"], 10).jobs
    with pytest.raises(CommandError, match=r"no other split for development; put qrels/dev.tsv into"):
        plan.plan_dataset(str(place.folder / "tiny"), {"mine": both()}, ["nDCG@10"], 10, "dev")


def test_data_that_are_not_here_cost_one_line_and_no_work(place):
    """Without the tuning judgements, or with another corpus, nothing is searched, and the line says what is wrong."""
    expected = all_contracts()["tiny/dev"].expected
    place.contract("dev", expected=msgspec.structs.replace(expected, documents=6))
    assert "documents: 6 expected, 5 found" in place.ended(both()).error
    place.contract("dev")
    (place.folder / "tiny" / "qrels" / "dev.tsv").unlink()
    ended = place.ended(both())

    assert "tiny/dev" in ended.error
    assert "\n" not in ended.error
    assert not FixedScores.asked
    assert not (place.folder / "store" / "indexes").exists()


@pytest.mark.parametrize("kind", ["ensemble", "pipeline"])
def test_weights_are_chosen_in_a_run_alone(kind):
    """Opening such a fusion without choosing weights gives one line."""
    made = system(f'{kind}(bm25, bm25(k1=2.0), weights="tuned")').retriever
    with pytest.raises(CommandError, match=re.escape(f'{kind}(weights="tuned"): they are chosen in a run')):
        made._rule()


@pytest.mark.parametrize(
    ("parts", "step", "count"), [(2, 0.05, 21), (3, 0.05, 232), (4, 0.1, 287), (5, 0.1, 1001), (6, 0.2, 253), (50, 1, 51)]
)
def test_the_grid(parts, step, count):
    """The grid has every weighting of sum 1 in equal steps, the even one first; about a thousand at most."""
    found, weights = grid(parts)

    assert (found, len(set(weights)), len(weights)) == (step, count, count)
    assert weights[0] == (1 / parts,) * parts
    assert weights[-1] == (0.0,) * (parts - 1) + (1.0,)
    assert {round(sum(one), 9) for one in weights} == {1}
    assert min(min(one) for one in weights) == 0
    squares = [sum(weight**2 for weight in one) for one in weights]
    assert all(before <= after + 1e-9 for before, after in pairwise(squares))


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_only_documents_that_cannot_come_up_are_left_out(scale):
    """For random scores with many ties, at every weighting, the first ten are those of the whole lists, to the bit."""
    chance = np.random.default_rng(5)
    docs = np.sort(np.argsort(chance.random((20, 400)), axis=1)[:, :300], axis=1).astype(np.int32)
    docs[:, -30:] = -1
    docs[::2, 7] = -1  # a self-match that was dropped
    values = [chance.integers(0, 60, docs.shape) / 60, scale * chance.random(docs.shape) ** 3]
    whole = ScoreMatrix(docs, values)
    few = candidates(whole, 10)

    assert few.docs.shape[1] < 240
    for weights in grid(2)[1]:
        expected, found = (top_k(columns.docs, weighted_sum(columns, weights), 10) for columns in (whole, few))
        assert all(map(np.array_equal, expected, found))
    assert candidates(ScoreMatrix(docs[:1] * 0 - 1, [values[0][:1]]), 10).docs.shape == (1, 0)


def test_an_upper_bound_is_never_the_best(place, monkeypatch):
    """The leaderboard marks the best of the other systems, and shows the bound with its note."""
    made = {f'ensemble(weights="{rule}")': place.result(both(rule)) for rule in ("tuned", "oracle")}
    results = [msgspec.structs.replace(one, system=name) for name, one in made.items()]
    monkeypatch.setattr(sections, "suite_of_results", lambda *_: suite_of("nDCG@10"))
    write_results(results, "s", place.folder / "board")
    text = lexbench.leaderboard(place.folder / "board").pages()[place.folder / "board" / "README.md"]

    rows = [line for line in text.splitlines() if "ensemble" in line]
    assert "|1.0000|" in rows[1]
    assert "**" not in rows[1]  # nor is a single other system marked as the best
    assert "Upper bounds, chosen on the tested queries and not ranked: 1 of 2 results" in text
