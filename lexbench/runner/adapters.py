"""Objects and functions given to `lexbench.run`, made into plug-ins: the rest of lexbench sees subclasses of the base classes.

`adapted` recognises them by their methods, in this order:

    build(corpus, path) and open(path)     a retriever that writes its index into a folder
    transform(frame)                       a transformer of PyTerrier
    index(corpus) and search(queries, k)   a search system
    encode_queries and encode_corpus       a retrieval model of beir
    encode_document, encode_query, encode  an encoder, e.g. of sentence-transformers or mteb
    search(queries, k)                     a search system; search(corpus, queries, k, ...) is one of beir
    a function of one argument             an encoder: texts -> vectors
    a function of two arguments            a search system: ({query id: text}, k) -> {query id: {document id: score}}

`lexbench.vectors.converted` says which vectors an encoder may return, `lexbench.foreign` checks the answers of
search systems.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from inspect import Parameter, signature
from operator import attrgetter
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from lexbench.errors import CommandError, LexbenchError
from lexbench.foreign import Ask, ForeignRetriever
from lexbench.plugins import BuildContext, Encoder, Retriever, Searcher
from lexbench.types import Corpus, Document, Kind
from lexbench.vectors import converted, kind_of

SESSION = "only in this session"  # in the key facts of what no other session can know to be the same
_OPTIONS = {"batch_size": 128, "show_progress_bar": False, "convert_to_tensor": False}  # the three that beir passes
_NOT_FORWARDED = (
    "encode_queries",
    "members",
    "reranker",
    "weights",
    "workers",
)  # a foreign object may mean something else by these names
_SIMILARITIES = ("cosine", "dot")
_PROMPTS = {"encode_query": ("query",), "encode_document": ("document", "passage", "corpus")}  # names in sentence-transformers
_TASK = "MSMARCO"  # the task whose prompts a model of mteb is asked to use
_ACCEPTED = (
    "give a name such as 'bm25', an object with encode, encode_document and encode_query, search(queries, k), or build(corpus, "
    "path) and open(path), a model of beir or mteb, a transformer of PyTerrier, a function of one argument (texts -> vectors) "
    "or two (queries, k -> {query id: {document id: score}}); see docs/howto/own-code.md"
)

Encode = Callable[[list[Any]], Any]


class Adapted:
    """A plug-in made from a foreign object or function."""

    wrapped: Any

    @property
    def key_facts(self) -> Mapping[str, str]:
        """What decides answers besides the object itself."""
        return {}


def adapted(item: Any) -> Any:
    """Return an object or a function as an Encoder or a Retriever: itself if it is one.

    Raises CommandError if it cannot be either.
    """
    if isinstance(item, Retriever):
        return item
    if isinstance(item, type):
        raise CommandError(f"{item.__name__} is a class; give an object of it, e.g. {item.__name__}()")
    if isinstance(item, Encoder):
        return _with_kind(item)
    make = next((make for names, make in _FORMS if _has(item, *names)), None)
    if make is None and callable(item):
        make = _FUNCTIONS.get(_arguments(item))
    if make is None:
        raise CommandError(f"{name_of(item)} cannot be benchmarked; {_ACCEPTED}")
    return make(item)


def _has(item: Any, *names: str) -> bool:
    return all(hasattr(item, name) for name in names)


def name_of(item: Any) -> str:
    """Return the name of an object that has one, of a function, or else of the object's class."""
    named = getattr(item, "name", None)
    return named if isinstance(named, str) else str(getattr(item, "__name__", type(item).__name__))


def _arguments(function: Callable[..., Any]) -> int:
    """Return how many arguments a function needs; 0 if that is unknown."""
    try:
        needed = signature(function).parameters.values()
    except (TypeError, ValueError):  # of some built-in functions
        return 0
    return sum(one.default is Parameter.empty and one.kind.name.startswith("POSITIONAL") for one in needed)


