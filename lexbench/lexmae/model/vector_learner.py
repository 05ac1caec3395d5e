"""Learning a teacher's sparse vectors term by term, from texts alone: what a small model takes over in minutes.

The vector to learn of a text is, for the word piece j,

    t_j = scale (idf_j^teacher_idf w_j + own_weight idf_j^own_idf c_j)

with w the teacher's weights; c_j how often j is in the text, saturated as BM25 does it, in documents with regard to their
length; and idf_j the mean of j's inverse document frequency in the text's own corpus and in all of them. Where the model has
exact terms, its predictions learn what those leave. All terms are learned, or the largest ones, and that the others are 0: but
which one is the 128th is hard to learn, and does harm. The loss of a text is the squared difference over the squared norm of
its vector: a query of three words counts as much as a document.
"""

from typing import Any

import torch
from torch import Tensor

from lexbench.lexmae.data.statistics import Statistics
from lexbench.lexmae.model.encoder import LexiconEncoder, Texts, in_groups
from lexbench.lexmae.model.learner import Learner
from lexbench.lexmae.recipe import Vectors
from lexbench.models.exact_terms import saturated


class VectorLearner(Learner):
    """The encoder with the loss of this stage. Its teacher is no part of it, so that no checkpoint has its weights."""

    def __init__(self, encoder: LexiconEncoder, teacher: Any, statistics: Statistics, settings: Vectors) -> None:
        super().__init__()
        self.encoder, self.settings = encoder, settings
        self.idf: Tensor
        self.lengths: Tensor
        self.register_buffer("idf", statistics.idf, persistent=False)
        self.register_buffer("lengths", statistics.lengths, persistent=False)
        teacher.eval().requires_grad_(requires_grad=False)
        self._frozen = (LexiconEncoder(teacher),)  # in a tuple, where torch does not find it

    @property
    def rates(self) -> dict[str, float]:
        """What the learning rate of a parameter is multiplied with, by its name."""
        terms = {id(value) for value in self.encoder.term_parameters}
        return {name: self.settings.bias_rate for name, value in self.named_parameters() if id(value) in terms}

    def forward(self, ids: Tensor, real: Tensor, pools: Tensor, corpus: Tensor, is_query: Tensor) -> dict[str, Tensor]:
        """Return the loss of texts *ids*, *real*, *pools* (n, length), of *corpus* (n,), which are queries or not (n,)."""
        texts = Texts(ids, real, pools)
        with torch.no_grad():
            target = self.target(texts, corpus, is_query)
        logits = in_groups(self.encoder.largest_logits, texts)
        # ReLU would leave a silent word silent: where it is wanted, log(1 + x) goes on below 0, as -log(1 - x).
        signed = logits.sign() * torch.log1p(logits.abs())
        exact = self.encoder.with_exact_terms(torch.zeros_like(signed), texts)
        weights = self.encoder.with_exact_terms(torch.where((logits > 0) | (target > exact), signed, 0), texts)
        terms = ((logits > 0) | (exact > 0)).sum(1).float()
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
        lengths = torch.where(is_query, counts.sum(1), self.lengths[corpus])[:, None]  # those of queries do not count
        weights += settings.own_weight * idf**settings.own_idf * saturated(counts, lengths.clamp(min=1))
        for which, terms in ((is_query, settings.query_terms), (~is_query, settings.document_terms)):
            if 0 < terms < weights.shape[1]:
                least = weights.topk(terms, dim=1).values[:, -1:]
                weights = torch.where((weights < least) & which[:, None], 0, weights)
        return (weights * settings.scale).clamp(max=settings.largest)
