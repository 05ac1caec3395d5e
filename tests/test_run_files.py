"""Run files are systems: they are compared by judgements alone, and every command finds them afterwards."""

import csv
import gzip
import io
import json
import os
import re
import zipfile

import numpy as np
import pytest
from pytrec_eval import RelevanceEvaluator
from tiny import answer, ended, enter, lines, write, write_files, write_rows

import lexbench
from lexbench.errors import CommandError, InvalidFile, UnknownName
from lexbench.trec.qrels import read_qrels
from lexbench.trec.runs import read_run, read_runs

ENTRIES = {  # two runs of three queries
    "A": {"q1": {"d1": 3.0, "d2": 2.0, "d3": 1.0}, "q2": {"d2": 2.5, "d1": 1.5}, "q3": {"d3": 1.0}},
    "B": {"q1": {"d2": 9.0, "d1": 8.0}, "q2": {"d1": 7.5, "d2": 2.5}, "q3": {"d3": 2.0, "d1": 1.0}},
}
GRADES = {"q1": {"d1": 2, "d2": 1}, "q2": {"d2": 1}, "q3": {"d1": 1, "d3": 0}}
QRELS = "".join(f"{query} 0 {document} {grade}\n" for query, of in GRADES.items() for document, grade in of.items())


def rows(name):
    """Return the rows of a run: query, document, score, rank."""
    return [
        (query, document, score, rank)
        for query, scored in ENTRIES[name].items()
        for rank, (document, score) in enumerate(scored.items(), start=1)
    ]


def trec(name):
    """Return the lines of a TREC run."""
    return "".join(f"{query} Q0 {document} {rank} {score} {name}\n" for query, document, score, rank in rows(name))


def tables(name):
    """Return the text of a run by the name of its file."""
    named = [{"qid": query, "docno": document, "score": score} for query, document, score, _ in rows(name)]
    return {
        f"{name}.run": trec(name),
        f"{name}.run.gz": trec(name),
        f"{name}.tsv": "".join(f"{query}\t{document}\t{rank}\n" for query, document, _, rank in rows(name)),
        f"{name}.out": "".join(f"{query} {document} {score}\n" for query, document, score, _ in rows(name)),
        f"{name}.csv": "query_id,doc_id,score\n" + "".join(f"{query},{doc},{score}\n" for query, doc, score, _ in rows(name)),
        f"{name}.res.tsv": "topic\tdocument\trank\n"
        + "".join(f"{query}\t{doc}\t{rank}\n" for query, doc, _, rank in rows(name)),
        f"{name}.txt": "qid\tdocid\tsimilarity\n"
        + "".join(f"{query}\t{doc}\t{score}\n" for query, doc, score, _ in rows(name)),
        f"{name}.jsonl.gz": lines(named),
        f"{name}.json": json.dumps(ENTRIES[name]),
        f"{name}.json.gz": json.dumps({query: list(scored) for query, scored in ENTRIES[name].items()}),
    }


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Make the current folder, with runs in every format and judgements, and an empty store."""
    enter(tmp_path, monkeypatch)
    monkeypatch.setenv("COLUMNS", "100")
    write_files(tmp_path, {"Q": QRELS, **tables("A"), **tables("B"), "both.run.gz": trec("A") + trec("B")})
    for name in ENTRIES:
        write_rows(
            tmp_path / f"{name}.parquet",
            [dict(zip(("q", "query_id", "doc_id"), (0, *row[:2]), strict=True)) | {"score": row[2]} for row in rows(name)],
        )
    return tmp_path


def expected(measure="ndcg_cut_10"):
    """Return the values of both runs by query, by trec_eval."""
    evaluator = RelevanceEvaluator(GRADES, {measure})
    return {name: [evaluator.evaluate(ENTRIES[name])[query][measure] for query in sorted(GRADES)] for name in ENTRIES}


def means(found):
    """Return the means of a comparison in JSON, by system."""
    return {score["system"]: score["mean"] for score in found["datasets"][0]["scores"]}


@pytest.mark.parametrize("ending", [*(name[1:] for name in tables("A")), ".parquet"])
def test_two_run_files_and_judgements_are_enough(place, capsys, ending):
    """No corpus is needed, and every format gives trec_eval's values."""
    found = answer(capsys, "compare", f"A{ending}", f"B{ending}", "--qrels", "Q", "--json")

    assert means(found) == {name: pytest.approx(np.mean(values)) for name, values in expected().items()}
    differences = np.subtract(expected()["B"], expected()["A"])
    assert found["datasets"][0]["differences"][0]["difference"] == pytest.approx(differences.mean())
    assert found["datasets"][0]["queries"] == 3


