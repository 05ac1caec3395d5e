"""Two additions to the terms that a masked-language model predicts: exact terms and a text head.

**Exact terms.** The states of a small model are too narrow to tell 30,000 word pieces apart, so its predictions reproduce a
text's own pieces only roughly, although a search for a rare word needs exact matches. A checkpoint with a file
exact_terms.safetensors has separate weights for them (like the literal representation of SparTerm, Bai et al. 2020, arXiv
2010.00768). In a text of n word pieces, of which n_j are the piece j, the piece has the weight

    v_j = p_j log(1 + max(0, Max-Pool(S)_j)) + e_j c_j        c_j = n_j (k1 + 1) / (n_j + k1 (1 - b + b n / mean_length))

where Max-Pool(S) are the largest logits (LexMAE, Eq. 3), and c_j is BM25's term frequency. p and e have one number per word
piece. They are trained like all other weights, and start as powers of the inverse document frequency. The words of a stem can
count as one piece: "indexes" and "indexed" as "index".

**Text head.** The largest logits lose how the words of a text belong together. The mean of its states keeps that: a dense
retriever compares nothing else. A checkpoint with a file text_head.safetensors turns the mean into additional terms,

    u = the k largest of max(0, W m + b)        m = the mean of the last layer's states, with length 1

The vector has u after the weights of the word pieces. So the dot product of two texts also has a part that is near the cosine
of their means. Each of these terms is named after the word that it began as. LexMAE's lexicon bottleneck makes weights of whole
texts in pretraining; the paper's model does not search with them.

Used by `architectures` and by LexMAE's training. Needs torch.
"""

from pathlib import Path
from typing import NamedTuple

import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional

from lexbench.errors import InvalidFile
from lexbench.models.checkpoint import AGAIN
from lexbench.models.loading import read_tensors
from lexbench.models.stated_settings import EXACT_TERMS_FILE, K1, TEXT_HEAD_FILE, B


class ExactTerms(nn.Module):
    """The weights p and e above."""

    counted_as: Tensor | None

    def __init__(self, predicted: Tensor, exact: Tensor, mean_length: float, counted_as: Tensor | None = None) -> None:
        """Take *predicted* (p) and *exact* (e), each (vocabulary,); *mean_length* is in word pieces.

        *counted_as* (vocabulary,) has the word piece that each piece counts as, None if each counts as itself.
        """
        super().__init__()
        self.register_buffer("counted_as", counted_as)
        self.predicted, self.exact = nn.Parameter(predicted), nn.Parameter(exact)
        self.mean_length = mean_length

    def forward(self, predicted: Tensor, ids: Tensor, pools: Tensor, *, whole: bool = False) -> Tensor:
        """Return the weights v of texts (n, vocabulary), float32.

        *predicted* (n, vocabulary) are log(1 + max(0, Max-Pool(S))). *ids* (n, length) are the tokens of the texts, of which
        those where *pools* (n, length) is true count. With *whole*, c is n_j: repeated pieces are not saturated.
        """
        counts = self.counts(ids, pools) if whole else self.term_frequencies(ids, pools)
        return predicted * self.predicted.float() + counts * self.exact.float().clamp(min=0)

    def term_frequencies(self, ids: Tensor, pools: Tensor) -> Tensor:
        """Return BM25's term frequencies c of each text and word piece (n, vocabulary), float32; 0 if the text lacks it."""
        counts = self.counts(ids, pools)
        norm = 1 - B + B * counts.sum(1, keepdim=True) / self.mean_length
        return counts * (K1 + 1) / (counts + K1 * norm)

    def counts(self, ids: Tensor, pools: Tensor) -> Tensor:
        """Return how often each text has each word piece (n, vocabulary), float32."""
        ids = ids if self.counted_as is None else self.counted_as[ids]
        return torch.zeros((len(ids), len(self.exact)), device=ids.device).scatter_add_(1, ids, pools.float())


