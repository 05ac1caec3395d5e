"""Teachers: their scores are those of transformers or sentence-transformers."""

import checkpoints
import pytest
import torch
import transformers
from torch.nn import functional

from lexbench.errors import CommandError, MissingData
from lexbench.lexmae.recipe.settings import Hardware
from lexbench.lexmae.training.finetune import load_teacher
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


def reference(folder, queries, documents):
    """Return logits (n, labels), one pair at a time, of [CLS] query [SEP] title [SEP] passage [SEP] written out."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    found = []
    for query, document in zip(queries, documents, strict=True):
        first = ["[CLS]", *tokenizer.tokenize(query), "[SEP]"]
        titled = [*tokenizer.tokenize(document.title), "[SEP]"] if document.title else []
        second = [*titled, *tokenizer.tokenize(document.body), "[SEP]"]
        ids = torch.tensor([tokenizer.convert_tokens_to_ids([*first, *second])])
        types = torch.tensor([[0] * len(first) + [1] * len(second)])
        with torch.no_grad():
            found.append(model(input_ids=ids, token_type_ids=types).logits[0])
    return torch.stack(found)


def test_a_cross_encoder_reads_query_title_and_passage(tmp_path):
    """The score is the logit of [CLS] query [SEP] title [SEP] passage [SEP], 192 tokens; the longer text of a pair is cut."""
    folder = checkpoints.cross_encoder(tmp_path, max_position_embeddings=512)
    queries = [*QUERIES, "query " * 30, "sparse " * 300]
    documents = [*DOCUMENTS, Document("e", "the " + "dense " * 400, body_at=4), Document("f", "term")]
    # Three of the 192 tokens are special; "the" and its separator are the document's.
    shorter = [*DOCUMENTS, Document("e", "the " + "dense " * (189 - 30 - 2), body_at=4), documents[5]]
    scores = load(folder)(queries, documents)

    torch.testing.assert_close(scores, reference(folder, [*queries[:5], "sparse " * 188], shorter)[:, 0], atol=1e-5, rtol=0)
    assert scores.dtype == torch.float32
    assert not scores.requires_grad
    assert scores.std() > 0.01, "the pairs can be told apart"


@pytest.mark.parametrize(("pooling", "layers"), [("mean", ["Normalize"]), ("cls", [])])
def test_a_dual_encoder_scores_by_cosine(tmp_path, pooling, layers):
    """The score is 20 times the cosine of sentence-transformers' vectors."""
    body = checkpoints.masked_lm(tmp_path / "body")
    model = checkpoints.sentence_transformer(tmp_path / "saved", body, pooling=pooling, layers=layers, length=10)
    queries, documents = (torch.from_numpy(model.encode(texts)) for texts in (QUERIES, [one.text for one in DOCUMENTS]))
    expected = 20 * functional.cosine_similarity(queries, documents)

    torch.testing.assert_close(load(tmp_path / "saved")(QUERIES, DOCUMENTS), expected, atol=1e-4, rtol=0)


def test_models_that_cannot_teach_are_refused(tmp_path):
    """A masked-language model and an empty folder are each refused in one line."""
    (tmp_path / "empty").mkdir()
    for place, kind, said in (
        (checkpoints.masked_lm(tmp_path / "mlm", "bert"), CommandError, "does not say how it pools"),
        (tmp_path / "empty", MissingData, "no config.json"),
    ):
        with pytest.raises(kind, match=said) as error:
            load(place)(QUERIES, DOCUMENTS)
        assert "\n" not in str(error.value)
