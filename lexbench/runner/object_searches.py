"""Search systems made of objects and functions of other libraries: how each is called, and what it may answer.

A search function gets `{query id: text}`, a list of texts, or one text per call. Its signature decides, or else the first call.
`lexbench.outside.foreign` reads the answer to each query.
"""

from collections import deque
from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from inspect import Parameter
from pathlib import Path
from typing import Any, Literal, TypeAlias
from uuid import uuid4

import numpy as np

from lexbench.artifacts.corpora import StoredTexts
from lexbench.artifacts.searches import RetrieverIndex
from lexbench.errors import CommandError, LexbenchError, one_line, shortened
from lexbench.outside.foreign import Ask, ForeignRetriever, answers_by_query, is_column
from lexbench.plugins import Retriever
from lexbench.runner.given import given_run
from lexbench.runner.object_encoders import fields, name_of, parameters, subclass
from lexbench.storage.artifact_folder import SESSION
from lexbench.storage.node import Node
from lexbench.storage.rows import is_frame
from lexbench.types import Corpus

Form: TypeAlias = Literal["mapping", "list", "text"]  # in which a function gets queries

_DEPTHS = ("k", "top_k", "topk", "top_n", "topn", "n_results", "num_results", "max_results", "num_hits", "max_hits")
_SIZES = ("n", "size", "limit", "num", "hits")  # of encoders, these may be something else
_TEXT_NAMES = ("query", "q", "question", "text", "query_text", "query_str", "query_string")  # of a parameter that is one text
_ANNOTATIONS: Mapping[Form, tuple[str, ...]] = {  # by parts of an annotation, in lower case
    "mapping": ("dict", "mapping"),
    "list": ("list", "sequence", "iterable", "collection", "tuple", "ndarray"),
    "text": ("str",),
}
_CORPUS = ("corpus", "queries", "k")  # parameters of a function that gets the documents, too
_PAIR = 2
_LISTS = (Mapping, list, tuple, np.ndarray)
_REASON = 200  # characters of a foreign exception
_WAYS = "if it takes one text, call its first parameter query; or annotate that: dict[str, str] (texts by id), list[str] or str"


