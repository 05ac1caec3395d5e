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


def naive(states, weight, bias, pools):
    """Return the maxima from all logits, as the released code does: argmax, then gather."""
    logits = functional.linear(states, weight, bias)
    places = logits.masked_fill(~pools[:, :, None], -1e4).argmax(1, keepdim=True)
    largest = logits.gather(1, places).squeeze(1)
    return torch.where(pools.any(1)[:, None], largest, -1e4)


def gradients(pool, inputs, share=1.0):
    """Return the values of *pool*, and the gradients of states, weight and bias for *share* of the values."""
    *tensors, pools = inputs
    found = pool(*tensors, pools)
    generator = torch.Generator().manual_seed(1)
    amounts = torch.randn(found.shape, generator=generator) * (torch.rand(found.shape, generator=generator) < share)
    return found, torch.autograd.grad((found * amounts).sum(), [one for one in tensors if one is not None])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("share", [1.0, 0.05, 0.0])
@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("view", [True, False])
def test_it_is_the_naive_maximum(bias, share, few, view):
    """Values and gradients are those of all logits made, masked, and the largest gathered, over more than one piece.

    So they are where only a few words have a gradient, or none has, which is computed in another way, and where few were
    expected to have one, however many have.
    """
    inputs = example(bias=bias, view=view)
    assert inputs[0].is_contiguous() != view
    found, of_found = gradients(partial(max_pool, few=few), inputs, share)
    wanted, of_wanted = gradients(naive, inputs, share)

    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert len(of_found) == len(of_wanted) == (3 if bias else 2)
    assert all(bool(one.any()) == bool(share) for one in of_wanted)
    for one, other in zip(of_found, of_wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


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


@pytest.mark.parametrize("share", [1.0, 0.05])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixed_precision(dtype, share):
    """Under autocast values are float32 and near those without; gradients are float32, of the positions that were chosen.

    The reference makes its logits of numbers rounded in the same way, so that it chooses the same positions.
    """
    states, weight, bias, pools = example()
    with torch.autocast("cpu", dtype):
        found, of_found = gradients(max_pool, (states, weight, bias, pools), share)
    exact = naive(states, weight, bias, pools)

    step = torch.finfo(dtype).eps
    assert found.dtype == torch.float32
    assert float((found - exact).detach().abs().max()) < 16 * step  # logits are below 16: WIDTH terms of rounded factors
    assert all(one.dtype == torch.float32 for one in of_found)
    with torch.no_grad():
        logits = (states.to(dtype) @ weight.to(dtype).T).masked_fill(~pools[:, :, None], -1e4)
    places = logits.max(1, keepdim=True).indices

    def chosen(states, weight, bias, pools):
        largest = functional.linear(states, weight, bias).gather(1, places).squeeze(1)
        return torch.where(pools.any(1)[:, None], largest, -1e4)

    _, of_chosen = gradients(chosen, (states, weight, bias, pools), share)
    for one, other in zip(of_found, of_chosen, strict=True):
        scale = float(other.abs().max())
        torch.testing.assert_close(one, other, rtol=0, atol=4 * step * scale)
