"""Tables of documents and queries: the shape of their lines, JSON, splits, and columns that the user states."""

import json
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import answer, ended, lines, write_files, write_rows
from workbench import needs_pyarrow

import lexbench
from lexbench.datasets.location import find_again, find_dataset, find_folder
from lexbench.datasets.records import columns, read_queries, read_records
from lexbench.datasets.stated_columns import parse_columns
from lexbench.errors import CommandError, InvalidFile, LexbenchError, MissingData
from lexbench.runner.given import given_qrels
from lexbench.storage.store import Store
from lexbench.trec.qrels import read_judgements

pytestmark = pytest.mark.usefixtures("store")
QUERIES = "q1\tred\nq2\tblue\n"
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n"
BESIDE = {"queries.tsv": QUERIES, "qrels.tsv": QRELS}

# ---- the shape of lines ----------------------------------------------------------------------------------------------------

SHAPES = [  # file, content, the number of the line that is refused
    ("corpus.tsv", "d1\tred\tfox\tjumps over\nd2\tred car\n", 2),  # four columns, then two
    ("corpus.tsv", "d2\tred car\nd1\tred\tfox\tjumps over\n", 2),
    ("corpus.tsv", "d1\tRed\ta red fox\nd2\tblue\n", 2),
    ("corpus.tsv", "d1\tred\nd2\tblue\td\n\nd3\tx\n", 2),
    ("corpus.csv", "d1,red fox\nd2,red, blue\n", 2),
    ("corpus.csv", "d1,red, fox\nd2,blue\n", 2),
    ("corpus.csv", "id,text\nd1,red\nd2,red, blue\n", 3),
    ("corpus.csv", 'd1,"red\nfox"\nd2,red, blue\n', 3),
    ("corpus.tsv.gz", "d1\tred\nd2\tred\tfox\n", 2),
    ("queries.tsv", "q1\tred\nq2\tred\tfox\n", 2),
    ("queries.tsv", "q1\tred\tfox\nq2\tred\n", 2),
    ("queries.csv", "q1,red\nq2,why, then\n", 2),
]


@pytest.mark.parametrize(("name", "content", "number"), SHAPES)
def test_the_first_line_decides_how_many_columns_there_are(name, content, number, tmp_path):
    """A tab or comma in a text does not shift the columns of its line: the line is refused by its number."""
    write_files(tmp_path, {name: content})
    read = read_queries if name.startswith("queries") else read_records
    with pytest.raises(InvalidFile, match=rf"line {number}: \d columns?, not \d as in line 1|more columns than id and text"):
        list(read(tmp_path / name))


def test_queries_without_a_header_have_two_columns(tmp_path):
    """Also below a blank line, a third column is refused instead of dropped."""
    write_files(tmp_path, {"queries.tsv": "\nq1\tred\tfox\nq2\tblue\tsky\n"})
    with pytest.raises(InvalidFile, match="query 'q1' has more columns than id and text"):
        list(read_queries(tmp_path / "queries.tsv"))


TEXT = st.text("ab ,;\"'#\té", max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=5))
def test_no_text_loses_words(tmp_path, texts):
    """Whatever the texts are, lines of id, tab and text give these texts, or an error; never a part of them."""
    body = "".join(f"d{at}\t{text}\n" for at, text in enumerate(texts))
    write_files(tmp_path, {"corpus.tsv": body})
    try:
        found = [record.fields for record in read_records(tmp_path / "corpus.tsv")]
        kept = [[text for name, text in fields.items() if name not in ("id", "text" * ("body" in fields))] for fields in found]
    except InvalidFile:
        assert any("\t" in text for text in texts)
        return
    assert ["\t".join(fields) for fields in kept] == texts


def test_excel_states_what_separates(tmp_path):
    """A first line `sep=;` is obeyed, also where commas are more frequent; it is no document and no header."""
    write_files(
        tmp_path,
        {"a.csv": "sep=;\nid;text\nd1;a, b, c, d\n", "b.csv": '"sep=|"\nd1|a, b\nd2|c, d\n', "c.csv": "d1;a, b\nd2;c\n"},
    )

    assert [record.fields["text"] for record in read_records(tmp_path / "a.csv")] == ["a, b, c, d"]
    assert [record.fields["text"] for record in read_records(tmp_path / "b.csv")] == ["a, b", "c, d"]
    assert [record.fields["text"] for record in read_records(tmp_path / "c.csv")] == ["a, b", "c"]


