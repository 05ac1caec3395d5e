"""Files of judgements in every format and with every writer's habits give the same judgements, or are refused by line.

References are pandas, which writes the files, trec_eval (by pytrec_eval), and a plain reader with the csv module.
"""

import csv
import json

import pytest
import pytrec_eval
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import answer, ended, lines, write_files, write_rows
from workbench import needs_pyarrow

from lexbench.datasets.stated_columns import stated_columns
from lexbench.errors import InvalidFile, LexbenchError
from lexbench.measures import score
from lexbench.trec.qrels import Qrels, read_judgements, read_qrels, write_beir_qrels, write_qrels
from lexbench.trec.runs import read_run
from lexbench.types import Judgement

JUDGED = [("q1", "d1", 2), ("q1", "d2", 0), ("q2", "d1", 1)]
UNGRADED = [("q1", "d1", 1), ("q1", "d2", 1), ("q2", "d1", 1)]
NESTED = {"q1": {"d1": 2, "d2": 0}, "q2": {"d1": 1}}
NAMED = [dict(zip(("query-id", "corpus-id", "score"), row, strict=True)) for row in JUDGED]
FORMS = {  # by the name of the file, which may have a comment behind a blank
    "qrels.txt whole floats": "q1 0 d1 2.0\nq1 0 d2 0.0\nq2 0 d1 1e0\n",
    "qrels.tsv whole floats": "query-id\tcorpus-id\tscore\nq1\td1\t2.0\nq1\td2\t0.0\nq2\td1\t1.0\n",
    "qrels.tsv no header": "q1\td1\t2.0\nq1\td2\t0\nq2\td1\t+1\n",
    "qrels.csv whole floats": "qid,docno,label\nq1,d1,2.0\nq1,d2,0.0\nq2,d1,1.0\n",
    "qrels.csv of Excel": '\ufeffsep=;\nqid;docno;label\n"q1";d1;2\nq1;d2;0\nq2;d1;1\n',
    "qrels.csv of Excel with commas": "sep=,\nqid,docno,label\nq1,d1,2\nq1,d2,0\nq2,d1,1\n",
    "qrels.csv semicolons": "q1;d1;2\nq1;d2;0\nq2;d1;1\n",
    "qrels.jsonl whole floats": lines([row | {"score": float(row["score"])} for row in NAMED]),
    "qrels.ndjson": lines(NAMED),
    "qrels.json": json.dumps(NESTED, indent=1),
    "qrels.json one line": json.dumps(NESTED),
    "qrels.json rows": json.dumps(NAMED, indent=1),
    "qrels.json lines": lines(NAMED),
    "qrels.json by split": json.dumps({"test": NESTED}),
    "qrels.json pairs": json.dumps({"q1": [["d1", 2], ["d2", 0]], "q2": [["d1", 1]]}),
    "qrels.json.gz": json.dumps(NESTED),
    "qrels.tsv QUOTE_ALL": '"query-id"\t"corpus-id"\t"score"\n"q1"\t"d1"\t"2"\n"q1"\t"d2"\t"0"\n"q2"\t"d1"\t"1"\n',
    "qrels.tsv QUOTE_ALL no header": '"q1"\t"0"\t"d1"\t"2"\n"q1"\t"0"\t"d2"\t"0"\n"q2"\t"0"\t"d1"\t"1"\n',
    "qrels.tsv QUOTE_NONNUMERIC no header": '"q1"\t0\t"d1"\t2\n"q1"\t0\t"d2"\t0\n"q2"\t0\t"d1"\t1\n',
    "qrels.tsv some quotes": 'query-id\tcorpus-id\tscore\n"q1"\td1\t2\nq1\t"d2"\t0\nq2\td1\t1\n',
    "qrels.txt blanks and quotes": '"q1" "0" "d1" "2"\n"q1" "0" "d2" "0"\n"q2" "0" "d1" "1"\n',
    "qrels.tsv two tabs": "q1\t0\td1\t2\nq1\t\td2\t0\nq2\t0\td1\t1\n",
    "qrels.txt mixed": "q1\t0\td1\t2\nq1 0 d2 0\nq2 0\td1\t1\n",
    "qrels.txt comments": "# by us\n#query iter document grade\n\nq1 0 d1 2\n\nq1 0 d2 0\nq2 0 d1 1\n",
}
FORMS_UNGRADED = {
    "qrels.txt": "q1 0 d1\nq1 0 d2\nq2 0 d1\n",
    "qrels.tsv": "q1\td1\nq1\td2\nq2\td1\n",
    "qrels.tsv header": "query-id\tcorpus-id\nq1\td1\nq1\td2\nq2\td1\n",
    "qrels.tsv header of TREC": "query-id\titer\tcorpus-id\nq1\t0\td1\nq1\t0\td2\nq2\t0\td1\n",
    "qrels.csv": "qid,docno\nq1,d1\nq1,d2\nq2,d1\n",
    "qrels.csv no header": "q1,d1\nq1,d2\nq2,d1\n",
    "qrels.jsonl": lines([{"qid": query, "doc_id": doc} for query, doc, _ in JUDGED]),
    "qrels.json": '{"q1": ["d1", "d2"], "q2": ["d1"]}',
    "qrels.json single texts": '{"q1": ["d1", "d2"], "q2": "d1"}',
    "qrels.json rows": '{"q1": [{"doc_id": "d1"}, {"doc_id": "d2"}], "q2": [{"doc_id": "d1"}]}',
}


