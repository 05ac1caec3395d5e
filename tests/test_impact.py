"""The engine `impact`, against scipy's product of whole numbers."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from lexbench.engines.impact import Impact
from lexbench.engines.kernels import impact_index, llvm
from lexbench.errors import LexbenchError

SMALL = {"window": 128, "group": 512}  # so that a few hundred documents have several of each


def drawn(rng, rows, frequencies, weights):
    """Return *rows* vectors; term t is in a row with probability frequencies[t], its weight one of *weights*."""
    matrix = (rng.random((rows, len(frequencies))) < frequencies) * rng.choice(weights, (rows, len(frequencies)))
    return sparse.csr_array(matrix.astype(np.float32))


def by_scipy(documents, queries, k):
    """Return positions and scores of the best k of each query, -1 and -inf where there are no more."""
    products = (queries.astype(np.int64) @ documents.astype(np.int64).T).toarray()
    order = np.lexsort((np.broadcast_to(np.arange(documents.shape[0]), products.shape), -products), axis=1)[:, :k]
    found = np.take_along_axis(products, order, axis=1)
    return np.where(found > 0, order, -1), np.where(found > 0, found, -np.inf)


def indexed(path, *shards, threads=1, **sizes):
    """Build and open an index."""
    path.mkdir(exist_ok=True)
    Impact().build(iter(shards), path, **(sizes or SMALL))
    return Impact(threads).open(path)


FREQUENCIES = np.array([0.9, 0.5, 0.2, 0.1, 0.08, 0.05, 0.02, 0.005, 0.0, 1.0])


@pytest.mark.parametrize("expands", [True, False])
@pytest.mark.parametrize("weights", [[1], [1, 2, 3], range(1, 256), [1, 255, 256, 257, 512, 65_535]], ids=len)
def test_hits_are_those_of_scipy(tmp_path, weights, expands):
    """Dense and rare terms, ties, weights of one byte and two, several windows and groups: scores and order are scipy's."""
    rng = np.random.default_rng(7)
    documents, queries = drawn(rng, 1500, FREQUENCIES, weights), drawn(rng, 30, np.full(10, 0.5), range(1, 50))
    index = indexed(tmp_path, documents)
    index._expands = index._expands and expands
    for k in (1, 10, 200, 1500, 2000):
        docs, scores = by_scipy(documents, queries, k)
        hits = index.search(queries, k)
        assert np.array_equal(docs, hits.docs)
        assert np.array_equal(scores.astype(np.float32), hits.scores)


def test_machines_with_and_without_expansion_agree(tmp_path):
    """The path for machines that cannot spread bytes by a mask is taken when it is to be, and finds the same."""
    rng = np.random.default_rng(11)
    documents, queries = drawn(rng, 700, np.full(6, 0.4), range(1, 256)), drawn(rng, 9, np.full(6, 0.6), range(1, 9))
    index = indexed(tmp_path, documents)
    index._expands = False
    hits = index.search(queries, 50)

    assert np.array_equal(by_scipy(documents, queries, 50)[0], hits.docs)
    assert isinstance(llvm.machine_expands(), bool)


@pytest.mark.parametrize("documents", [1, 63, 64, 65, 127, 128, 129, 511, 512, 513, 1024])
def test_the_last_document_of_a_window_and_the_first_of_the_next_are_found(tmp_path, documents):
    """Around borders of blocks, windows and groups each document is found by the one term that it alone has."""
    hits = indexed(tmp_path, sparse.csr_array(sparse.eye_array(documents, dtype=np.float32) * 3)).search(
        sparse.csr_array(sparse.eye_array(documents, dtype=np.float32) * 2), 2
    )

    assert hits.docs[:, 0].tolist() == list(range(documents))
    assert hits.scores[:, 0].tolist() == [6.0] * documents
    assert np.all(hits.docs[:, 1:] == -1)


def test_default_sizes_find_the_same(tmp_path):
    """More documents than a window of the default size has, at the default sizes."""
    rng = np.random.default_rng(5)
    documents, queries = drawn(rng, 10_000, FREQUENCIES[1:], range(1, 300)), drawn(rng, 8, np.full(9, 0.5), range(1, 150))
    Impact().build(iter([documents]), tmp_path)
    hits = Impact().open(tmp_path).search(queries, 1000)

    assert np.array_equal(by_scipy(documents, queries, 1000)[0], hits.docs)


