"""The public functions: one per command, with the same names, defaults and errors."""

import importlib
import inspect
import json
import pickle
import subprocess
import sys
import warnings
from dataclasses import dataclass
from importlib.util import find_spec

import click
import ir_measures
import numpy as np
import pytest
from samples import result
from tiny import ended, write

import lexbench
from lexbench.cli import app
from lexbench.cli._options import described
from lexbench.errors import LexbenchError
from lexbench.results import Entry, Results

# The function of each command, by what is typed. `list` and `show` have one function for each thing that they show.
FUNCTIONS = {
    "run suite": "run", "run dataset": "run", "encode suite": "encode", "encode dataset": "encode", "watch": "watch",
    **dict.fromkeys(("train pretrain", "train imitate", "train mine", "train finetune", "train all"), "train"),
    "score": "score", "compare": "compare",
    "report": "report", "gate": "gate", "gate init": "gate_init", "gate update": "gate_update",
    "explain": "explain", "verify": "verify", "exposure": "exposure", "audit board": "audit", "audit suite": "audit_suite",
    "leaderboard": "leaderboard", "export": "export", "import": "import_",
    "store list": "store_list", "store remove": "store_remove", "store check": "store_check",
    "store push": "store_push", "store pull": "store_pull",
    "collect": "collect", "judge page": "judge_page", "judge documents": "judge", "judge pool": "judge_pool",
    "doctor": "doctor", "probe": "probe", "speed": "speed",
}  # fmt: skip
SEVERAL = {"list", "show"}
# Options that are no parameters: they choose what is printed, or another function.
SHOWN = {
    "as_json": "every", "help": "every", "dry_run": "plan, training_plan", "per_query": "Score.query_table",
    "fail_if_worse": "Comparison.worse", "lists": "compare_lists", "depths": "compare_lists", "form": "Leaderboard.copy",
    "suite": "Leaderboard.copy", "baseline": "Leaderboard.copy", "check": "Leaderboard.stale",
    "plot": "Probe.plot",
}  # fmt: skip
COPIED = {("leaderboard", "dataset"), ("leaderboard", "split")} | {
    (f"train {step}", "time") for step in ("pretrain", "imitate", "mine", "finetune", "all")
}
# arguments of Leaderboard.copy and training_plan
TIMING = {"time", "time_again", "time_single", "time_processes", "time_seconds", "time_k", "time_queries", "time_threads"}
PYTHON = {"store", "progress"}  # what a shell says by its environment and its terminal


