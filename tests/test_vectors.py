"""Published sparse vectors are searched and scored like our own."""

import json
from pathlib import Path

import pytest
import tiny
from scipy import sparse
from staged import encode

from lexbench import registry
from lexbench.encodings.shards import Encodings
from lexbench.errors import InvalidFile, LexbenchError
from lexbench.notation import Call
from lexbench.types import Query

DOCUMENTS = {"a": {"red": 3, "fox": 2}, "b": {"fox": 1}, "c": {}}
QUERIES = {"q2": {"fox": 2, "blue": 9}, "q1": {"red": 1}}


@pytest.fixture
def files(tmp_path):
    """Write documents and queries in Anserini's form; no document has the query term `blue`."""
    lines = [json.dumps({"id": name, "contents": "", "vector": vector}) for name, vector in DOCUMENTS.items()]
    (tmp_path / "documents.jsonl").write_text("\n".join(lines) + "\n")
    topics = [f"{name}\t{' '.join(' '.join([token] * n) for token, n in vector.items())}" for name, vector in QUERIES.items()]
    (tmp_path / "topics.tsv").write_text("\n".join(topics) + "\n")
    return {"documents": str(tmp_path / "documents.jsonl"), "queries": str(tmp_path / "topics.tsv")}


def vectors(**settings):
    """Return the encoder."""
    return registry.create("encoders", Call("vectors", kwargs=tuple(settings.items())))


def encoded(encoder, tmp_path, ids="cba"):
    """Return the stored vectors of documents with these ids, in position order."""
    (tmp_path / "out").mkdir()
    encode(encoder, tiny.corpus(tmp_path / "corpus", dict.fromkeys(ids, "")), tmp_path / "out")
    return sparse.vstack(list(Encodings(tmp_path / "out").shards())).toarray()


def test_documents_and_queries_are_found_by_id(files, tmp_path):
    """Vectors are looked up by id; a query term that no document has is left out."""
    encoder = vectors(**files)

    assert [encoder.token(0), encoder.token(1)] == ["red", "fox"]
    assert encoded(encoder, tmp_path).tolist() == [[0, 0], [0, 1], [3, 2]]  # c, b, a
    assert encoder.encode_queries([Query("q1", ""), Query("q2", "")]).toarray().tolist() == [[1, 0], [0, 2]]


def test_a_vocabulary_file_numbers_the_terms(files, tmp_path):
    """With a vocabulary the terms have its numbers."""
    (tmp_path / "vocab.txt").write_text("blue\nfox\ngreen\nred\n")
    encoder = vectors(**files, vocabulary=str(tmp_path / "vocab.txt"))

    assert encoder.token(3) == "red"
    assert encoder.encode_queries([Query("q2", "")]).toarray().tolist() == [[9, 2, 0, 0]]
    assert encoded(encoder, tmp_path).shape == (3, 4)


def test_a_missing_vector_is_named(files, tmp_path):
    """A document or query without a vector is an error with its id."""
    encoder = vectors(**files)
    with pytest.raises(LexbenchError, match="has no vector of query 'q7'"):
        encoder.encode_queries([Query("q1", ""), Query("q7", "")])
    with pytest.raises(LexbenchError, match="has no vector of document 'z', 'y', 'x' and 1 more"):
        encoded(encoder, tmp_path, "abwxyz")


def test_a_second_vector_of_an_id_is_refused(files, tmp_path):
    """A document with two vectors is an error with its id."""
    documents = Path(files["documents"])
    documents.write_text(documents.read_text() + documents.read_text().splitlines()[1] + "\n")
    with pytest.raises(InvalidFile, match=r"documents\.jsonl: two vectors have the id '[abc]', and .*; keep one of them"):
        encoded(vectors(**files), tmp_path)
