"""Terms for a text as a whole, added to the weights of its words."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="models are in the extra neural")

import torch
from checkpoints import reconfigure, tiny_bert

from lexbench.encoders.sparse_mlm import SparseMLM
from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.lexmae.training.text_head import fit
from lexbench.models import added_terms
from lexbench.models.added_terms import AddedTerms, TextHead, means
from lexbench.models.stated_settings import TEXT_HEAD_FILE
from lexbench.progress import Silent

VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "alpha", "beta", "gamma", "delta")
TEXTS = ["beta gamma beta", "delta", ""]


@pytest.fixture
def folder(tmp_path):
    """Return a model without a text head."""
    return tiny_bert(tmp_path / "model", form="transformers", safetensors=True, vocabulary=VOCABULARY)


def with_head(folder, width=32):
    """Write a head of three terms into *folder*; return it."""
    weight = torch.linspace(-1, 1, 3 * width).view(3, width)
    head = TextHead(weight.half().float(), torch.tensor([0.5, 1.0, 1.5]), torch.tensor([8, 5, 6]))
    added_terms.write(AddedTerms(text_head=head), folder)
    return head


def encoder(folder, **settings):
    """Return the encoder of the model in *folder*."""
    return SparseMLM(model=str(folder), query_length=64, document_length=64, dense_ok=True, threads=1, **settings)


def test_the_largest_terms_are_added_to_the_largest_weights():
    """Of a mean (.6, .8) the terms have .6, .9 and 0; the largest, .9 for word 2, is added to the two largest weights."""
    head = TextHead(torch.tensor([[1.0, 0], [0, 1], [-1, 0]]), torch.tensor([0, 0.1, 0]), torch.tensor([4, 2, 0]))
    mean = means(torch.tensor([[[3.0, 0], [3, 8], [9, 9]]]), torch.tensor([[True, True, False]]))

    assert mean[0].tolist() == pytest.approx([0.6, 0.8])
    added = head.added(torch.tensor([[5.0, 4, 3, 2, 1]]), mean, most=1, kept=2)[0]
    assert added.tolist() == pytest.approx([5, 4, 0.9, 0, 0])
    assert head.added(torch.zeros(1, 5), mean, most=9)[0].tolist() == pytest.approx([0, 0, 0.9, 0, 0.6])


def test_the_encoder_adds_them_to_documents_and_queries(folder):
    """Documents and queries get their own numbers of terms; with 0 the vectors are those of the model without the head.

    The head is part of the model's identity. With document_terms=4 and text_terms=3 one word is left beside its terms.
    """
    bare, plain = encoder(folder).identity(), encoder(folder).encode_document(TEXTS).toarray()
    head = with_head(folder)
    assert encoder(folder).identity() != bare
    assert np.array_equal(encoder(folder).encode_document(TEXTS).toarray(), plain)

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
    assert np.diff(encoder(folder, document_terms=4, text_terms=3).encode_document(TEXTS).indptr).max() <= 4


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
        head = fit(texts, words, torch.arange(64), (8, 12), steps, 1, Silent())
        with torch.no_grad():
            scores, cosines = head(texts, 8) @ head(texts, 12).T, texts @ texts.T
        nearest = [matrix.fill_diagonal_(-9).topk(10, dim=1).indices for matrix in (scores, cosines)]
        return float((nearest[0][:, :, None] == nearest[1][:, None]).any(2).float().mean())

    assert found(300) > found(1) + 0.05
