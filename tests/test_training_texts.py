"""The training texts: what is read from each kind of source, and which queries are made from a text."""

import gzip
import json

import pytest
import text_sources
import training_texts
from text_sources import Entry, Text
from tiny import write_files

MAN = r""".TH SLEEP 1
.SH NAME
sleep \- delay for a specified amount of time
.SH SYNOPSIS
.B sleep
.SH DESCRIPTION
.\" a comment
Pause for \fINUMBER\fP seconds.
.PP
It may be a \(lqfloating\-point\(rq number.
.SH EXIT STATUS
.TP
.B 0
if all went well
"""
HTML = """<html><head><title>no</title></head><body><h1>1. Lists</h1><p>What  a list is.</p>
<nav><p>no</p></nav><h2>1.1. Sorting¶</h2><p>How to</p><p>sort.</p><script>no</script></body></html>"""


def test_long_sections_are_cut_between_paragraphs():
    """A section of at most 240 words is one text; a longer one is split without losing a word."""
    paragraphs = [f"p{number} " + "word " * 59 for number in range(10)]
    (whole,) = text_sources.sections("a", "t", paragraphs[:4])
    parts = list(text_sources.sections("a", "t", paragraphs))

    assert whole.text_id == "a"
    assert len(whole.text.split()) == 240
    assert " ".join(part.text for part in parts).split() == " ".join(paragraphs).split()
    assert [len(part.text.split()) for part in parts] == [180, 180, 180, 60]
    assert len({part.text_id for part in parts}) == 4


def titled(texts):
    """Return the title and the text of each."""
    return [(one.title, one.text) for one in texts]


def test_manual_pages(tmp_path):
    """Sections are texts without roff; the description has the page's subject as title; lists of names are left out."""
    assert titled(text_sources.man_pages(write_files(tmp_path, {"usr/share/man/man1/sleep.1.gz": MAN}))) == [
        ("sleep - delay for a specified amount of time", "Pause for NUMBER seconds. It may be a floating-point number."),
        ("sleep exit status", "0 if all went well"),
    ]


def test_html_manuals(tmp_path):
    """Headings become titles; scripts, navigation, other languages and section numbers are left out."""
    found = text_sources.html_manual(write_files(tmp_path, {"lists.html": HTML, "lists.de.html": HTML}))
    assert titled(found) == [("Lists", "What a list is."), ("1. Lists: Sorting", "How to sort.")]


def test_dictionaries(tmp_path):
    """Entries are found by dictd's base-64 index; editors' marks are removed."""
    entries = {"a": "a\n   the first {letter} [1913 Webster]\n", "zebra": 'zebra\n   a horse \\ze"bra\\ with stripes\n'}
    digits, (first, second) = text_sources._BASE64, map(len, entries.values())
    index = f"00-database-short\tA\tA\na\tA\t{digits[first]}\nzebra\t{digits[first]}\t{digits[second]}\n"
    files = {"tiny.index": index, "tiny.dict.dz": gzip.compress("".join(entries.values()).encode())}
    write_files(tmp_path / "usr/share/dictd", files)

    assert titled(text_sources.dictionary(tmp_path)) == [("a", "the first letter"), ("zebra", "a horse with stripes")]


SENTENCES = (
    "The heart pumps blood through all arteries. Valves keep it from flowing back again. A beat takes about a second of time."
)


def test_queries_of_all_kinds_are_removed_from_their_texts():
    """All four kinds of queries occur, and a text always gives the same one.

    The part that a query is made from is removed from its text, and enough text is left. For docstrings the first sentence is
    the query, because nobody types qualified names.
    """
    texts = [Text(f"{number}", "How hearts beat", " ".join([SENTENCES] * 3)) for number in range(200)]
    pairs = [training_texts.pair("manuals", text) for text in texts]

    for text, (query, rest) in zip(texts, pairs, strict=True):
        assert query
        assert len(rest.split()) >= 8
        assert "  " not in query + rest
        if query == text.title:
            assert rest == text.text
        elif len(query.split()) > 25:
            assert set(rest.split()) <= set(text.whole.split())
            assert len(rest.split()) < 0.6 * len(text.whole.split())
    text = Text("a", "os.path.join", "Join path components with slashes. " + "Absolute ones discard the rest. " * 4)
    assert training_texts._title("docstrings", text).query == "Join path components with slashes"
    assert pairs == [training_texts.pair("manuals", text) for text in texts]
    titles = sum(one.query == "How hearts beat" for one in pairs)
    whole = sum(one.rest == text.whole for one, text in zip(pairs, texts, strict=True))
    assert titles == pytest.approx(70, abs=25)
    assert whole == pytest.approx(58, abs=25)  # phrases, and three sentences of ten