def test_shards_of_any_size_make_the_same_bytes(tmp_path):
    """One shard, many of odd sizes, and empty ones in between: the files are equal, byte by byte."""
    documents = drawn(np.random.default_rng(1), 1300, FREQUENCIES, range(1, 700))
    cuts = [0, 0, 1, 200, 200, 512, 513, 1290, 1300]
    indexed(tmp_path / "one", documents)
    indexed(tmp_path / "many", *(documents[start:stop] for start, stop in pairwise(cuts)))
    one, many = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "many"))

    assert len(one) == 9
    assert one == many


def test_memory_does_not_grow_with_the_collection(tmp_path, monkeypatch):
    """Eight times as many documents take less than a fifth more memory to build; they are made one shard at a time."""
    monkeypatch.setattr(impact_index, "_GATHERED", 20_000)
    peaks = []
    for name, count in (("warm", 4), ("few", 10), ("many", 80)):
        (tmp_path / name).mkdir()
        tracemalloc.start()
        shards = (drawn(np.random.default_rng(seed), 512, np.full(60, 0.5), [1]) for seed in range(count))
        Impact().build(shards, tmp_path / name, window=512, group=1024)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert peaks[2] < 1.2 * peaks[1]


def test_threads_cannot_change_an_answer(tmp_path):
    """One thread and three, also with fewer queries than threads."""
    rng = np.random.default_rng(2)
    documents, queries = drawn(rng, 900, FREQUENCIES, range(1, 256)), drawn(rng, 7, np.full(10, 0.5), range(1, 99))
    one = indexed(tmp_path, documents)
    three = Impact(threads=3).open(tmp_path)
    for some in (queries, queries[:1], queries[:0]):
        assert np.array_equal(one.search(some, 20).docs, three.search(some, 20).docs)
        assert np.array_equal(one.search(some, 20).scores, three.search(some, 20).scores)


def test_a_wrong_guess_costs_a_second_pass_and_no_hit(tmp_path):
    """The first 1,000 documents score 100 and more, the others less: what the 2,000th is expected to score is too high."""
    weights = np.random.default_rng(8).integers(1, 100, (20_000, 1))
    weights[:1000] += 99
    documents, queries = sparse.csr_array(weights.astype(np.float32)), sparse.csr_array(np.ones((1, 1), np.float32))
    hits, counts = indexed(tmp_path, documents).search_counted(queries, 2000)

    assert counts["passes"].tolist() == [2]
    assert np.array_equal(by_scipy(documents, queries, 2000)[0], hits.docs)


def test_a_right_guess_takes_one_pass(tmp_path):
    """Documents in no order: their first are like all of them."""
    rng = np.random.default_rng(9)
    documents, queries = drawn(rng, 20_000, FREQUENCIES, range(1, 256)), drawn(rng, 9, np.full(10, 0.9), range(1, 99))
    hits, counts = indexed(tmp_path, documents, window=1024, group=4096).search_counted(queries, 500)

    assert counts["passes"].tolist() == [1] * 9
    assert np.array_equal(by_scipy(documents, queries, 500)[0], hits.docs)


def test_terms_of_no_document_and_queries_of_nothing_find_nothing(tmp_path):
    """Term 8 is in no document; the second query has no term; the third has a stored zero."""
    documents = drawn(np.random.default_rng(3), 300, FREQUENCIES, [5])
    queries = sparse.csr_array((np.array([9.0, 0.0], np.float32), np.array([8, 0]), np.array([0, 1, 1, 2])), shape=(3, 10))
    hits = indexed(tmp_path, documents).search(queries, 3)

    assert hits.docs.tolist() == [[-1] * 3] * 3
    assert hits.scores.tolist() == [[-np.inf] * 3] * 3


@pytest.mark.parametrize("shards", [[], [sparse.csr_array((0, 4), dtype=np.float32)]], ids=["none", "empty"])
def test_no_documents_are_an_index(tmp_path, shards):
    """Nothing is found in nothing."""
    index = indexed(tmp_path, *shards)

    assert index.search(sparse.csr_array(np.ones((2, 4), np.float32)), 5).docs.shape == (2, 0)


def test_documents_without_terms_are_an_index(tmp_path):
    """Documents that are all empty count as positions and are not found."""
    index = indexed(tmp_path, sparse.csr_array((200, 4), dtype=np.float32))

    assert index.search(sparse.csr_array(np.ones((1, 4), np.float32)), 2).docs.tolist() == [[-1, -1]]