def written(folder, name, content):
    """Write a file of *folder*; *name* may have a comment."""
    write_files(folder, {name.partition(" ")[0]: content})
    return folder / name.partition(" ")[0]


@pytest.mark.parametrize("name", FORMS)
def test_every_format_has_the_same_grades(name, tmp_path):
    """Whole floats, quotes, JSON, Excel's first line and mixed separators do not change judgements."""
    path = written(tmp_path, name, FORMS[name])

    assert list(read_qrels(path).judgements()) == JUDGED
    assert {type(row.grade) for row in read_judgements(path)} == {int}  # digests and contracts have whole grades


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("name", ["qrels.csv", "qrels.tsv"])
def test_true_and_false_are_grades(name, large, tmp_path, monkeypatch):
    """In pandas it is True, in Excel TRUE, in JSON true; another word among them is refused."""
    monkeypatch.setattr("lexbench.trec.columns._LARGE", 0 if large else 1000)
    rows = ["qid docno label", "q1 d1 True", "q1 d2 FALSE", "q2 d1 1", ""]
    path = written(tmp_path, name, "\n".join(rows).replace(" ", "," if name.endswith("csv") else "\t"))
    assert list(read_qrels(path).judgements()) == [("q1", "d1", 1), ("q1", "d2", 0), ("q2", "d1", 1)]
    path.write_text(path.read_text().replace("FALSE", "maybe"))
    with pytest.raises(InvalidFile, match="the grade 'maybe' is no number"):
        read_qrels(path)


def test_a_row_may_have_a_list_of_documents(tmp_path):
    """With a list of grades, or relevant ones alone; --columns names them, e.g. the gold_ids of BRIGHT."""
    path = written(
        tmp_path, "qrels.jsonl", lines([{"qid": "q1", "docno": ["d1", "d2"], "label": [2, 0]}, {"qid": "q2", "docno": []}])
    )
    assert list(read_qrels(path).judgements()) == [("q1", "d1", 2), ("q1", "d2", 0)]
    path = written(tmp_path, "qrels.jsonl", lines([{"id": 7, "gold_ids": ["d1", "d2"]}]))
    columns = stated_columns({"qrels.query": "id", "qrels.document": "gold_ids"})["judgements"]
    assert [tuple(one) for one in read_judgements(path, None, columns.renamed)] == [("7", "d1", 1), ("7", "d2", 1)]


