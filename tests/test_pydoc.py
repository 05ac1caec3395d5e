"""The embedded collection `pydoc`, and the docstrings that are its documents."""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from shutil import which

import pytest

from lexbench.contracts import contract_of, suite_folders
from lexbench.datasets import docstrings
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.sources.pydoc import Pydoc

DEV, TEST = contract_of("pydoc/dev"), contract_of("pydoc/test")
FOLDER = suite_folders()[0] / "pydoc"
RELEASES = "3.11.7", "3.12.1", "3.13.0"  # the list was made with these
LISTED = dict(line.split() for line in (FOLDER / "corpus.tsv").read_text(encoding="utf-8").splitlines())


@pytest.fixture(scope="module", params=[DEV, TEST], ids=["dev", "test"])
def dataset(request):
    """Open one split; raises if it differs from its contract."""
    return open_dataset(request.param)


def test_the_splits_are_as_large_as_promised():
    """There are 50 questions to tune on and 115 to test with, and no question is in both. The list of documents is sorted."""
    dev, test = ({query.text for query in open_dataset(contract).queries} for contract in (DEV, TEST))

    assert (len(dev), len(test)) == (50, 115)
    assert dev.isdisjoint(test)
    assert len(LISTED) >= 5000
    assert list(LISTED) == sorted(LISTED)


def test_every_question_has_an_answer(dataset):
    """Each question has a document of grade 3; most have three or more of grade 2 or better, all in the corpus.

    A question holds no dotted name, and no full name of a document of grade 3 that is not an ordinary word.
    """
    grades = defaultdict(list)
    for row in dataset.topics.judgements:
        grades[row.query_id].append(row.grade)
    useful = Counter(min(sum(grade >= 2 for grade in found), 3) for found in grades.values())

    assert all(max(found) == 3 for found in grades.values())
    assert useful[3] >= 0.75 * len(grades)
    assert {row.doc_id for row in dataset.topics.judgements} <= LISTED.keys()
    texts = {query.query_id: query.text for query in dataset.queries}
    best = [(row.query_id, row.doc_id) for row in dataset.topics.judgements if row.grade == 3]

    assert not [doc_id for query_id, doc_id in best if "." in doc_id and doc_id in texts[query_id]]
    assert not [doc_id for query_id, doc_id in best if "_" in doc_id and doc_id.rpartition(".")[2] in texts[query_id].split()]


def test_documents_are_those_of_the_list(monkeypatch):
    """Documents with the listed text come by id. A note counts missing and different ones and names the version of Python."""
    here = {"len": "len Return it.", "abs": "abs Return |x|.", "os.path.join": "os.path.join Join.", "new": "new"}
    listed = {name: docstrings.digest(text) for name, text in here.items() if name != "new"}
    monkeypatch.setattr(docstrings, "collect", lambda: iter(here.items()))
    whole, other = Pydoc(TEST), Pydoc(TEST)
    whole.__dict__["_listed"] = listed
    other.__dict__["_listed"] = listed | {"os.path.join": "0" * 16, "os.path.jion": "0" * 16}

    assert [one.doc_id for one in whole.documents()] == ["abs", "len", "os.path.join"]
    assert whole.notes() == []
    assert [one.doc_id for one in other.documents()] == ["abs", "len"]
    assert other.notes()[0].startswith("1 of 4 documents are missing and 1 have another text in Python ")


def test_the_deeper_judgements_add_what_was_missing_and_change_none():
    """pydoc/test/depth10 has all judgements of pydoc/test and 804 more, of other documents, none of them relevant."""
    first, deeper = (
        {(row.query_id, row.doc_id): row.grade for row in open_dataset(contract_of(name)).qrels.judgements()}
        for name in ("pydoc/test", "pydoc/test/depth10")
    )
    added = {pair: grade for pair, grade in deeper.items() if pair not in first}

    assert {pair: deeper[pair] for pair in first} == first
    assert Counter(added.values()) == {0: 783, 1: 21}
    assert contract_of("pydoc/test/depth10").corpus == contract_of("pydoc/test").corpus


# ---- the docstrings of a Python --------------------------------------------------------------------------------------------


@cache
def here():
    """Collect once for all tests."""
    return dict(docstrings.collect())


def interpreter(release):
    """Find a Python of a release: this one, one on the path, or one of pyenv's."""
    pyenv = Path.home() / ".pyenv" / "versions" / release / "bin" / "python"
    for python in filter(None, [sys.executable, which(f"python{release.rpartition('.')[0]}"), which(str(pyenv))]):
        asked = [python, "-c", "import platform; print(platform.python_version())"]
        if subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == release:
            return python
    return None


def test_collecting_leaves_no_trace(capfd):
    """Collecting prints nothing and imports nothing here."""
    before = set(sys.modules)
    here.cache_clear()
    assert len(here()) > len(LISTED) / 2
    assert set(sys.modules) == before
    assert capfd.readouterr() == ("", "")


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
        ("BaseException.with_traceback", ["Exception.with_traceback"]),
        ("logging.Handler.emit", ["logging.NullHandler.format"]),
    ],
)
def test_an_object_has_one_name(known_as, also):
    """An object with several names is one document, and so is a docstring that classes inherit."""
    assert known_as in here()
    assert not here().keys() & set(also)


def test_a_text_is_a_name_and_its_docstring():
    """A text is the id and the docstring on one line, without a leading signature."""
    assert here()["len"] == "len Return the number of items in a container."
    assert here()["math.log1p"].startswith("math.log1p Return the natural logarithm of 1+x (base e). The result ")
    assert all(text.startswith(f"{doc_id} ") and text.split() == text.split(" ") for doc_id, text in here().items())
    assert min(len(text.split()) for text in here().values()) == 1 + docstrings.FEWEST_WORDS


def test_a_python_without_docstrings_collects_the_same():
    """A Python that strips docstrings collects the same documents."""
    script = "import json; from lexbench.datasets import docstrings; print(json.dumps(dict(docstrings.collect())))"
    child = subprocess.run(
        [sys.executable, "-OO", "-c", script], cwd=FOLDER.parents[1], capture_output=True, text=True, check=True
    )
    assert json.loads(child.stdout) == here()


def test_a_collector_that_fails_is_an_error():
    """The error for a Python that cannot run the collector has its output."""
    with pytest.raises(RuntimeError, match="pip could not collect its docstrings"):
        list(docstrings.collect(str(Path(sys.executable).with_name("pip"))))


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_has_the_listed_texts(release):
    """Every Python that the list was made with has all its documents, with the listed texts."""
    python = interpreter(release)
    if python is None:
        pytest.skip(f"no Python {release} on this machine")
    there = here() if python == sys.executable else dict(docstrings.collect(python))
    assert {doc_id: docstrings.digest(there[doc_id]) for doc_id in LISTED if doc_id in there} == LISTED
