"""What every encoder must do for lexbench: a function for each rule, which needs nothing but a way to make the encoder.

Each function takes an `EncoderCase`, raises AssertionError where the rule is broken, and returns "", or why the rule does not
apply to this encoder. CHECKS has all of them by name. An encoder that looks vectors up by id has to know DOCUMENTS and QUERIES.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse

from lexbench import plugins
from lexbench.runner import systems
from lexbench.testing._rows import close, content, rows
from lexbench.types import Document, Kind, MultiVectors, Query
from lexbench.vectors import kind_of

DOCUMENTS = [
    Document("short", "Sparse retrieval of a document"),
    Document("empty", ""),
    Document("titled", "Neural search. The term weight of a lexical model", body_at=15),
    Document("long", "the query is in a dense model, " * 300),
    Document("marks", "w1 w2: x?! (y)"),
]
QUERIES = [
    Query("first", "sparse retrieval"),
    Query("empty", ""),
    Query("long", "the query " * 300),
    Query("last", "w2 document"),
]


class EncoderCase(NamedTuple):
    """An encoder to be checked: how to make it, and with which settings its files are others."""

    make: Callable[..., Any]  # make(**settings) returns a new encoder, with these settings in place of its own
    moved: Mapping[str, Any] = {}  # settings that name copies of its files in another place; {} where it has no files
    changed: Mapping[str, Any] = {}  # settings that name files of the same form with another content
    devices: Mapping[str, Any] = {}  # settings that make it work on two devices; {} where it works on one


def document_vectors(encoder: Any, documents: Sequence[Document]) -> Any:
    """Return the vectors of *documents*, as lexbench asks for them."""
    if not documents and type(encoder).encode_tokens is plugins.Encoder.encode_tokens:
        return encoder.encode_document([])  # which lexbench never asks for in batches
    return encoder.encode_tokens(encoder.tokenise_documents(documents), lambda _count: None)


def both(encoder: Any) -> list[Any]:
    """Return the vectors of all documents, and of all queries."""
    return [document_vectors(encoder, DOCUMENTS), encoder.encode_queries(QUERIES)]


def check_interface(case: EncoderCase) -> str:
    """Check that it is a frozen dataclass with a kind and a storage, and encodes texts, or looks documents and queries up."""
    encoder = case.make()
    dataclass_params = getattr(type(encoder), "__dataclass_params__", None)

    assert dataclass_params is not None, "it is no dataclass"
    assert dataclass_params.frozen, "its settings can be changed"
    assert plugins.fault("encoders", type(encoder)) == ""
    assert isinstance(encoder.kind, Kind)
    assert encoder.storage in ("float32", "float16")
    assert encoder == case.make()
    assert hash(encoder) == hash(case.make()), "equal settings make different encoders"
    return ""


def check_one_vector_a_text(case: EncoderCase) -> str:
    """Check that each document and query has one vector, empty and long texts too, and that texts can be told apart."""
    documents, queries = both(case.make())

    assert documents.shape[0] == len(DOCUMENTS)
    assert queries.shape == (len(QUERIES), documents.shape[1]), "queries are not as wide as documents"
    for vectors in (documents, queries):
        assert len({row.tobytes() for row in rows(vectors)}) > 1, "texts cannot be told apart"
    return ""


def check_form(case: EncoderCase) -> str:
    """Check that vectors are of its `kind`, float32 and finite; terms ascend, offsets go from 0 to the number of tokens."""
    encoder = case.make()
    for vectors in both(encoder):
        assert kind_of(vectors) is encoder.kind
        match vectors:
            case MultiVectors(values, offsets):
                assert offsets.dtype == np.int64
                assert offsets[0] == 0
                assert offsets[-1] == len(values)
                assert (np.diff(offsets) >= 0).all()
            case sparse.csr_array():
                values = vectors.data
                assert all((np.diff(terms) > 0).all() for terms in np.split(vectors.indices, vectors.indptr[1:-1]))
            case _:
                values = vectors
                assert vectors.ndim == 2
        assert values.dtype == np.float32
        assert np.isfinite(values).all()
    return ""


def check_no_texts(case: EncoderCase) -> str:
    """Check that no documents have no vectors, and neither have no queries, in an array of the usual width."""
    encoder = case.make()
    width = both(encoder)[0].shape[1]

    assert document_vectors(encoder, []).shape == (0, width)
    assert encoder.encode_queries([]).shape == (0, width)
    return ""


def check_order(case: EncoderCase) -> str:
    """Check that vectors come in the order of the texts, whatever that is."""
    encoder = case.make()
    documents, queries = (rows(vectors) for vectors in both(encoder))

    assert close(rows(document_vectors(encoder, DOCUMENTS[::-1])), documents[::-1])
    assert close(rows(encoder.encode_queries(QUERIES[::-1])), queries[::-1])
    return ""


def check_company(case: EncoderCase) -> str:
    """Check that a text has the same vector alone, among others and among many, but for rounding."""
    encoder = case.make()
    documents, queries = (rows(vectors) for vectors in both(encoder))

    assert close([rows(document_vectors(encoder, [document]))[0] for document in DOCUMENTS], documents)
    assert close([rows(encoder.encode_queries([query]))[0] for query in QUERIES], queries)
    assert close(rows(document_vectors(encoder, DOCUMENTS * 40)), documents * 40)
    return ""


def check_deterministic(case: EncoderCase) -> str:
    """Check that one that calls itself deterministic gives the same bytes for the same texts, from a new encoder too."""
    encoder = case.make()
    if not encoder.deterministic:
        return "it does not call itself deterministic"
    expected = [content(vectors) for vectors in both(encoder)]

    assert [content(vectors) for vectors in both(encoder)] == expected
    assert [content(vectors) for vectors in both(case.make())] == expected
    return ""


def check_two_steps(case: EncoderCase) -> str:
    """Check that tokenising and then encoding gives what encoding texts gives, and that progress adds up to the documents."""
    encoder = case.make()
    if type(encoder).encode_tokens is plugins.Encoder.encode_tokens:
        return "it leaves cutting batches to lexbench"
    untitled = [document._replace(body_at=0) for document in DOCUMENTS]
    done: list[int] = []
    vectors = encoder.encode_tokens(encoder.tokenise_documents(untitled), done.append)

    assert sum(done) == len(untitled)
    if type(encoder).encode_document is not plugins.Encoder.encode_document:
        assert content(encoder.encode_document([document.text for document in untitled])) == content(vectors)
    return ""


def check_truncated(case: EncoderCase) -> str:
    """Check that documents which are cut to a length are counted, each once, and short ones are not."""
    encoder = case.make()
    truncated = encoder.truncated(encoder.tokenise_documents(DOCUMENTS))
    alone = {document.doc_id: encoder.truncated(encoder.tokenise_documents([document])) for document in DOCUMENTS}

    assert alone["short"] == alone["empty"] == 0
    assert set(alone.values()) <= {0, 1}
    assert truncated == sum(alone.values())
    return ""


def check_runtime_settings(case: EncoderCase) -> str:
    """Check that `runtime` settings, numbers and switches, change no vector but for rounding, and are in no key."""
    encoder = case.make()
    expected, key = [rows(vectors) for vectors in both(encoder)], systems.describe(encoder)
    tried = _other_values(encoder, "runtime")
    for settings in tried:
        other = case.make(**settings)
        assert all(close(rows(vectors), texts) for vectors, texts in zip(both(other), expected, strict=True)), settings
        assert systems.describe(other) == key, settings
    return "" if tried else "it has no number or switch among its runtime settings"


def check_search_settings(case: EncoderCase) -> str:
    """Check that `at_search` settings, numbers and switches, change no document's vector and only the key of the system."""
    encoder = case.make()
    expected, key = content(document_vectors(encoder, DOCUMENTS)), systems.describe(encoder, index=True)
    tried = _other_values(encoder, "search")
    for settings in tried:
        other = case.make(**settings)
        assert content(document_vectors(other, DOCUMENTS)) == expected, settings
        assert systems.describe(other, index=True) == key, settings
        assert systems.describe(other) != systems.describe(encoder), settings
    return "" if tried else "it has no number or switch among its settings of searching"