def commands(group=app, words=()):
    """Yield every command that does something, with the words that are typed for it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command, typed = group.get_command(context, name), (*words, name)
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield " ".join(typed), command
        if isinstance(command, click.Group):
            yield from commands(command, typed)


COMMANDS = dict(commands())


def test_every_command_is_a_function():
    """Each command has a public function, and each function with the name of a command has the command."""
    assert COMMANDS.keys() - SEVERAL == FUNCTIONS.keys()
    assert set(FUNCTIONS.values()) <= set(lexbench.__all__)
    for kind in ("suites", "datasets", "models", "systems", "results"):
        assert callable(getattr(lexbench, kind))
    for what in ("suite", "dataset", "model", "plugin", "result", "machine"):
        assert callable(getattr(lexbench, what))


@pytest.mark.parametrize("typed", FUNCTIONS)
def test_options_are_parameters(typed):
    """An option or argument of a command is a parameter of its function, with the same name and default, and vice versa."""
    parameters = inspect.signature(getattr(lexbench, FUNCTIONS[typed])).parameters
    options = {one.name: one for one in COMMANDS[typed].params}
    shared = {name for name in options if name not in SHOWN and (typed, name) not in COPIED and name not in TIMING - {"time"}}

    assert shared - parameters.keys() == set()
    for name in shared:
        parameter, option = parameters[name], options[name]
        if option.required or parameter.default is inspect.Parameter.empty or name in {"measures", "stage"}:
            continue  # `measures` defaults to those of the data; a stage that must be typed has no default
        given = option.default if not isinstance(option.default, type(click.core.UNSET)) else None
        assert (given or None) == (parameter.default or None), name
    several = {one for other, one in FUNCTIONS.items() if FUNCTIONS[typed] == one and other != typed}
    if not several:
        left = {name for name, one in parameters.items() if one.kind is not inspect.Parameter.VAR_POSITIONAL} - PYTHON
        assert left - options.keys() == set()


@pytest.mark.parametrize(
    "typed", [name for name, function in FUNCTIONS.items() if "*" in (getattr(lexbench, function, type).__doc__ or "")]
)
def test_one_docstring_serves_both(typed):
    """The help of a command is the docstring of its function, or a part of a group has the help of its own part."""
    first = (inspect.getdoc(getattr(lexbench, FUNCTIONS[typed])) or "").split("\n\n", 1)[0]
    group = app.get_command(click.Context(app), typed.split()[0])
    helps = [COMMANDS[typed].help or "", group.help or ""]

    assert any(described(getattr(lexbench, FUNCTIONS[typed])) in text or first in text for text in helps)


def test_a_function_wins_over_a_module_of_the_same_name():
    """`lexbench.datasets` is the function, also after the module of that name was imported."""
    for name in ("datasets", "measures", "results", "suites"):
        module = importlib.import_module(f"lexbench.{name}")
        assert inspect.ismodule(module)
        assert inspect.isfunction(getattr(lexbench, name))
    program = "import lexbench.results, lexbench; assert callable(lexbench.results)\nfrom lexbench import suites\nsuites()"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("call", "typed"),
    [
        (lambda: lexbench.run("pydoc", ["bm2"]), ["run", "suite", "pydoc", "-r", "bm2"]),
        (lambda: lexbench.run("pydoc/tset"), ["run", "pydoc/tset"]),
        (lambda: lexbench.score("x.run"), ["score", "x.run"]),
        (lambda: lexbench.compare("bm2", "bm3"), ["compare", "bm2", "bm3"]),
        (lambda: lexbench.explain("what", "bm25"), ["explain", "what", "-r", "bm25"]),
        (lexbench.exposure, ["exposure"]),
        (lambda: lexbench.gate("nothing.toml"), ["gate", "--file", "nothing.toml"]),
        (lambda: lexbench.audit_suite("pydoc"), ["audit", "suite", "pydoc"]),
        (lambda: lexbench.train("msmarc"), ["train", "all", "msmarc"]),
        (lambda: lexbench.speed("bm25"), ["speed", "bm25"]),
        (lambda: lexbench.model("splad"), ["show", "model", "splad"]),
        (
            lambda: lexbench.encode("pydoc/test", ["bm25"], part="3"),
            ["encode", "dataset", "pydoc/test", "-r", "bm25", "--part", "3"],
        ),
    ],
)
def test_a_wrong_value_raises_the_line_of_the_shell(call, typed, tmp_path, monkeypatch, capsys):
    """The error of a function has the text that the command prints, in one line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEXBENCH_STORE", str(tmp_path / "store"))
    with pytest.raises(LexbenchError) as raised:
        call()
    printed = ended(capsys, raised.value.exit_code if typed[0] != "gate" else 3, *typed).err

    assert "\n" not in str(raised.value)
    assert "Traceback" not in str(raised.value)
    assert str(raised.value) in printed


def test_results_select_values_means_and_sums():
    """A container gives arrays in the order of its systems, and its parts by name."""
    found = Results([
        result("b", [0.25, 0.75]), result("a", [0.5, 0.5]), result("b", [1.0, 0.0], "beir/scifact/test"),
    ])  # fmt: skip

    assert (found.systems, found.datasets, found.measures) == (["b", "a"], ["pydoc/test", "beir/scifact/test"], ["nDCG@10"])
    assert found.values("pydoc/test", "nDCG@10").tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert found.means("nDCG@10")[0].tolist() == [0.5, 0.5]
    assert [str(value) for value in found.means("nDCG@10")[1]] == ["0.5", "nan"]
    assert found.select(systems=["a", "b"]).systems == ["a", "b"]
    assert found.select(where=lambda one: one.dataset == "pydoc/test").systems == ["b", "a"]
    assert found["a"].one("a", "pydoc/test").per_query["nDCG@10"] == [0.5, 0.5]
    with pytest.raises(LexbenchError, match="no system in these results: 'c'; there is: a, b"):
        found["c"]
    with pytest.raises(LexbenchError, match="no dataset with a result of a: 'pydoc'; did you mean 'pydoc/test'"):
        found.one("a", "pydoc")
    with pytest.raises(LexbenchError, match="no measure of b on pydoc/test: 'P@1'"):
        found.values("pydoc/test", "P@1")


def test_results_are_added_if_they_agree():
    """A sum holds both; two different results of one system, or results on other queries, are refused by name."""
    one, same, other = result("a", [0.5, 0.5]), result("a", [0.5, 0.5]), result("a", [0.5, 0.25])

    both = Results([one]) + Results([same, result("b", [1, 1])])
    assert (both.systems, both.row("a")["pydoc/test"], len(both)) == (["a", "b"], one, 2)
    with pytest.raises(TypeError, match="unsupported operand"):
        both + "board"
    with pytest.raises(LexbenchError, match="no system in these results: '0'; there is: a, b"):
        both[0]
    with pytest.raises(
        LexbenchError, match=r"a has two different results on pydoc/test, e.g. nDCG@10 of query q01 is 0.5000 and 0.2500"
    ):
        Results([one]) + Results([other])
    with pytest.raises(LexbenchError, match="a and b are not comparable on pydoc/test: they have different query ids"):
        Results([one]) + Results([result("b", [1.0])])


