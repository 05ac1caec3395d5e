"""Stored vectors: the content of a shard, how shards are made, and the counts of vectors."""

import numpy as np
import pytest
import tiny
from safetensors.numpy import load_file
from scipy import sparse
from staged import Letters, contents, encode

from lexbench.arrays.vectors import stacked
from lexbench.encodings import shards as format_
from lexbench.encodings.counts import SparseCounts, query_work, spread
from lexbench.encodings.shards import Encodings, read_rows, read_shard, write_shard
from lexbench.errors import InvalidFile, LexbenchError
from lexbench.plugins import Encoder
from lexbench.types import MultiVectors

ROWS = np.array([[0, 1.5, 0, 2], [0, 0, 0, 0], [0.1, 0, 0, 0]], np.float32)


@pytest.fixture
def small_shards(monkeypatch):
    """Make shards of three documents."""
    monkeypatch.setattr(format_, "SHARD", 3)


@pytest.fixture
def corpus(tmp_path):
    """Write a corpus of ten documents, one of whose texts is empty."""
    texts = ["a b c", "", "a", "b b", "c a", "d", "e e e e", "a e", "b", "c c"]
    return tiny.corpus(tmp_path / "corpus", {str(i): text for i, text in enumerate(texts)})


def several(rows):
    """Return vectors of texts: each number of a row is the first of a vector (number, 1), and zeros are left out."""
    values = [(value, 1) for row in rows for value in row if value]
    return MultiVectors(np.array(values, np.float32).reshape(-1, 2), np.cumsum([0, *(rows != 0).sum(axis=1)]))


def same(one, other):
    """Return whether two sets of vectors are equal."""
    if isinstance(one, MultiVectors):
        return one.values.dtype == np.float32 and all(map(np.array_equal, one, other))
    one, other = (vectors.toarray() if sparse.issparse(vectors) else vectors for vectors in (one, other))
    return one.dtype == np.float32 and np.array_equal(one, other)


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("storage", ["float16", "float32"])
@pytest.mark.parametrize("form", [sparse.csr_array, np.asarray, several])
@pytest.mark.parametrize("wide", [5, 70_000])
def test_single_rows_are_those_of_whole_shards(tmp_path, form, storage, wide):
    """Rows read alone or in whole shards are those stored, also in the short last shard and in one without weights."""
    whole = np.zeros((8, wide), np.float32)
    whole[[0, 2, 6, 6, 7], [1, 3, 0, wide - 1, 4]] = 0.1, 2, 3, 4, 5  # the shard of rows 3 to 5 has none
    for number, start in enumerate(range(0, 8, 3)):
        write_shard(tmp_path / f"shard-{number:05d}.safetensors", form(whole[start : start + 3]), storage=storage)
    first = load_file(tmp_path / "shard-00000.safetensors")
    assert [array.dtype for name, array in first.items() if name in ("weights", "vectors")] == [storage]
    if form is sparse.csr_array:
        assert first["terms"].dtype == (np.uint16 if wide == 5 else np.uint32)  # terms take two bytes if that is enough
    stored = whole.astype(storage).astype(np.float32)
    assert same(stacked(list(Encodings(tmp_path).shards())), form(stored))
    for positions in ([0], [7], [4, 5], [0, 2, 4, 6, 7], list(range(8))):
        assert same(read_rows(tmp_path, np.array(positions, np.int32)), form(stored[positions]))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 70_000.0])
def test_values_that_are_no_numbers_are_refused(wrong, tmp_path):
    """NaN, infinity, and what half precision cannot hold raise an error, and nothing is written."""
    with pytest.raises(LexbenchError, match="not finite float16 numbers"):
        write_shard(tmp_path / "x", sparse.csr_array(np.array([[wrong]], np.float32)), storage="float16")
    assert list(tmp_path.iterdir()) == []


def test_duplicate_entries_are_added_and_zeros_dropped(tmp_path):
    """An encoder may return an untidy matrix; the stored one is canonical."""
    untidy = sparse.csr_array((np.array([1.0, 0.0, 2.0], np.float32), np.array([3, 1, 3]), np.array([0, 3])), shape=(1, 4))
    write_shard(tmp_path / "x", untidy)

    assert load_file(tmp_path / "x")["terms"].tolist() == [3]
    assert load_file(tmp_path / "x")["weights"].tolist() == [3.0]


