"""Runs in tables: CSV, TSV, JSON lines, JSON and Parquet with a row per document, and JSON by query.

JSON by query is {query: {document: score}}, or {query: [document, ...]}, best first.

Columns have the names that they have in judgements, e.g. `qid` and `docno`. The column `score` decides, or `rank` if there is
none. A column such as `run` or `system` separates several runs. `lexbench.trec.runs` makes runs of the columns.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lexbench.errors import InvalidFile
from lexbench.storage.rows import TABLES, Row, TableColumns, ending, rows
from lexbench.trec.columns import Beginning
from lexbench.trec.ids import id_of
from lexbench.trec.qrels import BEIR_HEADER, DOC_IDS, QUERY_IDS, by_query

SCORES = ("score", "similarity", "sim", "rank")  # the score decides, or the rank if there is no score
TAGS = ("tag", "run", "system", "run_id", "run-id", "runid", "run_name", "run_tag")
_NAMES = {*QUERY_IDS, *DOC_IDS, *SCORES, *TAGS}
_LEAST = 3  # columns: query, document, and score or rank


class RunColumns(NamedTuple):
    """The columns of a run (entries,)."""

    queries: list[str]
    documents: list[str]
    scores: list[float]
    tags: list[str]


def is_run_table(path: Path, begin: Beginning) -> bool:
    """Return whether a file is a table: by its ending, or because its first line has names of columns, separated by tabs."""
    names = {field.decode(errors="replace").lower() for field in begin.fields}
    return (ending(path) in TABLES and ending(path) != ".tsv") or len(_NAMES & names) >= _LEAST


def read_run_table(path: Path, kind: str = "") -> RunColumns:
    """Return the columns of a table; *kind* is an ending that decides the format, by default that of the name.

    Raises InvalidFile for malformed files, with the number of the row.
    """
    if ending(path) == ".lz4":
        raise InvalidFile(f"{path} is compressed by ranx; in Python: ranx.Run.from_file({path.name!r}).save('run.json')")
    found = RunColumns([], [], [], [])
    for number, row in rows(path, TableColumns({_LEAST: ("query_id", "doc_id", "score")}, _NAMES, QUERY_IDS, _by_query), kind):
        query, document, value = (_first(row, names) for names in (QUERY_IDS, DOC_IDS, SCORES))
        if query is None or document is None or value is None:
            there = ", ".join(map(str, row))
            raise InvalidFile(f"{path}, line {number}: there is: {there}; expected: query_id, doc_id, and score or rank")
        if row[value] is None:
            raise InvalidFile(f"{path}, line {number}: the {value} is empty")
        try:
            found.queries.append(id_of(row[query]))
            found.documents.append(id_of(row[document]))
            found.scores.append(-float(row[value]) if value == "rank" else float(row[value]))
        except (TypeError, ValueError) as error:
            raise InvalidFile(f"{path}, line {number}: {error}") from None
        tag = _first(row, TAGS)
        found.tags.append(str(row[tag]) if tag else "")
    return found


def _by_query(run: Mapping[str, Any]) -> Iterator[Row]:
    """Yield a row for each document of a run in JSON; one without a score has its place in the list as its rank."""
    places: Counter[str] = Counter()
    for row in by_query(run):
        places[row[BEIR_HEADER[0]]] += 1
        yield {"rank": places[row[BEIR_HEADER[0]]], **row}


def _first(row: Row, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in row), None)
