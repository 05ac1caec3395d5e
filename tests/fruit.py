"""A BEIR folder with an obvious BM25 order: documents have four words, so more occurrences of a word rank higher."""

import json

CORPUS = {
    "a4": "apple apple apple apple",
    "a3": "apple apple apple fig",
    "a2": "apple apple fig fig",
    "a1": "apple fig fig fig",
    "p1": "pear pear pear plum",
    "p2": "pear pear plum plum",
}
QUERIES = {"qa": "apple", "qf": "fig", "qp": "pear", "qz": "apple", "qn": "plum"}
JUDGED = [
    ("qa", "a3", 1),
    ("qa", "p1", 0),
    ("qf", "a2", 1),
    ("qf", "a4", 2),  # relevant, and BM25 does not find it
    ("qf", "gone", 1),  # the corpus does not have it
    ("qp", "p1", 1),  # all that BM25 finds is relevant
    ("qp", "p2", 1),
    ("qz", "gone", 1),
    ("qn", "p2", 0),
]


def write(path, judged=JUDGED, split="train", queries=QUERIES):
    """Write the folder, or another qrels file into it, and return its path."""
    (path / "qrels").mkdir(parents=True, exist_ok=True)
    (path / "corpus.jsonl").write_text(lines({"_id": name, "title": "", "text": text} for name, text in CORPUS.items()))
    (path / "queries.jsonl").write_text(lines({"_id": name, "text": text} for name, text in queries.items()))
    rows = "".join(f"{query}\t{document}\t{grade}\n" for query, document, grade in judged)
    (path / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return path


def lines(records):
    """Return *records* as JSON lines."""
    return "".join(json.dumps(record) + "\n" for record in records)


def ids(corpus, positions):
    """Return the document ids at corpus *positions*."""
    return [corpus.doc_ids[position].decode() for position in positions]