def _forwarding(item: Any, base: type[Any], made: type[Any] | None = None) -> Any:
    """Return *item* as an object of a new subclass of *base*, which has the name of the item for tables and errors."""
    if isinstance(item, base):
        return item
    # Only what the item has is forwarded, so that defaults of the base class fill in the rest.
    names = [name for name in dir(base) if name[0] != "_" and name not in _NOT_FORWARDED and hasattr(item, name)]
    forwarded: dict[str, Any] = {
        name: property(attrgetter(f"wrapped.{name}"))
        for name in names
        if callable(getattr(item, name)) == callable(getattr(base, name))  # else the item means something else by the name
        and name not in vars(made or Adapted)
    }
    if base is Retriever:
        forwarded["open"] = lambda self, path: _forwarding(self.wrapped.open(path), Searcher)
        forwarded["__reduce__"] = lambda self: (adapted, (self.wrapped,))  # pickle cannot find a class that is made here
    plugin = type(name_of(item), (made,) if made else (Adapted, base), forwarded)()
    plugin.wrapped = item
    return plugin


def digests(plugin: Any, *, index: bool = False) -> Mapping[str, Any]:
    """Return the `identity` of any object, or with *index* its `index_identity`; {} if it has neither."""
    names = ("index_identity", "identity") if index else ("identity",)
    method = next((getattr(plugin, name) for name in names if hasattr(plugin, name)), dict)
    found: Mapping[str, Any] = method()
    return found


# ---- encoders --------------------------------------------------------------------------------------------------------------


class ForeignEncoder(Adapted, Encoder):
    """An encoder made of two functions, whose vectors are converted. *similarity* "cosine" scales them to length 1."""

    document: Encode
    query: Encode
    similarity: str = "dot"
    titles: bool = False  # whether `document` takes Documents instead of texts

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}  # of terms that the object names
        self._session = uuid4().hex

    @property
    def key_facts(self) -> Mapping[str, str]:
        """The similarity. Columns of named terms are known only in this session."""
        facts = {} if self.similarity == "dot" else {"similarity": self.similarity}
        return facts | ({SESSION: self._session} if self._columns else {})

    @property
    def names_terms(self) -> bool:  # type: ignore[override] # not known of the class
        """Whether the object names its terms."""
        return bool(self._columns) or bool(getattr(self.wrapped, "names_terms", False))

    def token(self, term: int) -> str:
        """Return the name of a term."""
        if self._columns:
            return next((name for name, column in self._columns.items() if column == term), str(term))
        return str(self.wrapped.token(term)) if hasattr(self.wrapped, "token") else str(term)

    def encode_query(self, texts: Sequence[str]) -> Any:
        """Return the vectors of queries."""
        return self._converted(self.query(list(texts)), len(texts))

    def encode_document(self, texts: Sequence[Any]) -> Any:
        """Return the vectors of documents."""
        return self._converted(self.document(list(texts)), len(texts))

    def tokenise_documents(self, documents: Sequence[Document]) -> Any:
        """Return the input of `encode_tokens`: texts, or documents if titles are needed, unless the object has its own."""
        if hasattr(self.wrapped, "tokenise_documents"):
            return self.wrapped.tokenise_documents(documents)
        return list(documents) if self.titles else super().tokenise_documents(documents)

    def encode_tokens(self, tokens: Any, advance: Callable[[int], None]) -> Any:
        """Return the vectors of documents."""
        if hasattr(self.wrapped, "encode_tokens"):
            return self._converted(self.wrapped.encode_tokens(tokens, advance), None)
        return super().encode_tokens(tokens, advance)

    def _converted(self, returned: Any, texts: int | None) -> Any:
        vectors = converted(returned, texts, self._columns)
        if self.similarity == "cosine" and isinstance(vectors, np.ndarray):
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors / np.where(lengths > 0, lengths, 1)
        return vectors

    def __reduce__(self) -> Any:
        if self._columns:
            raise LexbenchError(f"{name_of(self.wrapped)} names its terms, which works in one process only: leave out on=…")
        return (_remade, (self.wrapped, self.similarity))


