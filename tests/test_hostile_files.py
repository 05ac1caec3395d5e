"""Damaged or malicious files of runs, judgements and collections are read correctly or refused in one line."""

import gzip
import json
import shlex

import pytest
import tiny
from tiny import answer, ended

from lexbench.errors import InvalidFile
from lexbench.storage import reading
from lexbench.trec.qrels import read_qrels, write_qrels
from lexbench.trec.runs import read_run, write_run

MARK = b"\xef\xbb\xbf"  # of UTF-8, as Windows tools write it at the beginning of a file


@pytest.fixture
def folder(store, tmp_path):
    """Make a BEIR folder of three documents, and a store of its own."""
    return tiny.write(tmp_path / "tiny", tiny.DOCUMENTS, tiny.QUERIES, [("q1", "d2", 2), ("q2", "d3", 1)])


def scored(capsys, run, qrels):
    """Score a run file; return the exit code, the values of queries, and stderr."""
    exit_code, out, err = tiny.run(capsys, "score", run, "--qrels", qrels, "-m", "RR@10", "--json")
    return exit_code, json.loads(out)["per_query"]["RR@10"] if out else None, err


def test_a_byte_order_mark_is_no_part_of_an_id(folder, tmp_path, capsys):
    """Runs, judgements and collections with a byte order mark give the scores of those without."""
    run, qrels = tmp_path / "a.run", tmp_path / "a.qrels"
    run.write_bytes(MARK + b"q1 Q0 d2 1 2.0 x\nq2 Q0 d3 1 1.0 x\n")
    qrels.write_bytes(MARK + b"q1 0 d2 1\nq2 0 d3 1\n")
    assert scored(capsys, run, qrels)[:2] == (0, [1.0, 1.0])

    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        (folder / name).write_bytes(MARK + (folder / name).read_bytes())
    (result,) = answer(capsys, "run", "dataset", folder, "-m", "RR@10", "--json")["results"]
    assert result["per_query"]["RR@10"] == [1.0, 0.0]


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


PACKED = gzip.compress(b"".join(b"q%d 0 d%d 1\n" % (n, n * n) for n in range(1000)))
FLIPPED = PACKED[:200] + bytes([PACKED[200] ^ 0x55]) + PACKED[201:]


@pytest.mark.parametrize("content", [FLIPPED, PACKED[:-9], b"no gzip", PACKED + b"no gzip"], ids=range(4))
def test_damaged_gzip(tmp_path, capsys, content):
    """A compressed file that is damaged is refused by its name."""
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


def test_halves_of_surrogate_pairs_in_texts_become_one_sign(folder, capsys):
    """Half of a surrogate pair, which JSON can spell, becomes U+FFFD as in Lucene, and every stage works."""
    lines = (folder / "corpus.jsonl").read_text() + '{"_id": "d4", "text": "red \\ud800 car \\ud83e\\udd8a"}\n'
    (folder / "corpus.jsonl").write_text(lines)
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "red \\udc00 car"}\n{"_id": "q2", "text": "sky"}\n')

    ended(capsys, 0, "run", "dataset", folder, "-r", "bm25")
    assert "red \ufffd car" in ended(capsys, 0, "explain", "qid:q1", "-r", "bm25", "-d", str(folder)).out


def test_a_fault_that_may_pass_is_tried_again(folder, capsys, monkeypatch):
    """If the same command may succeed after a plug-in is repaired, the message says so."""

    def breaks(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("lexbench.retrievers.bm25.BM25.open", breaks)

    assert f"; again: lexbench run dataset {shlex.quote(str(folder))}" in ended(capsys, 1, "run", "dataset", str(folder)).err
