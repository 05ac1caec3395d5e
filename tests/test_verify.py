"""Measured scores against published ones, and causes of scores that are off."""

import json
from pathlib import Path

import expected_figures as tool
import numpy as np
import pytest
import samples
from samples import judged, ranked
from tiny import answer, ended

from lexbench import catalog, contracts
from lexbench.analysis.verify.published import PublishedScore, is_same_system, published_scores
from lexbench.analysis.verify.published import source as source_of
from lexbench.analysis.verify.verdicts import CheckVerdict, causes, compared_with
from lexbench.contracts import all_contracts
from lexbench.measures import parse as parse_measure
from lexbench.results import Counts
from lexbench.runner.systems import describe, system
from lexbench.trec.runs import without_self_matches

pytestmark = pytest.mark.usefixtures("open_contracts")

ROOT = Path(__file__).parent.parent
MINILM = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # as the hub prints it of model.safetensors


def figure(value, measure="nDCG@10", dataset="beir/scifact/test", system="bm25", source="pyserini 2CR"):
    """Return a published score."""
    return PublishedScore(system, system, dataset, measure, value, source_of(source), "a table")


def result(means, label="bm25", dataset="beir/scifact/test", recipe=None):
    """Return a measured result; the default recipe is that of the system *label*."""
    made = dict(system(label).recipe) if recipe is None else recipe
    facts = {"query_ids": [], "per_query": {}, "counts": Counts(queries=300)}
    return samples.result(label, dataset=dataset, means=means, recipe=made, **facts)


def dense(weights, engine="flat", **settings):
    """Return the recipe of MiniLM's settings with weights of this digest."""
    defaults = {"titles": "off", "query_length": 256, "document_length": 256, "pooling": "mean", "similarity": "cosine"}
    encoder = {"plugin": "encoders/dense", "settings": defaults | settings}
    encoder["identity"] = {"model": {"weights": weights}, "query_model": None}
    engines = {"plugin": f"engines/{engine}"}
    parts = {"encoder": encoder, "engine": engines, "transforms": []}
    return {"plugin": "retrievers/encoded", "settings": parts}


def test_every_published_score_is_valid():
    """Each has a described source, a dataset with a contract and a known measure, and is stored once."""
    every = published_scores()
    keys = [(one.system, one.called, one.dataset, one.measure, one.source.name, one.where, one.value) for one in every]

    assert len(every) > 1500
    assert {one.dataset for one in every} <= set(all_contracts())
    assert all(parse_measure(one.measure) for one in every)
    assert len(set(keys)) == len(keys)


def test_the_tool_makes_the_same_files(shared):
    """Each score of the list is in exactly one place, and none was changed by hand."""
    made = list(dict.fromkeys(tool.records(shared / "reference" / "reference-results.json")))
    own = {
        (tool._typed(model), one.source, one.dataset, one.measure, one.value)
        for name in catalog.names()
        for model in [catalog.model(name)]
        for one in model.published
    }

    for name, begins in tool._FILES.items():
        text = tool.text([record for record in made if record.dataset.startswith(begins)])
        assert (tool.FOLDER / f"{name}.toml").read_text(encoding="utf-8") == text
    assert own.isdisjoint((one.system, one.source, one.dataset, one.measure, one.value) for one in made)


def test_known_figures_are_there():
    """Pyserini's BM25 on SciFact and TREC DL with its threshold, the paper's top-64, and MTEB's MiniLM."""
    found = {(one.system, one.dataset, one.measure, one.value, one.source.name) for one in published_scores()}

    assert {
        ("bm25", "beir/scifact/test", "R@100", 0.9253, "pyserini 2CR"),
        ("bm25", "beir/scifact/test", "nDCG@10", 0.6789, "pyserini 2CR"),
        ("bm25", "msmarco-passage/trec-dl-2019/judged", "R(rel=2)@1000", 0.7501, "pyserini 2CR"),
        ("lexmae|top_k(64)", "msmarco-passage-titled/dev/small", "RR@10", 0.418, "LexMAE paper"),
        ("minilm", "beir/nfcorpus/test", "nDCG@10", 0.31594, "MTEB"),
    } <= found


@pytest.mark.parametrize(
    ("label", "fits", "published"),
    [
        ("bm25", True, "bm25"),
        ("bm25(k1=0.9, b=0.4)", True, "bm25"),
        ("bm25(threads=2)", True, "bm25"),
        ("bm25(k1=1.2)", False, "bm25"),
        ('bm25(ties="trec_eval")', False, "bm25"),
        ("ensemble(bm25, bm25(k1=2.0))", False, "bm25"),
        ("bm25(b=0.68, k1=0.82)", False, "bm25"),
        ("bm25(b=0.68, k1=0.82)", True, "bm25(k1=0.82, b=0.68)"),
    ],
)
def test_bm25_is_known_by_its_settings(label, fits, published):
    """Explicit defaults and settings that cannot change answers are the same system; other settings are not."""
    assert is_same_system(result({}, label), published) is fits


