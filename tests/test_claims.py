"""Claims about run files: published values are confirmed and wrong ones refused; tests are those of other tools."""

import gzip
import json
import re

import ir_measures
import numpy as np
import pytest
from samples import judged
from scipy import stats
from test_dl_hard import OURS, THROUGH_IR_MEASURES, folder, printed
from tiny import answer, ended, enter, write_files

import lexbench
from lexbench.analysis.definitions import changes_of, definition, singles
from lexbench.analysis.significance import randomisation
from lexbench.errors import CommandError
from lexbench.trec.qrels import read_qrels
from lexbench.trec.runs import Run, read_by_rank, read_run

__all__ = ["folder"]  # a fixture

RUNS = {"doc": ("bm25", "bm25+parade-electra"), "passage": ("bm25", "bm25+rm3+t5(zs)")}
KINDS = ["passage", pytest.param("doc", marks=pytest.mark.slow)]  # twice as many lists, by the same rules
MEASURES = ["ndcg_cut_10", "map", "recip_rank", "P_10", "recall_100", "bpref"]
LEVEL = "with 2 instead of 1 as the lowest relevant grade"


def files(folder, kind):
    """Return two published runs and their judgements."""
    return [str(folder / "baselines" / kind / f"{name}.run.gz") for name in RUNS[kind]], str(folder / f"dl_hard-{kind}.qrels")


@pytest.mark.parametrize("kind", KINDS)
def test_published_values_are_confirmed_and_wrong_ones_refused(folder, kind):
    """The values that trec_eval printed for grade 2: as they are, under our names of them, and with the last digits changed."""
    runs, qrels = files(folder, kind)
    claims, ours, wrong = [], [], []
    for letter, name in zip("AB", RUNS[kind], strict=True):
        values = {measure: of.get("all") for measure, of in printed(folder / "baselines" / kind / f"{name}.run.eval").items()}
        claims += [f"{letter} {measure} {values[measure]}" for measure in MEASURES]
        named = OURS | THROUGH_IR_MEASURES
        ours += [f"{letter} {named[measure]} {values[measure]}" for measure in MEASURES]
        wrong.append(f"{letter} ndcg_cut_10 {float(values['ndcg_cut_10']) + 0.0123:.4f}")
    found = lexbench.compare(*runs, qrels=qrels, claims=[*claims, *ours, *wrong]).claims.values

    as_typed, exact, altered = found[: len(claims)], found[len(claims) : -len(wrong)], found[-len(wrong) :]
    for claim in as_typed:  # graded measures need no level
        if "ndcg" in claim.claim:
            assert claim.verdict == "confirmed", claim
        else:
            assert claim.verdict in ("other rules", "unclear", "confirmed"), claim
            assert claim.verdict == "confirmed" or [LEVEL] in [match.rules for match in claim.matches], claim
    assert [claim.verdict for claim in exact] == ["confirmed"] * len(ours)
    assert {claim.verdict for claim in altered} <= {"refused", "unclear"}  # two changes agree with some values by chance
    assert "refused" in {claim.verdict for claim in altered}
    assert all(claim.nearest for claim in altered if claim.verdict == "refused")


