"""Objects and functions given to `lexbench.run`, made into plug-ins: the rest of lexbench sees subclasses of the base classes.

`lexbench.vectors.converted` says which vectors an encoder may return, `lexbench.foreign` checks the answers of search systems.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from lexbench.errors import CommandError, LexbenchError
from lexbench.foreign import Ask, ForeignRetriever
from lexbench.plugins import BuildContext, Encoder, Retriever
from lexbench.types import Corpus, Document, Kind
from lexbench.vectors import converted, kind_of

SESSION = "only in this session"  # in the key facts of what no other session can know to be the same
_OPTIONS = {"batch_size": 128, "show_progress_bar": False, "convert_to_tensor": False}  # the three that beir passes
_SIMILARITIES = ("cosine", "dot")
_PROMPTS = {"encode_query": ("query",), "encode_document": ("document", "passage", "corpus")}  # names in sentence-transformers
_TASK = "MSMARCO"  # models of mteb use the prompts of this task
_ACCEPTED = (
    "give a name such as 'bm25', an object with encode, with encode_document and encode_query, or with search(queries, k), or "
    "a function of one argument (texts -> vectors) or two (queries, k -> {query id: {document id: score}}); "
    "see docs/howto/own-code.md"
)

Encode = Callable[[list[Any]], Any]


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
    make = next((make for names, make in _FORMS.items() if all(hasattr(item, name) for name in names)), None)
    if make is None and callable(item):
        make = _FUNCTIONS.get(_arguments(item))
    if make is None:
        raise CommandError(f"{name_of(item)} cannot be benchmarked; {_ACCEPTED}")
    return make(item)


def name_of(item: Any) -> str:
    """Return the name of an object that has one, of a function, or else of the object's class."""
    named = getattr(item, "name", None)
    return named if isinstance(named, str) else str(getattr(item, "__name__", type(item).__name__))


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function; an empty list if Python does not know them, e.g. of some built-in functions."""
    try:
        return list(signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _arguments(function: Callable[..., Any]) -> int:
    """Return how many arguments a function needs; the number of documents counts even if it has a default."""
    positional = (one for one in _parameters(function) if one.kind.name.startswith("POSITIONAL"))
    return sum(one.default is Parameter.empty or one.name in ("k", "top_k") for one in positional)


def digests(plugin: Any, *, index: bool = False) -> Mapping[str, Any]:
    """Return the `identity` of any object, or with *index* its `index_identity`; {} if it has neither."""
    names = ("index_identity", "identity") if index else ("identity",)
    method = next((getattr(plugin, name) for name in names if callable(getattr(plugin, name, None))), dict)
    found: Mapping[str, Any] = method()
    return found


# ---- encoders --------------------------------------------------------------------------------------------------------------


class ForeignEncoder(Encoder):
    """An encoder made of two functions, of Documents and of query texts. *settings* of it are in its key."""

    def __init__(self, item: Any, document: Encode, query: Encode, settings: Mapping[str, str]) -> None:
        self.wrapped, self._document, self._query, self._settings = item, document, query, settings
        self._columns: dict[str, int] = {}  # of terms that the object names
        self._session = uuid4().hex

    @property
    def key_facts(self) -> Mapping[str, str]:
        """The settings. Columns of named terms are known only in this session."""
        return {**self._settings, **({SESSION: self._session} if self._columns else {})}

    @property
    def names_terms(self) -> bool:  # type: ignore[override] # not known of the class
        """Whether the object names its terms."""
        return bool(self._columns)

    def token(self, term: int) -> str:
        """Return the name of a term, or its number."""
        return next((name for name, column in self._columns.items() if column == term), str(term))

    def encode_query(self, texts: Sequence[str]) -> Any:
        """Return the vectors of queries."""
        return converted(self._query(list(texts)), len(texts), self._columns)

    def encode_document(self, texts: Sequence[str] | Sequence[Document]) -> Any:
        """Return the vectors of documents. A text without a Document has no title."""
        documents = [one if isinstance(one, Document) else Document("", one) for one in texts]
        return converted(self._document(documents), len(texts), self._columns)

    def tokenise_documents(self, documents: Sequence[Document]) -> Sequence[Document]:
        """Return the documents: the object tokenises when it encodes, and may need titles."""
        return documents

    def __reduce__(self) -> Any:
        if self._columns:
            raise LexbenchError(f"{name_of(self.wrapped)} names its terms, which works in one process only: leave out on=…")
        return (beir_encoder, (self.wrapped, *self._settings.values())) if self._settings else (adapted, (self.wrapped,))


def _encoder(item: Any, document: Encode, query: Encode, **settings: str) -> Encoder:
    """Return an encoder of two functions of *item*, named like it."""
    return _with_kind(_subclass(ForeignEncoder, item)(item, document, query, settings))


def _subclass(base: type, item: Any) -> Any:
    """Return a subclass of *base* with the name and module of *item*, so that results name the user's code."""
    return type(name_of(item), (base,), {"__module__": getattr(item, "__module__", __name__)})


