"""The tool that makes a collection to train on of docstrings."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from lexbench.contracts import suite_folders
from lexbench.datasets import docstrings
from lexbench.datasets.records import read_records
from lexbench.trec.qrels import read_judgements

_FILE = Path(__file__).parent.parent / "tools" / "docstring_collection.py"
_SPEC = importlib.util.spec_from_file_location("docstring_collection", _FILE)
tool = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = tool
_SPEC.loader.exec_module(tool)

PACKAGE = {
    "__init__.py": '"""What the whole package is for."""\nraise RuntimeError("imported")\n',
    "_basic.py": '"""A private module says nothing."""\ndef solve(a):\n    """Solve a linear system of equations."""\n',
    "open.py": '''
try:
    import fast
except ImportError:
    def slow():
        """Do it without the fast library."""
class Shape:
    """A shape with an area.

    Attributes
    ----------
    area : float
    """
    def __init__(self):
        """What is not public at all."""
    async def area(self):
        """Return the area of the shape."""
    class Point:
        """A point of the shape."""
def _hidden():
    """A helper that nobody should call."""
def bare():
    pass
''',
    "tests/test_it.py": '"""Tests that are left out of it."""\n',
    "_vendor/other.py": '"""A copy of another package here."""\n',
    "template.py": '"""Not Python after all"""\n{{ name }} = = 1\n',
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a package that cannot be imported, and return its name."""
    for name, text in PACKAGE.items():
        path = tmp_path / "shapes_for_test" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return "shapes_for_test"


@pytest.fixture(scope="module")
def standard(tmp_path_factory):
    """Return the folder that the tool makes of the standard library alone."""
    folder = tmp_path_factory.mktemp("standard")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["docstring_collection.py", str(folder), "--packages"])
        tool.main()
    return folder


def entry(name, doc, origin="p"):
    """Return an entry."""
    return tool.Entry(name, origin, doc)


def drawn(what, of, wanted):
    """Return a name that is drawn for *what*, or one that is not."""
    return next(f"name{i}" for i in range(100) if tool._drawn(f"name{i}", what, of) == wanted)


def test_public_docstrings_of_a_package_are_read_without_importing_it(package):
    """Modules, classes, functions and methods are found, private modules as if their parts were above; the rest is not."""
    found = {one.name: tool.one_line(one.doc) for one in tool.documents(tool.entries(package))}

    assert found == {
        "shapes_for_test": "What the whole package is for.",
        "shapes_for_test.solve": "Solve a linear system of equations.",
        "shapes_for_test.open.slow": "Do it without the fast library.",
        "shapes_for_test.open.Shape": "A shape with an area. Attributes area : float",
        "shapes_for_test.open.Shape.area": "Return the area of the shape.",
        "shapes_for_test.open.Shape.Point": "A point of the shape.",
    }


def test_a_package_that_is_not_there_has_nothing():
    """No error comes of a name that nothing is installed under."""
    assert list(tool.entries("no_such_package_here")) == []


def test_of_equal_docstrings_one_is_kept():
    """The standard library's comes first, then the shortest name; a name is there once; three words are too few."""
    found = [
        entry("p.longer", "The same four words."),
        entry("p.b", "The same\n  four words."),
        entry("p.c", "Another of four words.", "Python"),
        entry("p.a", "Another of four words."),
        entry("p.b", "Of a name already there."),
        entry("p.d", "Only three words."),
    ]

    assert [(one.name, one.origin) for one in tool.documents(found)] == [("p.b", "p"), ("p.c", "Python")]


@pytest.mark.parametrize(
    ("sentence", "plain", "asked"),
    [
        ("Return the absolute path.", "return the absolute path", "how to return the absolute path"),
        ("Returns the absolute path.", "return the absolute path", "how to return the absolute path"),
        ("Fetches a page of it:", "fetch a page of it", "how to fetch a page of it"),
        ("Copies ``src`` to `dst`.", "copy src to dst", "how to copy src to dst"),
        ("XML of a :class:`~p.Tree` node.", "XML of a p.Tree node", "XML of a p.Tree node"),
        ("A tree of nodes.", "a tree of nodes", "a tree of nodes"),
        ("S.find(sub[, start]) -> int -- Find a part.", "find a part", "how to find a part"),
    ],
)
def test_a_sentence_becomes_what_one_types(sentence, plain, asked):
    """The verb is in its base form, names and abbreviations keep their letters, mark-up, signature and period are gone."""
    assert tool.as_typed(sentence, how_to=False) == plain
    assert tool.as_typed(sentence, how_to=True) == asked


