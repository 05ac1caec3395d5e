"""What every transform must do to vectors of its kind, those of documents and those of queries."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lexbench.testing._rows import rows
from lexbench.types import Kind, MultiVectors
from lexbench.vectors import kind_of

WIDTH = 12
_TEXTS = 40


def vectors(kind: Kind) -> Any:
    """Return vectors of 40 texts, 12 wide, with many equal weights, a few below 0.005, and texts 0, 7 and 39 empty."""
    rng = np.random.default_rng(5)
    matrix = rng.integers(0, 6, (_TEXTS, WIDTH)) * rng.choice([0.001, 0.25], (_TEXTS, WIDTH))
    matrix[[0, 7, 39]] = 0
    values = matrix.astype(np.float32)
    if kind is Kind.SPARSE:
        return sparse.csr_array(values)
    if kind is Kind.DENSE:
        return values
    tokens = np.where(values.any(axis=1), 1, 0)  # empty texts have none
    return MultiVectors(values[values.any(axis=1)], np.concatenate(([0], np.cumsum(tokens))))


def some(given: Any, start: int, stop: int) -> Any:
    """Return the vectors of texts *start* up to *stop*."""
    if isinstance(given, MultiVectors):
        offsets = given.offsets[start : stop + 1]
        return MultiVectors(given.values[offsets[0] : offsets[-1]], offsets - offsets[0])
    return given[start:stop]


def same(left: Any, right: Any) -> bool:
    """Return whether vectors are equal, text by text."""
    return len(rows(left)) == len(rows(right)) and all(
        np.array_equal(one, other) for one, other in zip(rows(left), rows(right), strict=True)
    )


class TransformContract:
    """The tests of a transform: a subclass sets `plugin` to one, or overrides the fixture `transform`.

    Where *idempotent* is True, what has been transformed is not changed by the same transform again.
    """

    plugin: Any
    idempotent = False

    @pytest.fixture
    def transform(self) -> Any:
        """Return the transform."""
        return self.plugin

    @pytest.fixture(params=["document", "query"])
    def side(self, request: pytest.FixtureRequest, transform: Any) -> Any:
        """Return one of a transform's two functions."""
        return getattr(transform, request.param)

    def test_rows_keep_their_number_and_order(self, transform: Any, side: Any) -> None:
        """Row i of what comes out is made of row i alone, so a batch gives what its rows give one by one."""
        given = vectors(transform.kind)
        whole = rows(side(given))
        alone = [rows(side(some(given, row, row + 1)))[0] for row in range(_TEXTS)]

        assert len(whole) == _TEXTS
        assert all(np.array_equal(one, other) for one, other in zip(whole, alone, strict=True))

    def test_the_form_of_what_comes_out(self, transform: Any, side: Any) -> None:
        """Vectors are float32, finite and of the transform's kind; sparse ones have no 0, and terms ascend in each row."""
        given = side(vectors(transform.kind))

        assert kind_of(given) is transform.kind
        assert all(row.dtype == np.float32 and np.isfinite(row).all() for row in rows(given))
        if transform.kind is Kind.SPARSE:
            assert isinstance(given, sparse.csr_array)
            assert given.data.all()
            for row in range(_TEXTS):
                assert np.all(np.diff(given.indices[given.indptr[row] : given.indptr[row + 1]]) > 0)

    def test_what_goes_in_is_not_changed(self, transform: Any, side: Any) -> None:
        """The vectors that are given are those of the store, and stay so."""
        given = vectors(transform.kind)
        side(given)

        assert same(given, vectors(transform.kind))

    def test_an_empty_vector_stays_empty(self, transform: Any, side: Any) -> None:
        """Nothing comes of nothing, where vectors are sparse."""
        if transform.kind is not Kind.SPARSE:
            pytest.skip("vectors that are not sparse are never empty")
        assert np.diff(side(vectors(Kind.SPARSE)).indptr)[[0, 7, 39]].tolist() == [0, 0, 0]

    def test_no_vectors(self, transform: Any, side: Any) -> None:
        """No texts, as a shard of nothing, come out as none."""
        given = vectors(transform.kind)

        assert rows(side(some(given, 0, 0))) == []
        assert side(some(given, 0, 0)).shape[1] == side(given).shape[1]

    def test_twice_is_once(self, transform: Any, side: Any) -> None:
        """What has been pruned is not pruned further by the same rule."""
        if not self.idempotent:
            pytest.skip("it says nothing of being applied twice")
        once = side(vectors(transform.kind))

        assert same(side(once), once)

    def test_it_counts_without_changing(self, transform: Any) -> None:
        """What it counts of documents are numbers by name, and the vectors stay as they are."""
        kind = transform.kind
        given = vectors(kind)
        counts = transform.counts(given)

        assert all(isinstance(name, str) and type(count) is int and count >= 0 for name, count in counts.items())
        assert same(given, vectors(kind))