def test_a_header_of_unknown_names_is_no_document(tmp_path):
    """A first line of single words above texts of several words is refused, because it could be a header."""
    rows = "".join(f"pkg,sum,the text of it {at}\n" for at in range(6))
    write_files(tmp_path, {"a.csv": f"package,summary,description\n{rows}"})
    with pytest.raises(InvalidFile, match="line 1: is this a header"):
        list(read_records(tmp_path / "a.csv"))


# ---- JSON and splits -------------------------------------------------------------------------------------------------------

CORPUS = {"d1": {"title": "Fox", "text": "red fox"}, "d2": "blue sky", "d3": {"title": "only a title"}}
ASKED = {"q1": "red", "q2": "blue"}
JUDGED = {"q1": {"d1": 2}, "q2": {"d2": 1}}
ROWS = [
    {"_id": "d1", "title": "Fox", "text": "red fox"},
    {"_id": "d2", "text": "blue sky"},
    {"_id": "d3", "title": "only a title"},
]
ASKED_ROWS = [{"qid": key, "query": text} for key, text in ASKED.items()]
JSON = {
    "by id": {"corpus.json": CORPUS, "queries.json": ASKED, "qrels.json": JUDGED},
    "rows": {
        "corpus.json": ROWS,
        "queries.json": [{"qid": key, "query": text} for key, text in ASKED.items()],
        "qrels.json": JUDGED,
    },
    "by split": {"corpus.json": {"test": CORPUS}, "queries.json": {"test": ASKED}, "qrels.json": {"test": JUDGED}},
    "files of splits": {
        "corpus.json": CORPUS,
        "queries.json": ASKED,
        "qrels/test.json": JUDGED,
        "qrels/dev.json": {"q1": ["d2"]},
    },
    "several splits": {
        "corpus.json": {"train": CORPUS, "test": CORPUS},
        "queries.json": {"test": ASKED, "dev": {"q9": "x"}},
        "qrels.json": {"dev": {"q9": ["d2"]}, "test": JUDGED},
    },
}


@pytest.mark.parametrize("layout", JSON)
def test_json_files_are_datasets(layout, tmp_path):
    """corpus.json, queries.json and qrels.json are read, as records by id, as rows and by split."""
    write_files(tmp_path / "mine", {name: json.dumps(content) for name, content in JSON[layout].items()})
    source = find_folder(tmp_path / "mine").source

    assert {one.doc_id: (one.title, one.body) for one in source.documents()} == {
        "d1": ("Fox", "red fox"), "d2": ("", "blue sky"), "d3": ("only a title", ""),
    }  # fmt: skip
    assert {one.query_id: one.text for one in source.queries()} == ASKED
    assert sorted(source.judgements()) == [("q1", "d1", 2), ("q2", "d2", 1)]


@pytest.mark.parametrize(
    "wrong", [{"q1": {"words": "x"}}, {"q1": ["a", "b"]}, {"q1": 7}, {"dev": {"q1": "x"}, "train": {"q1": "x"}}]
)
def test_json_that_could_be_several_things_is_refused(wrong, tmp_path):
    """A mapping without texts, or without the split, is an error and no query."""
    write_files(tmp_path, {"queries.json": json.dumps(wrong)})
    with pytest.raises(InvalidFile, match=r"queries\.json"):
        list(read_queries(tmp_path / "queries.json"))


def test_null_is_an_empty_text(tmp_path):
    """Null in a JSON file is an empty text, also beside half of a surrogate pair."""
    files = {"a.json": '{"d1": null, "d2": {"text": null}}', "b.jsonl": '{"_id": "d", "text": "\\ud800", "title": null}'}
    write_files(tmp_path, files)
    texts = [record.fields["text"] for name in files for record in read_records(tmp_path / name)]
    assert texts == ["", "", "\ufffd"]


def frame(rows):
    """Return rows as a data frame of pandas."""
    return pytest.importorskip("pandas", reason="pandas is not installed; pip install 'lexbench[pandas]'").DataFrame(rows)


def series(values):
    """Return values as a Series of pandas."""
    return pytest.importorskip("pandas", reason="pandas is not installed; pip install 'lexbench[pandas]'").Series(values)


