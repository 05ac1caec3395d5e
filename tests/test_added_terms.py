"""Additions to the terms that a masked-language model predicts: exact terms, and a text head."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="models are in the extra neural")

import safetensors.torch
import torch
from checkpoints import masked_lm, reconfigure

from lexbench.display.progress import Progress
from lexbench.encoders.sparse_mlm import SparseMLM
from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.lexmae.training.text_head import fit
from lexbench.models import added_terms
from lexbench.models.added_terms import AddedTerms, ExactTerms, TextHead, means
from lexbench.models.stated_settings import EXACT_TERMS_FILE, TEXT_HEAD_FILE
from lexbench.types import Document

VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "alpha", "beta", "gamma", "delta")
BETA, GAMMA, DELTA = 6, 7, 8
TEXTS = ["beta gamma beta", "delta", ""]


@pytest.fixture
def folder(tmp_path):
    """Return a model without additions."""
    return masked_lm(tmp_path / "model", vocabulary=VOCABULARY)


def encoder(folder, **settings):
    """Return the encoder of the model in *folder*."""
    given = {"positions": "text", "query_length": 64, "document_length": 64, "dense_ok": True, "threads": 1}
    return SparseMLM(model=str(folder), **given, **settings)


# ---- exact terms -----------------------------------------------------------------------------------------------------------


def with_terms(folder, predicted=0.5, exact=2.0, mean_length=3.0):
    """Write exact terms that are equal for all word pieces into *folder*; return them."""
    vocabulary = torch.ones(len(VOCABULARY))
    terms = ExactTerms(predicted * vocabulary, exact * vocabulary, mean_length)
    added_terms.write(AddedTerms(terms), folder)
    return terms


def test_a_word_in_the_text_has_the_weight_of_bm25():
    """With two of three pieces equal: c = 2 . 1.9 / (2 + .9 (.6 + .4 . 3 / 6)), times its weight, plus the prediction's."""
    terms = ExactTerms(torch.full((9,), 0.5), torch.arange(9.0), mean_length=6.0)
    ids = torch.tensor([[2, BETA, GAMMA, BETA, 3, 0]])
    predicted = torch.zeros(1, 9)
    predicted[0, 8] = 3.0
    weights = terms(predicted, ids, torch.tensor([[False, True, True, True, False, False]]))[0]

    norm = 0.9 * (0.6 + 0.4 * 3 / 6)
    assert weights.tolist() == pytest.approx([0, 0, 0, 0, 0, 0, BETA * 2 * 1.9 / (2 + norm), GAMMA * 1.9 / (1 + norm), 1.5])


def test_words_of_one_stem_count_as_one_word_piece():
    """Two words that count as BETA are BETA twice, and have no weight of their own."""
    stems = torch.arange(9)
    stems[GAMMA] = BETA
    terms = ExactTerms(torch.ones(9), torch.ones(9), 2.0, stems)
    weights = terms(torch.zeros(1, 9), torch.tensor([[BETA, GAMMA]]), torch.ones(1, 2, dtype=torch.bool))[0]

    assert weights[BETA].item() == pytest.approx(2 * 1.9 / (2 + 0.9))
    assert weights.count_nonzero() == 1


def test_a_weight_below_0_counts_as_0_and_none_is_made_of_no_text():
    """A negative exact weight gives no term, and an empty text has none."""
    terms = ExactTerms(torch.ones(9), torch.full((9,), -1.0), mean_length=6.0)
    ids = torch.tensor([[2, BETA, 3], [2, 3, 0]])
    pools = torch.tensor([[False, True, False], [False, False, False]])
    assert terms(torch.zeros(2, 9), ids, pools).tolist() == [[0.0] * 9] * 2


def test_the_encoder_adds_them_to_its_predictions(folder):
    """A text's vector is half of the model's own plus twice BM25's term frequencies."""
    plain = encoder(folder).encode_document(TEXTS).toarray()
    with_terms(folder)
    found = encoder(folder).encode_document(TEXTS).toarray()

    expected = 0.5 * plain
    for row, counts in ((0, {BETA: 2, GAMMA: 1}), (1, {DELTA: 1})):
        length = sum(counts.values())
        for word, count in counts.items():
            expected[row, word] += 2 * count * 1.9 / (count + 0.9 * (0.6 + 0.4 * length / 3))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    queries = encoder(folder).encode_query(TEXTS).toarray()
    np.testing.assert_allclose(queries, found, rtol=1e-5, atol=1e-6)


