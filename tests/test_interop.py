"""Runs, judgements and results in other tools' formats: what is written reads back, and what is lost is said."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import samples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import ended, lines

from lexbench.contracts import all_contracts
from lexbench.errors import InvalidFile, LexbenchError
from lexbench.interop.conversion import export, import_file
from lexbench.interop.formats import Target, exports, imports, mteb
from lexbench.interop.formats.mteb import from_mteb, to_mteb
from lexbench.interop.formats.runs import write_ranx_run
from lexbench.results import Entry, Measurement, write_results
from lexbench.runner.systems import system as runner_system
from lexbench.storage.store import Store
from lexbench.trec.qrels import Qrels, read_qrels, write_beir_qrels
from lexbench.trec.runs import Run, read_run, strictly_decreasing, write_msmarco_run, write_run
from lexbench.types import Judgement

pytestmark = pytest.mark.usefixtures("open_contracts")

MEANS = {"nDCG@10": 0.25, "RR@10": 0.5, "R@100": 0.75, "AP@1000": 0.125, "Success@5": 1.0, "P@10": 0.1, "RCap@100": 0.8}
RUN = Run.from_entries(["q1", "q1", "q1", "q2"], ["a", "b", "ü", "a"], [1.0, 1.0, 2.5, -3.0])  # a and b are equal
QRELS = Qrels.from_judgements([Judgement("q1", "a", 2), Judgement("q1", "b", -1), Judgement("q2", "c", 0)])


def result(system="bm25", dataset="beir/scifact/test", means=MEANS):
    """Make a result of two queries."""
    per_query = {measure: [mean, mean] for measure, mean in means.items()}
    measured = Measurement(seconds={"build": 1.5, "search": 0.5}, started="2026-11-21T05:05:02+00:00")
    recipe = dict(runner_system("bm25").recipe)
    return samples.result(system, dataset=dataset, means=means, per_query=per_query, measured=measured, recipe=recipe)


def order(run):
    """Return the document ids of each query, best first."""
    parts = zip(run.query_ids, run.offsets[:-1], run.offsets[1:], strict=True)
    return {query: [one.decode() for one in run.table[run.docs[start:stop]]] for query, start, stop in parts}


@pytest.fixture
def saved(tmp_path):
    """Make a leaderboard folder of two systems on SciFact and one on a collection that only lexbench has."""
    write_results([result("bm25"), result("a|b$c"), result("mine", "pydoc/test", {"RR(rel=2)@10": 0.5})], "own", tmp_path)
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
    again = read_run(tmp_path / "run.json")

    assert order(again) == order(run)
    assert np.array_equal(again.scores, strictly_decreasing(run.offsets, run.scores))


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

    theirs.save(str(tmp_path / "saved.json"))
    assert order(read_run(tmp_path / "saved.json")) == order(RUN)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run.csv", "qid,docno,score\n1,a,high\n", r"run\.csv.*document 'a' of query '1': the score 'high' is no number"),
        ("run.csv", "qid,docno,score\n1,a,nan\n", r"run\.csv.*document 'a' of query '1' .*not a finite number"),
        ("run.csv", "qid,docno,score\n1,a,1\n1,a,2\n", r"run\.csv.*document 'a' of query '1' .*more than once"),
        ("r.json", '{"q": {"d": "high"}}', r"r\.json, line 1: document 'd' of query 'q': the score 'high' is no number"),
        ("r.json", '{"q": {"d": null}}', r"r\.json, line 1: document 'd' of query 'q': the score is empty"),
        ("r.json", '{"q": ', r"r\.json.*not JSON"),
        ("r.json", '{"q": {"d": 1e999}}', r"r\.json: document 'd' of query 'q' has a score that is not a finite number"),
        ("r.lz4", "x", r"r\.lz4 is compressed by ranx; in Python: ranx\.Run\.from_file"),
        ("none.json", None, r"none\.json: .*No such file"),
    ],
)
def test_a_faulty_run_is_not_imported(tmp_path, name, text, message):
    """The error message names the file, the fault, and the entry where there is one."""
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InvalidFile, match=message):
        import_file("table" if name == "run.csv" else "ranx", tmp_path / name, tmp_path / "out")


@pytest.mark.parametrize("layout", ["trec", "msmarco", "scored", "colbert"])
def test_json_is_not_imported_as_lines(tmp_path, layout):
    """The format that is typed counts, not the name of the file, and nothing is written."""
    write_ranx_run(RUN, tmp_path / "run.json")
    with pytest.raises(InvalidFile, match="it looks like JSON; lines of columns are needed"):
        import_file(layout, tmp_path / "run.json", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("nDCG@10", "ndcg_at_10"), ("R@100", "recall_at_100"), ("Success@5", "hit_rate_at_5"), ("AP@1000", "map_at_1000")],
)
def test_measures_have_one_name_each_way(ours, theirs):
    """Names that mean the same are translated both ways; a threshold, a capped recall and other figures have no name there."""
    assert to_mteb(ours) == theirs
    assert from_mteb(theirs) == ours
    assert [to_mteb(name) for name in ("RR(rel=2)@10", "RCap@100", "AP", "Judged@10")] == [None] * 4
    assert [from_mteb(name) for name in ("nauc_ndcg_at_10_max", "main_score", "cv_recall_at_10", "naucs_at_10")] == [None] * 4


def test_a_file_for_mteb_has_the_documented_fields(tmp_path):
    """All fields that mteb's TaskResult requires are present, with six digits per score (mteb 2.20, task_result.py)."""
    one = Entry(result(means=MEANS | {"nDCG@10": 0.12345678}))
    (path,) = mteb.write([one], Target(tmp_path / "org__model", Store(tmp_path), print))
    found = json.loads(path.read_text())
    (scores,) = found["scores"]["test"]

    assert path.relative_to(tmp_path).as_posix() == "org__model/no_revision_available/SciFact.json"
    assert found.keys() >= {"dataset_revision", "task_name", "mteb_version", "scores", "evaluation_time", "kg_co2_emissions"}
    assert (found["task_name"], found["mteb_version"], found["evaluation_time"]) == ("SciFact", None, 2.0)
    assert scores["main_score"] == scores["ndcg_at_10"] == 0.123457
    assert (scores["hf_subset"], scores["languages"]) == ("default", ["eng-Latn"])


