"""The command line: answers on stdout, errors on stderr, exit codes."""

import json
import re
import shutil
from errno import ENOSPC
from pathlib import Path

import pytest
import tiny
from click import Context, Group
from tiny import answer, ended, run
from workbench import bytes_needed

from lexbench.cli import app
from lexbench.retrievers.bm25 import BM25
from lexbench.runner import jobs, plan
from lexbench.storage.store import Store


@pytest.fixture
def folder(store, tmp_path):
    """Make a BEIR folder of three documents, and a separate store."""
    return tiny.write(tmp_path / "tiny", tiny.DOCUMENTS, tiny.QUERIES, [("q1", "d2", 2), ("q1", "d1", 1), ("q2", "d3", 1)])


def test_a_folder_runs_and_prints_a_table(folder, capsys):
    """A user's BEIR folder needs no contract. --dry-run makes no store. --json has the value of every query, also repeated."""
    assert "nothing was run" in ended(capsys, 0, "run", "dataset", folder, "--dry-run").out
    assert not (folder.parent / "store").exists()
    out = ended(capsys, 0, "run", "dataset", folder).out
    for part in ("nDCG@10", "0.5000", "1 of 2 queries returned nothing and score 0"):  # q1 is perfect, q2 finds nothing
        assert part in out
    first = answer(capsys, "run", "dataset", folder, "-m", "nDCG@10", "--json")
    result = first["results"][0]
    assert (result["per_query"], result["query_ids"]) == ({"nDCG@10": [1.0, 0.0]}, ["q1", "q2"])
    assert result["counts"]["missing"] == 1
    assert answer(capsys, "run", "dataset", folder, "-m", "nDCG@10", "--json") == first


def test_a_store_that_cannot_be_written_is_refused_at_once(folder, capsys, monkeypatch):
    """A store that cannot be created gives one line before anything is read."""
    monkeypatch.setenv("LEXBENCH_STORE", "/dev/null/store")
    refused = ended(capsys, 3, "run", "dataset", folder)
    found, line = refused.err.splitlines()
    assert refused.out == ""
    assert found.startswith("tiny: documents corpus.jsonl")
    assert line.startswith("lexbench: cannot write to the store /dev/null/store (Not a directory); set LEXBENCH_STORE")


def failing(name, error):
    """Make a BM25 whose indexing raises *error*."""

    def build(self, corpus, path):
        raise error

    return type(name, (BM25,), {"build": build})()


def test_a_system_that_fails_costs_its_own_job_only(folder):
    """An exception costs one line with the path of its traceback, a full disk one line that says what to do; others run."""
    store = Store(folder.parent / "store")
    errors = {"broken": ZeroDivisionError("my bug"), "full": OSError(ENOSPC, "full"), "left": SystemExit(3)}
    systems = {name: failing(name.title(), error) for name, error in errors.items()}
    planned = plan.plan_dataset(str(folder), {**systems, "bm25": "bm25"}, ["nDCG@10"], 10)
    broken, full, left, fine = jobs.run(planned, store)

    (log,) = (store.root / "logs").glob("broken*")
    assert "ZeroDivisionError: my bug" in broken.error
    assert "\n" not in broken.error
    assert str(log) in broken.error
    assert "in build" in log.read_text()
    assert full.error == f"the disk of {store.root} is full; free some space, and the same command continues"
    assert "SystemExit: 3" in left.error
    assert fine.result.means["nDCG@10"] == 0.5
    assert len(list((store.root / "indexes").iterdir())) == 1


@pytest.mark.parametrize(
    "what", ["suites", "datasets", "encoders", "engines", "measures", "retrievers", "sources", "transforms"]
)
def test_every_list_is_a_table_and_json(folder, capsys, what):
    """Each list prints as a table and as JSON."""
    table = ended(capsys, 0, "list", what).out
    assert all(next(iter(row.values())) in table for row in answer(capsys, "list", what, "--json")[:3])


