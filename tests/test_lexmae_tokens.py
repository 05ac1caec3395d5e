"""Tokenised corpora on disk."""

import checkpoints
import numpy as np
import pytest

from lexbench.artifacts.graph import Graph
from lexbench.datasets.corpus import StoredCorpus, write_corpus
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.recipe.settings import Encoding
from lexbench.models.loading import load_tokenizer
from lexbench.types import Document

LENGTH = 12
TEXTS = [  # title and body
    ("sparse retrieval", "the query and the document"),
    ("", "dense model"),
    ("", ""),
    ("neural search", ""),
    ("term weight of the lexical model in neural sparse retrieval", "query " * 30),
    ("query " * 30, "is sparse"),
    ("", "search " * 40),
]


def corpus(folder, texts=TEXTS):
    """Write a corpus; return it and its documents by position."""
    folder.mkdir()
    documents = [
        Document(f"d{number:05}", f"{title} {body}" if title else body, len(title) + 1 if title else 0)
        for number, (title, body) in enumerate(texts)
    ]
    return write_corpus(documents, folder), documents[::-1]  # the largest id comes first


def tokenised(stored, tokenizer, titles, length, store):
    """Return the tokens of a corpus."""
    return TextReader(tokenizer, Encoding(titles=titles, document_length=length)).corpus(stored, Graph(store))


def tokenizer_of(folder, architecture="bert", vocabulary=None):
    """Write a tokenizer and load it."""
    checkpoints.masked_lm(folder, architecture)
    checkpoints.write_tokenizer(folder, architecture, vocabulary)
    return load_tokenizer(folder)


class Unreadable(StoredCorpus):
    """A corpus whose texts must not be read."""

    def documents(self, start=0, stop=None):
        """Refuse."""
        raise AssertionError(f"documents {start} to {stop} were read")


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
@pytest.mark.parametrize("titles", ["pair", "string", "off"])
def test_tokens_are_the_tokenizers_own(store, tmp_path, architecture, titles):
    """Texts are tokenised as by their tokenizer: as a pair, as one string with a separator, or plain."""
    tokenizer = tokenizer_of(tmp_path / "model", architecture)
    stored, documents = corpus(tmp_path / "corpus-1")
    found = tokenised(stored, tokenizer, titles, LENGTH, store)

    for position, document in enumerate(documents):
        title = document.title or "-"
        given = {"pair": (title, document.body), "string": title + tokenizer.sep_token + document.body, "off": document.text}
        wanted = tokenizer([given[titles]], truncation=True, max_length=LENGTH)["input_ids"][0]
        assert found[position].tolist() == wanted, document
    assert len(found) == len(TEXTS)
    assert found.lengths.tolist() == [len(found[position]) for position in range(len(found))]
    assert max(found.lengths) == LENGTH
    assert found.ids.dtype == np.uint16
    assert found[0].dtype == np.int64


@pytest.mark.parametrize(("tokens", "kind"), [(65_536, np.uint16), (65_537, np.uint32)])
def test_large_vocabularies(store, tmp_path, tokens, kind):
    """65,536 tokens fit into 16 bits, one more needs 32."""
    words = [f"x{number}" for number in range(tokens - len(checkpoints.SPECIAL))]
    tokenizer = tokenizer_of(tmp_path / "model", vocabulary=[*checkpoints.SPECIAL, *words])
    stored, _ = corpus(tmp_path / "corpus-1", [("", words[-1])])
    found = tokenised(stored, tokenizer, "off", LENGTH, store)
    assert len(tokenizer) == tokens
    assert found.ids.dtype == kind
    assert found[0].tolist() == [2, tokens - 1, 3]


def test_tokens_are_stored(store, tmp_path):
    """A tokenised corpus is read from the store, even if the tokenizer was used with other settings in between."""
    tokenizer = tokenizer_of(tmp_path / "model")
    stored, _ = corpus(tmp_path / "corpus-1")
    found = tokenised(stored, tokenizer, "pair", LENGTH, store)
    tokenizer(["a query", "b"], truncation=True, max_length=3, padding=True)
    again = tokenised(Unreadable(stored.path), tokenizer, "pair", LENGTH, store)
    assert again.ids.tolist() == found.ids.tolist()
    assert again.starts.tolist() == found.starts.tolist()


def test_settings_that_change_the_tokens(store, tmp_path):
    """Another length, title setting, tokenizer or truncation side has its own tokens."""
    tokenizer = tokenizer_of(tmp_path / "model")
    stored, _ = corpus(tmp_path / "corpus-1")
    other = tokenizer_of(tmp_path / "other", vocabulary=[*checkpoints.SPECIAL, *reversed(checkpoints.VOCABULARY[5:])])
    given = [(tokenizer, "off", LENGTH), (tokenizer, "off", LENGTH + 1), (tokenizer, "string", LENGTH), (other, "off", LENGTH)]
    found = [tokenised(stored, *one, store).ids.tolist() for one in given]
    tokenizer.truncation_side = "left"
    found.append(tokenised(stored, *given[0], store).ids.tolist())
    assert len({tuple(ids) for ids in found}) == 5
