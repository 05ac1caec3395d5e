"""Measures: values by hand, the values of pytrec_eval and ir_measures on random runs, notation, and ties."""

import ast
import inspect
import itertools
import math
import re
import subprocess
import sys
from dataclasses import dataclass, fields, replace
from importlib.metadata import EntryPoint

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import judged, ranked

import lexbench
from lexbench import registry
from lexbench.contracts import Contract, Relevance, SourceFacts
from lexbench.errors import CannotStart, CommandError, LexbenchError, NotationError, UnknownName
from lexbench.measures import Measure, parse, score, tie_report, with_threshold
from lexbench.plugins import fault
from lexbench.trec.runs import Run, strictly_decreasing

PYTREC_EVAL = {
    "ndcg": "nDCG", "ndcg_cut_3": "nDCG@3", "map": "AP", "map_cut_3": "AP@3", "recip_rank": "RR", "P_3": "P@3",
    "recall_3": "R@3", "success_3": "Success@3",
}  # fmt: skip
IPREC = {f"iprec_at_recall_{tenth / 10:.2f}": f"IPrec(up=True)@{tenth / 10}" for tenth in range(11)}
OTHERS = ["RR@3", "Judged@3", "Judged"]  # pytrec_eval has none of these; other providers of ir_measures do
OURS = ["RCap@3", "AllRelevant@3", "ERR(max_rel=3)@3", "ERR(max_rel=3)", "RBP(p=0.5)", "RBP(p=0.8)@3"]
EVERY = [*PYTREC_EVAL.values(), *OTHERS, *OURS, "IPrec@0.3"]


def run_of(ranked):
    """Make a run of {query: {document: score}}."""
    rows = [(q, d, s) for q, docs in ranked.items() for d, s in docs.items()]
    return Run.from_entries([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])


def strict(run):
    """Return the run as {query: {document: score}}, with scores that do not tie."""
    ids, scores = run.table[run.docs].tolist(), strictly_decreasing(run.offsets, run.scores).tolist()
    bounds = zip(run.query_ids, run.offsets[:-1].tolist(), run.offsets[1:].tolist(), strict=True)
    return {q: {ids[i].decode(): scores[i] for i in range(start, stop)} for q, start, stop in bounds}


DOCUMENTS = [f"d{i}" for i in range(8)]
GRADES = st.dictionaries(
    st.sampled_from("abcd"), st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-2, 3), min_size=1), min_size=1
)
SCORES = st.sampled_from([0.0, -0.0, 1.0, 2.0, 16777216.0, 16777217.0]) | st.floats(-1e6, 1e6)
RANKED = st.dictionaries(st.sampled_from("abcde"), st.dictionaries(st.sampled_from([*DOCUMENTS, "u1", "u2", "u3"]), SCORES))


@pytest.mark.parametrize(
    ("measure", "expected"),
    [  # the list is x a u b; a has grade 1, b 3, c 2 (not found), x 0, u is unjudged
        ("nDCG@10", (1 / math.log2(3) + 3 / math.log2(5)) / (3 + 2 / math.log2(3) + 1 / 2)),
        ("nDCG@2", (1 / math.log2(3)) / (3 + 2 / math.log2(3))),
        ("RR", 1 / 2), ("RR(rel=2)", 1 / 4), ("RR(rel=2)@3", 0),
        ("R@2", 1 / 3), ("R(rel=2)@10", 1 / 2), ("RCap@2", 1 / 2), ("RCap@10", 2 / 3),
        ("Success@1", 0), ("Success@2", 1), ("P@2", 1 / 2), ("P@10", 2 / 10),
        ("AP", (1 / 2 + 2 / 4) / 3), ("AP@2", (1 / 2) / 3), ("AP(rel=2)", (1 / 4) / 2),
        ("Judged@2", 1), ("Judged@10", 3 / 4), ("Judged", 3 / 4),
        ("AllRelevant@10", 0), ("AllRelevant(rel=3)@4", 1), ("AllRelevant(rel=3)@3", 0), ("AllRelevant(rel=4)@4", 0),
        ("RBP(p=0.8)", 0.2 * (0.8 + 0.8**3)), ("RBP(p=0.5,rel=2)", 0.5**4), ("RBP(p=0.8)@3", 0.2 * 0.8),
        ("IPrec@0.0", 1 / 2), ("IPrec@0.16", 1 / 2), ("IPrec@0.34", 1 / 2), ("IPrec@0.5", 2 / 4), ("IPrec@0.84", 0),
        ("IPrec@0.83", 2 / 4), ("IPrec(rel=3)@1.0", 1 / 4), ("IPrec(up=True)@0.75", 0), ("IPrec@0.75", 2 / 4),
        ("ERR", 1 / 16 / 2 + 15 / 16 * 7 / 16 / 4), ("ERR@3", 1 / 16 / 2), ("ERR(max_rel=3)", 1 / 8 / 2 + 7 / 8 * 7 / 8 / 4),
    ],
)  # fmt: skip
def test_values_by_hand(measure, expected):
    """Each measure has the value that its docstring defines."""
    qrels = judged(q={"a": 1, "b": 3, "c": 2, "x": 0})

    assert score(ranked(q="xaub"), qrels, [measure]).means[measure] == pytest.approx(expected, abs=1e-15)


