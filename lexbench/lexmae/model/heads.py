"""First heads for models that have none, or that begin with the predictions of another model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lexbench.lexmae.data.tokens import TextReader, TokenisedCorpus
from lexbench.lexmae.model.encoder import LexiconEncoder, Texts

Rows = Sequence[NDArray[np.int64]]  # tokens of texts, (length,) each

EXAMPLES = (  # used if a recipe has no texts
    "Python is a programming language that lets you work quickly and integrate systems more effectively.",
    "The heart pumps blood through arteries; high cholesterol raises the risk of disease in adults.",
)
_ACTIVE = 150  # terms per text
_CALIBRATED = 64  # texts that determine the bias
_DRAWN = 768  # texts that word frequencies come from
_TOGETHER = 16  # texts computed at a time
_RIDGE = 1e-3  # relative to the mean square of an embedding's components
_LIFT = 10.0  # GELU leaves values well above 0 unchanged; the normalisation after it removes the constant


def sample_texts(corpora: Sequence[TokenisedCorpus], seed: int, most: int = _DRAWN) -> list[NDArray[np.int64]]:
    """Return the tokens of about *most* texts of *corpora*, the same number of each."""
    rng = np.random.default_rng((seed, len(corpora)))
    share = -(-most // len(corpora))
    chosen = [(corpus, rng.permutation(len(corpus))[:share].tolist()) for corpus in corpora]
    rows = [corpus[position] for corpus, positions in chosen for position in positions]
    return [rows[index] for index in rng.permutation(len(rows)).tolist()]


def project_by_embeddings(model: Any, reader: TextReader, rows: Rows) -> None:
    """Make the head of *model*, a *ForMaskedLM, pass states on unchanged, so that the word embeddings project them."""
    width = model.get_input_embeddings().weight.shape[1]
    _set_head(model, torch.eye(width), torch.zeros(width))
    _calibrate(model, reader, rows)


@torch.no_grad()
def project_like(encoder: LexiconEncoder, other: LexiconEncoder, reader: TextReader, rows: Rows) -> nn.Linear:
    """Make the head of *encoder* predict about what *other* predicts, and return the map of states that this takes.

    The map turns the states of *encoder* into the states that *other* projects. The head also contains a second map,
    from the word embeddings of *encoder* to those of *other*. Both are fitted by ridge regression, with the texts *rows*.
    """
    states, wanted = _states(encoder.eval(), reader, rows), _states(other.eval(), reader, rows, projected=True)
    projection, bias = other.projection
    map_of_states = _ridge(states, wanted, torch.ones(len(states), 1))
    embeddings = encoder.embeddings.detach()
    back = _ridge(embeddings, projection, _word_weights(rows, len(embeddings))).weight.T  # (width, width of the other)
    middle, constant, weight = states.mean(0), back @ wanted.mean(0), back @ map_of_states.weight
    scale = float((states @ weight.T + (constant - weight @ middle)).std(1).mean())
    _set_head(encoder.language_model, weight / scale, (constant - weight @ middle) / scale, scale)
    encoder.language_model.get_output_embeddings().bias.copy_(
        projection @ wanted.mean(0) - embeddings @ constant + (0 if bias is None else bias)
    )
    return map_of_states


def _word_weights(rows: Rows, vocabulary: int) -> Tensor:
    """Return the square root of 1 + the number of *rows* that have each word piece (vocabulary, 1)."""
    counts = np.bincount(np.concatenate([np.unique(row) for row in rows]), minlength=vocabulary)
    return torch.from_numpy(np.sqrt(1.0 + counts))[:, None]


@torch.no_grad()
def _ridge(inputs: Tensor, outputs: Tensor, weight: Tensor) -> nn.Linear:
    """Return the linear map from *inputs* (n, width) to *outputs* (n, other width) with the least error.

    The error of a row counts with its *weight* (n, 1).
    """
    (left, first), (right, second) = (_centred(table.double(), weight) for table in (inputs, outputs))
    products = (left * weight).T @ left
    products.diagonal().add_(_RIDGE * products.diagonal().mean())
    linear = nn.Linear(inputs.shape[1], outputs.shape[1])
    linear.weight.copy_(torch.linalg.solve(products, (left * weight).T @ right).T)
    linear.bias.copy_(second - linear.weight.double() @ first)
    return linear


def _centred(table: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return *table* (n, width) minus the weighted mean of its rows, and that mean (width,)."""
    mean = (table * weight).sum(0) / weight.sum()
    return table - mean, mean


def _set_head(model: Any, weight: Tensor, bias: Tensor, scale: float = 1.0) -> None:
    """Make the head of *model* the linear map of *weight* (width, width) and *bias* (width,), normalised to *scale*."""
    dense, norm = _dense_and_norm(model)
    model.config.tie_word_embeddings = True
    model.tie_weights()
    for layer, setting in ((dense, "classifier_bias"), (model.get_output_embeddings(), "decoder_bias")):
        if layer.bias is None:  # of ModernBERT alone
            layer.bias = nn.Parameter(torch.zeros(len(layer.weight)))
            setattr(model.config, setting, True)
    with torch.no_grad():
        dense.weight.copy_(weight)
        dense.bias.copy_(bias + _LIFT)
        norm.weight.fill_(scale)
        if norm.bias is not None:
            norm.bias.zero_()


@torch.no_grad()
def _calibrate(model: Any, reader: TextReader, rows: Rows) -> None:
    """Give all words the bias with which a text of *rows* has about 150 terms."""
    encoder = LexiconEncoder(model.eval())
    output = model.get_output_embeddings()
    output.bias.zero_()
    texts = [Texts(**reader.tensors(rows[at : at + _TOGETHER])) for at in range(0, min(len(rows), _CALIBRATED), _TOGETHER)]
    largest = torch.cat([encoder.largest_logits(batch) for batch in texts])
    output.bias.fill_(-float(largest.topk(min(_ACTIVE, largest.shape[1])).values[:, -1].mean()))
    model.train()


@torch.no_grad()
def _states(encoder: LexiconEncoder, reader: TextReader, rows: Rows, *, projected: bool = False) -> Tensor:
    """Return the last layer's states at all pooled positions of the texts *rows* (tokens, width), or the *projected* ones."""
    then = encoder.transformed if projected else nn.Identity()
    batches = [Texts(**reader.tensors(rows[start : start + _TOGETHER])) for start in range(0, len(rows), _TOGETHER)]
    return torch.cat([then(encoder.hidden(texts.ids, texts.real))[texts.pools] for texts in batches])


def _dense_and_norm(model: Any) -> tuple[Any, Any]:
    """Return the linear layer and the normalisation of the head."""
    match model.config.model_type:
        case "bert":
            return model.cls.predictions.transform.dense, model.cls.predictions.transform.LayerNorm
        case "distilbert":
            return model.vocab_transform, model.vocab_layer_norm
        case "modernbert":
            return model.head.dense, model.head.norm
        case _:
            return model.lm_head.dense, model.lm_head.layer_norm
