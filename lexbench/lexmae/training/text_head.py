"""Training of the text head of a finished model (see `lexbench.models.added_terms`). No judgement is used.

Texts are encoded once. Then a linear map learns to rank a text's nearest neighbours by the dot product of terms as the cosine
of their mean states does. Batches consist of texts with some of their nearest neighbours, because strangers are easy to rank.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from lexbench.display.progress import Progress
from lexbench.errors import CannotStart
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.model.encoder import LexiconEncoder, Texts, in_groups
from lexbench.lexmae.recipe.settings import Hardware, Recipe
from lexbench.models.added_terms import TextHead, means

Rows = Sequence[NDArray[np.int64]]  # tokens of texts, (length,) each

_LONGEST = 128  # tokens of a text
_BLOCK = 2048  # texts compared with all others at a time
NEIGHBOURS = 32  # of each text, that batches draw from
_SEEDS, _DRAWN = 48, 7  # texts of a batch, and neighbours drawn for each of them
_QUERIES = 160  # texts of a batch that the others are ranked for
_SHARPNESS = 20.0  # of cosines in the softmax, as in the training of sentence-transformers
_ACTIVE = 96  # terms of a text before training
_WARMUP = 20  # steps
_LETTERS = 3  # of a word
_RATE = 1.5e-3  # of learning


def train(encoder: LexiconEncoder, reader: TextReader, rows: Rows, recipe: Recipe, progress: Progress) -> TextHead:
    """Return a text head for *encoder*, trained on texts with the tokens *rows*."""
    settings, encoding = recipe.text_head, recipe.encoding
    assert settings is not None
    words = torch.from_numpy(common_words(reader, rows, settings.terms))
    first, *rest = reader.queries([""])[0].tolist()
    of_words = encode(encoder, reader, [np.array([first, word, *rest]) for word in words.tolist()], recipe.hardware, progress)
    of_texts = encode(encoder, reader, rows, recipe.hardware, progress)
    progress.start("text head", "train", settings.steps, "steps")
    head = fit(
        of_texts, of_words, words, (encoding.query_text_terms, encoding.text_terms), settings.steps, recipe.seed, progress
    )
    progress.end()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.mul_(settings.scale)
    return head


def common_words(reader: TextReader, rows: Rows, most: int) -> NDArray[np.int64]:
    """Return the ids of the *most* words that the most of *rows* have, most common first.

    Words begin with a letter and have at least 3 characters. Raises CannotStart if the tokenizer has none.
    """
    vocabulary = reader.tokenizer.get_vocab()
    counts = np.bincount(np.concatenate([np.unique(row) for row in rows]), minlength=max(vocabulary.values()) + 1)
    whole = [token for token in vocabulary if token.isascii() and token.isalnum() and len(token) >= _LETTERS]
    words = [vocabulary[token] for token in whole if token[0].isalpha()]
    if not words:
        raise CannotStart("a text head needs whole words, and the tokenizer has none; leave [text_head] out")
    return np.array(sorted(words, key=lambda word: (-counts[word], word))[:most])


def fit(
    texts: Tensor, words: Tensor, ids: Tensor, kept: tuple[int, int], steps: int, seed: int, progress: Progress
) -> TextHead:
    """Return a head whose dot products are near the cosines of *texts* (n, width), in rank.

    Its terms begin as the directions of *words* (terms, width), whose word pieces are *ids* (terms,). A text has *kept* terms,
    as a query and as a document.
    """
    head = _initial(texts, words, ids)
    nearest, rng = neighbours(texts), np.random.default_rng(seed)
    factor = torch.nn.Parameter(_ratio(head, texts, kept).log())  # of dot products, so that they are as large as cosines
    optimizer = torch.optim.Adam([*head.parameters(), factor], lr=_RATE, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / _WARMUP) * (1 - step / steps))
    for _ in range(steps):
        seeds = rng.integers(0, len(texts), _SEEDS)
        drawn = rng.integers(0, nearest.shape[1], (_SEEDS, _DRAWN))
        batch = np.unique(np.append(seeds, nearest[seeds[:, None], drawn]))
        queries = rng.choice(len(batch), min(_QUERIES, len(batch)), replace=False)
        vectors = texts[torch.from_numpy(batch)]
        scores = head(vectors[queries], kept[0]) @ head(vectors, kept[1]).T * factor.exp()
        cosines = vectors[queries] @ vectors.T
        itself = functional.one_hot(torch.from_numpy(queries), len(batch)).bool().to(texts.device)
        student, teacher = (_SHARPNESS * value.masked_fill(itself, -1.0) for value in (scores, cosines))
        loss = functional.kl_div(student.log_softmax(1), teacher.log_softmax(1), log_target=True, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        progress.advance()
    progress.note(f"text head: divergence {loss.item():.3f} in the last step")
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.mul_((factor / 2).exp())
    return head


def _initial(texts: Tensor, words: Tensor, ids: Tensor) -> TextHead:
    """Return the head whose rows are the centred *words*, with the one bias that gives a text about 96 terms."""
    weight = functional.normalize(words - words.mean(0), dim=1)
    largest = (texts[:_BLOCK] @ weight.T).topk(min(_ACTIVE, len(words)), dim=1).values
    return TextHead(weight, largest[:, -1].mean().neg().expand(len(words)).clone(), ids)


@torch.no_grad()
def _ratio(head: TextHead, texts: Tensor, kept: tuple[int, int]) -> Tensor:
    """Return the standard deviation of cosines over that of the dot products of terms."""
    some = texts[:_BLOCK]
    ratio: Tensor = (some @ some.T).std() / (head(some, kept[0]) @ head(some, kept[1]).T).std()
    return ratio


def neighbours(texts: Tensor, others: Tensor | None = None) -> NDArray[np.int64]:
    """Return the positions of the nearest neighbours of each text among *others* (texts, neighbours).

    Without *others* they are among *texts*, and no text is its own neighbour.
    """
    blocks, among = [], texts if others is None else others
    most = min(NEIGHBOURS, len(among) - (others is None))
    for start in range(0, len(texts), _BLOCK):
        cosines = texts[start : start + _BLOCK] @ among.T
        if others is None:
            cosines.diagonal(start).fill_(-1.0)
        blocks.append(cosines.topk(most, dim=1).indices)
    return torch.cat(blocks).cpu().numpy()


@torch.no_grad()
def encode(encoder: LexiconEncoder, reader: TextReader, rows: Rows, hardware: Hardware, progress: Progress) -> Tensor:
    """Return the mean states of texts (n, width), with length 1. Texts are cut to 128 tokens."""
    encoder.eval()
    device = encoder.embeddings.device
    precision = torch.bfloat16 if hardware.precision == "bf16" else torch.float32
    rows = [row if len(row) <= _LONGEST else np.append(row[: _LONGEST - 1], row[-1]) for row in rows]  # keep the separator

    def encoded(texts: Texts) -> Tensor:
        with torch.autocast(device.type, precision, enabled=precision != torch.float32):
            states = encoder.hidden(texts.ids, texts.real)
        progress.advance(len(texts.ids))
        return means(states, texts.real)

    progress.start("mean states", "encode", len(rows), "texts")
    vectors = in_groups(encoded, Texts(**{name: tensor.to(device) for name, tensor in reader.tensors(rows).items()}))
    progress.end()
    return vectors
