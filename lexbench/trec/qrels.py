"""Relevance judgements as arrays, and their files.

    TREC qrels      query 0 document grade      MS MARCO has the same columns, separated by tabs
    BEIR qrels      query document grade        tabs, and usually a header line
    tables          CSV, TSV, JSON lines and Parquet with columns by name, in any order, e.g. query-id, corpus-id, score
    JSON            {query: {document: grade}}, {query: [document, ...]}, either of these by split, or a list of rows

One rule reads the grades of all of them (`parse_grade`): a number, as an integer if it is whole; 1 if there is no such column.
The first line is a header if it has the names of at least two known columns. A file whose name ends in `.gz` is written
compressed.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import InvalidFile, LexbenchError, listed, one_line, shortened
from lexbench.storage.atomic import writer
from lexbench.storage.rows import (
    TABLES,
    MissingColumns,
    NoColumn,
    Row,
    TableColumns,
    check_names,
    ending,
    is_frame,
    part_of_split,
    plain,
    row_error,
    rows,
)
from lexbench.trec.columns import (
    ITERATION,
    LARGEST_GRADE,
    NOTHING,
    Beginning,
    Kind,
    are_numbers,
    beginning,
    errors_name,
    parse_grade,
    read_columns,
)  # fmt: skip
from lexbench.trec.ids import bytes_of, check_writable, encode, id_of, text_of
from lexbench.types import Judgement

JUDGE = "judge:"  # begins the second column of a judgement made by a plug-in of the group `judges` (see `runner.judging`)
# The names of columns. Of ids the first that exists counts; two columns that could have the grades are refused.
QUERY_IDS = ("query-id", "query_id", "qid", "q_id", "query", "topic", "topic_id", "topic-id")
DOC_IDS = ("corpus-id", "corpus_id", "doc_id", "doc-id", "docno", "docid", "document_id", "document", "doc", "pid")
GRADES = ("score", "rel", "relevance", "grade", "label", "judgment", "judgement")
COLUMNS = {*QUERY_IDS, *DOC_IDS, *GRADES}
BEIR_HEADER = (QUERY_IDS[0], DOC_IDS[0], GRADES[0])
_SPLIT = "split"  # a column that says to which of several sets a judgement belongs
_LISTED = 4  # splits in a message
_SHOWN = 80  # characters of a value in a message
_OF_A_RUN = 6  # columns
_FEW_RANKS = 3  # a list up to this long may have grades that count up
_GRADED = re.compile(r"(?i)label|grade|relevan|judg|gain|rating")  # e.g. esci_label, with the letters E, S, C and I
_UNUSED = ("0", "q0", "iter", "iteration")  # names of TREC's second column, which no tool uses
_TREC: Sequence[Kind] = ("id", "skip", "id", "grade")
_SHAPES: Mapping[int, Sequence[Kind]] = {2: ("id", "id"), 3: ("id", "id", "grade"), 4: _TREC}  # of lines without a header
_TABLES = {2: BEIR_HEADER[:2], 3: BEIR_HEADER, 4: (BEIR_HEADER[0], "0", *BEIR_HEADER[1:])}  # of CSV without a header


@dataclass(frozen=True, eq=False)
class Qrels:
    """The judgements of one dataset."""

    query_ids: tuple[str, ...]  # sorted; every one has a judgement
    offsets: NDArray[np.int64]  # (queries + 1,)
    doc_ids: NDArray[np.bytes_]  # (judgements,) sorted within a query
    grades: NDArray[np.int32 | np.float64]  # (judgements,) float64 if they are continuous: one of them is no whole number

    def __len__(self) -> int:
        """Return the number of judgements."""
        return len(self.grades)

    @property
    def continuous(self) -> bool:
        """Whether a grade is no whole number."""
        return self.grades.dtype == np.float64

    @classmethod
    def from_judgements(cls, judgements: Iterable[Judgement]) -> "Qrels":
        """Gather judgements in any order; a repeated judgement counts once.

        Raises LexbenchError if a document has two different grades for one query.
        """
        by_query: dict[str, dict[str, int | float]] = {}
        for query_id, doc_id, grade in judgements:
            if not -LARGEST_GRADE <= grade <= LARGEST_GRADE:
                raise LexbenchError(f"document {doc_id!r} of query {query_id!r} has a grade beyond {LARGEST_GRADE}: {grade}")
            known = by_query.setdefault(query_id, {}).setdefault(doc_id, grade)
            if known != grade:
                raise LexbenchError(f"document {doc_id!r} of query {query_id!r} is judged twice, {known} and {grade}")
        ordered = {query_id: sorted(by_query[query_id].items()) for query_id in sorted(by_query)}
        offsets = np.concatenate(([0], np.cumsum([len(judged) for judged in ordered.values()], dtype=np.int64)))
        doc_ids = encode(doc_id for judged in ordered.values() for doc_id, _ in judged)
        grades = [grade for judged in ordered.values() for _, grade in judged]
        whole = all(isinstance(grade, int) for grade in grades)
        return cls(tuple(ordered), offsets, doc_ids, np.array(grades, np.int32 if whole else np.float64))

    def judgements(self) -> Iterable[Judgement]:
        """Yield every judgement, by query and then document id, both ascending."""
        queries = np.repeat(np.arange(len(self.query_ids)), np.diff(self.offsets)).tolist()
        for query, doc_id, grade in zip(queries, self.doc_ids.tolist(), self.grades.tolist(), strict=True):
            yield Judgement(self.query_ids[query], text_of(doc_id), grade)


def read_qrels(path: Path) -> Qrels:
    """Read a file of judgements in any of the formats above. Raises InvalidFile if it is malformed or empty."""
    with errors_name(path):
        qrels = Qrels.from_judgements(read_judgements(path))
    if not len(qrels):
        raise InvalidFile(f"{path}: there are no judgements in it")
    return qrels


def read_judgements(
    path: Path, split: str | None = None, renamed: Callable[[Row], Row] = lambda row: row, stated: Collection[str] = ()
) -> Iterator[Judgement]:
    """Yield the judgements of a file, in its order.

    *split* chooses one of several splits in a JSON file or in a column `split`. *renamed* gives the columns of a row, of which
    some have *stated* names, known names. Raises InvalidFile with the number of a faulty line, and if the split is unclear.
    """
    every = _read_rows(path, split, renamed, stated) if is_table(path) else _read_lines(path, renamed, stated)
    try:
        yield from of_split(every, split)
    except ValueError as error:
        raise InvalidFile(f"{path}: {error}") from None


def of_split(judgements: Iterable[tuple[str, Judgement]], split: str | None) -> Iterator[Judgement]:
    """Yield the *judgements* of one split, by default `test`, each given with its split; all of them if they have only one.

    Raises ValueError if there is no such split, or if some have none.
    """
    by_split: dict[str, list[Judgement]] = {}
    for name, judgement in judgements:
        by_split.setdefault(name, []).append(judgement)
    if len(by_split) < 2:  # noqa: PLR2004
        yield from chain(*by_split.values())
        return
    if "" in by_split:
        others = listed([*filter(None, by_split)], _LISTED)
        raise ValueError(f"some of its rows have no {_SPLIT}, and others have: {others}")
    yield from part_of_split("judgements", by_split, split)


def with_splits(row: Row) -> list[tuple[str, Judgement]]:
    """Return the judgements of the row of a table, each with its split, "" if it has none.

    A row has several if its documents are a list. Raises the errors of `judgement_of`.
    """
    return [(str(row.get(_SPLIT, "")), judgement_of(one)) for one in exploded(row)]


def exploded(row: Row) -> Iterator[Row]:
    """Yield a row for each document of *row*, whose documents may be a list; lists of the same length go with it."""
    documents = next((row[name] for name in DOC_IDS if name in row), None)
    if not isinstance(documents, list | tuple):
        yield row
        return
    lists = {name: value for name, value in row.items() if isinstance(value, list | tuple) and len(value) == len(documents)}
    for at in range(len(documents)):
        yield {**row, **{name: value[at] for name, value in lists.items()}}


def _read_rows(
    path: Path, split: str | None, renamed: Callable[[Row], Row], stated: Collection[str]
) -> Iterator[tuple[str, Judgement]]:
    """Yield the split, "" if there is none, and the judgement of each row of a table; arguments as in `read_judgements`."""
    for number, row in rows(
        path, TableColumns(_TABLES, {*COLUMNS, *stated}, {*QUERY_IDS, *stated}, partial(by_query, split=split))
    ):
        try:
            yield from with_splits(renamed(row))
        except (ValueError, TypeError) as error:
            raise row_error(path, number, error) from None


def has_splits(path: Path) -> bool:
    """Return whether a file of judgements may have several splits: in a column, or as keys of JSON. Reads its beginning."""
    if not is_table(path):
        return _SPLIT.encode() in [field.lower() for field in beginning(path, _SHAPES).fields]
    keys = {True: [{_SPLIT: None}], False: []}
    table = TableColumns(_TABLES, {*COLUMNS, _SPLIT}, QUERY_IDS, lambda judged: iter(keys[is_by_split(judged)]))
    try:
        return any(_SPLIT in row for _, row in islice(rows(path, table), 1))
    except MissingColumns:  # the user may state their names
        return True


def is_table(path: Path) -> bool:
    """Return whether the name of a file is that of a table; all other files, and TSV, are text files of columns."""
    return ending(path) in TABLES and ending(path) != ".tsv"


def judgement_of(row: Row) -> Judgement:
    """Return the row of a table as a judgement; without a column of grades, its grade is 1.

    Raises ValueError or TypeError if another column is missing, or if a column of numbers could be the grades.
    """
    query, document = (next((name for name in known if name in row), None) for known in (QUERY_IDS, DOC_IDS))
    if query is None or document is None:
        raise NoColumn(_lacking(QUERY_IDS if query is None else DOC_IDS, list(row)))
    grade = _grade_column(row)
    if grade is None:
        _check_ungraded({name: [value] for name, value in row.items() if name not in (query, document, _SPLIT)}, list(row))
    return Judgement(id_of(row[query]), id_of(row[document]), parse_grade(row[grade]) if grade else 1)


def _grade_column(names: Collection[str]) -> str | None:
    """Return the one of *names* that has the grades, None if there is none. Raises ValueError if two of them could."""
    found = [name for name in GRADES if name in names]
    if len(found) > 1:
        one, other = found[:2]
        raise ValueError(f"are the grades in {one!r} or in {other!r}? State it, e.g. --columns qrels.grade={other}")
    return found[0] if found else None


def _lacking(known: Sequence[str], names: Sequence[str]) -> str:
    there = ", ".join(map(str, names))
    return f"there is no column {known[0]!r}; there is: {there}; expected: {', '.join(BEIR_HEADER)}"


def _check_ungraded(columns: Mapping[str, Sequence[Any]], names: Sequence[str]) -> None:
    """Raise ValueError if one of the other *columns* of a table without grades could have them, by its numbers or its name."""
    for name, values in columns.items():
        if str(name).lower() not in _UNUSED and len(values) and (are_numbers(values) or _GRADED.search(str(name))):
            raise NoColumn(f"{_lacking(GRADES, names)}; are the grades in {name!r}? Call it score, or remove it")


def by_query(judged: Mapping[str, Any], split: str | None = None) -> Iterator[Row]:
    """Yield a row for each judgement in a mapping.

    {query: {document: grade}}; or {query: documents}: their ids as a list, a set or a single text, or pairs (document, grade),
    or rows; or {split: either of these}. Raises TypeError or ValueError for anything else.
    """
    if is_by_split(judged):
        part = part_of_split("judgements", judged, split)
        if not isinstance(part, Mapping):  # rows
            yield from part
            return
        judged = part
    for query, value in judged.items():
        given = plain(value)
        if isinstance(given, Mapping):
            yield from ({BEIR_HEADER[0]: query, BEIR_HEADER[1]: one, BEIR_HEADER[2]: grade} for one, grade in given.items())
        else:
            yield from ({BEIR_HEADER[0]: query, **row} for row in _listed_documents(query, given))


def is_by_split(judged: Mapping[str, Any]) -> bool:
    """Return whether a mapping has judgements by split: mappings by query, data frames or rows with the ids of queries."""
    return bool(judged) and all(map(_are_judgements, judged.values()))


def _are_judgements(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(isinstance(one, Mapping | list | tuple | set | frozenset) for one in value.values())
    rows = isinstance(value, list | tuple) and bool(value) and all(isinstance(one, Mapping) for one in value)
    return is_frame(value) or (rows and any(name in value[0] for name in QUERY_IDS))


def _listed_documents(query: Any, given: Any) -> Iterator[Row]:
    """Yield a row without its query for each of the relevant documents *given* of a *query*."""

    def wrong(what: str) -> TypeError:
        return TypeError(f"the documents of query {query!r} are {what}; write {{document id: grade}} or a list of ids")

    if isinstance(given, str | int):
        given = [given]  # the id of the only relevant document: a text is no list of letters
    if not isinstance(given, Iterable) or isinstance(given, bytes | Iterator):  # an iterator could be read only once
        raise wrong(type(given).__name__)
    items = [one.item() if isinstance(one, np.generic) else one for one in given]
    if len({type(one) for one in items}) > 1:
        raise wrong("of several types")
    for item in items:
        pair = isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[1], int | float)  # noqa: PLR2004
        if isinstance(item, str | int):
            yield {BEIR_HEADER[1]: item}
        elif isinstance(item, Mapping):
            yield dict(item)
        elif pair:
            yield dict(zip(BEIR_HEADER[1:], item, strict=True))
        else:
            raise wrong(f"like {shortened(one_line(repr(item)), _SHOWN)}")


# ---- text files ------------------------------------------------------------------------------------------------------------


def _read_lines(path: Path, renamed: Callable[[Row], Row], stated: Collection[str]) -> Iterator[tuple[str, Judgement]]:
    """Yield the split and the judgement of each line of a text file of columns, like `_read_rows`."""
    begin = beginning(path, _SHAPES)
    names = [field.decode(errors="replace").lower() for field in begin.fields]
    try:
        places = renamed({name: at for at, name in reversed(list(enumerate(names)))})
    except ValueError as error:
        raise row_error(path, begin.number, error) from None
    header = _is_header(list(places), names)
    if header:
        check_names(f"{path}:{begin.number}", names, {*COLUMNS, *stated})
    kinds = _kinds_by_name(places, names, f"{path}:{begin.number}") if header else _kinds_of_data(path, begin)
    wanted = [at for at, kind in enumerate(kinds) if kind != "skip"]
    columns = dict(zip(wanted, read_columns(path, kinds, begin, header=header), strict=True))
    if header:
        query, document = (next(places[name] for name in known if name in places) for known in (QUERY_IDS, DOC_IDS))
    else:
        query, document = (at for at, kind in enumerate(kinds) if kind == "id")
    graded = "grade" in kinds
    if not graded:
        unread = (query, document, places.get(_SPLIT))
        others = {names[at]: column.tolist() for at, column in columns.items() if at not in unread}
        try:
            _check_ungraded(others, names)
        except ValueError as error:
            raise row_error(path, begin.number, error) from None
    grades = _whole(columns[kinds.index("grade")]) if graded else [1] * len(columns[query])
    if graded and not header and len(kinds) == len(BEIR_HEADER):
        _check_no_run(path, columns[query], grades)
    splits = columns[places[_SPLIT]].tolist() if header and _SPLIT in places else [b""] * len(grades)
    for split, one, other, grade in zip(splits, columns[query].tolist(), columns[document].tolist(), grades, strict=True):
        yield text_of(split), Judgement(text_of(one), text_of(other), grade)


def _whole(grades: NDArray[np.float64]) -> Sequence[int | float]:
    """Return *grades* (n,), those that are whole as integers."""
    if np.array_equal(grades, np.trunc(grades)):
        whole: list[int] = grades.astype(np.int64).tolist()
        return whole
    return [int(grade) if grade.is_integer() else grade for grade in grades.tolist()]


def _is_header(known: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether the first line of a file, with these *names*, is a header; *known* are the names after renaming."""
    return len(COLUMNS & set(known)) > 1 or (bool(names) and names[-1] in GRADES)


