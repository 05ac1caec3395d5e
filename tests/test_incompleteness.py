"""Unjudged documents: condensed lists, the highest possible mean, gaps between systems, and leaving contributors out."""

import msgspec
import numpy as np
import pytest
import samples
from samples import judged, ranked
from tiny import answer

import lexbench
from lexbench.analysis.judgements import is_contributor, judged_gaps, leave_one_out
from lexbench.contracts import Protocol, contract_of
from lexbench.errors import CommandError
from lexbench.measures import incomplete_report, score
from lexbench.results import Incomplete, write_results
from lexbench.runner.scoring import score_ranked
from lexbench.trec.qrels import write_qrels
from lexbench.trec.runs import write_run

pytestmark = pytest.mark.usefixtures("open_contracts")

QRELS = judged(q={"a": 2, "b": 0, "c": 1}, r={"a": 1})
RUN = ranked(q="xbayc", other="a")  # x and y were not judged; r has no list


def test_condensed_lists_and_the_most_by_hand():
    """Without x and y the list is b a c; with both at the best grade, the first and the third document are relevant."""
    found = incomplete_report(RUN, QRELS, ["RR@3", "P@2", "nDCG@2", "Judged@2", "AP"])
    gain = 1 / np.log2(3)

    assert set(found) == {"RR@3", "P@2", "nDCG@2"}
    assert found["RR@3"] == Incomplete(condensed=(1 / 2 + 0) / 2, highest=(1 + 0) / 2)
    assert found["P@2"] == Incomplete(condensed=(1 / 2) / 2, highest=(1 / 2) / 2)
    assert found["nDCG@2"].condensed == pytest.approx(2 * gain / (2 + gain) / 2)
    assert found["nDCG@2"].highest == pytest.approx(2 / (2 + 2 * gain) / 2)  # the ideal has x and a, both of grade 2


def test_measures_with_settings_of_their_own_are_in_the_report():
    """RBP, ERR and AllRelevant, on the same lists: b a c without x and y, and x b a with x at the best grade."""
    found = incomplete_report(RUN, QRELS, ["RBP(p=0.5)@3", "ERR(max_rel=2)@3", "AllRelevant@3", "RBP"])

    assert found == {
        "RBP(p=0.5)@3": Incomplete(condensed=0.5 * (1 / 2 + 1 / 4) / 2, highest=0.5 * (1 + 1 / 4) / 2),
        "ERR(max_rel=2)@3": Incomplete(condensed=(3 / 4 / 2 + 1 / 4 * 1 / 4 / 3) / 2, highest=(3 / 4 + 1 / 4 * 3 / 4 / 3) / 2),
        "AllRelevant@3": Incomplete(condensed=1 / 2, highest=0),  # c is not among the first three
    }


def test_where_all_is_judged_nothing_is_open():
    """If everything is judged, both figures equal the mean."""
    run = ranked(q="ba", r="a")
    means = score(run, QRELS, ["nDCG@10", "RR@10"]).means

    for measure, one in incomplete_report(run, QRELS, ["nDCG@10", "RR@10"]).items():
        assert (one.condensed, one.highest) == pytest.approx((means[measure], means[measure]))


def result(system, judged, **more):
    """Return a result with these shares of judged documents of two queries."""
    values = {"nDCG@10": [0.5, 0.5], "Judged@10": judged}
    means = {name: sum(of_queries) / 2 for name, of_queries in values.items()}
    return samples.result(system, means=means, per_query=values, **more)


def test_a_gap_of_judged_documents_has_notes(tmp_path):
    """.95 and .65 are not comparable: notes name the gap, the pool, and the bounds of the lower one; .05 is no gap."""
    open_ = {"nDCG@10": Incomplete(condensed=0.6, highest=0.8)}
    made = [result("bm25", [1.0, 0.9]), result("lexmae", [0.7, 0.6], incomplete=open_)]
    lines = list(judged_gaps(made))

    assert lines[0].startswith("pydoc/test: Judged@10 ranges from 0.65 (lexmae) to 0.95 (bm25)")
    assert lines[1] == (
        "pydoc/test was judged by language models; the pool favours its contributors: BM25 with and without stemming; "
        "character n-grams; MiniLM; contributors here: bm25"
    )
    assert lines[2] == "lexmae on pydoc/test: nDCG@10 0.5000, on condensed lists 0.6000, at most 0.8000"
    assert list(judged_gaps([result("a", [1.0, 0.9]), result("b", [0.9, 0.9])])) == []
    write_results(made, "pydoc", tmp_path)
    page = lexbench.leaderboard(tmp_path).pages()[tmp_path / "README.md"]
    assert "- pydoc/test: Judged@10 ranges from 0.65 (lexmae) to 0.95 (bm25)\n" in page
    judged = lexbench.leaderboard(tmp_path).board.suites[0].datasets[0].details
    assert not any(mark[[one.name for one in judged.columns].index("Judged@10")] for mark in judged.marks())  # it is no merit


