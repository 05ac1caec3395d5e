"""Writes small BEIR folders, for tests."""

import json

from lexbench.cli import code

DOCUMENTS = {"d1": "the red fox", "d2": "a red red car", "d3": "blue sky"}
QUERIES = {"q1": "red car", "q2": "green"}


def enter(tmp_path, monkeypatch):
    """Make *tmp_path* the current folder, with a store in it, and forbid downloads."""
    monkeypatch.setenv("LEXBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("LEXBENCH_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)


def write(place, documents, queries, judged):
    """Write a folder of *documents* and *queries*, texts by id, and of judgements (query, document, grade); return its path."""
    (place / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", documents), ("queries", queries)):
        rows = "".join(json.dumps({"_id": text_id, "text": text}) + "\n" for text_id, text in texts.items())
        (place / f"{name}.jsonl").write_text(rows)
    rows = "".join(f"{query}\t{document}\t{grade}\n" for query, document, grade in judged)
    (place / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return place


def run(capsys, *arguments):
    """Run the command line; return its exit code, stdout and stderr."""
    exit_code = code([str(word) for word in arguments])
    return exit_code, *capsys.readouterr()