def test_tasks_of_mteb_are_datasets_of_ours():
    """Every dataset in the table of MTEB's tasks has a contract."""
    assert mteb.TASKS.keys() <= all_contracts().keys()


def test_a_model_index_is_a_card_of_the_hub(saved, tmp_path):
    """The hub's library reads every measure of the card, also on collections that are not on the hub."""
    library = pytest.importorskip("huggingface_hub", reason="it is in the extra neural")
    paths = export("model-index", Store(tmp_path / "s"), tmp_path / "out", results=saved)
    every = [one for path in paths for one in library.ModelCard.load(path).data.eval_results]
    found = [(one.dataset_type, one.dataset_name, one.metric_type, one.metric_name, one.metric_value) for one in every]

    assert len(found) == 2 * len(MEANS) + 1
    assert ("mteb/scifact", "beir/scifact/test", "ndcg_at_10", "nDCG@10", 0.25) in found
    assert ("pydoc/test", "pydoc/test", "RR(rel=2)@10", "RR(rel=2)@10", 0.5) in found


# The commands


def test_results_of_a_folder_are_exported_by_system(saved, tmp_path):
    """Formats of result files have one folder per system; results that do not fit are named."""
    notes = []
    paths = list(export("mteb", Store(tmp_path / "s"), tmp_path / "out", results=saved, on_note=notes.append))

    assert len({path.parent.parent for path in paths}) == len(paths) == 2
    assert notes == ["left out mine on pydoc/test: MTEB has no such task, or there is no nDCG@10"]
    with pytest.raises(LexbenchError, match="none of these results can become mteb"):
        list(export("mteb", Store(tmp_path / "s"), tmp_path / "out", results=saved, systems=["mine"]))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.csv", "query_id,doc_id,score\n1,a,2.5\n1,b,3\n2,a,-1\n"),
        ("run.csv", ",qid,docid,docno,score,rank,query\n0,1,9,b,3,0,two words\n1,1,8,a,2.5,1,two words\n2,2,8,a,-1,0,else\n"),
        ("run.tsv", "topic\tdocument\trank\n1\ta\t2\n1\tb\t1\n2\ta\t1\n"),
        (
            "run.jsonl",
            lines({"qid": qid, "doc": doc, "rank": rank} for qid, doc, rank in ((1, "b", 1), (1, "a", 2), (2, "a", 1))),
        ),
    ],
)
def test_a_table_is_imported_as_a_run(tmp_path, name, text):
    """Names say what a column has (the second file is PyTerrier's); such a file is also read without conversion."""
    (tmp_path / name).write_text(text)
    import_file("table", tmp_path / name, tmp_path / "out")
    assert order(read_run(tmp_path / "out")) == {"1": ["b", "a"], "2": ["a"]}
    assert order(read_run(tmp_path / name)) == {"1": ["b", "a"], "2": ["a"]}