JUDGEMENT_ROWS = [{"query-id": "q1", "corpus-id": "d1", "score": 2}, {"query-id": "q2", "corpus-id": "d2", "score": 1}]
SETS = {"q1": {"d1"}, "q2": {"d2"}}
MEMORY = {
    "sets": (ASKED, SETS),
    "lists": (ASKED, {"q1": ["d1"], "q2": ["d2"]}),
    "single texts": (ASKED, {"q1": "d1", "q2": "d2"}),
    "tuples of pairs": (ASKED, {"q1": [("d1", 1)], "q2": (("d2", 1.0),)}),
    "by split": ({"test": ASKED}, {"test": SETS}),
    "several splits": ({"test": ASKED, "dev": {"q9": "x"}}, {"test": SETS, "dev": {"q9": {"d9"}}}),
    "frames by split": (lambda: {"test": frame(ASKED_ROWS)}, lambda: {"test": frame(JUDGEMENT_ROWS)}),
    "rows by split": (ASKED, {"test": JUDGEMENT_ROWS}),
    "a language": ({"en": ASKED}, {"en": SETS}),
    "arrays": (ASKED, {"q1": np.array(["d1"]), "q2": np.array(["d2"])}),
    "series": (ASKED, lambda: {"q1": series({"d1": 2, "d9": 0}).iloc[:1], "q2": series(["d2"])}),
    "sets of sets": (ASKED, {"q1": frozenset({"d1"}), "q2": {"d2": 1}.keys()}),
}


@pytest.mark.parametrize("form", MEMORY)
def test_relevant_docs_in_every_form(form):
    """`relevant_docs` of sentence-transformers as sets and lists, and data of mteb by split, are datasets in memory."""
    queries, qrels = (part() if callable(part) else part for part in MEMORY[form])
    source = find_dataset({"corpus": CORPUS, "queries": queries, "qrels": qrels})[1]

    assert {one.query_id: one.text for one in source.queries()} == ASKED
    assert sorted((row.query_id, row.doc_id) for row in source.judgements()) == [("q1", "d1"), ("q2", "d2")]
    assert len(list(source.documents())) == 3


def test_the_mapping_of_an_evaluator_is_a_dataset():
    """`relevant_docs`, the name in sentence-transformers and mteb, is another name for `qrels`."""
    (result,) = lexbench.run({"corpus": CORPUS, "queries": ASKED, "relevant_docs": SETS}, ["bm25"], measures=["RR@10"])
    assert result.means["RR@10"] == 1


@pytest.mark.parametrize("judged", [b"d1", None, 0.5, ["d1", 2], [["d1", "d2"]], (name for name in ["d1"]), [("d1", "2")]])
def test_unclear_judgements_in_memory_are_refused(judged):
    """Bytes, mixed types, pairs of texts and generators, which can be read only once, are one line."""
    with pytest.raises(InvalidFile, match="qrels: the documents of query 'q1' are"):
        list(find_dataset({"name": "mine", "corpus": CORPUS, "queries": ASKED, "qrels": {"q1": judged}})[1].judgements())


def test_a_split_in_memory_is_chosen():
    """A stated split is obeyed or refused with those that exist."""
    data = {"corpus": CORPUS, "queries": {"test": ASKED, "dev": {"q1": "x"}}, "qrels": {"test": SETS, "dev": {"q1": ["d2"]}}}
    assert list(find_dataset(data, "dev")[1].judgements()) == [("q1", "d2", 1)]
    with pytest.raises(LexbenchError, match="there is no split 'val'; there is: test, dev"):
        list(find_dataset(data, "val")[1].judgements())


def test_a_series_has_texts_by_id():
    """One of pandas with ids as its index is a mapping."""
    pandas = pytest.importorskip("pandas", reason="it is in the extra pandas")
    data = {"corpus": pandas.Series({"d1": "red", "d2": None}), "queries": pandas.Series({"q1": "x"}), "qrels": {"q1": ["d1"]}}
    source = find_dataset(data)[1]
    assert [tuple(one) for one in source.documents()] == [("d1", "red", 0), ("d2", "", 0)]
    assert [one.text for one in source.queries()] == ["x"]


