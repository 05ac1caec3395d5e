"""Benchmarks run, at sizes that take seconds, so that the published tables can be made again."""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
ROOT = BENCHMARKS.parent
HELP = """
import os, runpy, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
for path in sys.argv[2:]:
    sys.argv = [path, "--help"]
    try:
        runpy.run_path(path, run_name="__main__")
        raise AssertionError(path)
    except SystemExit as ended:
        assert not ended.code, path
"""


def ran(python, tmp_path, *words):
    """Run a benchmark by *python* in an empty folder; return its exit code, standard output and standard error."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LEXBENCH_STORE": str(tmp_path / "store"), "LEXBENCH_OFFLINE": "1"}
    command = [python, str(BENCHMARKS / words[0]), *map(str, words[1:])]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


LONGER = (
    "dense_engines.py --documents 2000 --dimensions 16 --queries 20 --passes 1 --engine flat",
    "encoding.py sparse --documents 4 --repeats 1",
    "engines.py --docs 2000 --engines impact --queries 50 --repeats 1 --rounds 1 --warm-up 0",
    "reranking.py --pairs 8 --repeats 1",
    "significance.py --simulate 5",
    "timing.py --plain --rounds 1",
    "training.py --shape tiny --batch 34 --length 16 --steps 1 --precision fp32 --repeats 1",
)


@pytest.mark.parametrize(
    "words",
    [
        "significance.py --queries 50 --repeats 1",
        "bm25.py --documents 300 --systems bm25",
        "scoring.py --queries 5 --depth 10 --repeats 1 --tools lexbench",
        *(pytest.param(words, marks=pytest.mark.slow) for words in LONGER),
    ],
    ids=lambda words: words.split()[0],
)
def test_a_benchmark_runs(words, fast, tmp_path):
    """It ends with exit code 0, and its file has figures."""
    python = sys.executable if words in LONGER else fast / "python"  # they use libraries that no fork may share
    ended, out, err = ran(python, tmp_path, *words.split(), "--json", tmp_path / "figures.json")

    assert ended == 0, err
    assert out.strip()
    assert json.loads((tmp_path / "figures.json").read_text())


def is_there(module, name):
    """Return whether a module has a name, which can be that of a module in it."""
    found = import_module(module)
    return hasattr(found, name) or (hasattr(found, "__path__") and find_spec(f"{module}.{name}") is not None)


def test_what_programs_import_exists():
    """Names that benchmarks and tools import from lexbench are there, also in programs that they have as text for a process."""
    imports = re.compile(r"^ *from (lexbench[\w.]*) import ([\w, ]+)$", re.MULTILINE)
    files = [path for folder in ("benchmarks", "tools") for path in sorted((ROOT / folder).glob("*.py"))]
    lines = [(file.name, *found) for file in files for found in imports.findall(file.read_text(encoding="utf-8"))]
    names = [(file, module, name.split()[0]) for file, module, listed in lines for name in listed.split(", ")]

    assert len(names) > 100
    assert [one for one in names if not is_there(*one[1:])] == []


def test_benchmarks_say_what_they_do(fast, tmp_path):
    """`--help` works for all of them and all tools, so they import without what they measure against."""
    paths = sorted(map(str, [*BENCHMARKS.glob("[a-z]*.py"), *(ROOT / "tools").glob("*.py")]))
    paths.remove(str(ROOT / "tools" / "text_sources.py"))  # a module of training_texts
    command = [fast / "python", "-c", HELP, f"{BENCHMARKS}{os.pathsep}{ROOT / 'tools'}", *paths]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage:") == len(paths)
    assert not [path for path in paths if "SLF001" in Path(path).read_text()]


def test_a_failing_child_shows_its_last_lines(tmp_path):
    """A benchmark whose child fails ends with the command, its exit code, and what the child wrote last."""
    program = "import sys; sys.path.insert(0, sys.argv[1]); import _child; _child.run([sys.executable, '-c', sys.argv[2]])"
    child = "import sys; print('done so far'); sys.exit('no such index')"
    command = [sys.executable, "-c", program, str(BENCHMARKS), child]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-2:] == ["done so far", "no such index"]
    assert done.stderr.startswith("exit code 1 of: ")
    assert "Traceback" not in done.stderr
