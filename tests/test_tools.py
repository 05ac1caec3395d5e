"""Tools of this checkout that have no tests elsewhere, on small inputs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fruit import write

ROOT = Path(__file__).parents[1]
NANO = ROOT / "lexbench" / "catalog" / "lexmae_nano"


def printed(tool, capsys, monkeypatch, *arguments):
    """Run the `main` of a tool; return what it printed."""
    monkeypatch.setattr(sys, "argv", [tool.__name__, *map(str, arguments)])
    tool.main()
    return capsys.readouterr().out


def test_word_break_classes_are_those_of_lucene():
    """The committed table is what the tool prints. It has its own process, because it changes a class of jnius for good."""
    pytest.importorskip("jnius_config", reason="Lucene is in the extra lucene")
    command = [sys.executable, ROOT / "tools" / "word_break_classes.py"]
    printed = subprocess.run(command, capture_output=True, check=True, encoding="utf-8").stdout
    assert printed == (ROOT / "lexbench" / "tokenization" / "word_break.txt").read_text(encoding="utf-8")


def test_a_size_is_counted(tmp_path, capsys, monkeypatch):
    """A checkout of two modules has three lines, one class of plug-ins, and one question about it."""
    import size

    (tmp_path / "lexbench").mkdir()
    (tmp_path / "lexbench" / "plugins.py").write_text("class Engine:\n    pass\n")
    (tmp_path / "lexbench" / "a.py").write_text("isinstance(x, Engine), isinstance(x, int)\n")
    rows = dict(re.findall(r"^\| (.*?) \| ([0-9,]+) \|$", printed(size, capsys, monkeypatch, tmp_path), re.MULTILINE))

    assert (rows["lines in lexbench/"], rows["modules"]) == ("3", "2")
    assert (rows["classes in lexbench/plugins.py"], rows["isinstance calls with one of these classes"]) == ("1", "1")


def test_development_collections_are_compared(store, tmp_path, capsys, monkeypatch):
    """A system that is BM25 by another name gains nothing on a collection; a collection that fails is left out with a line."""
    import development

    write(tmp_path / "fruit")
    monkeypatch.setattr(development, "FOLDERS", ("fruit",))
    monkeypatch.setattr(development, "DATASETS", ("beir/fever/test",))
    lines = printed(development, capsys, monkeypatch, tmp_path, "same = bm25(k1=0.9)").splitlines()
    same = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "same" in line]

    assert lines[0].startswith("beir/fever/test is left out: ")
    assert same[0][-2:] == ["+0.0000", "+0.0000 fruit"]
    assert same[1][1:] == ["+0.000 [+0.000, +0.000], 1.000"] * 2


def test_trials_are_trained_and_scored_side_by_side(store, tmp_path, capsys, monkeypatch):
    """A system is scored; what fails, what waits for it and what has no time left are named, and cost the others nothing."""
    import trials

    (tmp_path / "t.toml").write_text(
        "[same]\nsystem = 'bm25(k1=0.9)'\n[wrong]\nrecipe = 'no such recipe'\n[late]\nrecipe = 'minilm'\nafter = 'wrong'\n"
    )
    output = tmp_path / "out"
    lines = printed(trials, capsys, monkeypatch, tmp_path / "t.toml", tmp_path, "--output", output).splitlines()
    assert lines[:3] == [
        "same: done",
        f"wrong: failed with 3; see {output}/wrong.log",
        f"late: not begun: wrong is failed with 3; see {output}/wrong.log",
    ]
    assert "no recipe or file 'no such recipe'" in (output / "wrong.log").read_text(encoding="utf-8")
    assert re.search(r"^\| same *\| *0\.\d{4}.*\+0\.0000 pydoc/dev", "\n".join(lines), re.MULTILINE)
    kept = trials.Trials({"same": trials.Trial(system="bm25")}, tmp_path, output, seconds=0)
    assert kept.run() == {"same": "stopped"}
    assert [*kept.scores()] == ["pydoc/dev"]


def test_a_packaged_model_is_packaged_again(tmp_path, capsys, monkeypatch):
    """The weights of lexmae_nano, which are in half precision, stay the same bytes; its card loses the scores and no limit."""
    pytest.importorskip("torch", reason="models are in the extra neural")
    import package_model

    assert "MB of weights" in printed(package_model, capsys, monkeypatch, NANO, tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == (NANO / "model.safetensors").read_bytes()
    before, after = (json.loads((folder / "training.json").read_text())["facts"] for folder in (NANO, tmp_path))
    scores, limits = before.pop("scores"), before.pop("limits")
    assert scores
    assert not after.pop("scores", None)
    assert after.pop("limits")[-len(limits) :] == limits
    assert after == before