@pytest.mark.parametrize("kind", KINDS)
def test_tests_of_a_difference_are_those_of_other_tools(folder, kind):
    """Values per query by ir-measures, p by scipy; the randomisation test is scipy's but for the draws."""
    runs, path = files(folder, kind)
    qrels, measure = list(ir_measures.read_trec_qrels(path)), ir_measures.parse_measure("nDCG@10")
    values = []
    for run in runs:
        with gzip.open(run, "rt") as file:
            found = {
                one.query_id: one.value
                for one in ir_measures.iter_calc([measure], qrels, ir_measures.read_trec_run(file.read()))
            }
        values.append([found.get(query, 0.0) for query in sorted({one.query_id for one in qrels})])
    a, b = map(np.array, values)
    (claim,) = lexbench.compare(*runs, qrels=path, claims="B > A nDCG@10").claims.orders

    assert claim.difference == pytest.approx((b - a).mean())
    ps = {test.test: test.p for test in claim.tests}
    assert ps["paired t"] == pytest.approx(stats.ttest_rel(b, a).pvalue)
    assert ps["Wilcoxon"] == pytest.approx(stats.wilcoxon(b, a).pvalue)
    assert ps["sign"] == pytest.approx(stats.binomtest(int((b > a).sum()), int((b != a).sum())).pvalue)
    drawn = stats.permutation_test(
        (b, a), lambda x, y, axis: np.mean(x - y, axis), permutation_type="samples", n_resamples=9999, rng=1
    ).pvalue
    assert ps["randomisation"] == pytest.approx(drawn, abs=0.01)
    assert claim.needed == randomisation.queries_needed(b - a, abs((b - a).mean()))
    assert claim.verdict == ("holds" if ps["randomisation"] < 0.05 else "not shown")


def power(queries, effect, deviation):
    """Return the power of a two-sided paired t-test, by scipy's noncentral t."""
    bound = stats.t.ppf(0.975, queries - 1)
    shift = effect / deviation * np.sqrt(queries)
    return stats.nct.sf(bound, queries - 1, shift) + stats.nct.cdf(-bound, queries - 1, shift)


def test_so_many_queries_settle_a_difference(folder):
    """With that many queries of the same kind, a test finds the difference four times in five, by an exact power analysis."""
    runs, path = files(folder, "passage")
    (claim,) = lexbench.compare(*runs, qrels=path, claims="B > A R@1000").claims.orders
    assert claim.verdict == "not shown"
    qrels = read_qrels(folder / "dl_hard-passage.qrels")
    first, second = (
        definition(read_run(folder / "baselines" / "passage" / f"{name}.run.gz"), qrels, "R@1000").values
        for name in RUNS["passage"]
    )
    deviation = (second - first).std(ddof=1)
    assert power(claim.needed, claim.difference, deviation) == pytest.approx(0.8, abs=0.01)


# ---- each definition, by hand

RUN = Run.from_entries(
    ["q1", "q1", "q1", "q1", "q2", "q2"], ["a", "b", "c", "q1", "a", "d"], [3.0, 2.0, 2.0, 1.0, 2.0, 1.0], "double"
)
QRELS = judged(q1={"b": 3, "c": 1, "a": 0}, q2={"d": 1}, q3={"a": 1}, q4={"a": 0})
# q1: a (3.0), c and b (2.0, c first), q1 (1.0); q2: a, d; q3 and q4 have no answer, and q4 no relevant document.


