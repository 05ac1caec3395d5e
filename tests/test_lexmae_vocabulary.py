"""Smaller vocabularies of WordPiece models."""

import json

import checkpoints
import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer

from lexbench.datasets.corpus import write_corpus
from lexbench.errors import CommandError
from lexbench.lexmae.model import start
from lexbench.models.loading import load_tokenizer
from lexbench.progress import Silent
from lexbench.types import Document

ALWAYS = len(checkpoints.SPECIAL) + 2 * len(checkpoints.LETTERS)  # special tokens, and characters with and without ##
WORDS = ["sparse", "query", "document"]  # "w7" and the rest are not kept


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a tiny BERT."""
    return checkpoints.tiny(tmp_path_factory.mktemp("bert"), "bert")


@pytest.fixture
def tokenizer(folder):
    """Return its tokenizer."""
    return load_tokenizer(folder)


def kept(tokenizer):
    """Return the kept ids if WORDS are used most."""
    counts = np.zeros(len(tokenizer), np.int64)
    counts[tokenizer.convert_tokens_to_ids(WORDS)] = 9
    return start.most_used(tokenizer, counts, ALWAYS + len(WORDS))


def test_usage_counts_the_pieces_of_whole_texts(tmp_path, tokenizer):
    """All pieces of all documents count, including titles and text that a model would cut, but no special token."""
    settings = tokenizer.backend_tokenizer
    settings.enable_truncation(4)  # as the tokenizer.json of many models has it
    settings.enable_padding(length=16)
    long = Document("a", "Query sparse " + "query " * 5000, body_at=6)
    corpora = []
    for name, documents in (("one", [long, Document("b", "")]), ("two", [Document("c", "sparse w7")])):
        (tmp_path / name).mkdir()
        corpora.append(write_corpus(documents, tmp_path / name))
    counts = start.piece_counts(tokenizer, corpora, Silent())

    used = {"query": 5001, "sparse": 2, "w7": 1}
    assert {tokenizer.convert_ids_to_tokens(int(place)): counts[place] for place in np.flatnonzero(counts)} == used


def test_the_most_used_pieces_are_chosen(tokenizer):
    """Special tokens and single characters are always kept, then the most used pieces; ties go to the lower id."""
    counts = np.ones(len(tokenizer), np.int64)
    counts[tokenizer.convert_tokens_to_ids(["w7", "query"])] = 5
    counts[tokenizer.convert_tokens_to_ids("w9")] = 3
    ids = start.most_used(tokenizer, counts, ALWAYS + 4)

    pieces = tokenizer.convert_ids_to_tokens(ids.tolist())
    letters = [*checkpoints.LETTERS, *(f"##{letter}" for letter in checkpoints.LETTERS)]
    assert sorted(pieces) == sorted([*checkpoints.SPECIAL, *letters, "w7", "query", "w9", "the"])
    assert ids.tolist() == sorted(ids.tolist())


def test_too_small_a_vocabulary_is_refused(tokenizer):
    """The message names the smallest possible number."""
    with pytest.raises(CommandError, match=rf"start.vocabulary = {ALWAYS - 1} is less than the {ALWAYS} special"):
        start.most_used(tokenizer, np.zeros(len(tokenizer), np.int64), ALWAYS - 1)


def test_texts_of_kept_pieces_are_cut_as_before(tokenizer):
    """Texts of kept pieces are tokenised as before; other words become characters or [UNK]."""
    fewer = start.pruned_tokenizer(tokenizer, kept(tokenizer))
    pair = ("Sparse  QUÉRY 7", "documents[SEP]query")
    before, after = tokenizer(*pair), fewer(*pair)

    assert len(fewer) == ALWAYS + len(WORDS)
    assert sorted(fewer.get_vocab().values()) == list(range(len(fewer)))
    assert fewer.convert_ids_to_tokens(after["input_ids"]) == tokenizer.convert_ids_to_tokens(before["input_ids"])
    assert after["token_type_ids"] == before["token_type_ids"]
    assert fewer.tokenize("w7 the é") == ["w", "##7", "t", "##h", "##e", "e"]
    assert fewer.tokenize("œ") == tokenizer.tokenize("œ") == ["[UNK]"]
    assert fewer.all_special_tokens == tokenizer.all_special_tokens


def test_the_older_form_of_what_puts_special_tokens_is_renumbered(tmp_path, tokenizer):
    """A BertProcessing post-processor is renumbered like a template."""
    settings = json.loads(tokenizer.backend_tokenizer.to_str())
    ids = tokenizer.get_vocab()
    settings["post_processor"] = {"type": "BertProcessing", "sep": ["[SEP]", ids["[SEP]"]], "cls": ["[CLS]", ids["[CLS]"]]}
    old = Tokenizer.from_str(json.dumps(settings))
    roles = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
    plain = transformers.PreTrainedTokenizerFast(tokenizer_object=old, **roles)
    ids = np.array([*range(1, 5), *kept(tokenizer)[5:], 0])  # in another order, so that the old numbers would be seen
    fewer = start.pruned_tokenizer(plain, ids)

    assert fewer.convert_ids_to_tokens(fewer("query", "sparse")["input_ids"]) == ["[CLS]", "query", "[SEP]", "sparse", "[SEP]"]


@pytest.mark.parametrize("architecture", ["bert", "distilbert"])
@pytest.mark.parametrize("tied", [True, False])
def test_logits_of_kept_pieces_are_the_same(tmp_path, architecture, tied):
    """A text of kept pieces has the same logits for these pieces."""
    place = checkpoints.tiny(tmp_path / "m", architecture, tie_word_embeddings=tied)
    tokenizer = load_tokenizer(place)
    model = transformers.AutoModelForMaskedLM.from_pretrained(place).eval()
    ids = kept(tokenizer)
    fewer, smaller = start.pruned_tokenizer(tokenizer, ids), start.pruned_model(model, ids)
    text = ["sparse query 7", "document"]
    with torch.no_grad():
        before = model(**tokenizer(text, return_tensors="pt", padding=True)).logits
        after = smaller(**fewer(text, return_tensors="pt", padding=True)).logits

    torch.testing.assert_close(after, before[..., ids], atol=1e-5, rtol=0)
    assert smaller.config.vocab_size == len(ids) == after.shape[-1]
    assert smaller.config.pad_token_id == fewer.pad_token_id
    smaller.save_pretrained(tmp_path / "saved")
    again = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "saved").eval()
    with torch.no_grad():
        saved = again(**fewer(text, return_tensors="pt", padding=True)).logits
    torch.testing.assert_close(saved, after, atol=1e-6, rtol=0)


def test_other_tokenizers_are_refused(tmp_path):
    """Tokenizers other than WordPiece are refused."""
    tokenizer = load_tokenizer(checkpoints.tiny(tmp_path, "roberta"))

    with pytest.raises(CommandError, match=r"start.vocabulary is for WordPiece tokenizers, and this model's is BPE"):
        start.check_wordpiece(tokenizer)