def test_the_mean_is_over_the_judged_queries():
    """A query that the run lacks scores 0; a query without judgements is left out. Both are counted."""
    qrels = judged(a={"x": 1}, b={"x": 1}, c={"x": 0})
    scores = score(run_of({"a": {"x": 1.0}, "z": {"x": 1.0}}), qrels, ["RR", "NumRet"])

    assert scores.query_ids == ("a", "b", "c")
    assert scores.values["RR"].tolist() == [1, 0, 0]
    assert scores.means["RR"] == pytest.approx(1 / 3)
    assert (scores.missing, scores.unjudged) == (2, 1)


@pytest.mark.parametrize("measure", EVERY)
def test_a_run_without_anything_scores_nothing(measure):
    """An empty run is scored like any other: 0 everywhere."""
    assert score(run_of({}), judged(a={"x": 1}), [measure]).means == {measure: 0.0}


def test_without_judgements_there_is_nothing_to_score():
    """A mean over no query is an error, not NaN."""
    with pytest.raises(LexbenchError, match="no judgements"):
        score(ranked(q="a"), judged(), ["RR"])


@settings(max_examples=40)
@given(GRADES, RANKED)
def test_random_runs_score_as_in_pytrec_eval(grades, ranked):
    """With ties, missing and unknown queries, negative grades: equal to 1e-12, at either threshold."""
    run, qrels = run_of(ranked), judged(**grades)
    survivable = {q: docs if max(docs.values()) >= 0 else dict.fromkeys(docs, 0) for q, docs in grades.items()}
    for rel in (1, 2):
        theirs = pytrec_eval.RelevanceEvaluator(survivable, set(PYTREC_EVAL | IPREC), relevance_level=rel).evaluate(ranked)
        parsed = {name: parse(measure) for name, measure in (PYTREC_EVAL | IPREC).items()}
        texts = {name: str(one if "ndcg" in name else replace(one, rel=rel)) for name, one in parsed.items()}
        ours = score(run, qrels, list(texts.values())).values
        for name, text in texts.items():
            # pytrec_eval divides 0 by 0 for the IPrec of an empty list.
            expected = np.nan_to_num([theirs.get(query, {}).get(name, 0.0) for query in qrels.query_ids])
            assert ours[text].tolist() == pytest.approx(expected, abs=1e-12), text


def test_grades_that_crash_pytrec_eval_do_not_crash_us():
    """pytrec_eval hangs or crashes if all grades of a query are negative, so it never sees such a query."""
    qrels = judged(p={"a": -2}, q={"a": 3, "b": 3})

    assert score(run_of({"p": {"a": 1.0}, "q": {"a": 1.0}}), qrels, ["Rprec"]).values["Rprec"].tolist() == [0, 0.5]