def test_titles_are_words_of_the_text_too(folder):
    """Words of a title count like those of the body."""
    with_terms(folder, predicted=0.0)
    model = encoder(folder, titles="pair")
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


def test_written_weights_read_back(folder):
    """Weights are stored in half precision, the mean length in float32, stems as integers; without the file there are none."""
    assert added_terms.read(folder, len(VOCABULARY), 32).exact_terms is None
    terms = with_terms(folder, predicted=0.1, exact=1 / 3, mean_length=151.3)
    found = added_terms.read(folder, len(VOCABULARY), 32).exact_terms
    torch.testing.assert_close(found.exact, terms.exact.half().float())
    torch.testing.assert_close(found.predicted, terms.predicted.half().float())
    assert found.mean_length == pytest.approx(151.3, rel=1e-6)
    assert found.counted_as is None
    stems = torch.arange(len(VOCABULARY)).flip(0)
    added_terms.write(AddedTerms(ExactTerms(terms.predicted, terms.exact, 3.0, stems)), folder)
    assert added_terms.read(folder, len(VOCABULARY), 32).exact_terms.counted_as.tolist() == stems.tolist()


def test_a_missing_file_is_refused(folder):
    """A folder that states exact terms but lacks the file is refused."""
    with_terms(folder)
    reconfigure(folder, lexbench={"positions": "text", "exact_terms": True})
    assert encoder(folder).checkpoint_defaults({"model": str(folder)}) == {"positions": "text"}
    (folder / EXACT_TERMS_FILE).unlink()
    with pytest.raises(MissingData, match=r"exact_terms\.safetensors is missing, .*; copy it there from the folder"):
        encoder(folder).identity()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tensors: tensors | {"exact": torch.ones(3)}, "the model needs"),
        (lambda tensors: {name: value for name, value in tensors.items() if name != "predicted"}, "the model needs"),
        (lambda tensors: tensors | {"exact": tensors["exact"] * torch.nan}, "no number"),
        (lambda tensors: tensors | {"mean_length": torch.zeros(1)}, "mean_length not above 0"),
        (lambda tensors: tensors | {"counted_as": torch.full((len(VOCABULARY),), 99)}, "counted_as is not in the vocabulary"),
        (lambda tensors: tensors, "exact_terms"),
    ],
    ids=["another length", "one missing", "no number", "no length", "no such piece", "cut"],
)
def test_a_file_that_does_not_fit_is_refused(folder, change, said):
    """A damaged file, or one of another model, is named; the last one is cut."""
    with_terms(folder)
    path = folder / EXACT_TERMS_FILE
    changed = safetensors.torch.save(change(safetensors.torch.load(path.read_bytes())))
    path.write_bytes(changed[:-10] if said == "exact_terms" else changed)
    with pytest.raises(InvalidFile, match=said):
        encoder(folder).encode_query(["beta"])


# ---- the text head -----------------------------------------------------------------------------------------------------------


def with_head(folder, width=32):
    """Write a head of three terms into *folder*; return it."""
    weight = torch.linspace(-1, 1, 3 * width).view(3, width)
    head = TextHead(weight.half().float(), torch.tensor([0.5, 1.0, 1.5]), torch.tensor([8, 5, 6]))
    added_terms.write(AddedTerms(text_head=head), folder)
    return head