def _with_kind(encoder: Encoder) -> Encoder:
    """Return *encoder* with its `kind`; if it has none, a query is encoded to find out."""
    if not isinstance(getattr(encoder, "kind", None), Kind):
        found = kind_of(encoder.encode_query(["what kind of vectors are these?"]))
        object.__setattr__(encoder, "kind", found)  # also of a frozen dataclass
    return encoder


def _text_encoder(item: Any) -> Encoder:
    """Return an encoder of a function, or of an object that encodes texts."""
    if not hasattr(item, "encode") and not hasattr(item, "encode_document"):
        return _encoder(item, lambda documents: item([one.text for one in documents]), item)
    document = _method(item, "encode_document")
    return _encoder(item, lambda documents: document([one.text for one in documents]), _method(item, "encode_query"))


def _method(item: Any, name: str) -> Encode:
    """Return the method *name* of *item*, or else its `encode` with the prompt for these texts."""
    if hasattr(item, name):
        method: Encode = getattr(item, name)
        return method
    if hasattr(item, "mteb_model_meta"):
        return _mteb_encode(item.encode, name)
    known = getattr(item, "prompts", None) or {}
    prompt = next((prompt for prompt in _PROMPTS[name] if prompt in known), None)
    return partial(item.encode, prompt_name=prompt) if prompt else item.encode


def _mteb_encode(encode: Callable[..., Any], name: str) -> Encode:
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

    def scaled(returned: Any) -> Any:
        vectors = converted(returned, None, {})
        if similarity == "dot" or not isinstance(vectors, np.ndarray):
            return vectors
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths > 0, lengths, 1)

    def document(documents: list[Document]) -> Any:
        return scaled(model.encode_corpus([_fields(one) for one in documents], **_OPTIONS))

    return _encoder(model, document, lambda texts: scaled(model.encode_queries(texts, **_OPTIONS)), similarity=similarity)


def _fields(document: Document) -> dict[str, str]:
    """Return a document in the form of beir."""
    return {"title": document.title, "text": document.body}


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

    def assemble(self, corpus: Corpus, path: Path, context: BuildContext) -> None:
        """Let the object index the documents: {document id: {"title": ..., "text": ...}}, as in beir."""
        super().assemble(corpus, path, context)
        if self.takes_corpus:
            self._texts = {document.doc_id: _fields(document) for document in corpus.documents()}
        elif hasattr(self._item, "index"):
            self._item.index({document.doc_id: _fields(document) for document in corpus.documents()})

    def asker(self) -> Ask:
        """Return the function that searches."""
        return partial(self._search, self._texts) if self.takes_corpus else self._search


def _search_system(item: Any) -> Retriever:
    """Return a retriever of a function, or of the method `search`. Raises CommandError if it takes unknown arguments."""
    search = getattr(item, "search", item)
    parameters, count = _parameters(search), _arguments(search)
    made = _subclass(ForeignSearch, item)
    if parameters and parameters[0].name == "corpus":  # of beir
        return made(item, lambda corpus, queries, k: search(corpus, queries, k, "cos_sim"), takes_corpus=True)  # type: ignore[no-any-return]
    if parameters and count != 2:  # noqa: PLR2004 - queries and k
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

    return _subclass(ForeignSearch, transformer)(transformer, search)  # type: ignore[no-any-return]


# How objects are recognised: by the first of these groups of methods that they have; functions by their number of arguments.
_FORMS: Mapping[Sequence[str], Callable[[Any], Any]] = {
    ("transform", "transform_iter"): _pyterrier,
    ("index", "search"): _search_system,
    ("encode_queries", "encode_corpus"): beir_encoder,
    ("encode",): _text_encoder,
    ("encode_document", "encode_query"): _text_encoder,
    ("search",): _search_system,
}
_FUNCTIONS: Mapping[int, Callable[[Any], Any]] = {1: _text_encoder, 2: _search_system}