def test_a_saved_container_is_read_back(tmp_path):
    """`save` and `results(folder)` are inverse, suite by suite."""
    found = Results(
        [
            Entry(result("a", [0.5, 0.5], "mine/test", contract="none", digests={"qrels": "1"}), "mine"),
            Entry(result("a", [0.5, 0.5], "other/test", contract="none", digests={"qrels": "2"})),
        ]
    )
    files = found.save(tmp_path)
    read = lexbench.results(tmp_path)

    assert [file.relative_to(tmp_path).as_posix() for file in files] == ["results/mine/a.json", "results/datasets/a.json"]
    assert sorted(read.suites) == ["datasets", "mine"]
    assert {entry.result.dataset: entry.result for entry in read.entries} == {one.dataset: one for one in found}


def test_answers_travel_to_other_processes(tmp_path):
    """Results, comparisons and boards survive pickle, as joblib and caches of notebooks need it, with the texts of queries."""
    data = {"corpus": {"d1": "red fox", "d2": "blue"}, "queries": {"q1": "fox", "q2": "blue"}, "qrels": {"q1": {"d1": 1}}}
    made = lexbench.run(data, ["bm25", lambda texts: np.eye(len(texts), 2)], store=tmp_path, results=tmp_path / "board")
    for answer in (
        made,
        lexbench.results(tmp_path / "board"),
        lexbench.compare(made),
        lexbench.leaderboard(tmp_path / "board"),
    ):
        again = pickle.loads(pickle.dumps(answer))
        assert type(again) is type(answer)
        assert str(again) == str(answer)
    texts = [
        pickle.loads(pickle.dumps(entry)).texts().texts
        for entry in (*made.entries, *lexbench.results(tmp_path / "board").entries)
    ]
    assert texts == [{"q1": "fox"}] * 4


@dataclass
class Judged:
    """A judgement as an object, with its fields in an order of its own."""

    relevance: int
    doc_id: str
    query_id: str


def test_a_run_is_scored_from_every_form(tmp_path):
    """A run as a file, a mapping, rows and data frames, and judgements likewise, give one result."""
    pandas = pytest.importorskip("pandas", reason="it is in the extra pandas")
    rows = [("q1", "d1", 2.0), ("q1", "d2", 1.0), ("q2", "d1", 0.5)]
    grades = [("q1", "d2", 1), ("q2", "d1", 2)]
    (tmp_path / "x.run").write_text("".join(f"{query} Q0 {doc} 1 {score} x\n" for query, doc, score in rows))
    (tmp_path / "x.qrels").write_text("".join(f"{query} 0 {doc} {grade}\n" for query, doc, grade in grades))
    mapping = {"q1": {"d1": 2.0, "d2": 1.0}, "q2": {"d1": 0.5}}
    frame = pandas.DataFrame(rows, columns=["query_id", "doc_id", "score"])
    judged = {"q1": {"d2": 1}, "q2": {"d1": 2}}
    frames = [pandas.DataFrame(grades, columns=["query_id", "doc_id", "relevance"])]
    runs, every = [tmp_path / "x.run", mapping, rows, frame], [tmp_path / "x.qrels", judged, *frames]
    runs += [[ir_measures.ScoredDoc(*row) for row in rows], frame.set_index(["query_id", "doc_id"])]
    every += [grades, [Judged(grade, document, query) for query, document, grade in grades]]
    if find_spec("polars"):  # it installs nearly everywhere, and nothing needs it
        import polars as pl

        runs.append(pl.from_pandas(frame))
        every.append(pl.from_pandas(frames[0]))

    means = [lexbench.score(run, qrels=qrels, measures=["RR", "nDCG@10"]).result.means for run in runs for qrels in every]
    assert means[0]["RR"] == pytest.approx((1 / 2 + 1) / 2)
    assert all(mean == means[0] for mean in means)
    with pytest.raises(LexbenchError, match="run: the documents of query 'q1' are float"):
        lexbench.score({"q1": 0.5}, qrels=judged)
    with pytest.raises(LexbenchError, match=r"run: a row is \('q1', 'd1'\)"):
        lexbench.score([("q1", "d1")], qrels=judged)
    with pytest.raises(LexbenchError, match=r"qrels: a row is float; it must be a mapping like \{'query_id': 'q1', "):
        lexbench.score(rows, qrels=[0.5])
    numbers = lexbench.score({np.int64(1): {np.int32(7): 2.0}}, qrels={"1": {"7": 1}}, measures=["RR"])
    assert numbers.result.means == {"RR": 1}


