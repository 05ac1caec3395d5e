"""What retrievers outside lexbench share: `command`, `url`, and functions and objects given to `lexbench.run`.

They answer `{query id: {document id: score}}`, or with a list per query: (document id, score) pairs, rows or objects with an
id and a score, or ids alone, best first; or with a list of ids and one of scores. This module checks such answers and turns
them into hits.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from lexbench.datasets.memory import rows_in
from lexbench.errors import LexbenchError, echoed, one_line, shortened
from lexbench.plugins import Retriever, Searcher
from lexbench.storage.artifact_folder import SESSION
from lexbench.storage.node import Node
from lexbench.storage.rows import is_frame, plain
from lexbench.trec.ids import encode as encode_ids
from lexbench.trec.ids import lookup
from lexbench.trec.qrels import DOC_IDS
from lexbench.types import Hits, Query

Ask = Callable[[Mapping[str, str], int], Any]  # texts by query id, and how many documents -> answers
_PROCESS = uuid4().hex


@contextmanager
def process_kept() -> Iterator[None]:
    """Undo what code of others changes for the whole process: the current folder, NumPy's errors, and the standard output.

    What it prints goes to the standard error, because the standard output may be JSON.
    """
    here = None
    with suppress(OSError):  # the current folder may be gone
        here = Path.cwd()
    try:
        with np.errstate(), redirect_stdout(sys.stderr):
            yield
    finally:
        if here is not None:
            with suppress(OSError):
                os.chdir(here)


class ForeignRetriever(Retriever):
    """Base class of retrievers that search elsewhere. A subclass defines `ask`."""

    revision: str = ""  # of a program or server, named by the user: without one, nothing is reused by another process
    takes_corpus: bool = False  # whether each call takes the corpus, like those of beir, so that one call has all queries

    @property
    def called(self) -> str:
        """The name of the system in errors."""
        raise NotImplementedError

    def asker(self) -> Ask:
        """Return a function that answers queries. Raises LexbenchError if the system cannot be reached."""
        raise NotImplementedError

    def identity(self) -> Mapping[str, Any]:
        """Return the user's revision. Without one, return what no other process has: the system may change unnoticed."""
        return {"revision": self.revision} if self.revision else {SESSION: _PROCESS}

    def parts(self, corpus: Any) -> Mapping[str, Node[Any]]:
        """Return the corpus, whose ids searching reads."""
        return {"corpus": corpus}

    def open(self, opened: Mapping[str, Any]) -> "ForeignSearcher":
        """Return a searcher that asks the system."""
        return ForeignSearcher(self.called, self.asker(), opened["corpus"].doc_ids, self.takes_corpus)


