"""Terms for a text as a whole, beside the terms that a masked-language model predicts at single positions.

The largest logits lose how the words of a text belong together. The mean of its states keeps that: a dense retriever compares
nothing else. A checkpoint with a file text_head.safetensors turns the mean into terms of their own,

    u = the k largest of max(0, W m + b)        m = the mean of the last layer's states, with length 1

and adds u_j to the weight of word piece w_j: words of the whole text. So the dot product of two texts also has a part that is
near the cosine of their means. LexMAE's lexicon bottleneck does the same in pretraining; the paper's model does not search with
it. Used by `architectures` and by LexMAE's training. Needs torch.
"""

from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional

from lexbench.errors import InvalidFile
from lexbench.models.checkpoint import AGAIN
from lexbench.models.loading import read_tensors
from lexbench.models.stated_settings import TEXT_HEAD_FILE


class TextHead(nn.Module):
    """The weights W and b above."""

    words: Tensor

    def __init__(self, weight: Tensor, bias: Tensor, words: Tensor) -> None:
        """Take *weight* (terms, width), *bias* (terms,), and the word piece of each term, *words* (terms,), all different."""
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        self.register_buffer("words", words)

    def added(self, weights: Tensor, means: Tensor, most: int, kept: int = 0) -> Tensor:
        """Return the *kept* largest of *weights* (n, vocabulary), 0 for all, plus the *most* largest ones of this head.

        *means* (n, width) have length 1. Of *weights* that equal the smallest one kept, all stay.
        """
        if 0 < kept < weights.shape[1]:
            weights = weights * (weights >= weights.topk(kept, dim=1).values[:, -1:])
        return weights.index_add(1, self.words, self(means, most))

    def forward(self, means: Tensor, most: int) -> Tensor:
        """Return the *most* largest weights of texts with these *means* (n, terms), float32; all others are 0."""
        weights = functional.relu(functional.linear(means, self.weight.float(), self.bias.float()))
        largest, terms = weights.topk(min(most, weights.shape[1]), dim=1)
        return torch.zeros_like(weights).scatter(1, terms, largest)


def means(states: Tensor, real: Tensor) -> Tensor:
    """Return the mean of each text's *states* (n, length, width) where *real* (n, length), with length 1; float32."""
    return functional.normalize(torch.einsum("nlw,nl->nw", states.float(), real.float()), dim=1)


def write(head: TextHead, folder: Path) -> None:
    """Write *head* into *folder*, in half precision."""
    tensors = {name: value.detach().to("cpu", torch.float16).contiguous() for name, value in head.named_parameters()}
    tensors["words"] = head.words.cpu()
    (folder / TEXT_HEAD_FILE).write_bytes(safetensors.torch.save(tensors, {"format": "pt"}))


def read(folder: Path, vocabulary: int, width: int) -> TextHead | None:
    """Return the text head of the model in *folder*, None if it has none. Raises InvalidFile if it does not read or fit."""
    path = folder / TEXT_HEAD_FILE
    if not path.is_file():
        return None
    tensors = read_tensors([path])
    shapes = {name: tuple(value.shape) for name, value in tensors.items()}
    terms = shapes.get("bias", (0,))
    if shapes != {"weight": (*terms, width), "bias": terms, "words": terms} or terms == (0,):
        raise InvalidFile(f"{path}: it has {shapes}, and the model needs weight (terms, {width}), bias and words; {AGAIN}")
    words = tensors["words"].long()
    if (
        not all(bool(torch.isfinite(value).all()) for value in tensors.values())
        or not 0 <= int(words.min()) <= int(words.max()) < vocabulary
    ):
        raise InvalidFile(f"{path}: a weight is no number, or a word is not in the vocabulary; {AGAIN}")
    return TextHead(tensors["weight"].float(), tensors["bias"].float(), words)