def test_half_of_the_documents_lose_the_sentence_that_asks():
    """A query is the first sentence; a document drawn to be whole stays so, another loses it, or has none if it is short."""
    doc = "Return the absolute path, e.g. of a file.\n\nLinks are followed as far as there are any of them."
    rest = "Links are followed as far as there are any of them."
    whole, cut = drawn("whole", 2, wanted=True), drawn("whole", 2, wanted=False)

    assert tool.pair(whole, doc).rest is None
    assert tool.pair(cut, doc).rest == rest
    assert tool.pair(cut, doc).query.removeprefix("how to ") == "return the absolute path, e.g. of a file"
    assert tool.pair(cut, "Return the absolute path. Seven words are too few of them.") is None
    assert tool.pair(whole, "Return the path. There is more to say about it.") is None, "three words"
    assert tool.pair(whole, "Return " + "a long tale " * 7 + ".") is None, "22 words"


def test_documents_with_one_sentence_share_a_query(tmp_path):
    """Its qrels name them all; a sentence that six documents begin with asks nothing, and those documents stay whole."""
    same = [entry(f"a{i}", f"Fit the linear model. {'word ' * 8}{i}") for i in range(2)]
    many = [entry(f"b{i}", f"Fit this very model. {'word ' * 8}{i}") for i in range(6)]
    pairs = tool.write([*same, *many], {"p": "1.0"}, tmp_path)

    queries = {query_id: fields["text"] for query_id, fields in read_records(tmp_path / "queries.jsonl")}
    judged = [(row.query_id, row.doc_id, row.grade) for row in read_judgements(tmp_path / "qrels" / "train.tsv")]
    corpus = {doc_id: fields for doc_id, fields in read_records(tmp_path / "corpus.jsonl")}  # noqa: C416 - of named tuples
    assert [text.removeprefix("how to ") for text in queries.values()] == ["fit the linear model"] * len(queries)
    assert {doc for _, doc, _ in judged} == {"a0", "a1"}
    assert {query for query, _, _ in judged} == queries.keys()
    assert pairs == len(judged) == 2
    assert all(corpus[f"b{i}"]["text"].startswith("Fit this very model.") for i in range(6))
    assert json.loads((tmp_path / "sources.json").read_text()) == {"p": {"version": "1.0", "documents": 8}}


def test_most_draws_the_same_documents_in_any_order():
    """A smaller collection is a part of a larger one, whatever order the documents came in."""
    found = [entry(f"n{i}", "Any docstring will do.") for i in range(50)]

    assert tool.most(found, 10) == tool.most(found[::-1], 10) != found[:10]
    assert set(tool.most(found, 10)) < set(tool.most(found, 20))
    assert tool.most(found, 0) == sorted(found)


def test_of_the_standard_library_documents_are_those_of_pydoc(standard):
    """Title and text of a document joined are what `pydoc` has, unless it lost its first sentence."""
    known = dict(docstrings.collect())
    corpus = list(read_records(standard / "corpus.jsonl"))
    same = [known[doc_id] == f"{fields['title']} {fields['text']}" for doc_id, fields in corpus if doc_id in known]

    assert len(same) == len(corpus) > 5000
    assert 0.6 < sum(same) / len(same) < 0.9
    assert all(known[doc_id].endswith(fields["text"]) for doc_id, fields in corpus)


def test_no_query_is_one_of_pydoc(standard):
    """The questions that `pydoc` is measured on are not trained on, and the tool does not know where they are."""
    asked = {fields["text"].lower() for _, fields in read_records(suite_folders()[0] / "pydoc" / "queries.tsv")}
    made = {fields["text"].lower() for _, fields in read_records(standard / "queries.jsonl")}

    assert len(asked) == 165
    assert len(made) > 2000
    assert not asked & made
    assert "suites" not in _FILE.read_text(encoding="utf-8")


def test_every_query_has_its_words_and_document(standard):
    """Queries have 4 to 20 words, "how to" not counted, and documents of the corpus; a third of those with a verb ask how."""
    queries = {query_id: fields["text"] for query_id, fields in read_records(standard / "queries.jsonl")}
    documents = {doc_id for doc_id, _ in read_records(standard / "corpus.jsonl")}
    judged = list(read_judgements(standard / "qrels" / "train.tsv"))
    verbs = [text for text in queries.values() if text.removeprefix("how to ").split()[0] in tool._VERBS]

    assert all(4 <= len(text.removeprefix("how to ").split()) <= 20 for text in queries.values())
    assert {row.query_id for row in judged} == queries.keys()
    assert {row.doc_id for row in judged} <= documents
    assert 0.28 < sum(text.startswith("how to ") for text in verbs) / len(verbs) < 0.39