@settings(max_examples=25)
@given(GRADES, RANKED)
def test_random_runs_score_as_in_ir_measures(grades, ranked):
    """Our values equal those of ir_measures if no scores tie."""
    run, qrels = run_of(ranked), judged(**grades)
    scores = score(run, qrels, OTHERS)
    for metric in ir_measures.iter_calc([ir_measures.parse_measure(one) for one in OTHERS], grades, strict(run)):
        ours = scores.values[repr(metric.measure)][qrels.query_ids.index(metric.query_id)]
        assert ours == pytest.approx(metric.value, abs=1e-12), metric


def test_gdeval_scores_queries_with_any_ids():
    """Its own ids are whole numbers; the gain 2^2 - 1 at rank 2 is divided by that at rank 1."""
    scores = score(ranked(three="ba", **{"q-1": "a"}), judged(three={"a": 2}, **{"q-1": {"b": 1}}), ["nDCG(dcg='exp-log2')@10"])
    values = dict(zip(scores.query_ids, scores.values["nDCG(dcg='exp-log2')@10"].tolist(), strict=True))
    assert values == {"three": pytest.approx(1 / math.log2(3), abs=1e-5), "q-1": 0}


@settings(max_examples=10, deadline=None)
@given(GRADES, RANKED)
def test_random_runs_have_the_err_of_gdeval(grades, ranked):
    """ERR equals that of gdeval.pl, which ir_measures runs and which rounds to 5 digits, if no scores tie."""
    numbers = {query: str(number) for number, query in enumerate("abcde", 1)}  # gdeval knows no other ids
    grades = {numbers[query]: docs for query, docs in grades.items()}
    run, qrels = run_of({numbers[query]: docs for query, docs in ranked.items()}), judged(**grades)
    asked = [ir_measures.parse_measure(text) for text in ("ERR@3", "ERR@20")]
    scores = score(run, qrels, ["ERR@3", "ERR@20"])
    for metric in ir_measures.gdeval.iter_calc(asked, grades, strict(run)):
        ours = scores.values[repr(metric.measure)][qrels.query_ids.index(metric.query_id)]
        assert ours == pytest.approx(metric.value, abs=6e-6), metric


def test_rbp_is_that_of_cwl_eval():
    """The values of ir_measures with cwl-eval 1.0.12, which is not among the packages of the tests."""
    qrels = judged(one={"a": 1, "c": 2, "x": 4}, two={"a": 3})
    scores = score(ranked(one="abc", two="ba"), qrels, ["RBP(p=0.8,rel=1)", "RBP(p=0.5,rel=2)"])

    assert scores.values["RBP(p=0.8,rel=1)"].tolist() == pytest.approx([0.3279999999999999, 0.15999999999999995], abs=1e-15)
    assert scores.values["RBP(p=0.5,rel=2)"].tolist() == pytest.approx([0.125, 0.25], abs=1e-15)


def test_iprec_rounds_recall_as_trec_eval_10_does():
    """The values that trec_eval 10.0, which is not among the packages of the tests, prints of 7 relevant documents."""
    points = [0, 0.05, 0.07, 0.1, 0.21, 0.22, 0.35, 0.36, 0.5, 0.64, 0.65, 0.8, 1]
    texts = [f"IPrec@{point}" for point in points]
    found = score(ranked(q="abxcyzduevwf"), judged(q=dict.fromkeys("abcdefg", 1)), texts).means

    printed = [1, 1, 1, 1, 1, 1, 1, 0.75, 0.5714, 0.5714, 0.5556, 0.5, 0]
    assert [found[str(parse(text))] for text in texts] == pytest.approx(printed, abs=5e-5)


def test_a_grade_above_the_scale_of_err_is_refused():
    """The error has the grade, and the measure to type."""
    with pytest.raises(LexbenchError, match=r"ERR@20 is for grades up to 4, and there is 5; write ERR\(max_rel=5\)@20"):
        score(ranked(q="a"), judged(q={"a": 5}), ["ERR@20"])


