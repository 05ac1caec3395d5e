"""Runs and judgements that a program gives: mappings, data frames, and rows."""

from collections.abc import Iterable, Mapping
from typing import Any

from lexbench.datasets.memory import rows_in
from lexbench.errors import InvalidFile
from lexbench.trec.qrels import DOC_IDS, QUERY_IDS, Qrels, by_query, judgement_of
from lexbench.trec.runs import Run

_SCORES = ("score", "rank")  # the score decides, or the rank if there is no score
_TRIPLE = 3


def given_run(run: Any) -> Run:
    """Return a run, given as {query id: {document id: score}}, as rows (query, document, score), or as a data frame.

    A data frame has columns such as query_id, doc_id and score, or rank. Scores are compared as double. Raises InvalidFile for
    anything else.
    """
    if isinstance(run, Run):
        return run
    if isinstance(run, Mapping):
        rows = [(query, document, score) for query, scored in run.items() for document, score in _scored(query, scored)]
    elif isinstance(run, list | tuple) and all(isinstance(row, list | tuple) for row in run):
        if wrong := next((row for row in run if len(row) != _TRIPLE), None):
            raise InvalidFile(f"run: a row is {wrong!r}; it must have a query, a document and a score")
        rows = [tuple(row) for row in run]
    else:
        rows = [_triple(row) for row in rows_in(run, "run")]
    queries, documents, scores = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    try:
        return Run.from_entries(
            [str(one) for one in queries], [str(one) for one in documents], [float(one) for one in scores], "double"
        )
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"run: {error}") from None


def _scored(query: Any, scored: Any) -> Iterable[tuple[Any, Any]]:
    if not isinstance(scored, Mapping):
        raise InvalidFile(f"run: the documents of query {query!r} are {type(scored).__name__}; give {{document id: score}}")
    return scored.items()


def _triple(row: Mapping[str, Any]) -> tuple[Any, Any, float]:
    """Return the query, the document and the score of a row with names."""
    names = [next((name for name in known if name in row), None) for known in (QUERY_IDS, DOC_IDS, _SCORES)]
    if None in names:
        raise InvalidFile(f"run: there is: {', '.join(row)}; expected: query_id, doc_id, and score or rank")
    query, document, value = (row[str(name)] for name in names)
    try:
        return query, document, -float(value) if names[2] == "rank" else float(value)
    except (TypeError, ValueError):
        raise InvalidFile(f"run: {names[2]} of query {query!r} is {value!r}, no number") from None


def given_qrels(qrels: Any) -> Qrels:
    """Return judgements, given as {query id: {document id: grade}} in any form of `by_query`, as rows or as a data frame."""
    if isinstance(qrels, Qrels):
        return qrels
    try:
        rows = by_query(qrels) if isinstance(qrels, Mapping) else rows_in(qrels, "qrels")
        return Qrels.from_judgements([judgement_of(row) for row in rows])
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"qrels: {str(error).removeprefix('qrels: ')}") from None
