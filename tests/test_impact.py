"""The engine `impact`, against scipy's product of whole numbers."""

import gc
import json
import os
import platform
import subprocess
import sys
import tracemalloc
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from scipy import sparse

from lexbench.engines.impact import Impact
from lexbench.engines.kernels import impact_index
from lexbench.errors import LexbenchError
from lexbench.runner.systems import describe

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


@pytest.mark.parametrize("weights", [[1, 2], range(1, 256), [1, 255, 256, 700]], ids=len)
@pytest.mark.parametrize("factors", [[1, 2, 3], range(1, 90), [1, 200, 300]], ids=["low", "mixed", "wide"])
def test_many_dense_lists_are_added_in_16_bits_and_in_more(tmp_path, weights, factors):
    """Eight frequent terms and three rare ones, of small and of large factors: scores and order are scipy's."""
    rng = np.random.default_rng(21)
    frequencies, factors = np.array([0.6, 0.5, 0.4, 0.3, 0.3, 0.2, 0.2, 0.1, 0.05, 0.02, 0.01]), list(factors)
    documents, queries = drawn(rng, 6000, frequencies, weights), drawn(rng, 12, np.full(11, 0.9), factors)
    queries = sparse.csr_array(queries * np.array([1] * 8 + [50] * 3, np.float32))
    index = indexed(tmp_path, documents, window=1024, group=2048)
    for k in (1, 10, 300):
        docs, scores = by_scipy(documents, queries, k)
        hits = index.search(queries, k)
        assert np.array_equal(docs, hits.docs)
        assert np.array_equal(scores.astype(np.float32), hits.scores)


FEWER = ["+sse2,+ssse3,+popcnt,+avx,+avx2,+bmi,+bmi2", "+sse2"]
ON_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the features are those of x86")

_SWEEP = """
import numpy as np
from numba import njit
from lexbench.engines.kernels import llvm
from lexbench.engines.kernels.impact_index import place_of

@njit
def swept(sums, cursors, bar, found):
    return llvm.sweep(sums.ctypes.data, cursors.ctypes.data, len(cursors), 1, bar, found.ctypes.data)

rng = np.random.default_rng(6)
for share in (0.02, 0.3, 0.9, 1.0):
    sums, found, factors = rng.integers(0, 9, 64, np.int32), np.zeros(64, np.int32), [100, 156, 257, 1]
    expected, bitmaps, weights = sums.copy(), np.zeros((4, 2), np.uint64), rng.integers(1, 256, (4, 200), np.uint8)
    for row, factor in enumerate(factors):
        bits = np.flatnonzero(rng.random(64) < share)
        bitmaps[row, 1] = np.bitwise_or.reduce(np.uint64(1) << bits.astype(np.uint64), initial=np.uint64(0))
        for at, bit in enumerate(bits):
            expected[place_of(bit)] += factor * int(weights[row, at])
    cursors = np.array([[bitmaps[i].ctypes.data, weights[i].ctypes.data, 65_537 * factors[i], i > 0] for i in range(4)])
    bar = int(np.median(expected))
    above = swept(sums, cursors, np.int32(bar), found)
    assert [above >> i & 1 for i in range(64)] == (expected > bar).tolist()
    assert not (expected > bar).any() or np.array_equal(found, expected)
    assert not sums.any()
print(llvm.machine_expands())
"""


