"""Masked-language models as `sparse_mlm` runs them: body, transform, and projection onto the vocabulary in pieces."""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn import functional

from lexbench.checkpoints import masked_lm
from lexbench.neural import packing
from lexbench.neural.transformer_model import Place, TransformerModel, device

_PIECE = 2048  # terms projected at a time: their logits stay in the processor's cache


class Model(TransformerModel):
    """A masked-language model in three steps (body, transform, projection), and its tokenizer."""

    def __init__(self, place: Place) -> None:
        found = masked_lm.load(place.name, place.revision, dtype=place.torch_dtype, device=device(place.device))
        super().__init__(place, found.body, found.tokenizer, found.config)
        self.transform: nn.Module = found.transform
        self.vocabulary = len(found.weight)
        packed = packing.usable(self.device.type, place.torch_dtype)
        self.pieces = _projection(found.weight, found.bias, packed=packed)
        if packed:
            packing.pack(self.body)
            packing.pack(self.transform)


def _projection(weight: Tensor, bias: Tensor | None, *, packed: bool) -> list[Callable[[Tensor], Tensor]]:
    """Return the projection onto the vocabulary in pieces, each (tokens, width) to (tokens, terms)."""
    starts = range(0, len(weight), _PIECE)
    parts = [(weight[at : at + _PIECE], None if bias is None else bias[at : at + _PIECE]) for at in starts]
    return [packing.Packed(*part) if packed else partial(_linear, *part) for part in parts]


def _linear(weight: Tensor, bias: Tensor | None, states: Tensor) -> Tensor:
    return functional.linear(states, weight, bias)
