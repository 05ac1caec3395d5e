"""The order of examples and the tensors of a batch."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="models are in the extra neural")

import torch

from lexbench.lexmae.data.batches import Draws, tensors


def chosen(index, rng):
    """Return the index and the first random number, in place of an example."""
    return index, int(rng.integers(1 << 60))


def taken(draws):
    """Return all draws in order."""
    return [draws[draw] for draw in range(len(draws))]


def epochs(draws, examples, number):
    """Return the examples of each epoch (number, examples)."""
    return np.array([draws[draw][0] for draw in range(examples * number)]).reshape(number, examples)


@pytest.mark.parametrize("lengths", [None, np.arange(23) % 7])
def test_an_epoch_takes_every_example_once(lengths):
    """With any batch size and grouping each epoch is a permutation, and all epochs differ."""
    orders = epochs(Draws(chosen, 23, 92, 5, batch=4, lengths=lengths), 23, 4)
    assert (np.sort(orders, axis=1) == np.arange(23)).all()
    assert len({tuple(order) for order in orders.tolist()}) == 4


def test_seeds_differ():
    """Another seed gives another order and other random numbers; no two draws have the same ones, so each epoch masks anew."""
    first, second = Draws(chosen, 50, 50, 1), Draws(chosen, 50, 50, 2)
    assert [index for index, _ in taken(first)] != [index for index, _ in taken(second)]
    assert not {number for _, number in taken(first)} & {number for _, number in taken(second)}
    assert len({number for _, number in taken(Draws(chosen, 10, 1000, 0))}) == 1000


def test_the_order_is_shuffled():
    """Without lengths each of 5 examples comes first equally often: in 1000 epochs 200 +- 5 x 12.6 times."""
    draws = Draws(chosen, 5, 5000, 0)
    firsts = np.bincount([draws.order(epoch)[0] for epoch in range(1000)], minlength=5)
    assert (abs(firsts - 200) < 5 * 12.6).all()  # (1000 x .2 x .8)^(1/2) = 12.6


@pytest.mark.parametrize("lengths", [None, np.arange(10) % 4])
def test_resuming_changes_nothing(lengths):
    """Draws from 17 on are the same if training resumes there, in any order of requests."""
    whole = taken(Draws(chosen, 10, 40, 3, batch=4, lengths=lengths))
    resumed = Draws(chosen, 10, 40, 3, batch=4, lengths=lengths)
    assert [resumed[draw] for draw in range(17, 40)] == whole[17:]
    assert [resumed[draw] for draw in (39, 0, 21, 20)] == [whole[draw] for draw in (39, 0, 21, 20)]


@pytest.mark.parametrize("seed", range(5))
def test_batches_are_of_like_length(seed):
    """Ten texts of ten lengths in batches of four: neighbours in length share a batch, across the end of an epoch too.

    Batches are shuffled, so training does not proceed from short to long texts.
    """
    draws = Draws(chosen, 10, 400, seed, batch=4, lengths=np.arange(10) * 11)
    first, second, third = epochs(draws, 10, 3).tolist()
    assert {frozenset(first[:4]), frozenset(first[4:8])} == {frozenset(range(4)), frozenset(range(4, 8))}
    assert set(first[8:]) == {8, 9}
    rest = sorted(second[2:])
    assert {frozenset(second[2:6]), frozenset(second[6:])} == {frozenset(rest[:4]), frozenset(rest[4:])}
    assert {frozenset(third[:4]), frozenset(third[4:8])} == {frozenset(range(4)), frozenset(range(4, 8))}
    assert len({min(draws.order(epoch)[:4]) for epoch in range(0, 40, 2)}) > 1


def test_a_batch_can_span_several_epochs():
    """With batches of 8 of 3 examples each epoch still has every example once."""
    orders = epochs(Draws(chosen, 3, 12, 0, batch=8, lengths=np.array([5, 6, 7])), 3, 4)
    assert (np.sort(orders, axis=1) == np.arange(3)).all()


def test_tensors():
    """Padding is not real, and neither padding nor silent ids are pooled; the padding id inside a text is real."""
    found = tensors([np.array([2, 7, 3, 0, 3]), np.array([2, 3])], pad=0, silent=[2, 3])
    assert found["ids"].tolist() == [[2, 7, 3, 0, 3], [2, 3, 0, 0, 0]]
    assert found["real"].tolist() == [[True] * 5, [True, True, False, False, False]]
    assert found["pools"].tolist() == [[False, True, False, True, False], [False] * 5]
    assert [found[name].dtype for name in ("ids", "real", "pools")] == [torch.int64, torch.bool, torch.bool]
    plain = tensors([np.array([2, 7]), np.array([2])], pad=0, silent=[])
    assert torch.equal(plain["pools"], plain["real"])