@pytest.mark.usefixtures("small_shards")
def test_overlapping_steps_give_the_vectors_of_one_call(corpus, tmp_path):
    """Four shards of three documents hold the vectors of encoding all texts at once, in order; cut texts are counted."""
    (tmp_path / "out").mkdir()
    heard = encode(Letters(), corpus, tmp_path / "out")
    stored = sparse.vstack(list(Encodings(tmp_path / "out").shards()))

    assert len(contents(tmp_path / "out")) == 4
    assert np.array_equal(Letters().encode_document([one.text for one in corpus.documents()]).toarray(), stored.toarray())
    assert Encodings(tmp_path / "out").truncated() == 2  # "a b c" and "e e e e"
    assert sum(heard.done) == 10


def test_a_broken_file_of_a_model_is_read_once(corpus, tmp_path):
    """Such an error belongs to no document, so the encoder is not called again to find one."""
    calls = []

    class Broken(Encoder):
        def encode_document(self, texts):
            calls.append(len(texts))
            raise InvalidFile("vocab.txt: too many words")

    (tmp_path / "out").mkdir()
    with pytest.raises(InvalidFile, match=r"vocab\.txt: too many words"):
        encode(Broken(), corpus, tmp_path / "out")
    assert len(calls) == 1


def test_an_encoder_that_takes_texts_gets_them_in_batches(corpus, tmp_path, monkeypatch):
    """An encoder need not cut batches itself."""
    monkeypatch.setattr("lexbench.plugins._BATCH", 4)
    sizes = []

    class Lengths(Encoder):
        def encode_document(self, texts):
            sizes.append(len(texts))
            return np.array([[len(text)] for text in texts], np.float32)

        encode_query = encode_document

    (tmp_path / "out").mkdir()
    encode(Lengths(), corpus, tmp_path / "out")

    assert sizes == [4, 4, 2]
    assert read_shard(tmp_path / "out" / "shard-00000.safetensors")[:, 0].tolist() == [3, 1, 3, 7, 1, 3, 3, 1, 0, 5]


@pytest.mark.parametrize("form", [sparse.csr_array, np.asarray, several])
@pytest.mark.parametrize("count", [9, 11])
def test_another_number_of_vectors_is_refused(corpus, tmp_path, form, count):
    """Vectors that are one too few or too many would belong to other documents."""

    class Wrong(Encoder):
        def encode_document(self, texts):
            return form(np.ones((count, 4), np.float32))

    with pytest.raises(LexbenchError, match=f"Wrong made {count} vectors for 10 documents; it must make one for each"):
        encode(Wrong(), corpus, tmp_path / "vectors")


def test_counts_of_vectors_by_hand():
    """Terms per document, documents per term, empty documents and the largest weights of examples."""
    counts = SparseCounts(3)
    passed = list(counts.watch([sparse.csr_array(ROWS[:2]), sparse.csr_array(ROWS[2:])]))
    summary = counts.summary(np.array([b"z", b"y", b"x"]), "abcd".__getitem__)

    assert [shard.shape[0] for shard in passed] == [2, 1]
    assert counts.document_frequency.tolist() == [1, 1, 0, 1]
    assert summary["terms"] == {"mean": 1.0, "p50": 1.0, "p95": pytest.approx(1.9), "max": 2.0}
    assert summary["empty"] == 1
    assert summary["bytes_per_document"] == 3.0
    assert summary["examples"] == {"z": "d 2, b 1.5", "y": "", "x": "a 0.1"}


def test_work_of_a_query_is_the_postings_of_its_terms():
    """The work of a query is the number of documents with each of its terms, summed; an empty query has none."""
    queries = sparse.csr_array(np.array([[0, 0, 0], [1, 0, 2], [0, 0, 0], [0, 3, 0], [0, 0, 0]], np.float32))
    work = query_work(queries, np.array([10, 20, 5]))

    assert work["query_terms"].tolist() == [0, 2, 0, 1, 0]
    assert work["postings"].tolist() == [0, 15, 0, 20, 0]
    assert query_work(queries[:1], np.array([1, 1, 1]))["postings"].tolist() == [0]
    assert spread(np.zeros(0)) == {}
