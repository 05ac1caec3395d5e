"""What every transform of sparse vectors must do, checked on each by name."""

import numpy as np
import pytest
from scipy import sparse

from lexbench import registry
from lexbench.errors import CommandError, MissingExtra
from lexbench.notation import Call
from lexbench.types import Kind

SETTINGS = {"top_k": Call("top_k", (3,)), "prune_query": Call("prune_query", (2,), (("threshold", 0.5),))}
IDEMPOTENT = {"top_k", "prune_query"}
WIDTH = 12


@pytest.fixture(params=registry.names("transforms"))
def transform(request):
    """Make one transform, with the settings above or its default ones."""
    try:
        made = registry.create("transforms", SETTINGS.get(request.param, Call(request.param)))
    except MissingExtra as missing:
        pytest.skip(str(missing))
    except CommandError as error:
        pytest.skip(f"no settings for it here: {error}")
    if made.kind is not Kind.SPARSE:
        pytest.skip(f"no test vectors of kind {made.kind} yet")
    return made


@pytest.fixture(params=["document", "query"])
def side(request, transform):
    """Give one of a transform's two functions."""
    return getattr(transform, request.param)


def vectors():
    """Return vectors (40, 12) with many equal weights, a few below 0.005, and rows 0, 7 and 39 empty."""
    rng = np.random.default_rng(5)
    dense = rng.integers(0, 6, (40, WIDTH)) * rng.choice([0.001, 0.25], (40, WIDTH))
    dense[[0, 7, 39]] = 0
    return sparse.csr_array(dense.astype(np.float32))


def test_rows_keep_their_number_and_order(side):
    """Row i of what comes out is made of row i alone, so a batch gives what its rows give one by one."""
    whole = side(vectors())
    alone = sparse.vstack([side(vectors()[[row]]) for row in range(40)])

    assert whole.shape == (40, WIDTH)
    assert np.array_equal(whole.toarray(), alone.toarray())


def test_the_form_of_what_comes_out(side):
    """Weights are float32 and not 0, terms ascend in each row without repetition."""
    found = side(vectors())

    assert isinstance(found, sparse.csr_array)
    assert found.dtype == np.float32
    assert found.data.all()
    for row in range(40):
        assert np.all(np.diff(found.indices[found.indptr[row] : found.indptr[row + 1]]) > 0)


def test_what_goes_in_is_not_changed(side):
    """The vectors that are given are those of the store, and stay so."""
    given, before = vectors(), vectors()
    side(given)

    assert np.array_equal(given.data, before.data)
    assert np.array_equal(given.indices, before.indices)
    assert np.array_equal(given.indptr, before.indptr)


def test_an_empty_vector_stays_empty(side):
    """Nothing comes of nothing."""
    assert np.diff(side(vectors()).indptr)[[0, 7, 39]].tolist() == [0, 0, 0]


def test_no_vectors(side):
    """A matrix without rows, as a shard of nothing, comes out as one."""
    assert side(vectors()[:0]).shape == (0, WIDTH)


def test_twice_is_once(side, transform):
    """What has been pruned is not pruned further by the same rule."""
    if type(transform).__module__.rpartition(".")[2] not in IDEMPOTENT:
        pytest.skip("it says nothing of being applied twice")
    once = side(vectors())

    assert np.array_equal(side(once).toarray(), once.toarray())


def test_it_counts_without_changing(transform):
    """What it counts of documents are numbers by name, and the vectors stay as they are."""
    if not hasattr(transform, "counts"):
        pytest.skip("it counts nothing")
    given = vectors()
    counts = transform.counts(given)

    assert all(isinstance(name, str) and type(count) is int and count >= 0 for name, count in counts.items())
    assert np.array_equal(given.toarray(), vectors().toarray())
