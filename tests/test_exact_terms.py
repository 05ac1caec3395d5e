"""Weights of a text's own word pieces beside those that a masked-language model predicts."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="models are in the extra neural")

import safetensors.torch
import torch
from checkpoints import reconfigure, tiny_bert

from lexbench.encoders.sparse_mlm import SparseMLM
from lexbench.errors import InvalidFile, MissingData
from lexbench.models import added_terms
from lexbench.models.added_terms import AddedTerms, ExactTerms
from lexbench.models.stated_settings import EXACT_TERMS_FILE
from lexbench.types import Document

WORDS = ("alpha", "beta", "gamma", "delta")
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)
BETA, GAMMA = VOCABULARY.index("beta"), VOCABULARY.index("gamma")


@pytest.fixture
def folder(tmp_path):
    """Return a model without exact terms."""
    return tiny_bert(tmp_path / "model", form="transformers", safetensors=True, vocabulary=VOCABULARY)


def with_terms(folder, predicted=0.5, exact=2.0, mean_length=3.0):
    """Write exact terms that are equal for all word pieces into *folder*; return them."""
    vocabulary = torch.ones(len(VOCABULARY))
    terms = ExactTerms(predicted * vocabulary, exact * vocabulary, mean_length)
    added_terms.write(AddedTerms(terms), folder)
    return terms


def encoder(folder):
    """Return the encoder of the model in *folder*."""
    return SparseMLM(model=str(folder), positions="text", query_length=64, document_length=64, dense_ok=True, threads=1)


def test_a_word_in_the_text_has_the_weight_of_bm25():
    """With two of three pieces equal: c = 2 . 1.9 / (2 + .9 (.6 + .4 . 3 / 6)), times its weight, plus the prediction's."""
    terms = ExactTerms(torch.full((9,), 0.5), torch.arange(9.0), mean_length=6.0)
    ids = torch.tensor([[2, BETA, GAMMA, BETA, 3, 0]])
    predicted = torch.zeros(1, 9)
    predicted[0, 8] = 3.0
    weights = terms(predicted, ids, torch.tensor([[False, True, True, True, False, False]]))[0]

    norm = 0.9 * (0.6 + 0.4 * 3 / 6)
    assert weights.tolist() == pytest.approx([0, 0, 0, 0, 0, 0, BETA * 2 * 1.9 / (2 + norm), GAMMA * 1.9 / (1 + norm), 1.5])


def test_a_weight_below_0_counts_as_0_and_none_is_made_of_no_text():
    """A negative exact weight gives no term, and an empty text has none."""
    terms = ExactTerms(torch.ones(9), torch.full((9,), -1.0), mean_length=6.0)
    ids = torch.tensor([[2, BETA, 3], [2, 3, 0]])
    pools = torch.tensor([[False, True, False], [False, False, False]])
    assert terms(torch.zeros(2, 9), ids, pools).tolist() == [[0.0] * 9] * 2


def test_the_encoder_adds_them_to_its_predictions(folder):
    """A text's vector is half of the model's own plus twice BM25's term frequencies."""
    texts = ["beta gamma beta", "delta", ""]
    plain = encoder(folder).encode_document(texts).toarray()
    with_terms(folder)
    found = encoder(folder).encode_document(texts).toarray()

    expected = 0.5 * plain
    for row, counts in ((0, {BETA: 2, GAMMA: 1}), (1, {VOCABULARY.index("delta"): 1})):
        length = sum(counts.values())
        for word, count in counts.items():
            expected[row, word] += 2 * count * 1.9 / (count + 0.9 * (0.6 + 0.4 * length / 3))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    queries = encoder(folder).encode_query(texts).toarray()
    np.testing.assert_allclose(queries, found, rtol=1e-5, atol=1e-6)


def test_titles_are_words_of_the_text_too(folder):
    """Words of a title count like those of the body."""
    with_terms(folder, predicted=0.0)
    model = SparseMLM(model=str(folder), positions="text", titles="pair", document_length=64, dense_ok=True)
    tokens = model.tokenise_documents([Document("d", "beta gamma", 5)])
    assert set(model.encode_tokens(tokens).indices.tolist()) == {BETA, GAMMA}


def test_they_are_part_of_the_models_identity(folder):
    """The file of exact terms is in the key."""
    identities = [encoder(folder).identity()]
    for exact in (1.0, 2.0):
        with_terms(folder, exact=exact)
        identities.append(encoder(folder).identity())
    weights = [identity["model"]["weights"] for identity in identities]
    assert len(set(weights)) == 3
    assert len({identity["model"]["config"] for identity in identities}) == 1


def test_what_is_written_is_read(folder):
    """Weights are stored in half precision, the mean length in float32; without the file there are none."""
    assert added_terms.read(folder, len(VOCABULARY), 32).exact_terms is None
    terms = with_terms(folder, predicted=0.1, exact=1 / 3, mean_length=151.3)
    found = added_terms.read(folder, len(VOCABULARY), 32).exact_terms
    torch.testing.assert_close(found.exact, terms.exact.half().float())
    torch.testing.assert_close(found.predicted, terms.predicted.half().float())
    assert found.mean_length == pytest.approx(151.3, rel=1e-6)


def test_a_file_that_was_lost_is_missed(folder):
    """A folder that states exact terms but lacks the file is refused."""
    with_terms(folder)
    reconfigure(folder, lexbench={"positions": "text", "exact_terms": True})
    assert encoder(folder).checkpoint_defaults({"model": str(folder)}) == {"positions": "text"}
    (folder / EXACT_TERMS_FILE).unlink()
    with pytest.raises(MissingData, match=r"exact_terms\.safetensors is missing"):
        encoder(folder).identity()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tensors: tensors | {"exact": torch.ones(3)}, "the model needs"),
        (lambda tensors: {name: value for name, value in tensors.items() if name != "predicted"}, "the model needs"),
        (lambda tensors: tensors | {"exact": tensors["exact"] * torch.nan}, "no number"),
        (lambda tensors: tensors | {"mean_length": torch.zeros(1)}, "mean_length not above 0"),
        (lambda tensors: tensors, "exact_terms"),
    ],
    ids=["another length", "one missing", "no number", "no length", "cut"],
)
def test_a_file_that_does_not_fit_is_refused(folder, change, said):
    """A damaged file, or one of another model, is named; the last one is cut."""
    with_terms(folder)
    path = folder / EXACT_TERMS_FILE
    changed = safetensors.torch.save(change(safetensors.torch.load(path.read_bytes())))
    path.write_bytes(changed[:-10] if said == "exact_terms" else changed)
    with pytest.raises(InvalidFile, match=said):
        encoder(folder).encode_query(["beta"])
