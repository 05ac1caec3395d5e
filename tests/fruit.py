"""A BEIR folder with an obvious order of BM25: documents have four words, so more occurrences of a word rank higher.

`DOCUMENT_VECTORS` and `QUERY_VECTORS` are sparse vectors for it: apple is in four of six documents, fig in three, plum and pear
in two, kiwi in none.
"""

import tiny

CORPUS = {
    "a4": "apple apple apple apple", "a3": "apple apple apple fig", "a2": "apple apple fig fig", "a1": "apple fig fig fig",
    "p1": "pear pear pear plum", "p2": "pear pear plum plum",
}  # fmt: skip
QUERIES = {"qa": "apple", "qf": "fig", "qp": "pear", "qz": "apple", "qn": "plum"}
SAME_QUERIES = (  # the note on qa and qz
    "2 of 5 judged queries have the text of another query with other relevant documents, e.g. 'qa' and 'qz': no system can "
    "rank well for both"
)
DOCUMENT_VECTORS = {
    "a1": {"apple": 1.0, "fig": 3.0}, "a2": {"apple": 2.0, "fig": 2.0}, "a3": {"apple": 3.0, "fig": 0.5}, "a4": {"apple": 4.0},
    "p1": {"pear": 3.0, "plum": 1.0}, "p2": {"pear": 2.0, "plum": 2.0},
}  # fmt: skip
QUERY_VECTORS = {
    "qa": {"apple": 1.5, "fig": 0.25, "kiwi": 2.0}, "qf": {"fig": 1.0}, "qp": {"pear": 1.0}, "qz": {}, "qn": {"plum": 1.0},
}  # fmt: skip
JUDGED = [
    ("qa", "a3", 1), ("qa", "p1", 0),
    ("qf", "a2", 1), ("qf", "a4", 2), ("qf", "gone", 1),  # BM25 does not find a4, and the corpus does not have `gone`
    ("qp", "p1", 1), ("qp", "p2", 1),  # all that BM25 finds is relevant
    ("qz", "gone", 1), ("qn", "p2", 0),
]  # fmt: skip


def write(path, judged=JUDGED, split="train", queries=QUERIES):
    """Write the folder, or another qrels file into it, and return its path."""
    return tiny.write(path, CORPUS, queries, judged, split)


def write_vectors(path):
    """Write the vectors of documents and queries into *path*, and return the expression of the encoder that reads them."""
    for name, vectors in (("documents", DOCUMENT_VECTORS), ("queries", QUERY_VECTORS)):
        records = ({"id": text_id, "contents": "", "vector": vector} for text_id, vector in vectors.items())
        tiny.write_rows(path / f"{name}.jsonl", records)
    return f'vectors(documents="{path}/documents.jsonl", queries="{path}/queries.jsonl", format="seismic")'


def ids(corpus, positions):
    """Return the document ids at corpus *positions*."""
    return [corpus.doc_ids[position].decode() for position in positions]
