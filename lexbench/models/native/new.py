"""GTE's BERT (X. Zhang et al., mGTE, arXiv 2407.19669), whose model_type is "new": rotary positions, gated feed-forward layers.

transformers has no such class; the hub has its authors' code (Alibaba-NLP/new-impl), which lexbench does not run. Modules and
tensors have the names of their checkpoints. Facts: that code's public description of the architecture, and the same model in
Hugging Face's text-embeddings-inference (backends/candle/src/models/gte.rs).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lexbench.models.native import Architecture, MaskedLMNames
from lexbench.models.native._attention import Context, RealTokens, Rotation, States, frequencies
from lexbench.models.native._layers import SIZES, RotaryInt8Layer, Sizes

_USUAL: Mapping[str, tuple[Any, ...]] = {  # accepted values of config.json; with None the setting may be missing
    "model_type": ("new",),
    "hidden_act": ("gelu",),
    "position_embedding_type": ("rope",),
    "layer_norm_type": ("layer_norm", None),
    "pack_qkv": (True, None),
    "logn_attention_scale": (False, None),
    "quantization_config": (None,),
}
_IGNORED = (  # dropout, initial weights, and how their code computes
    *("attention_probs_dropout_prob", "hidden_dropout_prob", "classifier_dropout", "initializer_range", "logn_attention_clip1"),
    *("unpad_inputs", "use_memory_efficient_attention"),
)


@dataclass(frozen=True)
class NewConfig(Sizes):
    """The configuration, with the names of its authors."""

    type_vocab_size: int
    layer_norm_eps: float
    rope_theta: float
    scaling: float  # of rotary positions, "ntk"; 1 for none
    tie_word_embeddings: bool
    model_type: str = "new"


def configuration(config: Mapping[str, Any]) -> NewConfig | None:
    """Return the configuration of a GTE whose settings are all known and usual, else None."""
    return None if unusual(config) else NewConfig(**_values(config), scaling=float(_scaling(config) or 1))


def unusual(config: Mapping[str, Any]) -> str:
    """Return what lexbench cannot compute of a config.json, e.g. "pack_qkv = False"; "" if it can."""
    for name, accepted in _USUAL.items():
        if config.get(name) not in accepted:
            return f"{name} = {config.get(name)!r}"
    values = _values(config)
    for name in SIZES:
        if type(values[name]) is not int or values[name] < 1:
            return f"{name} = {values[name]!r}"
    for name, kind in (
        ("type_vocab_size", int),
        ("layer_norm_eps", float),
        ("rope_theta", float),
        ("tie_word_embeddings", bool),
    ):
        if type(values[name]) is not kind:
            return f"{name} = {values[name]!r}"
    if values["hidden_size"] % (2 * values["num_attention_heads"]):
        return f"num_attention_heads = {values['num_attention_heads']} for hidden_size = {values['hidden_size']}"
    return "" if _scaling(config) else f"rope_scaling = {config.get('rope_scaling')!r}"


def _values(config: Mapping[str, Any]) -> dict[str, Any]:
    theta = config.get("rope_theta", (config.get("rope_parameters") or {}).get("rope_theta"))
    found = {name: config.get(name) for name in (*SIZES, "type_vocab_size", "layer_norm_eps")}
    return found | {
        "rope_theta": float(theta) if type(theta) is int else theta,
        "tie_word_embeddings": config.get("tie_word_embeddings", True),
    }


def _scaling(config: Mapping[str, Any]) -> float | None:
    """Return the factor of rotary positions, 1 for none; None if they are scaled in another way."""
    given = config.get("rope_scaling")
    if given is None:
        return 1.0
    known = isinstance(given, dict) and given.get("type") == "ntk" and given.keys() <= {"type", "factor"}
    return float(given["factor"]) if known and type(given.get("factor")) in (int, float) and given["factor"] > 0 else None


# ---- the model -------------------------------------------------------------------------------------------------------------


class _Embeddings(nn.Module):
    def __init__(self, config: NewConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        if config.type_vocab_size:
            self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, ids: Tensor, types: Tensor | None) -> Tensor:
        """Return states (tokens, width) for *ids* (tokens,) in segments *types*; None: all in the first one."""
        states = self.word_embeddings(ids)
        if hasattr(self, "token_type_embeddings"):
            states = states + self.token_type_embeddings(torch.zeros_like(ids) if types is None else types)
        normed: Tensor = self.LayerNorm(states)
        return normed


class _Attention(nn.Module):
    def __init__(self, config: NewConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.qkv_proj = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size)


class _FeedForward(nn.Module):
    def __init__(self, config: NewConfig) -> None:
        super().__init__()
        self.up_gate_proj = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size)


class Layer(nn.Module):
    """One layer: attention and the gated feed-forward network, each with a normalisation behind it."""

    def __init__(self, config: NewConfig) -> None:
        super().__init__()
        self.attention, self.mlp = _Attention(config), _FeedForward(config)
        self.attn_ln, self.mlp_ln = (nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps) for _ in range(2))

    def forward(self, states: Tensor, context: Context) -> Tensor:
        """Return the next states (tokens, width)."""
        gathered = context.attended(self.attention.qkv_proj(states), self.attention.heads)
        states = self.attn_ln(states + self.attention.o_proj(gathered))
        hidden, gate = self.mlp.up_gate_proj(states).chunk(2, dim=-1)
        changed: Tensor = self.mlp_ln(states + self.mlp.down_proj(hidden * functional.gelu(gate)))
        return changed

    def in_int8(self) -> "Int8Layer":
        """Return the same layer with linear layers in int8."""
        linears = (self.attention.qkv_proj, self.attention.o_proj, self.mlp.up_gate_proj, self.mlp.down_proj)
        return Int8Layer(linears, (self.attn_ln, self.mlp_ln), self.attention.heads)


class Int8Layer(RotaryInt8Layer):
    """A layer in int8."""

    def forward(self, states: Tensor, context: Context) -> Tensor:
        """Return the next states (tokens, width)."""
        from lexbench.models.int8 import quantised_states

        states = self.attended.normalised(self.gathered(states, context), states, self.attn_norm)
        hidden = self.hidden.quantised_geglu(quantised_states(states), gate_first=True)
        return self.output.normalised(hidden, states, self.mlp_norm)


class New(nn.Module):
    """The body: embeddings and layers."""

    def __init__(self, config: NewConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = _Embeddings(config)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))})
        width = config.hidden_size // config.num_attention_heads
        # Frequencies for texts longer than those of the training ("ntk"): a larger base, and all divided by one number.
        scaled = frequencies(config.rope_theta * config.scaling, width) / config.scaling ** (2 / width)
        self.register_buffer("frequencies", scaled, persistent=False)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        padding: bool = False,
    ) -> States:
        """Return the last states for ids (texts, length); positions whose *attention_mask* is 0 are not seen.

        Their states are 0, or computed with *padding*.
        """
        tokens = RealTokens(input_ids.shape, attention_mask, padding=padding)
        rates: Any = self.frequencies
        context = Context(tokens, Rotation.for_length(tokens.length, rates), None)
        types = None if token_type_ids is None else tokens.packed(token_type_ids)
        states: Tensor = self.embeddings(tokens.packed(input_ids), types)
        layers: Any = self.encoder["layer"]
        for layer in layers:
            states = layer(states, context)
        return States(tokens.padded(states))


class _Head(nn.Module):
    def __init__(self, config: NewConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)


class NewForMaskedLM(nn.Module):
    """Body and head. Encoders call its parts; it has no `forward`."""

    def __init__(self, config: NewConfig) -> None:
        super().__init__()
        self.config = config
        self.new = New(config)
        self.lm_head = _Head(config)


ARCHITECTURE = Architecture(
    MaskedLMNames("new.embeddings.word_embeddings.weight", "lm_head.decoder.weight", ("lm_head.dense", "lm_head.norm")),
    configuration,
    New,
    NewForMaskedLM,
    settings=(*_USUAL, *_values({}), *_IGNORED, "rope_scaling", "rope_parameters"),
    unusual=unusual,
)
