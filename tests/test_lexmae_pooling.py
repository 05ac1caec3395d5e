"""Max-pooling of logits and its gradient."""

from functools import partial

import pytest

pytest.importorskip("torch", reason="models are in the extra neural")

import torch
from torch.nn import functional

from lexbench.lexmae.model.encoder import max_pool

TEXTS, LENGTH, WIDTH = 4, 6, 8
VOCABULARY = 2 * 2048 + 5  # more than two pieces


def example(*, bias=True, view=False):
    """Return random states, weight, bias and pooled positions: few in the second text, none in the last.

    *view*: the states are a transposed view.
    """
    generator = torch.Generator().manual_seed(0)
    sizes = ((TEXTS, LENGTH, WIDTH), (VOCABULARY, WIDTH), (VOCABULARY,))
    states, weight, shift = (torch.randn(*size, generator=generator, requires_grad=True) for size in sizes)
    if view:
        states = states.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    pools = torch.ones(TEXTS, LENGTH, dtype=torch.bool)
    pools[:, 0] = False
    pools[1, 3:] = False
    pools[3] = False
    return states, weight, shift if bias else None, pools


def naive(states, weight, bias, pools, dtype=torch.float32):
    """Return the maxima from all logits, as the released code does: find the positions, then gather.

    The positions are chosen by logits of numbers that are rounded to *dtype*; the logits there are not rounded.
    """
    hidden = ~pools[:, :, None]
    places = (states.to(dtype) @ weight.to(dtype).T).masked_fill(hidden, -1e4).max(1, keepdim=True).indices
    largest = functional.linear(states, weight, bias).gather(1, places).squeeze(1)
    return torch.where(pools.any(1)[:, None], largest, -1e4)


def gradients(pool, inputs, share=1.0):
    """Return the values of *pool*, and the gradients of states, weight and bias for *share* of the values."""
    *tensors, pools = inputs
    found = pool(*tensors, pools)
    generator = torch.Generator().manual_seed(1)
    amounts = torch.randn(found.shape, generator=generator) * (torch.rand(found.shape, generator=generator) < share)
    return found, torch.autograd.grad((found * amounts).sum(), [one for one in tensors if one is not None])


# With *few*, backward makes logits again in float32, so in 16 bits it can choose other positions than the forward pass.
@pytest.mark.parametrize(
    ("dtype", "few"), [(torch.float32, True), (torch.float32, False), (torch.bfloat16, False), (torch.float16, False)]
)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("share", [1.0, 0.05, 0.0])
@pytest.mark.parametrize("view", [True, False])
def test_it_is_the_naive_maximum(dtype, bias, share, few, view):
    """Values and gradients are those of all logits made, masked, and the largest gathered, over more than one piece.

    Gradients of few words are computed in another way, which *few* expects. In mixed precision values and gradients are
    float32 and near those without rounding, at the positions that are the largest after rounding.
    """
    inputs = example(bias=bias, view=view)
    assert inputs[0].is_contiguous() != view
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        found, of_found = gradients(partial(max_pool, few=few), inputs, share)
    expected, of_expected = gradients(partial(naive, dtype=dtype), inputs, share)

    step = torch.finfo(dtype).eps
    torch.testing.assert_close(found, expected, rtol=0, atol=max(16 * step, 1e-5))  # logits are below 16
    assert len(of_found) == len(of_expected) == (3 if bias else 2)
    assert all(bool(one.any()) == bool(share) for one in of_expected)
    for one, other in zip(of_found, of_expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=max(4 * step * float(other.abs().max()), 1e-4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_text_without_positions(dtype):
    """Without pooled positions all logits are -10,000, in any precision, and there is no gradient."""
    states, weight, _, pools = example()
    bias = torch.full((VOCABULARY,), 1e5, requires_grad=True)
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        found = max_pool(states, weight, bias, pools)
    found[3].sum().backward()

    assert (found[3] == -1e4).all()
    for tensor in (states, weight, bias):
        assert not tensor.grad.any()


def test_of_equal_logits_one_gets_the_gradient():
    """Of equal logits one position gets the whole gradient."""
    states = torch.ones(1, 3, 1, requires_grad=True)
    max_pool(states, torch.ones(1, 1), None, torch.tensor([[False, True, True]])).backward(torch.tensor([[5.0]]))
    assert sorted(states.grad.flatten().tolist()) == [0.0, 0.0, 5.0]
    assert states.grad[0, 0, 0] == 0
