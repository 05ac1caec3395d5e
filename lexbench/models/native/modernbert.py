"""ModernBERT (B. Warner et al., arXiv 2412.13663): rotary positions, local attention in most layers, gated feed-forward layers.

Padding is left out of everything but attention, which long texts compute window by window. In float32 the models compute, bit
for bit, what the classes of transformers compute, but for these windows; modules and tensors have the same names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lexbench.models.native import Architecture, MaskedLMNames
from lexbench.models.native._attention import Context, Logits, RealTokens, Rotation, States, Window, frequencies
from lexbench.models.native._layers import SIZES, RotaryInt8Layer, Sizes, sizes_of

_FLAGS = ("attention_bias", "mlp_bias", "norm_bias", "classifier_bias")  # false if they are missing
_LAYERS = {"full_attention": False, "sliding_attention": True}  # the two types of layers: whether attention is local
_THETAS = {"full_attention": ("global_rope_theta", 160_000.0), "sliding_attention": ("local_rope_theta", 10_000.0)}
_EVERY = 3  # every third layer is global if config.json does not say otherwise
_WINDOW = 128
_EPSILON = 1e-5


# ---- the configuration -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModernBertConfig(Sizes):
    """The configuration, mostly with the names of transformers."""

    attention_bias: bool
    mlp_bias: bool
    norm_bias: bool
    classifier_bias: bool
    decoder_bias: bool
    tie_word_embeddings: bool
    norm_eps: float
    reach: int  # a local layer sees tokens up to so many positions away
    local: tuple[bool, ...]  # of each layer
    thetas: tuple[float, float]  # the bases of the frequencies in global layers and in local ones
    model_type: str = "modernbert"


def configuration(config: Mapping[str, Any]) -> ModernBertConfig | None:
    """Return the configuration of a ModernBERT whose settings are all usual; defaults are those of transformers.

    None for another kind of model, or if a setting is senseless or unusual: then transformers loads it, or raises an error.
    """
    sizes = sizes_of(config)
    flags: dict[str, Any] = {name: config.get(name, False) for name in _FLAGS}
    flags |= {name: config.get(name, True) for name in ("decoder_bias", "tie_word_embeddings")}
    window, epsilon = config.get("local_attention", _WINDOW), config.get("norm_eps", _EPSILON)
    local, thetas = _local_layers(config), _thetas(config)
    usual = (
        config.get("model_type") == "modernbert"
        and all(config.get(name, "gelu") == "gelu" for name in ("hidden_activation", "classifier_activation"))
        and config.get("quantization_config") is None
        and type(window) is int
        and window > 0
        and all(type(flag) is bool for flag in flags.values())
        and type(epsilon) is float
        and config.get("sliding_window") in (None, window // 2)
    )
    if (
        not usual
        or sizes is None
        or local is None
        or thetas is None
        or config["hidden_size"] % (2 * config["num_attention_heads"])
    ):
        return None
    return ModernBertConfig(**sizes, **flags, norm_eps=epsilon, reach=window // 2, local=local, thetas=thetas)


def _local_layers(config: Mapping[str, Any]) -> tuple[bool, ...] | None:
    """Return for each layer whether its attention is local, None if config.json says nothing clear."""
    layers, every = config.get("num_hidden_layers"), config.get("global_attn_every_n_layers", _EVERY)
    types = config.get("layer_types")
    if types is None:
        return tuple(bool(i % every) for i in range(layers)) if type(layers) is type(every) is int and every > 0 else None
    known = isinstance(types, list) and len(types) == layers and all(kind in _LAYERS for kind in types)
    return tuple(_LAYERS[kind] for kind in types) if known else None


def _thetas(config: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the bases of the frequencies in global and in local layers, None if positions are scaled in any way."""
    given = config.get("rope_parameters") or {}
    if config.get("rope_scaling") is not None or not isinstance(given, dict) or not given.keys() <= _LAYERS.keys():
        return None
    found = []
    for kind, (older, default) in _THETAS.items():
        of_kind = given.get(kind) or {}
        if of_kind.get("rope_type", "default") != "default" or not of_kind.keys() <= {"rope_type", "rope_theta"}:
            return None
        found.append(of_kind.get("rope_theta", config.get(older, default)))
    return (float(found[0]), float(found[1])) if all(type(theta) in (int, float) and theta > 0 for theta in found) else None


# ---- the model -------------------------------------------------------------------------------------------------------------


def _norm(config: ModernBertConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=config.norm_bias)


class _Embeddings(nn.Module):
    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.norm = _norm(config)


class _Attention(nn.Module):
    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.Wqkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=config.attention_bias)
        self.Wo = nn.Linear(config.hidden_size, config.hidden_size, bias=config.attention_bias)


class _FeedForward(nn.Module):
    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.Wi = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=config.mlp_bias)
        self.Wo = nn.Linear(config.intermediate_size, config.hidden_size, bias=config.mlp_bias)