def _kinds_by_name(places: Mapping[str, int], names: Sequence[str], where: str) -> list[Kind]:
    """Return what the columns with these *names* are. Raises InvalidFile if that is unclear."""
    kinds: list[Kind] = ["skip"] * len(names)
    for known in (QUERY_IDS, DOC_IDS):
        name = next((name for name in known if name in places), None)
        if name is None:
            raise MissingColumns(f"{where}: {_lacking(known, names)}")
        kinds[places[name]] = "id"
    try:
        grade = _grade_column(places)
    except ValueError as error:
        raise InvalidFile(f"{where}: {error}") from None
    if grade is not None:
        kinds[places[grade]] = "grade"
    if _SPLIT in places:
        kinds[places[_SPLIT]] = "id"
    # Without grades, other columns are read, because one of them may have the grades.
    if "grade" not in kinds:
        kinds = [kind if name in _UNUSED else "id" for name, kind in zip(names, kinds, strict=True)]
    return kinds


def _kinds_of_data(path: Path, begin: Beginning) -> Sequence[Kind]:
    """Return what the columns of a file without a header are, by its first line. Raises InvalidFile if nobody can tell."""
    if len(begin.fields) == _OF_A_RUN and begin.fields[1] in ITERATION:
        what = "query Q0 document rank score tag are the columns of a run, and judgements have four"
        raise InvalidFile(f"{path}:{begin.number}: {what}: query 0 document grade")
    stamped = len(begin.fields) == len(_TREC) and (begin.fields[1] in ITERATION or begin.fields[1].startswith(JUDGE.encode()))
    if len(begin.fields) == len(_TREC) and not stamped and are_numbers([begin.fields[2]]):
        seconds, thirds = read_columns(path, ("skip", "id", "id", "skip"), begin)
        if len(np.unique(seconds)) > len(np.unique(thirds)):
            what = "documents are in the third column, and here the second has more different values"
            raise InvalidFile(f"{path}:{begin.number}: {what}; a line is: query 0 document grade")
    kinds = _SHAPES.get(len(begin.fields), _TREC)
    if len(kinds) != len(BEIR_HEADER) or begin.fields[1] not in ITERATION:
        return kinds
    # query 0 document, without a grade; or query document grade, with a document called 0
    _, seconds, thirds = read_columns(path, ("id", "id", "id"), begin)
    if not np.isin(seconds, ITERATION).all():
        return kinds
    if are_numbers(thirds.tolist()) and b"0" in seconds:
        header = f"{QUERY_IDS[0]} 0 {DOC_IDS[0]}' or '{' '.join(BEIR_HEADER)}"
        raise InvalidFile(f"{path}:{begin.number}: which of the three columns is which? Write a first line '{header}'")
    return ("id", "skip", "id")