def test_a_column_of_splits_in_memory_is_obeyed():
    """Rows of judgements with a split are no judgements of another one, of data and beside a run."""
    rows = [{"qid": "q1", "docno": "d1", "label": 1, "split": "dev"}, {"qid": "q1", "docno": "d2", "label": 1, "split": "test"}]
    data = {"corpus": CORPUS, "queries": {"q1": "x"}, "qrels": rows}
    assert [list(find_dataset(data, name)[1].judgements()) for name in ("dev", None)] == [[("q1", "d1", 1)], [("q1", "d2", 1)]]
    assert list(given_qrels(rows).judgements()) == [("q1", "d2", 1)]
    with pytest.raises(InvalidFile, match=r"^qrels: judgements: there is no split 'val'; there is: dev, test"):
        list(find_dataset(data, "val")[1].judgements())


SPLITS = [("q1", "d1", 1, "test"), ("q2", "d2", 1, "dev"), ("q2", "d1", 2, "dev")]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json"])
def test_a_column_of_splits_is_obeyed(ending, tmp_path):
    """Judgements of one split alone count, the one that is chosen or `test`, and the result remembers which."""
    rows = [dict(zip(("query-id", "corpus-id", "score", "split"), row, strict=True)) for row in SPLITS]
    mark = "\t" if ending == "tsv" else ","
    table = "\n".join(mark.join(map(str, row)) for row in [rows[0], *(row.values() for row in rows)])
    by_split = {"test": {"q1": {"d1": 1}}, "dev": {"q2": {"d2": 1, "d1": 2}}}
    content = {"jsonl": lines(rows), "json": json.dumps(by_split)}.get(ending, table)
    write_files(tmp_path, {"corpus.tsv": "d1\tred\nd2\tred blue\n", "queries.tsv": QUERIES, f"qrels.{ending}": content})

    (dev,) = lexbench.run(str(tmp_path), ["bm25"], measures=["RR@10"], split="dev")
    assert dev.query_ids == ["q2"]
    (test,) = lexbench.run(str(tmp_path), ["bm25"], measures=["RR@10"])
    assert test.query_ids == ["q1"]
    place = Store().place(dev.digests)
    assert [tuple(one) for one in find_again(dev.dataset, place)[1].judgements()] == [row[:3] for row in SPLITS[1:]]
    with pytest.raises(InvalidFile, match="there is no split 'train'; there is: test, dev"):
        list(read_judgements(tmp_path / f"qrels.{ending}", "train"))


@pytest.mark.parametrize(
    ("name", "content"), [("qrels.tsv", QRELS), ("qrels.csv", QRELS.replace("\t", ",")), ("qrels.json", '{"q1": {"d1": 1}}')]
)
def test_a_split_that_nothing_has_is_refused(name, content, tmp_path):
    """Judgements without splits are no judgements for development because somebody calls them so; queries may have a split."""
    write_files(tmp_path, {"corpus.tsv": "d1\tred\n", "queries.tsv": QUERIES, name: content})
    with pytest.raises(MissingData, match=rf"has one set of judgements, {name}, and no split 'dev'; leave out the split"):
        find_folder(tmp_path, "dev")
    assert find_folder(tmp_path, "test").contract.source.split == "test"
    (tmp_path / "queries.tsv").rename(tmp_path / "queries.dev.tsv")
    assert find_folder(tmp_path, "dev").contract.source.split == "dev"
    (tmp_path / "corpus.tsv").unlink()
    with pytest.raises(MissingData, match="and no split 'dev'"):
        find_folder(tmp_path / name, "dev")


def test_a_split_of_judgements_alone_is_chosen(tmp_path):
    """Without documents, the split of a file of judgements decides, too."""
    write_files(tmp_path, {"q.csv": "split,qid,docno,score\ntest,q1,d1,1\ndev,q1,d2,1\n", "A.run": "q1 Q0 d1 1 2 t\n"})
    for split, value in {"test": 1.0, "dev": 0.0}.items():
        (found,) = lexbench.run(str(tmp_path / "q.csv"), [str(tmp_path / "A.run")], measures=["RR@10"], split=split)
        assert found.means == {"RR@10": value}
    write_files(tmp_path, {"q.csv": "split,qid,docno,score\ntest,q1,d1,1\n,q1,d2,1\n"})
    with pytest.raises(InvalidFile, match="some of its rows have no split, and others have: test"):
        list(read_judgements(tmp_path / "q.csv", "test"))


