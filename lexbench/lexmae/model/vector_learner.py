"""Learning a teacher's sparse vectors term by term, from texts alone: what a small model takes over in minutes.

The vector to learn of a text is, for the word piece j,

    t_j = scale (idf_j^teacher_idf w_j + own_weight idf_j^own_idf c_j)

with w the teacher's weights; c_j how often j is in the text, saturated as BM25 does it, in documents with regard to their
length; and idf_j the mean of j's inverse document frequency in the text's own corpus and in all of them. All terms are learned,
or the largest ones, and that the others are 0: but which one is the 128th is hard to learn, and does harm. The loss of a text
is the squared difference over the squared norm of its vector: a query of three words counts as much as a document.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lexbench.lexmae.data.tokens import TokenisedCorpus
from lexbench.lexmae.model.encoder import LexiconEncoder, Texts, in_groups
from lexbench.lexmae.recipe import Vectors

K1, B = 0.9, 0.4  # of BM25, as Anserini has them


class Statistics(NamedTuple):
    """What the word pieces of the corpora are weighted by."""

    idf: Tensor  # (corpora, vocabulary) float32
    lengths: Tensor  # (corpora,) float32, the mean number of word pieces of a document

    @classmethod
    def of(cls, corpora: Sequence[TokenisedCorpus], vocabulary: int, special: int) -> "Statistics":
        """Count the documents of each of *corpora* that have a word piece; *special* tokens of each do not count in lengths."""
        frequencies, sizes, lengths = np.zeros((len(corpora), vocabulary)), [], []
        for row, corpus in zip(frequencies, corpora, strict=True):
            for position in range(len(corpus)):
                row[np.unique(corpus[position])] += 1
            sizes.append(len(corpus))
            lengths.append(float(corpus.lengths.mean()) - special)
        own = _idf(frequencies, np.array(sizes)[:, None])
        whole = _idf(frequencies.sum(0), np.array(sum(sizes)))
        return cls(torch.from_numpy((own + whole) / 2).float(), torch.tensor(lengths))


def _idf(frequencies: NDArray[np.float64], documents: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return BM25's inverse document frequency, as Lucene has it."""
    idf: NDArray[np.float64] = np.log1p((documents - frequencies + 0.5) / (frequencies + 0.5))
    return idf


class VectorLearner(nn.Module):
    """The encoder with the loss of this stage. Its teacher is no part of it, so that no checkpoint has its weights."""

    def __init__(self, language_model: Any, teacher: Any, statistics: Statistics, settings: Vectors) -> None:
        super().__init__()
        self.encoder, self.settings = LexiconEncoder(language_model), settings
        self.idf: Tensor
        self.lengths: Tensor
        self.register_buffer("idf", statistics.idf, persistent=False)
        self.register_buffer("lengths", statistics.lengths, persistent=False)
        teacher.eval().requires_grad_(requires_grad=False)
        self._frozen = (LexiconEncoder(teacher),)  # in a tuple, where torch does not find it

    @property
    def rates(self) -> dict[str, float]:
        """What the learning rate of a parameter is multiplied with, by its name."""
        _, bias = self.encoder.projection
        return {name: self.settings.bias_rate for name, value in self.named_parameters() if value is bias}

    def forward(self, ids: Tensor, real: Tensor, pools: Tensor, corpus: Tensor, is_query: Tensor) -> dict[str, Tensor]:
        """Return the loss of texts *ids*, *real*, *pools* (n, length), of *corpus* (n,), which are queries or not (n,)."""
        texts = Texts(ids, real, pools)
        with torch.no_grad():
            target = self.target(texts, corpus, is_query)
        logits = in_groups(self.encoder.largest_logits, texts)
        # ReLU would leave a silent word silent: where it is wanted, log(1 + x) goes on below 0, as -log(1 - x).
        signed = logits.sign() * torch.log1p(logits.abs())
        weights = torch.where((logits > 0) | (target > 0), signed, 0)
        terms = (logits > 0).sum(1).float()
        each = (weights - target).square().sum(1) + self.settings.sparsity * torch.where(target > 0, 0, weights).sum(1)
        loss = each / target.square().sum(1).clamp(min=1)
        parts = {"loss": loss.mean()}
        for name, which in (("d", ~is_query), ("q", is_query)):
            count = which.sum().clamp(min=1)
            parts |= {f"difference_{name}": (loss * which).sum() / count, f"terms_{name}": (terms * which).sum() / count}
        return parts

    def target(self, texts: Texts, corpus: Tensor, is_query: Tensor) -> Tensor:
        """Return the vectors to learn (n, vocabulary), float32."""
        settings, teacher = self.settings, self._frozen[0].to(texts.ids.device)
        idf = self.idf[corpus]
        weights = in_groups(teacher, texts) * idf**settings.teacher_idf
        counts = torch.zeros_like(weights).scatter_add_(1, texts.ids, texts.pools.float())
        norm = 1 - B + B * counts.sum(1, keepdim=True) / self.lengths[corpus, None]
        norm = torch.where(is_query[:, None], 1.0, norm)
        weights += settings.own_weight * idf**settings.own_idf * counts * (K1 + 1) / (counts + K1 * norm)
        for which, terms in ((is_query, settings.query_terms), (~is_query, settings.document_terms)):
            if 0 < terms < weights.shape[1]:
                least = weights.topk(terms, dim=1).values[:, -1:]
                weights = torch.where((weights < least) & which[:, None], 0, weights)
        return (weights * settings.scale).clamp(max=settings.largest)