def _other_values(encoder: Any, mark: str) -> list[dict[str, Any]]:
    """Return settings with that *mark* and other values, one at a time: half a number, 1 and 2 for a 0, a switch turned."""
    others: list[dict[str, Any]] = []
    for field in fields(encoder):
        value = getattr(encoder, field.name)
        if field.metadata.get(mark) and type(value) is bool:
            others.append({field.name: not value})
        elif field.metadata.get(mark) and type(value) is int and (value or mark == "runtime"):
            others += [{field.name: number} for number in ((value // 2,) if value else (1, 2))]
    return others


def check_key(case: EncoderCase) -> str:
    """Check that another session knows what decides its vectors, and that the key is the same each time."""
    key = systems.describe(case.make())

    assert systems.reusable(key)
    assert systems.describe(case.make()) == key
    assert systems.describe(case.make(), index=True) == systems.describe(case.make(), index=True)
    return ""


def check_files(case: EncoderCase) -> str:
    """Check that the same files in another place have the same key and the same vectors, and other files have others."""
    if not case.make().identity():
        return "it has no files"
    if not case.moved or not case.changed:
        return "there is no second set of files"
    encoder, moved, changed = case.make(), case.make(**case.moved), case.make(**case.changed)

    assert systems.describe(moved) == systems.describe(encoder)
    assert [content(vectors) for vectors in both(moved)] == [content(vectors) for vectors in both(encoder)]
    assert systems.describe(changed) != systems.describe(encoder)
    assert [content(vectors) for vectors in both(changed)] != [content(vectors) for vectors in both(encoder)]
    return ""


def check_workers(case: EncoderCase) -> str:
    """Check that the encoders of several devices can be sent to other processes, and give the same bytes."""
    encoder = case.make(**case.devices)
    workers = encoder.workers()
    if case.devices:
        assert len(workers) > 1
    expected = content(document_vectors(workers[0], DOCUMENTS))
    for worker in workers:
        sent = pickle.loads(pickle.dumps(worker))
        assert sent == worker
        assert content(document_vectors(sent, DOCUMENTS)) == expected
    return ""


def check_terms(case: EncoderCase) -> str:
    """Check that a sparse encoder which names its terms has a text for each that a document has, and no text twice."""
    encoder = case.make()
    if not encoder.names_terms:
        return "its dimensions have no names"
    terms = sorted(set(document_vectors(encoder, DOCUMENTS).indices.tolist()))
    tokens = [encoder.token(term) for term in terms]

    assert terms
    assert all(isinstance(token, str) and token for token in tokens)
    assert len(set(tokens)) == len(tokens)
    return ""


def check_what_it_says(case: EncoderCase) -> str:
    """Check that its remarks are single lines, and that what it was trained on are names of datasets."""
    encoder = case.make()
    assert all(isinstance(line, str) and "\n" not in line for line in (*encoder.remarks(), *encoder.trained_on()))
    return ""


CHECKS: Mapping[str, Callable[[EncoderCase], str]] = {
    name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")
}


class EncoderContract:
    """The tests of an encoder: a subclass sets `plugin` to its class, or overrides the fixture `case`."""

    plugin: Callable[..., Any]

    @pytest.fixture
    def case(self) -> EncoderCase:
        """Return what is checked: an encoder with its default settings."""
        return EncoderCase(self.plugin)

    @pytest.mark.parametrize("check", CHECKS)
    def test_encoder(self, case: EncoderCase, check: str) -> None:
        """Each encoder keeps each rule, which is the docstring of the check; what does not apply to it is said."""
        if reason := CHECKS[check](case):
            pytest.skip(reason)
