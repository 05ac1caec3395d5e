"""BERT (J. Devlin et al., NAACL 2019).

The models compute in float32, bit for bit, what the classes of transformers compute; modules and tensors have the same names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lexbench.models.native import Architecture, MaskedLMNames
from lexbench.models.native._attention import (
    Logits,
    Packing,
    RealTokens,
    States,
    attend,
    attend_packed,
    packed_attention_works,
)
from lexbench.models.native._layers import Sizes, sizes_of

_USUAL: Mapping[str, tuple[Any, ...]] = {  # accepted values of config.json; with None the setting may be missing
    "hidden_act": ("gelu",),
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "chunk_size_feed_forward": (0, None),
    "quantization_config": (None,),
    "embedding_size": (None,),
}


# ---- the model -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BertConfig(Sizes):
    """The configuration, with the names of transformers."""

    type_vocab_size: int
    layer_norm_eps: float
    tie_word_embeddings: bool
    model_type: str = "bert"


class _Embeddings(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, ids: Tensor, types: Tensor | None) -> Tensor:
        """Return states (texts, length, width) for *ids* (texts, length) in segments *types*; None: all in the first one."""
        segments = self.token_type_embeddings.weight[0] if types is None else self.token_type_embeddings(types)
        states = self.word_embeddings(ids) + segments
        normed: Tensor = self.LayerNorm(states + self.position_embeddings.weight[: ids.shape[1]])
        return normed


class _SelfAttention(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.query, self.key, self.value = (nn.Linear(config.hidden_size, config.hidden_size) for _ in range(3))

    def forward(self, states: Tensor, mask: Tensor | Packing | None) -> Tensor:
        """Return the attended states; position i sees position j if *mask* (texts, 1, length, length) is None or true there.

        With a `Packing` states are (tokens, width), and a position sees its text.
        """
        if isinstance(mask, Packing):
            shape = len(states), self.heads, -1
            query, key, value = (layer(states).view(shape) for layer in (self.query, self.key, self.value))
            return attend_packed(query, key, value, mask).flatten(1)
        shape = (*states.shape[:2], self.heads, -1)
        query, key, value = (layer(states).view(shape).transpose(1, 2) for layer in (self.query, self.key, self.value))
        gathered = attend(query, key, value, mask)
        return gathered.transpose(1, 2).reshape(states.shape)


class _Normed(nn.Module):
    """A linear layer, and the normalisation behind it."""

    def __init__(self, inputs: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)


class _Residual(_Normed):
    """A linear layer whose output is added to earlier states and normalised."""

    def forward(self, inputs: Tensor, before: Tensor) -> Tensor:
        normed: Tensor = self.LayerNorm(self.dense(inputs) + before)
        return normed


class Layer(nn.Module):
    """One layer: attention and the feed-forward network behind it."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.attention = nn.ModuleDict({"self": _SelfAttention(config), "output": _Residual(width, config)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, config.intermediate_size)})
        self.output = _Residual(config.intermediate_size, config)

    def forward(self, states: Tensor, mask: Tensor | Packing | None) -> Tensor:
        """Return the next states (texts, length, width); *mask* (texts, 1, length, length) is true where a position sees.

        With a `Packing` states are (tokens, width).
        """
        attended = self.attention["output"](self.attention["self"](states, mask), states)
        changed: Tensor = self.output(functional.gelu(self.intermediate["dense"](attended)), attended)
        return changed

    def in_int8(self) -> "Int8Layer":
        """Return the same layer with linear layers in int8."""
        return Int8Layer(self)


