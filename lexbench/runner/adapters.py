"""Objects and functions given to `lexbench.run`, made into plug-ins: the rest of lexbench sees subclasses of the base classes.

`object_encoders` makes encoders, `object_searches` search systems.
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, isasyncgenfunction, iscoroutinefunction
from typing import Any

from lexbench.errors import CommandError, LexbenchError
from lexbench.plugins import Encoder, Retriever
from lexbench.runner.object_encoders import (
    FORMS,
    encoder_of_corpus_model,
    encoder_of_object,
    name_of,
    parameters,
    with_kind,
)
from lexbench.runner.object_searches import needed, pyterrier_system, search_system, takes_depth, takes_queries

_VECTORS = ("documents", "queries")
_OF_PAIRS = (("predict", "rank"), ("compute_score",))  # methods of rerankers: sentence-transformers, FlagEmbedding
_ENCODING = ("transform", "forward", "embed")  # methods, e.g. of scikit-learn and torch, that may turn texts into vectors
_SEARCHING = ("retrieve", "invoke", "get_relevant_documents", "query")  # methods of search systems, each with a form of its own
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
    if waiting := next((one for one in functions if isasyncgenfunction(one) or iscoroutinefunction(one)), None):
        given = ", ".join(one.name for one in parameters(waiting) if one.name != "self") or "texts"
        called = f"asyncio.run({waiting.__name__}({given}))"
        raise CommandError(f"{name_of(item)} is asynchronous; give a function that waits, e.g. lambda {given}: {called}")
    make = next((make for names, make in _FORMS.items() if all(hasattr(item, name) for name in names)), None)
    if make is None and any(all(hasattr(item, name) for name in names) for names in _OF_PAIRS):
        raise CommandError(
            f"{name_of(item)} scores pairs of query and document, so it reranks what another system found; save it, and type "
            'rerank(bm25, cross_encoder(model="FOLDER"))'
        )
    if make is None and callable(item):
        make = search_system if takes_depth(item) else _encoder_of_function if len(needed(item)) == 1 else None
    if make is None:
        raise _refusal(item)
    return make(item)


def _encoder_of_function(item: Any) -> Encoder:
    """Return an encoder of a function. Raises CommandError if it does not return vectors."""
    try:
        return encoder_of_object(item)
    except LexbenchError as error:
        hint = "; a function that searches takes two arguments, queries and k" if takes_queries(item) else ""
        raise CommandError(f"{error}{hint}") from error


def _refusal(item: Any) -> CommandError:
    """Return the error for an object that is neither an encoder nor a search system."""
    hints = {name: f"give its method, OBJECT.{name}; or else " for name in _ENCODING}
    hints |= {name: f"give a function, e.g. lambda query, k: OBJECT.{name}(query); or else " for name in _SEARCHING}
    hint = next((said for name, said in hints.items() if hasattr(item, name)), "give ")
    if callable(item) and any(one.kind is Parameter.VAR_POSITIONAL for one in parameters(item)):  # e.g. a decorator's function
        hint = "its signature does not say what it takes; give lambda queries, k: FUNCTION(queries, k), or else "
    return CommandError(f"{name_of(item)} cannot be benchmarked; {hint}{_ACCEPTED}")


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


# How objects are recognised: by the first of these groups of methods that they have.
_FORMS: Mapping[Sequence[str], Callable[[Any], Any]] = {
    ("transform", "transform_iter"): pyterrier_system,
    ("index", "search"): search_system,
    ("encode_queries", "encode_corpus"): encoder_of_corpus_model,
    **dict.fromkeys(FORMS, encoder_of_object),
    ("search",): search_system,
}