def test_the_only_documents_are_those_of_every_split(tmp_path):
    """Documents under one split serve all judgements; the judgements of another split are never taken for those asked for."""
    files = {"corpus.json": {"train": CORPUS}, "queries.json": ASKED, "qrels.json": {"dev": JUDGED}}
    write_files(tmp_path / "mine", {name: json.dumps(content) for name, content in files.items()})
    source = find_folder(tmp_path / "mine", "dev").source

    assert len(list(source.documents())) == 3
    assert len(list(source.judgements())) == 2
    with pytest.raises(InvalidFile, match="there is no split 'test'; there is: dev"):
        list(find_folder(tmp_path / "mine").source.judgements())


def test_documents_with_a_title_and_no_text_need_a_text_somewhere(tmp_path):
    """A title is enough, unless a field of another name may have the texts of the whole corpus."""
    rows = [{"_id": name, "title": "t", "inhalt": "the text"} for name in ("d1", "d2")]
    write_files(tmp_path, BESIDE | {"corpus.jsonl": lines(rows)})
    with pytest.raises(InvalidFile, match="'d1' has no field 'text'; it has: _id, title, inhalt; inhalt looks like the text"):
        list(find_folder(tmp_path).source.documents())
    write_files(tmp_path, {"corpus.jsonl": lines([{"_id": "d1", "title": "t", "author": "me"}, {"_id": "d2", "text": "x"}])})
    assert [one.text for one in find_folder(tmp_path).source.documents()] == ["t", "x"]


# ---- stated columns --------------------------------------------------------------------------------------------------------

LONG = "It is the long description of the tool with the number"
PACKAGES = [
    {"package": f"pkg{at}", "summary": f"a tool for number {at}", "description": f"{LONG} {at}.", "size": at} for at in range(5)
]
ASKING = [{"number": at, "words": f"tool {at}"} for at in range(3)]
CLICKS = [{"number": str(at), "package": f"pkg{at}", "clicks": 3} for at in range(3)]
STATED = (
    "id=package,title=summary,text=description,queries.id=number,queries.text=words,qrels.query=number,qrels.document=package,"
    "qrels.grade=clicks"
)


def packages(folder, ending):
    """Write the tables as files with that ending."""
    for name, rows in (("corpus", PACKAGES), ("queries", ASKING), ("qrels", CLICKS)):
        path = folder / f"{name}{ending}"
        if ending in (".csv", ".tsv"):
            mark = "," if ending == ".csv" else "\t"
            write_files(
                folder,
                {path.name: "".join(mark.join(map(str, row)) + "\n" for row in ([*rows[0]], *(row.values() for row in rows)))},
            )
        elif ending == ".json":
            write_files(folder, {path.name: json.dumps(rows)})
        else:
            write_rows(path, rows)
    return folder


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".json", ".jsonl", pytest.param(".parquet", marks=needs_pyarrow)])
def test_stated_columns_are_read(ending, tmp_path):
    """Columns that the user states are those of ids, titles, texts and grades, in every format."""
    source = find_dataset(str(packages(tmp_path / "mine", ending)), columns=parse_columns(STATED))[1]

    assert [(one.doc_id, one.title, one.body) for one in source.documents()] == [
        (row["package"], row["summary"], row["description"]) for row in PACKAGES
    ]
    assert [query[:2] for query in source.queries()] == [(str(row["number"]), row["words"]) for row in ASKING]
    assert list(source.judgements()) == [(row["number"], row["package"], 3) for row in CLICKS]


@pytest.mark.parametrize("ending", [".csv", ".json", pytest.param(".parquet", marks=needs_pyarrow)])
def test_all_complaints_come_at_once_with_a_guess_that_works(ending, tmp_path):
    """One error names what each table lacks and what its columns look like; the columns that it says to type can be read."""
    folder = packages(tmp_path / "mine", ending)
    messages = []
    for read in ("documents", "queries", "judgements"):
        with pytest.raises(InvalidFile) as raised:
            list(getattr(find_folder(folder).source, read)())
        messages.append(str(raised.value))
    if ending in (".csv", ".tsv"):  # `lexbench run` shows the columns first; in other tables each row has their names
        with pytest.raises(InvalidFile) as raised:
            find_folder(folder).source.summary()
        messages.append(str(raised.value))
    for message in messages:
        assert "package looks like the id (5 different short values)" in message
        assert message.count("looks like the") == 8
        typed = message.partition("--columns ")[2].strip("'")
        source = find_folder(folder, columns=parse_columns(typed)).source
        assert [one.doc_id for one in source.documents()] == [row["package"] for row in PACKAGES]
        assert next(source.documents()).title == PACKAGES[0]["summary"]
        assert next(source.judgements()) == ("0", "pkg0", 3)


