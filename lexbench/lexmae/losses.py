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
    """Return dot products of *queries* (n, vocabulary) and *documents* (n x each, vocabulary), each query's own ones together.

    (n, each), or in the batch all documents of all queries (n, n x each): query i's own begin at column i x each. Never in half
    precision: a softmax is about differences, and scores of 60 would be a quarter apart in bfloat16.
    """
    with torch.autocast(queries.device.type, enabled=False):
        if contrast == "in_batch":
            return queries @ documents.T
        own = documents.view(len(queries), -1, documents.shape[-1])
        return torch.einsum("nv,nev->ne", queries, own)


def contrastive(found: Tensor, contrast: Literal["own", "in_batch"]) -> Tensor:
    """Return the mean of -log P(d = d+ | q, {d+} and negatives), a scalar: paper, Eqs. 9 to 12.

    *found* is what `scores` returned; the first of each query's own documents is its relevant one.
    """
    each = found.shape[1] // len(found) if contrast == "in_batch" else 0
    return functional.cross_entropy(found, torch.arange(len(found), device=found.device) * each)


def flops(vectors: Tensor) -> Tensor:
    """Return the FLOPS regulariser of *vectors* (n, vocabulary), a scalar: the sum over words of their mean weight, squared.

    Paria et al. 2020, Eq. 4, as SPLADE uses it.
    """
    return vectors.abs().mean(0).square().sum()


def divergence(
    student: Tensor, teacher: Tensor, order: Literal["teacher_student", "student_teacher"], temperature: float = 1.0
) -> Tensor:
    """Return KL(first || second) of the two distributions over each query's own documents, its mean over queries, a scalar.

    *student* and *teacher* are scores (n, each). The paper's Eq. 13 has the student first, its code the teacher.
    """
    ours = functional.log_softmax(student / temperature, dim=-1)
    theirs = functional.log_softmax(teacher / temperature, dim=-1)
    first, second = (theirs, ours) if order == "teacher_student" else (ours, theirs)
    return functional.kl_div(second, first, reduction="batchmean", log_target=True)


def ramp(step: int, kind: Literal["constant", "quadratic"], steps: int) -> float:
    """Return what the weight of FLOPS is multiplied with at *step* (from 0): 1, or (step / steps)^2 until it is 1."""
    return 1.0 if kind == "constant" else min(1.0, (step / max(steps, 1)) ** 2)
