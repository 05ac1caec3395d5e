"""The cache of compiled loops, the line that announces compilation, and clocks that stand still meanwhile."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

import lexbench
from lexbench import compiling
from lexbench.compiling import loops
from lexbench.storage.stopwatch import Stopwatch

PACKAGE = Path(lexbench.__file__).parent
PROGRAM = """
import sys
import numpy as np
from lexbench import compiling
from lexbench.arrays import selection
with compiling.announced(lambda line: print(line, file=sys.stderr)):
    marks = np.ones(3, bool)
    selection.mark_largest(np.array([0, 3], np.int32), np.array([3, 1, 2], np.float32), 2, True, marks)
print(marks.astype(int).tolist(), compiling.seconds() > 0)
"""


def run(package, folder):
    """Run the program with a copy of the package and a cache folder; return what it prints, and whether it compiled."""
    environment = {**os.environ, "PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-P", "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip(), done.stderr.splitlines()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Compile with this package, then run with a copy of it; return the folder of the cache, the copy, and both outputs."""
    folder, copy = tmp_path_factory.mktemp("cache"), tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, copy / "lexbench", ignore=shutil.ignore_patterns("*.safetensors"))
    return folder, copy, run(PACKAGE.parent, folder), run(copy, folder)


@pytest.mark.slow
def test_compilation_is_announced_once_and_shared_by_copies(two):
    """The first process says that it compiles, in one line; a process with another copy of the same files finds it done."""
    _, _, first, second = two

    assert first == ("[1, 0, 1] True", [compiling.LINE])
    assert second == ("[1, 0, 1] False", [])


@pytest.mark.slow
def test_a_change_of_any_loop_makes_a_new_cache(two):
    """A loop may call one of another file, so a change of one file compiles all again."""
    folder, copy, *_ = two
    with (copy / "lexbench" / "trec" / "_compiled.py").open("a", encoding="utf-8") as file:
        file.write("# changed\n")

    assert run(copy, folder) == ("[1, 0, 1] True", [compiling.LINE])
    assert len([*folder.glob("compiled*/*")]) == 2


@pytest.mark.slow
def test_a_damaged_file_is_compiled_again(two):
    """A file that was cut off is written again."""
    folder, *_ = two
    files = [*folder.glob("compiled*/*/*.nbc")]
    for file in files:
        file.write_bytes(file.read_bytes()[:100])

    assert files
    assert run(PACKAGE.parent, folder) == ("[1, 0, 1] True", [compiling.LINE])
    assert max(file.stat().st_size for file in files) > 100


def test_the_list_of_sources_is_complete():
    """Every file with compiled loops is in the digest of the cache. No loop is made in a function: it would have closures."""
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    imports = re.compile(r"^from (numba|lexbench\.compiling\.loops) import", re.MULTILINE)
    wanted = {name for name, text in texts.items() if imports.search(text)}

    assert set(loops.SOURCES) == wanted | {"compiling/loops.py"}
    assert not [name for name, text in texts.items() if re.search(r"^ +@njit|^from numba import .*njit", text, re.MULTILINE)]


@pytest.fixture
def place(monkeypatch, tmp_path):
    """Return a cache folder that `cache_folder` is asked for."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def folder_now():
    """Return the folder, as a new process does."""
    return loops.cache_folder.__wrapped__()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_nobody_else_can_write_compiled_code(place):
    """The folder is the user's alone; one that others may write to is not used."""
    folder = folder_now()
    assert folder.parent.parent == place
    assert {oct(one.stat().st_mode & 0o777) for one in (folder, folder.parent)} == {"0o700"}
    folder.chmod(0o777)
    assert folder_now() is None
    folder.chmod(0o700)
    folder.parent.chmod(0o722)
    assert folder_now() is None


def test_no_folder_is_no_error(place):
    """Where the folder cannot be made, loops are compiled without it."""
    place.write_text("a file")
    assert folder_now() is None


def test_clocks_stand_still_while_loops_are_compiled():
    """Neither a block nor the block around it counts the time of compilation, in this thread or another."""
    watch = Stopwatch()

    def compile_for_a_while():
        compiling.begin()
        compiling.begin()  # a loop that another one calls
        time.sleep(0.3)
        compiling.end()
        compiling.end()

    with watch.time("build"):
        with watch.time("encode"):
            compile_for_a_while()
            time.sleep(0.02)
        other = threading.Thread(target=compile_for_a_while)
        other.start()
        other.join()

    assert 0.02 <= watch.seconds["encode"] < 0.2
    assert 0 <= watch.seconds["build"] < 0.2


def test_a_warning_that_is_an_error_stops_no_compilation(monkeypatch):
    """Where warnings are errors, as in many tests of users, the line is dropped, and clocks go on."""
    monkeypatch.setattr(compiling, "_state", compiling._State())
    with warnings.catch_warnings(), compiling.announced(warnings.warn):
        warnings.simplefilter("error")
        begin = compiling.clock()
        compiling.begin()
        compiling.end()

    assert 0 <= compiling.clock() - begin < 60


@pytest.mark.slow
def test_a_first_run_says_that_it_compiles_and_does_not_count_it(tmp_path):
    """`bm25` with an empty cache says so before the index is built, and the stored time of building is that of a second run."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(PACKAGE.parent)}
    said, built = [], []
    for name in ("first", "second"):
        environment["LEXBENCH_STORE"] = str(tmp_path / name)
        command = [sys.executable, "-m", "lexbench", "run", "suite", "pydoc", "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        said.append(done.stderr.count(compiling.LINE))
        (measured,) = (tmp_path / name).glob("indexes/*/measured.json")
        built.append(float(re.search(r'"build": ?([\d.]+)', measured.read_text())[1]))

    assert said == [1, 0]
    assert built[0] < built[1] + 3