def test_unfit_and_repeated_texts_are_left_out():
    """Short texts, texts with few letters, and duplicates are left out."""
    good = Text("a", "", "one two three four five six seven eight")
    same = good._replace(text_id="b", text=good.text.upper())
    texts = [good, same, Text("c", "", "one two"), Text("d", "", "1 2 3 4 5 6 7 8 9")]

    assert list(training_texts.fit(texts, set(), 8)) == [good]


def test_the_output_is_a_training_collection(tmp_path):
    """The result is a BEIR folder in which each query has its own text as relevant, with a digest of the files."""
    texts = {str(number): Text(f"{number}", "How hearts beat", f"{SENTENCES} {number}") for number in range(5)}
    queries, digest = training_texts.write(tmp_path, "manuals", texts)
    files = [(tmp_path / "manuals" / name).read_text().splitlines() for name in ("corpus.jsonl", "queries.jsonl")]
    corpus, asked = ([json.loads(line) for line in lines] for lines in files)
    qrels = (tmp_path / "manuals/qrels/train.tsv").read_text().splitlines()

    assert [row["_id"] for row in corpus] == ["0", "1", "2", "3", "4"]
    assert [row["_id"] for row in asked] == ["q:0", "q:1", "q:2", "q:3", "q:4"]
    assert qrels == ["query-id\tcorpus-id\tscore", *(f"q:{number}\t{number}\t1" for number in range(5))]
    assert queries == [row["text"] for row in asked]
    assert training_texts.write(tmp_path, "manuals", texts) == (queries, digest)


def test_queries_can_be_documents(tmp_path):
    """Imitation reads queries as the documents of a folder, each once, on one line."""
    training_texts.write_as_documents(tmp_path, "queries", ["how hearts\nbeat", "why", "why"])
    lines = (tmp_path / "queries/corpus.jsonl").read_text().splitlines()

    assert [json.loads(line)["text"] for line in lines] == ["how hearts beat", "why"]


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


def test_public_docstrings_of_a_package_are_read_without_importing_it(tmp_path, monkeypatch):
    """Public docstrings are found without importing; private parts of a name are left out."""
    write_files(tmp_path / "shapes_for_test", PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    found = text_sources.distinct(text_sources.package_docstrings("shapes_for_test"))

    assert {one.name: text_sources.without_rules(one.doc) for one in found} == {
        "shapes_for_test": "What the whole package is for.",
        "shapes_for_test.solve": "Solve a linear system of equations.",
        "shapes_for_test.open.slow": "Do it without the fast library.",
        "shapes_for_test.open.Shape": "A shape with an area. Attributes area : float",
        "shapes_for_test.open.Shape.area": "Return the area of the shape.",
        "shapes_for_test.open.Shape.Point": "A point of the shape.",
    }
    assert list(text_sources.package_docstrings("no_such_package_here")) == []


def test_of_equal_docstrings_one_is_kept():
    """Of equal docstrings the standard library's or the shortest name's is kept."""
    found = [
        Entry("p.longer", "p", "The same four words."),
        Entry("p.b", "p", "The same\n  four words."),
        Entry("p.c", "Python", "Another of four words."),
        Entry("p.a", "p", "Another of four words."),
        Entry("p.b", "p", "Of a name already there."),
        Entry("p.d", "p", "Only three words."),
    ]

    assert [(one.name, one.origin) for one in text_sources.distinct(found)] == [("p.b", "p"), ("p.c", "Python")]
