"""BERT for masked words in torch alone: bit by bit what transformers' class computes, whose import takes two seconds.

`empty_model` returns one for a config.json that leaves nothing to ask, None for every other, which is transformers' to read.
Modules and tensors are called as transformers calls them (J. Devlin et al., NAACL 2019). For encoding only: no dropout. Needs
torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from lexbench.checkpoints.weights import WithoutValues

_SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("max_position_embeddings", "type_vocab_size"),
)
_USUAL: Mapping[str, tuple[Any, ...]] = {  # what config.json may say, where it says something; None is also for nothing
    "hidden_act": ("gelu",),
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "chunk_size_feed_forward": (0, None),
    "quantization_config": (None,),
    "embedding_size": (None,),
}


@dataclass(frozen=True)
class BertConfig:
    """What config.json says of the model, by the names that transformers' configuration has for it."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float
    tie_word_embeddings: bool
    model_type: str = "bert"


class States(NamedTuple):
    """What the body returns, called as transformers calls it."""

    last_hidden_state: Tensor  # (texts, length, width)


class _Embeddings(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, ids: Tensor) -> Tensor:
        """Return (texts, length, width) for *ids* (texts, length), all of them of the first segment."""
        states = self.word_embeddings(ids) + self.token_type_embeddings.weight[0]
        normed: Tensor = self.LayerNorm(states + self.position_embeddings.weight[: ids.shape[1]])
        return normed


class _Heads(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads = config.num_attention_heads
        self.query, self.key, self.value = (nn.Linear(config.hidden_size, config.hidden_size) for _ in range(3))

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        """Return what each position gathers of all that *mask* (texts, 1, length, length) lets it see; None: of all."""
        shape = (*states.shape[:2], self.heads, -1)
        query, key, value = (layer(states).view(shape).transpose(1, 2) for layer in (self.query, self.key, self.value))
        gathered = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return gathered.transpose(1, 2).reshape(states.shape)


class _Added(nn.Module):
    """A linear layer, what went in before added to what comes out."""

    def __init__(self, inputs: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, inputs: Tensor, before: Tensor) -> Tensor:
        normed: Tensor = self.LayerNorm(self.dense(inputs) + before)
        return normed


class Layer(nn.Module):
    """Attention and what stands behind it."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.attention = nn.ModuleDict({"self": _Heads(config), "output": _Added(width, config)})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, config.intermediate_size)})
        self.output = _Added(config.intermediate_size, config)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        """Return the next states (texts, length, width); a position sees what *mask* (texts, 1, length, length) lets it."""
        attended = self.attention["output"](self.attention["self"](states, mask), states)
        changed: Tensor = self.output(functional.gelu(self.intermediate["dense"](attended)), attended)
        return changed


class _Layers(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        for layer in self.layer:
            states = layer(states, mask)
        return states


class Bert(nn.Module):
    """The body."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.embeddings = _Embeddings(config)
        self.encoder = _Layers(config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> States:
        """Return the last states for ids (texts, length); no position looks at one whose *attention_mask* is 0."""
        mask = None
        if attention_mask is not None:
            length = input_ids.shape[1]
            mask = attention_mask.bool()[:, None, None, :].expand(-1, 1, length, length)
        return States(self.encoder(self.embeddings(input_ids), mask))


class _Transform(nn.Module):
    """The head up to the output projection."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, states: Tensor) -> Tensor:
        normed: Tensor = self.LayerNorm(functional.gelu(self.dense(states)))
        return normed


class _Predictions(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = _Transform(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.bias = nn.Parameter(torch.empty(config.vocab_size))  # the decoder's, under the name that files have


class _Head(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.predictions = _Predictions(config)


class BertForMaskedLM(nn.Module):
    """Body and head; it holds their tensors, and those who encode call the parts."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = Bert(config)
        self.cls = _Head(config)

    def get_output_embeddings(self) -> nn.Linear:
        """Return the output projection."""
        return self.cls.predictions.decoder


def empty_model(config: Mapping[str, Any]) -> BertForMaskedLM | None:
    """Return the model that *config*, what config.json holds, describes, its parameters without values.

    None where it is of another kind, leaves something out, or says what is unusual: transformers has an answer, or an error.
    """
    sizes: dict[str, Any] = {name: config.get(name) for name in _SIZES}
    epsilon: Any = config.get("layer_norm_eps")
    tied = config.get("tie_word_embeddings", True)
    clear = all(type(size) is int and size > 0 for size in sizes.values()) and type(epsilon) is float and type(tied) is bool
    if not clear or config.get("model_type") != "bert" or any(config.get(name) not in said for name, said in _USUAL.items()):
        return None
    if config["hidden_size"] % config["num_attention_heads"]:
        return None
    with WithoutValues():
        return BertForMaskedLM(BertConfig(**sizes, layer_norm_eps=epsilon, tie_word_embeddings=tied))
