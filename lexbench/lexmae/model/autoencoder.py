"""The masked autoencoder of pretraining: encoder, lexicon bottleneck and decoder (paper, sections 3.1 to 3.3).

The encoder is a *ForMaskedLM of transformers. The decoder is a few new BERT layers of the same width with a separate head;
ModernBERT's also learns positions, because its word embeddings have none. The matrix of the word embeddings projects states
onto the vocabulary everywhere (section 3.4, "we tie all"). The encoder passes one bag of words to the decoder.
"""

from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer, BertPredictionHeadTransform

from lexbench.lexmae.model import losses
from lexbench.lexmae.model.encoder import Learner, LexiconEncoder, max_pool
from lexbench.lexmae.model.whole_batch import gathered, in_pieces
from lexbench.lexmae.recipe.settings import Pretrain
from lexbench.models.architectures import body_and_transform

_PROBED = 8  # one text in 8, and at least two, measures how much the decoder uses the bottleneck
_EPSILON = 1e-4  # added to the sum that saturated weights are divided by (released code)


def importance(logits: Tensor, normalisation: Literal["softmax", "saturated"]) -> Tensor:
    """Return the importance of each word to each text, a = Norm(Max-Pool(S)) (n, vocabulary): paper, Eq. 3.

    *logits* (n, vocabulary) are already pooled. "saturated" is L1-Norm(log(1 + ReLU(logits))), section 4.3, "Zero-shot".
    """
    if normalisation == "softmax":
        return functional.softmax(logits.float(), dim=-1)
    weights = torch.log1p(functional.relu(logits.float()))
    return weights / (weights.sum(-1, keepdim=True) + _EPSILON)


class Decoder(nn.Module):
    """The weakened decoder: few layers, heavily masked texts, its own head. Paper, section 3.3."""

    def __init__(self, config: Any, layers: int) -> None:
        super().__init__()
        shape = _bert(config)
        self.layers = nn.ModuleList([BertLayer(shape, index) for index in range(layers)])
        self.transform = BertPredictionHeadTransform(shape)
        self.bias = nn.Parameter(torch.zeros(shape.vocab_size))
        self.positions: nn.Embedding | None = None
        if config.model_type == "modernbert":  # only its own layers know positions, by rotation
            self.positions = nn.Embedding(config.max_position_embeddings, shape.hidden_size)
        _initialise(self, shape.initializer_range)

    def forward(self, embedded: Tensor, real: Tensor) -> Tensor:
        """Return the states (n, length, width) of *embedded* texts (n, length, width), before the head."""
        states = embedded
        for layer in self.layers:
            states = layer(states, attention_mask=real[:, None, None, :])
        return states