def test_bm25_is_known_by_its_files_and_engine():
    """With expansions it is another system; bm25@lucene is the published engine."""
    expanded = result({}, "mine", recipe=describe(system("bm25").retriever) | {"identity": {"expansions": "00"}})

    assert not is_same_system(expanded, "bm25")
    assert is_same_system(expanded, 'bm25(expansions="FILE")')
    lucene = {"plugin": "retrievers/bm25_lucene", "settings": {"k1": 0.9, "b": 0.4, "ties": "anserini"}}
    assert is_same_system(result({}, "bm25@lucene", recipe=lucene), "bm25")


def test_a_model_is_known_by_its_name_or_its_weights():
    """MiniLM in a folder is MiniLM if its weights have the known digest, its settings fit and its engine is exact."""
    pytest.importorskip("torch", reason="it is in the extra neural")
    label = 'dense(model="build/minilm")@flat'

    assert is_same_system(result({}, label, recipe=dense(MINILM)), "minilm")
    assert is_same_system(result({}, 'minilm(model="build/minilm")', recipe=dense("other")), "minilm")
    for other in (dense("other"), dense(MINILM, pooling="cls"), dense(MINILM, "faiss")):
        assert not is_same_system(result({}, label, recipe=other), "minilm")
    assert not is_same_system(result({}, label, recipe=dense(MINILM)), "tas_b")


def test_tolerances():
    """Half a unit of the last digit plus .0005 for BM25; for encoders plus .002, or one swap on few queries."""
    assert figure(0.6789).tolerance(43) == pytest.approx(0.00055)
    assert figure(0.149).printed == "0.1490"
    assert figure(0.185, source="LexMAE paper").tolerance(300) == pytest.approx(0.001)
    assert figure(0.64508, system="minilm", source="MTEB").tolerance(300) == pytest.approx(0.002005)
    assert figure(0.64508, system="minilm", source="MTEB").tolerance(43) == pytest.approx(0.5 / 43 + 0.000005)


def test_agreeing_with_one_of_several_scores_is_enough():
    """UniCOIL's RR is .6523 with PyTorch and .6400 with ONNX: one agrees, and the other is shown with the spread."""
    torch, onnx = (figure(value, source="pyserini 2CR") for value in (0.6523, 0.64))
    by_both, by_neither = (compared_with([result({"nDCG@10": mean})], [torch, onnx]) for mean in (0.6401, 0.6))

    verdicts = {check.published[0].printed: str(check.verdict) for check in by_both.checks}
    assert verdicts == {"0.6523": "other figure", "0.6400": "ok"}
    assert by_both.holds
    assert "from 0.6400 to 0.6523" in next(check for check in by_both.checks if check.verdict is CheckVerdict.SPREAD).reason
    assert [check.verdict for check in by_neither.checks] == [CheckVerdict.OFF, CheckVerdict.OFF]


PAPER, OTHER = "LexMAE paper", "anserini prebuilt"


@pytest.mark.parametrize(
    ("given", "verdicts"),
    [
        ([figure(0.6789)], {"pyserini 2CR": CheckVerdict.OK}),
        ([figure(0.6784)], {"pyserini 2CR": CheckVerdict.OK}),
        ([figure(0.6783)], {"pyserini 2CR": CheckVerdict.OFF}),
        ([figure(0.665, source=PAPER)], {PAPER: CheckVerdict.QUOTED}),
        ([figure(0.6789, source=PAPER)], {PAPER: CheckVerdict.OK}),
        ([figure(0.6789, source=PAPER), figure(0.7)], {PAPER: CheckVerdict.OK, "pyserini 2CR": CheckVerdict.OFF}),
        ([figure(0.6789), figure(0.6789, source=OTHER)], {f"pyserini 2CR, {OTHER}": CheckVerdict.OK}),
    ],
)
def test_verdicts(given, verdicts):
    """A mean of .67891 is ok within the tolerance and off beyond it; equal figures are one check.

    A copied score that differs proves nothing, and one that agrees does not excuse another.
    """
    checks = compared_with([result({"nDCG@10": 0.67891})], given).checks

    assert {", ".join(one.source.name for one in check.published): check.verdict for check in checks} == verdicts
    assert all(check.difference == pytest.approx(0.67891 - check.published[0].value) for check in checks)


def test_scores_under_other_rules_are_not_compared():
    """The paper's ArguAna keeps the query itself among the documents."""
    given = figure(0.315, dataset="beir/arguana", source="LexMAE paper")
    (check,) = compared_with([result({"nDCG@10": 0.315}, dataset="beir/arguana")], [given]).checks

    assert check.verdict is CheckVerdict.PROTOCOL
    assert "left the query itself out" in check.reason


@pytest.mark.parametrize(
    ("measure", "other"),
    [("Success@100", "R@100"), ("RCap@100", "R@100"), ("RR@10", "RR(rel=2)@10"), ("R(rel=2)@1000", "R@1000")],
)
def test_one_measure_is_never_taken_for_another(measure, other):
    """Neither another recall nor another threshold is compared."""
    found = compared_with([result({measure: 0.5})], [figure(0.5, other)])

    assert not found.checks
    assert [of for _, of in found.unmatched] == [measure]