def test_stated_columns_replace_known_ones(tmp_path):
    """A stated column counts although there is a column of a known name; other corpora have other keys."""
    write_files(
        tmp_path,
        {
            "corpus.jsonl": lines([{"_id": "d1", "text": "short", "body_en": "long"}]),
            "queries.tsv": QUERIES,
            "qrels.tsv": QRELS,
        },
    )
    plain, stated = find_folder(tmp_path).source, find_folder(tmp_path, columns={"text": "body_en"}).source

    assert [next(source.documents()).text for source in (plain, stated)] == ["short", "long"]
    assert plain.identity() != stated.identity()
    assert "body_en" in stated.summary().partition("not read")[0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": "nope"}, "there is no column 'nope'; there is: _id, text"),
        ({"id": "nope", "title": "no"}, "there is no column 'nope' and no 'no'"),
        (
            {"ids": "x", "queries.title": "y"},
            "columns: 'ids', 'queries.title' is unknown; there is: id, title, text",
        ),
        ({"text": "numbers"}, "the column 'numbers' has values of type list; a text is text"),
    ],
)
def test_wrong_columns_are_refused(columns, message, tmp_path):
    """A stated column that does not exist, or that has no text, is refused by name."""
    write_files(
        tmp_path,
        {"corpus.jsonl": lines([{"_id": "d1", "text": "x", "numbers": [1]}]), "queries.tsv": QUERIES, "qrels.tsv": QRELS},
    )
    with pytest.raises(CommandError, match=message):
        list(find_folder(tmp_path, columns=columns).source.documents())


@pytest.mark.parametrize("text", ["id", "id=", "=x", "id=a,id=b", "id=a,,", "who=a"])
def test_malformed_columns_are_refused(text):
    """The error shows how columns are typed, or which there are."""
    with pytest.raises(CommandError, match="columns"):
        parse_columns(text)


def test_a_suite_file_states_columns(tmp_path, capsys):
    """A suite file states the columns of its folders by name, as does a contract."""
    packages(tmp_path / "mine", ".csv")
    stated = "".join(f'"{role}" = "{name}"\n' for role, name in parse_columns(STATED).items())
    suite = (
        'schema = 1\nid = "own"\nversion = 1\nname = ""\ndescription = ""\ndatasets = ["./mine"]\nmeasures = ["RR@10"]\n'
        f'headline = "RR@10"\nretrievers = ["bm25"]\n[columns."./mine"]\n{stated}'
    )
    write_files(tmp_path, {"own.toml": suite})
    (result,) = answer(capsys, "run", tmp_path / "own.toml", "--json")["results"]

    assert result["means"]["RR@10"] == 1
    write_files(tmp_path, {"own.toml": suite.replace('columns."./mine"', 'columns."./other"')})
    assert "columns of './other', which is no folder of this suite" in ended(capsys, 2, "run", tmp_path / "own.toml").err


def test_data_frames_in_memory_have_stated_columns():
    """`columns` of data in memory names columns of its data frames."""
    data = {"corpus": frame(PACKAGES), "queries": frame(ASKING), "qrels": frame(CLICKS), "columns": parse_columns(STATED)}
    (result,) = lexbench.run(data, ["bm25"], measures=["RR@10"])
    assert result.means["RR@10"] == 1


# ---- notes -----------------------------------------------------------------------------------------------------------------


def notes(corpus, queries, qrels, system="bm25"):
    """Return the notes of a result on data in memory."""
    results = lexbench.run({"corpus": corpus, "queries": queries, "qrels": qrels}, [system], measures=["nDCG@10"])
    assert not results.failures
    (result,) = results
    return " | ".join(map(str, result.notes))


