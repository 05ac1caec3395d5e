"""A user's own data run like a suite: in every layout, from the hub, in the shell and in Python, with the same numbers."""

from collections import namedtuple
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny import answer, ended, lines, run, write_rows
from tiny import write_files as write
from workbench import needs_pyarrow

import lexbench
from lexbench import contracts
from lexbench.datasets.location import find_dataset, find_folder
from lexbench.datasets.records import read_records
from lexbench.errors import CommandError, InvalidFile, LexbenchError, MissingData
from lexbench.results import DATASETS
from lexbench.types import Document, Judgement, Query

pytestmark = pytest.mark.usefixtures("store")
TEXTS = {
    "d1": ("Rye", "Rye dough is sticky"),
    "d2": ("Yeast", "Yeast makes the dough rise"),
    "d3": ("Crust", "Steam for the crust"),
}
QUERIES = {"q1": "why does my dough not rise", "q2": "how to get a shiny crust"}
QRELS = {"q1": {"d2": 2, "d1": 1}, "q2": {"d3": 1}}
DOCUMENTS = [Document(doc_id, f"{title} {text}", len(title) + 1) for doc_id, (title, text) in TEXTS.items()]
JUDGEMENTS = [Judgement(query, doc, grade) for query, judged in QRELS.items() for doc, grade in judged.items()]

DOC_ROWS = [(doc_id, title, text) for doc_id, (title, text) in TEXTS.items()]
QREL_ROWS = [(query, doc, str(grade)) for query, doc, grade in JUDGEMENTS]


def separated(rows, mark, header=()):
    """Return rows as lines of a table."""
    return "".join(f"{mark.join(row)}\n" for row in ([header] if header else []) + list(rows))


def rows_of(names, rows):
    """Return rows as mappings."""
    return [dict(zip(names, row, strict=True)) for row in rows]


TREC_DOCS = "".join(
    f"<DOC>\n<DOCNO> {doc_id} </DOCNO>\n<HEADLINE>\n{title}\n</HEADLINE>\n<TEXT>\n<P>{text}</P>\n</TEXT>\n</DOC>\n"
    for doc_id, (title, text) in TEXTS.items()
)
TOPICS = "".join(
    f"<top>\n<num> Number: {key}\n<title> {text}\n<desc> Description:\nmore\n</top>\n" for key, text in QUERIES.items()
)
CORPUS, ASKED = rows_of(("_id", "title", "text"), DOC_ROWS), rows_of(("_id", "text"), QUERIES.items())
JUDGED = rows_of(("query-id", "corpus-id", "score"), JUDGEMENTS)
BEIR = {
    "corpus.jsonl": lines(CORPUS),
    "queries.jsonl": lines(ASKED),
    "qrels/test.tsv": separated(QREL_ROWS, "\t", ("query-id", "corpus-id", "score")),
}
LAYOUTS = {
    "beir": BEIR,
    "csv": {
        "corpus.csv": separated(DOC_ROWS, ",", ("ID", "Title", "Text")),
        "queries.csv": separated(QUERIES.items(), ";", ("qid", "query")),
        "qrels.csv": separated([(doc, query, grade) for query, doc, grade in QREL_ROWS], ",", ("docid", "qid", "label")),
    },
    "tsv": {
        "docs.tsv": separated(DOC_ROWS, "\t", ("docno", "title", "contents")),
        "queries.tsv": separated(QUERIES.items(), "\t", ("id", "text")),
        "qrels.tsv": separated([(doc, grade, query) for query, doc, grade in QREL_ROWS], "\t", ("docno", "rel", "qid")),
    },
    "no header": {
        "corpus.csv": separated(DOC_ROWS, ","),
        "queries.csv": separated(QUERIES.items(), ","),
        "qrels.csv": separated(QREL_ROWS, ","),
    },
    "ms marco": {
        "collection.tsv": separated(DOC_ROWS, "\t"),
        "queries.test.tsv": separated(QUERIES.items(), "\t"),
        "qrels.test.tsv": separated([(query, "0", doc, grade) for query, doc, grade in QREL_ROWS], "\t"),
    },
    "compressed, and an unknown ending": {
        "corpus.csv.gz": separated(DOC_ROWS, ",", ("ID", "Title", "Text")),
        "corpus.md": "notes",
        "queries.jsonl": BEIR["queries.jsonl"],
        "qrels/test.tsv": BEIR["qrels/test.tsv"],
    },
    "trec": {
        "docs/a.trec": TREC_DOCS,
        "topics.txt": TOPICS,
        "qrels.txt": separated([(q, "0", d, g) for q, d, g in QREL_ROWS], " "),
    },
}


def contents(source):
    """Return documents, queries and judgements of a source, sorted."""
    return sorted(source.documents()), sorted(source.queries()), sorted(source.judgements())