def _check_no_run(path: Path, queries: NDArray[np.bytes_], grades: Sequence[float]) -> None:
    """Raise InvalidFile if the grades count 1, 2, 3, ... for each query: they are ranks."""
    starts = np.flatnonzero(np.append(len(queries) > 0, queries[1:] != queries[:-1]))
    lengths = np.diff(np.append(starts, len(queries)))
    ranks = np.arange(1, len(queries) + 1) - np.repeat(starts, lengths)
    if len(queries) and lengths.max() > _FEW_RANKS and np.array_equal(ranks, grades):
        raise InvalidFile(f"{path}: the third column counts 1, 2, 3, … for each query, so this is a run and no judgements")


def write_qrels(qrels: Qrels, path: Path, stamp: str = "0") -> None:
    """Write TREC qrels, sorted by query and document id. All tools ignore the second column, which has a judge's *stamp*.

    Raises LexbenchError if grades are continuous, because trec_eval would cut them off.
    """
    if qrels.continuous:
        raise LexbenchError("TREC's judgements have whole grades; these are continuous, and trec_eval would read 0.5 as 0")
    _write_judgements(qrels, path, f"{{0}} {stamp} {{1}} {{2}}\n")


def write_beir_qrels(qrels: Qrels, path: Path) -> None:
    """Write the qrels file of a BEIR folder, sorted by query and document id."""
    _write_judgements(qrels, path, "{0}\t{1}\t{2}\n", "\t".join(BEIR_HEADER).encode() + b"\n")


