"""Runs, judgements and results in other tools' formats: what is written reads back, and what is lost is said."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lexbench.analysis.verify.published import PublishedFile
from lexbench.cli import code
from lexbench.contracts import all_contracts
from lexbench.errors import CannotStart, InvalidFile
from lexbench.interop.conversion import export, import_file
from lexbench.interop.formats import exports, hub, imports, mteb
from lexbench.interop.formats.runs import read_ranx_qrels, read_ranx_run, write_ranx_qrels, write_ranx_run
from lexbench.interop.scores import ImportedScore, from_mteb, to_mteb, write_scores
from lexbench.results import Counts, Measurement, Result, write_results
from lexbench.storage.reading import read_toml
from lexbench.storage.store import Store
from lexbench.trec.qrels import Qrels, read_qrels, write_beir_qrels
from lexbench.trec.runs import Run, read_run, strictly_decreasing, write_msmarco_run, write_run
from lexbench.types import Judgement

pytestmark = pytest.mark.usefixtures("open_contracts")

needs_pyarrow = pytest.mark.skipif(not find_spec("pyarrow"), reason="it is in the extra parquet")

MEANS = {"nDCG@10": 0.25, "RR@10": 0.5, "R@100": 0.75, "AP@1000": 0.125, "Success@5": 1.0, "P@10": 0.1, "RCap@100": 0.8}
RUN = Run.from_entries(["q1", "q1", "q1", "q2"], ["a", "b", "ü", "a"], [1.0, 1.0, 2.5, -3.0])  # a and b are equal
QRELS = Qrels.from_judgements([Judgement("q1", "a", 2), Judgement("q1", "b", -1), Judgement("q2", "c", 0)])


def result(system="bm25", dataset="beir/scifact/test", means=MEANS):
    """Make a result of two queries."""
    per_query = {measure: [mean, mean] for measure, mean in means.items()}
    measured = Measurement(
        seconds={"build": 1.5, "search": 0.5}, started="2026-11-21T05:05:02+00:00", versions={"numpy": "2.4.6"},
        machine={"processor": "P", "cores": "2", "memory_gib": "24", "system": "Linux x86_64"},
    )  # fmt: skip
    return Result(
        system=system, dataset=dataset, contract=f"{dataset}@1", depth=1000, means=means, query_ids=["q1", "q2"],
        per_query=per_query, counts=Counts(queries=2, documents=4), digests={"corpus": "c0"}, measured=measured,
        recipe={"plugin": "retrievers/bm25"},
    )  # fmt: skip


def read_scores(path):
    """Return the scores in a file of the form of suites/expected."""
    return [
        ImportedScore(system.called, system.source, scores.dataset, scores.where, measure, value)
        for system in read_toml(path, PublishedFile).systems
        for scores in system.figures
        for measure, value in scores.values.items()
    ]


def order(run):
    """Return the document ids of each query, best first."""
    parts = zip(run.query_ids, run.offsets[:-1], run.offsets[1:], strict=True)
    return {query: [one.decode() for one in run.table[run.docs[start:stop]]] for query, start, stop in parts}


@pytest.fixture
def saved(tmp_path):
    """Make a leaderboard folder of two systems on SciFact and one on a collection that only lexbench has."""
    write_results([result("bm25"), result("a|b$c"), result("mine", "pydoc/test", {"RR(rel=2)@10": 0.5})], "beir", tmp_path)
    return tmp_path


# ranx


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abc"), st.integers(0, 30)), st.floats(width=32, min_value=-1e6, max_value=1e6), min_size=1
    )
)
def test_a_run_for_ranx_reads_back(tmp_path, scored):
    """Order and exported scores survive ranx's JSON to the last bit."""
    run = Run.from_entries([q for q, _ in scored], [f"d{d}" for _, d in scored], list(scored.values()))
    write_ranx_run(run, tmp_path / "run.json")
    again = read_ranx_run(tmp_path / "run.json")

    assert order(again) == order(run)
    assert np.array_equal(again.scores, strictly_decreasing(run))