class Int8Layer(nn.Module):
    """A layer with linear layers in int8; query, key and value are one of them. Attention stays in floats."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        from lexbench.models.int8 import Int8Linear  # it compiles loops, so only models in int8 import it

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
        from lexbench.models.int8 import attention_dtype, quantised_states

        texts, length, width = states.shape
        before = states.view(-1, width)
        inputs = self.inputs.product(quantised_states(before)).to(attention_dtype(length))
        query, key, value = inputs.view(texts, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        gathered = attend(query, key, value, mask).transpose(1, 2).reshape(-1, width).float()
        attended = self.attended.normalised(quantised_states(gathered), before, self.attended_norm)
        hidden = self.hidden.quantised_gelu(quantised_states(attended))
        return self.output.normalised(hidden, attended, self.output_norm).view(texts, length, width)


class Bert(nn.Module):
    """The body: embeddings and layers."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = _Embeddings(config)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))})

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        padding: bool = True,
    ) -> States:
        """Return the last states for ids (texts, length); positions whose *attention_mask* is 0 are not seen.

        Without *padding* these positions, which are the last of a text, need no states. Some GPUs do not compute them.
        """
        mask: Tensor | None = None
        if attention_mask is not None:
            if not padding and self._packs():
                return States(self._packed(input_ids, attention_mask.bool(), token_type_ids))
            length = input_ids.shape[1]
            mask = attention_mask.bool()[:, None, None, :].expand(-1, 1, length, length)
        states: Tensor = self.embeddings(input_ids, token_type_ids)
        layers: Any = self.encoder["layer"]
        for layer in layers:
            states = layer(states, mask)
        return States(states)

    def _packs(self) -> bool:
        """Return whether states without padding can be computed."""
        weight = self.embeddings.word_embeddings.weight
        return packed_attention_works(weight.device, weight.dtype, self.config.hidden_size // self.config.num_attention_heads)

    def _packed(self, ids: Tensor, real: Tensor, types: Tensor | None) -> Tensor:
        """Return the last states (texts, length, width), computed without padding, where they are 0."""
        tokens = RealTokens(ids.shape, real)
        packing = tokens.packing(ids.device)
        states = tokens.packed(self.embeddings(ids, types))
        layers: Any = self.encoder["layer"]
        for layer in layers:
            states = layer(states, packing)
        return tokens.padded(states)


class _Transform(_Normed):
    """The head up to the output projection."""

    def forward(self, states: Tensor) -> Tensor:
        normed: Tensor = self.LayerNorm(functional.gelu(self.dense(states)))
        return normed


class _Predictions(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = _Transform(config.hidden_size, config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.bias = nn.Parameter(torch.empty(config.vocab_size))  # the decoder's bias, by its name in files


class BertForMaskedLM(nn.Module):
    """Body and head. Encoders call its parts; it has no `forward`."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = Bert(config)
        self.cls = nn.ModuleDict({"predictions": _Predictions(config)})


class BertForSequenceClassification(nn.Module):
    """A body with the pooler and the classifier of a model of transformers."""

    def __init__(self, body: nn.Module, model: Any) -> None:
        super().__init__()
        self.bert, self.pooler, self.classifier, self.config = body, model.bert.pooler, model.classifier, model.config

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None) -> Logits:
        """Return the logits of ids (texts, length)."""
        states = self.bert(input_ids, attention_mask, token_type_ids, padding=False).last_hidden_state
        return Logits(self.classifier(self.pooler(states)))


def configuration(config: Mapping[str, Any]) -> BertConfig | None:
    """Return the configuration of a BERT whose settings are all known and usual.

    None for another kind of model, or if a setting is missing or unusual: then transformers loads it, or raises an error.
    """
    sizes = sizes_of(config, "type_vocab_size")
    epsilon: Any = config.get("layer_norm_eps")
    tied = config.get("tie_word_embeddings", True)
    if sizes is None or type(epsilon) is not float or type(tied) is not bool:
        return None
    if config.get("model_type") != "bert" or any(config.get(name) not in usual for name, usual in _USUAL.items()):
        return None
    if config["hidden_size"] % config["num_attention_heads"]:
        return None
    return BertConfig(**sizes, layer_norm_eps=epsilon, tie_word_embeddings=tied)


ARCHITECTURE = Architecture(
    MaskedLMNames(
        "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.weight",
        ("cls.predictions.transform",),
        ("cls.predictions.bias", "cls.predictions.decoder.bias"),
    ),
    configuration,
    Bert,
    BertForMaskedLM,
    BertForSequenceClassification,
)