def judge_stamps(path: Path) -> Counter[str]:
    """Return the number of judgements in a qrels file by the judge's stamp in their second column, "" for all others."""
    begin = NOTHING if is_table(path) else beginning(path, _SHAPES)
    if len(begin.fields) != len(_TREC):
        return Counter()
    names = [field.decode(errors="replace").lower() for field in begin.fields]
    (seconds,) = read_columns(path, ("skip", "id", "skip", "skip"), begin, header=_is_header(names, names))
    stamps: Counter[str] = Counter()
    for name, count in zip(*np.unique(seconds, return_counts=True), strict=True):
        stamp = text_of(name)
        stamps[stamp if stamp.startswith(JUDGE) else ""] += int(count)
    return stamps


def judge_notes(path: Path) -> Iterator[str]:
    """Yield a line for each judge whose judgements are in a qrels file, and a line if judgements are mixed."""
    stamps = judge_stamps(path)
    total, judges = stamps.total(), [stamp for stamp in stamps if stamp]
    for stamp in judges:
        yield f"{stamps[stamp]:,} of {total:,} judgements were made by a program ({stamp}) and are not official"
    if judges and len(stamps) > 1:
        yield "these judgements are MIXED, from several judges or from a judge and others: compare these scores with no others"


def _write_judgements(qrels: Qrels, path: Path, line: str, header: bytes = b"") -> None:
    check_writable(encode(qrels.query_ids), "query id")
    check_writable(qrels.doc_ids, "document id")
    with writer(path) as file:
        file.write(header)
        file.writelines(bytes_of(line.format(*judgement)) for judgement in qrels.judgements())
