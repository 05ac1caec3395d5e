"""What the README and the page of commands by example say can be typed is typed here; the README's figures are measured."""

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = (ROOT / "docs" / "howto" / "examples.md").read_text(encoding="utf-8")
STANDING_IN = {"suite beir": "suite bread", "beir/scifact/test": "bread/test", "beir/nfcorpus/test": "bread/dev"}
STANDING_IN["verify beir"] = f"verify beir --results {ROOT / 'leaderboard'}"


def blocks(language, text):
    """Return the blocks of one language, joined."""
    return "\n".join(re.findall(rf"^```{language}\n(.*?)```", text, re.DOTALL | re.MULTILINE))


def lines(text):
    """Return what a text says can be typed in a shell, without the remarks."""
    return [line.partition("#")[0].strip() for line in blocks("sh", text).splitlines() if line.strip()]


COMMANDS = list(dict.fromkeys(line for line in lines(README) + lines(EXAMPLES) if line.startswith("lexbench")))


@pytest.fixture(scope="module")
def place(tmp_path_factory, bread_environment):
    """Make the folder in which a reader types: with a dataset and a run of their own, and a suite in the place of BEIR."""
    folder = tmp_path_factory.mktemp("reader")
    mine = folder / "my-folder"
    (mine / "qrels").mkdir(parents=True)
    (mine / "corpus.jsonl").write_text(json.dumps({"_id": "d1", "title": "A fox", "text": "is red"}) + "\n")
    (mine / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "red fox"}) + "\n")
    (mine / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    (folder / "queries.jsonl").write_text(json.dumps({"id": "d1", "predicted_queries": ["which animal is red"]}) + "\n")
    (folder / "weights.jsonl").write_text(json.dumps({"id": "d1", "vector": {"fox": 30, "red": 2}}) + "\n")
    (folder / "my.run").write_text("q01 Q0 b45 1 9.5 mine\n")
    if importlib.util.find_spec("transformers"):
        from checkpoints import sparsified, tiny_bert

        sparsified(tiny_bert(folder / "DIR", safetensors=True, max_position_embeddings=512))
    _recipe(folder)
    return folder, {**bread_environment, "LEXBENCH_STORE": str(folder / "store"), "LEXBENCH_OFFLINE": "1"}


def _recipe(folder) -> None:
    """Write what a reader's recipe may be: a few steps from the tiny checkpoint, on queries of their own."""
    lines = [json.dumps({"_id": f"d{i}", "title": "", "text": f"fox {i}"}) for i in range(20)]
    (folder / "train" / "qrels").mkdir(parents=True)
    (folder / "train" / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "train" / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "fox 1"}) + "\n")
    (folder / "train" / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    few = "steps = 2\nbatch_size = 2\n"
    (folder / "recipe.toml").write_text(
        f"""schema = 1\nname = "mine"\noutput = "trained"\n[start]\nmodel = "DIR"\n[pretrain]\ncorpora = ["train"]\n{few}"""
        f"""[stage1]\nqueries = ["train"]\n{few}"""
    )


def test_the_readme_has_the_commands():
    """The two commands of a clone and the first one of a user are there."""
    assert {"make demo", "make test", "lexbench run suite pydoc"} <= set(lines(README))


def check(command, folder, environment):
    """Type the command. It must end well; a suite that is not whole, as BEIR here, is said and costs exit code 1."""
    if "lucene" in command:
        pytest.importorskip("jnius_config", reason="bm25@lucene is in the extra lucene")
    if "DIR" in command or "nano" in command or "verify" in command:  # the committed results are of models too
        pytest.importorskip("transformers", reason="lexmae is in the extra neural")
    if "faiss" in command:
        pytest.importorskip("faiss", reason="faiss is in the extra faiss")
    if "train" in command:
        pytest.importorskip("accelerate", reason="training is in the extra train")
    words = [sys.executable, "-m", "lexbench", *shlex.split(command)[1:]]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    incomplete = re.search(r"suite (beir|bread) ", f"{command} ") and " -d " not in command
    assert done.returncode == (1 if incomplete else 0), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_works(place, command):
    """Each command does what is said; our own collection stands in for BEIR, and for pydoc where a model encodes it."""
    if "nano" in command:
        command = command.replace("suite pydoc", "suite bread -d bread/test")
    for real, ours in STANDING_IN.items():
        command = command.replace(real, ours)
    check(command, *place)


@pytest.mark.slow  # encodes the five thousand documents of pydoc, and those of SciFact
@pytest.mark.parametrize("command", [line for line in COMMANDS if re.search("beir|nano", line)])
def test_a_command_of_the_readme_works_as_it_stands(place, real_home, command):
    """So it does on the real collections."""
    folder, environment = place
    (folder / "my.run").write_text("1 Q0 31715818 1 9.5 mine\n")
    check(command, folder, {**environment, "IR_DATASETS_HOME": str(real_home)})


def test_the_python_of_the_readme_works(place):
    """The ten lines for a notebook run as they stand, and print a table with both systems."""
    folder, environment = place
    command = [sys.executable, "-c", blocks("python", README)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "bm25" in done.stdout
    assert "letters" in done.stdout


def test_the_readme_is_short():
    """It says what lexbench is and where to read on, in at most 120 lines."""
    assert len(README.splitlines()) <= 120


def rows(text):
    """Yield the name and the figures of each row of the tables in a page, without marks."""
    for line in text.splitlines():
        if line.startswith("|"):
            plain = re.sub(r"<.*?>|\*\*| ~", "", line.replace("\\|", "\x00").replace("\\", ""))
            cells = [cell.strip().replace("\x00", "|") for cell in plain.strip("|").split("|")]
            ranked = re.fullmatch(r"rank|[\d-]+", cells[0]) is not None
            yield cells[ranked], [*cells[:ranked], *cells[ranked + 1 :]]


def test_the_figures_of_the_readme_are_on_the_leaderboard():
    """Each figure of the README's table stands in the leaderboard's rows of the same system on `pydoc`."""
    board = (ROOT / "leaderboard" / "README.md").read_text(encoding="utf-8").partition("\n## pydoc\n")[2]
    measured = {}
    for name, cells in rows(board):
        measured.setdefault(name, set()).update(cells)
    shown = {
        name: cells
        for name, cells in rows(README.partition("## What it shows")[2].partition("## In")[0])
        if any("." in cell for cell in cells)
    }

    assert len(shown) == 7
    for name, cells in shown.items():
        assert set(cells) - {"—"} <= measured[name], name
