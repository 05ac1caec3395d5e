"""The contract of encoders. An encoder that looks up vectors by id has to know DOCUMENTS and QUERIES."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from lexbench import plugins
from lexbench.arrays.vectors import kind_of
from lexbench.artifacts.describe import describe, is_lasting
from lexbench.types import Codes, Document, Kind, MultiVectors, Query

_ROUNDING = 1e-4  # relative or absolute difference that batches may cause
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
    """An encoder to check: how to make it, and settings that change its files."""

    make: Callable[..., Any]  # make(**settings) returns a new encoder with these settings changed
    moved: Mapping[str, Any] = {}  # settings that name copies of its files in another place; {} if it has no files
    changed: Mapping[str, Any] = {}  # settings that name files of the same form with other content
    devices: Mapping[str, Any] = {}  # settings that make it use two devices; {} if it uses one


def rows(vectors: Any) -> list[NDArray[np.float32]]:
    """Return one array per text: its vector, its codes, or the vectors of its tokens."""
    if isinstance(vectors, Codes):
        return list(vectors.values)
    if isinstance(vectors, MultiVectors):
        return [vectors.values[start:stop] for start, stop in zip(vectors.offsets[:-1], vectors.offsets[1:], strict=True)]
    return list(vectors.toarray() if isinstance(vectors, sparse.csr_array) else vectors)


def content(vectors: Any) -> list[bytes]:
    """Return the bytes of vectors, to compare them exactly."""
    names = {Kind.SPARSE: ("data", "indices", "indptr"), Kind.MULTI: ("values", "offsets")}.get(kind_of(vectors))
    return [getattr(vectors, name).tobytes() for name in names] if names else [vectors.tobytes()]


def close(vectors: Sequence[NDArray[np.float32]], expected: Sequence[NDArray[np.float32]]) -> bool:
    """Return whether two results of `rows` are equal except for rounding."""
    return len(vectors) == len(expected) and all(
        row.shape == other.shape and np.allclose(row, other, rtol=_ROUNDING, atol=_ROUNDING)
        for row, other in zip(vectors, expected, strict=True)
    )


def document_vectors(encoder: Any, documents: Sequence[Document]) -> Any:
    """Return the vectors of *documents*, requested like lexbench does."""
    if not documents and type(encoder).encode_tokens is plugins.Encoder.encode_tokens:
        return encoder.encode_document([])  # lexbench never requests an empty batch
    return encoder.encode_tokens(encoder.tokenise_documents(documents), lambda _count: None)


def both(encoder: Any) -> list[Any]:
    """Return the vectors of all documents and of all queries."""
    return [document_vectors(encoder, DOCUMENTS), encoder.encode_queries(QUERIES)]


def _other_values(encoder: Any, mark: str) -> list[dict[str, Any]]:
    """Return settings that each change one field with that *mark*: a number to its half, 0 to 1 or 2, and a switch."""
    others: list[dict[str, Any]] = []
    for field in fields(encoder):
        value = getattr(encoder, field.name)
        if field.metadata.get(mark) and type(value) is bool:
            others.append({field.name: not value})
        elif field.metadata.get(mark) and type(value) is int and (value or mark == "runtime"):
            others += [{field.name: number} for number in ((value // 2,) if value else (1, 2))]
    return others


class EncoderContract:
    """The tests of an encoder. A subclass sets `plugin` to the class, or overrides the fixture `case`."""

    plugin: Callable[..., Any]

    @pytest.fixture
    def case(self) -> EncoderCase:
        """Return the encoder to check, by default with its default settings."""
        return EncoderCase(self.plugin)

    @pytest.fixture
    def encoder(self, case: EncoderCase) -> Any:
        """Make the encoder to check."""
        return case.make()

    def test_interface(self, encoder: Any, case: EncoderCase) -> None:
        """It is a frozen dataclass with `kind`, `storage` and the required methods, and equal settings are equal."""
        dataclass_params = getattr(type(encoder), "__dataclass_params__", None)

        assert dataclass_params is not None, "it is no dataclass"
        assert dataclass_params.frozen, "its settings can be changed"
        assert plugins.fault("encoders", type(encoder)) == ""
        assert isinstance(encoder.kind, Kind)
        assert encoder.storage in ("float32", "float16")
        assert encoder == case.make()
        assert hash(encoder) == hash(case.make()), "equal settings make different encoders"

    def test_one_vector_per_text(self, case: EncoderCase) -> None:
        """Each document and query has one vector, also empty and long texts, and different texts differ."""
        documents, queries = both(case.make())

        assert documents.shape[0] == len(DOCUMENTS)
        assert queries.shape == (len(QUERIES), documents.shape[1]), "queries are not as wide as documents"
        for vectors in (documents, queries):
            assert len({row.tobytes() for row in rows(vectors)}) > 1, "texts cannot be told apart"

    def test_form(self, encoder: Any) -> None:
        """Vectors are of its `kind`, float32 and finite; terms ascend; offsets ascend from 0 to the number of tokens."""
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

    def test_no_texts(self, encoder: Any) -> None:
        """No documents, and no queries, give an array of the usual width without rows."""
        width = both(encoder)[0].shape[1]

        assert document_vectors(encoder, []).shape == (0, width)
        assert encoder.encode_queries([]).shape == (0, width)

    def test_order(self, encoder: Any) -> None:
        """A text has the same vector alone, among others, in another order and among many, except for rounding."""
        documents, queries = (rows(vectors) for vectors in both(encoder))

        assert close(rows(document_vectors(encoder, DOCUMENTS[::-1])), documents[::-1])
        assert close(rows(encoder.encode_queries(QUERIES[::-1])), queries[::-1])
        assert close([rows(document_vectors(encoder, [document]))[0] for document in DOCUMENTS], documents)
        assert close([rows(encoder.encode_queries([query]))[0] for query in QUERIES], queries)
        assert close(rows(document_vectors(encoder, DOCUMENTS * 40)), documents * 40)

    def test_deterministic(self, encoder: Any, case: EncoderCase) -> None:
        """If it is `deterministic`, it gives the same bytes for the same texts, also when it is made again."""
        if not encoder.deterministic:
            pytest.skip("it is not `deterministic`")
        expected = [content(vectors) for vectors in both(encoder)]

        assert [content(vectors) for vectors in both(encoder)] == expected
        assert [content(vectors) for vectors in both(case.make())] == expected

    def test_two_steps(self, encoder: Any) -> None:
        """Tokenising and then encoding gives the vectors of encoding texts, and progress adds up to the documents."""
        if type(encoder).encode_tokens is plugins.Encoder.encode_tokens:
            pytest.skip("it does not cut its own batches")
        untitled = [document._replace(body_at=0) for document in DOCUMENTS]
        done: list[int] = []
        vectors = encoder.encode_tokens(encoder.tokenise_documents(untitled), done.append)

        assert sum(done) == len(untitled)
        if type(encoder).encode_document is not plugins.Encoder.encode_document:
            assert content(encoder.encode_document([document.text for document in untitled])) == content(vectors)

    def test_truncated(self, encoder: Any) -> None:
        """Documents that are cut are counted once each, and short ones are not counted."""
        truncated = encoder.truncated(encoder.tokenise_documents(DOCUMENTS))
        alone = {document.doc_id: encoder.truncated(encoder.tokenise_documents([document])) for document in DOCUMENTS}

        assert alone["short"] == alone["empty"] == 0
        assert set(alone.values()) <= {0, 1}
        assert truncated == sum(alone.values())

    def test_runtime_settings(self, encoder: Any, case: EncoderCase) -> None:
        """`runtime` settings, numbers and switches, change no vector except for rounding, and no key."""
        expected, key = [rows(vectors) for vectors in both(encoder)], describe(encoder)
        tried = _other_values(encoder, "runtime")
        for settings in tried:
            other = case.make(**settings)
            assert all(close(rows(vectors), texts) for vectors, texts in zip(both(other), expected, strict=True)), settings
            assert describe(other) == key, settings
        if not tried:
            pytest.skip("it has no numbers or switches as `runtime` settings")

    def test_search_settings(self, encoder: Any, case: EncoderCase) -> None:
        """`at_search` settings, numbers and switches, change no document vector, and only the key of the system."""
        expected, key = content(document_vectors(encoder, DOCUMENTS)), describe(encoder, index=True)
        tried = _other_values(encoder, "search")
        for settings in tried:
            other = case.make(**settings)
            assert content(document_vectors(other, DOCUMENTS)) == expected, settings
            assert describe(other, index=True) == key, settings
            assert describe(other) != describe(encoder), settings
        if not tried:
            pytest.skip("it has no numbers or switches as `at_search` settings")

    def test_key(self, case: EncoderCase) -> None:
        """Its key identifies its vectors in other sessions, and is the same each time."""
        key = describe(case.make())

        assert is_lasting(key)
        assert describe(case.make()) == key
        assert describe(case.make(), index=True) == describe(case.make(), index=True)

    def test_files(self, case: EncoderCase) -> None:
        """The same files in another place give the same key and vectors, and other files give others."""
        if not case.make().identity():
            pytest.skip("it has no files")
        if not case.moved or not case.changed:
            pytest.skip("there is no second set of files")
        encoder, moved, changed = case.make(), case.make(**case.moved), case.make(**case.changed)

        assert describe(moved) == describe(encoder)
        assert [content(vectors) for vectors in both(moved)] == [content(vectors) for vectors in both(encoder)]
        assert describe(changed) != describe(encoder)
        assert [content(vectors) for vectors in both(changed)] != [content(vectors) for vectors in both(encoder)]

    def test_workers(self, case: EncoderCase) -> None:
        """The encoders of several devices can be sent to other processes, and give the same bytes."""
        encoder = case.make(**case.devices)
        workers = encoder.workers()
        if case.devices:
            assert len(workers) > 1
        expected = content(document_vectors(workers[0], DOCUMENTS))
        for worker in workers:
            sent = pickle.loads(pickle.dumps(worker))
            assert sent == worker
            assert content(document_vectors(sent, DOCUMENTS)) == expected

    def test_terms(self, encoder: Any) -> None:
        """If it `names_terms`, each term of a document has a name, and no two have the same."""
        if not encoder.names_terms:
            pytest.skip("its dimensions have no names")
        terms = sorted(set(document_vectors(encoder, DOCUMENTS).indices.tolist()))
        tokens = [encoder.token(term) for term in terms]

        assert terms
        assert all(isinstance(token, str) and token for token in tokens)
        assert len(set(tokens)) == len(tokens)

    def test_notes(self, encoder: Any) -> None:
        """Its notes, and the names of the datasets that it was trained on, are single lines."""
        assert all(isinstance(line, str) and "\n" not in line for line in (*encoder.notes(), *encoder.trained_on()))
