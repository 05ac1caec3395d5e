"""Files of runs, judgements and collections that are damaged, or made to do harm: read right, or refused in one line."""

import gzip
import json
import shlex

import pytest
import tiny
from tiny import ended

from lexbench.cli import code
from lexbench.errors import InvalidFile
from lexbench.storage import reading
from lexbench.trec.qrels import read_qrels, write_qrels
from lexbench.trec.runs import read_run, write_run

MARK = b"\xef\xbb\xbf"  # of UTF-8, as Windows tools write it at the beginning of a file


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make a BEIR folder of three documents, and a store of its own."""
    tiny.enter(tmp_path, monkeypatch)
    return tiny.write(tmp_path / "tiny", tiny.DOCUMENTS, tiny.QUERIES, [("q1", "d2", 2), ("q2", "d3", 1)])


def scored(capsys, run, qrels):
    """Score a run file; return the exit code, the values of queries, and stderr."""
    exit_code = code(["score", str(run), "--qrels", str(qrels), "-m", "RR@10", "--json"])
    captured = capsys.readouterr()
    return exit_code, json.loads(captured.out)["per_query"]["RR@10"] if captured.out else None, captured.err


def test_a_byte_order_mark_is_no_part_of_an_id(folder, tmp_path, capsys):
    """Runs, judgements and collections with a byte order mark give the scores of those without."""
    run, qrels = tmp_path / "a.run", tmp_path / "a.qrels"
    run.write_bytes(MARK + b"q1 Q0 d2 1 2.0 x\nq2 Q0 d3 1 1.0 x\n")
    qrels.write_bytes(MARK + b"q1 0 d2 1\nq2 0 d3 1\n")
    assert scored(capsys, run, qrels)[:2] == (0, [1.0, 1.0])

    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        (folder / name).write_bytes(MARK + (folder / name).read_bytes())
    assert code(["run", "dataset", str(folder), "-m", "RR@10", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["per_query"]["RR@10"] == [1.0, 0.0]


def test_ids_of_any_bytes_are_scored(tmp_path, capsys):
    """Ids that are not UTF-8 are compared byte by byte, like in trec_eval, and are written back unchanged."""
    run, qrels = tmp_path / "a.run", tmp_path / "a.qrels"
    run.write_bytes(b"q\xff Q0 d\xfe 1 2.0 x\nq\xff Q0 d\xff 2 1.0 x\nq\xc3\xa9 Q0 d 1 1.0 x\n")
    qrels.write_bytes(b"q\xff 0 d\xff 1\nq\xc3\xa9 0 d 1\n")
    exit_code, values, _ = scored(capsys, run, qrels)

    assert (exit_code, values) == (0, [1.0, 0.5])  # by code point é comes before what \xff stands for
    write_run(read_run(run), tmp_path / "b.run")
    write_qrels(read_qrels(qrels), tmp_path / "b.qrels")
    assert scored(capsys, tmp_path / "b.run", tmp_path / "b.qrels")[1] == values
    assert (tmp_path / "b.qrels").read_bytes() == b"q\xc3\xa9 0 d 1\nq\xff 0 d\xff 1\n"


QRELS = b"q1 0 d%b %b\n"


@pytest.mark.parametrize(
    ("read", "content", "said"),
    [
        (read_qrels, b"", "no judgements"),
        (read_qrels, b"# only a comment\n", "no judgements"),
        (read_qrels, QRELS % (b"1", b"2147483648"), "a grade beyond 2147483647: 2147483648"),
        (read_qrels, QRELS % (b"1", b"9" * 30), ":1: '999999999999999999999999999999' is not a number"),
        (read_qrels, QRELS % (b"1", "\uff11".encode()), ":1: '\uff11' is not a number"),
        (read_qrels, QRELS % (b"1", b"1") + QRELS % (b"15\0", b"1"), ":2: there is a NUL byte"),
        (read_qrels, (QRELS % (b"1", b"1")).decode().encode("utf-16"), "UTF-16"),
        (read_run, b"q1 d1 1\nq1 d2 2_0\n", ":2: '2_0' is not a number"),
    ],
)
def test_columns_that_do_not_read(tmp_path, read, content, said):
    """A malformed file is refused with its name and, if possible, the line."""
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InvalidFile) as caught:
        read(path)

    assert said in str(caught.value)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("harm", ["flip", "cut", "garbage", "tail"])
def test_damaged_gzip(tmp_path, capsys, harm):
    """A compressed file that is damaged is refused by its name."""
    packed = gzip.compress(b"".join(b"q%d 0 d%d 1\n" % (n, n * n) for n in range(1000)))
    content = {
        "flip": packed[:200] + bytes([packed[200] ^ 0x55]) + packed[201:],
        "cut": packed[:-9],
        "garbage": b"no gzip",
        "tail": packed + b"no gzip",
    }[harm]
    (tmp_path / "a.qrels.gz").write_bytes(content)
    (tmp_path / "a.run").write_text("q1 Q0 d1 1 1 x\n")
    exit_code, _, err = scored(capsys, tmp_path / "a.run", tmp_path / "a.qrels.gz")

    assert exit_code == 2
    assert err.startswith(f"lexbench: {tmp_path / 'a.qrels.gz'}: ")
    assert err.count("\n") == 1


def test_a_line_without_an_end_is_refused(tmp_path, monkeypatch):
    """A file with one endless line, e.g. from a small archive, is refused before it fills the memory."""
    monkeypatch.setattr(reading, "_LONGEST", 1 << 16)
    monkeypatch.setattr(reading, "_BLOCK", 1 << 14)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"a" * (1 << 20)))

    with pytest.raises(InvalidFile, match="a line of more than 65,536 bytes"):
        list(reading.lines(tmp_path / "bomb.gz"))
    with pytest.raises(InvalidFile, match="a line of more than 65,536 bytes"):
        list(reading.blocks(tmp_path / "bomb.gz"))


DEEP = '{"_id": "d9", "text": "x", "more": ' + "[" * 100_000 + "]" * 100_000 + "}\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("corpus.jsonl", "", "corpus.jsonl: the corpus has no documents"),
        ("corpus.jsonl", '{"_id": "a", "text": "x"}\n\n{"_id": "a", "text": "y"}\n', "corpus.jsonl:1 and 3: two documents"),
        ("corpus.jsonl", '{"_id": "a", "text": "x"}\n{"_id": "b c", "text": "y"}\n', "corpus.jsonl:2: document id 'b c'"),
        ("corpus.jsonl", '{"_id": "a\\u0000b", "text": "x"}\n', "line 1: the id 'a\\x00b' has a NUL"),
        ("corpus.jsonl", '{"_id": "' + "d" * 100_000 + '", "text": "x"}\n', "line 1: an id of 100,000 characters"),
        ("corpus.jsonl", '{"_id": "\\ud800", "text": "x"}\n', "half of a surrogate pair"),
        ("corpus.jsonl", DEEP, "line 1: it is nested too deep"),
        ("corpus.jsonl", "[]\n", "line 1: not a JSON object"),
        ("corpus.jsonl", '{"_id": 7.5, "text": "x"}\n', "line 1: the _id 7.5 is not a string"),
        ("corpus.jsonl", '{"_id": true, "text": "x"}\n', "line 1: the _id True is not a string"),
        ("corpus.jsonl", '{"_id": "d", "text": 7}\n', "document 'd' has no field 'text'"),
        ("queries.jsonl", '{"_id": "q1", "text": "x"}\n{"_id": "q1", "text": "y"}\n', "queries.jsonl:1 and 2: two queries"),
        (
            "qrels/test.tsv",
            "query-id\tcorpus-id\tscore\nq1\td2\t1\nq1\td2\t2\n",
            "test.tsv:2 and 3: document 'd2' of query 'q1' has two grades, 1 and 2",
        ),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td2\t3000000000\n", "beyond 2147483647"),
    ],
)
def test_a_faulty_collection_is_named_and_not_tried_again(folder, capsys, name, content, said):
    """The error names the file and, if possible, the line, and does not suggest to try again."""
    (folder / name).write_text(content)
    exit_code = code(["run", "dataset", str(folder)])
    err = capsys.readouterr().err

    assert exit_code == (2 if said in ("line 1: it is nested too deep", "line 1: not a JSON object") else 1)  # 2 before a job
    assert said in err
    assert "again:" not in err
    assert "Traceback" not in err


def test_halves_of_surrogate_pairs_in_texts_become_one_sign(folder, capsys):
    """Half of a surrogate pair, which JSON can spell, becomes U+FFFD as in Lucene, and every stage works."""
    lines = (folder / "corpus.jsonl").read_text() + '{"_id": "d4", "text": "red \\ud800 car \\ud83e\\udd8a"}\n'
    (folder / "corpus.jsonl").write_text(lines)
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "red \\udc00 car"}\n{"_id": "q2", "text": "sky"}\n')

    assert code(["run", "dataset", str(folder), "-r", "bm25"]) == 0, capsys.readouterr().err
    assert "red \ufffd car" in ended(capsys, 0, "explain", "qid:q1", "-r", "bm25", "-d", str(folder)).out


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000, "\x1b", ""])
def test_an_endless_setting_costs_one_line(folder, capsys, value):
    """An impossible number in a recipe is refused in one line, however long or nested it is."""
    exit_code = code(["train", "pretrain", "lexmae_nano", "--dry-run", "--set", f"pretrain.steps={value}"])
    err = capsys.readouterr().err

    assert exit_code == 2
    assert "mistake" not in err
    assert err.count("\n") == 1


def test_a_fault_that_may_pass_is_tried_again(folder, capsys, monkeypatch):
    """If the same command may succeed after a plug-in is repaired, the message says so."""

    def breaks(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("lexbench.retrievers.bm25.BM25.open", breaks)

    assert f"; again: lexbench run dataset {shlex.quote(str(folder))}" in ended(capsys, 1, "run", "dataset", str(folder)).err