def test_ranked_lists_of_every_system_are_there(tmp_path):
    """Results give the lists of stored systems, of functions and of data in memory, and compare names their queries."""
    data = {"corpus": {"d1": "red fox", "d2": "red car"}, "queries": {"q": "red fox"}, "qrels": {"q": {"d1": 1}}}

    def search(queries, k):
        return {query: {"d2": 1.0, "d1": 0.5} for query in queries}

    found = lexbench.run(data, {"bm25": "bm25", "mine": search}, store=tmp_path / "store")
    (dataset,) = found.datasets

    assert list(found.run("bm25", dataset)["q"]) == ["d1", "d2"]
    assert found.run("mine", dataset) == {"q": {"d2": 1.0, "d1": 0.5}}
    assert "red fox" in str(found.compare())


def test_a_dataset_shows_its_parts(tmp_path):
    """A dataset has its documents, queries and judgements, and shows its contract."""
    folder = write(tmp_path / "cars", {"d1": "a red car", "d2": "a fox"}, {"q1": "red"}, [("q1", "d1", 1)])
    shown = lexbench.dataset(folder)

    assert sorted(document.doc_id for document in shown.documents) == ["d1", "d2"]
    assert (shown.queries, shown.qrels) == ({"q1": "red"}, {"q1": {"d1": 1}})
    assert "id: cars" in str(shown)
    assert json.loads(json.dumps(shown.document()))["id"] == shown.contract.id == "cars"


def test_results_answer_in_a_notebook(tmp_path):
    """Results give values with texts, lists, terms, a table and a figure, each in one word, and show themselves in one line."""
    pytest.importorskip("pandas", reason="it is in the extra pandas")
    documents = {"d1": "a red fox", "d2": "a red car", "d3": "a car"}
    folder = write(tmp_path / "cars", documents, {"q1": "red", "q2": "car"}, [("q1", "d1", 1), ("q2", "d3", 1)])
    found = lexbench.run(folder, ["bm25", "flat = bm25(b=0.0)"], measures=["nDCG@10", "RR@10"], store=tmp_path / "store")

    frame = found.per_query()
    assert list(frame.columns) == ["dataset", "query", "text", "measure", "bm25", "flat"]
    assert frame["text"].tolist() == ["red", "car"]
    assert frame["bm25"].tolist() == found.one("bm25", "cars").per_query["nDCG@10"]
    assert found.runs["bm25", "cars"] == found.run("bm25", "cars")
    assert "term" in found.explain("red", "flat", store=tmp_path / "store").to_pandas().columns
    assert "| bm25 |" in found.to_markdown()
    assert all(len(repr(one)) < 120 and "\n" not in repr(one) for one in (found, found.compare(), found.report(), frame_of()))
    if find_spec("matplotlib"):
        picture = found.plot()
        assert picture._repr_svg_().startswith("<?xml")
        with pytest.raises(LexbenchError, match="no figure of speed"):
            found.plot("speed")


def frame_of():
    """Return an answer without a head."""
    return lexbench.measures()


def test_long_work_shows_progress_without_being_asked(capsys, monkeypatch):
    """A step that takes long gets lines on stderr, and notes stay Python warnings."""
    shown = importlib.import_module("lexbench.api")._progress(None)
    shown.start("bm25 on cars", "search", 10, "queries")
    monkeypatch.setattr("lexbench.display.progress.clock", lambda: 1e9)
    shown.advance(5)
    with pytest.warns(UserWarning, match="careful"):
        shown.note("careful")

    assert capsys.readouterr().err.startswith("bm25 on cars: search: 5/10 queries")


def test_notes_are_no_errors_where_warnings_are(tmp_path, bread, capsys):
    """With `python -W error`, a note in the middle of a job ends neither the job nor its artifacts: it is a line on stderr."""
    first = lexbench.run(bread, ["bm25"], store=tmp_path)
    for damaged in (tmp_path / "results").glob("*/result.json"):
        damaged.write_text("{}")
    with warnings.catch_warnings(action="error"):
        again = lexbench.run(bread, ["bm25"], store=tmp_path)

    assert again.failures == []
    assert [one.means for one in again] == [one.means for one in first]
    assert "removed, it will be made again" in capsys.readouterr().err