def test_equal_queries_with_other_answers_have_a_note():
    """Only queries with the text of another one, but for case and blanks, and other relevant documents count."""
    corpus, queries = {"d1": "a", "d2": "b"}, {"q1": "Red  fox", "q2": "red fox", "q3": "blue", "q4": "blue"}
    found = notes(corpus, queries, {"q1": ["d1"], "q2": {"d1": 0, "d2": 1}, "q3": ["d1"], "q4": ["d1"]})

    assert "2 of 4 judged queries have the text of another query with other relevant documents, e.g. 'q1' and 'q2'" in found
    assert "the text of another" not in notes(corpus, queries, {"q1": ["d1"], "q2": {"d1": 1, "d2": 0}, "q3": ["d1"]})


def test_documents_without_text_have_a_note():
    """A corpus of which every tenth document or more is empty has a note with the count."""
    queries, qrels = {"q1": "red"}, {"q1": ["d0"]}
    texts = {f"d{at}": "red" for at in range(10)}
    assert "3 of 13 documents have no text" in notes(texts | {"e1": "", "e2": None, "e3": ""}, queries, qrels)
    assert "have no text" not in notes(texts | {"e1": ""}, queries, qrels)


@pytest.mark.parametrize(
    ("system", "text", "expected"),
    [
        (
            "bm25",
            "собака лает",
            "% of the letters of the corpus are not Latin, and the analyser of bm25 is for English",
        ),
        ("ensemble(bm25, bm25(b=0.1))", "犬がほえる", "% of the letters"),
        ("bm25", "el perro ladró, fjörð", ""),
        ('bm25(analyzer="unicode")', "собака лает", ""),
    ],
)
def test_a_corpus_in_other_letters_has_a_note(system, text, expected):
    """BM25's English analyser has a note on a corpus that is mostly not in Latin letters; accents are Latin letters."""
    found = notes({"d1": text, "d2": text, "d3": "a"}, {"q1": text}, {"q1": ["d1"]}, system)
    assert expected in found if expected else "Latin" not in found


def test_a_long_path_may_be_an_id(tmp_path):
    """A text without spaces is taken for an id up to 512 characters, one with spaces up to 64."""
    paths = [f"{'package/' * 20}module{at}.py" for at in range(3)]
    write_rows(tmp_path / "corpus.jsonl", [{"path": one, "source": f"the code of {one}"} for one in paths])
    write_rows(tmp_path / "queries.jsonl", [{"number": "1", "question": "which"}])
    write_rows(tmp_path / "qrels" / "test.jsonl", [{"number": "1", "path": paths[0], "useful": 1}])
    with pytest.raises(InvalidFile, match=r"path looks like the id .*source looks like the text"):
        list(find_folder(tmp_path).source.documents())


def test_tables_of_other_names_are_named(tmp_path):
    """A folder whose tables have names of the user's own is refused with their names, and what to call them."""
    for name in ("products", "questions", "clicks"):
        (tmp_path / f"{name}.csv").write_text("id,text\na,b\n")
    with pytest.raises(MissingData, match=r"it has clicks.csv, products.csv, questions.csv: call the documents corpus"):
        find_folder(tmp_path)


TWICE = [
    ("corpus.jsonl", '{"_id": "d1", "text": "red", "text": "blue"}\n', "line 1: the key 'text' is there twice"),
    ("corpus.csv", "id,text,Text\nd1,red,blue\n", "line 1: two columns are called 'text'"),
    ("queries.tsv", "id\ttext\ttext\nq1\tred\tblue\n", "line 1: two columns are called 'text'"),
    ("qrels.tsv", "query-id\tcorpus-id\tscore\tscore\nq1\td1\t0\t1\n", "1: two columns are called 'score'"),
    ("qrels.csv", "query-id,corpus-id,score,score\nq1,d1,0,1\n", "line 1: two columns are called 'score'"),
    ("qrels.tsv", "qid\tdocid\tscore\tlabel\nq1\td1\t9.5\t1\n", "are the grades in 'score' or in 'label'?"),
    ("qrels.jsonl", '{"qid": "q1", "docid": "d1", "score": 9.5, "label": 1}\n', "are the grades in 'score' or in 'label'?"),
]


def test_of_two_ids_that_of_the_passage_counts(tmp_path):
    """MS MARCO's passages of 2021 have the id of their document as well, and PyTerrier's documents a number."""
    passage = {"pid": "p1", "passage": "red", "spans": "(0,3)", "docid": "D1"}
    write_files(tmp_path, {"a.jsonl": lines([passage]), "b.csv": "docid,docno,text\n0,d7,red\n"})
    assert [one.record_id for name in ("a.jsonl", "b.csv") for one in read_records(tmp_path / name)] == ["p1", "d7"]


