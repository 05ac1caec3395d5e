"""The losses of LexMAE's pretraining and fine-tuning."""

import math

import pytest

pytest.importorskip("torch", reason="models are in the extra neural")

import torch
from torch.distributions import Categorical, kl_divergence

from lexbench.lexmae.model import losses

LN2, LN3 = math.log(2), math.log(3)
QUERIES = [[1.0, 0.0, 2.0], [0.0, 3.0, 1.0]]
DOCUMENTS = [[1.0, 1.0, 0.0], [0.0, 0.0, 5.0], [2.0, 1.0, 1.0], [0.0, 1.0, 0.0]]  # the first two are the first query's


def test_masked_language_modelling():
    """The loss is the mean of -ln P(word) over the masked positions, here three of six, with three words and a bias.

    Logits ln 2, 0, 0 and bias 0, 0, ln 3: the words' odds are 2 : 1 : 3. Logits 0, 0, 0 there: 1 : 1 : 3.
    """
    states = torch.tensor([[[9.0, 0.0], [LN2, 0.0], [LN2, 0.0]], [[0.0, 0.0], [9.0, 9.0], [9.0, 9.0]]])
    weight = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    bias = torch.tensor([0.0, 0.0, LN3])
    labels = torch.tensor([[-100, 0, 0], [2, -100, -100]])
    found = losses.masked_language_modelling(states, weight, bias, labels)
    assert float(found) == pytest.approx((-2 * math.log(2 / 6) - math.log(3 / 5)) / 3)
    without = losses.masked_language_modelling(states, weight, None, labels)
    assert float(without) == pytest.approx((-2 * math.log(2 / 4) - math.log(1 / 3)) / 3)


def test_nothing_masked():
    """Without masked positions the loss and its gradients are 0."""
    states, weight = torch.ones(2, 3, 4, requires_grad=True), torch.ones(5, 4, requires_grad=True)
    found = losses.masked_language_modelling(states, weight, torch.zeros(5), torch.full((2, 3), -100))
    found.backward()
    assert found.item() == 0
    assert not states.grad.any()
    assert not weight.grad.any()


@pytest.mark.parametrize(
    ("contrast", "expected"), [("own", [[1.0, 10.0], [4.0, 3.0]]), ("in_batch", [[1.0, 10.0, 4.0, 0.0], [3.0, 5.0, 4.0, 3.0]])]
)
def test_scores(contrast, expected):
    """A query is scored against its own documents, (1, 0, 2) . (1, 1, 0) = 1 and . (0, 0, 5) = 10, or against all in order."""
    assert losses.scores(torch.tensor(QUERIES), torch.tensor(DOCUMENTS), contrast).tolist() == expected


@pytest.mark.parametrize("contrast", ["own", "in_batch"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_scores_keep_their_precision(contrast, dtype):
    """Mixed precision does not round scores: in bfloat16 60.125 and 60.25 would be equal."""
    queries, documents = torch.tensor([[1.0, 300.0]]), torch.tensor([[60.125, 0.0], [60.25, 0.0], [0.0, 300.0]])
    with torch.autocast("cpu", dtype):
        assert losses.scores(queries, documents, contrast).tolist() == [[60.125, 60.25, 90_000.0]]


@pytest.mark.parametrize(
    ("scores", "contrast", "relevant", "odds"),
    [
        ([[LN3, 0.0], [0.0, 0.0]], "own", None, (3 / 4, 1 / 2)),
        ([[LN3, 0.0, 0.0, 0.0], [0.0, 0.0, LN2, 0.0]], "in_batch", None, (3 / 6, 2 / 5)),
        ([[LN3, 0.0, 5.0, 0.0], [0.0, 0.0, LN2, 0.0]], "in_batch", [[1, 0, 1, 0], [0, 0, 1, 0]], (3 / 5, 2 / 5)),
    ],
    ids=["own", "in the batch", "another query's document that is relevant is no negative"],
)
def test_contrast(scores, contrast, relevant, odds):
    """The loss is the mean of -ln of the odds of each query's first document, which in a batch is in column 0 or 2."""
    relevant = None if relevant is None else torch.tensor(relevant, dtype=torch.bool)
    found = losses.contrastive(torch.tensor(scores), contrast, relevant)
    assert float(found) == pytest.approx(-sum(map(math.log, odds)) / 2)


@pytest.mark.parametrize("order", ["teacher_student", "student_teacher"])
def test_divergence_against_torch(order):
    """The divergence is the mean over queries of torch.distributions' KL."""
    generator = torch.Generator().manual_seed(0)
    student, teacher = torch.randn(2, 5, 8, generator=generator) * 4
    ours, theirs = Categorical(logits=student), Categorical(logits=teacher)
    pair = (theirs, ours) if order == "teacher_student" else (ours, theirs)
    torch.testing.assert_close(losses.divergence(student, teacher, order), kl_divergence(*pair).mean())


def test_flops():
    """The means of the words are 3/2, 5/2 and 1, and their squares are added up."""
    vectors = torch.tensor([[3.0, 4.0, 0.0], [0.0, 1.0, 2.0]])
    assert float(losses.flops(vectors)) == pytest.approx(1.5**2 + 2.5**2 + 1)