def test_every_kind_can_be_shown(folder, capsys, monkeypatch):
    """A suite, a contract, a result, the machine and a model can be shown."""
    monkeypatch.setenv("COLUMNS", "200")  # long lines are folded
    run(capsys, "run", "dataset", folder)

    assert "beir-12@1" in run(capsys, "show", "suite", "beir")[1]
    contract = " ".join(run(capsys, "show", "dataset", "beir/arguana")[1].split())
    assert "self_match: drop" in contract
    assert "Unless such a document is removed, it takes rank 1" in contract  # a known issue, with its source
    assert "https://github.com/beir-cellar/beir/pull/91" in contract
    assert "nDCG@10: 0.5" in run(capsys, "show", "result", "bm25:tiny")[1]
    assert "python:" in run(capsys, "show", "machine")[1]
    shown = run(capsys, "show", "model", "e5_mistral_7b")[1]
    assert "query_prompt: 'Instruct: {instruction}\n\n    Query: '" in shown
    assert "{model: intfloat/e5-mistral-7b-instruct, " in shown


def test_the_newest_results_are_listed_and_shown(folder, capsys):
    """A list has one mean per system, dataset and measure. A result is shown by its system if that has only one dataset."""
    for more in (["-m", "nDCG@10"], ["-m", "nDCG@5"], ["-m", "nDCG@10", "--depth", "20", "--results", "board"]):
        ended(capsys, 0, "run", "dataset", folder, *more)
    rows = answer(capsys, "list", "results", "--json")
    assert sorted(row["measure"] for row in rows) == ["nDCG@10", "nDCG@5"]
    assert [row["measure"] for row in answer(capsys, "list", "results", "--results", "board", "--json")] == ["nDCG@10"]
    assert answer(capsys, "show", "result", "bm25", "--json")["dataset"] == "tiny"

    for k1 in ("0.7", "0.8"):
        ended(capsys, 0, "run", "dataset", shutil.copytree(folder, folder.with_name(k1)), "-r", f"mine = bm25(k1={k1})")
    (folder.parent / "a.run").write_text("q1 Q0 d2 1 9 x\n")
    ended(capsys, 0, "run", "dataset", folder, "-r", "a = a.run")  # has no corpus, and is of the same data
    rows = answer(capsys, "list", "results", "--json")
    assert {row["system"] for row in rows} == {"a", "bm25", "mine = bm25(k1=0.7)", "mine = bm25(k1=0.8)"}
    assert {row["dataset"] for row in rows} == {"tiny", "0.7", "0.8"}
    said = ended(capsys, 2, "show", "result", "mine").err.strip()
    head, *commands = said.replace("; lexbench", ": lexbench").split(": lexbench ")
    assert head == "lexbench: mine has results on 2 datasets; type one of these"
    assert sorted(commands) == ["show result mine:0.7", "show result mine:0.8"]


def test_a_result_is_shown_with_what_it_was_made_from(folder, capsys):
    """A result names its run, and that its corpus and index, each with what it was made from; and no values of queries."""
    ended(capsys, 0, "run", "dataset", folder)
    shown = answer(capsys, "show", "result", "bm25", "--json")

    (made,) = shown["made_from"]
    ((run_, (corpus, index)),) = made.items()
    assert re.fullmatch(r"runs/[0-9a-f]{16} tiny-bm25", run_)
    assert re.fullmatch(r"corpora/[0-9a-f]{16} tiny", corpus)
    assert [*index.values()] == [[corpus]]
    assert re.fullmatch(r"indexes/[0-9a-f]{16} tiny-bm25", *index)
    assert not any(shown[name] for name in ("top", "ranks", "query_ids", "per_query"))
    (folder.parent / "a.run").write_text("q1 Q0 d2 1 9 x\n")
    ended(capsys, 0, "run", "dataset", folder, "-r", "a = a.run")  # is made from nothing that the store has
    assert answer(capsys, "show", "result", "a", "--json")["made_from"] == []


def test_doctor_says_what_to_type(folder, capsys):
    """`doctor` lists the core and every extra, and how to install missing ones."""
    parts = answer(capsys, "doctor", "--json")

    assert parts["core"]["state"] == "complete"
    for extra in ("lucene", "neural", "beir", "pandas"):
        complete = parts[extra]["state"] == "complete"
        assert complete or parts[extra]["advice"] == f"pip install 'lexbench[{extra}]'"