@dataclass(frozen=True)
class Misses(Measure):
    """Documents below grade 1 among the first: a measure of another package, which is better if smaller."""

    cutoff: int
    share: bool = False

    def per_query(self, judged):
        """Return their number, or their share of the cutoff."""
        missed = judged.sum(judged.within(self.cutoff) & (judged.grade < 1))
        return missed / self.cutoff if self.share else missed


def test_a_measure_that_is_better_if_smaller_has_a_tie_interval(monkeypatch):
    """The lower bound is the smaller one, whichever order has it. Settings of its own are checked by their type."""
    entry = EntryPoint("misses", f"{__name__}:Misses", "lexbench.measures")
    monkeypatch.setattr(registry, "_entries", lambda _group: {"misses": entry})
    run, qrels = run_of({"q": {"a": 1.0, "b": 1.0}}), judged(q={"a": 1, "b": 0})
    tie = tie_report(run, qrels, ["Misses(share=True)@1"])["Misses(share=True)@1"]

    assert (tie.lowest, tie.highest, tie.queries) == (0, 1, 1)
    with pytest.raises(NotationError, match=r"Misses needs a cutoff, e\.g\. Misses@10"):
        parse("Misses")
    with pytest.raises(CommandError, match=r"Misses\(share=…\) takes bool, not 'yes'"):
        parse("Misses(share='yes')@1")


@dataclass(frozen=True)
class Given(Measure):
    """A measure of another package, which returns what it is given."""

    cutoff: int | None = None

    def per_query(self, judged):
        """Return something."""
        return RETURNED[0]


RETURNED = {0: None}


@pytest.mark.parametrize(
    "value", [None, [0.5], [0.5, float("nan")], ["a", "b"], [[0.5], [0.5]], [1j, 1], [[1], [1, 2]], [0.5] * 3]
)
def test_a_measure_returns_a_finite_number_per_query(monkeypatch, value):
    """Anything else is an error of one line before a result is stored; a list is as good as an array."""
    entry = EntryPoint("given", f"{__name__}:Given", "lexbench.measures")
    monkeypatch.setattr(registry, "_entries", lambda _group: {"given": entry})
    run, qrels = ranked(q="a"), judged(q={"a": 1}, r={"b": 1})
    monkeypatch.setitem(RETURNED, 0, value)
    with pytest.raises(LexbenchError, match="Given must return a finite number for each of 2 queries, not"):
        score(run, qrels, ["Given"])
    RETURNED[0] = [True, 0]
    assert score(run, qrels, ["Given"]).means == {"Given": 0.5}


def test_a_measure_without_a_cutoff_is_refused_by_name():
    """Every measure has the field, which may be None."""

    @dataclass(frozen=True)
    class Whole(Measure):
        def per_query(self, judged):
            """Return nothing."""

    assert fault("measures", Whole) == "it has no field cutoff; write cutoff: int | None = None"
    assert [fault("measures", registry.load("measures", name)) for name in registry.names("measures")] == [""] * len(
        registry.names("measures")
    )