EXPECTED = sorted(DOCUMENTS), [Query(*pair) for pair in QUERIES.items()], sorted(JUDGEMENTS)


# ---- layouts ---------------------------------------------------------------------------------------------------------------


SUMMARIES = {
    "csv": "documents corpus.csv (id, title, text), queries queries.csv (qid, query), judgements qrels.csv; split test",
    "ms marco": "documents collection.tsv (id, title, text, no header)",
    "trec": "documents a.trec, queries topics.txt, judgements qrels.txt; split test",
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_data(layout, tmp_path):
    """Documents, queries and judgements are the same in every layout, in any order of columns; no header is a document.

    The summary names files, columns and split, and says where there is no header.
    """
    contract, source = find_dataset(str(write(tmp_path / "mine", LAYOUTS[layout])))

    assert contents(source) == EXPECTED
    assert source.summary().startswith(SUMMARIES.get(layout, "documents "))
    assert (contract.id, contract.version) == ("mine", 0)


def test_text_files_are_documents(tmp_path):
    """A folder `docs` of text files has a document per file, whose id is its path there; other files are counted."""
    asked = {"queries.tsv": "q1\thow to get a crust\n", "qrels.txt": "q1 0 oven/b.html 1\n"}
    texts = {
        "docs/a.md": "# Rye\n\nIt is sticky.",
        "docs/oven/b.html": "<h1>Crust</h1><p>Steam.",
        "docs/c d.txt": "Two\nlines",
    }
    folder = write(tmp_path / "mine", texts | asked | {"docs/e.png": "?", "docs/.hidden.md": "no"})
    _, source = find_dataset(str(folder))
    assert [(one.doc_id, one.text) for one in source.documents()] == [
        ("a.md", "Rye It is sticky."), ("c_d.txt", "c d Two\nlines"), ("oven/b.html", "Crust Steam."),
    ]  # fmt: skip
    assert source.summary().startswith("documents docs (3 text files; not read: 1 other), queries queries.tsv")

    (folder / "docs" / "oven" / "b.html").write_bytes("Kümmel".encode("latin-1"))
    with pytest.raises(LexbenchError, match=r"b\.html, line 1: not UTF-8 .*iconv"):
        list(source.documents())

    before = source.identity()
    (folder / "docs" / "a.md").rename(folder / "docs" / "b.md")
    assert find_dataset(str(folder))[1].identity() != before
    for table in ("d1\ttext of a table\n", "<DOC>\n<DOCNO> d1 </DOCNO>\n<TEXT>text of a table</TEXT>\n</DOC>\n"):
        folder = write(tmp_path / "tables" / str(len(table)), asked | {"docs/a.txt": table, "docs/README.md": "notes"})
        assert [(one.doc_id, one.text) for one in find_dataset(str(folder))[1].documents()] == [("d1", "text of a table")]


NUMBERED = ("corpus-00000-of-00002", "corpus-00001-of-00002")


@pytest.mark.parametrize("ending", ["jsonl", pytest.param("parquet", marks=needs_pyarrow)])
@pytest.mark.parametrize(
    "names",
    [
        (*(f"corpus/{name}" for name in NUMBERED), "queries/queries-00000-of-00001", "data/test-00000-of-00001"),
        ("corpus/train-0", "corpus/train-1", "queries/train", "qrels/train"),
        (*NUMBERED, "queries", "qrels"),
    ],
    ids=["mteb", "nano", "side by side"],
)
def test_the_hub_s_layouts_are_datasets(names, ending, tmp_path):
    """Files in the layouts of the hub are read in the order of their shards; grades may be whole floats."""
    judged = rows_of(("query_id", "doc_id", "relevance"), ((query, doc, float(grade)) for query, doc, grade in JUDGEMENTS))
    for name, rows in zip(names, (CORPUS[:1], CORPUS[1:], ASKED, judged), strict=True):
        write_rows(tmp_path / "mine" / f"{name}.{ending}", rows)
    contract, source = find_folder(tmp_path / "mine")

    assert list(source.documents()) == DOCUMENTS
    assert contents(source) == EXPECTED
    assert contract.id == "mine"


@needs_pyarrow
def test_what_save_to_disk_writes_is_a_dataset(tmp_path):
    """Datasets that Hugging Face's `save_to_disk` wrote, and dictionaries of them by split; and files of Feather."""
    import pyarrow as pa
    from pyarrow import feather, ipc

    def put(name, rows, facts):
        (path := tmp_path / "mine" / f"{name}.arrow").parent.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist(rows)
        with pa.OSFile(str(path), "wb") as file, ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
        path.with_name("state.json").write_text("{}")
        path.parents[facts].joinpath("dataset_dict.json").write_text("{}")

    put("corpus/data-00000-of-00002", CORPUS[:1], 0)
    put("corpus/data-00001-of-00002", CORPUS[1:], 0)
    put("queries/queries/data-00000-of-00001", ASKED, 1)
    put("qrels/dev/data-00000-of-00001", JUDGED[:1], 1)
    put("qrels/test/data-00000-of-00001", [{**row, "score": int(row["score"])} for row in JUDGED], 1)
    contract, source = find_folder(tmp_path / "mine")
    assert list(source.documents()) == DOCUMENTS
    assert contents(source) == EXPECTED
    assert contract.id == "mine/test"
    assert find_folder(Path(source.place("judgements")))[0] == contract  # as results remember it

    write(tmp_path / "feather", BEIR | {"corpus.jsonl": None})
    feather.write_feather(pa.Table.from_pylist(CORPUS), str(tmp_path / "feather" / "corpus.feather"))
    assert contents(find_folder(tmp_path / "feather").source) == EXPECTED
    (tmp_path / "feather" / "corpus.feather").rename(tmp_path / "feather" / "corpus.xlsx")
    with pytest.raises(MissingData, match=r"corpus\.xlsx has a format that is not read: save it as corpus\.csv"):
        find_folder(tmp_path / "feather")


WEB = """<DOC><DOCNO>d1</DOCNO><TEXT>red</TEXT></DOC><DOC><DOCNO>d2</DOCNO>
<TEXT>blue</TEXT></DOC> <DOC id="d3" type="story"><HEADLINE>Sky</HEADLINE> so blue</DOC>
<doc>
<docno> d4 </docno>
<DOCHDR>
http://example.org/ HTTP/1.1 200
</DOCHDR>
<html><head><title>Car</title><style>b { top: 0 }</style></head><!-- made
by hand --><body>red <b>car</b><script>var i;</script></body></html>
</doc>
"""


def test_documents_of_trec_may_share_lines(tmp_path):
    """Each <DOC> is a document, also several in a line. Headers, scripts, styles and comments of web pages are no text."""
    (tmp_path / "docs.trec").write_text(WEB)

    read = [(one.record_id, one.fields["title"], one.fields["text"]) for one in read_records(tmp_path / "docs.trec")]
    assert read == [("d1", "", "red"), ("d2", "", "blue"), ("d3", "Sky", "so blue"), ("d4", "Car", "red car")]
    (tmp_path / "docs.trec").write_text("<DOC><DOCNO>d1</DOCNO></DOC>\n\n<DOC><DOCNO>d2</DOCNO>")
    with pytest.raises(InvalidFile, match="line 3: <DOC> without </DOC>"):
        list(read_records(tmp_path / "docs.trec"))


def test_files_of_trec_documents_may_have_any_name(tmp_path):
    """Those of TREC's disks have no ending. Other files beside them are not read, and alone they are named."""
    for number, name in enumerate(("FT911_1", "ft911_2.gz", "LICENSE")):
        text = f"<DOC>\n<DOCNO>d{number}</DOCNO>\n<TEXT>red</TEXT>\n</DOC>\n" if name != "LICENSE" else "Free.\n"
        write(tmp_path, {f"docs/{name}": text})
    write(tmp_path, {"queries.tsv": "q1\tred\n", "qrels.txt": "q1 0 d0 1\n"})
    assert [one.doc_id for one in find_folder(tmp_path).source.documents()] == ["d0", "d1"]
    (tmp_path / "docs" / "FT911_1").unlink()
    (tmp_path / "docs" / "ft911_2.gz").unlink()
    with pytest.raises(MissingData, match=r"no documents in it; docs has files that are not read, e\.g\. LICENSE"):
        find_folder(tmp_path)


def test_fields_of_csv_may_have_commas_quotes_and_line_ends(tmp_path):
    """A quoted field of CSV keeps its commas, quotes and line ends; a TSV file with a header loses the quotes of pandas."""
    text = 'one, "two"\nthree'
    write(tmp_path / "a", BEIR | {"corpus.jsonl": None, "corpus.csv": 'id,text\r\nd1,"one, ""two""\nthree"\r\n'})
    tsv = 'id\ttext\nd1\t"say ""hi"" now"\nd2\t"one" two\n'
    write(tmp_path / "b", BEIR | {"corpus.jsonl": None, "corpus.tsv": tsv})

    assert [one.text for one in find_folder(tmp_path / "a").source.documents()] == [text]
    assert [one.text for one in find_folder(tmp_path / "b").source.documents()] == ['say "hi" now', '"one" two']


def test_the_split_is_shown_and_chosen(tmp_path, capsys):
    """--split chooses judgements and their queries; judgements for development alone are scored with a warning."""
    dev = {"qrels/dev.tsv": BEIR["qrels/test.tsv"].replace("q1\td2\t2\n", ""), "queries/dev.jsonl": BEIR["queries.jsonl"]}
    test = {"queries.jsonl": None, "queries/test.jsonl": lines([{"_id": key, "text": "test"} for key in QUERIES])}
    several = write(tmp_path / "several", BEIR | dev | test)
    only = write(tmp_path / "only", {name.replace("test", "dev"): content for name, content in BEIR.items()})

    assert [find_folder(several, split).contract.id for split in (None, "dev")] == ["several/test", "several/dev"]
    assert len(list(find_folder(several, "dev").source.judgements())) == 2
    assert list(find_folder(several, "dev").source.queries()) == EXPECTED[1]
    assert [query.text for query in find_folder(several).source.queries()] == ["test", "test"]
    assert find_folder(several, "dev").source.judgement_notes() == []
    printed = ended(capsys, 0, "run", "dataset", only, "-m", "nDCG@10")
    assert "only/dev: scored on dev: there are no judgements called test" in printed.err
    assert "scored on dev: there are no judgements called test" in printed.out


# ---- mistakes --------------------------------------------------------------------------------------------------------------

TSV, HEAD = "qrels/test.tsv", "query-id\tcorpus-id\tscore\n"
DEEP = '{"_id": "d9", "text": "x", "more": ' + "[" * 100_000 + "]" * 100_000 + "}\n"
MISTAKES = [  # exit code, what the corpus, the queries, the judgements or other files are instead, and a part of the message
    (2, {"corpus.jsonl": None, "corpus.tsv": "key\tinhalt\nd1\tx\nd2\ty\n"}, "line 1: is this a header?"),
    (2, {"corpus.jsonl": None, "corpus.tsv": "key\ttext\nd1\tx\n"}, "a header without a column of ids: key"),
    (2, {"corpus.jsonl": None, "corpus.csv": 'id,text\nd1,"x\n'}, "corpus.csv, line 2: not CSV"),
    (2, {"corpus.jsonl": None, "corpus.csv": "id,text\nd1,x,y\n"}, "corpus.csv, line 2: 3 columns, not 2"),
    (2, {"corpus.csv": "id,text\nd1,x\n"}, "are two tables of one kind for mine; keep one"),
    (1, {"corpus.jsonl": None, "docs.trec": "<DOC>\n<TEXT>x</TEXT>\n</DOC>\n"}, "a <DOC> without <DOCNO>"),
    (3, {"corpus.jsonl": None}, "make a test collection of texts: lexbench collect"),
    *([(2, {"corpus.jsonl": None, "corpus.parquet": b"PAR0"}, "it is no Parquet file")] if find_spec("pyarrow") else []),
    *(
        (ends, {"corpus.jsonl": content}, said)
        for ends, content, said in (
            (1, "", "corpus.jsonl: the corpus has no documents"),
            (2, '{"_id": "d1", "te', "corpus.jsonl, line 1: not JSON; is the file cut off?"),
            (2, DEEP, "line 1: it is nested too deep"),
            (2, "[]\n", "line 1: not a JSON object"),
            (1, '{"text": "x"}\n', "there is no '_id'; there is: text; expected: _id, text and"),
            (1, '{"_id": "d1", "heading": "x"}\n', "document 'd1' has no field 'text'; it has: _id, heading"),
            (1, '{"_id": "d", "text": 7}\n', "line 1: the text of 'd' is int; it must be a text"),
            (1, '{"_id": "d", "title": 1984, "text": "x"}\n', "line 1: the title of 'd' is int; it must be a text"),
            (1, '{"_id": "a", "text": "x"}\n\n{"_id": "a", "text": "y"}\n', "corpus.jsonl:1 and 3: two documents"),
            (1, '{"_id": "a", "text": "x"}\n{"_id": "b\\tc", "text": "y"}\n', "corpus.jsonl:2: document id 'b\\tc'"),
            (1, '{"_id": "a\\u0000b", "text": "x"}\n', "line 1: the id 'a\\x00b' has a NUL"),
            (1, '{"_id": "' + "d" * 100_000 + '", "text": "x"}\n', "line 1: an id of 100,000 characters"),
            (1, '{"_id": "\\ud800", "text": "x"}\n', "half of a surrogate pair"),
            (1, '{"_id": 7.5, "text": "x"}\n', "line 1: the _id 7.5 is not a string"),
            (1, '{"_id": true, "text": "x"}\n', "line 1: the _id True is not a string"),
        )
    ),
    (2, {"corpus.jsonl": '[\n{"_id": "d", "text": "x"}]\n'}, "if the file is one JSON value, call it corpus.json"),
    (
        2,
        {"corpus.jsonl": None, "corpus.jsonl.zst": b"\x28\xb5\x2f\xfd"},
        "zst: it is packed and cannot be read; type: zstd -d",
    ),
    (2, {"queries.jsonl": '{"_id": "q1", "text": "caf\xe9"}\n'.encode("latin-1")}, "iconv -f LATIN1 -t UTF-8"),
    (1, {"queries.jsonl": '{"_id": "q1", "text": "x"}\n' * 2}, "queries.jsonl:1 and 2: two queries"),
    (1, {"queries.jsonl": '{"_id": "q1"}\n'}, "query 'q1' has no text"),
    (3, {"queries.jsonl": None}, "mine has corpus.jsonl and no queries; put queries.jsonl into"),
    (3, {TSV: None}, "or make some: lexbench collect"),
    (1, {TSV: HEAD}, "there are no judgements; a line is: query-id"),
    (1, {TSV: "q1\td1\tgood\n"}, "test.tsv:1: the grade 'good' is no number"),
    (
        1,
        {TSV: "topic\tdocno\tstars\nq1\td1\t1\n"},
        "test.tsv, line 1: there is no column 'score'; there is",
    ),
    (1, {TSV: "x1 0 d1 1\n"}, "1 of 1 judged queries are not among the queries, e.g. 'x1'; queries"),
    (1, {TSV: "q1 0 MED-1 1\n"}, "none of the 1 judged documents is in the corpus"),
    (1, {TSV: f"{HEAD}q 1\td1\t1\n"}, "e.g. 'q 1'; queries have ids like 'q1'"),
    (1, {TSV: f"{HEAD}q1\td1\n"}, "test.tsv:2: 2 columns, not 3"),
    (1, {TSV: f"{HEAD}q1\td2\t1\nq1\td2\t2\n"}, "test.tsv:2 and 3: document 'd2' of query 'q1' has two grades, 1 and 2"),
    (1, {TSV: f"{HEAD}q1\td2\t3000000000\n"}, "beyond 2147483647"),
    (1, {TSV: None, "qrels/test.csv": "query-id,corpus-id,score\nq1,d1,high\n"}, "line 2: the grade 'high' is no number"),
    (1, {TSV: None, "qrels/test.jsonl": '{"query-id": "q1", "score": 1}\n'}, "line 1: there is no column 'corpus-id'"),
]


@pytest.mark.parametrize(("ends", "changed", "message"), MISTAKES, ids=[message for *_, message in MISTAKES])
def test_a_mistake_in_data_is_one_line_and_no_score(ends, changed, message, tmp_path, capsys):
    """Faulty data give one line with the file and the place, no table, the right exit code, and no advice to try again."""
    mine = write(tmp_path / "mine", BEIR | changed)
    exit_code, out, err = run(capsys, "run", mine, "-m", "nDCG@10", "--results", tmp_path / "board")

    assert (exit_code, out) == (ends, "")
    assert message in err
    assert sum(line.startswith(("failed", "lexbench")) for line in err.splitlines()) == 1
    assert "again:" not in err
    assert "results of" not in err
    assert "Traceback" not in err


# ---- on the hub ------------------------------------------------------------------------------------------------------------


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Return a function that puts a repository of files into the hub's cache; only the cache is read."""
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed; pip install 'lexbench[neural]'")
    from huggingface_hub import constants

    from lexbench.datasets.sources import hf

    monkeypatch.setenv("LEXBENCH_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    hf.snapshot.cache_clear()

    def put(repository, files):
        top = tmp_path / f"datasets--{repository.replace('/', '--')}"
        write(top, {"refs/main": COMMIT} | {f"snapshots/{COMMIT}/{name}": lines(rows) for name, rows in files.items()})

    return put


def test_a_dataset_of_the_hub_has_a_note_with_its_commit(hub):
    """hf:ORG/NAME is read from the hub's cache; results have the commit. Judgements may be in ORG/NAME-qrels, as BeIR's are."""
    hub("org/name", {"corpus/test.jsonl": CORPUS, "queries/test.jsonl": ASKED, "qrels/test.jsonl": JUDGED})
    contract, source = find_dataset("hf:org/name")
    assert contents(source) == EXPECTED
    assert contract.id == "hf:org/name"
    assert source.notes() == [f"hf:org/name at commit {COMMIT}, under no contract: another commit may be other data"]
    hub("BeIR/tiny", {"corpus/corpus.jsonl": CORPUS, "queries/queries.jsonl": ASKED})
    hub("BeIR/tiny-qrels", {"test.jsonl": JUDGED, "train.jsonl": JUDGED[:1]})
    assert contents(find_dataset("hf:BeIR/tiny")[1]) == EXPECTED
    assert len(contents(find_dataset("hf:BeIR/tiny", "train")[1])[2]) == 1


# ---- the whole path --------------------------------------------------------------------------------------------------------


def test_a_folder_goes_the_whole_way(tmp_path, capsys):
    """A folder has results, a page, a table for a paper, and comparisons, like a suite. Its path works like an id."""
    mine, board = write(tmp_path / "mine", LAYOUTS["csv"]), tmp_path / "board"
    err = ended(capsys, 0, "run", mine, "-r", "bm25", "-r", "other = bm25(b=0.1)", "--results", board).err
    page = f"to build the page, type: lexbench leaderboard --results {board}"
    assert err.endswith(f"results of 2 systems are in {board}; {page}\n")
    assert (board / "results" / DATASETS).is_dir()
    assert run(capsys, "leaderboard", "--results", board)[0] == 0
    assert run(capsys, "leaderboard", "--results", board, "--check")[0] == 0
    latex = run(capsys, "leaderboard", "--results", board, "--copy", "latex")[1]
    assert "\\toprule" in latex
    assert "other" in latex
    assert "lexbench run dataset mine" in (board / "reproduce.sh").read_text()
    assert "Names: `other = bm25(b=0.1)`" in (board / "README.md").read_text()  # though it shares a row with its equal bm25
    for place in ([], ["--results", board], ["-d", "mine"], ["-d", mine]):
        assert "mine, nDCG@10, 2 queries" in ended(capsys, 0, "compare", "bm25", "other", *place).out
    for place in ("mine", mine):
        assert run(capsys, "export", "trec", tmp_path / "runs", "-d", place)[0] == 0
        assert run(capsys, "leaderboard", "--results", board, "--copy", "csv", "-d", place)[0] == 0
    assert run(capsys, "exposure", "-r", "bm25", "-d", mine)[0] == 0


def test_a_paper_s_scores_of_a_folder_are_rows(tmp_path, capsys, monkeypatch):
    """Scores that a user's model file states, from a source that lexbench does not know, are rows marked as published."""
    mine, board = write(tmp_path / "mine", LAYOUTS["csv"]), tmp_path / "board"
    assert run(capsys, "run", mine, "-r", "bm25", "--results", board)[0] == 0
    score = '{ dataset = "mine", measure = "nDCG@10", value = 0.512, source = "Meier 2025", where = "Table 3" }'
    head = 'schema = 1\nname = "dpr"\nsummary = "DPR"\nfamily = "dense"\nweights = "none"\nwhy = "unreleased"\n'
    papers = write(tmp_path / "papers", {"dpr.toml": f'{head}source = "p"\npaper = "p"\npublished = [{score}]\n'})
    monkeypatch.setenv("LEXBENCH_MODELS", str(papers))
    _, out, err = run(capsys, "leaderboard", "--results", board, "--copy", "latex", "--published", "all")
    assert "dpr (Meier 2025)$^{\\dagger}$ & 0.5120" in out, err


def test_folders_of_one_name_are_told_apart(tmp_path, capsys):
    """Results on two folders of one name have their paths in the list, and the path chooses one of them."""
    one = write(tmp_path / "one" / "mine", BEIR)
    two = write(tmp_path / "two" / "mine", BEIR | {"qrels/test.tsv": BEIR["qrels/test.tsv"].replace("q1\td1\t1", "q1\td3\t1")})
    for folder in (one, two):
        assert run(capsys, "run", folder, "-r", "bm25", "-m", "nDCG@10", "--results", tmp_path / "board")[0] == 0
    assert run(capsys, "run", one, "-r", "other = bm25(b=0.1)", "-m", "nDCG@10")[0] == 0

    assert {row["dataset"] for row in answer(capsys, "list", "results", "--json")} == {f"mine ({one})", f"mine ({two})"}
    assert run(capsys, "compare", "bm25", "other", "-d", one)[0] == 0
    refused = ended(capsys, 3, "compare", "bm25", "other", "-d", two).err
    assert f"other has results on other data called mine, none on {two}" in refused


@pytest.fixture
def _no_added_suites(monkeypatch):
    """Forget the suite files of a test."""
    with monkeypatch.context() as patch:
        patch.setattr(contracts, "_added", [])
        yield
    contracts.all_contracts.cache_clear()


@pytest.mark.usefixtures("_no_added_suites")
def test_a_suite_file_names_folders_and_contracts_beside_it(tmp_path, capsys, monkeypatch):
    """Datasets of a suite file are folders relative to it, or have contracts beside it and data in a folder of their name."""
    contract = (
        'schema = 1\nid = "strict"\nversion = 1\nname = ""\ndescription = ""\ncorpus = "strict"\n'
        '[source]\nloader = "files"\n[relevance]\ndefault = 2\n'
    )
    suite = (
        'schema = 1\nid = "own"\nversion = 1\nname = ""\ndescription = ""\ndatasets = ["../mine", "strict"]\n'
        'measures = ["R@1", "nDCG@10"]\nheadline = "nDCG@10"\nretrievers = ["bm25"]\n'
    )
    write(tmp_path, {"suites/own.toml": suite, "suites/datasets/strict.toml": contract})
    write(tmp_path / "mine", LAYOUTS["csv"])
    write(tmp_path / "suites" / "strict", LAYOUTS["trec"])
    monkeypatch.chdir(write(tmp_path / "here", {"strict/corpus.jsonl": "a folder here is no dataset of the suite"}))
    found = answer(capsys, "run", tmp_path / "suites/own.toml", "--results", tmp_path / "board", "--json")["results"]

    measured = {result["dataset"]: list(result["means"]) for result in found}
    assert measured == {"mine": ["nDCG@10", "R@1"], "strict": ["nDCG@10", "R(rel=2)@1"]}
    assert run(capsys, "leaderboard", "--results", tmp_path / "board")[0] == 0
    assert "lexbench run suite ./own.toml -d" in (tmp_path / "board" / "reproduce.sh").read_text()
    write(tmp_path / "suites" / "mine", LAYOUTS["csv"])
    (tmp_path / "suites/two.toml").write_text(suite.replace('"strict"', '"mine"'))
    assert "two datasets are called 'mine'; rename one" in run(capsys, "run", tmp_path / "suites/two.toml")[2]
    missing = suite.replace("../mine", "nowhere")
    assert "no dataset 'nowhere', and no folder" in run(capsys, "run", write(tmp_path, {"x.toml": missing}) / "x.toml")[2]


@pytest.mark.parametrize(
    ("name", "said"),
    [("pydoc/test", "pydoc/test is a dataset\n"), ("pydoc", "pydoc is a suite; for the folder, type: lexbench run ./pydoc\n")],
)
def test_run_shows_what_a_name_is(name, said, tmp_path, monkeypatch, capsys):
    """`lexbench run NAME` says whether it is a suite or a dataset, and what else it could be."""
    monkeypatch.chdir(write(tmp_path, {"pydoc/corpus.jsonl": ""}))
    assert said in run(capsys, "run", name, "--dry-run", "-r", "bm25")[2]


# ---- in Python -------------------------------------------------------------------------------------------------------------


Doc = namedtuple("Doc", "doc_id title text")  # noqa: PYI024 - as in ir_datasets
Qrel = namedtuple("Qrel", "query_id doc_id relevance")  # noqa: PYI024


def as_dicts(_folder=None):
    """Return BEIR's three mappings."""
    corpus = {doc_id: {"title": title, "text": text} for doc_id, (title, text) in TEXTS.items()}
    return {"name": "mine", "corpus": corpus, "queries": QUERIES, "qrels": QRELS}


def as_texts(_folder):
    """Return the mappings with documents as plain texts."""
    return as_dicts() | {"corpus": {key: f"{title} {text}" for key, (title, text) in TEXTS.items()}}


def as_frames(_folder):
    """Return three data frames, one with numbers of NumPy."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed; pip install 'lexbench[pandas]'")
    corpus = pd.DataFrame(DOC_ROWS, columns=["doc_id", "title", "text"])
    qrels = pd.DataFrame(JUDGEMENTS, columns=["qid", "docno", "label"])
    return {"corpus": corpus, "queries": pd.DataFrame(QUERIES.items(), columns=["qid", "query"]), "qrels": qrels}


def as_rows(_folder):
    """Return rows without names, the judgements as an array."""
    return DOC_ROWS, list(QUERIES.items()), np.array(JUDGEMENTS)


def as_series(folder):
    """Return the queries as a Series of pandas with ids as labels, and the documents as they come from an iterator."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed; pip install 'lexbench[pandas]'")
    return as_dicts() | {"corpus": iter(DOC_ROWS), "queries": pd.Series(QUERIES)}


def as_paths(folder):
    """Return the paths of three files."""
    return str(folder / "corpus.jsonl"), folder / "queries.jsonl", folder / "qrels" / "test.tsv"


def as_object(_folder):
    """Return an object with the iterators of ir_datasets."""
    return SimpleNamespace(
        docs_iter=lambda: (Doc(*row) for row in DOC_ROWS),
        queries_iter=lambda: (Query(*pair) for pair in QUERIES.items()),
        qrels_iter=lambda: (Qrel(*row) for row in JUDGEMENTS),
    )


def as_beir(folder):
    """Return what beir's loader returns for a folder."""
    pytest.importorskip("beir", reason="beir is not installed; pip install 'lexbench[beir]'")
    from beir.datasets.data_loader import GenericDataLoader

    return GenericDataLoader(str(folder)).load("test")


@pytest.mark.parametrize("form", [as_dicts, as_texts, as_frames, as_rows, as_series, as_paths, as_object, as_beir, str])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # beir leaves files open
def test_python_and_shell_give_the_same_numbers(form, tmp_path, capsys):
    """Data in memory have the values per query and the digests that the command line has for the same data in files."""
    folder = write(tmp_path / "mine", BEIR)
    measures = ["nDCG@10", "AP@1000"]
    (shell,) = answer(capsys, "run", folder, "-m", "nDCG@10", "-m", "AP@1000", "--json")["results"]
    results = lexbench.run(form(folder), "bm25", measures=measures)
    (found,) = results

    assert (found.per_query, found.digests) == (shell["per_query"], shell["digests"])
    assert results.failures == []
    assert "bm25" in str(results)


def test_a_system_that_ranks_perfectly_has_a_note_and_a_result():
    """Easy data are no fault: notes say what is too good, and the result stands."""
    numbers = {str(number): f"w{number}" for number in range(20)}
    (result,) = results = lexbench.run((numbers, numbers, {name: [name] for name in numbers}), "bm25", measures=["nDCG@10"])
    assert results.failures == []
    assert [note.text for note in result.notes if note.kind == "too good"] == [
        "nDCG@10 is 1 for 20 of 20 queries that have a relevant document",
        "all 20 documents in its lists are judged for their query",
    ]


def test_data_in_memory_are_kept_by_their_content(tmp_path):
    """Equal data have one name and one stored run; other data have another name."""
    store, data = tmp_path / "store", as_dicts()
    del data["name"]
    first = [result.dataset for _ in range(2) for result in lexbench.run(data, ["bm25"], store=store)]
    other = [result.dataset for result in lexbench.run(data | {"queries": QUERIES | {"q1": "rye"}}, ["bm25"], store=store)]

    assert first[0] == first[1] != other[0]
    assert len(list((store / "runs").iterdir())) == 2
    assert len(list((store / "corpora").iterdir())) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (7, "int is no dataset; give the name of a suite"),
        ({"corpus": {}, "queries": {}}, "the data has no 'qrels'"),
        (as_dicts() | {"top_ranked": {}}, "the data has 'top_ranked', which nothing reads; there is: corpus, queries, qrels"),
        (as_dicts() | {"corpus": [{"text": "x"}]}, "corpus: there is no '_id'; there is: text"),
        (as_dicts() | {"queries": {"q1": {"words": "x"}}}, "query 'q1' has no text; it has: _id, words"),
        (as_dicts() | {"qrels": {"q1": {"d1": "good"}}}, "qrels: the grade 'good' is no number"),
        (as_dicts() | {"qrels": {"q1": {"d9": 1}}}, "none of the 1 judged documents is in the corpus"),
        (as_dicts() | {"corpus": ["x"]}, "corpus: 'x' has no id; give {id: text}, or dict(enumerate(texts)) for ids from 0"),
        (as_dicts() | {"corpus": [7]}, "corpus: a row is int; it must be a mapping like {'_id': 'd1', 'text': '…'}"),
        (as_dicts() | {"corpus": [("d1",)]}, "corpus: a row is ('d1',); it must be (id, text) or (id, title, text)"),
        (as_dicts() | {"queries": "none.jsonl"}, "queries: no file none.jsonl"),
        ("nowhere", "no suite, dataset or folder 'nowhere'"),
    ],
)
def test_a_mistake_in_memory_is_one_line(data, message):
    """Faulty data in memory are refused in one line, or fail the job with it."""
    try:
        (line,) = lexbench.run(data, ["bm25"], measures=["nDCG@10"]).failures
        line = str(line)
    except LexbenchError as error:
        line = str(error)

    assert message in line
    assert "\n" not in line