@pytest.mark.parametrize(
    ("measure", "text", "expected"),
    [
        ("RR@10", "", (1 / 2 + 1 / 2 + 0 + 0) / 4),
        ("RR@10", "with 2 instead of 1 as the lowest relevant grade", (1 / 3 + 0 + 0 + 0) / 4),
        ("RR@10", "at a cutoff of 1", 0),
        ("RR@10", "over the queries only that the run answers", (1 / 2 + 1 / 2) / 2),
        ("RR@10", "over the queries only that have a relevant document", (1 / 2 + 1 / 2 + 0) / 3),
        ("RR@10", "over all 10 queries, 6 of them without judgements", (1 / 2 + 1 / 2) / 10),
        ("RR@10", "with unjudged documents left out of the lists", (1 / 2 + 1 + 0 + 0) / 4),  # q2's a is unjudged
        ("RR@10", "with the lowest score first", (1 / 2 + 1 + 0 + 0) / 4),  # q1: q1, then c
        ("RR@10", "with the ranks in the file in place of the scores", (1 + 1 / 2 + 0 + 0) / 4),
        ("RR(rel=2)@10", "with equal scores by ascending document id", (1 / 2 + 0 + 0 + 0) / 4),  # b before c
        ("RR(rel=2)@10", "with the best document first among equal scores", (1 / 2 + 0 + 0 + 0) / 4),
        ("RR(rel=2)@10", "with the worst document first among equal scores", (1 / 3 + 0 + 0 + 0) / 4),
        ("R@3", "as Success@3", (1 + 1 + 0 + 0) / 4),
        ("R@2", "as RCap@2", (1 / 2 + 1 + 0 + 0) / 4),
        ("nDCG@10", "with a gain of 2^grade - 1",
         ((1 / np.log2(3) + 7 / np.log2(4)) / (7 + 1 / np.log2(3)) + 1 / np.log2(3)) / 4),
        ("nDCG@10", "with a gain of 1 from grade 2", (1 / np.log2(4)) / 4),
        ("nDCG@10", "without a cutoff", ((1 / np.log2(3) + 3 / np.log2(4)) / (3 + 1 / np.log2(3)) + 1 / np.log2(3)) / 4),
        ("nDCG@2", "with an ideal ranking of the returned documents only",
         ((1 / np.log2(3)) / (3 + 1 / np.log2(3)) + 1 / np.log2(3)) / 4),
        ("P@2", "with the query's own document dropped", (1 / 2 + 1 / 2 + 0 + 0) / 4),
    ],
)  # fmt: skip
def test_each_definition_has_its_value(measure, text, expected):
    """Means over four judged queries, or over those that the rule names."""
    by_rank = Run.from_entries(
        ["q1", "q1", "q1", "q1", "q2", "q2"], ["b", "a", "c", "q1", "a", "d"], [-1, -2, -3, -4, -1, -2], "double"
    )
    changes = changes_of(RUN, QRELS, measure, by_rank=by_rank, topics=10)
    found = {one.text: one.mean for one in (definition(RUN, QRELS, measure), *singles(RUN, QRELS, measure, changes))}
    assert found[text] == pytest.approx(expected)


def test_scores_that_float32_cannot_tell_apart_have_a_definition():
    """As float32 they tie, and the larger id comes first."""
    run = Run.from_entries(["q1", "q1"], ["b", "c"], [12.34567891, 12.34567890], "double")
    texts = {one.text: one.mean for one in singles(run, QRELS, "RR(rel=2)@1", changes_of(run, QRELS, "RR(rel=2)@1"))}
    assert texts["with scores compared as float32"] == 0.0
    assert definition(run, QRELS, "RR(rel=2)@1").mean == 0.25


def test_the_ideal_of_the_returned_documents_is_smaller():
    """A list without the best document has the whole of its own ideal."""
    run = Run.from_entries(["q1", "q1"], ["c", "a"], [2.0, 1.0], "double")
    texts = {one.text: one.mean for one in singles(run, QRELS, "nDCG@10", changes_of(run, QRELS, "nDCG@10"))}
    assert texts["with an ideal ranking of the returned documents only"] == pytest.approx(1 / 4)


