"""What every engine must do, checked on each by name."""

import hashlib

import numpy as np
import pytest
from scipy import sparse

from lexbench import registry
from lexbench.errors import MissingExtra
from lexbench.notation import Call
from lexbench.types import Kind

NAMES = registry.names("engines")


@pytest.fixture(params=NAMES)
def engine(request):
    """Make one engine with its default settings."""
    try:
        return registry.create("engines", Call(request.param))
    except MissingExtra as missing:
        pytest.skip(str(missing))


def vectors(engine, rows):
    """Return *rows* of whole numbers as the kind of vectors that the engine takes; sums of products are exact."""
    matrix = np.array(rows, np.float32).reshape(len(rows), -1)
    if engine.kind is Kind.SPARSE:
        return sparse.csr_array(matrix)
    if engine.kind is Kind.DENSE:
        return matrix
    pytest.skip(f"no test vectors of kind {engine.kind} yet")


def indexed(engine, tmp_path, *shards):
    """Build an index of the shards and open it."""
    engine.build(iter([vectors(engine, shard) for shard in shards]), tmp_path)
    return engine.open(tmp_path)


DOCUMENTS = np.random.default_rng(3).integers(0, 4, (300, 12))
QUERIES = np.random.default_rng(4).integers(0, 3, (40, 12))


@pytest.mark.parametrize("k", [1, 10, 300])
def test_the_best_k_come_first_and_ties_go_to_the_lower_position(engine, tmp_path, k):
    """Scores are the dot products, best first; whole numbers tie often, and of equals the lower position comes first."""
    hits = indexed(engine, tmp_path, DOCUMENTS).search(vectors(engine, QUERIES), k)
    products = QUERIES @ DOCUMENTS.T
    order = np.lexsort((np.broadcast_to(np.arange(300), products.shape), -products), axis=1)[:, :k]
    expected = np.take_along_axis(products, order, axis=1)
    found = expected > 0 if engine.kind is Kind.SPARSE else np.ones_like(expected, bool)  # no common term, no hit

    assert hits.docs.dtype == np.int32
    assert hits.scores.dtype == np.float32
    assert np.array_equal(np.where(found, order, -1), hits.docs)
    assert np.array_equal(expected[found], hits.scores[found])


def test_shards_make_one_index(engine, tmp_path):
    """Documents that come in shards are numbered through."""
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    one = indexed(engine, tmp_path / "one", DOCUMENTS).search(vectors(engine, QUERIES), 20)
    many = indexed(engine, tmp_path / "many", DOCUMENTS[:7], DOCUMENTS[7:8], DOCUMENTS[8:]).search(vectors(engine, QUERIES), 20)

    assert np.array_equal(one.docs, many.docs)
    assert np.array_equal(one.scores, many.scores)


def test_more_is_asked_for_than_there_is(engine, tmp_path):
    """With k above the number of documents every one that matches comes once, and the rest is -1 or not there."""
    hits = indexed(engine, tmp_path, [[1, 0], [2, 0], [3, 0]]).search(vectors(engine, [[1, 0]]), 10)

    assert [doc for doc in hits.docs[0].tolist() if doc >= 0] == [2, 1, 0]


def test_an_empty_query_finds_nothing_that_matches(engine, tmp_path):
    """A query without weights scores nothing above 0."""
    hits = indexed(engine, tmp_path, [[1, 2], [3, 4]]).search(vectors(engine, [[0, 0], [0, 1]]), 2)

    assert not np.any(hits.scores[0][hits.docs[0] >= 0] > 0)
    assert hits.docs[1].tolist() == [1, 0]


def test_an_empty_document_is_never_found_above_one_that_matches(engine, tmp_path):
    """A document without weights scores nothing."""
    hits = indexed(engine, tmp_path, [[0, 0], [3, 4]]).search(vectors(engine, [[1, 1]]), 1)

    assert hits.docs.tolist() == [[1]]


def test_no_queries_are_no_hits(engine, tmp_path):
    """Nothing asked, nothing answered."""
    hits = indexed(engine, tmp_path, DOCUMENTS).search(vectors(engine, QUERIES)[:0], 5)

    assert hits.docs.shape[0] == hits.scores.shape[0] == 0


def test_an_index_opens_again(engine, tmp_path):
    """The folder is all there is: opened twice, and moved, it answers the same."""
    first = indexed(engine, tmp_path / ".", DOCUMENTS).search(vectors(engine, QUERIES), 10)
    moved = tmp_path.rename(tmp_path.with_name(tmp_path.name + "-moved"))
    again = engine.open(moved).search(vectors(engine, QUERIES), 10)

    assert np.array_equal(first.docs, again.docs)


def test_two_builds_are_the_same_bytes(engine, tmp_path):
    """An engine that calls itself deterministic writes the same files twice."""
    if not getattr(engine, "deterministic", False):
        pytest.skip("it does not call itself deterministic")
    trees = []
    for name in "ab":
        (tmp_path / name).mkdir()
        indexed(engine, tmp_path / name, DOCUMENTS)
        files = sorted((tmp_path / name).rglob("*"))
        trees.append([(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files if path.is_file()])

    assert trees[0] == trees[1]
