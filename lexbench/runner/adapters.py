"""Objects and functions given to `lexbench.run`, made into plug-ins: the rest of lexbench sees subclasses of the base classes.

`object_encoders` makes encoders, this module search systems, whose answers `lexbench.outside.foreign` checks.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter, isasyncgenfunction, iscoroutinefunction
from pathlib import Path
from typing import Any
from uuid import uuid4

from lexbench.artifacts.corpora import StoredTexts
from lexbench.artifacts.searches import RetrieverIndex
from lexbench.errors import CommandError, LexbenchError
from lexbench.outside.foreign import Ask, ForeignRetriever
from lexbench.plugins import Encoder, Retriever
from lexbench.runner.object_encoders import (
    FORMS,
    encoder_of_corpus_model,
    encoder_of_object,
    fields,
    name_of,
    parameters,
    subclass,
    with_kind,
)
from lexbench.storage.artifact_folder import SESSION
from lexbench.storage.node import Node
from lexbench.types import Corpus

_VECTORS = ("documents", "queries")
_OF_PAIRS = (("predict", "rank"), ("compute_score",))  # methods of rerankers: sentence-transformers, FlagEmbedding
_ENCODING = ("transform", "forward")  # methods of scikit-learn and torch that may be functions from texts to vectors
_ACCEPTED = (
    "a name such as 'bm25', an object with encode, with encode_document and encode_query, with embed_documents and "
    "embed_query, or with search(queries, k), or "
    "vectors as {'documents': {id: vector}, 'queries': {id: vector}}, or "
    "a function of one argument (texts -> vectors) or two (queries, k -> {query id: {document id: score}}); "
    "see docs/howto/own-code.md"
)


def adapted(item: Any) -> Any:
    """Return an object or a function as an Encoder or a Retriever: itself if it is one.

    Raises CommandError if it cannot be either.
    """
    if isinstance(item, Retriever):
        return item
    if isinstance(item, type):
        raise CommandError(f"{item.__name__} is a class; give an object of it, e.g. {item.__name__}()")
    if isinstance(item, Encoder):
        return with_kind(item)
    if (vectors := _vectors(item)) is not None:
        return vectors
    functions = (item, *(getattr(item, name, None) for names in _FORMS for name in names))
    if any(isasyncgenfunction(one) or iscoroutinefunction(one) for one in functions):
        raise CommandError(
            f"{name_of(item)} is asynchronous; give a function that waits, e.g. lambda texts: asyncio.run(encode(texts))"
        )
    make = next((make for names, make in _FORMS.items() if all(hasattr(item, name) for name in names)), None)
    if make is None and any(all(hasattr(item, name) for name in names) for names in _OF_PAIRS):
        raise CommandError(
            f"{name_of(item)} scores pairs of query and document, so it reranks what another system found; save it, and type "
            'rerank(bm25, cross_encoder(model="FOLDER"))'
        )
    if make is None and callable(item):
        make = _FUNCTIONS.get(_arguments(item))
    if make is None:
        method = next((name for name in _ENCODING if hasattr(item, name)), "")
        hint = f"give its method, OBJECT.{method}; or else " if method else "give "
        raise CommandError(f"{name_of(item)} cannot be benchmarked; {hint}{_ACCEPTED}")
    return make(item)


def _vectors(item: Any) -> Encoder | None:
    """Return the encoder of vectors in memory: {"documents": {id: vector}, "queries": …}, or both as a pair; None for others.

    Vectors may also be a pair of ids and an array (n, dimensions); a mapping may name the similarity. Raises CommandError for
    arrays without ids.
    """
    from lexbench.encoders.dense_vectors import DenseVectors

    if isinstance(item, tuple) and len(item) == len(_VECTORS):
        item = dict(zip(_VECTORS, item, strict=True))
    if not isinstance(item, Mapping) or not set(_VECTORS) <= item.keys() <= {*_VECTORS, "similarity"}:
        return None
    for part in _VECTORS:
        if not isinstance(item[part], Mapping | tuple | list):
            what = type(item[part]).__name__
            raise CommandError(f"{part}: whose vectors are these? Give {{id: vector}}, or (ids, array), not {what}")
    return DenseVectors.from_arrays(**item)


def _arguments(function: Callable[..., Any]) -> int:
    """Return how many arguments a function needs; the number of documents counts even if it has a default."""
    positional = (one for one in parameters(function) if one.kind.name.startswith("POSITIONAL"))
    return sum(one.default is Parameter.empty or one.name in ("k", "top_k") for one in positional)


# ---- search systems --------------------------------------------------------------------------------------------------------


class ForeignSearch(ForeignRetriever):
    """A function or object that searches. Its index, if it has one, is in memory, so no other process can use it."""

    def __init__(self, item: Any, search: Callable[..., Any], *, takes_corpus: bool = False) -> None:
        self._item, self._search, self.takes_corpus = item, search, takes_corpus
        self._session = uuid4().hex

    def identity(self) -> Mapping[str, str]:
        """Return what no other session has."""
        return {SESSION: self._session}

    @property
    def called(self) -> str:
        """The name of the object or function."""
        return name_of(self._item)

    def parts(self, corpus: StoredTexts) -> Mapping[str, Node[Any]]:
        """Return the corpus, and the index that the object keeps."""
        return {**super().parts(corpus), "index": RetrieverIndex(corpus, self)}

    def build(self, corpus: Corpus, path: Path) -> None:
        """Let the object index the documents: {document id: {"title": ..., "text": ...}}, as in beir."""
        if self.takes_corpus:
            self._texts = {document.doc_id: fields(document) for document in corpus.documents()}
        elif hasattr(self._item, "index"):
            self._item.index({document.doc_id: fields(document) for document in corpus.documents()})

    def asker(self) -> Ask:
        """Return the function that searches."""
        return partial(self._search, self._texts) if self.takes_corpus else self._search


def _search_system(item: Any) -> Retriever:
    """Return a retriever of a function, or of the method `search`. Raises CommandError if it takes unknown arguments."""
    search = getattr(item, "search", item)
    known, count = parameters(search), _arguments(search)
    made = subclass(ForeignSearch, item)
    if known and known[0].name == "corpus":  # of beir
        return made(item, lambda corpus, queries, k: search(corpus, queries, k, "cos_sim"), takes_corpus=True)  # type: ignore[no-any-return]
    if known and count != 2:  # noqa: PLR2004 - queries and k
        raise CommandError(f"{name_of(item)}: its search takes {count} arguments; it must take two, queries and k")
    return made(item, search)  # type: ignore[no-any-return]


def _pyterrier(transformer: Any) -> Retriever:
    """Return a retriever of a transformer of PyTerrier, which takes and returns data frames."""
    import pandas as pd

    def search(queries: Mapping[str, str], _k: int) -> dict[str, list[tuple[str, float]]]:
        found = transformer.transform(pd.DataFrame({"qid": list(queries), "query": list(queries.values())}))
        if lacking := {"qid", "docno", "score"} - set(found.columns):
            there = ", ".join(map(str, found.columns))
            raise LexbenchError(f"{name_of(transformer)}: its result has no column {min(lacking)}; it has: {there}")
        answers: dict[str, list[tuple[str, float]]] = {}
        for query, doc_id, score in zip(found["qid"], found["docno"], found["score"], strict=True):
            answers.setdefault(str(query), []).append((doc_id, score))
        return answers

    return subclass(ForeignSearch, transformer)(transformer, search)  # type: ignore[no-any-return]


# How objects are recognised: by the first of these groups of methods that they have; functions by their number of arguments.
_FORMS: Mapping[Sequence[str], Callable[[Any], Any]] = {
    ("transform", "transform_iter"): _pyterrier,
    ("index", "search"): _search_system,
    ("encode_queries", "encode_corpus"): encoder_of_corpus_model,
    **dict.fromkeys(FORMS, encoder_of_object),
    ("search",): _search_system,
}
_FUNCTIONS: Mapping[int, Callable[[Any], Any]] = {1: encoder_of_object, 2: _search_system}