@dataclass(frozen=True)
class ForeignSearcher(Searcher):
    """Asks a system outside lexbench and checks its answers."""

    name: str
    ask: Ask
    doc_ids: NDArray[np.bytes_]
    one_call: bool = False
    _steps: dict[str, tuple[int, int]] = field(default_factory=dict)  # by query: from line to line, rises and falls of scores

    def encode(self, queries: Sequence[str]) -> list[Query]:
        """Return the queries, with numbers as their ids."""
        return [Query(str(number), text) for number, text in enumerate(queries)]

    def encode_queries(self, queries: Sequence[Query]) -> list[Query]:
        """Return the queries."""
        return list(queries)

    def search(self, encoded: Sequence[Query], k: int) -> Hits:
        """Return the best *k* documents of each query. Raises LexbenchError, with query and document, for a wrong answer."""
        asked = {query.query_id: query.text for query in encoded}
        answers = answers_by_query(self.name, self.ask(asked, k), asked)
        rows = [self._best(query.query_id, answers.get(query.query_id, {}), k) for query in encoded]
        docs = np.full((len(rows), max((len(found) for found, _ in rows), default=0)), -1, np.int32)
        scores = np.zeros(docs.shape, np.float32)
        for row, (found, values) in enumerate(rows):
            docs[row, : len(found)], scores[row, : len(found)] = found, values
        return Hits(docs, scores)

    def work(self, encoded: Sequence[Query]) -> dict[str, NDArray[np.int64]]:
        """Return how often the scores of each query's answer rise and fall from line to line, as it came."""
        steps = np.array([self._steps.pop(query.query_id, (0, 0)) for query in encoded], np.int64).reshape(-1, 2)
        return {"rises": steps[:, 0], "falls": steps[:, 1]}

    def _best(self, query: str, answer: Any, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the positions and scores of the best *k* documents, of equal scores the lower position first."""
        try:
            pairs = _scored(answer)
            ids, given = [str(doc_id) for doc_id, _ in pairs], [float(score) for _, score in pairs]
        except (TypeError, ValueError, OverflowError) as error:  # float(10**400) overflows
            why = f" ({shortened(one_line(str(error)), _SHOWN)})" if str(error) else ""
            form = "write {document id: score}, (document id, score) pairs, or a list of ids, best first"
            raise self._error(query, f"it answered {echoed(str(answer))}{why}; {form}") from None
        with np.errstate(over="ignore"):  # infinity is refused below
            scores = np.array(given, np.float32)
        docs = lookup(self.doc_ids, encode_ids(ids)).astype(np.int32) if ids else np.zeros(0, np.int32)
        first = dict(zip(reversed(ids), range(len(ids) - 1, -1, -1), strict=True))
        faults = {
            "is not in the corpus": docs < 0,
            "has a score that is no finite number": ~np.isfinite(scores),
            "comes twice": np.array([first[one] for one in ids], np.int64) < np.arange(len(ids)),
        }
        for fault, wrong in faults.items():
            if wrong.any():
                at = int(wrong.argmax())
                is_number = fault.endswith("corpus") and isinstance(pairs[at][0], Integral)
                hint = "; a number must be the id of a document, not its position" if is_number else ""
                raise self._error(query, f"document {echoed(ids[at])} {fault}{hint}")
        self._steps[query] = int((scores[1:] > scores[:-1]).sum()), int((scores[1:] < scores[:-1]).sum())
        order = np.lexsort((docs, -scores))[:k]
        return docs[order], scores[order]

    def _error(self, query: str, what: str) -> LexbenchError:
        return LexbenchError(f"{self.name}: query {echoed(query)}: {what}")


def _scored(answer: Any) -> list[tuple[Any, Any]]:
    """Return the documents of an answer with their scores; of documents without scores, the first one has the highest.

    Raises TypeError or ValueError, with the reason, for anything that could be read in two ways.
    """
    answer = plain(answer)
    if isinstance(answer, Mapping):
        return _checked(list(answer.items()))
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        raise TypeError(f"{type(answer).__name__} is no list")
    if isinstance(answer, set | frozenset):
        raise TypeError("a set has no order")
    items = [_row(item) for item in (rows_in(answer, "the answer") if is_frame(answer) else answer)]
    if all(map(_is_id, items)):
        return _ranked(items)
    if len(items) == _PAIR and all(map(is_column, items)) and len({all(map(_is_id, item)) for item in items}) == _PAIR:
        ids, scores = items if all(map(_is_id, items[0])) else items[::-1]
        return _checked(list(zip(ids, scores, strict=True)))
    return _rows(items) if all(isinstance(item, Mapping) for item in items) else _pairs(items)


def is_column(values: Any) -> bool:
    """Return whether *values* are a list of ids alone, or of numbers alone."""
    if not isinstance(values, list | tuple | np.ndarray):
        return False
    return all(map(_is_id, values)) or all(map(_is_number, values))


def _row(item: Any) -> Any:
    """Return an object with an id, e.g. a hit of Pyserini or a Document of LangChain, as a row with names; else *item*."""
    if isinstance(item, Mapping | list | np.ndarray) or _is_id(item) or _is_number(item):
        return item
    if isinstance(item, tuple):
        return item._asdict() if hasattr(item, "_asdict") and len(item) != _PAIR else item
    if hasattr(item, "keys") and hasattr(item, "__getitem__"):  # of sqlite3 and asyncpg
        return dict(item)
    row = {name: value for name in (*_ROW_IDS, *_ROW_SCORES) if (value := getattr(item, name, None)) is not None}
    beside = getattr(item, "metadata", None)
    if isinstance(beside, Mapping) and row.keys().isdisjoint(_ROW_IDS):
        row |= {name: beside[name] for name in _ROW_IDS if name in beside}
    return row or item


def _pairs(items: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return (document id, score) pairs; also those of (score, document id) and (rank, document id) pairs that are clear."""
    if not all(isinstance(item, list | tuple | np.ndarray) and len(item) == _PAIR for item in items):
        raise TypeError("not all of it are ids, pairs or rows")
    pairs = [(_id_in(one), other) for one, other in items]
    if all(_is_number(one) and not _is_id(one) and isinstance(other, str) for one, other in pairs):
        pairs = [(other, one) for one, other in pairs]
    counted = [one for one, _ in pairs] in (list(range(len(pairs))), list(range(1, len(pairs) + 1)))
    if counted and all(isinstance(other, str) for _, other in pairs):
        return _ranked([other for _, other in pairs])
    if counted and len(pairs) > 1 and all(isinstance(other, Integral) for _, other in pairs):
        raise ValueError("which of the whole numbers are ids?")
    return _checked(pairs)


def _checked(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return *pairs*. Raises TypeError if one is not an id and a number."""
    for doc_id, score in pairs:
        if not _is_id(doc_id):
            raise TypeError(f"{doc_id!r} is no id")
        if not _is_number(score):
            raise TypeError(f"the score {score!r} is no number")
    return pairs


_PAIR = 2
_SHOWN = 120  # characters of a reason in a message
_ROW_IDS = ("_id", "id", *DOC_IDS)
_ROW_SCORES = ("score", "_score", "similarity", "relevance_score")
_POSITION = "corpus_id"  # of sentence-transformers' semantic_search, if it is a number


def _id_in(value: Any) -> Any:
    """Return the id in a row, and any other *value* unchanged."""
    row = _row(value)
    return next((row[name] for name in _ROW_IDS if name in row), value) if isinstance(row, Mapping) else value


def _rows(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, Any]]:
    """Return the documents of *rows* with named columns. Raises ValueError if nobody can tell the id or the score."""
    name = next((name for name in _ROW_IDS if name in rows[0]), None)
    if name == _POSITION and isinstance(rows[0][name], Integral):
        raise ValueError(f"{name} is a position among the texts that were searched; give the document's id, e.g. ids[position]")
    score, *others = [name for name in _ROW_SCORES if name in rows[0]] or [""]
    if others:
        raise ValueError(f"is the score in {score!r} or in {others[0]!r}? Leave one of them out")
    there = ", ".join(map(str, rows[0]))
    if name is None or any(name not in row for row in rows):
        raise ValueError(f"a row has no id; there is: {there}")
    if not score:
        if others := [key for key, value in rows[0].items() if key != name and _is_number(value) and key != "rank"]:
            raise ValueError(f"a row has no score; is it {others[0]!r}? Call it score, higher is better")
        return _ranked([row[name] for row in rows])
    return _checked([(row[name], row.get(score)) for row in rows])


def _ranked(ids: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return *ids*, best first, with scores that fall by 1."""
    return list(zip(ids, range(len(ids), 0, -1), strict=True))


def _is_id(value: Any) -> bool:
    return isinstance(value, str | Integral) and not isinstance(value, bool | np.bool_)


def _is_number(value: Any) -> bool:
    """Return whether *value* is a number, also of NumPy or torch; a text of digits is none."""
    return not isinstance(value, bool | np.bool_ | str) and hasattr(value, "__float__")


def answers_by_query(name: str, answers: Any, asked: Collection[str]) -> dict[str, Any]:
    """Return the documents of each query in *answers* of the system *name*: a mapping, or a list of {"qid": …, "docs": …}.

    Raises LexbenchError for anything else, for a query that is not among those *asked*, and for one that is answered twice.
    """
    if isinstance(answers, list) and all(isinstance(one, Mapping) and {"qid", "docs"} <= one.keys() for one in answers):
        pairs = [(str(one["qid"]), one["docs"]) for one in answers]
    elif isinstance(answers, Mapping):
        pairs = [(str(query), docs) for query, docs in answers.items()]
    else:
        raise LexbenchError(
            f"{name}: it returned {type(answers).__name__}; it must return {{query id: {{document id: score}}}}"
        )
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(query for query, _ in pairs).most_common(1)[0][0]
        raise LexbenchError(f"{name}: it answered query {echoed(twice)} twice; an answer has each query once")
    if unknown := next((query for query in found if query not in asked), None):
        raise LexbenchError(
            f"{name}: it answered query {echoed(unknown)}, which was not asked; "
            "an answer is {query id: {document id: score}}"
        )
    return found