@pytest.mark.parametrize("name", registry.names("measures"))
def test_every_measure_explains_itself(name):
    """The docstring of each class has a definition, when to use it, and the source."""
    plugin = registry.load("measures", name)

    field = "budget" if "budget" in {one.name for one in fields(plugin)} else plugin.at
    value = ast.literal_eval(plugin.example)
    assert str(plugin(**{field: value})).endswith(f"@{value}tok" if field == "budget" else f"@{value}")
    assert "Use it" in " ".join(plugin.__doc__.split())
    assert len(plugin.__doc__.split("\n\n")) == 2
    own = [item.name for item in fields(plugin) if item.name not in ("cutoff", "rel")]
    helped = re.findall(r"^    (\w+): .*  # \w+", inspect.getsource(plugin), re.MULTILINE)
    assert set(own) - {plugin.at} <= set(helped), "a setting without a line of help"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        *((same, same) for same in ("nDCG@10", "RR(rel=1)@10", "AP", "RCap@1000", "Rprec", "nDCG(dcg='exp-log2')@10")),
        *((same, same) for same in ("RR(judged_only=True,rel=2)", "IPrec@0.1", "IPrec(rel=2)@1.0", "SetF(beta=2.0)")),
        *((same, same) for same in ("RBP(p=0.5)@10", "RBP(p=0.8,rel=2)", "ERR@20", "ERR(max_rel=3)@20", "AllRelevant@5")),
        ("RBP", "RBP(p=0.8)"), ("rbp(rel=2, p=0.95)@100", "RBP(p=0.95,rel=2)@100"), ("all_relevant@5", "AllRelevant@5"),
        ("ndcg @ 10", "nDCG@10"), ("NDCG@10", "nDCG@10"), ("MRR@10", "RR@10"), ("Recall(rel=2)@1000", "R(rel=2)@1000"),
        ("RR(rel=2, cutoff=10)", "RR(rel=2)@10"), ("RPrec(rel=2)", "Rprec(rel=2)"),
        # Names of trec_eval, pytrec_eval, beir and mteb.
        ("ndcg_cut_10", "nDCG@10"), ("ndcg_cut.10", "nDCG@10"), ("map", "AP"), ("map_cut_100", "AP@100"),
        ("recall_100", "R@100"), ("recip_rank", "RR"), ("P_5", "P@5"), ("success_10", "Success@10"),
        ("iprec_at_recall_0.10", "IPrec@0.1"),
        ("ndcg_at_10", "nDCG@10"), ("mrr_at_10", "RR@10"), ("R_cap@100", "RCap@100"), ("bpref", "Bpref"), ("num_rel", "NumRel"),
    ],
)  # fmt: skip
def test_reading_and_writing_are_inverse(text, written):
    """The text of a measure reads back to an equal value, also in ir_measures."""
    assert str(parse(text)) == written
    assert parse(written) == parse(text)
    assert hash(parse(written)) == hash(parse(text))
    if not written.startswith(("RCap", "AllRelevant", "ERR(")):  # only ours
        assert ir_measures.parse_measure(written) == ir_measures.parse_measure(written.replace("rel=1", "").replace("()", ""))


MALFORMED = ["", "nDCG@", "nDCG@ten", "@10", "nDCG(10)", "nDCG@10 RR", "RR(**x)", "RR@None"]
OUT_OF_RANGE = ["RR@-1", "RR@0", "RR(rel=0)", "P@1.5"]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        *((text, NotationError, "write it like nDCG@10|did you mean '(nDCG|RR)") for text in MALFORMED),
        *((text, NotationError, "whole number from 1") for text in OUT_OF_RANGE),
        ("R", NotationError, "R needs a cutoff, e.g. R@10"),
        ("IPrec", NotationError, "IPrec needs a recall, e.g. IPrec@0.1"),
        ("IPrec@10", NotationError, "recall of IPrec is from 0 to 1, not 10.0; write IPrec@0.1"),
        ("nDGC@10", UnknownName, "no measure 'nDGC@10'; did you mean 'nDCG@10'"),
        ("RR(rell=2)@10", NotationError, "RR has no setting 'rell'; it has: cutoff, rel, judged_only"),
        ("AllRelevant(p=1)@10", NotationError, "AllRelevant has no setting 'p'; it has: cutoff, rel"),
        ("RBP(q=0.5)", NotationError, "RBP has no setting 'q'; it has: p, cutoff, rel"),
        ("RBP(p='0.5')", CommandError, r"RBP\(p=…\) takes float, not '0.5'; write it without quotes: RBP\(p=0.5\)"),
        ("RBP(p=1)", NotationError, r"p of RBP is between 0 and 1, not 1.0; write RBP\(p=0.8\)"),
        ("ERR(max_rel=0)@20", NotationError, "max_rel of ERR is a grade from 1 to 1000, not 0"),
        ("ERR(max_rel=2.5)", CommandError, r"ERR\(max_rel=…\) takes int or None, not 2.5"),
        ("BPM@10", NotationError, "measure 'BPM@10' needs max_rel"),
    ],
)
def test_malformed_measures_are_refused(text, error, message):
    """The error has an example, a similar name, the unknown setting, or the missing one."""
    with pytest.raises(error, match=message):
        parse(text)


