"""Runs and judgements that a program gives: mappings, data frames, and rows."""

from collections.abc import Mapping
from typing import Any

from lexbench.datasets.memory import rows_in
from lexbench.errors import InvalidFile
from lexbench.trec.qrels import Qrels, by_query, of_split, with_splits
from lexbench.trec.run_tables import rows_by_query, run_columns
from lexbench.trec.runs import Run, run_of


def given_run(run: Any) -> Run:
    """Return a run, given by query, as rows (query, document, score), or as a data frame or rows with names.

    By query is {query id: {document id: score}} or {query id: [document id, ...]}, best first. Columns are those of tables
    (see `lexbench.trec.run_tables`). Scores are compared as double. Raises InvalidFile for anything else.
    """
    if isinstance(run, Run):
        return run
    try:
        rows = rows_by_query(run) if isinstance(run, Mapping) else rows_in(run, "run")
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
        rows = by_query(qrels) if isinstance(qrels, Mapping) else rows_in(qrels, "qrels")
        given = Qrels.from_judgements(of_split((pair for row in rows for pair in with_splits(row)), None))
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"qrels: {str(error).removeprefix('qrels: ')}") from None
    if not len(given):
        raise InvalidFile("qrels: there are no judgements in it")
    return given