# ---- what is typed


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Make two runs and judgements in the current folder."""
    enter(tmp_path, monkeypatch)
    monkeypatch.setenv("COLUMNS", "100")
    lines = {"A": "q1 Q0 a 1 3 x\nq1 Q0 b 2 2 x\nq2 Q0 d 1 1 x\n", "B": "q1 Q0 b 1 9 x\nq2 Q0 a 1 2 x\nq2 Q0 d 2 1 x\n"}
    return write_files(
        tmp_path, {f"{name}.run": text for name, text in lines.items()} | {"Q": "q1 0 b 1\nq2 0 d 1\n", "B/A.run": lines["B"]}
    )


WORDS = ["compare", "A.run", "B.run", "--qrels", "Q"]  # RR of A: .5 and 1; of B: 1 and .5


@pytest.mark.parametrize(
    "claim",
    ["A RR@10 0.75", "A RR@10 .75", "A RR@10 75 %", "A RR@10 75", "A RR@10 = 0,750", "A.run mrr@10 0.8", "A recip_rank 0.75"],
)
def test_a_value_may_be_typed_as_papers_print_it(place, capsys, claim):
    """With or without a zero, in percent, with a comma, with fewer digits; systems by letter, name or file."""
    found = answer(capsys, *WORDS, "--claim", claim, "--json")["claims"]["values"]
    assert [(one["verdict"], one["mean"]) for one in found] == [("confirmed", 0.75)]


def test_a_refused_claim_ends_with_1_and_is_named(place, capsys):
    """Confirmed ones end with 0."""
    ended(capsys, 0, *WORDS, "--claim", "A RR@10 0.7500")
    refused = ended(capsys, 1, *WORDS, "--claim", "A RR@10 0.7777", "--claim", "B > A RR@10")
    assert "not confirmed: A RR@10 0.7777; B > A RR@10" in refused.err
    assert "none of " in refused.out
    assert "claim B > A RR@10: refused" in refused.out  # their means are equal
    assert "there is no difference to be settled" in refused.out


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ("A is better", "'A is better' is no claim; write --claim 'B nDCG@10 0.412' or --claim 'B > A nDCG@10'"),
        ("C RR@10 .5", "a claim is about 'C', and there is: A (A), B (B)"),
        ("A RX@10 .5", "no measure 'RX"),
        ("A > B", "is no claim"),
    ],
)
def test_what_is_no_claim_is_refused(place, claim, message):
    """In one line that says what to type."""
    with pytest.raises(lexbench.errors.LexbenchError, match=re.escape(message)):
        lexbench.compare("A.run", "B.run", qrels="Q", claims=claim)


def test_a_name_that_is_the_letter_of_another_is_refused(place):
    """B.run comes first, so the letter A is B's; the file says which is meant."""
    with pytest.raises(CommandError, match="'A' is the name of one system and the letter of another"):
        lexbench.compare("B.run", "A.run", qrels="Q", claims="A RR@10 0.75")
    (claim,) = lexbench.compare("B.run", "A.run", qrels="Q", claims="A.run RR@10 0.75").claims.values
    assert (claim.system, claim.verdict) == ("A", "confirmed")


def test_coarse_values_are_unclear(folder):
    """Two digits are given by some definitions, and would be by chance: that is said, and confirms nothing."""
    runs, path = files(folder, "passage")
    (claim,) = lexbench.compare(*runs, qrels=path, claims="B nDCG@10 .41").claims.values
    assert claim.verdict == "unclear"
    assert claim.chance > 0.1
    assert all(abs(match.mean - 0.41) <= 0.005 for match in claim.matches)


def test_claims_about_stored_systems_are_checked(tmp_path, monkeypatch, capsys):
    """Their runs come from the store; the rules are those of the dataset: from grade 2 on pydoc."""
    enter(tmp_path, monkeypatch)
    ended(capsys, 0, "run", "pydoc", "-r", "bm25", "-r", "bm25(k1=2)")
    found = answer(
        capsys,
        "compare",
        "bm25",
        "bm25(k1=2)",
        "-d",
        "pydoc/test",
        "--claim",
        "A MRR@10 .3938",
        "--claim",
        "B > A nDCG@10",
        "--json",
    )
    assert [one["verdict"] for one in found["claims"]["values"]] == ["confirmed"]
    assert found["claims"]["values"][0]["measure"] == "RR(rel=2)@10"
    assert json.dumps(found["claims"]["orders"][0]["tests"][0]["test"]) == '"randomisation"'


def test_ranks_of_a_file_are_read(tmp_path):
    """Ranks decide, whatever the scores; a file without numbers there has none."""
    (tmp_path / "run").write_text("q Q0 a 2 9 t\nq Q0 b 1 1 t\n")
    assert read_by_rank(tmp_path / "run").ranks.tolist() == [1, 2]
    assert [read_by_rank(tmp_path / "run").table[code].decode() for code in read_by_rank(tmp_path / "run").docs] == ["b", "a"]
    (tmp_path / "run").write_text("q Q0 a x 9 t\n")
    assert read_by_rank(tmp_path / "run") is None