def test_an_empty_column_does_not_shift_the_next(tmp_path):
    """Two tabs are an empty column, also where all lines have as many words as columns."""
    path = written(tmp_path, "qrels.tsv", "q1\t\td 1\t1\nq2\t\td 1\t0\n")
    assert list(read_qrels(path).judgements()) == [("q1", "d 1", 1), ("q2", "d 1", 0)]


@pytest.mark.parametrize("name", FORMS_UNGRADED)
def test_without_a_column_of_grades_they_are_1(name, tmp_path):
    """A missing column of grades means 1 in every format."""
    assert list(read_qrels(written(tmp_path, name, FORMS_UNGRADED[name])).judgements()) == UNGRADED


@needs_pyarrow
def test_parquet_has_the_same_grades(tmp_path):
    """Whole floats, and no column of grades, in Parquet."""
    write_rows(tmp_path / "a.parquet", [row | {"score": float(row["score"])} for row in NAMED])
    write_rows(tmp_path / "b.parquet", [{"qid": query, "doc": doc} for query, doc, _ in JUDGED])

    assert list(read_qrels(tmp_path / "a.parquet").judgements()) == JUDGED
    assert list(read_qrels(tmp_path / "b.parquet").judgements()) == UNGRADED


REFUSED = [  # name, content, a part of the message
    ("qrels.csv", "qid,docno,stars\nq1,d1,3\n", r"line 2: there is no column 'score'; .* are the grades in 'stars'\?"),
    ("qrels.csv", "qid,docno,esci_label\nq1,d1,E\n", r"line 2: there is no column 'score'; .* the grades in 'esci_label'\?"),
    ("qrels.tsv", "qid\tdocno\tesci_label\nq1\td1\tE\n", r"1: there is no column 'score'; .* grades in 'esci_label'\?"),
    ("qrels.jsonl", lines([{"qid": "q1", "docno": "d1", "Stars": 3}]), "line 1: .* are the grades in 'Stars'"),
    ("qrels.txt", "q1 0 d1 1\nq1 0 d 2 1\n", ":2: 5 columns, not 4"),
    ("qrels.tsv", "q1\t0\td 1\t1\nq1\td 2\t1\n", ":2: 3 columns, not 4"),  # not the document 2 of an empty column
    ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t\n", ":2: the grade '' is no number"),
    ("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\t\t1\n", ":2: an id is empty"),
    ("qrels.csv", "qid,docno,label\nq1,d1,\n", "line 2: the grade '' is no number"),
    ("qrels.csv", "qid,docno,label\nq1,d1,1_0\n", "line 2: the grade '1_0' is no number"),
    ("qrels.csv", "qid,docno,label\nq1,d1,inf\n", "line 2: the grade 'inf' is no number"),
    ("qrels.json", '{"q1": {"d1": 1}, "q1": {"d2": 1}}', "the key 'q1' is there twice"),
    ("qrels.json", '{"q1": {"d1": 1, "d1": 2}}', "the key 'd1' is there twice"),
    ("qrels.json", '{"q1": {"d1": 1}', "not JSON; is the file cut off"),
    ("qrels.json", '{"dev": {"q1": {"d1": 1}}, "train": {"q1": {"d1": 1}}}', "no split 'test'; there is: dev, train"),
    ("qrels.json", '{"q1": [["d1", "2"]]}', r"documents of query 'q1' are like \['d1', '2'\]; write"),
    ("qrels.json", '{"q1": ["d1", 2]}', "of several types"),
    ("qrels.json", '{"q1": 0.5}', "documents of query 'q1' are float"),
    ("qrels.json", '["q1"]', "row 1: not a JSON object"),
    ("qrels.json", '"q1"', "neither a list of rows nor an object"),
    ("qrels.json", '{"q1": {"d1": "high"}}', "the grade 'high' is no number"),
]


