"""Weights of a text's own word pieces, added to those that a masked-language model predicts.

The states of a small model are too narrow to tell 30,000 word pieces apart, so its predictions reproduce a text's own pieces
only roughly, although a search for a rare word needs exact matches. A checkpoint with a file exact_terms.safetensors has
separate weights for them (like the literal representation of SparTerm, Bai et al. 2020, arXiv 2010.00768). In a text of n word
pieces, of which n_j are the piece j, the piece has the weight

    v_j = p_j log(1 + max(0, Max-Pool(S)_j)) + e_j c_j        c_j = n_j (k1 + 1) / (n_j + k1 (1 - b + b n / mean_length))

where Max-Pool(S) are the largest logits (LexMAE, Eq. 3), and c_j is BM25's term frequency. p and e have one number per word
piece. They are trained like all other weights, and start as powers of the inverse document frequency. Used by `architectures`
and by LexMAE's training. Needs torch.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from lexbench.errors import InvalidFile
from lexbench.models.checkpoint import AGAIN
from lexbench.models.loading import read_tensors
from lexbench.models.stated_settings import EXACT_TERMS_FILE, K1, B


class ExactTerms(nn.Module):
    """The weights p and e above."""

    def __init__(self, predicted: Tensor, exact: Tensor, mean_length: float) -> None:
        """Take *predicted* (p) and *exact* (e), each (vocabulary,); *mean_length* is in word pieces."""
        super().__init__()
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
        return torch.zeros((len(ids), len(self.exact)), device=ids.device).scatter_add_(1, ids, pools.float())


def write(terms: ExactTerms, folder: Path) -> None:
    """Write *terms* into *folder*, in half precision."""
    tensors = {name: value.detach().to("cpu", torch.float16).contiguous() for name, value in terms.named_parameters()}
    tensors["mean_length"] = torch.tensor([terms.mean_length], dtype=torch.float32)
    (folder / EXACT_TERMS_FILE).write_bytes(safetensors.torch.save(tensors, {"format": "pt"}))


def read(folder: Path, vocabulary: int) -> ExactTerms | None:
    """Return the exact terms of the model in *folder*, None if it has none. Raises InvalidFile if they do not read or fit."""
    path = folder / EXACT_TERMS_FILE
    return _checked(read_tensors([path]), vocabulary, path) if path.is_file() else None


def _checked(tensors: Mapping[str, Any], vocabulary: int, path: Path) -> ExactTerms:
    shapes = {name: tuple(value.shape) for name, value in tensors.items()}
    expected = {"predicted": (vocabulary,), "exact": (vocabulary,), "mean_length": (1,)}
    if shapes != expected:
        raise InvalidFile(f"{path}: it has {shapes}, and the model needs {expected}; {AGAIN}")
    if not all(bool(torch.isfinite(value).all()) for value in tensors.values()) or float(tensors["mean_length"]) <= 0:
        raise InvalidFile(f"{path}: a weight is no number, or mean_length not above 0; {AGAIN}")
    return ExactTerms(tensors["predicted"].float(), tensors["exact"].float(), float(tensors["mean_length"]))