@pytest.mark.parametrize("features", [pytest.param(FEWER[0], marks=ON_X86), None], ids=["avx2", "all"])
def test_dense_lists_are_added_as_a_plain_loop_adds_them(features):
    """Blocks with few, many and all bits, in each way that processors spread bytes: sums, and which are above the bar."""
    fewer = {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": features} if features else {}
    done = subprocess.run([sys.executable, "-c", _SWEEP], env=os.environ | fewer, capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.slow
@ON_X86
@pytest.mark.parametrize("features", FEWER, ids=["avx2", "sse2"])
def test_processors_with_fewer_instructions_find_the_same(features):
    """What is compiled for AVX2, and for the first x86-64, passes the test against scipy."""
    environment = {**os.environ, "NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": features}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        __file__,
        "-k",
        "are_those_of_scipy and True or many_dense_lists",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
    assert "13 passed" in done.stdout


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

    assert len(one) == 8
    assert one == many


def test_gaps_stand_in_as_few_bits_as_hold_them(tmp_path):
    """A term of documents 3, 5 and 6 of 40: a byte for three, gaps 3, 2 and 1 of 2 bits from the lowest on, and the weights."""
    documents = sparse.csr_array((np.array([7, 8, 9], np.float32), ([3, 5, 6], [0, 0, 0])), shape=(40, 1))
    indexed(tmp_path, documents)

    assert np.fromfile(tmp_path / "gaps.bin", np.uint8)[:-64].tolist() == [3, 3 + (2 << 2) + (1 << 4), 7, 8, 9]


def test_a_gap_that_is_too_long_has_postings_of_weight_0_before_it(tmp_path):
    """150 documents in a row, some far away in the window and in the next: gaps have few bits, and all are found."""
    places = np.array([*range(100, 250), 4000, 8191, 8192, 8200, 16_383])
    weights = np.ones((17_000, 2), np.float32)
    weights[:, 0] = 0
    weights[places, 0] = places % 200 + 1
    documents, query = sparse.csr_array(weights), sparse.csr_array(np.array([[3, 1]], np.float32))
    hits = indexed(tmp_path, documents, window=None).search(query, 200)

    assert (tmp_path / "gaps.bin").stat().st_size < 155 * 3
    assert np.array_equal(by_scipy(documents, query, 200)[0], hits.docs)


def test_more_postings_than_a_byte_counts_are_found(tmp_path):
    """A window of which 600 documents have a term that few others have: their number takes two bytes."""
    weights = np.zeros((9000, 1), np.float32)
    weights[1000:1600, 0] = np.arange(600) % 250 + 1
    documents, query = sparse.csr_array(weights), sparse.csr_array(np.ones((1, 1), np.float32))
    hits = indexed(tmp_path, documents, window=None).search(query, 700)

    assert np.array_equal(by_scipy(documents, query, 700)[0], hits.docs)


def test_an_index_of_another_layout_is_refused_and_has_another_key(tmp_path):
    """A folder of an older lexbench costs one line; in a store its index is made anew, and the system is the same."""
    indexed(tmp_path, sparse.csr_array(np.ones((1, 1), np.float32)))
    facts = json.loads((tmp_path / "facts.json").read_text())
    (tmp_path / "facts.json").write_text(json.dumps({name: value for name, value in facts.items() if name != "layout"}))
    with pytest.raises(LexbenchError, match=r"is an index of another version of lexbench, .*; build it again"):
        Impact().open(tmp_path)

    assert describe(Impact(), index=True) == describe(Impact()) | {"identity": {"layout": 2}}


def test_memory_does_not_grow_with_the_collection(tmp_path, monkeypatch):
    """Eight times as many documents take less than a fifth more memory to build; they are made one shard at a time.

    Other threads, and garbage that is collected late, can only add to a peak, so a peak that is too high is measured again.
    """
    monkeypatch.setattr(impact_index, "_GATHERED", 20_000)

    def peak(count):
        gc.collect()
        with TemporaryDirectory(dir=tmp_path) as folder:
            tracemalloc.start()
            shards = (drawn(np.random.default_rng(seed), 512, np.full(60, 0.5), [1]) for seed in range(count))
            Impact().build(shards, Path(folder), window=512, group=1024)
            found = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return found

    peak(4)  # compiles
    few = min(peak(10), peak(10))
    assert any(peak(80) < 1.2 * few for _ in range(3))


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
    """The first 1,000 documents score 100 and more, the others less: the guess of the 2,000th score is too high."""
    weights = np.random.default_rng(8).integers(1, 100, (20_000, 1))
    weights[:1000] += 99
    documents, queries = sparse.csr_array(weights.astype(np.float32)), sparse.csr_array(np.ones((1, 1), np.float32))
    hits, counts = indexed(tmp_path, documents).search_counted(queries, 2000)

    assert counts["passes"].tolist() == [2]
    assert np.array_equal(by_scipy(documents, queries, 2000)[0], hits.docs)


def test_after_some_wrong_guesses_nothing_is_guessed(tmp_path):
    """Of twelve such queries four are searched twice; then guessing stops. All hits are exact."""
    weights = np.random.default_rng(8).integers(1, 100, (20_000, 1))
    weights[:1000] += 99
    documents, queries = sparse.csr_array(weights.astype(np.float32)), sparse.csr_array(np.ones((12, 1), np.float32))
    hits, counts = indexed(tmp_path, documents).search_counted(queries, 2000)

    assert counts["passes"].tolist() == [2] * 4 + [1] * 8
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
    """The index needs nothing outside its folder."""
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
