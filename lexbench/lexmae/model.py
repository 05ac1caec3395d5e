"""The masked autoencoder, and the encoder that is left of it: paper, sections 3.1 to 3.4.

The encoder is transformers' own *ForMaskedLM. The decoder is a few fresh BERT layers of the same width with a head of their
own; what projects states onto the vocabulary is the word embeddings' matrix everywhere (section 3.4, "we tie all").
"""

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer, BertPredictionHeadTransform

from lexbench.checkpoints.masked_lm import body_and_transform
from lexbench.lexmae import losses
from lexbench.lexmae.bottleneck import bag_of_words, importance, replace_first
from lexbench.lexmae.pooling import max_pool
from lexbench.lexmae.recipe import Pretrain


class Texts(NamedTuple):
    """A batch of texts, padded on the right; every tensor is (n, length)."""

    ids: Tensor
    real: Tensor  # bool, False for padding
    pools: Tensor  # bool, the positions whose logits count


class LexiconEncoder(nn.Module):
    """A masked-language model taken as an encoder of texts into weights of words: paper, Eq. 8."""

    def __init__(self, language_model: Any) -> None:
        super().__init__()
        self.language_model = language_model

    @property
    def config(self) -> Any:
        """The configuration of the masked-language model."""
        return self.language_model.config

    @property
    def embeddings(self) -> Tensor:
        """The word embeddings (vocabulary, width)."""
        weight: Tensor = self.language_model.get_input_embeddings().weight
        return weight

    @property
    def projection(self) -> tuple[Tensor, Tensor | None]:
        """The matrix (vocabulary, width) and bias (vocabulary,) that make logits of states; the first is the embeddings'."""
        layer = self.language_model.get_output_embeddings()
        return layer.weight, layer.bias

    def hidden(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return the last layer's states (n, length, width)."""
        body, _ = body_and_transform(self.language_model)
        states: Tensor = body(input_ids=ids, attention_mask=real.long()).last_hidden_state
        return states

    def transformed(self, hidden: Tensor) -> Tensor:
        """Return *hidden* as the projection takes it: through the head's dense layer, activation and normalisation."""
        _, transform = body_and_transform(self.language_model)
        states: Tensor = transform(hidden)
        return states

    def forward(self, texts: Texts) -> Tensor:
        """Return v = log(1 + max(0, Max-Pool(S))) (n, vocabulary), float32: paper, Eq. 8."""
        states = self.transformed(self.hidden(texts.ids, texts.real))
        return torch.log1p(functional.relu(max_pool(states, *self.projection, texts.pools)))


class Decoder(nn.Module):
    """The weakened decoder: few layers, much masked, and a head of its own, or the encoder's: paper, section 3.3."""

    def __init__(self, config: Any, layers: int, *, own_head: bool = True) -> None:
        super().__init__()
        shape = _bert(config)
        self.layers = nn.ModuleList([_layer(shape, index) for index in range(layers)])
        self.transform = _transform(shape) if own_head else None
        self.bias = nn.Parameter(torch.zeros(shape.vocab_size)) if own_head else None
        _initialise(self, shape.initializer_range)

    def forward(self, embedded: Tensor, real: Tensor) -> Tensor:
        """Return states (n, length, width) of *embedded* texts, before the head."""
        states = embedded
        for layer in self.layers:
            states = layer(states, attention_mask=real[:, None, None, :])
        return states


class MaskedAutoencoder(nn.Module):
    """LexMAE's pretraining: encoder, bottleneck, decoder, and the sum of both losses (paper, Eq. 7)."""

    def __init__(self, language_model: Any, recipe: Pretrain) -> None:
        super().__init__()
        self.recipe = recipe
        self.encoder = LexiconEncoder(language_model)
        self.decoder = Decoder(language_model.config, recipe.decoder_layers, own_head=recipe.heads != "shared")
        self.bottleneck_head: nn.Module | None = None
        if recipe.heads == "extra" and recipe.bottleneck in ("softmax", "saturated"):  # the others have no logits
            shape = _bert(language_model.config)
            self.bottleneck_head = _transform(shape)
            _initialise(self.bottleneck_head, shape.initializer_range)

    @property
    def config(self) -> Any:
        """The configuration of the encoder."""
        return self.encoder.config

    def forward(
        self,
        encoder_ids: Tensor,
        encoder_labels: Tensor,
        decoder_ids: Tensor,
        decoder_labels: Tensor,
        real: Tensor,
        pools: Tensor,
    ) -> dict[str, Tensor]:
        """Return the losses of a batch as `lexbench.lexmae.masking` makes it; every tensor is (n, length)."""
        encoder = self.encoder
        hidden = encoder.hidden(encoder_ids, real)
        states = encoder.transformed(hidden)
        of_encoder = losses.masked_language_modelling(states, *encoder.projection, encoder_labels)
        bottleneck = self.bottleneck(hidden, states, pools)
        decoded = self.decode(bottleneck, decoder_ids, real)
        of_decoder = losses.masked_language_modelling(*decoded, decoder_labels)
        return {"loss": of_encoder + of_decoder, "encoder_loss": of_encoder, "decoder_loss": of_decoder}

    def bottleneck(self, hidden: Tensor, states: Tensor, pools: Tensor) -> Tensor | None:
        """Return what stands for each text (n, width), None for nothing: paper, Eqs. 3 and 4, and the ablation of Table 7."""
        recipe = self.recipe
        if recipe.bottleneck == "none":
            return None
        if recipe.bottleneck == "cls":
            return hidden[:, 0]
        if self.bottleneck_head is not None:
            states = self.bottleneck_head(hidden)
        importances = importance(max_pool(states, *self.encoder.projection, pools), recipe.bottleneck)
        return bag_of_words(importances, self.encoder.embeddings, gradient=recipe.embedding_gradient)

    def decode(self, bottleneck: Tensor | None, ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return states ready to be projected (n, length, width), the projection, and its bias: paper, Eq. 5."""
        body, transform = body_and_transform(self.encoder.language_model)
        embedded = cast("nn.Module", body.embeddings)(ids)
        if bottleneck is not None:
            embedded = replace_first(embedded, bottleneck)
        states = self.decoder(embedded, real)
        weight, bias = self.encoder.projection
        if self.decoder.transform is None:
            return transform(states), weight, bias
        return self.decoder.transform(states), weight, self.decoder.bias


def _bert(config: Any) -> BertConfig:
    """Return the shape of BERT layers as wide as the encoder's, whatever its own architecture calls its sizes."""
    given = config.to_dict()
    names = {
        "hidden_size": ("hidden_size", "dim"),
        "num_attention_heads": ("num_attention_heads", "n_heads"),
        "intermediate_size": ("intermediate_size", "hidden_dim"),
        "hidden_act": ("hidden_act", "activation"),
        "hidden_dropout_prob": ("hidden_dropout_prob", "dropout"),
        "attention_probs_dropout_prob": ("attention_probs_dropout_prob", "attention_dropout"),
        "vocab_size": ("vocab_size",),
        "initializer_range": ("initializer_range",),
    }
    sizes = {ours: next(given[name] for name in theirs if name in given) for ours, theirs in names.items()}
    shape = BertConfig(**sizes)
    shape._attn_implementation = "sdpa"  # noqa: SLF001 - the public argument is of from_pretrained only
    return shape


def _layer(shape: BertConfig, index: int) -> nn.Module:
    return BertLayer(shape, layer_idx=index)  # type: ignore[no-untyped-call]


def _transform(shape: BertConfig) -> nn.Module:
    return BertPredictionHeadTransform(shape)  # type: ignore[no-untyped-call]


def _initialise(module: nn.Module, spread: float) -> None:
    """Fill *module* as BERT is: normal weights, no biases, normalisations that do nothing."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=spread)
            nn.init.zeros_(part.bias)


def unique_parameters(module: nn.Module) -> dict[str, Tensor]:
    """Return the parameters of *module* on the processor, each once: tied ones have one name."""
    found: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters():
        found[name] = parameter.detach().to("cpu", copy=True).contiguous()
    return found
