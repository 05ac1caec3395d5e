"""The losses of pretraining and fine-tuning, one function each: paper, sections 3.1, 3.3 and 3.4, and appendix A."""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional


def masked_language_modelling(states: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor) -> Tensor:
    """Return the mean of -log P(w = x_j) over all masked positions j, a scalar: paper, Eqs. 2 and 6; 0 if nothing is masked.

    *states* (n, length, width) come after the head's transform. Positions with a label of -100 in *labels* (n, length) are
    skipped.
    """
    return mean_of(masked_sum(states, weight, bias, labels))


def masked_sum(states: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor) -> Tensor:
    """Return the sum of -log P(w = x_j) over all masked positions j, and their number (2,), as `masked_language_modelling`."""
    # Projecting only masked positions saves most of the work: a projection has a row per word of the vocabulary.
    masked = labels >= 0
    logits = functional.linear(states[masked], weight, bias)
    total = functional.cross_entropy(logits.float(), labels[masked], reduction="sum")
    return torch.stack([total, masked.sum().to(total.dtype)])


def mean_of(sum_and_number: Tensor) -> Tensor:
    """Return the mean of a sum and a number (2,), a scalar; 0 of nothing."""
    return sum_and_number[0] / sum_and_number[1].clamp(min=1)


def scores(queries: Tensor, documents: Tensor, contrast: Literal["own", "in_batch"]) -> Tensor:
    """Return the dot products of *queries* (n, vocabulary) and *documents* (n x m, vocabulary), m consecutive ones per query.

    "own": with the query's own documents (n, m); "in_batch": with all documents (n, n x m), those of query i from column i x m.
    """
    # Never in half precision: a softmax depends on differences, and in bfloat16 scores near 60 are a quarter apart.
    with torch.autocast(queries.device.type, enabled=False):
        if contrast == "in_batch":
            return queries @ documents.T
        own = documents.view(len(queries), -1, documents.shape[-1])
        return torch.einsum("nv,nmv->nm", queries, own)


def contrastive(scores: Tensor, contrast: Literal["own", "in_batch"], relevant: Tensor | None = None) -> Tensor:
    """Return the mean of -log P(d = d+ | q, {d+} and negatives), a scalar: paper, Eqs. 9 to 12.

    *scores* come from the function `scores`; the first of a query's own documents is the relevant one. Other documents in the
    batch that are *relevant* to the query (bool, same shape as the scores) do not count as negatives.
    """
    documents = scores.shape[1] // len(scores) if contrast == "in_batch" else 0
    labels = torch.arange(len(scores), device=scores.device) * documents
    if relevant is not None:
        relevant = relevant.scatter(1, labels[:, None], False)
        scores = scores.masked_fill(relevant, -torch.inf)
    return functional.cross_entropy(scores, labels)


def flops(vectors: Tensor) -> Tensor:
    """Return the FLOPS regulariser of *vectors* (n, vocabulary), a scalar: the sum of the squared mean weights of the words.

    Paria et al. 2020, Eq. 4, as in SPLADE.
    """
    return vectors.abs().mean(0).square().sum()


def divergence(student: Tensor, teacher: Tensor, order: Literal["teacher_student", "student_teacher"]) -> Tensor:
    """Return KL(first || second) of the distributions over each query's documents, averaged over queries, a scalar.

    *student* and *teacher* are scores (n, m). The paper's Eq. 13 has the student first, the released code the teacher.
    """
    ours = functional.log_softmax(student, dim=-1)
    theirs = functional.log_softmax(teacher, dim=-1)
    first, second = (theirs, ours) if order == "teacher_student" else (ours, theirs)
    return functional.kl_div(second, first, reduction="batchmean", log_target=True)


def ramp(step: int, kind: Literal["constant", "quadratic"], steps: int) -> float:
    """Return the factor of the FLOPS weights at *step* (from 0): 1, or (step / steps)^2 up to 1."""
    return 1.0 if kind == "constant" else min(1.0, (step / max(steps, 1)) ** 2)