def test_several_runs_in_one_file_are_several_systems(place, capsys):
    """Their tags are their names; FILE#TAG is one of them."""
    found = answer(capsys, "compare", "both.run.gz", "--qrels", "Q", "--json")
    assert means(found) == means(answer(capsys, "compare", "A.run", "B.run", "--qrels", "Q", "--json"))
    assert list(read_runs(place / "both.run.gz")) == ["A", "B"]
    chosen = answer(capsys, "score", "both.run.gz#B", "--qrels", "Q", "-m", "nDCG@10", "--json")
    assert chosen["means"]["nDCG@10"] == pytest.approx(np.mean(expected()["B"]))
    with pytest.raises(InvalidFile, match=re.escape("both.run.gz has 2 runs, by their tags A, B; choose one: ")):
        read_run(place / "both.run.gz")
    with pytest.raises(UnknownName, match=r"no run in .*both.run.gz: 'C'"):
        read_run(place / "both.run.gz#C")


def test_a_column_of_a_table_separates_runs(place):
    """Like a tag: a column called run or system."""
    text = "system,qid,docno,score\n" + "".join(f"{name},{q},{d},{s}\n" for name in ENTRIES for q, d, s, _ in rows(name))
    (place / "all.csv").write_text(text)
    found = read_runs(place / "all.csv")
    assert list(found) == ["A", "B"]
    assert found["B"].scores.tolist() == [score for *_, score, _ in rows("B")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{0:02d} Q0 {1} 1 1 t\n", "queries of the run have ids like '01', and the judgements '1'"),
        ("{0} Q0 {1:02d} 1 1 t\n", "documents of the run have ids like '01', and the judgements '1'"),
        ("{0} Q0 {1:g} 1 1 t\n", "documents of the run have ids like '1e+06', and the judgements '1000000'"),
        (
            "{0} Q0 {1:.5E} 1 1 t\n{0} Q0 {0} 2 0 t\n",
            "documents of the run have ids like '1.00000E+06', and the judgements '1000000'",
        ),
        ("{0} Q0 {1} 1 1 t\n", ""),
    ],
)
def test_ids_in_another_form_have_a_note(tmp_path, line, said):
    """Some tools write 01 for 1, or 1e+06: then some ids match, and the score is lower for no other reason."""
    pairs = [*((number, number) for number in range(1, 12)), (12, 1_000_000)]
    (tmp_path / "Q").write_text("".join(f"{query} 0 {document} 1\n" for query, document in pairs))
    (tmp_path / "A.run").write_text("".join(line.format(query, document) for query, document in pairs))
    notes = [note.text for note in lexbench.score(tmp_path / "A.run", qrels=tmp_path / "Q").result.notes]
    assert [note.partition(":")[0] for note in notes if "have ids like" in note] == [said] * bool(said)


META = {"mteb_model_meta": {"model_name": "a", "revision": "b"}}


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({"default": {"test": ENTRIES["A"]}, **META}, [""]),
        ({"en": {"test": ENTRIES["A"]}, "de": {"test": ENTRIES["B"]}, **META}, ["en/test", "de/test"]),
        (ENTRIES, ["A", "B"]),
    ],
)
def test_json_may_have_several_runs_by_name(tmp_path, content, names):
    """Predictions of MTEB are by subset and split."""
    (tmp_path / "runs.json").write_text(json.dumps(content))
    found = read_runs(tmp_path / "runs.json")
    assert list(found) == names
    for name, run in zip(names, found.values(), strict=True):
        first = ENTRIES["A" if name in ("", "A", "en/test") else "B"]
        assert {query: run.doc_ids(entries) for query, entries in run.spans()} == {q: list(docs) for q, docs in first.items()}