class TextHead(nn.Module):
    """The weights W and b above."""

    words: Tensor

    def __init__(self, weight: Tensor, bias: Tensor, words: Tensor) -> None:
        """Take *weight* (terms, width), *bias* (terms,), and the word piece of each term, *words* (terms,), all different."""
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        self.register_buffer("words", words)

    def added(self, weights: Tensor, means: Tensor, most: int, kept: int = 0) -> Tensor:
        """Return the *kept* largest of *weights* (n, vocabulary), 0 for all, then the *most* largest ones of this head.

        The result is (n, vocabulary + terms). *means* (n, width) have length 1. Of *weights* that equal the smallest one kept,
        all stay.
        """
        if 0 < kept < weights.shape[1]:
            weights = weights * (weights >= weights.topk(kept, dim=1).values[:, -1:])
        return torch.cat([weights, self(means, most)], dim=1)

    def forward(self, means: Tensor, most: int) -> Tensor:
        """Return the *most* largest weights of texts with these *means* (n, terms), float32; all others are 0."""
        weights = functional.relu(functional.linear(means, self.weight.float(), self.bias.float()))
        largest, terms = weights.topk(min(most, weights.shape[1]), dim=1)
        return torch.zeros_like(weights).scatter(1, terms, largest)


def means(states: Tensor, real: Tensor) -> Tensor:
    """Return the mean of each text's *states* (n, length, width) where *real* (n, length), with length 1; float32."""
    return functional.normalize(torch.einsum("nlw,nl->nw", states.float(), real.float()), dim=1)


class AddedTerms(NamedTuple):
    """The additions of a model; None for each that it lacks."""

    exact_terms: ExactTerms | None = None
    text_head: TextHead | None = None


def write(added: AddedTerms, folder: Path) -> None:
    """Write the additions that are not None into *folder*, in half precision."""
    if terms := added.exact_terms:
        stems = {} if terms.counted_as is None else {"counted_as": terms.counted_as.to("cpu", torch.int32)}
        _save(terms, folder / EXACT_TERMS_FILE, mean_length=torch.tensor([terms.mean_length], dtype=torch.float32), **stems)
    if head := added.text_head:
        _save(head, folder / TEXT_HEAD_FILE, words=head.words.cpu())


def _save(part: nn.Module, path: Path, **others: Tensor) -> None:
    tensors = {name: value.detach().to("cpu", torch.float16).contiguous() for name, value in part.named_parameters()}
    path.write_bytes(safetensors.torch.save(tensors | others, {"format": "pt"}))


def read(folder: Path, vocabulary: int, width: int) -> AddedTerms:
    """Return the additions of the model in *folder*. Raises InvalidFile if a file is damaged or does not fit."""
    exact, head = folder / EXACT_TERMS_FILE, folder / TEXT_HEAD_FILE
    return AddedTerms(
        _read_exact(exact, vocabulary) if exact.is_file() else None,
        _read_head(head, vocabulary, width) if head.is_file() else None,
    )


def _read_exact(path: Path, vocabulary: int) -> ExactTerms:
    tensors = read_tensors([path])
    shapes = _shapes(tensors)
    expected = {"predicted": (vocabulary,), "exact": (vocabulary,), "mean_length": (1,)}
    counted_as = tensors["counted_as"].long() if "counted_as" in tensors else None
    if counted_as is not None:
        expected["counted_as"] = (vocabulary,)
    if shapes != expected:
        raise InvalidFile(f"{path}: it has {shapes}, and the model needs {expected}; {AGAIN}")
    if not _finite(tensors) or float(tensors["mean_length"]) <= 0:
        raise InvalidFile(f"{path}: a weight is no number, or mean_length not above 0; {AGAIN}")
    if counted_as is not None and not 0 <= int(counted_as.min()) <= int(counted_as.max()) < vocabulary:
        raise InvalidFile(f"{path}: a word piece of counted_as is not in the vocabulary; {AGAIN}")
    return ExactTerms(tensors["predicted"].float(), tensors["exact"].float(), float(tensors["mean_length"]), counted_as)


def _read_head(path: Path, vocabulary: int, width: int) -> TextHead:
    tensors = read_tensors([path])
    shapes = _shapes(tensors)
    terms = shapes.get("bias", (0,))
    if shapes != {"weight": (*terms, width), "bias": terms, "words": terms} or terms == (0,):
        raise InvalidFile(f"{path}: it has {shapes}, and the model needs weight (terms, {width}), bias and words; {AGAIN}")
    words = tensors["words"].long()
    if not _finite(tensors) or not 0 <= int(words.min()) <= int(words.max()) < vocabulary:
        raise InvalidFile(f"{path}: a weight is no number, or a word is not in the vocabulary; {AGAIN}")
    return TextHead(tensors["weight"].float(), tensors["bias"].float(), words)


def _shapes(tensors: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in tensors.items()}


def _finite(tensors: dict[str, Tensor]) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in tensors.values())
