"""The losses of pretraining and fine-tuning, one short function each: paper, sections 3.1, 3.3 and 3.4, and appendix A."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional


def masked_language_modelling(states: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor) -> Tensor:
    """Return the mean of -log P(w = x_j) over all masked positions j, a scalar: paper, Eqs. 2 and 6.

    *states* (n, length, width) after the head's transform, projected only where *labels* (n, length) are not -100; 0 where
    nothing is masked.
    """
    masked = labels >= 0
    logits = functional.linear(states[masked], weight, bias)
    return functional.cross_entropy(logits.float(), labels[masked], reduction="sum") / masked.sum().clamp(min=1)


def scores(queries: Tensor, documents: Tensor, contrast: Literal["own", "in_batch"]) -> Tensor:
    """Return dot products of *queries* (n, vocabulary) and *documents* (n x m, vocabulary), m of each query together.

    Of "own" documents they are (n, m); "in_batch", with the documents of all queries, (n, n x m), where those of query i begin
    at column i x m. Never in half precision: a softmax is about differences, and in bfloat16 scores of 60 are a quarter apart.
    """
    with torch.autocast(queries.device.type, enabled=False):
        if contrast == "in_batch":
            return queries @ documents.T
        own = documents.view(len(queries), -1, documents.shape[-1])
        return torch.einsum("nv,nmv->nm", queries, own)


def contrastive(scores: Tensor, contrast: Literal["own", "in_batch"], relevant: Tensor | None = None) -> Tensor:
    """Return the mean of -log P(d = d+ | q, {d+} and negatives), a scalar: paper, Eqs. 9 to 12.

    *scores* are what the function `scores` returns; the first of a query's own documents is the relevant one. Others that are
    *relevant* to a query too (bool, as scores), because they are another's in the batch, are no negatives of it.
    """
    documents = scores.shape[1] // len(scores) if contrast == "in_batch" else 0
    labels = torch.arange(len(scores), device=scores.device) * documents
    if relevant is not None:
        relevant = relevant.scatter(1, labels[:, None], False)
        scores = scores.masked_fill(relevant, -torch.inf)
    return functional.cross_entropy(scores, labels)


def flops(vectors: Tensor, free_terms: int = 0) -> Tensor:
    """Return the FLOPS regulariser of *vectors* (n, vocabulary), a scalar: the sum over words of their mean weight, squared.

    Paria et al. 2020, Eq. 4, as SPLADE uses it. Vectors of at most *free_terms* count as if they were 0.
    """
    if free_terms:
        vectors = vectors * ((vectors > 0).sum(1, keepdim=True) > free_terms)
    return vectors.abs().mean(0).square().sum()


def largest(vectors: Tensor, number: int) -> Tensor:
    """Return *vectors* (n, vocabulary) with 0 in place of all but the largest *number* weights of each, of more where equal."""
    least = vectors.detach().topk(min(number, vectors.shape[1]), dim=1).values[:, -1:]
    return torch.where(vectors >= least, vectors, 0)


def divergence(
    student: Tensor, teacher: Tensor, order: Literal["teacher_student", "student_teacher"], temperature: float = 1.0
) -> Tensor:
    """Return KL(first || second) of the distributions over each query's documents, its mean over queries, a scalar.

    *student* and *teacher* are scores (n, m). The paper's Eq. 13 has the student first, its code the teacher. With a
    temperature t, which divides both, it is multiplied by t squared, so that gradients stay as large (Hinton et al. 2015).
    """
    ours = functional.log_softmax(student / temperature, dim=-1)
    theirs = functional.log_softmax(teacher / temperature, dim=-1)
    first, second = (theirs, ours) if order == "teacher_student" else (ours, theirs)
    return functional.kl_div(second, first, reduction="batchmean", log_target=True) * temperature**2


def margin_mse(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the mean squared error of the margins over each query's first document, a scalar: Hofstätter et al. 2020.

    *student* and *teacher* are scores (n, m) of each query's own documents, the relevant one first.
    """
    margins = (student[:, :1] - student[:, 1:]) - (teacher[:, :1] - teacher[:, 1:])
    return margins.square().mean()


def ramp(step: int, kind: Literal["constant", "quadratic"], steps: int) -> float:
    """Return the factor of the weights of FLOPS at *step* (from 0): 1, or (step / steps)^2 until that is 1."""
    return 1.0 if kind == "constant" else min(1.0, (step / max(steps, 1)) ** 2)