class Layer(nn.Module):
    """One layer: attention and the gated feed-forward network, each behind a normalisation; the first has none in front."""

    def __init__(self, config: ModernBertConfig, number: int) -> None:
        super().__init__()
        self.attn_norm = _norm(config) if number else nn.Identity()
        self.attn = _Attention(config)
        self.mlp_norm = _norm(config)
        self.mlp = _FeedForward(config)

    def forward(self, states: Tensor, context: Context) -> Tensor:
        """Return the next states (tokens, width)."""
        states = states + self.attn.Wo(context.attended(self.attn.Wqkv(self.attn_norm(states)), self.attn.heads))
        hidden, gate = self.mlp.Wi(self.mlp_norm(states)).chunk(2, dim=-1)
        changed: Tensor = states + self.mlp.Wo(functional.gelu(hidden) * gate)
        return changed

    def in_int8(self) -> "Int8Layer":
        """Return the same layer with linear layers in int8."""
        return Int8Layer(
            (self.attn.Wqkv, self.attn.Wo, self.mlp.Wi, self.mlp.Wo), (self.attn_norm, self.mlp_norm), self.attn.heads
        )


class Int8Layer(RotaryInt8Layer):
    """A layer in int8."""

    def forward(self, states: Tensor, context: Context) -> Tensor:
        """Return the next states (tokens, width)."""
        from lexbench.models.int8 import quantised_states

        states = states + self.attended.product(self.gathered(self.attn_norm(states), context))
        hidden = self.hidden.quantised_geglu(quantised_states(self.mlp_norm(states)))
        return states + self.output.product(hidden)


class ModernBert(nn.Module):
    """The body: embeddings and layers."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = _Embeddings(config)
        self.layers = nn.ModuleList(Layer(config, number) for number in range(config.num_hidden_layers))
        self.final_norm = _norm(config)
        width = config.hidden_size // config.num_attention_heads
        self.register_buffer("frequencies", torch.stack([frequencies(one, width) for one in config.thetas]), persistent=False)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        padding: bool = False,
    ) -> States:
        """Return the last states for ids (texts, length); positions whose *attention_mask* is 0 are not seen.

        Their states are 0, or computed with *padding*. There are no segments: *token_type_ids* are ignored, and transformers
        has no such input.
        """
        del token_type_ids
        tokens = RealTokens(input_ids.shape, attention_mask, padding=padding)
        window = Window.for_tokens(self.config.reach, tokens, input_ids.device)
        both: Any = self.frequencies
        contexts = [
            Context(tokens, Rotation.for_length(tokens.length, one), window if local else None)
            for local, one in enumerate(both)
        ]
        states = self.embeddings.norm(self.embeddings.tok_embeddings(tokens.packed(input_ids)))
        for layer, local in zip(self.layers, self.config.local, strict=True):
            states = layer(states, contexts[local])
        return States(tokens.padded(self.final_norm(states)))


class _Head(nn.Module):
    """A head up to the output projection: a linear layer, GELU and a normalisation."""

    def __init__(self, dense: nn.Linear, norm: nn.LayerNorm) -> None:
        super().__init__()
        self.dense, self.norm = dense, norm

    def forward(self, states: Tensor) -> Tensor:
        """Return the transformed states (tokens, width)."""
        normed: Tensor = self.norm(functional.gelu(self.dense(states)))
        return normed


class ModernBertForMaskedLM(nn.Module):
    """Body and head. Encoders call its parts; it has no `forward`."""

    def __init__(self, config: ModernBertConfig) -> None:
        super().__init__()
        self.config = config
        self.model = ModernBert(config)
        dense = nn.Linear(config.hidden_size, config.hidden_size, bias=config.classifier_bias)
        self.head = _Head(dense, _norm(config))
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size, bias=config.decoder_bias)


class ModernBertForSequenceClassification(nn.Module):
    """A body with the head and the classifier of a model of transformers."""

    def __init__(self, body: nn.Module, model: Any) -> None:
        super().__init__()
        self.model, self.head, self.classifier, self.config = body, model.head, model.classifier, model.config

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Logits:
        """Return the logits of ids (texts, length), from the first token or the mean of all, as config.json says."""
        states: Tensor = self.model(input_ids, attention_mask).last_hidden_state
        if self.config.classifier_pooling == "cls":
            return Logits(self.classifier(self.head(states[:, 0])))
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        summed = (states * real.unsqueeze(-1)).sum(1)  # in the type of the states, as in transformers
        return Logits(self.classifier(self.head(summed / real.sum(1, keepdim=True))))


# Other settings change nothing here: dropout, initial weights, and how transformers computes.
_IGNORED = (
    *("attention_dropout", "embedding_dropout", "mlp_dropout", "classifier_dropout", "classifier_pooling", "initializer_range"),
    *("initializer_cutoff_factor", "deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index"),
    *("gradient_checkpointing", "reference_compile", "repad_logits_with_grad", "layer_norm_eps", "position_embedding_type"),
    *("cls_token_id", "sep_token_id"),
)
_OBEYED = (
    *("norm_eps", "decoder_bias", "hidden_activation", "classifier_activation", "local_attention", "sliding_window"),
    *("layer_types", "global_attn_every_n_layers", "rope_parameters", "rope_scaling", "global_rope_theta", "local_rope_theta"),
)

ARCHITECTURE = Architecture(
    MaskedLMNames("model.embeddings.tok_embeddings.weight", "decoder.weight", ("head",)),
    configuration,
    ModernBert,
    ModernBertForMaskedLM,
    ModernBertForSequenceClassification,
    settings=(*SIZES, *_FLAGS, *_OBEYED, *_IGNORED),
)
