"""Transforms of stored vectors: which weights stay and what becomes of them, with values worked out by hand."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from lexbench.errors import CommandError
from lexbench.transforms.collection_idf import CollectionIdf
from lexbench.transforms.prune_query import PruneQuery
from lexbench.transforms.quantize import Quantize
from lexbench.transforms.top_k import TopK


def matrix(*rows):
    """Return rows of weights as vectors."""
    return sparse.csr_array(np.array(rows, np.float32))


def rows(vectors):
    """Return the weights of vectors as lists, term by term."""
    return vectors.toarray().tolist()


def untidy():
    """Return [[1, 2, 0, 4]] as a matrix with descending columns, a term in two halves and a stored zero, in float64."""
    return sparse.csr_array((np.array([4.0, 0.0, 1.5, 1.0, 0.5]), np.array([3, 2, 1, 0, 1]), np.array([0, 5])), shape=(1, 4))


@pytest.mark.parametrize(
    ("k", "ties", "expected"),
    [
        (2, "keep", [3, 3, 5, 3, 0, 0]),  # the second largest is 3, and three weights are not below it
        (6, "keep", [3, 3, 5, 3, 0, 1]),  # there are five
        (1, "cut", [0, 0, 5, 0, 0, 0]),
        (3, "cut", [3, 3, 5, 0, 0, 0]),  # of equal ones the lower terms
    ],
)
def test_top_k_by_hand(k, ties, expected):
    """`keep` leaves every weight that is not below the k-th largest, `cut` leaves k; a row with no more than k stays."""
    given_rows = [[3, 3, 5, 3, 0, 1], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 2]]

    assert rows(TopK(k, ties).document(matrix(*given_rows))) == [expected, *given_rows[1:]]
    assert rows(TopK(k, ties).query(matrix(*given_rows))) == given_rows
    assert TopK(k, ties).counts(matrix(*given_rows)) == {"dropped": 5 - np.count_nonzero(expected)}


@given(
    arrays(np.float32, (5, 24), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0])),
    st.integers(1, 24),
    st.integers(1, 24),
    st.sampled_from(["keep", "cut"]),
)
@settings(max_examples=40, deadline=None)
def test_top_k_is_the_definition_and_nests(dense, first, second, ties):
    """Against a sort of each row; and the top a of the top b are the top a, for a <= b."""
    small, large = sorted([first, second])
    found = TopK(small, ties).document(matrix(*dense)).toarray()
    for row, weights in zip(found, dense, strict=True):
        order = sorted(np.flatnonzero(weights), key=lambda term: (-weights[term], term))
        bar = weights[order[small - 1]] if len(order) > small else 0
        kept = order[:small] if ties == "cut" else [term for term in order if weights[term] >= bar]
        assert np.flatnonzero(row).tolist() == sorted(kept)
        assert np.array_equal(row[kept], weights[kept])

    assert np.array_equal(TopK(small, ties).document(TopK(large, ties).document(matrix(*dense))).toarray(), found)


@pytest.mark.parametrize(
    ("weight", "rint", "floor"),
    [
        (0.0051, 1, 0),
        (0.005, 0, 0),  # a half goes to the even number
        (0.015, 2, 1),  # 1.5 in float32
        (0.025, 2, 2),
        (0.0249, 2, 2),
        (0.29, 29, 29),  # 28.999999999999996 in float64
        (2.56, 256, 256),
        (655.35, 65535, 65534),  # 655.34998 in float32
        (655.36, 65535, 65535),
        (1e30, 65535, 65535),
        (3e38, 65535, 65535),  # 100 times that is infinite in float32
        (-1.0, 0, 0),
    ],
)
def test_quantize_by_hand(weight, rint, floor):
    """Rounding is that of float32; what is 0 or below goes, what is too large is clipped."""
    assert rows(Quantize().document(matrix([0, weight]))) == [[0, rint]]
    assert rows(Quantize(mode="floor").query(matrix([0, weight]))) == [[0, floor]]
    assert Quantize().document(matrix([0, weight])).nnz == (rint > 0)


def test_quantize_to_eight_bits():
    """2.56 is 256 and becomes 255, one clipped; 0.004 is 0, one dropped; 2.55 stays 255."""
    vectors = matrix([2.56, 0.004, 0], [2.55, 0, -0.5])

    assert rows(Quantize(bits=8).document(vectors)) == [[255, 0, 0], [255, 0, 0]]
    assert Quantize(bits=8).counts(vectors) == {"clipped": 1, "dropped": 2, "rounded": 3, "coarse": 1}
    assert Quantize().counts(vectors) == {"clipped": 0, "dropped": 2, "rounded": 3, "coarse": 1}
    assert [Quantize(mode=mode).counts(matrix([0.006, 0.0099, 0.01]))["dropped"] for mode in ("rint", "floor")] == [0, 2]
    assert repr(Quantize(100)) == repr(Quantize(100.0))  # which have one key


@pytest.mark.parametrize("side", ["document", "query"])
def test_an_empty_vector_becomes_the_given_term(side):
    """Rows that are empty or become so get {empty: 1}, others nothing; without the setting they stay empty."""
    vectors = matrix([0, 0, 0.001], [0, 0, 0], [0, 0.5, 0], [0, 0, 0])

    assert rows(getattr(Quantize(empty=2), side)(vectors)) == [[0, 0, 1], [0, 0, 1], [0, 50, 0], [0, 0, 1]]
    assert rows(getattr(Quantize(empty=0), side)(vectors)) == [[1, 0, 0], [1, 0, 0], [0, 50, 0], [1, 0, 0]]
    assert rows(getattr(Quantize(), side)(vectors)) == [[0, 0, 0], [0, 0, 0], [0, 50, 0], [0, 0, 0]]
    with pytest.raises(CommandError, match=r"quantize\(empty=3\): the vectors have 3 terms, 0 to 2"):
        getattr(Quantize(empty=3), side)(vectors)


def test_pruning_comes_before_quantising():
    """Ties come of quantising: 0.502 and 0.498 are one weight after it and two before, so the order tells."""
    vectors = matrix([0.498, 0.502, 0.1])

    assert rows(Quantize().document(TopK(1).document(vectors))) == [[0, 50, 0]]
    assert rows(TopK(1).document(Quantize().document(vectors))) == [[50, 50, 0]]


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        (1, [4, 0, 0, 0, 0, 0]),
        (2, [4, 0, 2, 0, 0, 0]),  # of equal ones the lower term
        (4, [4, 1, 2, 0, 0, 2]),
        (9, [4, 1, 2, 0, 1, 2]),
    ],
)
def test_prune_query_by_hand(k, expected):
    """The k largest weights of a query stay; documents stay unchanged."""
    vectors = matrix([4, 1, 2, 0, 1, 2], [0, 0, 0, 0, 0, 0])

    assert rows(PruneQuery(k).query(vectors)) == [expected, [0] * 6]
    assert PruneQuery(k).document(vectors) is vectors


@pytest.mark.parametrize(
    ("transformed", "expected"),
    [
        (TopK(2).document, [0, 2, 0, 4]),
        (TopK(9).document, [1, 2, 0, 4]),
        (Quantize(2).document, [2, 4, 0, 8]),
        (PruneQuery(k=2).query, [0, 2, 0, 4]),
    ],
)
def test_untidy_vectors_are_tidied_first(transformed, expected):
    """Columns in any order, repeated terms, stored zeros and float64 are accepted; repeated terms are added."""
    given_, before = untidy(), untidy()
    found = transformed(given_)

    assert rows(found) == [expected]
    assert found.dtype == np.float32
    assert found.nnz == np.count_nonzero(expected)
    assert np.all(np.diff(found.indices) > 0)
    assert np.array_equal(given_.indices, before.indices)
    assert np.array_equal(given_.data, before.data)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TopK(0), r"top_k\(0\) keeps nothing; k must be a whole number from 1"),
        (lambda: TopK(-3), r"top_k\(-3\) keeps nothing"),
        (lambda: TopK(3, "drop"), r'ties must be "keep" or "cut"'),
        (lambda: Quantize(0), r"quantize\(scale=0\): the scale must be a float32 number above 0"),
        (lambda: Quantize(-1), r"scale=-1"),
        (lambda: Quantize(float("nan")), r"scale=nan"),
        (lambda: Quantize(1e39), r"scale=1e\+39"),
        (lambda: Quantize(1e-60), r"scale=1e-60"),
        (lambda: Quantize(mode="ceil"), r'the mode must be "rint" or "floor"'),
        (lambda: Quantize(bits=4), r"bits must be 8 or 16"),
        (lambda: PruneQuery(0), r"prune_query\(0\) keeps nothing"),
        *((partial(CollectionIdf, power), r"collection_idf\(power=") for power in (0, -1, float("inf"), float("nan"))),
    ],
)
def test_impossible_settings_are_refused(make, message):
    """The error has one line, with the setting and its possible values."""
    with pytest.raises(CommandError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