WRITERS = {
    "trec": partial(write_run, RUN),
    "msmarco": partial(write_msmarco_run, RUN),
    "scored": lambda path: path.write_text("q1\tü\t2.5\nq1\tb\t1\nq1\ta\t1\nq2\ta\t-3\n"),
    "colbert": lambda path: path.write_text("q1\tü\t1\t2.5\nq1\tb\t2\t1\nq1\ta\t3\t1\nq2\ta\t1\t-3\n"),
    "ranx": partial(write_ranx_run, RUN),
    "qrels": partial(write_beir_qrels, QRELS),
}


@pytest.mark.parametrize("layout", WRITERS)
def test_an_imported_file_is_ours(tmp_path, layout):
    """From every format the TREC file has the same lists or judgements; the line has the next command."""
    source, target = tmp_path / layout, tmp_path / "new folder" / "out"
    WRITERS[layout](source)
    following = import_file(layout, source, target).following

    if layout == "qrels":
        assert list(read_qrels(target).judgements()) == list(QRELS.judgements())
        assert following == f"lexbench score RUN --qrels '{target}'"
    else:
        assert order(read_run(target)) == order(RUN)
        assert f"""-r 'run_file(path="{target}")'""" in following


def test_the_command_says_what_is_lost(tmp_path, capsys):
    """`lexbench import` prints the file, and on stderr what is lost and what to type next."""
    write_ranx_run(RUN, tmp_path / "run.json")
    out, err = ended(capsys, 0, "import", "ranx", tmp_path / "run.json", tmp_path / "run")

    assert out == f"{tmp_path / 'run'}\n"
    assert err.splitlines()[0] == f"not kept: {imports()['ranx'].lost}"
    assert err.splitlines()[1].startswith("next: lexbench score ")


def test_export_says_what_is_lost_and_takes_saved_results(saved, tmp_path, capsys):
    """`lexbench export` from a saved folder needs no store; without a run there, no run is written."""
    out = str(tmp_path / "out")
    shown = ended(capsys, 0, "export", "csv", out, "--results", str(saved), "-r", "bm25")
    assert shown.err == f"not in this format: {exports()['csv'].lost}\n"
    assert Path(shown.out.strip()).read_text().splitlines()[0] == ",".join(["query", *MEANS])
    notes = ended(capsys, 1, "export", "ranx", out, "--results", str(saved)).err
    assert "left out: bm25 on beir/scifact/test has no run here" in notes
    assert "nothing was written: none of these results can become ranx" in notes


def test_every_format_says_what_is_lost(capsys):
    """Each format that the commands take has its line, is handled, and is in the help of its command."""
    expected = {"trec", "msmarco", "ranx", "qrels", "csv", "json", "latex", "mteb", "model-index", "figures", "seismic"}
    assert expected < exports().keys()
    assert imports().keys() == {"trec", "msmarco", "scored", "colbert", "table", "ranx", "qrels"}
    for command, formats in (("export", exports()), ("import", imports())):
        shown = ended(capsys, 0, command, "--help").out
        assert all(form.lost and form.what and f"  {form.name} " in shown for form in formats.values())