def test_a_file_of_texts_without_queries_is_refused(place):
    """`--queries` with an empty file would show no text without a word."""
    (place / "queries.tsv").touch()
    with pytest.raises(InvalidFile, match=r"queries\.tsv: there are no queries in it"):
        lexbench.compare(["A.run", "B.run"], qrels="Q", queries="queries.tsv")


def test_json_that_is_cut_off_is_named(tmp_path):
    """Whether the file is packed or not."""
    packed = gzip.compress(json.dumps(ENTRIES["A"]).encode())
    for name, part in {"a.json.gz": packed[:-6], "a.json": json.dumps(ENTRIES["A"]).encode()[:-3]}.items():
        (tmp_path / name).write_bytes(part)
        with pytest.raises(InvalidFile, match=rf"{name}.*(ended before|cut off)"):
            read_run(tmp_path / name)


@pytest.mark.parametrize("more", [{"score": [3.0, 2.0]}, {}])
def test_a_row_may_have_a_list_of_documents(tmp_path, more):
    """Their order decides if there are no scores. A list of scores of another length is refused."""
    write_rows(
        tmp_path / "a.jsonl", [{"qid": "q1", "docno": ["d2", "d1"], **more}, {"qid": "q2", "docno": ["d1", "d3"], **more}]
    )
    run = read_run(tmp_path / "a.jsonl")
    assert {query: run.doc_ids(entries) for query, entries in run.spans()} == {"q1": ["d2", "d1"], "q2": ["d1", "d3"]}
    write_rows(tmp_path / "a.jsonl", [{"qid": "q1", "docno": ["d2", "d1"], "score": [3.0]}])
    with pytest.raises(InvalidFile, match=r"document 'd2' of query 'q1': the score '\[3.0\]' is no number"):
        read_run(tmp_path / "a.jsonl")


def test_what_ranx_calls_columns_and_files_is_read(tmp_path):
    """Its Parquet files end in .parq, with the columns q_id, doc_id and score, for runs and for judgements."""
    rows = [{"q_id": "q1", "doc_id": "d1", "score": 2}, {"q_id": "q1", "doc_id": "d2", "score": 1}]
    write_rows(tmp_path / "r.parquet", rows)
    (tmp_path / "r.parquet").rename(tmp_path / "r.parq")
    assert read_run(tmp_path / "r.parq").doc_ids(slice(None)) == ["d1", "d2"]
    assert [tuple(one) for one in read_qrels(tmp_path / "r.parq").judgements()] == [("q1", "d1", 2), ("q1", "d2", 1)]


