"""The ranking of texts in imitation: its teacher, and its batches."""

import checkpoints
import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import zscore

from lexbench.display.progress import Progress
from lexbench.errors import CannotStart, CommandError
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.recipe.settings import GROUP, Encoding, Hardware, Ranking
from lexbench.lexmae.training import ranking
from lexbench.models.loading import load_tokenizer


def test_the_divergence_is_that_of_both_models_together():
    """Each text ranks the others: scores of both models are standardised, weighted, added, and standardised to 2.4."""
    rng = np.random.default_rng(5)
    scores, sparse, dense = rng.normal(size=(4, 4)), rng.uniform(size=(4, 9)), rng.normal(size=(4, 3))
    weights = np.array([0.0, 0.5, 1.0, 2.0])
    expected = 0.0
    for text in range(4):
        others = [other for other in range(4) if other != text]
        both = zscore((dense @ dense.T)[text, others]) + weights[text] * zscore((sparse @ sparse.T)[text, others])
        teacher = 2.4 * zscore(both)
        expected += softmax(teacher) @ (log_softmax(teacher) - log_softmax(scores[text, others])) / 4

    given = (scores, sparse @ sparse.T, dense @ dense.T, weights, np.eye(4, dtype=bool))
    found = ranking.divergence(*map(torch.from_numpy, given))
    assert found.item() == pytest.approx(expected, rel=1e-6)


CPU = Hardware(device="cpu")


@pytest.fixture
def given(tmp_path):
    """Return the tokens of eight texts about two things, a reader, the folder of a dense model, and its vectors."""
    folder = checkpoints.masked_lm(tmp_path / "dense")
    reader = TextReader(load_tokenizer(folder), Encoding(titles="off"))
    texts = [text for n in range(1, 5) for text in ("alpha beta " * n, "gamma delta " * n)]
    rows = reader.queries(texts)
    return rows, reader, folder, ranking.dense_vectors(rows, reader, str(folder), CPU, tmp_path, Progress())


def test_a_group_has_a_text_and_neighbours_of_it(given):
    """A batch has each of its texts once, with its vector, and with the weights of its corpus."""
    rows, reader, folder, vectors = given
    settings = Ranking(model=str(folder), imitated=(1.0, 2.0), distance=(3.0, 4.0))
    corpora = np.array([0, 1] * 4)
    groups = ranking.Groups(rows, corpora, reader, settings, vectors)
    drawn = [groups.example(index, np.random.default_rng(index)) for index in (2, 5)]
    batch = groups.tensors(drawn)

    assert [len(group) for group in drawn] == [GROUP, GROUP]
    assert [group[0] for group in drawn] == [2, 5]
    assert all(group[0] not in group[1:] for group in drawn)
    texts = np.unique(drawn)
    assert batch["ids"].tolist() == reader.tensors([rows[text] for text in texts])["ids"].tolist()
    assert batch["weights"].tolist() == [[[1, 3], [2, 4]][text % 2] for text in texts]
    np.testing.assert_allclose(batch["vectors"].norm(dim=1), 1, rtol=1e-5)


@pytest.mark.parametrize("given_weights", [{"imitated": (1.0, 2.0)}, {"distance": (1.0, 2.0)}, {}])
def test_weights_that_are_left_out_are_1(given, given_weights):
    """Each of both settings can be left out, also if no text of the last corpus was drawn."""
    rows, reader, folder, vectors = given
    settings = Ranking(model=str(folder), **given_weights)
    groups = ranking.Groups(rows, np.zeros(8, int), reader, settings, vectors)
    assert groups.tensors([np.arange(8)])["weights"].tolist() == [[1, 1]] * 8


def test_a_resumed_training_does_not_encode_again(given, tmp_path, monkeypatch):
    """The vectors are those of the first time; a damaged file is refused by name."""
    rows, reader, folder, vectors = given
    monkeypatch.setattr(ranking.text_head, "encode", lambda *_: pytest.fail("encoded again"))
    assert torch.equal(ranking.dense_vectors(rows, reader, str(folder), CPU, tmp_path, Progress()), vectors)

    (tmp_path / "vectors.safetensors").write_bytes(b"PK")
    with pytest.raises(CannotStart, match=r"vectors\.safetensors is damaged .*; remove it to encode the texts again"):
        ranking.dense_vectors(rows, reader, str(folder), CPU, tmp_path, Progress())


def test_one_text_alone_is_refused(given, tmp_path):
    """One text has no neighbour to rank."""
    rows, reader, folder, _ = given
    with pytest.raises(CannotStart, match="needs at least two texts"):
        ranking.dense_vectors(rows[:1], reader, str(folder), CPU, tmp_path, Progress())


def test_a_dense_model_with_other_word_pieces_is_refused(given, tmp_path):
    """Both models must have the same vocabulary."""
    rows, reader, *_ = given
    other = checkpoints.masked_lm(tmp_path / "other", vocabulary=checkpoints.VOCABULARY[:-1])
    with pytest.raises(CommandError, match=r"ranking\.model: .* has other word pieces than the start; name another"):
        ranking.dense_vectors(rows, reader, str(other), CPU, tmp_path, Progress())