def _encoder(item: Any, document: Encode, query: Encode, similarity: str = "dot", *, titles: bool = False) -> Encoder:
    """Return an encoder of two functions of *item*. One query is encoded to learn the kind of its vectors."""
    encoder = _forwarding(item, Encoder, ForeignEncoder)
    encoder.document, encoder.query, encoder.similarity, encoder.titles = document, query, similarity, titles
    return _with_kind(encoder, getattr(item, "kind", None))


def _remade(item: Any, similarity: str) -> Encoder:
    return beir_encoder(item, similarity) if _has(item, "encode_queries", "encode_corpus") else adapted(item)


def _with_kind(encoder: Encoder, kind: str | None = None) -> Encoder:
    """Return *encoder* with its `kind`; if *kind* is not given, a query is encoded to find out."""
    if not isinstance(getattr(encoder, "kind", None), Kind):
        found = Kind(kind) if kind else kind_of(encoder.encode_query(["what kind of vectors are these?"]))
        object.__setattr__(encoder, "kind", found)  # also of a frozen dataclass
    return encoder


def _method(item: Any, name: str) -> Encode:
    """Return the method *name* of *item*, or else its `encode` with the prompt for these texts."""
    if hasattr(item, name) or not hasattr(item, "encode"):
        method: Encode = getattr(item, name, None)  # type: ignore[assignment] # None: it has `encode_tokens`
        return method
    encode: Callable[..., Any] = item.encode
    if hasattr(item, "mteb_model_meta"):
        return _of_mteb(encode, name)
    known = getattr(item, "prompts", None) or {}
    prompt = next((prompt for prompt in _PROMPTS[name] if prompt in known), None)
    return partial(encode, prompt_name=prompt) if prompt else encode


def _of_mteb(encode: Callable[..., Any], name: str) -> Encode:
    """Return `encode` of a model of mteb 2 as a function of texts, with the prompts of a general retrieval task."""
    prompts, metadata = import_module("mteb.types").PromptType, import_module("mteb").get_task(_TASK).metadata
    prompt = prompts.query if name == "encode_query" else prompts.document
    settled = partial(encode, task_metadata=metadata, hf_split="test", hf_subset="default", prompt_type=prompt)
    data, loader = import_module("datasets").Dataset, import_module("torch.utils.data").DataLoader
    return lambda texts: settled(loader(data.from_dict({"text": texts}), batch_size=_OPTIONS["batch_size"]))


def beir_encoder(model: Any, similarity: str = "cosine") -> Encoder:
    """Return a retrieval model of beir as an encoder. It gets titles and bodies separately, as from beir.

    *similarity* "cosine", the default of beir's EvaluateRetrieval, scales dense vectors to length 1; "dot" does not. A model
    with an `identity()` keeps its stored vectors in other sessions. Raises CommandError for an unknown similarity.
    """
    if similarity not in _SIMILARITIES:
        raise CommandError(f"similarity={similarity!r} is unknown; it is one of {', '.join(_SIMILARITIES)}")

    def document(documents: list[Any]) -> Any:
        """Encode documents; a text without a Document has no title."""
        given = [one if isinstance(one, Document) else Document("", one) for one in documents]
        return model.encode_corpus([_fields(one) for one in given], **_OPTIONS)

    return _encoder(model, document, partial(model.encode_queries, **_OPTIONS), similarity, titles=True)


# ---- search systems --------------------------------------------------------------------------------------------------------


