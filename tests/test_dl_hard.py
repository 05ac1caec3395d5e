"""Twenty published runs have the values that trec_eval printed for them: every query of every measure that we share."""

from pathlib import Path

import numpy as np
import pytest

from lexbench.measures import External, parse, score
from lexbench.trec.qrels import read_qrels
from lexbench.trec.runs import read_run

CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
# trec_eval's name -> ours. The files were made with `trec_eval -q -l 2 -m all_trec`, before version 10.
OURS = (
    {"ndcg": "nDCG", "map": "AP(rel=2)", "recip_rank": "RR(rel=2)"}
    | {f"ndcg_cut_{k}": f"nDCG@{k}" for k in CUTOFFS}
    | {f"map_cut_{k}": f"AP(rel=2)@{k}" for k in CUTOFFS}
    | {f"P_{k}": f"P(rel=2)@{k}" for k in CUTOFFS}
    | {f"recall_{k}": f"R(rel=2)@{k}" for k in CUTOFFS}
    | {f"success_{k}": f"Success(rel=2)@{k}" for k in (1, 5, 10)}
    | {f"iprec_at_recall_{i / 10:.2f}": f"IPrec(rel=2,up=True)@{i / 10}" for i in range(11)}
)
THROUGH_IR_MEASURES = {
    "Rprec": "Rprec(rel=2)", "bpref": "Bpref(rel=2)", "infAP": "infAP(rel=2)", "num_ret": "NumRet",
    "num_rel_ret": "NumRet(rel=2)", "set_P": "SetP(rel=2)", "set_recall": "SetR(rel=2)", "set_map": "SetAP(rel=2)",
    "set_F": "SetF(rel=2)",
}  # fmt: skip
DOC = """bm25 bm25+bert-mp bm25+bert-mp(zs) bm25+electra-mp bm25+parade-bert bm25+parade-electra bm25+t5-mp(zs) bm25+rm3
    bm25+rm3+bert-mp bm25+rm3+bert-mp(zs) bm25+rm3+electra-mp bm25+rm3+parade-bert bm25+rm3+parade-electra bm25+rm3+t5-mp(zs)"""
PASSAGE = "bm25 bm25+bert(zs) bm25+t5(zs) bm25+rm3 bm25+rm3+bert(zs) bm25+rm3+t5(zs)"
RUNS = [*(f"doc/{name}" for name in DOC.split()), *(f"passage/{name}" for name in PASSAGE.split())]


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    """Return the folder of DL-HARD (Mackie, Dalton and Yates, SIGIR 2021)."""
    return shared / "data" / "runs" / "dl-hard"


def printed(path):
    """Return {measure: {query: text}} of a file that trec_eval wrote."""
    values = {}
    for line in path.read_text().splitlines():
        name, query, value = line.split(maxsplit=2)
        values.setdefault(name, {})[query] = value
    return values


def scored(folder, name, measures):
    """Return our scores of a run, and what trec_eval printed."""
    qrels = read_qrels(folder / f"dl_hard-{name.partition('/')[0]}.qrels")
    run = read_run(folder / "baselines" / f"{name}.run.gz")
    return score(run, qrels, measures.values()), printed(folder / "baselines" / f"{name}.run.eval")


@pytest.mark.parametrize(
    "name", [*RUNS[::3], *(pytest.param(name, marks=pytest.mark.slow) for name in RUNS if name not in RUNS[::3])]
)
def test_every_value_is_the_one_that_trec_eval_printed(folder, name):
    """All four decimals of every query and of the mean are the same."""
    scores, expected = scored(folder, name, OURS)

    differences = [
        (theirs, query, value, expected[theirs][query])
        for theirs, ours in OURS.items()
        for query, value in [*zip(scores.query_ids, scores.values[ours], strict=True), ("all", scores.means[ours])]
        if f"{value:.4f}" != expected[theirs][query]
    ]
    assert not differences
    assert len(scores.query_ids) == 50
    assert scores.missing == 0


@pytest.mark.parametrize("name", RUNS[::5])
def test_measures_of_ir_measures_have_the_values_of_trec_eval(folder, name):
    """Its providers get strictly decreasing scores, so they see the same order as trec_eval."""
    scores, expected = scored(folder, name, THROUGH_IR_MEASURES)
    for theirs, ours in THROUGH_IR_MEASURES.items():
        values = np.array([float(expected[theirs][query]) for query in scores.query_ids])
        assert isinstance(parse(ours), External)
        assert scores.values[str(parse(ours))] == pytest.approx(values, abs=0.5001e-4), theirs