class ForeignSearch(ForeignRetriever):
    """A function or object that searches. Its index, if it has one, is in memory, so no other process can use it."""

    def __init__(self, item: Any, search: Callable[..., Any], form: Form | None, *, takes_corpus: bool = False) -> None:
        self._item, self._search, self._form, self.takes_corpus = item, search, form, takes_corpus
        self._lines: dict[str, None] = {}
        self._session = uuid4().hex

    def identity(self) -> Mapping[str, str]:
        """Return what no other session has."""
        return {SESSION: self._session}

    def notes(self) -> list[str]:
        """Return how the function was called, if that is not clear from its signature."""
        return list(self._lines)

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
        return self._answers

    def _answers(self, queries: Mapping[str, str], k: int) -> dict[str, Any]:
        """Return the documents of each query."""
        if self._form is None:
            return self._first_answers(queries, k)
        if self._form == "text":
            return {query: self._one_answer(text, k) for query, text in queries.items()}
        given = dict(queries) if self._form == "mapping" else list(queries.values())
        return self._by_query(self._call(given, k), queries, self._form)

    def _first_answers(self, queries: Mapping[str, str], k: int) -> dict[str, Any]:
        """Return the documents of each query, and find out whether the function takes a mapping or a list.

        If it reads no text of a mapping, it may have taken the ids for texts. Then it is asked again with a list.
        """
        given, failed, answer = AskedQueries(queries), None, None
        try:
            answer = self._call(given, k)
        except (Exception, SystemExit) as error:
            if given.was_read:
                raise
            failed = error
        if given.was_read or not queries:
            self._form = "mapping"
            return self._by_query(answer, queries, "mapping")
        try:
            found = self._by_query(self._call(list(queries.values()), k), queries, "list")
        except (Exception, SystemExit) as error:
            if failed is None and (isinstance(answer, Mapping) or is_frame(answer)):
                self._settle("mapping", "texts by id, and read no text")
                return self._by_query(answer, queries, "mapping")
            if isinstance(error, LexbenchError):
                raise LexbenchError(f"{error}; {_WAYS}") from (failed or error)
            said = shortened(f"{type(error).__name__}: {one_line(str(error))}", _REASON)
            if failed is None:
                raise LexbenchError(
                    f"{self.called}: it read no text of {{query id: text}}, and of a list: {said}; {_WAYS}"
                ) from error
            failed.add_note(f"(given a list of texts: {said}; {_WAYS})")  # the traceback of both is saved
            raise failed from error
        self._settle("list", "a list of texts")
        return found

    def _one_answer(self, text: str, k: int) -> Any:
        """Return the answer to one text."""
        try:
            return self._call(text, k)
        except (AttributeError, TypeError) as error:
            error.add_note(f"(it was given one text; {_WAYS})")
            raise

    def _settle(self, form: Form, given: str) -> None:
        """Keep the *form*, and a note on what the function was *given*."""
        self._form = form
        self._lines[f"it was given {given}"] = None

    def _call(self, given: Any, k: int) -> Any:
        answer = self._search(self._texts, given, k) if self.takes_corpus else self._search(given, k)
        return list(answer) if hasattr(answer, "__next__") or isinstance(answer, ItemsView | ValuesView | deque) else answer

    def _by_query(self, answer: Any, queries: Mapping[str, str], form: Form) -> dict[str, Any]:
        """Return the documents of each query in an *answer*: by id (of a list, by text), in a data frame, or in order.

        Raises LexbenchError for anything else.
        """
        if is_frame(answer):
            try:
                run = given_run(answer)
            except LexbenchError as error:
                raise LexbenchError(f"{self.called}: its table: {str(error).removeprefix('run: ')}") from None
            answer = {query: list(zip(run.doc_ids(at), run.scores[at].tolist(), strict=True)) for query, at in run.spans()}
        if isinstance(answer, Mapping) and form == "list":
            found = answers_by_query(self.called, answer, set(queries.values()))
            return {query: found.get(text, {}) for query, text in queries.items()}
        if isinstance(answer, tuple):
            answer = [*answer]  # of bm25s, the length is that of its parts
            if len(answer) == _PAIR and all(map(_is_matrix, answer)):  # ids and scores
                answer = list(zip(*answer, strict=True))
        if not isinstance(answer, list | np.ndarray):
            return answers_by_query(self.called, answer, queries)
        if named := _with_ids(answer, queries):
            return answers_by_query(self.called, named, queries)
        if len(answer) != len(queries):
            raise LexbenchError(
                f"{self.called}: it returned {len(answer)} entries for {len(queries)} queries; it must return "
                "{query id: {document id: score}}, or one list of documents per query, in the order of the queries"
            )
        if all(isinstance(one, list | tuple) and len(one) == _PAIR and all(type(x) is int for x in one) for one in answer):
            raise LexbenchError(
                f"{self.called}: which of its pairs of whole numbers are ids? Return {{query id: {{id: score}}}}"
            )
        return dict(zip(queries, answer, strict=True))


