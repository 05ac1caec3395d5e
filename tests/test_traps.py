"""Sixteen ways to wrong numbers that were seen in other tools, each with the test that keeps lexbench from it.

 1  three tools give three answers for one run file          test_trap_01
 2  scores that float32 cannot tell apart                    test_measures: random runs score as in pytrec_eval
 3  1e-6 that changes no score above 32                      test_trec: strictly decreasing is what nextafter would do
 4  ties of coarse quantisation that nobody sees             test_measures: the tie interval is that of all orders
 5  comments in run files                                    test_trec: a run reads with comments; written files are plain
 6  checksums of another dataset                             test_contracts: every archive; test_datasets: archive
 7  means over the queries that returned something           test_measures: the mean is over the judged queries
 8  a suite that is not what its name says                   test_suites: means are over the sets of the papers
 9  graded judgements collapsed to sets                      test_measures: values by hand
10  times divided by the wrong number                        test_timing: statistics come from the durations
11  any grade counts as relevant                             test_contracts: agrees with itself; test_measures: threshold
12  an order that depends on the order of lines              test_trec: order is score then id both descending
13  cached vectors of another prompt                         lexbench/testing/encoders.py: key, files; test_identity
14  long terms that corrupt other weights                    lexbench/testing/engines.py: top k with ties
15  reports without the machine                              test_stopwatch: versions include what plugins need
16  self-matches dropped everywhere                          test_contracts: only ArguAna drops self-matches
"""

import ir_measures
import pytrec_eval

from lexbench.measures import score
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run, read_run, write_run
from lexbench.types import Judgement


def test_trap_01_three_tools_three_answers(tmp_path):
    """All tools agree on our files: RR .5, RR@10 .5 and nDCG@10 .631, after a tie of three scores of 300000."""
    qrels = {"q": {"b": 1}}
    tied = {"c": 300000.0, "b": 300000.0, "a": 300000.0, "z": 1.0}
    before = ir_measures.calc_aggregate([ir_measures.RR, ir_measures.RR @ 10], qrels, {"q": {**tied, "a0": 300000.0}})
    assert before[ir_measures.RR] != before[ir_measures.RR @ 10]  # the trap is still there

    write_run(Run.from_entries(["q"] * 4, list(tied), list(tied.values())), tmp_path / "run")
    exported = list(ir_measures.read_trec_run(str(tmp_path / "run")))
    scored = ir_measures.calc_aggregate([ir_measures.RR, ir_measures.RR @ 10, ir_measures.nDCG @ 10], qrels, exported)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate({"q": {row.doc_id: row.score for row in exported}})
    ours = score(read_run(tmp_path / "run"), Qrels.from_judgements([Judgement("q", "b", 1)]), ["RR", "RR@10", "nDCG@10"])

    assert {str(measure): round(value, 3) for measure, value in scored.items()} == {"RR": 0.5, "RR@10": 0.5, "nDCG@10": 0.631}
    assert theirs["q"]["recip_rank"] == 0.5
    assert {name: round(value, 3) for name, value in ours.means.items()} == {"RR": 0.5, "RR@10": 0.5, "nDCG@10": 0.631}
