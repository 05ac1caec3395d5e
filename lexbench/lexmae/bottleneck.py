"""The lexicon bottleneck: paper, section 3.2. What the encoder passes on to the decoder is one bag of words."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

_NOTHING = 1e-4  # added to the sum that the saturated weights are divided by (released code)


def importance(logits: Tensor, normalisation: Literal["softmax", "saturated"]) -> Tensor:
    """Return the importance of each word to each text, a = Norm(Max-Pool(S)) (n, vocabulary): paper, Eq. 3.

    *logits* (n, vocabulary) are pooled already. "saturated" is L1-Norm(log(1 + ReLU(logits))), of section 4.3 "Zero-shot".
    """
    if normalisation == "softmax":
        return functional.softmax(logits.float(), dim=-1)
    weights = torch.log1p(functional.relu(logits.float()))
    return weights / (weights.sum(-1, keepdim=True) + _NOTHING)


def bag_of_words(importances: Tensor, embeddings: Tensor, *, gradient: bool = False) -> Tensor:
    """Return the continuous bag of words, b = W a (n, width): paper, Eq. 4.

    No gradient reaches the word *embeddings* (vocabulary, width) through it, so that training is about the importances alone
    ("cut-off the gradient", section 3.4); *gradient* is the ablation.
    """
    return importances @ (embeddings if gradient else embeddings.detach())


def replace_first(embedded: Tensor, bottleneck: Tensor) -> Tensor:
    """Return the decoder's input (n, length, width) with *bottleneck* (n, width) in the place of [CLS]: paper, Eq. 5.

    *embedded* are the embeddings as the layers take them, so the bottleneck gets neither position nor normalisation.
    """
    return torch.cat([bottleneck[:, None].to(embedded.dtype), embedded[:, 1:]], dim=1)
