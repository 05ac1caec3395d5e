"""Runs and judgements that a program gives: mappings, data frames, and rows."""

from collections.abc import Iterable, Mapping
from typing import Any

from lexbench.datasets.memory import rows_in
from lexbench.errors import InvalidFile
from lexbench.storage.rows import Row
from lexbench.trec.qrels import Qrels, by_query, judgement_of
from lexbench.trec.run_tables import rows_by_query, run_columns
from lexbench.trec.runs import Run, run_of

_TRIPLE = ("query_id", "doc_id", "score")


def given_run(run: Any) -> Run:
    """Return a run, given by query, as rows (query, document, score), or as a data frame or rows with names.

    By query is {query id: {document id: score}} or {query id: [document id, ...]}, best first. Columns are those of tables
    (see `lexbench.trec.run_tables`). Scores are compared as double. Raises InvalidFile for anything else.
    """
    if isinstance(run, Run):
        return run
    try:
        rows: Iterable[Row]
        if isinstance(run, Mapping):
            rows = rows_by_query(run)
        elif isinstance(run, list | tuple) and all(isinstance(row, list | tuple) for row in run):
            if wrong := next((row for row in run if len(row) != len(_TRIPLE)), None):
                raise InvalidFile(f"run: a row is {wrong!r}; it must have a query, a document and a score")
            rows = (dict(zip(_TRIPLE, row, strict=True)) for row in run)
        else:
            rows = rows_in(run, "run")
        return run_of(run_columns(("run", row) for row in rows))
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"run: {error}") from None


def given_qrels(qrels: Any) -> Qrels:
    """Return judgements, given as {query id: {document id: grade}} in any form of `by_query`, as rows or as a data frame."""
    if isinstance(qrels, Qrels):
        return qrels
    try:
        rows = by_query(qrels) if isinstance(qrels, Mapping) else rows_in(qrels, "qrels")
        given = Qrels.from_judgements([judgement_of(row) for row in rows])
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"qrels: {str(error).removeprefix('qrels: ')}") from None
    if not len(given):
        raise InvalidFile("qrels: there are no judgements in it")
    return given