@pytest.mark.parametrize(("name", "content", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_what_could_be_read_in_two_ways_is_refused(name, content, message, tmp_path):
    """The error message names the file, the line and the fault."""
    with pytest.raises(InvalidFile, match=rf"{name}.*{message}"):
        read_qrels(written(tmp_path, name, content))


# ---- `#` -------------------------------------------------------------------------------------------------------------------

HASH_QRELS = "q1 0 d1 1\n#q2 0 d2 1\n# 0 d3 2\n"
HASH_RUN = "#q2 Q0 d9 1 3 t\n#q2 Q0 d2 2 2 t\nq1 Q0 d1 1 1 t\n# Q0 d3 1 1 t\n"


def theirs(qrels, run):
    """Return the mean reciprocal rank by pytrec_eval's own readers."""
    found = pytrec_eval.RelevanceEvaluator(pytrec_eval.parse_qrel(qrels.splitlines()), {"recip_rank"}).evaluate(
        pytrec_eval.parse_run(run.splitlines())
    )
    return sum(one["recip_rank"] for one in found.values()) / len(found)


@pytest.mark.parametrize("large", [False, True])
def test_an_id_may_begin_with_a_hash(tmp_path, monkeypatch, capsys, large):
    """A query `#q2` counts in judgements and runs, on the first line and later, as for trec_eval; the same as CSV."""
    if large:
        monkeypatch.setattr("lexbench.trec.columns._LARGE", 0)
    table = "query,document,grade\n" + HASH_QRELS.replace(" 0 ", ",").replace(" ", ",")
    files = {"qrels": HASH_QRELS, "first": "".join(reversed(HASH_QRELS.splitlines(keepends=True)[:2])), "a.run": HASH_RUN}
    write_files(tmp_path, files | {"qrels.csv": table})
    for qrels in ("qrels", "qrels.csv"):
        means = answer(capsys, "score", tmp_path / "a.run", "--qrels", tmp_path / qrels, "-m", "RR", "--json")["means"]
        assert means["RR"] == pytest.approx(theirs(HASH_QRELS, HASH_RUN)) == pytest.approx((1 + 1 / 2 + 1) / 3)
    assert list(read_qrels(tmp_path / "first").judgements()) == [("#q2", "d2", 1), ("q1", "d1", 1)]


def test_written_ids_with_a_hash_read_back(tmp_path):
    """A query `#q` is written and read back, also as the first line; the id `#` alone would be a comment and is refused."""
    for write in (write_qrels, write_beir_qrels):
        write(Qrels.from_judgements([Judgement("#q", "#d", 1)]), tmp_path / "qrels")
        assert list(read_qrels(tmp_path / "qrels").judgements()) == [("#q", "#d", 1)]
        with pytest.raises(LexbenchError, match="query id '#' cannot be written"):
            write(Qrels.from_judgements([Judgement("#", "d", 1)]), tmp_path / "qrels")


# ---- random files ----------------------------------------------------------------------------------------------------------

ID = st.text("ab#\"' 0./", min_size=1, max_size=6).filter(lambda text: text == text.strip())
GRADE = st.sampled_from([0, 1, 2, -1, 2.0, 0.5, 1e-3, 3])
TABLE = st.dictionaries(st.tuples(ID, ID), GRADE, min_size=1, max_size=8)


def plainly(text):
    """Return the judgements of a TSV file with a header, by the csv module and float."""
    rows = csv.DictReader(text.splitlines(), delimiter="\t")
    return sorted((row["query-id"], row["corpus-id"], float(row["score"])) for row in rows)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(TABLE, st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC]))