def test_an_index_opens_from_another_folder(tmp_path):
    """The folder is all there is."""
    documents = drawn(np.random.default_rng(4), 300, FREQUENCIES, range(1, 9))
    queries = documents[:5]
    first = indexed(tmp_path / "here", documents).search(queries, 10)
    again = Impact().open((tmp_path / "here").rename(tmp_path / "there")).search(queries, 10)

    assert np.array_equal(first.docs, again.docs)
    assert np.array_equal(first.scores, again.scores)


def test_sums_that_float32_cannot_hold_are_ordered_exactly_and_then_by_position(tmp_path):
    """2**24 and 2**24 + 1 are one float32: of the best two both are found, the lower position first; of one, the larger sum."""
    documents = sparse.csr_array(np.array([[4096, 0], [4096, 1], [1, 0]], np.float32))
    query = sparse.csr_array(np.array([[4096, 1]], np.float32))
    index = indexed(tmp_path, documents)

    assert index.search(query, 1).docs.tolist() == [[1]]
    assert index.search(query, 2).docs.tolist() == [[0, 1]]
    assert index.search(query, 2).scores.tolist() == [[2.0**24, 2.0**24]]


def test_sums_up_to_the_largest_int32_are_exact_and_above_are_refused(tmp_path):
    """65,535 x 32,768 + 32,767 is 2**31 - 1: found; one more could be reached: a line says so."""
    index = indexed(tmp_path, sparse.csr_array(np.array([[65_535, 1], [65_534, 1]], np.float32)))
    hits = index.search(sparse.csr_array(np.array([[32_768, 32_767]], np.float32)), 2)

    assert hits.docs.tolist() == [[0, 1]]
    assert hits.scores[0, 0] == np.float32(2**31 - 1)
    with pytest.raises(LexbenchError, match=r"adds up to 2,147,483,647, and the scores of a query could reach 2,147,483,648"):
        index.search(sparse.csr_array(np.array([[32_768, 32_768]], np.float32)), 2)


@pytest.mark.parametrize("weight", [0.5, -1, 65_536, np.nan])
def test_weights_that_are_not_whole_are_refused(tmp_path, weight):
    """In documents and in queries, in one line."""
    vectors = sparse.csr_array(np.array([[1, weight]], np.float32))
    with pytest.raises(LexbenchError, match="impact takes whole weights from 0 to 65,535"):
        Impact().build(iter([vectors]), tmp_path)
    with pytest.raises(LexbenchError, match="impact takes whole weights from 0 to 65,535"):
        indexed(tmp_path, sparse.csr_array(np.array([[1, 1]], np.float32))).search(vectors, 1)


def test_vectors_of_another_width_are_refused(tmp_path):
    """A shard or a query of another vocabulary."""
    with pytest.raises(LexbenchError, match="vectors of 3 terms and of 4"):
        indexed(tmp_path, *(sparse.csr_array(np.ones((1, width), np.float32)) for width in (3, 4)))
    with pytest.raises(LexbenchError, match="queries have 4 terms and the index has 3"):
        indexed(tmp_path, sparse.csr_array(np.ones((1, 3), np.float32))).search(
            sparse.csr_array(np.ones((1, 4), np.float32)), 1
        )


def test_counters_are_those_counted_by_hand(tmp_path):
    """A weight above 255 is one posting, a weight of 0 none; a query's zero is no term."""
    documents = sparse.csr_array(np.array([[300, 0, 1], [256, 2, 0], [0, 0, 7]], np.float32))
    queries = sparse.csr_array(
        (np.array([1, 1, 0, 5], np.float32), np.array([0, 2, 1, 1]), np.array([0, 3, 4, 4])), shape=(3, 3)
    )
    index = indexed(tmp_path, documents)
    counters = index.counters(queries)

    assert index.document_frequency.tolist() == [2, 1, 2]
    assert counters["query_terms"].tolist() == [2, 1, 0]
    assert counters["postings"].tolist() == [4, 1, 0]


def test_a_weight_that_is_given_twice_is_their_sum(tmp_path):
    """As everywhere in scipy; columns may come in any order."""
    twice = sparse.csr_array((np.array([1, 2, 4], np.float32), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    hits = indexed(tmp_path, twice).search(twice, 1)

    assert hits.scores.tolist() == [[2 * 2 + 5 * 5]]
