"""The engine `impact`, against scipy's product of whole numbers."""

import gc
import os
import platform
import subprocess
import sys
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from scipy import sparse
from workbench import built

from lexbench.engines.impact import Impact
from lexbench.engines.kernels import impact_index
from lexbench.errors import LexbenchError

SMALL = {"WINDOW": 128, "PART": 3000}  # so that a few hundred documents have several of each


def drawn(rng, rows, frequencies, weights):
    """Return *rows* vectors; term t is in a row with probability frequencies[t], its weight one of *weights*."""
    matrix = (rng.random((rows, len(frequencies))) < frequencies) * rng.choice(weights, (rows, len(frequencies)))
    return sparse.csr_array(matrix.astype(np.float32))


def same(hits, documents, queries, k):
    """Compare *hits* with scipy's products: the best k of each query, -1 and -inf where there are no more."""
    products = (queries.astype(np.int64) @ documents.astype(np.int64).T).toarray()
    order = np.lexsort((np.broadcast_to(np.arange(documents.shape[0]), products.shape), -products), axis=1)[:, :k]
    found = np.take_along_axis(products, order, axis=1)
    assert np.array_equal(hits.docs, np.where(found > 0, order, -1))
    assert np.array_equal(hits.scores, np.where(found > 0, found, -np.inf).astype(np.float32))


def indexed(path, *shards, sizes=SMALL):
    """Build with these *sizes* of windows and parts, and open the index."""
    path.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, size in sizes.items():
            patch.setattr(impact_index, name, size)
        return built(Impact(), path, *shards)


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
        same(index.search(queries, k), documents, queries, k)


@pytest.mark.parametrize("weights", [[1, 2], range(1, 256), [1, 255, 256, 700]], ids=len)
@pytest.mark.parametrize("factors", [[1, 2, 3], range(1, 90), [1, 200, 300]], ids=["low", "mixed", "wide"])
def test_many_dense_lists_are_added_in_16_bits_and_in_more(tmp_path, weights, factors):
    """Eight frequent terms and three rare ones, of small and of large factors: scores and order are scipy's."""
    rng = np.random.default_rng(21)
    frequencies, factors = np.array([0.6, 0.5, 0.4, 0.3, 0.3, 0.2, 0.2, 0.1, 0.05, 0.02, 0.01]), list(factors)
    documents, queries = drawn(rng, 6000, frequencies, weights), drawn(rng, 12, np.full(11, 0.9), factors)
    queries = sparse.csr_array(queries * np.array([1] * 8 + [50] * 3, np.float32))
    index = indexed(tmp_path, documents, sizes={"WINDOW": 1024, "PART": 5000})
    for k in (1, 10, 300):
        same(index.search(queries, k), documents, queries, k)


FEWER = ["+sse2,+ssse3,+popcnt,+avx,+avx2,+bmi,+bmi2", "+sse2"]
ON_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the features are those of x86")


@pytest.mark.slow
@ON_X86
@pytest.mark.parametrize("features", FEWER, ids=["avx2", "sse2"])
def test_processors_with_fewer_instructions_find_the_same(features):
    """Code compiled for AVX2, and for the first x86-64, finds the same as scipy."""
    environment = {**os.environ, "NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": features}
    chosen = "are_those_of_scipy and True or many_dense_lists"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", chosen]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
    assert "13 passed" in done.stdout


@pytest.mark.parametrize("documents", [1, 63, 64, 65, 127, 128, 129, 511, 512, 513, 1024])
def test_the_last_document_of_a_window_and_the_first_of_the_next_are_found(tmp_path, documents):
    """Around borders of blocks, windows and groups each document is found by its one term, which no other document has."""
    ones = sparse.csr_array(sparse.eye_array(documents, dtype=np.float32))
    hits = indexed(tmp_path, 3 * ones).search(2 * ones, 2)

    assert hits.docs[:, 0].tolist() == list(range(documents))
    assert hits.scores[:, 0].tolist() == [6.0] * documents
    assert np.all(hits.docs[:, 1:] == -1)


