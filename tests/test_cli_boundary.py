"""The boundary of the command line: every error is one line with the right exit code, and no input acts on the terminal."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tiny
from tiny import answer, ended

import lexbench
from lexbench import cli
from lexbench.errors import CONTROLS, visible

LEXBENCH = [sys.executable, "-m", "lexbench"]
HOSTILE = "a\x1b[31mb\x07\x9bc\u202ed\x7f\nnext"


@pytest.fixture
def folder(store, tmp_path):
    """Make a BEIR folder with a hostile name and control characters in its query, and a separate store."""
    documents = {"d1": "the red fox", "d2": "a red red car"}
    return tiny.write(tmp_path / "tiny\x1b[31m\u202e", documents, {"q\x1b": f"red {HOSTILE}"}, [("q\x1b", "d2", 1)])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("words", [["list", "suites"], ["list", "suites", "--json"], ["show", "suite", "pydoc"]])
def test_an_answer_that_cannot_be_written_is_an_error(fast, words):
    """A full disk gives exit code 1 and one line, whether click, rich or the last flush prints."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([fast / "lexbench", *words], stdout=full, stderr=subprocess.PIPE, check=False)

    assert done.returncode == 1
    assert done.stderr.decode() == "lexbench: the answer cannot be written to stdout: No space left on device\n"


def closed(words, stream):
    """Run the command line with stdout (1) or stderr (2) closed."""
    command = f"exec {sys.executable} -m lexbench {words} {stream}>&-"
    return subprocess.run(["sh", "-c", command], capture_output=True, check=False)


def test_closed_streams():
    """With stdout closed, nothing is run; with stderr closed, answer and exit code are the same, and errors stay away."""
    nothing, wrong, right = closed("list suites", 1), closed("show suite bier", 2), closed("list suites", 2)

    assert nothing.returncode == 3
    assert nothing.stderr.decode().startswith("lexbench: stdout is closed")
    assert nothing.stderr.count(b"\n") == 1
    assert (wrong.returncode, wrong.stdout) == (3, b"")
    assert (right.returncode, b"pydoc" in right.stdout) == (0, True)


def test_a_locale_without_utf8(folder, capsys):
    """If stdout cannot encode dashes or umlauts, tables have escapes, and JSON is the same document."""
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q\x1b", "text": "röd \U0001f98a"}) + "\n")
    words = ["run", "dataset", str(folder), "-m", "nDCG@10", "--json"]
    expected = answer(capsys, *words)
    place = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    explain = ["explain", "röd \U0001f98a", "-r", "bm25", "-d", str(folder)]
    found, table = (
        subprocess.run([*LEXBENCH, *one], env=os.environ | place, capture_output=True, check=True).stdout
        for one in (words, explain)
    )

    assert json.loads(found) == expected
    assert table


@pytest.mark.parametrize(
    "words",
    [
        ["run", "suite", "pydoc", "--results", "{}"],
        ["export", "csv", "{}"],
        ["import", "trec", "a.run", "{}/out.run"],
        ["leaderboard", "--results", "{}"],
    ],
)
def test_a_folder_that_cannot_be_written_costs_one_line(folder, capsys, tmp_path, words):
    """A target that cannot be written gives one line without a traceback."""
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "a.run").write_text("q1 Q0 d1 1 1.0 x\n")
    ended(capsys, 0, "run", "dataset", str(folder))
    exit_code = 3 if words[0] in ("leaderboard", "run") else 1
    err = ended(capsys, exit_code, *(word.format(tmp_path / "file" / "below") for word in words)).err.splitlines()

    assert "Traceback" not in "".join(err)
    assert [line for line in err if line.startswith("lexbench: ")] == [err[-1]]
    assert str(tmp_path / "file") in err[-1]


