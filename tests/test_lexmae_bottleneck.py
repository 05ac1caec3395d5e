"""The lexicon bottleneck."""

import math

import pytest

pytest.importorskip("torch", reason="models are in the extra neural")

import torch

from lexbench.lexmae.model.autoencoder import bag_of_words, importance, replace_first

EMBEDDINGS = [[4.0, 0.0, 1.0], [0.0, 4.0, 1.0]]


def test_importance_is_a_softmax():
    """Logits ln 1, ln 2 and ln 5 are importances 1/8, 2/8 and 5/8."""
    logits = torch.tensor([[math.log(1), math.log(2), math.log(5)], [7.0, 7.0, 7.0]])
    wanted = torch.tensor([[0.125, 0.25, 0.625], [1 / 3, 1 / 3, 1 / 3]])
    torch.testing.assert_close(importance(logits, "softmax"), wanted)


def test_saturated_importance():
    """Logits e - 1, -3 and e^2 - 1 have weights 1, 0 and 2, which are divided by their sum and a ten-thousandth."""
    logits = torch.tensor([[math.e - 1, -3.0, math.e**2 - 1]])
    wanted = torch.tensor([[1 / 3.0001, 0.0, 2 / 3.0001]])
    torch.testing.assert_close(importance(logits, "saturated"), wanted, rtol=1e-6, atol=0)


def test_a_text_without_any_weight():
    """Where no logit is above 0 the saturated importances are 0, and so are their gradients: no division by 0."""
    logits = torch.full((1, 3), -1.0, requires_grad=True)
    found = importance(logits, "saturated")
    found.sum().backward()
    assert found.tolist() == [[0.0, 0.0, 0.0]]
    assert logits.grad.tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("normalisation", ["softmax", "saturated"])
def test_importances_are_not_of_half_precision(normalisation):
    """The importances of 30 000 words alike add up to 1, which in half precision they would not."""
    logits = torch.ones(1, 30_000, dtype=torch.float16)
    found = importance(logits, normalisation)
    assert found.dtype == torch.float32
    assert float(found.sum()) == pytest.approx(1, abs=1e-5)


def test_bag_of_words():
    """A quarter of one word's embedding and three quarters of the other's."""
    assert bag_of_words(torch.tensor([[0.25, 0.75]]), torch.tensor(EMBEDDINGS)).tolist() == [[1.0, 3.0, 1.0]]


@pytest.mark.parametrize("gradient", [False, True])
def test_the_gradient_of_the_embeddings_is_cut_off(gradient):
    """Importances get a gradient, the dot products of embeddings and the result's; embeddings get theirs only if asked for."""
    importances = torch.tensor([[0.25, 0.75]], requires_grad=True)
    embeddings = torch.tensor(EMBEDDINGS, requires_grad=True)
    bag_of_words(importances, embeddings, gradient=gradient).backward(torch.tensor([[1.0, 10.0, 100.0]]))

    assert importances.grad.tolist() == [[104.0, 140.0]]
    if gradient:
        assert embeddings.grad.tolist() == [[0.25, 2.5, 25.0], [0.75, 7.5, 75.0]]
    else:
        assert embeddings.grad is None


def test_the_first_position_is_replaced():
    """[CLS] gives way to the bottleneck as it is; all other positions stay; the dtype is that of the embedded text."""
    embedded = torch.arange(12.0).view(2, 3, 2).requires_grad_()
    bottleneck = torch.tensor([[-1.0, -2.0], [-3.0, -4.0]], dtype=torch.float64)
    found = replace_first(embedded, bottleneck)
    found.sum().backward()

    assert found.tolist() == [[[-1, -2], [2, 3], [4, 5]], [[-3, -4], [8, 9], [10, 11]]]
    assert found.dtype == torch.float32
    assert embedded.grad.tolist() == [[[0, 0], [1, 1], [1, 1]]] * 2
