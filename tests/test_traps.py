"""Sixteen ways to wrong numbers that were seen in other tools, and the test that holds each of them.

 1  three tools give three answers for one run file          test_trap_01
 2  scores that float32 cannot tell apart                    test_measures: random runs score as in pytrec_eval
 3  1e-6 that changes no score above 32                      test_ranking: strictly decreasing is what nextafter would do
 4  ties of coarse quantisation that nobody sees             test_measures: the tie interval is that of all orders
 5  comments in run files                                    test_trec: a run reads with comments; written files are plain
 6  checksums of another dataset                             test_trap_06; test_datasets: archive that is not the published one
 7  means over the queries that returned something           test_measures: the mean is over the judged queries
 8  a suite that is not what its name says                   test_suites: means are over the sets of the papers; test_trap_08
 9  graded judgements collapsed to sets                      test_measures: values by hand
10  times divided by the wrong number                        test_timing: statistics come from the durations
11  any grade counts as relevant                             test_contracts: agrees with itself; test_measures: threshold
12  an order that depends on the order of lines              test_ranking: order is score then id both descending
13  cached vectors of another prompt                         lexbench/testing/encoders.py: key, files; test_identity
14  long terms that corrupt other weights                    lexbench/testing/engines.py: top k with ties
15  reports without the machine                              test_trap_15
16  self-matches dropped everywhere                          test_contracts: only ArguAna drops self-matches; test_trap_16
"""

from collections import Counter

import ir_measures
import pytest
import pytrec_eval

from lexbench import suites
from lexbench.contracts import all_contracts
from lexbench.measures import score
from lexbench.storage import environment
from lexbench.trec.qrels import Qrels, read_qrels
from lexbench.trec.runs import Run, read_run, write_run
from lexbench.types import Judgement


def run_of(scores):
    """Make a run of one query from {document: score}."""
    return Run.from_entries(["q"] * len(scores), list(scores), list(scores.values()))


def test_trap_01_three_tools_three_answers(tmp_path):
    """All tools agree on our files: RR .5, RR@10 .5 and nDCG@10 .631, after a tie of three scores of 300000."""
    qrels = {"q": {"b": 1}}
    tied = {"c": 300000.0, "b": 300000.0, "a": 300000.0, "z": 1.0}
    before = ir_measures.calc_aggregate([ir_measures.RR, ir_measures.RR @ 10], qrels, {"q": {**tied, "a0": 300000.0}})
    assert before[ir_measures.RR] != before[ir_measures.RR @ 10]  # the trap is still there

    write_run(run_of(tied), tmp_path / "run")
    exported = list(ir_measures.read_trec_run(str(tmp_path / "run")))
    scored = ir_measures.calc_aggregate([ir_measures.RR, ir_measures.RR @ 10, ir_measures.nDCG @ 10], qrels, exported)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate({"q": {row.doc_id: row.score for row in exported}})
    ours = score(read_run(tmp_path / "run"), Qrels.from_judgements([Judgement("q", "b", 1)]), ["RR", "RR@10", "nDCG@10"])

    assert {str(measure): round(value, 3) for measure, value in scored.items()} == {"RR": 0.5, "RR@10": 0.5, "nDCG@10": 0.631}
    assert theirs["q"]["recip_rank"] == 0.5
    assert {name: round(value, 3) for name, value in ours.means.items()} == {"RR": 0.5, "RR@10": 0.5, "nDCG@10": 0.631}


def test_trap_06_checksums_of_another_dataset():
    """Every archive has its own MD5 in our contracts."""
    sources = [one.source for name, one in all_contracts().items() if name != "bright/theoremqa-questions"]  # has those of AoPS
    archives = {(source.md5, source.url) for source in sources if source.md5}
    assert Counter(md5 for md5, _ in archives).most_common(1)[0][1] == 1


def test_trap_08_a_mean_of_fewer_sets():
    """The mean of BEIR is arithmetic: one 0 does not make it 0; and without one of the sets there is none."""
    beir = suites.suite("beir").aggregates[0]
    scores = dict.fromkeys(beir.members, 0.6) | {"beir/scidocs": 0.0}
    assert beir.over(scores).value == pytest.approx(0.55)
    del scores["beir/scidocs"]
    assert (beir.over(scores).value, str(beir.over(scores))) == (None, "11/12")


def test_trap_15_reports_without_the_machine():
    """Every fact of the machine is there, and none is empty."""
    facts = environment.facts()

    assert {"processor", "cores", "memory_gib", "system", "python"} <= set(facts)
    assert all(facts.values())
    assert int(facts["cores"]) >= 1


def test_trap_16_elsewhere_equal_ids_mean_nothing(shared):
    """In no other published judgements is a document with the query's id relevant, which dropping would lose."""
    data = shared / "data"
    files = [*data.glob("beir_topics_qrels/qrels.*"), *data.glob("msmarco/qrels.*-passage*")]
    assert len(files) == 15
    for path in files:  # had one of these a relevant document with the query's id, dropping it would cost score
        assert not [row for row in read_qrels(path).judgements() if row.query_id == row.doc_id and row.grade > 0], path
