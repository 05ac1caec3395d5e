"""The largest k of many numbers, in compiled loops."""

import numpy as np
import pytest

from lexbench.selection import select


@pytest.mark.parametrize("kind", [np.uint64, np.float32])
@pytest.mark.parametrize("values", [1, 3, 10**6])
def test_the_largest_come_first_and_the_least_of_them_last(kind, values):
    """Of 200 numbers, some or all equal, the first k are those of a sort, and the rest follows."""
    numbers = np.random.default_rng(0).integers(0, values, 200).astype(kind)
    ranked = np.sort(numbers)[::-1]
    for k in (1, 2, 12, 13, 100, 199, 200):
        mine = numbers.copy()
        select(mine, 200, k)

        assert mine[k - 1] == ranked[k - 1]
        assert np.sort(mine[:k])[::-1].tolist() == ranked[:k].tolist()
        assert np.sort(mine[k:])[::-1].tolist() == ranked[k:].tolist()


def test_only_the_first_count_are_looked_at():
    """Numbers behind the first *count* stay where they are, and with fewer than k nothing moves."""
    numbers = np.array([1, 5, 3, 9], np.uint64)
    select(numbers, 3, 2)
    assert numbers.tolist() == [5, 3, 1, 9]

    select(numbers, 3, 4)
    assert numbers.tolist() == [5, 3, 1, 9]