@pytest.mark.slow  # ranx is compiled first
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # ranx leaves files open
def test_ranx_and_we_read_each_other(tmp_path, ir_datasets_home, monkeypatch):
    """The library ranx reads our files in our order, also with equal scores, and we read its files."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(ir_datasets_home))  # ranx imports ir_datasets, which takes its folder then
    library = pytest.importorskip("ranx", reason="it is in the extra test")

    write_ranx_run(RUN, tmp_path / "run.json")
    theirs = library.Run.from_file(str(tmp_path / "run.json"))
    assert order(RUN) == {"q1": ["ü", "b", "a"], "q2": ["a"]}
    assert {query: list(scores) for query, scores in theirs.to_dict().items()} == order(RUN)

    for name in ("saved.json", "saved.parquet"):
        theirs.save(str(tmp_path / name))
        assert order(read_ranx_run(tmp_path / name)) == order(RUN)


def test_judgements_for_ranx_read_back(tmp_path):
    """Grades are kept, negative ones too, in the shape that ranx's documentation gives."""
    write_ranx_qrels(QRELS, tmp_path / "qrels.json")

    assert list(read_ranx_qrels(tmp_path / "qrels.json").judgements()) == list(QRELS.judgements())
    assert json.loads((tmp_path / "qrels.json").read_text()) == {"q1": {"a": 2, "b": -1}, "q2": {"c": 0}}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("r.json", '{"q": {"d": "high"}}', r"r\.json: Expected `float`, got `str`"),
        ("r.json", '{"q": ', r"r\.json: Input data was truncated"),
        ("r.json", '{"q": {"d": 1e999}}', r"r\.json: Number out of range"),
        ("r.lz4", "x", r"r\.lz4: only ranx reads its \.lz4; in Python: Run\.from_file"),
        pytest.param("r.parquet", "x", r"r\.parquet: ", marks=needs_pyarrow),
        ("none.json", None, r"none\.json: .*No such file"),
    ],
)
def test_what_is_no_run_of_ranx_is_refused(tmp_path, name, text, message):
    """The error message names the file and the fault."""
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InvalidFile, match=message):
        read_ranx_run(tmp_path / name)


# MTEB


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("nDCG@10", "ndcg_at_10"), ("R@100", "recall_at_100"), ("Success@5", "hit_rate_at_5"), ("AP@1000", "map_at_1000")],
)
def test_measures_have_one_name_each_way(ours, theirs):
    """Names that mean the same are translated both ways."""
    assert to_mteb(ours) == theirs
    assert from_mteb(theirs) == ours


def test_measures_that_differ_are_not_translated():
    """A threshold of relevance, a capped recall and MTEB's other figures have no name on the other side."""
    assert [to_mteb(name) for name in ("RR(rel=2)@10", "RCap@100", "AP", "Judged@10")] == [None] * 4
    assert [from_mteb(name) for name in ("nauc_ndcg_at_10_max", "main_score", "cv_recall_at_10", "naucs_at_10")] == [None] * 4


def test_a_file_for_mteb_has_the_documented_fields(tmp_path):
    """All fields that mteb's TaskResult requires are present, with six digits per score (mteb 2.20, task_result.py)."""
    (path,) = mteb.write([result(means=MEANS | {"nDCG@10": 0.12345678})], tmp_path / "org__model")
    found = json.loads(path.read_text())
    (scores,) = found["scores"]["test"]

    assert path.relative_to(tmp_path).as_posix() == "org__model/no_revision_available/SciFact.json"
    assert found.keys() >= {"dataset_revision", "task_name", "mteb_version", "scores", "evaluation_time", "kg_co2_emissions"}
    assert (found["task_name"], found["mteb_version"], found["evaluation_time"]) == ("SciFact", None, 2.0)
    assert scores["main_score"] == scores["ndcg_at_10"] == 0.123457
    assert (scores["hf_subset"], scores["languages"]) == ("default", ["eng-Latn"])


def test_scores_of_mteb_read_back(tmp_path):
    """Measures with a name in MTEB come back as published scores, with model, dataset and place."""
    list(mteb.write([result()], tmp_path / "org__model"))
    rows = list(mteb.read(tmp_path / "org__model"))

    assert {row.measure: row.value for row in rows} == {name: mean for name, mean in MEANS.items() if name != "RCap@100"}
    assert {row[:4] for row in rows} == {("org/model", "MTEB", "beir/scifact/test", "SciFact.json, mteb of no version")}