class AskedQueries(dict[str, str]):
    """Queries that know whether a text was read. Copies made by dict() also call these methods, because `__iter__` is here."""

    was_read = False

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def __getitem__(self, name: str) -> str:
        self.was_read = True
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the text of a query."""
        self.was_read = True
        return super().get(name, default)

    def values(self) -> Any:
        """Return the texts."""
        self.was_read = True
        return super().values()

    def items(self) -> Any:
        """Return ids and texts."""
        self.was_read = True
        return super().items()


def _is_matrix(value: Any) -> bool:
    """Return whether *value* has a row per query, each of ids alone or of numbers alone."""
    return isinstance(value, list | tuple | np.ndarray) and all(map(is_column, value))


def _with_ids(answer: Any, queries: Mapping[str, str]) -> list[Any]:
    """Return entries {"qid": …, "docs": …} of an *answer* that has such entries, or pairs of these two; [] for another."""
    if all(isinstance(one, Mapping) and {"qid", "docs"} <= one.keys() for one in answer):
        return list(answer)
    pairs = [one for one in answer if isinstance(one, tuple) and len(one) == _PAIR and isinstance(one[0], str)]
    clear = len(pairs) == len(answer) and all(query in queries and isinstance(docs, _LISTS) for query, docs in pairs)
    return [{"qid": query, "docs": docs} for query, docs in pairs] if clear else []


# ---- signatures ------------------------------------------------------------------------------------------------------------


def needed(function: Callable[..., Any]) -> list[Parameter]:
    """Return the positional parameters without a default."""
    return [one for one in parameters(function) if one.kind.name.startswith("POSITIONAL") and one.default is Parameter.empty]


def takes_queries(function: Callable[..., Any]) -> bool:
    """Return whether the first parameter of a function is called like a query."""
    return any(one.name == "q" or one.name.startswith(("quer", "question")) for one in parameters(function)[:1])


def takes_depth(function: Callable[..., Any]) -> bool:
    """Return whether a function searches: it also takes how many documents there must be."""
    return _depth(function) is not None


def _depth(function: Callable[..., Any]) -> Parameter | None:
    """Return the parameter that is how many documents there must be: by its name, or the second of two that are needed."""
    names = (*_DEPTHS, *(_SIZES if takes_queries(function) else ()))
    fixed = (one for one in parameters(function)[1:] if not one.kind.name.startswith("VAR"))
    named = next((one for one in fixed if one.name in names), None)
    return named or (needed(function)[1] if len(needed(function)) == _PAIR else None)


def _form_of(parameter: Parameter) -> Form | None:
    """Return in which form a function takes queries by the name and the annotation of its first *parameter*; None: unknown."""
    if parameter.annotation is not Parameter.empty:
        annotation = getattr(parameter.annotation, "__name__", "") if isinstance(parameter.annotation, type) else ""
        said = (annotation or str(parameter.annotation)).lower()
        return next((form for form, parts in _ANNOTATIONS.items() if any(part in said for part in parts)), None)
    return "text" if parameter.name in _TEXT_NAMES else None


def search_system(item: Any) -> Retriever:
    """Return a retriever of a function, or of the method `search`. Raises CommandError if it takes unknown arguments."""
    search = getattr(item, "search", item)
    known, depth = parameters(search), _depth(search)
    made = subclass(ForeignSearch, item)
    if known and known[0].name == "corpus":  # of beir, which also has a score function
        more = () if len(known) == len(_CORPUS) else ("cos_sim",)
        return made(  # type: ignore[no-any-return]
            item, lambda corpus, queries, k: search(corpus, queries, k, *more), "mapping", takes_corpus=True
        )
    if not known:
        return made(item, search, None)  # type: ignore[no-any-return]
    if known[0].name in _DEPTHS:
        raise CommandError(f"{name_of(item)}: its first argument is {known[0].name}; it must take queries first, and then k")
    wanted = {one.name for one in (*needed(search), *([depth] if depth else []))}
    if depth is None or len(wanted) != _PAIR:
        raise CommandError(f"{name_of(item)}: its search takes {len(wanted)} arguments; it must take two, queries and k")
    by_place = depth.kind is Parameter.POSITIONAL_ONLY
    asked = search if by_place else lambda queries, k: search(queries, **{depth.name: k})
    return made(item, asked, _form_of(known[0]))  # type: ignore[no-any-return]


def pyterrier_system(transformer: Any) -> Retriever:
    """Return a retriever of a transformer of PyTerrier, which takes and returns data frames."""
    import pandas as pd

    def search(queries: Mapping[str, str], _k: int) -> Any:
        found = transformer.transform(pd.DataFrame({"qid": list(queries), "query": list(queries.values())}))
        if lacking := {"qid", "docno", "score"} - set(found.columns):
            there = ", ".join(map(str, found.columns))
            raise LexbenchError(f"{name_of(transformer)}: its result has no column {min(lacking)}; it has: {there}")
        return found[["qid", "docno", "score"]]

    return subclass(ForeignSearch, transformer)(transformer, search, "mapping")  # type: ignore[no-any-return]