def test_a_measure_that_needs_another_package_says_which(monkeypatch):
    """Before any work starts."""
    monkeypatch.setattr(ir_measures.cwl_eval, "_is_available", False)
    with pytest.raises(CannotStart, match=r"no installed package computes BPM.*pip install"):
        parse("BPM(max_rel=3)@10")


def contract_with(default=1, **thresholds):
    """Make a contract with these relevance thresholds."""
    facts = {"schema": 1, "id": "d", "version": 1, "name": "d", "description": "", "corpus": "d", "source": SourceFacts()}
    return Contract(**facts, relevance=Relevance(default=default, measures=thresholds))


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("RR@10", "RR(rel=2)@10"), ("MRR@10", "RR(rel=2)@10"), ("R@1000", "R(rel=2)@1000"), ("Rprec", "Rprec(rel=2)"),
        ("RCap@1000", "RCap(rel=2)@1000"), ("RBP", "RBP(p=0.8,rel=2)"), ("AllRelevant@5", "AllRelevant(rel=2)@5"),
        *((same, same) for same in ("RR(rel=1)@10", "RR(rel=3)@10", "Rprec(rel=1)", "nDCG@10", "Judged@10", "ERR@10")),
        ("nDCG(dcg='exp-log2')@10", "nDCG(dcg='exp-log2')@10"),
    ],
)  # fmt: skip
def test_the_contract_sets_the_threshold_where_the_measure_does_not(measure, expected):
    """The contract sets the threshold of all binary measures or of one, and never overrides a typed one (trap 11)."""
    assert with_threshold(measure, contract_with(default=2)) == expected
    assert with_threshold("RR@10", contract_with(RR=2)) == "RR(rel=2)@10"
    assert with_threshold("AP", contract_with(RR=2)) == "AP"


def orders(ranked):
    """Yield every order of the documents in which scores do not rise."""
    groups = [list(group) for _, group in itertools.groupby(sorted(ranked, key=ranked.get, reverse=True), ranked.get)]
    for choice in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield list(itertools.chain(*choice))


@settings(max_examples=30)
@given(
    st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-2, 3), min_size=1),
    st.dictionaries(st.sampled_from([*DOCUMENTS[:3], "u1", "u2"]), st.sampled_from([1.0, 2.0])),
)
def test_the_tie_interval_is_that_of_all_orders(grades, scored):
    """Its bounds are the smallest and largest value over every order of tied documents, for every measure."""
    qrels = judged(q=grades)
    found = [score(ranked(q=order), qrels, EVERY).means for order in orders(scored)]
    for measure, tie in tie_report(run_of({"q": scored} if scored else {}), qrels, EVERY).items():
        assert tie.lowest == pytest.approx(min(means[measure] for means in found), abs=1e-12), measure
        assert tie.highest == pytest.approx(max(means[measure] for means in found), abs=1e-12), measure


def test_the_share_of_queries_with_a_tie_across_the_cutoff():
    """Counted over the judged queries, at the measure's own cutoff; without a cutoff nothing is across it."""
    lists = {"a": (3.0, 2.0, 2.0), "b": (3.0, 2.0), "c": (1.0, 1.0, 1.0), "unjudged": (1.0, 1.0)}
    run = run_of({query: dict(zip("xyz", scores, strict=False)) for query, scores in lists.items()})
    report = tie_report(run, judged(**{q: {"x": 1} for q in "abcd"}), ["P@1", "P@2", "P@3", "AP", "Rprec"])

    assert {name: tie.queries for name, tie in report.items()} == {"P@1": 1 / 4, "P@2": 2 / 4, "P@3": 0, "AP": 0}