def test_the_largest_terms_follow_the_largest_weights():
    """Of a mean (.6, .8) the terms have .6, .9 and 0; the largest, .9, follows the vocabulary with its two largest weights."""
    head = TextHead(torch.tensor([[1.0, 0], [0, 1], [-1, 0]]), torch.tensor([0, 0.1, 0]), torch.tensor([4, 2, 0]))
    mean = means(torch.tensor([[[3.0, 0], [3, 8], [9, 9]]]), torch.tensor([[True, True, False]]))

    assert mean[0].tolist() == pytest.approx([0.6, 0.8])
    added = head.added(torch.tensor([[5.0, 4, 3, 2, 1]]), mean, most=1, kept=2)[0]
    assert added.tolist() == pytest.approx([5, 4, 0, 0, 0, 0, 0.9, 0])
    assert head.added(torch.zeros(1, 5), mean, most=9)[0].tolist() == pytest.approx([0, 0, 0, 0, 0, 0.6, 0.9, 0])


def test_the_encoder_adds_terms_of_the_head_to_documents_and_queries(folder):
    """Documents and queries get their own numbers of terms; with 0 the vectors are those of the model without the head.

    The head is part of the model's identity. Its terms are named after their words. With document_terms=4 one word of a
    document is left beside three terms.
    """
    bare, plain = encoder(folder).identity(), np.pad(encoder(folder).encode_document(TEXTS).toarray(), ((0, 0), (0, 3)))
    head = with_head(folder)
    assert encoder(folder).identity() != bare
    assert np.array_equal(encoder(folder).encode_document(TEXTS).toarray(), plain)
    assert encoder(folder).token(len(VOCABULARY)) == f"text:{VOCABULARY[8]}"

    for dtype, error in ("float32", 1e-5), ("bfloat16", 0.05):
        both = encoder(folder, text_terms=3, query_text_terms=1, dtype=dtype)
        found, queries = both.encode_document(TEXTS).toarray() - plain, both.encode_query(TEXTS).toarray() - plain
        model = both._document_model()
        ids = torch.tensor([model.tokenizer(TEXTS[0])["input_ids"]])
        with torch.inference_mode():
            states = model.body(input_ids=ids, attention_mask=None).last_hidden_state
            expected = head.added(torch.zeros(1, len(VOCABULARY)), means(states, torch.ones_like(ids)), 3)[0].numpy()
        assert found[0] == pytest.approx(expected, abs=error)
        assert (np.count_nonzero(queries > 10 * error, axis=1) == 1).all()
    of_both = {"text_terms": 3, "query_text_terms": 3}
    cut, whole = encoder(folder, document_terms=4, **of_both), encoder(folder, **of_both)
    assert np.diff(cut.encode_document(TEXTS).indptr).max() <= 4
    assert (cut.encode_query(TEXTS) != whole.encode_query(TEXTS)).nnz == 0


def test_a_head_that_is_missing_or_does_not_fit_is_refused(folder):
    """Terms without a head, a stated head whose file is lost, a head of another width or of words that do not exist."""
    with pytest.raises(CommandError, match="no text head"):
        encoder(folder, text_terms=3).encode_document(TEXTS)
    with_head(folder, width=31)
    with pytest.raises(InvalidFile, match=TEXT_HEAD_FILE):
        encoder(folder).encode_document(TEXTS)
    with_head(folder)
    with pytest.raises(InvalidFile, match="not in the vocabulary"):
        added_terms.read(folder, vocabulary=8, width=32)
    reconfigure(folder, lexbench={"text_terms": 3})
    (folder / TEXT_HEAD_FILE).unlink()
    with pytest.raises(MissingData, match="text_terms"):
        SparseMLM.checkpoint_files(folder)


def test_training_finds_the_nearest_texts():
    """After training, the texts with the largest dot products of terms are more often those with the largest cosines."""
    generator = torch.Generator().manual_seed(1)
    texts = torch.nn.functional.normalize(torch.randn(400, 16, generator=generator), dim=1)
    words = torch.randn(64, 16, generator=generator)

    def found(steps):
        head = fit(texts, words, torch.arange(64), (8, 12), steps, 1, Progress())
        with torch.no_grad():
            scores, cosines = head(texts, 8) @ head(texts, 12).T, texts @ texts.T
        nearest = [matrix.fill_diagonal_(-9).topk(10, dim=1).indices for matrix in (scores, cosines)]
        return float((nearest[0][:, :, None] == nearest[1][:, None]).any(2).float().mean())

    assert found(300) > found(1) + 0.05