def every_command():
    """Yield the words of every command."""
    context = Context(app)
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        yield (name,)
        if isinstance(command, Group):
            yield from ((name, inner) for inner in command.commands)


@pytest.mark.parametrize("words", list(every_command()), ids=" ".join)
def test_every_command_has_help(capsys, words):
    """The help of each command says what it does."""
    out = ended(capsys, 0, *words, "--help").out

    assert out.startswith(f"Usage: lexbench {' '.join(words)}")
    assert len(out.partition("\n\n")[2].splitlines()[0].strip()) > 20


@pytest.mark.usefixtures("bread_suite")
def test_an_incomplete_suite_says_so(capsys, tmp_path, monkeypatch):
    """A missing dataset gives one line, no mean over all, and exit code 1."""
    for name in ("LEXBENCH_STORE", "IR_DATASETS_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("LEXBENCH_OFFLINE", "1")
    found = ended(capsys, 1, "run", "suite", "bread", "--json")
    (mean,) = json.loads(found.out)["aggregates"]

    assert (mean["id"], mean["present"], mean["of"], mean["mean"]) == ("bread-3@1", 2, 3, None)
    assert [line.split(" is not")[0] for line in found.err.splitlines() if " is not here: " in line] == ["failed: beir/nq"]


@pytest.mark.usefixtures("bread_suite")
def test_rules_of_a_contract_with_judgements_from_a_file(folder, capsys, bread, monkeypatch):
    """With both, the contract's rules count and no data are needed; judgements of another dataset are refused."""
    monkeypatch.delenv("LEXBENCH_DATA")
    run_file = folder.parent / "a.run"
    run_file.write_text("q01 Q0 b20 1 9.0 x\nq01 Q0 b45 2 8.0 x\n")
    dataset = "bread/test"
    words = ["score", run_file, "--dataset", dataset, "-m", "RR@10", "--json"]
    result = json.loads(ended(capsys, 1, *words, "--qrels", bread / "qrels" / "test.tsv").out)  # 15 queries have no document
    assert list(result["means"]) == ["RR(rel=2)@10"]
    assert result["contract"] == f"{dataset}@1"
    assert (result["counts"]["queries"], result["counts"]["missing"]) == (16, 15)
    assert result["per_query"]["RR(rel=2)@10"][0] == 0.5  # b20, which comes first, only helps
    refused = ended(capsys, 3, *words, "--qrels", bread / "qrels" / "dev.tsv").err
    assert "judged queries: 16 expected, 6 found" in refused


def test_replaced_files_are_named(folder, capsys):
    """Files that export and import overwrite are named, and an import never overwrites its source."""
    assert run(capsys, "run", "dataset", folder)[0] == 0
    assert "replaced" not in run(capsys, "export", "csv", "out")[2]
    again = ended(capsys, 0, "export", "csv", "out")
    assert again.err.splitlines()[0] == f"replaced: {again.out.strip()}"

    Path("a.run").write_text("q1 Q0 d1 1 1.0 x\n")
    assert "replaced" not in run(capsys, "import", "trec", "a.run", "b.run")[2]
    assert run(capsys, "import", "trec", "a.run", "b.run")[2].startswith("replaced: b.run\n")
    assert "a.run is the file to read" in ended(capsys, 2, "import", "trec", "a.run", "./a.run").err
    assert Path("a.run").read_text() == "q1 Q0 d1 1 1.0 x\n"


def test_the_estimate_of_disk_is_no_less_than_what_is_written(bread, capsys, store, tmp_path):
    """The estimate of --dry-run is at least the size of the store after the run, and at most ten times as much."""
    many = tmp_path / "many"
    shutil.copytree(bread, many)
    text = (bread / "corpus.jsonl").read_text()
    (many / "corpus.jsonl").write_text("".join(text.replace('"_id": "', f'"_id": "{n or ""}') for n in range(20)))
    planned = bytes_needed(plan.plan_dataset(str(many), ["bm25"], ["nDCG@10"], 100), Path("no store"))
    assert run(capsys, "run", "dataset", many, "--depth", "100", "-m", "nDCG@10")[0] == 0
    taken = sum(path.stat().st_size for path in store.root.rglob("*") if path.is_file())

    assert taken <= planned <= 10 * taken
