"""The contract of transforms, for the vectors of documents and of queries."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lexbench.arrays.vectors import kind_of, rows_of
from lexbench.testing._letters import as_kind
from lexbench.testing.encoders import content, rows
from lexbench.types import Codes, CollectionStatistics, Kind, MultiVectors

WIDTH = 12
_TEXTS = 40
_TYPES = {"": np.float32, "int8": np.int8, "bits": np.uint8}  # of the output, by the form of its codes


def vectors(kind: Kind) -> Any:
    """Return vectors of 40 texts, 12 wide, with many equal weights, some below 0.005; texts 0, 7 and 39 are empty."""
    rng = np.random.default_rng(5)
    matrix = rng.integers(0, 6, (_TEXTS, WIDTH)) * rng.choice([0.001, 0.25], (_TEXTS, WIDTH))
    matrix[[0, 7, 39]] = 0
    return as_kind(kind, matrix.astype(np.float32))


def rows_between(given: Any, start: int, stop: int) -> Any:
    """Return the vectors of texts *start* to *stop*."""
    return rows_of(given, np.arange(start, stop)) if isinstance(given, MultiVectors) else given[start:stop]


class TransformContract:
    """The tests of a transform. A subclass sets `plugin` to one, or overrides the fixture `transform`."""

    plugin: Any

    @pytest.fixture
    def transform(self) -> Any:
        """Return the transform to check."""
        return self.plugin

    @pytest.fixture(params=["document", "query"])
    def side(self, request: pytest.FixtureRequest, transform: Any) -> Any:
        """Return one of the two functions of the transform, which has learned, and knows a collection, if it needs to."""
        if transform.learns:
            transform = transform.learned([vectors(transform.kind)])
        if transform.uses_collection:
            transform = transform.with_collection(CollectionStatistics.from_vectors([vectors(transform.kind)]))
        return getattr(transform, request.param)

    def test_each_row_by_itself(self, transform: Any, side: Any) -> None:
        """Row i of the output depends only on row i, so a batch gives the same as its rows one by one."""
        given = vectors(transform.kind)
        whole = rows(side(given))
        alone = [rows(side(rows_between(given, row, row + 1)))[0] for row in range(_TEXTS)]

        assert len(whole) == _TEXTS
        assert all(np.array_equal(one, other) for one, other in zip(whole, alone, strict=True))

    def test_the_form_of_the_output(self, transform: Any, side: Any) -> None:
        """The output is finite, float32 or codes, of the transform's kind; sparse rows have no zeros, and ascending terms."""
        given = side(vectors(transform.kind))

        assert kind_of(given) is transform.kind
        assert isinstance(given, Codes) == bool(transform.codes)
        assert all(row.dtype == _TYPES[transform.codes] and np.isfinite(row).all() for row in rows(given))
        if transform.kind is Kind.SPARSE:
            assert isinstance(given, sparse.csr_array)
            assert given.data.all()
            for row in range(_TEXTS):
                assert np.all(np.diff(given.indices[given.indptr[row] : given.indptr[row + 1]]) > 0)

    def test_the_input_is_not_modified(self, transform: Any, side: Any) -> None:
        """The input may be mapped from the store, and is not modified."""
        given = vectors(transform.kind)
        side(given)

        assert content(given) == content(vectors(transform.kind))

    def test_an_empty_vector_stays_empty(self, transform: Any, side: Any) -> None:
        """An empty sparse vector stays empty."""
        if transform.kind is not Kind.SPARSE:
            pytest.skip("only sparse vectors can be empty")
        assert np.diff(side(vectors(Kind.SPARSE)).indptr)[[0, 7, 39]].tolist() == [0, 0, 0]

    def test_no_vectors(self, transform: Any, side: Any) -> None:
        """No texts give an output of the usual width without rows."""
        given = vectors(transform.kind)

        assert rows(side(rows_between(given, 0, 0))) == []
        assert side(rows_between(given, 0, 0)).shape[1] == side(given).shape[1]

    def test_it_counts_without_changing(self, transform: Any) -> None:
        """Its counts are numbers by name, and counting does not modify the vectors."""
        given = vectors(transform.kind)
        counts = transform.counts(given)

        assert all(isinstance(name, str) and type(count) is int and count >= 0 for name, count in counts.items())
        assert content(given) == content(vectors(transform.kind))
