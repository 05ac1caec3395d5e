"""Layers of BERT in int8: between products a layer's states are read once, in place of a dozen times by torch's operations.

Attention is left in float32. Only `lexbench.checkpoints.bert` has these layers; other models have `Int8Linear` alone.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lexbench.checkpoints.bert import Layer
from lexbench.neural.int8 import Int8Linear, quantised_states


class Int8Layer(nn.Module):
    """What a layer of BERT computes, its linear layers in whole numbers; query, key and value are one of them."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        heads: Any = layer.attention["self"]
        attended: Any = layer.attention["output"]
        hidden: Any = layer.intermediate["dense"]
        inputs = (heads.query, heads.key, heads.value)
        self.heads = int(heads.heads)
        self.inputs = Int8Linear(torch.cat([one.weight for one in inputs]), torch.cat([one.bias for one in inputs]))
        self.attended, self.hidden, self.output = (
            Int8Linear(dense.weight, dense.bias) for dense in (attended.dense, hidden, layer.output.dense)
        )
        self.attended_norm, self.output_norm = attended.LayerNorm, layer.output.LayerNorm

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        """Return the next states (texts, length, width); *mask* as in `Layer`."""
        texts, length, width = states.shape
        before = states.view(-1, width)
        inputs = self.inputs.product(quantised_states(before)).view(texts, length, 3, self.heads, -1)
        query, key, value = inputs.permute(2, 0, 3, 1, 4)
        gathered = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        gathered = gathered.transpose(1, 2).reshape(-1, width)
        attended = self.attended.normalised(quantised_states(gathered), before, self.attended_norm)
        hidden = self.hidden.quantised_gelu(quantised_states(attended))
        return self.output.normalised(hidden, attended, self.output_norm).view(texts, length, width)


def replace_layers(module: nn.Module) -> None:
    """Replace the layers of BERT inside *module* by those in int8."""
    for parent in list(module.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is Layer:
                setattr(parent, name, Int8Layer(layer))