def test_blanks_behind_the_marks_of_csv_belong_to_no_field(tmp_path):
    """If the first line has one behind each mark; else a blank is part of a text."""
    write_files(tmp_path, {"a.csv": 'id, title, text\nd1, Red, "red, fox"\n', "b.csv": "id,text\nd1, red\n"})
    assert [one.fields["text"] for name in ("a.csv", "b.csv") for one in read_records(tmp_path / name)] == ["red, fox", " red"]
    (tmp_path / "q.csv").write_text("qid, docno, score\nq1, d1, 1\n")
    assert [tuple(one) for one in read_judgements(tmp_path / "q.csv")] == [("q1", "d1", 1)]


def test_a_query_may_have_a_title_in_place_of_a_text(tmp_path):
    """As in TREC and in memory; an instruction is shown as read."""
    write_rows(tmp_path / "topics.jsonl", [{"id": "1", "title": "red", "desc": "What is red?", "instruction": "Find it."}])
    assert list(read_queries(tmp_path / "topics.jsonl")) == [("1", "red", "Find it.")]
    assert columns(tmp_path / "topics.jsonl") == "id, title, instruction; not read: desc"


def test_names_of_files_may_be_in_capitals(tmp_path):
    """Tools of Windows write CORPUS.CSV; Mr. TyDi has topic.test.tsv; and one JSON value is no JSON lines."""
    write_files(tmp_path, {"corpus.JSONL": '{"id": "d1", "text": "red"}\n', "topic.test.tsv": QUERIES, "qrels.test.tsv": QRELS})
    assert [one.text for one in find_folder(tmp_path).source.documents()] == ["red"]
    assert [one.text for one in find_folder(tmp_path).source.queries()] == ["red", "blue"]
    (tmp_path / "corpus.JSONL").write_text('[{"id": "d1", "text": "red"}]')
    with pytest.raises(InvalidFile, match=r"if the file is one JSON value, call it corpus\.json"):
        list(find_folder(tmp_path).source.documents())


@pytest.mark.parametrize(("name", "content", "said"), TWICE)
def test_what_is_there_twice_is_refused(name, content, said, tmp_path):
    """Of two columns or keys that could be meant, none counts in silence."""
    write_files(tmp_path, {name: content})
    read = {"corpus": read_records, "queries": read_queries, "qrels": read_judgements}[name.partition(".")[0]]
    with pytest.raises(InvalidFile, match=re.escape(said)):
        list(read(tmp_path / name))


@pytest.mark.parametrize("name", ["qrels.tsv", "qrels.csv"])
def test_a_stated_column_of_grades_leaves_no_doubt(name, tmp_path):
    """With `qrels.grade` the other column does not count."""
    mark = "\t" if name.endswith(".tsv") else ","
    judged = "".join(f"{mark.join(row)}\n" for row in (("qid", "docid", "score", "label"), ("q1", "d1", "9.5", "1")))
    folder = write_files(tmp_path, {"corpus.tsv": "d1\tred\n", "queries.tsv": "q1\tred\n", name: judged})
    _, source = find_folder(folder, columns={"qrels.grade": "label"})
    assert [one.grade for one in source.judgements()] == [1]


def test_two_columns_of_one_name_in_a_data_frame_are_refused():
    """A row as a mapping would keep the last of them."""
    pandas = pytest.importorskip("pandas", reason="it is in the extra pandas")
    frame = pandas.DataFrame([["d1", "red", "blue"]], columns=["_id", "text", "Text"])
    with pytest.raises(InvalidFile, match="corpus: two columns are called 'text'"):
        lexbench.run({"corpus": frame, "queries": {"q1": "red"}, "qrels": {"q1": {"d1": 1}}}, ["bm25"])


def test_a_second_column_of_texts_is_named_as_not_read(tmp_path):
    """The first known name counts; what else could be the text is shown."""
    write_rows(tmp_path / "queries.jsonl", [{"_id": "q1", "query": "red", "text": "an answer"}])
    assert columns(tmp_path / "queries.jsonl") == "_id, text; not read: query"
