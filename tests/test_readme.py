"""What the README and the page of commands by example say can be typed is typed here. test_elsewhere checks its figures."""

import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest
import tiny

from lexbench.cli import code
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.location import find_dataset
from lexbench.trec.qrels import read_qrels

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = (ROOT / "docs" / "howto" / "examples.md").read_text(encoding="utf-8")
STANDING_IN = {"suite beir": "suite bread", "beir/scifact/test": "bread/test", "beir/nfcorpus/test": "bread/dev"}


def blocks(language, text):
    """Return the blocks of one language, joined."""
    return "\n".join(re.findall(rf"^```{language}\n(.*?)```", text, re.DOTALL | re.MULTILINE))


def lines(text):
    """Return what a text says can be typed in a shell, without the remarks."""
    return [line.partition("#")[0].strip() for line in blocks("sh", text).splitlines() if line.strip()]


COMMANDS = list(dict.fromkeys(line for line in lines(README) + lines(EXAMPLES) if line.startswith("lexbench")))
LONG = ("lexbench verify beir",)  # reads results of the commands before it; the slow tests type it


@pytest.fixture(scope="module")
def folder(tmp_path_factory, bread):
    """Make the folder in which a reader types, with a dataset, a run and a checkpoint of their own."""
    folder = tmp_path_factory.mktemp("reader")
    tiny.write(folder / "my-folder", {"d1": "A fox is red"}, {"q1": "red fox"}, [("q1", "d1", 1)])
    (folder / "queries.jsonl").write_text(json.dumps({"id": "d1", "predicted_queries": ["which animal is red"]}) + "\n")
    (folder / "weights.jsonl").write_text(json.dumps({"id": "d1", "vector": {"fox": 30, "red": 2}}) + "\n")
    write_run(folder, read_qrels(bread / "qrels" / "test.tsv").query_ids)
    if importlib.util.find_spec("transformers"):
        from checkpoints import masked_lm, sparsified

        sparsified(masked_lm(folder / "DIR", max_position_embeddings=512, form="fine_tuned"))
    _recipe(folder)
    return folder


def write_run(folder, queries, documents=("b45", "b46")):
    """Write a run file with one of the *documents* for each query."""
    lines = (f"{query} Q0 {documents[at % 2]} 1 9.5 mine\n" for at, query in enumerate(queries))
    (folder / "my.run").write_text("".join(lines))


@pytest.fixture
def _typing(folder, monkeypatch, bread_environment, bread_suite):
    """Make the folder the current one, also for processes that a command starts, with a suite in the place of BEIR."""
    monkeypatch.chdir(folder)
    for name, value in {**bread_environment, "LEXBENCH_STORE": str(folder / "store"), "LEXBENCH_OFFLINE": "1"}.items():
        monkeypatch.setenv(name, value)


def _recipe(folder) -> None:
    """Write what a reader's recipe may be: a few steps from the tiny checkpoint, on queries of their own."""
    train = tiny.write(folder / "train", {f"d{i}": f"fox {i}" for i in range(20)}, {"q1": "fox 1"}, [("q1", "d1", 1)])
    (train / "qrels" / "test.tsv").rename(train / "qrels" / "train.tsv")
    few = "steps = 2\nbatch_size = 2\n"
    (folder / "recipe.toml").write_text(
        f"""schema = 1\nname = "mine"\noutput = "trained"\n[start]\nmodel = "DIR"\n[pretrain]\ncorpora = ["train"]\n{few}"""
        f"""[stage1]\nqueries = ["train"]\n{few}"""
    )


def check(command, capsys):
    """Type the command. It must end well; a suite that is not whole, as BEIR here, is said and costs exit code 1."""
    if "lucene" in command:
        pytest.importorskip("jnius_config", reason="bm25@lucene is in the extra lucene")
    if "DIR" in command or "nano" in command or "verify" in command:  # the committed results are of models too
        pytest.importorskip("transformers", reason="lexmae is in the extra neural")
    if "faiss" in command:
        pytest.importorskip("faiss", reason="faiss is in the extra faiss")
    if "train" in command:
        pytest.importorskip("accelerate", reason="training is in the extra train")
    incomplete = re.search(r"suite (beir|bread) ", f"{command} ") and " -d " not in command
    ended = code(shlex.split(command)[1:])
    out, err = capsys.readouterr()

    assert ended == (1 if incomplete else 0), err
    assert "Traceback" not in err
    assert out


@pytest.mark.filterwarnings("default")  # of libraries, as for a reader
@pytest.mark.usefixtures("_typing", "timed_here")
@pytest.mark.parametrize("command", [line for line in COMMANDS if line not in LONG])
def test_a_command_of_the_readme_works(command, capsys):
    """Each command succeeds. Our own collection replaces BEIR, and pydoc for models and clocks, which run shorter, and here."""
    if "nano" in command or "--time" in command:
        command = command.replace("suite pydoc", "suite bread -d bread/test")
    for real, ours in STANDING_IN.items():
        command = command.replace(real, ours)
    if "--time" in command:
        command += " --time-seconds .2 --time-processes 1"
    check(command, capsys)


@pytest.mark.slow  # encodes the five thousand documents of pydoc, and those of SciFact; times two systems for 40 s
@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("_typing")
@pytest.mark.parametrize("command", [line for line in COMMANDS if re.search("beir|nano|--time", line)])
def test_a_command_of_the_readme_works_as_it_stands(folder, real_home, command, monkeypatch, capsys):
    """Each command also succeeds on the real collections."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(real_home))
    write_run(folder, open_dataset(*find_dataset("beir/scifact/test")).qrels.query_ids, ["31715818", "4983"])
    check(command, capsys)


@pytest.mark.usefixtures("_typing")
def test_the_python_of_the_readme_works(capsys):
    """The ten lines for a notebook run unchanged and print a table with both systems."""
    exec(blocks("python", README), {"__name__": "__main__"})
    out = capsys.readouterr().out

    assert "bm25" in out
    assert "letters" in out


def test_the_readme_is_short():
    """The README has at most 120 lines, and the first commands for a clone and for a user."""
    assert len(README.splitlines()) <= 120
    assert {"make demo", "make test", "lexbench run suite pydoc"} <= set(lines(README))