def test_importing_is_light_and_silent():
    """`lexbench.measures` needs no ir_measures; its log handler is not installed by us, and one of the application stays."""
    code = """
import logging, sys
from lexbench.measures import parse
parse("nDCG@10")
assert not {"ir_measures", "pytrec_eval", "pandas", "numba", "scipy.sparse"} & set(sys.modules)
handlers = logging.getLogger("ir_measures").handlers
if len(sys.argv) > 1:
    handlers.append(logging.NullHandler())
before = list(handlers)
parse("Rprec")
assert "ir_measures" in sys.modules and handlers == before
"""
    for arguments in ([], ["with a handler"]):
        subprocess.run([sys.executable, "-c", code, *arguments], check=True)


def test_scores_that_were_lowered_to_break_a_tie_still_tie():
    """Neighbouring float32 scores count as tied, so a retriever's own way of breaking ties does not hide them."""
    lowered = np.nextafter(np.float32(7), np.float32(0))
    exact = run_of({"q": {"a": 7.0, "b": 7.0, "c": 1.0}})
    broken = run_of({"q": {"a": 7.0, "b": float(lowered), "c": 1.0}})
    relevant = judged(q={"b": 1})

    assert tie_report(broken, relevant, ["RR@1"]) == tie_report(exact, relevant, ["RR@1"])
    assert tie_report(broken, relevant, ["RR@1"])["RR@1"].highest == 1


def test_other_providers_take_scores_that_tie_at_the_end_of_float32():
    """Providers get ranks, so a list of ties at the lowest float32 number has the values of the same list with other scores."""
    qrels = judged(a={"x": 1, "y": 0})
    lowest = float(np.finfo(np.float32).min)
    tied = run_of({"a": {"x": lowest, "y": lowest}})
    order = [tied.table[at].decode() for at in tied.docs.tolist()]
    plain = run_of({"a": {order[0]: 2.0, order[1]: 1.0}})

    for measure in ("Bpref", "infAP", "SetP", "SetR", "SetF", "SetAP", "Rprec(judged_only=True)"):
        assert score(tied, qrels, [measure]).values[measure].tolist() == score(plain, qrels, [measure]).values[measure].tolist()


def test_a_function_is_a_measure(store, bread, tmp_path):
    """It gets scores, best first, and all grades of each query; its name has the digest of its code; tests and keys use it."""

    def first_relevant(run, qrels):
        return float(next((qrels.get(document, 0) > 0 for document in run), False))

    seen = {}

    def kept(run, qrels):
        seen[len(seen)] = list(run.values()), qrels
        return 0.25

    def broken(run, qrels):
        return 1 / 0

    systems = ["bm25", "other = bm25(k1=5.0,b=0.0)"]
    found = lexbench.run(str(bread), systems, measures=["Success@1", first_relevant, kept], store=store.root)
    for result in found:
        official, own, _ = result.per_query.values()
        assert own == official
        assert result.means[found.measures[2]] == 0.25
    assert re.fullmatch(r"first_relevant#[0-9a-f]{8}", found.measures[1])
    assert all(scores == sorted(scores, reverse=True) and grades for scores, grades in seen.values())
    assert found.compare(measures=[first_relevant]).datasets[0].measure == found.measures[1]
    calls = len(seen)
    lexbench.run(str(bread), systems, measures=["Success@1", first_relevant, kept], store=store.root)
    assert len(seen) == calls  # the same function is not asked again
    scored = lexbench.score({"q": {"d": 1.0}}, qrels={"q": {"d": 1}, "p": {"e": 1}}, measures=[first_relevant])
    assert scored.result.means == {found.measures[1]: 0.5}
    with pytest.raises(CannotStart, match="is on no board"):
        lexbench.leaderboard(found).save(tmp_path / "board")
    failure = lexbench.run(str(bread), ["bm25"], measures=[broken], store=store.root).failures[0]
    assert re.search(r"measure broken#\w+ of query \S+: ZeroDivisionError: division by zero", failure.error)
    assert failure.again is None
    for wrong in (lambda run, qrels: 1.0, int, 3):
        with pytest.raises(NotationError, match="is no text"):
            lexbench.run(str(bread), ["bm25"], measures=[wrong], store=store.root)
    with pytest.raises(NotationError, match="give it in Python"):
        lexbench.run(str(bread), ["bm25"], measures=["unknown#12345678"], store=store.root)