def test_gaps_take_as_few_bits_as_possible(tmp_path):
    """A term of documents 3, 5 and 6 of 40: a byte for three, gaps 3, 2 and 1 of 2 bits from the lowest on, and the weights."""
    documents = sparse.csr_array((np.array([7, 8, 9], np.float32), ([3, 5, 6], [0, 0, 0])), shape=(40, 1))
    indexed(tmp_path, documents)

    assert np.fromfile(tmp_path / "gaps.bin", np.uint8)[:-64].tolist() == [3, 3 + (2 << 2) + (1 << 4), 7, 8, 9]


FAR = np.array([*range(100, 250), 4000, 8191, 8192, 8200, 16_383])


@pytest.mark.parametrize(
    ("rows", "places"),
    [
        pytest.param(17_000, FAR, id="gaps that are too long for few bits"),
        pytest.param(9000, np.arange(1000, 1600), id="more postings in a window than a byte counts"),
    ],
)
def test_lists_of_all_forms_are_found_at_the_default_sizes(tmp_path, rows, places):
    """A term that few documents have, in two windows: gaps have few bits, and all documents are found."""
    weights = np.ones((rows, 2), np.float32)
    weights[:, 0] = 0
    weights[places, 0] = places % 200 + 1
    documents, query = sparse.csr_array(weights), sparse.csr_array(np.array([[3, 1]], np.float32))
    hits = indexed(tmp_path, documents, sizes={}).search(query, 700)

    assert (tmp_path / "gaps.bin").stat().st_size < 3 * len(places) + 64
    same(hits, documents, query, 700)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_collection(tmp_path, monkeypatch):
    """Five times as many documents take less than a fifth more memory to build; they are made one shard at a time.

    Other threads, and garbage that is collected late, can only add to a peak, so a peak that is too high is measured again.
    """

    def peak(count):
        gc.collect()
        with TemporaryDirectory(dir=tmp_path) as folder:
            tracemalloc.start()
            shards = (drawn(np.random.default_rng(seed), 512, np.full(60, 0.5), [1]) for seed in range(count))
            Impact().build(shards, Path(folder))
            found = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return found

    monkeypatch.setattr(impact_index, "WINDOW", 512)
    monkeypatch.setattr(impact_index, "PART", 20_000)
    peak(4)  # compiles
    few = min(peak(8), peak(8))
    assert any(peak(40) < 1.2 * few for _ in range(3))


def test_threads_cannot_change_an_answer(tmp_path):
    """One thread and three, also with fewer queries than threads."""
    rng = np.random.default_rng(2)
    documents, queries = drawn(rng, 900, FREQUENCIES, range(1, 256)), drawn(rng, 7, np.full(10, 0.5), range(1, 99))
    one = indexed(tmp_path, documents)
    three = Impact(threads=3).open(tmp_path)
    for some in (queries, queries[:1], queries[:0]):
        assert np.array_equal(one.search(some, 20).docs, three.search(some, 20).docs)
        assert np.array_equal(one.search(some, 20).scores, three.search(some, 20).scores)


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


def test_shards_of_two_widths_are_refused(tmp_path):
    """A line names both widths."""
    with pytest.raises(LexbenchError, match="vectors of 3 terms and of 4"):
        indexed(tmp_path, *(sparse.csr_array(np.ones((1, width), np.float32)) for width in (3, 4)))


def test_a_weight_that_is_given_twice_is_their_sum(tmp_path):
    """Repeated entries are added up, like in scipy; columns may come in any order."""
    twice = sparse.csr_array((np.array([1, 2, 4], np.float32), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    hits = indexed(tmp_path, twice).search(twice, 1)

    assert hits.scores.tolist() == [[2 * 2 + 5 * 5]]