def test_runs_in_memory_are_compared(place):
    """Mappings, data frames and paths, with judgements as a mapping or a file; names are the keys."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([{"qid": q, "docno": d, "score": s} for q, d, s, _ in rows("B")])
    for runs in ({"A": ENTRIES["A"], "B": ENTRIES["B"]}, {"A": "A.run.gz", "B": frame}, ["A.csv", place / "B.run"]):
        for qrels in (GRADES, "Q"):
            found = lexbench.compare(runs, qrels=qrels, measures="nDCG@10")
            assert {score.system: score.mean for score in found.datasets[0].scores} == {
                name: pytest.approx(np.mean(values)) for name, values in expected().items()
            }
    assert lexbench.compare("A.run", "B.run", qrels="Q", queries={"q1": "red car"}).query_changes[0].text in ("red car", None)


def test_texts_and_moved_documents_are_shown(place, capsys):
    """Judgements are enough for the document that moved; a file of queries has their texts."""
    (place / "topics.tsv").write_text("q1\tred car\nq2\tblue sky\nq3\tfox\nq4\tnot judged\n")
    printed = ended(capsys, 0, "compare", "A.run", "B.run", "--qrels", "Q", "--queries", "topics.tsv").out
    assert "q2: blue sky" in printed
    assert "1 → 2" in printed
    assert "add --queries FILE" in ended(capsys, 0, "compare", "A.run", "B.run", "--qrels", "Q").out
    (place / "other.tsv").write_text("77\tred car\n")
    message = "no judged query is in other.tsv; its ids look like '77', those of the judgements like 'q1'"
    assert message in ended(capsys, 2, "compare", "A.run", "B.run", "--qrels", "Q", "--queries", "other.tsv").err


def test_a_run_is_compared_with_a_system_of_the_store(place, capsys):
    """By the judgements and rules of the dataset; a file whose name is that of a system keeps its path."""
    documents = {f"d{number}": text for number, text in enumerate(["a", "red car", "blue sky", "fox"])}
    judged = [(query, document, grade) for query, of in GRADES.items() for document, grade in of.items()]
    write(place / "own", documents, {"q1": "red car", "q2": "blue sky", "q3": "fox"}, judged)
    ended(capsys, 0, "run", "own", "-r", "bm25")
    (place / "bm25.run").write_text(trec("A"))
    found = answer(capsys, "compare", "bm25", "bm25.run", "-d", "own", "--json")
    assert found["systems"] == ["bm25", "bm25.run"]
    assert means(found)["bm25.run"] == pytest.approx(np.mean(expected()["A"]))
    named = answer(capsys, "compare", "bm25", "mine = bm25.run", "-d", "own", "--json")
    assert named["systems"] == ["bm25", "mine"]


def test_a_stored_run_file_is_found_by_every_command(place, capsys):
    """`run` needs no corpus for run files. Then names and paths work in score, compare, its lists, pool, exports and board."""
    ended(capsys, 0, "run", "Q", "-r", "A.run", "-r", "b = both.run.gz#B", "--results", "board")

    assert answer(capsys, "score", "b", "-d", "Q", "-m", "nDCG@10", "--json")["means"]["nDCG@10"] == pytest.approx(
        np.mean(expected()["B"])
    )
    assert means(answer(capsys, "compare", "b", "A.run", "-d", "Q", "--json"))["b"] == pytest.approx(np.mean(expected()["B"]))
    assert "b " in ended(capsys, 0, "compare", "--lists", "A.run", "b", "-d", "Q").out
    assert {row["system"] for row in answer(capsys, "judge", "pool", "A.run", "b", "-d", "Q", "--json")} >= {"b"}
    ended(capsys, 0, "export", "trec", "out", "-r", "b", "-d", "Q")
    (file,) = (place / "out").glob("*.trec")
    assert read_run(file).scores.tolist() == read_runs(place / "both.run.gz")["B"].scores.tolist()
    ended(capsys, 0, "export", "csv", "values", "-r", "b")
    (file,) = (place / "values").iterdir()
    assert [row["query"] for row in csv.DictReader(file.read_text().splitlines())] == ["q1", "q2", "q3"]
    ended(capsys, 0, "leaderboard", "--results", "board")
    assert "does not show its terms" in ended(capsys, 3, "explain", "qid:q1", "-r", "b", "-d", "Q").err
    failed = ended(capsys, 1, "run", "Q", "-r", "bm25").err
    assert "has judgements, and no documents are beside it; only run files are scored without them" in failed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["A.run", "B.run"], "A.run is a run; name its judgements with --qrels FILE, or its dataset with -d"),
        (
            ["bm25", "bm25(k1=2)", "--qrels", "Q"],
            "--qrels FILE goes with run files, and none of these is one: bm25, bm25(k1=2)",
        ),
        ([".", "--qrels", "Q"], "none of these is one: .; if . has run files, give them: ./*"),
        (["A.run", "--qrels", "Q"], "a comparison takes two systems or more; there is only A"),
        (["A.run", "nothere.run", "--qrels", "Q"], "nothere.run"),
        (
            ["x = both.run.gz", "A.run", "--qrels", "Q"],
            "'x' would be the name of 2 runs; give each its own: 'x = both.run.gz#A'",
        ),
        (["A.run", "B.run", "--qrels", "Q", "--lists"], "--qrels compares scores, not lists"),
    ],
)
def test_what_cannot_be_compared_is_one_line(place, capsys, words, message):
    """It says what to type."""
    with pytest.raises(AssertionError, match="lexbench") as ends:
        ended(capsys, 0, "compare", *words)
    assert message in str(ends.value)


def test_equal_names_in_two_folders_are_told_apart(place, capsys):
    """Two files called A.run are shown by what was typed."""
    write_files(place, {"new/A.run": trec("B")})
    assert answer(capsys, "compare", "A.run", "new/A.run", "--qrels", "Q", "--json")["systems"] == ["A.run", "new/A.run"]


def test_missing_queries_and_grades_are_said(place, capsys):
    """A run that lacks queries scores 0 on them, which the comparison says; so it does from which grade RR counts."""
    (place / "short.run").write_text("q1 Q0 d1 1 2 x\n")
    printed = " ".join(ended(capsys, 0, "compare", "A.run", "short.run", "--qrels", "Q", "-m", "RR@10").out.split())
    assert "short on Q: 2 of 3 queries have no document, and score 0" in printed
    assert "Q: the grades are 0, 1, 2, and RR@10 counts a document as relevant from grade 1" in printed


def test_a_system_must_be_one(place):
    """Anything else is refused by its type."""
    with pytest.raises(CommandError, match="int is no system; give names, run files, or runs by name"):
        lexbench.compare("A.run", 3, qrels="Q")


def test_a_third_column_that_falls_is_a_score(place):
    """Ranks count from 1; a score falls; what is neither is refused."""
    (place / "three").write_text("q1 d1 0.5\nq1 d2 0.5\nq1 d3 -1\n")
    assert read_run(place / "three").scores.tolist() == [0.5, 0.5, -1.0]
    (place / "three").write_text("q1 d1 1\nq1 d2 3\n")
    with pytest.raises(InvalidFile, match=r"not the rank .* and not a score that falls"):
        read_run(place / "three")
    assert gzip.decompress((place / "A.run.gz").read_bytes()).decode() == trec("A")


@pytest.mark.parametrize(
    ("score", "said"),
    [
        ("null", "the score is empty"),
        ('""', "the score is empty"),
        ("[1]", "'[1]'"),
        ('"much"', "'much'"),
        ("true", "'True'"),
        ('"1_0"', "'1_0'"),
    ],
)
def test_a_score_that_is_no_number_is_named_with_its_line(tmp_path, score, said):
    """A table with an empty score, a list or a word in place of a number is refused in one line."""
    (tmp_path / "mine.jsonl").write_text(f'{{"qid": "q1", "docno": "d1", "score": {score}}}\n')
    with pytest.raises(InvalidFile) as caught:
        read_run(tmp_path / "mine.jsonl")
    assert str(caught.value).startswith(f"{tmp_path / 'mine.jsonl'}, line 1: ")
    assert said in str(caught.value)


RISING = [("q1", f"d{number}", number / 10) for number in range(6)]  # like distances, the nearest document first


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "qid,docno,score,rank\nq1,d1,0.1,1\nq1,d2,0.9,2\n", "in 1 of 1 lists a later rank has a higher score"),
        ("a.run", "".join(f"{q} Q0 {d} {s:.1f} {at} t\n" for at, (q, d, s) in enumerate(RISING)), "never fall"),  # swapped
        ("a.csv", "qid,docno,score\n" + "".join(f"{q},{d},{s}\n" for q, d, s in RISING), "never fall"),
        ("a.json", json.dumps({"q1": {d: s for _, d, s in RISING}}), "never fall"),
        ("a.json", json.dumps({"q1": {d: -s for _, d, s in RISING}}), ""),
        ("a.json", json.dumps({"q1": {d: s for _, d, s in RISING} | {"d9": 0.1}}), ""),  # a mapping has no order
    ],
)
def test_an_order_against_the_scores_has_a_note(tmp_path, name, content, said):
    """Scores decide; a note says that the ranks contradict them, or that all of them rise, as distances do."""
    write_files(tmp_path, {name: content})
    assert (said in "".join(read_run(tmp_path / name).notes)) if said else read_run(tmp_path / name).notes == ()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("qid,docno,score,sim\nq1,d1,1,2\n", "line 2: is the score in 'score' or in 'sim'?"),
        ("qid,docno,score,Score\nq1,d1,1,2\n", "line 1: two columns are called 'score'"),
    ],
)
def test_two_columns_of_scores_are_refused(tmp_path, content, said):
    """Nobody can tell which of two columns decides."""
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InvalidFile, match=re.escape(said)):
        read_run(tmp_path / "a.csv")


def workbook():
    """Return the bytes of a zip file with a part of an Excel workbook."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return file.getvalue()


