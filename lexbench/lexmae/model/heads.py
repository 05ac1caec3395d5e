"""A head for a model that has none: its word embeddings project its states, as they are or behind a linear map.

States that were trained for another end do not point at the words they stand for. Two maps, ridge regressions in closed form:

    regression   of the embeddings of word pieces on the last layer's states at their positions: a text gets its own words
    words        of the vectors that the model itself, as an encoder of sentences, gives each word read as a text, on the
                 embeddings: a text gets the words whose vectors are near its states, so what a dense encoder finds near
                 becomes terms. For models that were trained to compare mean states, such as all-MiniLM-L6-v2

In every case one bias for all words makes a text have about 150 terms.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from lexbench.lexmae.data.tokens import TextReader, TokenisedCorpus
from lexbench.lexmae.model.encoder import LexiconEncoder, Texts

Rows = Sequence[NDArray[np.int64]]  # texts in tokens, (length,) each

EXAMPLES = (  # that stand for the texts of a recipe that has none
    "Python is a programming language that lets you work quickly and integrate systems more effectively.",
    "The heart pumps blood through arteries; high cholesterol raises the risk of disease in adults.",
)
_ACTIVE = 150  # terms that a text gets
_CALIBRATED = 64  # texts that the bias is found on
_DRAWN = 768  # texts that the regression is of
_TOGETHER = 16  # texts that are computed at a time
_RIDGE = 1e-5  # of the mean square of a state's components
_WORDS = 512  # words that are read at a time, each as a text
_TIED = 1e-3  # of the mean square of an embedding's components, where vectors of words are learned from embeddings
_LEAST = 0.2  # weight of the commonest word pieces in the regression; of others their inverse document frequency
_LIFT = 10.0  # GELU passes on what is well above 0 as it is; the normalisation after it takes the constant away again


def drawn(corpora: Sequence[TokenisedCorpus], seed: int) -> list[NDArray[np.int64]]:
    """Return some texts of *corpora* in tokens, equally many of each."""
    rng = np.random.default_rng((seed, len(corpora)))
    share = -(-_DRAWN // len(corpora))
    chosen = [(corpus, rng.permutation(len(corpus))[:share].tolist()) for corpus in corpora]
    rows = [corpus[position] for corpus, positions in chosen for position in positions]
    return [rows[index] for index in rng.permutation(len(rows)).tolist()]


def project_by_embeddings(model: Any, reader: TextReader, rows: Rows) -> None:
    """Make the head of *model*, a *ForMaskedLM, pass states on unchanged, so that the word embeddings project them."""
    width = model.get_input_embeddings().weight.shape[1]
    _set_head(model, torch.eye(width), torch.zeros(width))
    _calibrate(model, reader, rows)


def project_by_regression(model: Any, reader: TextReader, rows: Rows) -> None:
    """Make the head of *model*, a *ForMaskedLM, the linear map that gives back the word pieces of *rows* best."""
    encoder = LexiconEncoder(model.eval())
    embeddings = encoder.embeddings.detach()
    centred = embeddings - embeddings.mean(0)
    weight = _inverse_document_frequencies(rows, len(embeddings)).clamp(min=_LEAST)
    width = embeddings.shape[1]
    products = torch.zeros(width + 1, 2 * width + 1, dtype=torch.float64)
    for states, ids in _states(encoder, reader, rows):
        inputs = torch.cat([states, torch.ones(len(states), 1)], 1).double()
        both = torch.cat([inputs, centred[ids].double()], 1)
        products += (inputs * weight[ids, None].double()).T @ both
    left, right = products[:, : width + 1], products[:, width + 1 :]
    left.diagonal()[:width] += _RIDGE * left.diagonal()[:width].mean()
    solution = torch.linalg.solve(left, right).float()
    scale = 1 / (states @ solution[:width]).std()  # small numbers would be lost beside the lift
    _set_head(model, solution[:width].T * scale, solution[width] * scale)
    _calibrate(model, reader, rows)


def project_by_words(model: Any, reader: TextReader, rows: Rows) -> None:
    """Make the head of *model*, a *ForMaskedLM, the linear map with which its embeddings give each word's own vector best.

    A word's logit at a position is then about the dot product of the state there with the word's vector, less its mean. Words
    count as the square root of how many of *rows* have them, and one more.
    """
    encoder = LexiconEncoder(model.eval())
    vectors, embeddings = _word_vectors(encoder, reader), encoder.embeddings.detach()
    weight = torch.from_numpy(np.sqrt(1.0 + _document_frequencies(rows, len(embeddings))))[:, None]
    left, right = (_centred(table.double(), weight) for table in (embeddings, vectors))
    products = (left * weight).T @ left
    products.diagonal().add_(_TIED * products.diagonal().mean())
    solution = torch.linalg.solve(products, (left * weight).T @ right).float()
    states = torch.cat([some for some, _ in _states(encoder, reader, rows[:_CALIBRATED])])
    middle = states.mean(0)
    scale = 1 / ((states - middle) @ solution.T).std()  # small numbers would be lost beside the lift
    _set_head(model, solution * scale, -(solution @ middle) * scale)
    _calibrate(model, reader, rows)


@torch.no_grad()
def _word_vectors(encoder: LexiconEncoder, reader: TextReader) -> Tensor:
    """Return the mean state (vocabulary, width) of each word piece read as a text, special tokens included, of length 1."""
    first, *rest = reader.queries([""])[0].tolist()
    vectors = []
    for start in range(0, len(encoder.embeddings), _WORDS):
        words = range(start, min(start + _WORDS, len(encoder.embeddings)))
        tensors = reader.tensors([np.array([first, word, *rest]) for word in words])
        vectors.append(encoder.hidden(tensors["ids"], tensors["real"]).mean(1))
    return functional.normalize(torch.cat(vectors), dim=1)


def _centred(table: Tensor, weight: Tensor) -> Tensor:
    return table - (table * weight).sum(0) / weight.sum()


def _set_head(model: Any, weight: Tensor, bias: Tensor) -> None:
    """Make the head of *model* the linear map of *weight* (width, width) and *bias* (width,), and its norm plain."""
    dense, norm = _dense_and_norm(model)
    model.config.tie_word_embeddings = True
    model.tie_weights()
    with torch.no_grad():
        dense.weight.copy_(weight)
        dense.bias.copy_(bias + _LIFT)
        norm.weight.fill_(1.0)
        norm.bias.zero_()


@torch.no_grad()
def _calibrate(model: Any, reader: TextReader, rows: Rows) -> None:
    """Give all words the bias that makes a text of *rows* have about 150 terms."""
    encoder = LexiconEncoder(model.eval())
    output = model.get_output_embeddings()
    output.bias.zero_()
    texts = [Texts(**reader.tensors(rows[at : at + _TOGETHER])) for at in range(0, min(len(rows), _CALIBRATED), _TOGETHER)]
    largest = torch.cat([encoder.largest_logits(batch) for batch in texts])
    output.bias.fill_(-float(largest.topk(min(_ACTIVE, largest.shape[1])).values[:, -1].mean()))
    model.train()


@torch.no_grad()
def _states(encoder: LexiconEncoder, reader: TextReader, rows: Rows) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the last layer's states (tokens, width) of some texts at a time, and the tokens (tokens,) they are of."""
    for start in range(0, len(rows), _TOGETHER):
        texts = Texts(**reader.tensors(rows[start : start + _TOGETHER]))
        yield encoder.hidden(texts.ids, texts.real)[texts.pools], texts.ids[texts.pools]


def _document_frequencies(rows: Rows, vocabulary: int) -> NDArray[np.int64]:
    return np.bincount(np.concatenate([np.unique(row) for row in rows]), minlength=vocabulary)


def _inverse_document_frequencies(rows: Rows, vocabulary: int) -> Tensor:
    frequencies = _document_frequencies(rows, vocabulary)
    return torch.from_numpy(np.log1p((len(rows) - frequencies + 0.5) / (frequencies + 0.5))).float()


def _dense_and_norm(model: Any) -> tuple[Any, Any]:
    """Return the linear layer and the normalisation of a head."""
    match model.config.model_type:
        case "bert":
            return model.cls.predictions.transform.dense, model.cls.predictions.transform.LayerNorm
        case "distilbert":
            return model.vocab_transform, model.vocab_layer_norm
        case _:
            return model.lm_head.dense, model.lm_head.layer_norm


# By their names in a recipe.
PROJECTIONS = {"embeddings": project_by_embeddings, "regression": project_by_regression, "words": project_by_words}