class ForeignSearch(ForeignRetriever):
    """A function or object that searches. Its index, if it has one, is in memory, so no other process can use it."""

    wrapped: Any

    ask: Callable[..., Any]
    _corpus: dict[str, dict[str, str]]

    def __init__(self) -> None:
        self._session = uuid4().hex

    def identity(self) -> Mapping[str, str]:
        """Return what no other session has."""
        return {SESSION: self._session}

    @property
    def called(self) -> str:
        """The name of the object or function."""
        return name_of(self.wrapped)

    def assemble(self, corpus: Corpus, path: Path, context: BuildContext) -> None:
        """Let the object index the documents: {document id: {"title": ..., "text": ...}}, as in beir."""
        super().assemble(corpus, path, context)
        if self.takes_corpus:
            self._corpus = _fields_by_id(corpus)
        elif hasattr(self.wrapped, "index"):
            self.wrapped.index(_fields_by_id(corpus))

    def asker(self) -> Ask:
        """Return the function that searches."""
        return (lambda queries, k: self.ask(self._corpus, queries, k)) if self.takes_corpus else self.ask


def _search_system(item: Any, search: Callable[..., Any] | None = None) -> ForeignSearch:
    """Return a retriever that calls *search*, by default the method or function itself. Raises CommandError if it cannot."""
    system: ForeignSearch = type(name_of(item), (ForeignSearch,), {})()
    system.wrapped = item
    if search:
        system.ask = search
        return system
    system.ask = search = getattr(item, "search", item)
    try:
        system.takes_corpus = next(iter(signature(search).parameters), "") == "corpus"
    except (TypeError, ValueError):  # of some built-in functions
        return system
    if system.takes_corpus:
        system.ask = lambda corpus, queries, k: search(corpus, queries, k, "cos_sim")
    elif (count := _arguments(search)) != 2:  # noqa: PLR2004 - queries and k
        raise CommandError(f"{name_of(item)}: its search takes {count} arguments; it must take two, queries and k")
    return system


def _fields_by_id(corpus: Corpus) -> dict[str, dict[str, str]]:
    return {document.doc_id: _fields(document) for document in corpus.documents()}


def _fields(document: Document) -> dict[str, str]:
    return {"title": document.title, "text": document.body}


def _transformed(transformer: Any, queries: Mapping[str, str], k: int) -> dict[str, list[tuple[str, float]]]:  # noqa: ARG001 - unknown to PyTerrier
    """Return the answers of a transformer of PyTerrier, which takes and returns data frames."""
    import pandas as pd

    found = transformer.transform(pd.DataFrame({"qid": list(queries), "query": list(queries.values())}))
    if lacking := {"qid", "docno", "score"} - set(found.columns):
        there = ", ".join(map(str, found.columns))
        raise LexbenchError(f"{name_of(transformer)}: its result has no column {min(lacking)}; it has: {there}")
    answers: dict[str, list[tuple[str, float]]] = {}
    for query, doc_id, score in zip(found["qid"], found["docno"], found["score"], strict=True):
        answers.setdefault(str(query), []).append((doc_id, score))
    return answers


# ---- how objects are recognised: by the first of these groups of methods that they have ------------------------------------


def _with_methods(item: Any) -> Encoder:
    return _encoder(item, _method(item, "encode_document"), _method(item, "encode_query"))


_FORMS: Sequence[tuple[Sequence[str], Callable[[Any], Any]]] = (
    (("build", "open"), lambda item: _forwarding(item, Retriever)),
    (("assemble", "open"), lambda item: _forwarding(item, Retriever)),
    (("transform", "transform_iter"), lambda item: _search_system(item, partial(_transformed, item))),
    (("index", "search"), _search_system),
    (("encode_queries", "encode_corpus"), beir_encoder),
    (("encode",), _with_methods),
    (("encode_document", "encode_query"), _with_methods),
    (("tokenise_documents", "encode_tokens"), _with_methods),
    (("search",), _search_system),
)
_FUNCTIONS: Mapping[int, Callable[[Any], Any]] = {1: lambda item: _encoder(item, item, item), 2: _search_system}  # by arguments