def test_an_unexpected_exception_gives_one_line(folder, capsys, monkeypatch):
    """An unexpected exception gives one line with the path of its traceback; lack of memory or disk space says so."""

    def breaks(_name):
        raise ZeroDivisionError("so\nit is")

    monkeypatch.setattr(lexbench, "suite", breaks)
    err = ended(capsys, 1, "show", "suite", "pydoc").err
    assert err.startswith("lexbench: this is a bug in lexbench: ZeroDivisionError: so it is (traceback: ")
    assert err.count("\n") == 1
    (log,) = (folder.parent / "store" / "logs").iterdir()
    assert "in breaks" in log.read_text()

    def hungry(_name):
        raise MemoryError

    monkeypatch.setattr(lexbench, "suite", hungry)
    assert ended(capsys, 1, "show", "suite", "pydoc").err == "lexbench: not enough memory\n"

    def large(_name):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lexbench, "suite", large)
    found = ended(capsys, 1, "show", "suite", "pydoc").err
    place = folder.parent / "store"
    assert found == f"lexbench: no space left on a disk; free some, or set LEXBENCH_STORE, now {place}, to another disk\n"


def ran(program, python=sys.executable, **settings):
    """Run a Python program and return what it printed and its exit code."""
    return subprocess.run([python, "-c", program], capture_output=True, text=True, check=False, **settings)


@pytest.mark.parametrize(
    ("name", "before", "said"),
    [
        ("SIGTERM", "SIG_DFL", "terminated"),
        pytest.param("SIGHUP", "SIG_DFL", "terminated", marks=pytest.mark.slow),
        ("SIGINT", "default_int_handler", "interrupted"),
    ],
)
def test_a_signal_keeps_what_is_finished(folder, name, before, said):
    """A signal ends a run with one line that says how to go on; finished work is kept; the exit code is the shell's."""
    program = (
        "import os, signal, sys; from lexbench.runner import search; from lexbench import cli\n"
        f"signal.signal(signal.{name}, signal.{before})\n"  # whoever started the tests may ignore it, as nohup does
        f"class Ended:\n    def __call__(self, *a): os.kill(os.getpid(), signal.{name})\n"  # a function would void the store
        f"search.SystemRun.make = Ended(); cli.main(['run', 'dataset', {str(folder)!r}])"
    )
    done = ran(program)

    assert done.returncode == 128 + signal.Signals[name]
    assert done.stderr.splitlines()[-1].startswith(f"lexbench: {said}; finished work is kept")
    assert "; go on: lexbench run dataset " in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert len(list((folder.parent / "store" / "corpora").iterdir())) == 1


def test_a_signal_while_the_interpreter_exits_prints_nothing():
    """SIGTERM after the last line, as torchrun sends it, ends the process without a traceback."""
    program = (
        "import atexit, os, signal; from lexbench import cli\n"
        "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGTERM)\n"
        "cli.main(['list', 'suites'])"
    )
    done = ran(program)

    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")
    assert "pydoc" in done.stdout


def test_an_interrupted_training_of_several_processes_resumes_with_as_many(monkeypatch, capsys):
    """Under torchrun, the command that goes on is one for torchrun."""
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(lexbench, "train", interrupted)
    err = ended(capsys, 130, "train", "all", "msmarco_titled").err
    assert err.endswith("; go on: torchrun --nproc-per-node 8 -m lexbench train all msmarco_titled\n")


def test_an_ignored_signal_stays_ignored(fast, folder):
    """Under `nohup`, a SIGHUP does not end a run."""
    program = (
        "import os, signal, sys; from lexbench.runner import search; from lexbench import cli\n"
        "before = search.SystemRun.make\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "def go_on(self, *a): os.kill(os.getpid(), signal.SIGHUP); return before(self, *a)\n"
        f"search.SystemRun.make = go_on; cli.main(['run', 'dataset', {str(folder)!r}])"
    )

    assert ran(program, fast / "python").returncode == 0


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_a_tokeniser(folder, plugin_environment):
    """Interrupting an encoding does not wait for the tokenisation of the current shard."""
    program = (
        "import os, signal, threading, time; from lexbench import cli, plugins\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whoever started the tests may ignore it
        "def slow(self, documents):\n"
        "    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start(); time.sleep(3600)\n"
        "plugins.Encoder.tokenise_documents = slow\n"
        f"cli.main(['run', 'dataset', {str(folder)!r}, '-r', 'letters@flat'])"
    )
    environment = {**plugin_environment, "LEXBENCH_STORE": str(folder.parent / "store")}
    environment["PYTHONPATH"] += os.pathsep + os.environ.get("PYTHONPATH", "")
    done = ran(program, env=environment, timeout=60)

    assert done.returncode == 128 + signal.SIGINT, done.stderr
    assert done.stderr.splitlines()[-1].startswith("lexbench: interrupted; finished work is kept")