@pytest.mark.parametrize("read", [read_run, read_qrels])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"q1": {"d1": 1}}\n', "looks like JSON; let its name end in .json"),
        (b'{"q1": 1}\n', "looks like JSON; let its name end in .json"),  # two columns
        (b'[{"qid": "q1", "docno": "d1", "score": 1}]\n', "looks like JSON; let its name end in .json"),
        (b"qid,docno,score\nq1,d1,1\n", "looks like CSV; let its name end in .csv"),
        (b"q1;d1;1\n", "looks like CSV; let its name end in .csv"),
        (b"PAR1\x15\x04\x15", "looks like Parquet; let its name end in .parquet"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n",
            "it is a pointer of Git LFS, .* git lfs pull",
        ),
        (b"SQLite format 3\0\x10", "it is a database of SQLite; save its tables as CSV"),
        (workbook(), "it is a workbook of Excel; save it as CSV"),
        (b"\x04\x22\x4d\x18\x64", "it is packed and cannot be read; type: lz4 -d"),
    ],
)
def test_a_file_of_another_format_is_named(tmp_path, read, content, said):
    """The content shows what a file is whose name does not."""
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InvalidFile, match=said):
        read(tmp_path / "file")


def test_names_between_blanks_and_pipes_are_refused_by_what_they_are(place, capsys):
    """The line says what to do with a header of a TREC run, and with what can be read only once."""
    (place / "named.run").write_text("qid Q0 docno rank score tag\n" + trec("A"))
    with pytest.raises(InvalidFile, match="1: blanks separate names of columns; remove this line"):
        read_run(place / "named.run")
    (place / "named.run").write_text("queryId\tdocId\tscore\nq1\td1\t2.5\n")
    with pytest.raises(InvalidFile, match="1: the first line has names that are not known: queryId; call them query_id"):
        read_run(place / "named.run")
    os.mkfifo(place / "pipe")
    for words in ("score pipe --qrels Q", "score A.run --qrels pipe", "compare pipe A.run --qrels Q", "audit pipe",
                  "import trec pipe out", "run pipe -r A.run", "run Q -r pipe"):  # fmt: skip
        assert "pipe is a pipe, which can be read only once" in ended(capsys, 2, *words.split()).err