def test_what_pandas_writes_is_read(tmp_path, judged, quoting):
    """Ids with blanks, quotes and hashes read back from TSV, CSV and JSON of pandas in every form, as by the csv module."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed; pip install 'lexbench[pandas]'")
    frame = pd.DataFrame([(*pair, grade) for pair, grade in judged.items()], columns=["query-id", "corpus-id", "score"])
    expected = sorted((*pair, float(grade)) for pair, grade in judged.items())
    frame.to_csv(tmp_path / "qrels.tsv", sep="\t", index=False, quoting=quoting)
    frame.to_csv(tmp_path / "qrels.csv", index=False, quoting=quoting)
    frame.to_json(tmp_path / "rows.json", orient="records")
    frame.to_json(tmp_path / "lines.json", orient="records", lines=True)
    frame.to_json(tmp_path / "columns.json")

    for name in ("qrels.tsv", "qrels.csv", "rows.json", "lines.json", "columns.json"):
        assert sorted(read_qrels(tmp_path / name).judgements()) == expected, name
    assert plainly((tmp_path / "qrels.tsv").read_text()) == expected


PLAIN = st.text("ab#.0é", min_size=1, max_size=5).filter(lambda text: text not in ("#", "0"))
NUMBER = st.floats(-1e6, 1e6).map(repr) | st.integers(-9, 9).map(str) | st.sampled_from(["1e2", ".5", "2.", "+3", "1E-2"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.lists(st.tuples(PLAIN, PLAIN, NUMBER), min_size=1, max_size=8), st.data())
def test_the_compiled_reader_agrees_with_the_plain_one(tmp_path, rows, data):
    """Lines of trec_eval, with any blanks between fields, are the same to both readers and to str.split and float."""
    from lexbench.trec import columns

    gaps = st.sampled_from([" ", "  ", "\t", " \t"])
    text = "".join(f"{query}{data.draw(gaps)}0{data.draw(gaps)}{doc}{data.draw(gaps)}{grade}\n" for query, doc, grade in rows)
    path = written(tmp_path, "qrels", text)
    begin = columns.beginning(path, {4: ("id", "skip", "id", "grade")})
    found = []
    for size in (0, columns._LARGE):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(columns, "_LARGE", size)
            found.append([column.tolist() for column in columns.read_columns(path, ("id", "skip", "id", "grade"), begin)])
    fields = [line.split() for line in text.encode().splitlines()]

    assert found[0] == found[1] == [[row[0] for row in fields], [row[2] for row in fields], [float(row[3]) for row in fields]]


# ---- blanks in ids ---------------------------------------------------------------------------------------------------------


def test_ids_with_blanks_go_the_whole_way(store, tmp_path, capsys):
    """Ids like those of BRIGHT, paths with blanks: a folder is run, a run with tabs is scored, and TREC files are refused."""
    docs = {"bio/why do cats purr_0.txt": "cats purr", "bio/dogs_1.txt": "dogs bark"}
    files = {
        "corpus.jsonl": lines({"_id": name, "text": text} for name, text in docs.items()),
        "queries.jsonl": lines([{"_id": "q 1", "text": "purr"}]),
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq 1\tbio/why do cats purr_0.txt\t1\n",
        "trec.qrels": "q 1\t0\tbio/why do cats purr_0.txt\t1\n",
    }
    mine = write_files(tmp_path / "mine", files)
    run = "q 1\tQ0\tbio/dogs_1.txt\t1\t2.0\tt\nq 1\tQ0\tbio/why do cats purr_0.txt\t2\t1.0\tt\n"
    write_files(tmp_path, {"a.run": run})
    (result,) = answer(capsys, "run", mine, "-r", "bm25", "-m", "RR@10", "--json")["results"]

    assert result["means"] == {"RR@10": 1}
    for place in (["-d", mine], ["--qrels", mine / "trec.qrels"]):
        assert answer(capsys, "score", tmp_path / "a.run", *place, "-m", "RR@10", "--json")["means"] == {"RR@10": 0.5}
    assert "cannot be written" in ended(capsys, 1, "export", "trec", tmp_path / "out").err


# ---- continuous grades -----------------------------------------------------------------------------------------------------


def test_continuous_grades_are_gains(tmp_path):
    """NDCG takes the grades as gains; measures with a threshold take it, and others are refused with what to type."""
    qrels = read_qrels(written(tmp_path, "qrels.tsv", "query-id\tcorpus-id\tscore\nq\ta\t0.25\nq\tb\t0.9\nq\tc\t-0.5\n"))
    run = read_run(written(tmp_path, "a.run", "q Q0 a 1 3 t\nq Q0 b 2 2 t\nq Q0 c 3 1 t\n"))
    from math import log2

    found = score(run, qrels, ["nDCG@10", "R(rel=0.5)@1", "R(rel=0.2)@1", "Judged@3"]).means
    assert found["nDCG@10"] == pytest.approx((0.25 + 0.9 / log2(3)) / (0.9 + 0.25 / log2(3)))
    assert (found["R(rel=0.5)@1"], found["R(rel=0.2)@1"], found["Judged@3"]) == (0, 0.5, 1)
    with pytest.raises(LexbenchError, match=r"for RR@10, AP\? Type it, e\.g\. -m 'RR\(rel=0\.45\)@10'"):
        score(run, qrels, ["nDCG@10", "RR@10", "AP"])
    with pytest.raises(LexbenchError, match="ir-measures takes whole grades for Bpref"):
        score(run, qrels, ["Bpref"])
    with pytest.raises(LexbenchError, match=r"these are continuous, and trec_eval would read 0\.5 as 0"):
        write_qrels(qrels, tmp_path / "new")
    write_beir_qrels(qrels, tmp_path / "new")
    assert list(read_qrels(tmp_path / "new").judgements()) == list(qrels.judgements())


ENTRIES = st.lists(st.tuples(st.sampled_from([0.0, 0.3, 1.0, 2.5]), st.sampled_from([1.0, 2.0, 3.0])), min_size=2, max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(ENTRIES.filter(lambda entries: any(grade for grade, _ in entries)), st.sampled_from([None, 1, 3, 5]))
def test_the_expected_value_of_ties_is_scikit_learns(tmp_path, entries, cutoff):
    """nDCG(ties='expected') is scikit-learn's ndcg_score, which takes the mean over all orders of tied documents."""
    ndcg = pytest.importorskip("sklearn.metrics", reason="scikit-learn is in the extra test").ndcg_score
    grades, scores = zip(*entries, strict=True)
    ids = [f"d{at}" for at in range(len(entries))]
    text = "".join(f"q Q0 {name} 1 {number} t\n" for name, number in zip(ids, scores, strict=True))
    run = read_run(written(tmp_path, "a.run", text))
    qrels = Qrels.from_judgements(
        Judgement("q", name, int(grade) if grade.is_integer() else grade) for name, grade in zip(ids, grades, strict=True)
    )
    measure = "nDCG(ties='expected')" + (f"@{cutoff}" if cutoff else "")

    assert score(run, qrels, [measure]).means[measure] == pytest.approx(ndcg([grades], [scores], k=cutoff))


def test_continuous_grades_go_the_whole_way(store, tmp_path, capsys):
    """A folder with continuous grades is run, and measures that need a threshold are refused in one line."""
    files = {
        "corpus.json": json.dumps({"d1": "red fox", "d2": {"title": "Car", "text": "red red"}, "d3": {"title": "blue sky"}}),
        "queries.json": json.dumps({"q1": "red fox"}),
        "qrels.json": json.dumps({"q1": {"d1": 0.75, "d2": 0.1}}),
    }
    mine = write_files(tmp_path / "mine", files)
    (result,) = answer(capsys, "run", mine, "-r", "bm25", "-m", "nDCG@10", "--json")["results"]

    assert result["means"]["nDCG@10"] == 1
    assert "from which grade is a document relevant for RR@10" in ended(capsys, 1, "run", mine, "-r", "bm25", "-m", "RR@10").err
