"""Writes small BEIR folders, for tests."""

import gzip
import json

from lexbench.cli import code

DOCUMENTS = {"d1": "the red fox", "d2": "a red red car", "d3": "blue sky"}
QUERIES = {"q1": "red car", "q2": "green"}


def enter(tmp_path, monkeypatch):
    """Make *tmp_path* the current folder, with a store in it, and forbid downloads."""
    monkeypatch.setenv("LEXBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("LEXBENCH_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)


def write(place, documents, queries, judged, split="test"):
    """Write a folder of *documents* and *queries*, texts by id, and of judgements (query, document, grade); return its path."""
    for name, texts in (("corpus", documents), ("queries", queries)):
        write_rows(place / f"{name}.jsonl", ({"_id": text_id, "text": text} for text_id, text in texts.items()))
    rows = "".join(f"{query}\t{document}\t{grade}\n" for query, document, grade in judged)
    (place / "qrels").mkdir(exist_ok=True)
    (place / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return place


def write_rows(path, rows):
    """Write *rows* as JSON lines, compressed or not, or as Parquet, by the ending of *path*."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        import pyarrow as pa
        from pyarrow.parquet import write_table

        return write_table(pa.Table.from_pylist(rows), path)
    text = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    return path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def run(capsys, *arguments):
    """Run the command line; return its exit code, stdout and stderr."""
    exit_code = code([str(word) for word in arguments])
    return exit_code, *capsys.readouterr()


def ended(capsys, ends, *arguments):
    """Run the command line, which must end with the exit code *ends*; return what it alone printed, with `out` and `err`."""
    capsys.readouterr()
    found = code([str(word) for word in arguments])
    printed = capsys.readouterr()
    assert found == ends, printed.err
    return printed


def answer(capsys, *arguments):
    """Run the command line, which must succeed; return its answer in JSON."""
    return json.loads(ended(capsys, 0, *arguments).out)