def test_a_file_as_mteb_writes_it_is_read(tmp_path):
    """Other splits, subsets, tasks and figures are passed over, and data of another revision are told."""
    scores = {"hf_subset": "default", "languages": ["eng-Latn"], "main_score": 0.6, "ndcg_at_10": 0.6, "nauc_a": float("nan")}
    whole = {
        "dataset_revision": "0228b52", "task_name": "SciFact", "mteb_version": "1.38.3", "evaluation_time": 3.1,
        "scores": {"test": [scores, scores | {"hf_subset": "x"}], "train": [scores]}, "kg_co2_emissions": None,
    }  # fmt: skip
    place = tmp_path / "m" / "r"
    place.mkdir(parents=True)
    (place / "SciFact.json").write_text(json.dumps(whole))
    (place / "STS12.json").write_text(json.dumps(whole | {"task_name": "STS12"}))
    (place / "model_meta.json").write_text("{}")
    where = "SciFact.json, mteb 1.38.3, data of revision 0228b52, which may differ from beir/scifact/test"

    assert list(mteb.read(tmp_path / "m")) == [ImportedScore("m", "MTEB", "beir/scifact/test", where, "nDCG@10", 0.6)]
    (place / "SciFact.json").write_text(json.dumps(whole | {"scores": {"test": [scores | {"ndcg_at_10": 60.0}]}}))
    with pytest.raises(InvalidFile, match=r"ndcg_at_10 is 60\.0, not a score from 0 to 1; if it is a percentage"):
        list(mteb.read(place / "SciFact.json"))


def test_tasks_of_mteb_are_datasets_of_ours():
    """Every dataset in the table of MTEB's tasks has a contract."""
    assert mteb.TASKS.keys() <= all_contracts().keys()


# Hugging Face


def test_a_model_index_reads_back(tmp_path):
    """All measures come back, also on collections that are not on the hub, and the hub's library reads the card."""
    pytest.importorskip("huggingface_hub", reason="it is in the extra neural")
    from huggingface_hub import ModelCard

    both = [result(), result(dataset="pydoc/test", means={"RR(rel=2)@10": 0.5})]
    (path,) = hub.write_model_index(both, tmp_path)
    rows = list(hub.read_model_index(tmp_path))
    theirs = ModelCard.load(path).data.eval_results

    assert {(row.dataset, row.measure): row.value for row in rows} == {
        (one.dataset, measure): mean for one in both for measure, mean in one.means.items()
    }
    assert {row.system for row in rows} == {"bm25"}
    assert {(one.dataset_type, one.metric_type, one.metric_value) for one in theirs} >= {
        ("mteb/scifact", "ndcg_at_10", 0.25),
        ("pydoc/test", "RR(rel=2)@10", 0.5),
    }


def test_other_tools_measures_are_not_taken_for_ours(tmp_path):
    """The names that sentence-transformers writes into a card are of other measures: its nDCG knows no grades."""
    pytest.importorskip("huggingface_hub", reason="it is in the extra neural")
    (card,) = hub.write_model_index([result(means={"nDCG@10": 0.25, "Judged@10": 0.5})], tmp_path)
    text = card.read_text().replace("type: ndcg_at_10", "type: cosine_ndcg@10").replace("name: nDCG@10", "name: Cosine Ndcg@10")
    card.write_text(text)

    assert [row.measure for row in hub.read_model_index(card)] == ["Judged@10"]


def test_eval_results_read_back(tmp_path):
    """Files of `.eval_results` have every measure, and each says in its notes which it is, and of which system."""
    pytest.importorskip("huggingface_hub", reason="it is in the extra neural")
    (path,) = hub.write_eval_results([result("a of b, contract c")], tmp_path)
    rows = list(hub.read_eval_results(tmp_path))
    entry = msgspec.yaml.decode(path.read_bytes())[0]

    assert path.relative_to(tmp_path).as_posix() == ".eval_results/beir-scifact-test.yaml"
    revision = mteb.TASKS["beir/scifact/test"].revision
    assert entry["dataset"] == {"id": "mteb/scifact", "task_id": "ndcg_at_10", "revision": revision}
    assert (entry["value"], entry["date"]) == (0.25, "2026-11-21T05:05:02+00:00")
    assert {row.measure: row.value for row in rows} == MEANS
    assert {(row.system, row.dataset) for row in rows} == {("a of b, contract c", "beir/scifact/test")}