@pytest.mark.parametrize("none", [[], {}])
def test_an_empty_list_of_systems_is_refused(none):
    """It asks for no system, so the default is not run in its place."""
    with pytest.raises(CommandError, match="the list of systems is empty"):
        lexbench.run("pydoc/test", none)


def test_a_dataset_takes_no_datasets():
    """`datasets` chooses datasets of a suite."""
    with pytest.raises(CommandError, match="chooses datasets of a suite"):
        lexbench.run("pydoc/test", ["bm25"], datasets=["pydoc/test"])


def test_a_model_s_folder_is_a_name_everywhere(tmp_path, capsys, monkeypatch):
    """The path of a model, with letters of any language, names the system in score, compare, export and exposure."""
    pytest.importorskip("torch", reason="models are in the extra neural")
    import checkpoints

    monkeypatch.chdir(tmp_path)
    mine = write(tmp_path / "mine", LAYOUTS["csv"])
    folder = checkpoints.masked_lm(Path("Modell (größer)"), form="sparse_encoder", max_position_embeddings=512)
    model = f"./{checkpoints.sparsified(folder)}"
    assert run(capsys, "run", mine, "-r", model, "-r", "bm25")[0] == 0
    score = answer(capsys, "score", model, "-d", mine, "--json")
    compared = answer(capsys, "compare", "bm25", model, "--json")

    assert compared["systems"][1] == f'sparse_mlm(model="{model[2:]}")@impact'
    assert score["means"]["nDCG@10"] == compared["datasets"][0]["scores"][1]["mean"]
    assert run(capsys, "export", "trec", "runs", "-r", model)[0] == 0
    assert run(capsys, "exposure", "-r", model, "-d", mine)[0] == 0