def test_complete_judgements_leave_nothing_open():
    """Cranfield's judges read all documents, so unjudged documents are irrelevant."""
    made = [result("a", [1.0, 0.9]), result("b", [0.1, 0.1])]

    assert list(judged_gaps([msgspec.structs.replace(one, dataset="cranfield") for one in made])) == []


def test_documents_of_the_dropped_grade_are_removed():
    """Cranfield's source papers have a separate grade. They are dropped from lists and counted, since version 2."""
    stamps = {"system": "s", "dataset": "d", "contract": "c"}
    kept = score_ranked(RUN, QRELS, ["RR@3"], stamps)
    dropped = score_ranked(RUN, QRELS, ["RR@3"], stamps, protocol=Protocol(drop_grade=0))

    assert (kept.means["RR@3"], dropped.means["RR@3"]) == ((1 / 3) / 2, (1 / 2) / 2)
    assert (kept.counts.excluded, dropped.counts.excluded) == (0, 1)
    assert (contract_of("cranfield").stamp, contract_of("cranfield").protocol.drop_grade) == ("cranfield@2", 0)


def test_a_contributor_is_left_out_by_hand():
    """The first finds a and b, the second c: without the judgement of c, the second has found nothing and is last."""
    runs = {"one": ranked(q="axb"), "two": ranked(q="cy"), "late": ranked(q="xa")}
    rows = leave_one_out(runs, judged(q={"a": 1, "b": 0, "c": 1}, r={"z": 1}), "RR@10", ["one", "two"], depth=2)
    by_name = {row.system: row for row in rows}
    one, two, late = by_name["one"], by_name["two"], by_name["late"]

    assert [row.system for row in rows] == ["one", "two", "late"]
    assert (one.mean, two.mean, late.mean) == (0.5, 0.5, 0.25)  # r, which has no list, counts 0
    assert (one.judged, two.judged, late.judged) == (0.5, 0.5, 0.5)  # of the first two
    assert (one.unique, one.relevant, one.mean_without, one.rank_without) == (1, 1, 0.0, 2)  # b is its third; late is no peer
    assert (two.unique, two.relevant, two.mean_without, two.rank_without) == (1, 1, 0.0, 3)
    assert (late.contributes, late.mean_without, late.rank_without) == (False, None, None)


def test_documents_of_two_contributors_are_not_unique():
    """Equal lists have no unique documents, so nothing changes; a contributor must have a run."""
    equal = {"one": ranked(q="a"), "two": ranked(q="a")}
    rows = leave_one_out(equal, QRELS, "nDCG@10", ["one", "two"], depth=10)

    assert [(row.unique, row.mean_without == row.mean, row.rank_without) for row in rows] == [(0, True, 1)] * 2
    with pytest.raises(CommandError, match="'three' has no run here; there are runs of: one, two"):
        leave_one_out(equal, QRELS, "nDCG@10", ["three"], depth=10)
    with pytest.raises(CommandError, match="needs at least two systems"):
        leave_one_out({"one": ranked(q="a")}, QRELS, "nDCG@10", ["one"], depth=10)


def test_contributors_are_in_the_contract():
    """BM25 and MiniLM with any settings and engine contributed to pydoc; systems made of them did not."""
    contract = contract_of("pydoc/test")
    told = {name: is_contributor(name, contract) for name in ("bm25(b=0.3)", 'minilm(model="x")@faiss', "splade@impact", "me")}
    deep = contract_of("pydoc/test/depth10")

    assert told == {"bm25(b=0.3)": True, 'minilm(model="x")@faiss': True, "splade@impact": False, "me": False}
    assert not is_contributor("ensemble(bm25, minilm)", contract)
    assert contract.judging.depth == 15
    assert is_contributor("lexmae_nano@impact", deep)
    assert not is_contributor("lexmae_nano|top_k(4)@impact", deep)


def test_the_command_takes_run_files(tmp_path, capsys):
    """With a qrels file, every run contributes."""
    for name, documents in {"one": "axb", "two": "cy"}.items():
        write_run(ranked(q=documents), tmp_path / name)
    write_qrels(QRELS, tmp_path / "qrels")
    one, two = str(tmp_path / "one"), str(tmp_path / "two")

    rows = answer(capsys, "judge", "pool", one, two, "--qrels", str(tmp_path / "qrels"), "-m", "RR", "--depth", "1", "--json")
    assert [(row["system"], row["contributes"], row["unique"], row["mean_without"]) for row in rows] == [
        (one, True, 1, 0.0), (two, True, 1, 0.0),
    ]  # fmt: skip