def test_what_is_no_card_is_refused(tmp_path):
    """A card without front matter, without model-index, or with a percentage is refused."""
    pytest.importorskip("huggingface_hub", reason="it is in the extra neural")
    card = tmp_path / "README.md"
    for text, message in (
        ("# A model\n", "it has no front matter"),
        ("---\nlicense: mit\n---\n", "model-index does not read"),
        ("---\n- a\n---\n", "model-index does not read"),
        ("---\na: [\n---\n", r"README\.md: "),
    ):
        card.write_text(text)
        with pytest.raises(InvalidFile, match=message):
            list(hub.read_model_index(card))
    (hub_path,) = hub.write_model_index([result(means={"nDCG@10": 0.25})], tmp_path)
    hub_path.write_text(hub_path.read_text().replace("0.25", "'25 ± 1'"))
    with pytest.raises(InvalidFile, match="ndcg_at_10 of mteb/scifact is '25 ± 1', not a score"):
        list(hub.read_model_index(card))


def test_eval_results_of_others_are_read(tmp_path):
    """Entries without a known measure are skipped; a file of another form is refused."""
    pytest.importorskip("huggingface_hub", reason="it is in the extra neural")
    entry = {"dataset": {"id": "mteb/nfcorpus", "task_id": "ndcg_at_10"}, "value": 0.3, "notes": "no prompt"}
    other = {"dataset": {"id": "cais/hle", "task_id": "default"}, "value": 20.9}
    place = tmp_path / "their-model" / ".eval_results" / "x.yaml"
    place.parent.mkdir(parents=True)
    place.write_bytes(msgspec.yaml.encode([entry, other]))

    (row,) = hub.read_eval_results(tmp_path / "their-model")
    assert row == ImportedScore("their-model", "model card", "beir/nfcorpus/test", ".eval_results/x.yaml", "nDCG@10", 0.3)
    for text in (
        "a: 1\n",
        "",
        "[1, 2]\n",
        "- dataset: {id: x}\n",
        "- {dataset: {id: x, task_id: y}, value: 1, source: {name: z}}\n",
    ):
        place.write_text(text)
        with pytest.raises(InvalidFile, match=r"x\.yaml: no list of results"):
            list(hub.read_eval_results(place))


# Published rows


def test_published_rows_read_back_and_verify_reads_them(tmp_path):
    """The file has the form of suites/expected with any characters, and the same bytes for the same rows."""
    rows = [
        ImportedScore('a "b"\n\\\x7fü', "MTEB", "beir/scifact/test", "w", measure, value) for measure, value in MEANS.items()
    ]
    write_scores(reversed(rows), tmp_path / "x.toml")
    expected = read_toml(tmp_path / "x.toml", PublishedFile)

    assert read_scores(tmp_path / "x.toml") == sorted(rows)
    assert expected.systems[0].figures[0].values == MEANS
    before = (tmp_path / "x.toml").read_bytes()
    write_scores(rows * 2, tmp_path / "x.toml")
    assert (tmp_path / "x.toml").read_bytes() == before


# The commands


def test_results_of_a_folder_are_exported_by_system(saved, tmp_path):
    """Formats of result files have one folder per system, and a note counts results that do not fit."""
    told = []
    paths = list(export("mteb", Store(tmp_path / "s"), tmp_path / "out", results=saved, tell=told.append))

    assert len(paths) == 2
    assert len({path.parent.parent for path in paths}) == 2
    assert told == ["left out 1 of 3 results, on collections that mteb does not have"]
    with pytest.raises(CannotStart, match="no result with nDCG@10 on a collection that eval-results has"):
        list(export("eval-results", Store(tmp_path / "s"), tmp_path / "out", results=saved, systems=["mine"]))