class MaskedAutoencoder(Learner):
    """Encoder, bottleneck and decoder, trained with the sum of both losses (paper, Eq. 7)."""

    def __init__(self, language_model: Any, recipe: Pretrain) -> None:
        super().__init__()
        self.recipe = recipe
        self.encoder = LexiconEncoder(language_model)
        self.decoder: Decoder | None = None
        if recipe.decoder_layers:
            self.decoder = Decoder(language_model.config, recipe.decoder_layers)

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
        """Return the losses of a batch, scalars: paper, Eqs. 2, 6 and 7. `data.masking` makes the tensors, each (n, length)."""
        inputs = (encoder_ids, encoder_labels, decoder_ids, decoder_labels, real, pools)
        sums, bags = in_pieces(self.sums, self.pieces, *inputs)
        sums = gathered(sums).sum(0)  # the mean is over the masked words of the whole batch
        encoder_loss = losses.mean_of(sums[:2])
        if self.decoder is None:
            return {"loss": encoder_loss, "encoder_loss": encoder_loss}
        decoder_loss = losses.mean_of(sums[2:])
        parts = {"loss": encoder_loss + decoder_loss, "encoder_loss": encoder_loss, "decoder_loss": decoder_loss}
        if self.recipe.bottleneck != "none" and len(bags) > 1:
            parts["usage"] = self.usage(bags, decoder_ids, decoder_labels, real)
        return parts

    def sums(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums of the losses of a piece (1, 4), each with its number of words, and the bottlenecks (n, width).

        *inputs* are those of `forward`. The encoder's sum comes first. Without a bottleneck the second tensor has no column.
        """
        encoder_ids, encoder_labels, decoder_ids, decoder_labels, real, pools = inputs
        encoder = self.encoder
        states = encoder.transformed(encoder.hidden(encoder_ids, real))
        of_encoder = losses.masked_sum(states, *encoder.projection, encoder_labels)
        if self.decoder is None:
            return torch.cat([of_encoder, torch.zeros_like(of_encoder)])[None], states[:, 0, :0]
        bag = self.bottleneck(states, pools)
        of_decoder = losses.masked_sum(*self.decode(bag, decoder_ids, real), decoder_labels)
        return torch.cat([of_encoder, of_decoder])[None], states[:, 0, :0] if bag is None else bag

    @torch.no_grad()
    def usage(self, bottleneck: Tensor, ids: Tensor, labels: Tensor, real: Tensor) -> Tensor:
        """Return how much the decoder's loss grows with another text's bottleneck, a scalar: 0 if it ignores the bottleneck.

        Measured on the first texts of a batch. Dropout is off, so that no random numbers are drawn and training is unchanged.
        """
        some = slice(max(2, len(ids) // _PROBED))
        was_training = self.training
        self.eval()
        both = [
            losses.masked_language_modelling(*self.decode(bag, ids[some], real[some]), labels[some])
            for bag in (bottleneck[some].roll(1, 0), bottleneck[some])
        ]
        self.train(was_training)
        return both[0] - both[1]

    def bottleneck(self, states: Tensor, pools: Tensor) -> Tensor | None:
        """Return what the decoder sees of each text (n, width), or None: paper, Eqs. 3 and 4."""
        if self.recipe.bottleneck == "none":
            return None
        importances = importance(max_pool(states, *self.encoder.projection, pools), self.recipe.bottleneck)
        return importances @ self.encoder.embeddings.detach()  # it trains the importances alone: "cut-off the gradient", 3.4

    def decode(self, bottleneck: Tensor | None, ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the decoder's transformed states (n, length, width), the projection and its bias: paper, Eq. 5."""
        decoder = self.decoder
        assert decoder is not None
        body, _ = body_and_transform(self.encoder.language_model)
        embedded = cast("nn.Module", body.embeddings)(ids)
        if decoder.positions is not None:
            embedded = embedded + decoder.positions.weight[: ids.shape[1]]
        if bottleneck is not None:  # it takes the place of [CLS], without a position and normalisation
            embedded = torch.cat([bottleneck[:, None].to(embedded.dtype), embedded[:, 1:]], dim=1)
        weight, _ = self.encoder.projection
        return decoder.transform(decoder(embedded, real)), weight, decoder.bias


def _bert(config: Any) -> BertConfig:
    """Return the configuration of BERT layers as wide as the encoder's. Architectures name their sizes differently."""
    values = config.to_dict()
    names = {
        "hidden_size": ("hidden_size", "dim"),
        "num_attention_heads": ("num_attention_heads", "n_heads"),
        "intermediate_size": ("intermediate_size", "hidden_dim"),
        "hidden_act": ("hidden_act", "activation", "hidden_activation"),
        "hidden_dropout_prob": ("hidden_dropout_prob", "dropout", "mlp_dropout"),
        "attention_probs_dropout_prob": ("attention_probs_dropout_prob", "attention_dropout"),
        "vocab_size": ("vocab_size",),
        "initializer_range": ("initializer_range",),
    }
    sizes = {ours: next(values[name] for name in theirs if name in values) for ours, theirs in names.items()}
    shape = BertConfig(**sizes)
    shape._attn_implementation = "sdpa"  # noqa: SLF001 - only from_pretrained has a public argument
    return shape


def _initialise(module: nn.Module, deviation: float) -> None:
    """Initialise *module* like BERT: normal weights, biases of 0; normalisations are neutral already."""
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.Embedding)):
            nn.init.normal_(part.weight, std=deviation)
        if isinstance(part, nn.Linear):
            nn.init.zeros_(part.bias)
