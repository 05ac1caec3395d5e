"""Runs in rows with names: tables (CSV, TSV, JSON lines, JSON and Parquet), data frames, and JSON or mappings by query.

By query is {query: {document: score}}, or {query: [document, ...]}, best first; or several of these by name.

Columns have the names that they have in judgements, e.g. `qid` and `docno`. The column `score` decides, or `rank` if there is
none. A column such as `run` or `system` separates several runs. `lexbench.trec.runs` makes runs of the columns.
A row may have a list of documents, best first or with a list of scores.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lexbench.errors import InvalidFile, echoed
from lexbench.storage.rows import Row, TableColumns, ending, plain, rows
from lexbench.trec.columns import Beginning, are_numbers, parse_score
from lexbench.trec.ids import id_of
from lexbench.trec.qrels import BEIR_HEADER, DOC_IDS, QUERY_IDS, by_query, exploded, is_by_split

RANK = "rank"
SCORES = ("score", "similarity", "sim")
TAGS = ("tag", "run", "system", "run_id", "run-id", "runid", "run_name", "run_tag")
_NAMES = {*QUERY_IDS, *DOC_IDS, *SCORES, RANK, *TAGS}
_META = "mteb_model_meta"  # a key of MTEB's predictions that has no run
_LEAST = 3  # columns: query, document, and score or rank


class RunColumns(NamedTuple):
    """The columns of a run (entries,)."""

    queries: list[str]
    documents: list[str]
    scores: list[float]  # minus the rank if there is no score
    ranks: list[str]  # beside scores; empty if there are none
    tags: list[str]


def has_names(begin: Beginning) -> bool:
    """Return whether the first line of a file has names of columns."""
    names = {field.decode(errors="replace").lower() for field in begin.fields}
    return len(_NAMES & names) >= _LEAST


def unknown_names(begin: Beginning) -> list[str]:
    """Return the unknown names in the header of a file, [] if its first line has a number or no known name."""
    names = [field.decode(errors="replace") for field in begin.fields]
    known = [name for name in names if name.lower() in _NAMES]
    return [name for name in names if name not in known] if known and not any(are_numbers([name]) for name in names) else []


def read_run_table(path: Path, kind: str = "") -> RunColumns:
    """Return the columns of a table; *kind* is an ending that decides the format, by default that of the name.

    Raises InvalidFile for malformed files, with the number of the row.
    """
    if ending(path) == ".lz4":
        raise InvalidFile(f"{path} is compressed by ranx; in Python: ranx.Run.from_file({path.name!r}).save('run.json')")
    table = TableColumns({_LEAST: ("query_id", "doc_id", "score")}, _NAMES, QUERY_IDS, rows_by_query)
    return run_columns((f"{path}, line {number}", row) for number, row in rows(path, table, kind))


def run_columns(placed: Iterable[tuple[str, Row]]) -> RunColumns:
    """Return the columns of rows, each with its place for errors.

    Raises InvalidFile for a row without a query, document, or score or rank, and if two columns could have the scores.
    """
    found = RunColumns([], [], [], [], [])
    decides = ""  # the column that all rows need: scores of some and ranks of others cannot be compared
    for place, row in ((place, one) for place, whole in placed for one in _exploded(whole)):
        query, document = (_first(row, names) for names in (QUERY_IDS, DOC_IDS))
        scores = [name for name in SCORES if name in row] or [RANK] * (RANK in row)
        if len(scores) > 1:
            raise InvalidFile(f"{place}: is the score in {scores[0]!r} or in {scores[1]!r}? Remove one of the two columns")
        decides = decides or "".join(scores)
        if query is None or document is None or scores != [decides]:
            there = ", ".join(map(str, row))
            raise InvalidFile(f"{place}: there is: {there}; expected: query_id, doc_id, and {decides or 'score or rank'}")
        try:
            found.queries.append(id_of(row[query]))
            found.documents.append(id_of(row[document]))
        except (TypeError, ValueError) as error:
            raise InvalidFile(f"{place}: {error}") from None
        try:
            found.scores.append(-parse_score(row[decides]) if decides == RANK else parse_score(row[decides]))
        except ValueError as error:
            entry = f"document {echoed(found.documents[-1])} of query {echoed(found.queries[-1])}"
            raise InvalidFile(f"{place}: {entry}: {error}") from None
        if decides != RANK and RANK in row:
            found.ranks.append(str(row[RANK]))
        tag = _first(row, TAGS)
        found.tags.append(str(row[tag]) if tag else "")
    return found._replace(ranks=found.ranks if len(found.ranks) == len(found.scores) else [])


def _exploded(row: Row) -> Iterator[Row]:
    """Yield a row for each document of *row*; if they are a list without scores, its order decides."""
    if any(name in row for name in (*SCORES, RANK)):
        return exploded(row)
    listed = any(isinstance(row.get(name), list | tuple) for name in DOC_IDS)
    return ({RANK: rank, **one} if listed else one for rank, one in enumerate(exploded(row), 1))


def rows_by_query(run: Mapping[str, Any]) -> Iterator[Row]:
    """Yield a row for each document of a run by query; one without a score has its place in the list as its rank.

    Several runs by name, {"bm25": {query: {document: score}}, ...}, have their names as tags, e.g. "default/test" in MTEB's
    predictions. Raises TypeError or ValueError for anything else, e.g. a set, which has no order.
    """
    runs = dict(_runs_by_name({name: part for name, part in run.items() if name != _META}))
    for name, lists in runs.items():
        if wrong := next((query for query, given in lists.items() if isinstance(plain(given), set | frozenset)), None):
            raise TypeError(f"the documents of query {wrong!r} are a set, which has no order; give a list, best first")
        places: Counter[str] = Counter()
        for row in by_query(lists):
            places[row[BEIR_HEADER[0]]] += 1
            ranked = row if any(known in row for known in (*SCORES, RANK)) else {RANK: places[row[BEIR_HEADER[0]]], **row}
            yield {TAGS[0]: name, **ranked} if len(runs) > 1 else ranked


def _runs_by_name(part: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name of each run in a mapping, and its lists by query; the name of an only run is empty."""
    if not is_by_split(part) or not all(isinstance(lists, Mapping) for lists in part.values()):
        yield name, part
        return
    for key, lists in part.items():
        yield from _runs_by_name(lists, f"{name}/{key}" if name else str(key))


def _first(row: Row, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in row), None)