def test_parquet_has_a_row_a_query_and_measure(saved, tmp_path):
    """Every value of every query is there, with system, dataset and contract, and reads back equal."""
    read_table = pytest.importorskip("pyarrow.parquet", reason="it is in the extra parquet").read_table

    (path,) = export("parquet", Store(tmp_path / "s"), tmp_path / "out", results=saved, systems=["bm25"])
    table = read_table(path).to_pylist()

    assert len(table) == 2 * len(MEANS)
    assert {(row["measure"], row["query"]): row["value"] for row in table} == {
        (measure, query): mean for measure, mean in MEANS.items() for query in ("q1", "q2")
    }
    assert {(row["system"], row["dataset"], row["contract"]) for row in table} == {
        ("bm25", "beir/scifact/test", "beir/scifact/test@1")
    }


@pytest.fixture
def runs(tmp_path):
    """Write RUN, or QRELS, in every format that is imported into TREC files."""
    write_run(RUN, tmp_path / "trec")
    write_msmarco_run(RUN, tmp_path / "msmarco")
    lines = [line.split() for line in (tmp_path / "trec").read_text().splitlines()]
    (tmp_path / "scored").write_text("".join(f"{fields[0]}\t{fields[2]}\t{fields[4]}\n" for fields in lines))
    write_ranx_run(RUN, tmp_path / "ranx")
    write_beir_qrels(QRELS, tmp_path / "qrels")
    write_ranx_qrels(QRELS, tmp_path / "ranx-qrels")
    return tmp_path


@pytest.mark.parametrize("layout", ["trec", "msmarco", "scored", "ranx", "qrels", "ranx-qrels"])
def test_an_imported_file_is_ours(runs, layout):
    """From every format the TREC file has the same lists or judgements; the line has the next command."""
    following = import_file(layout, runs / layout, runs / "new folder" / "out")
    if layout.endswith("qrels"):
        assert list(read_qrels(runs / "new folder" / "out").judgements()) == list(QRELS.judgements())
        assert following == f"lexbench score RUN --qrels '{runs}/new folder/out'"
    else:
        assert order(read_run(runs / "new folder" / "out")) == order(RUN)
        assert f"""-r 'run_file(path="{runs}/new folder/out")'""" in following


def test_the_command_says_what_is_lost(tmp_path, capsys):
    """`lexbench import` prints the file, and on stderr what is lost and what to type next."""
    list(mteb.write([result()], tmp_path / "m"))
    assert code(["import", "mteb", str(tmp_path / "m"), str(tmp_path / "m.toml")]) == 0
    out, err = capsys.readouterr()

    assert out == f"{tmp_path / 'm.toml'}\n"
    assert err.splitlines()[0] == f"not kept: {imports()['mteb'].lost}"
    assert err.splitlines()[1].startswith("next: 6 published scores; ")
    assert len(read_scores(tmp_path / "m.toml")) == 6
    shutil.rmtree(tmp_path / "m")
    (tmp_path / "m").mkdir()
    assert code(["import", "mteb", str(tmp_path / "m"), str(tmp_path / "m.toml")]) == 3
    assert "no score of a dataset and measure that lexbench knows" in capsys.readouterr().err


def test_export_says_what_is_lost_and_takes_saved_results(saved, tmp_path, capsys):
    """`lexbench export` from a saved folder needs no store; runs are refused because such a folder has none."""
    out = str(tmp_path / "out")
    assert code(["export", "csv", out, "--results", str(saved), "-r", "bm25"]) == 0
    shown = capsys.readouterr()
    assert shown.err == f"not in this format: {exports()['csv'].lost}\n"
    assert Path(shown.out.strip()).read_text().splitlines()[0] == ",".join(["query", *MEANS])
    assert code(["export", "ranx", out, "--results", str(saved)]) == 1
    assert "has no run here" in capsys.readouterr().err


def test_every_format_says_what_is_lost(capsys):
    """Each format that the commands take has its line, is handled, and is in the help of its command."""
    assert {"trec", "msmarco", "ranx", "qrels", "csv", "parquet", "json"} < exports().keys()
    assert {"mteb", "model-index", "eval-results", "figures", "anserini", "ciff", "seismic"} < exports().keys()
    assert {"trec", "msmarco", "scored", "ranx", "qrels", "ranx-qrels"} < imports().keys()
    assert {"mteb", "model-index", "eval-results"} < imports().keys()
    for command, formats in (("export", exports()), ("import", imports())):
        assert code([command, "--help"]) == 0
        shown = capsys.readouterr().out
        assert all(form.lost and form.what and f"  {form.name} " in shown for form in formats.values())