@pytest.mark.parametrize(
    ("variable", "value", "exit_code"),
    [
        ("NUMBA_DISABLE_JIT", "1", 2),
        ("NUMBA_DISABLE_JIT", "0", 0),
        ("NUMBA_NUM_THREADS", "0", 2),
        ("NUMBA_NUM_THREADS", "many", 2),
        ("COLUMNS", "1", 0),
    ],
)
def test_an_odd_environment_costs_one_line(folder, capsys, monkeypatch, variable, value, exit_code):
    """Settings of numba that cannot work are refused by name; on a narrow terminal a table keeps its columns."""
    monkeypatch.setenv(variable, value)
    shown = ended(capsys, exit_code, "run", "dataset", folder, "-m", "nDCG@10")

    if exit_code:
        assert shown.err.startswith(f"lexbench: {variable} is ")
        assert shown.err.endswith(f"type: unset {variable}\n")
    assert exit_code or any(line.startswith("bm25     1.") for line in shown.out.splitlines())


def test_visible_text_does_nothing_to_a_terminal():
    """ESC, bells, C1 controls and direction marks become escapes; letters of all languages stay."""
    assert visible(HOSTILE) == r"a\x1b[31mb\x07\x9bc\u202ed\x7f next"
    assert visible("Žluťoučký 東京 فارسی می‌خواهم 🦊") == "Žluťoučký 東京 فارسی می‌خواهم 🦊"
    assert visible("\ud800") == r"\ud800"


def test_controls_reach_no_output(folder, capsys):
    """No command prints control characters from a folder name, a query or a label: in tables, JSON, pages or errors."""
    label = f'run_file(path="{folder.name}/a.run")'
    (folder / "a.run").write_text("q\x1b Q0 d1 1 2.0 x\nq\x1b Q0 d2 2 1.0 x\n")
    said = ""
    for words in (
        ["run", "dataset", str(folder), "-r", "bm25", "-r", label],
        ["run", "dataset", str(folder), "-r", "bm25", "-r", label, "--json"],
        ["run", "dataset", str(folder), "--dry-run"],
        ["compare", "bm25", label, "-d", visible(folder.name), "--queries", "3"],
        ["list", "results"],
        ["list", "results", "--json"],
        ["explain", "qid:q\x1b", "-r", "bm25", "-d", str(folder)],
        ["explain", HOSTILE, "-r", "bm25", "-d", str(folder)],
        ["score", f"{folder.name}/a.run", "--qrels", f"{folder.name}/qrels/test.tsv", "--per-query"],
        ["run", "dataset", HOSTILE],
        ["run", "suite", "pydoc", "-r", HOSTILE],
        ["export", "trec", f"out{HOSTILE.strip()}"],
        ["show", "result", HOSTILE],
    ):
        said += "".join(tiny.run(capsys, *words)[1:])

    assert {char for char in said if ord(char) in CONTROLS} == {"\n"}
    assert r"\x1b[31m" in said


@pytest.mark.parametrize("live", [False, True])
def test_progress_shows_controls(live, monkeypatch, capsys):
    """Progress lines and bars escape names like tables do."""
    from lexbench.cli import _progress
    from lexbench.display import progress as plain

    monkeypatch.setattr(plain, "_SHOWN", 0)
    progress = _progress.Live() if live else plain.Plain()
    progress.note(HOSTILE)
    progress.start(HOSTILE, "search", 1, "queries")
    progress.advance(1)
    progress.end()
    err = capsys.readouterr().err

    assert r"a\x1b[31mb\x07\x9bc\u202ed\x7f next" in err
    assert "\x1b[31mb" not in err
    assert "\u202e" not in err


def test_commands_print_by_one_module():
    """No command prints by itself, past the escaping of control characters."""
    modules = Path(cli.__file__).parent.glob("*.py")
    printing = {path.name for path in modules if re.search(r"\b(click\.echo|print)\(", path.read_text(encoding="utf-8"))}

    assert printing == {"__init__.py", "_output.py", "_progress.py"}