def test_rows_with_scores_and_rows_with_ranks_are_no_run(tmp_path):
    """The score 0.5 of one document and the rank 1 of another cannot be compared."""
    write_rows(tmp_path / "a.jsonl", [{"qid": "q1", "docno": "d1", "score": 0.5}, {"qid": "q1", "docno": "d2", "rank": 1}])
    with pytest.raises(InvalidFile, match="line 2: there is: qid, docno, rank; expected: query_id, doc_id, and score"):
        read_run(tmp_path / "a.jsonl")


def test_a_run_in_memory_is_read_like_a_table():
    """Lists of ids are best first; a set has no order, a float is no id, and True is no score."""
    assert (
        lexbench.score({"q1": ["d2", "d1"]}, qrels=GRADES, measures=["RR(rel=2)@10"]).result.per_query["RR(rel=2)@10"][0] == 0.5
    )
    for wrong, said in (
        ({"q1": {"d1", "d2"}}, "a set, which has no order"),
        ([("q1", 1.0, 0.5)], "the _id 1.0 is not a string"),
        ({"q1": {"d1": True}}, "document 'd1' of query 'q1': the score 'True' is no number"),
    ):
        with pytest.raises(InvalidFile, match=re.escape(said)):
            lexbench.score(wrong, qrels=GRADES)
    with pytest.raises(InvalidFile, match="there are no judgements"):
        lexbench.score({"q1": {"d1": 1}}, qrels={})
