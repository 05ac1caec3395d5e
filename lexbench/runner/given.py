"""Runs and judgements that a program gives: mappings, data frames, and rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lexbench.datasets.memory import rows_in
from lexbench.errors import InvalidFile
from lexbench.storage.rows import Row, is_frame
from lexbench.trec.qrels import Qrels, by_query, judgement_of
from lexbench.trec.run_tables import rows_by_query, run_columns
from lexbench.trec.runs import Run, run_of

_RUN = ("query_id", "doc_id", "score")
_QRELS = ("query_id", "doc_id", "relevance")


def given_run(run: Any) -> Run:
    """Return a run, given by query, as rows (query, document, score), or as a data frame or rows with names.

    By query is {query id: {document id: score}} or {query id: [document id, ...]}, best first. Columns are those of tables
    (see `lexbench.trec.run_tables`). Scores are compared as double. Raises InvalidFile for anything else.
    """
    if isinstance(run, Run):
        return run
    try:
        rows = rows_by_query(run) if isinstance(run, Mapping) else _rows(run, "run", _RUN)
        return run_of(run_columns(("run", row) for row in rows))
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"run: {error}") from None


def given_qrels(qrels: Any) -> Qrels:
    """Return judgements, given as {query id: {document id: grade}} in any form of `by_query`, as rows or as a data frame.

    Rows are (query, document, grade), or have names.
    """
    if isinstance(qrels, Qrels):
        return qrels
    try:
        rows = by_query(qrels) if isinstance(qrels, Mapping) else _rows(qrels, "qrels", _QRELS)
        given = Qrels.from_judgements([judgement_of(row) for row in rows])
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"qrels: {str(error).removeprefix('qrels: ')}") from None
    if not len(given):
        raise InvalidFile("qrels: there are no judgements in it")
    return given


def _rows(given: Any, part: str, names: Sequence[str]) -> Iterable[Row]:
    """Return the rows of a data frame, rows with names, or rows of lists or tuples, whose values have these *names*."""
    if is_frame(given) or isinstance(given, str) or not isinstance(given, Iterable):
        return rows_in(given, part)
    rows = list(given)
    if not all(isinstance(row, list | tuple) and not hasattr(row, "_fields") for row in rows):
        return rows_in(rows, part)
    if wrong := next((row for row in rows if len(row) != len(names)), None):
        raise InvalidFile(f"{part}: a row is {wrong!r}; it must have a query, a document and a {names[-1]}")
    return (dict(zip(names, row, strict=True)) for row in rows)