ONE_OF_TWO = ranked(q="ax")
SELF = ranked(d1=["d1", "d2", "d3"], d2=["d2", "d1", "d3"])  # each query is a document, and finds itself first
OTHER_OF_TWO = judged(d1={"d2": 1}, d2={"d1": 1})
GRADE = "instead of {} as the lowest relevant grade"
GAIN = round((1 + 7 / np.log2(3)) / (7 + 1 / np.log2(3)), 4)  # instead of (1 + 3 / log2 3) / (3 + 1 / log2 3)


@pytest.mark.parametrize(
    ("run", "qrels", "measure", "value", "expected"),
    [
        # The document of grade 1 is first and that of grade 2 is third, so RR is 1 or 1/3.
        (ranked(q="axb"), judged(q={"a": 1, "b": 2}), "RR", 0.3333, ["0.3333 with 2 " + GRADE.format(1)]),
        (ranked(q="axb"), judged(q={"a": 1, "b": 2}), "RR(rel=2)", 1.0, ["1.0000 with 1 " + GRADE.format(2)]),
        # The relevant document is second behind the query itself, so RR is 1/2 or 1.
        (SELF, OTHER_OF_TWO, "RR@10", 1.0, ["1.0000 with the query's own document dropped"]),
        (without_self_matches(SELF).run, OTHER_OF_TWO, "RR@10", 0.5,
         ["0.5000 with the query's own document kept at the first rank"]),
        # With one of two relevant documents found, R is 1/2 and Success 1; at cutoff 1, RCap is also 1.
        (ONE_OF_TWO, judged(q={"a": 1, "b": 1}), "R@2", 1.0, ["1.0000 as Success@2"]),
        (ONE_OF_TWO, judged(q={"a": 1, "b": 1}), "R@1", 1.0, ["1.0000 as RCap@1", "1.0000 as Success@1"]),
        (ONE_OF_TWO, judged(q={"a": 1, "b": 1}), "RR@10", 0.9, []),
        (ranked(q="ab"), judged(q={"a": 1, "b": 3}), "nDCG@10", GAIN, [f"{GAIN:.4f} with a gain of 2^grade - 1"]),
    ],
)  # fmt: skip
def test_another_rule_is_named(run, qrels, measure, value, expected):
    """A wrong threshold, a kept or dropped self-match, another recall or another gain is named, and nothing else is blamed."""
    assert causes(run, qrels, figure(value, measure)) == [f"would be {cause}" for cause in expected]


EXPECTED = """\
schema = 1
[[systems]]
called = "bm25"
system = "bm25"
source = "pyserini 2CR"
figures = [{{ dataset = "bread/test", values = {{ "R@10" = {:.4f} }}, where = "by hand" }}]
"""


@pytest.fixture
def verify_bread(bread_suite, store, tmp_path, monkeypatch, capsys):
    """Run two systems on bread, with R@10, and publish the Success@10 of bm25 as its R@10. Return the command."""
    run = ["run", "suite", "bread", "-d", "bread/test", "-m", "R@10", "--results", "board", "-r"]
    ended(capsys, 0, *run, "bm25", "-r", "bm25(k1=2.0)")
    means = answer(capsys, "score", "bm25", "-d", "bread/test", "-m", "Success@10", "--json")["means"]
    (tmp_path / "expected").mkdir()
    (tmp_path / "expected" / "bread.toml").write_text(EXPECTED.format(*means.values()))
    folders = (*contracts.suite_folders(), tmp_path)
    monkeypatch.setattr(contracts, "suite_folders", lambda: folders)
    return ["verify", "bread", "--results", "board"]


def test_the_command_names_the_cause(verify_bread, capsys):
    """If a published R is in fact Success, the exit code is 1 and the possible causes are named."""
    causes = ["would be 1.0000 with 2 instead of 1 as the lowest relevant grade", "would be 1.0000 as Success@10"]
    told = " ".join(ended(capsys, 1, "verify", "bread").out.split())
    assert f"the run {', or '.join(causes)}" in told
    (check,) = json.loads(ended(capsys, 1, *verify_bread, "--json").out)["checks"]
    assert (check["verdict"], check["causes"]) == ("off", causes)
    assert check["sources"][0]["where"] == "by hand"


def test_without_a_comparison_nothing_is_verified(verify_bread, monkeypatch, capsys):
    """Without a published score the exit code is 1, and without the run in the store the cause is unknown."""
    alone = ended(capsys, 1, *verify_bread, "-r", "bm25(k1=2.0)").out
    assert alone == "nothing could be compared; 1 mean has no published figure\n"
    monkeypatch.setenv("LEXBENCH_STORE", "elsewhere")
    told = " ".join(ended(capsys, 1, *verify_bread).out.split())
    assert "the cause is unknown, because its run is not in the store" in told
