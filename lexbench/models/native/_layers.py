"""What the architectures of this package have in common: sizes, layers in int8 with rotary positions, heads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor, nn

from lexbench.models.native._attention import Context


@dataclass(frozen=True)
class Sizes:
    """The sizes in a config.json, with its names."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int


SIZES = tuple(one.name for one in fields(Sizes))


def sizes_of(config: Mapping[str, Any], *more: str) -> dict[str, Any] | None:
    """Return the sizes in a config.json, and *more* of them by name; None if one is no number above 0."""
    found = {name: config.get(name) for name in (*SIZES, *more)}
    return found if all(type(size) is int and size > 0 for size in found.values()) else None


class RotaryInt8Layer(nn.Module):
    """A layer with rotary positions and a gated network, whose linear layers are in int8. Attention stays in floats."""

    def __init__(self, linears: Sequence[nn.Linear], norms: Sequence[Any], heads: int) -> None:
        """Take the *linears* in their order (query, key and value; output; up and gate; down), and the two *norms*."""
        super().__init__()
        from lexbench.models.int8 import Int8Linear  # it compiles loops, so only models in int8 import it

        self.inputs, self.attended, self.hidden, self.output = (Int8Linear(one.weight, one.bias) for one in linears)
        (self.attn_norm, self.mlp_norm), self.heads = norms, heads

    def gathered(self, states: Tensor, context: Context) -> Any:
        """Return the attended *states* (tokens, width), as quantised states."""
        from lexbench.models.int8 import attention_dtype, quantised_states

        inputs = self.inputs.product(quantised_states(states)).to(attention_dtype(context.tokens.length))
        return quantised_states(context.attended(inputs, self.heads).float())
