"""Tests of the documents of `pydoc`."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from shutil import which

import pytest

from lexbench.datasets import docstrings

ROOT = Path(__file__).parent.parent
LISTED = dict(line.split() for line in (ROOT / "suites" / "pydoc" / "corpus.tsv").read_text().splitlines())
RELEASES = "3.11.7", "3.12.1", "3.13.0"  # those that the list was made with


@cache
def here() -> dict[str, str]:
    """Collect once for all tests."""
    return dict(docstrings.collect())


def interpreter(release: str) -> str | None:
    """Find a Python of a release: this one, one on the path, or one of pyenv's."""
    pyenv = Path.home() / ".pyenv" / "versions" / release / "bin" / "python"
    for python in filter(None, [sys.executable, which(f"python{release.rpartition('.')[0]}"), which(str(pyenv))]):
        asked = [python, "-c", "import platform; print(platform.python_version())"]
        if subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == release:
            return python
    return None


def test_no_trace(capfd: pytest.CaptureFixture[str]) -> None:
    """Collecting prints nothing and imports nothing here."""
    before = set(sys.modules)
    here.cache_clear()
    assert len(here()) > len(LISTED) / 2
    assert set(sys.modules) == before
    assert capfd.readouterr() == ("", "")


def test_list_is_sorted() -> None:
    """The list has at least 5,000 documents, sorted by id, so that a change to it is a change of lines."""
    assert len(LISTED) >= 5000
    assert list(LISTED) == sorted(LISTED)


@pytest.mark.parametrize(
    ("known_as", "also"),
    [
        ("os.path.join", ["posixpath.join", "ntpath.join", "os.join"]),
        ("json.JSONDecoder", ["json.decoder.JSONDecoder"]),
        ("collections.abc.Mapping", ["_collections_abc.Mapping", "typing.Mapping"]),
        ("socket.socket.connect", ["_socket.socket.connect", "socket.SocketType.connect"]),
        ("random.randint", ["random.Random.randint"]),
        ("bytes.lower", ["bytearray.lower"]),
        ("str.join", ["builtins.str.join"]),
    ],
)
def test_one_name(known_as: str, also: list[str]) -> None:
    """An object with several names is one document."""
    assert known_as in here()
    assert not here().keys() & set(also)


def test_text() -> None:
    """A text is the id and the docstring on one line, without a leading signature."""
    assert here()["len"] == "len Return the number of items in a container."
    assert here()["math.log1p"].startswith("math.log1p Return the natural logarithm of 1+x (base e). The result ")
    assert all(text.startswith(f"{doc_id} ") and text.split() == text.split(" ") for doc_id, text in here().items())
    assert min(len(text.split()) for text in here().values()) == 1 + docstrings.FEWEST_WORDS


def test_inherited() -> None:
    """A docstring that only repeats the one of a base class makes no document."""
    assert {"BaseException.with_traceback", "logging.Handler.emit"} <= here().keys()
    assert not {"Exception.with_traceback", "logging.NullHandler.format"} & here().keys()


def test_optimised() -> None:
    """A Python that strips docstrings collects the same documents."""
    script = "import json; from lexbench.datasets import docstrings; print(json.dumps(dict(docstrings.collect())))"
    child = subprocess.run([sys.executable, "-OO", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(child.stdout) == here()


def test_failure() -> None:
    """The error for a Python that cannot run the collector has its output."""
    with pytest.raises(RuntimeError, match="pip could not collect its docstrings"):
        list(docstrings.collect(str(Path(sys.executable).with_name("pip"))))


@pytest.mark.parametrize("release", RELEASES)
def test_releases(release: str) -> None:
    """Every Python that the list was made with has all its documents, with the listed texts."""
    python = interpreter(release)
    if python is None:
        pytest.skip(f"no Python {release} on this machine")
    there = here() if python == sys.executable else dict(docstrings.collect(python))
    assert {doc_id: docstrings.digest(there[doc_id]) for doc_id in LISTED if doc_id in there} == LISTED
