"""Foreign objects given to `lexbench.run`, made into plug-ins; the rest of lexbench sees only subclasses of the base classes.

Any object with `encode_document` and `encode_query` is an encoder, e.g. a SentenceTransformer. One with `build(corpus, path)`
and `open(path)` is a retriever. One with `encode_queries` and `encode_corpus` is a retrieval model of beir.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.errors import CommandError
from lexbench.plugins import Encoder, Retriever, Searcher
from lexbench.types import Document, Kind
from lexbench.vectors import kind_of

_OPTIONS = {"batch_size": 128, "show_progress_bar": False, "convert_to_tensor": False}  # the three that beir passes
_NOT_FORWARDED = ("members", "reranker", "weights")  # a foreign retriever may mean something else by these names
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
    if _has(item, "build", "open") or _has(item, "assemble", "open"):
        return _adapted(item, Retriever)
    raise CommandError(
        f"{type(item).__name__} cannot be benchmarked; give a name such as 'bm25', an object with encode_document and "
        "encode_query, one with build(corpus, path) and open(path), or a retrieval model of beir"
    )


def _has(item: Any, *names: str) -> bool:
    return all(hasattr(item, name) for name in names)


def _with_kind(encoder: Encoder, kind: str | None = None) -> Encoder:
    """Return *encoder* with its `kind`; if *kind* is not given, a query is encoded to find out."""
    if not isinstance(getattr(encoder, "kind", None), Kind):
        found = Kind(kind) if kind else kind_of(encoder.encode_query(["what kind of vectors are these?"]))
        object.__setattr__(encoder, "kind", found)  # also of a frozen dataclass
    return encoder


def _adapted(item: Any, base: type[Any]) -> Any:
    """Return *item* as an object of a new subclass of *base*, which has the name of the item's class for tables and errors."""
    if isinstance(item, base):
        return item
    # Only what the item has is forwarded, so that defaults of the base class fill in the rest.
    names = [name for name in dir(base) if name[0] != "_" and name not in _NOT_FORWARDED and hasattr(item, name)]
    forwarded: dict[str, Any] = {
        name: property(attrgetter(f"wrapped.{name}"))
        for name in names
        if callable(getattr(item, name)) == callable(getattr(base, name))  # else the item means something else by the name
    }
    if base is Retriever:
        forwarded["open"] = lambda self, path: _adapted(self.wrapped.open(path), Searcher)
    forwarded["__reduce__"] = lambda self: (adapted, (self.wrapped,))  # pickle cannot find a class that is made here
    made = type(type(item).__name__, (Adapted, base), forwarded)()
    made.wrapped = item
    return made


def digests(plugin: Any, *, index: bool = False) -> Mapping[str, Any]:
    """Return the `identity` of any object, or with *index* its `index_identity`; {} if it has neither."""
    names = ("index_identity", "identity") if index else ("identity",)
    method = next((getattr(plugin, name) for name in names if hasattr(plugin, name)), dict)
    found: Mapping[str, Any] = method()
    return found


class BeirEncoder(Encoder):
    """A retrieval model of beir. It gets titles and bodies separately, as from beir.

    *similarity* "cosine", the default of beir's EvaluateRetrieval, scales dense vectors to length 1; "dot" does not. A model
    with an `identity()` keeps its stored vectors in other sessions.
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
        """Return the vectors of queries (n, width), float32: an array, or a csr_array of sparse vectors."""
        return self._scaled(self._model.encode_queries(list(texts), **_OPTIONS))

    def tokenise_documents(self, documents: Sequence[Document]) -> Sequence[Document]:
        """Return the documents: the model tokenises when it encodes, and needs their titles."""
        return documents

    def encode_document(self, texts: Sequence[str] | Sequence[Document]) -> Any:
        """Return the vectors of documents (n, width). A text without a Document has no title."""
        documents = [text if isinstance(text, Document) else Document("", text) for text in texts]
        fields = [{"title": document.title, "text": document.body} for document in documents]
        return self._scaled(self._model.encode_corpus(fields, **_OPTIONS))

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
    """Return one vector as float32; a tensor is converted in torch, because NumPy has no bfloat16."""
    return np.asarray(vector.detach().float().cpu() if hasattr(vector, "detach") else vector, dtype=np.float32)
