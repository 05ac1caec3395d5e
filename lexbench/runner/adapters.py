"""Objects given to `lexbench.run` that inherit from no class of ours, made into plug-ins.

An encoder is any object with `encode_document` and `encode_query`, e.g. a SentenceTransformer; a retriever one with
`build(corpus, path)` and `open(path)`; a model of beir one with `encode_queries` and `encode_corpus`. Nothing behind this
module sees anything but subclasses of `lexbench.plugins`.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.errors import CommandError
from lexbench.plugins import Encoder, Retriever, Searcher
from lexbench.types import Document, Kind
from lexbench.vectors import kind_of, stacked

_PIECE = 256  # documents handed over at a time, after which progress is reported
_OPTIONS = {"batch_size": 128, "show_progress_bar": False, "convert_to_tensor": False}  # beir gives the same three
_NOT_FORWARDED = ("members", "reranker", "weights")  # a foreign retriever may have other things of these names
_SIMILARITIES = ("cosine", "dot")


class Adapted:
    """A plug-in made from a foreign object, to which it forwards every method and attribute that the object has."""

    wrapped: Any


def adapted(item: Any) -> Any:
    """Return an object as an Encoder or a Retriever: itself if it is one. Raises CommandError if it cannot be either."""
    if isinstance(item, Retriever):
        return item
    if _has(item, "encode_document", "encode_query") or _has(item, "tokenise_documents", "encode_tokens"):
        return _with_kind(_adapted(item, Encoder), getattr(item, "kind", None))
    if _has(item, "encode_queries", "encode_corpus"):
        return _with_kind(BeirEncoder(item))
    if _has(item, "build", "open") or _has(item, "assemble", "open") or _has(item, "read", "file_identity"):
        return _adapted(item, Retriever)
    raise CommandError(
        f"{type(item).__name__} cannot be benchmarked; give a name such as 'bm25', an object with encode_document and "
        "encode_query, one with build(corpus, path) and open(path), or a retrieval model of beir"
    )


def _has(item: Any, *names: str) -> bool:
    return all(hasattr(item, name) for name in names)


def _with_kind(encoder: Encoder, kind: str | None = None) -> Encoder:
    """Return *encoder* with its `kind`, found by encoding a query if it is not given."""
    found = Kind(kind) if kind else kind_of(encoder.encode_query(["what kind of vectors are these?"]))
    object.__setattr__(encoder, "kind", found)
    return encoder


def _adapted(item: Any, base: type[Any]) -> Any:
    """Return an object of a new subclass of *base* that has the name of the object's class, for tables and errors."""
    if isinstance(item, base):
        return item
    names = [name for name in dir(base) if name[0] != "_" and name not in _NOT_FORWARDED and hasattr(item, name)]
    forwarded: dict[str, Any] = {
        name: property(attrgetter(f"wrapped.{name}"))
        for name in names
        if callable(getattr(item, name)) == callable(getattr(base, name))  # another library may mean something else by a name
    }
    if base is Retriever:
        forwarded["open"] = lambda self, path: _adapted(self.wrapped.open(path), Searcher)
    forwarded["__reduce__"] = lambda self: (adapted, (self.wrapped,))  # a class made here cannot be pickled by its name
    made = type(type(item).__name__, (Adapted, base), forwarded)()
    made.wrapped = item
    return made


def digests(plugin: Any, *, index: bool = False) -> Mapping[str, Any]:
    """Return the `identity`, or with *index* the `index_identity`, of any object; of one without these {}."""
    names = ("index_identity", "identity") if index else ("identity",)
    method = next((getattr(plugin, name) for name in names if hasattr(plugin, name)), dict)
    found: Mapping[str, Any] = method()
    return found


class BeirEncoder(Encoder):
    """Encodes with *model*, which gets titles and bodies apart, as from beir.

    *similarity* "cosine", the default of beir's EvaluateRetrieval, makes dense vectors of length 1; "dot" leaves them. A model
    that has an `identity()` is known again in other sessions.
    """

    def __init__(self, model: Any, similarity: str = "cosine") -> None:
        """Raise CommandError for an unknown similarity."""
        if similarity not in _SIMILARITIES:
            raise CommandError(f"similarity={similarity!r} is unknown; it is one of {', '.join(_SIMILARITIES)}")
        self._model = model
        self._similarity = similarity

    def identity(self) -> Mapping[str, Any]:
        """Return the model's own identity, if it has one."""
        return {"model": self._model.identity(), "similarity": self._similarity} if hasattr(self._model, "identity") else {}

    def encode_query(self, texts: Sequence[str]) -> Any:
        """Return one vector a text (n, width): float32, an array or, of sparse ones, a csr_array."""
        return self._scaled(self._model.encode_queries(list(texts), **_OPTIONS))

    def encode_document(self, texts: Sequence[str]) -> Any:
        """Do the same for documents without titles."""
        return self._encoded([Document("", text) for text in texts])

    def tokenise_documents(self, documents: Sequence[Document]) -> Sequence[Document]:
        """Return the documents: such a model tokenises when it encodes."""
        return documents

    def encode_tokens(self, tokens: Sequence[Document], advance: Callable[[int], None]) -> Any:
        """Return one vector a document (n, width), telling *advance* how many more are done."""
        blocks = []
        for start in range(0, len(tokens), _PIECE):
            piece = tokens[start : start + _PIECE]
            blocks.append(self._encoded(piece))
            advance(len(piece))
        return stacked(blocks)

    def _encoded(self, documents: Sequence[Document]) -> Any:
        texts = [{"title": document.title, "text": document.body} for document in documents]
        return self._scaled(self._model.encode_corpus(texts, **_OPTIONS))

    def _scaled(self, vectors: Any) -> Any:
        if scipy.sparse.issparse(vectors):
            matrix: Any = vectors
            return scipy.sparse.csr_array(matrix, dtype=np.float32)
        vectors = np.stack([_array(vector) for vector in vectors])  # a list of vectors, or a matrix
        if self._similarity == "dot":
            return vectors
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths > 0, lengths, 1)


def _array(vector: Any) -> NDArray[np.float32]:
    """Return one vector; of torch's, half precision is none that numpy always has."""
    return np.asarray(vector.detach().float().cpu() if hasattr(vector, "detach") else vector, dtype=np.float32)
