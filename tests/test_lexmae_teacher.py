"""Teachers: their scores are those of rerankers, or cosines by sentence-transformers."""

import checkpoints
import pytest
import torch
from torch.nn import functional

from lexbench.lexmae.recipe.settings import Hardware
from lexbench.lexmae.training.finetune import load_teacher
from lexbench.rerankers.cross_encoder import CrossEncoder
from lexbench.types import Document

QUERIES = ["sparse retrieval", "the query", "sparse retrieval", "w7"]
DOCUMENTS = [
    Document("a", "neural search dense term weight model", body_at=14),  # titled: neural search
    Document("b", "lexical"),
    Document("c", "the of and in is sparse dense retrieval neural search term", body_at=4),  # titled: the
    Document("d", "w8 w9 document"),
]


def load(folder):
    """Load a teacher on the processor."""
    return load_teacher(str(folder), Hardware(device="cpu"))


def test_a_cross_encoder_teaches_by_its_logits(tmp_path):
    """The scores are those of the reranker `cross_encoder` for 192 tokens, with a separator behind titles."""
    folder = checkpoints.cross_encoder(tmp_path, max_position_embeddings=512)
    queries = [*QUERIES, "query " * 30, "sparse " * 300]
    documents = [*DOCUMENTS, Document("e", "the " + "dense " * 400, body_at=4), Document("f", "term")]
    scores = load(folder)(queries, documents)
    reranker = CrossEncoder(str(folder), length=192, titles="string", device="cpu")

    assert scores.dtype == torch.float32
    assert scores.tolist() == reranker.score(queries, documents).tolist()
    assert scores.std() > 0.01, "the pairs can be told apart"


@pytest.mark.parametrize(("pooling", "layers"), [("mean", ["Normalize"]), ("cls", [])])
def test_a_dual_encoder_scores_by_cosine(tmp_path, pooling, layers):
    """The score is 20 times the cosine of sentence-transformers' vectors."""
    body = checkpoints.masked_lm(tmp_path / "body")
    model = checkpoints.sentence_transformer(tmp_path / "saved", body, pooling=pooling, layers=layers, length=10)
    queries, documents = (torch.from_numpy(model.encode(texts)) for texts in (QUERIES, [one.text for one in DOCUMENTS]))
    expected = 20 * functional.cosine_similarity(queries, documents)

    torch.testing.assert_close(load(tmp_path / "saved")(QUERIES, DOCUMENTS), expected, atol=1e-4, rtol=0)
