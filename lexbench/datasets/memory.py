"""Datasets in memory: mappings, data frames, and datasets of ir_datasets. `lexbench.run` uses them.

    documents    {id: text} or {id: {"title": …, "text": …}}; or a data frame of pandas or polars, or rows, with named columns
    queries      the same
    judgements   {query id: {document id: grade}} or {query id: [document id, …]}; or a data frame, or rows, with named columns

Rows without names are (id, text), (id, title, text), and (query id, document id, grade). Each of the three may also be the path
of a file, or a mapping by split, {"test": …}, like those of mteb. The names of columns are those of files (see
`lexbench.datasets.records`), or stated as "columns" (see `lexbench.datasets.stated_columns`). This is no plug-in: no contract
can name it.
"""

import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from lexbench.contracts import Contract
from lexbench.datasets import records
from lexbench.datasets.digests import netstrings, qrels_sha256, queries_sha256
from lexbench.datasets.sources import ir_datasets
from lexbench.datasets.stated_columns import Columns, stated_columns
from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.plugins import Source
from lexbench.storage.reading import utf8
from lexbench.storage.rows import Row, check_names, part_of_split, plain
from lexbench.trec.qrels import by_query, is_by_split, of_split, read_judgements, with_splits
from lexbench.types import Document, Judgement, Query

_MORE = ("name", "split", "columns", "dataset")  # other keys of data in memory
_RELEVANT = "relevant_docs"  # the judgements of sentence-transformers and mteb
_PARTS = {"corpus": "docs", "queries": "queries", "qrels": "qrels"}  # and their names in ir_datasets
_TEXTS = ({"_id": "d1", "text": "…"}, {"_id": "d1", "title": "…", "text": "…"})
_EXAMPLES: Mapping[str, Sequence[Mapping[str, Any]]] = {  # of rows, for messages; without names, their values are in this order
    "run": ({"query_id": "q1", "doc_id": "d1", "score": 1.5},),
    "qrels": ({"query_id": "q1", "doc_id": "d1", "relevance": 1},),
    "corpus": _TEXTS,
    "queries": _TEXTS[:1],
}


def parts_of(data: Any) -> dict[str, Any] | None:
    """Return documents, queries and judgements of a dataset in memory, by the names "corpus", "queries" and "qrels".

    *data* is a mapping with these keys, or "relevant_docs" for "qrels", and optionally "name", "split" and "columns"; three
    values in this order (as beir's GenericDataLoader returns them); or an object of ir_datasets. None for anything else. Raises
    CommandError if a part is missing or unknown.
    """
    if isinstance(data, Mapping):
        if "qrels" not in data and _RELEVANT in data:
            data = {"qrels": data[_RELEVANT], **{name: value for name, value in data.items() if name != _RELEVANT}}
        if lacking := [name for name in _PARTS if name not in data and "dataset" not in data]:
            raise CommandError(
                f"the data has no {' and no '.join(map(repr, lacking))}; give {{'corpus': …, 'queries': …, 'qrels': …}}"
            )
        if unknown := [repr(name) for name in data if name not in (*_PARTS, *_MORE)]:
            raise CommandError(
                f"the data has {', '.join(unknown)}, which nothing reads; there is: {', '.join((*_PARTS, *_MORE))}"
            )
    elif isinstance(data, tuple) and len(data) == len(_PARTS):
        data = dict(zip(_PARTS, data, strict=True))
    if isinstance(data, Mapping):
        return {name: list(value) if isinstance(value, Iterator) else value for name, value in data.items()}  # read twice
    return {"dataset": data} if all(hasattr(data, f"{name}_iter") for name in _PARTS.values()) else None


@dataclass(frozen=True)
class Memory(Source):
    """A dataset in memory. *parts* are those of `parts_of`."""

    contract: Contract
    parts: Mapping[str, Any]

    @cached_property
    def columns(self) -> Mapping[str, Columns]:
        """What the user states about the columns of each part."""
        return stated_columns(self.parts.get("columns", {}))

    def documents(self) -> Iterator[Document]:
        """Yield the documents in their order."""
        return records.documents(self._records("corpus", self.columns["documents"]), self.contract.text.document)

    def queries(self) -> Iterator[Query]:
        """Yield the queries in their order."""
        if path := self._file("queries"):
            yield from records.read_queries(path, self.parts.get("split"), self.columns["queries"])
            return
        for query_id, fields in self._records("queries", self.columns["queries"]):
            yield records.query_of(query_id, fields)

    def judgements(self) -> Iterator[Judgement]:
        """Yield the judgements in their order."""
        stated = self.columns["judgements"]
        renamed = stated.renamed
        if path := self._file("qrels"):
            yield from read_judgements(path, self.parts.get("split"), renamed, stated.names())
            return
        rows = self._rows("qrels", is_by_split, by_query)
        every = (pair for row in rows for pair in _checked(lambda row: with_splits(renamed(row)), row, "qrels"))
        try:
            yield from of_split(every, self.parts.get("split"))
        except ValueError as error:
            raise InvalidFile(f"qrels: {error}") from None

    def _file(self, part: str) -> Path | None:
        """Return the file of a part that is a path. Raises MissingData if it is not there."""
        if not isinstance(given := self.parts.get(part), str | PathLike):
            return None
        path = Path(given).expanduser()
        if not path.exists():
            raise MissingData(f"{part}: no file {given}")
        return path

    def _records(self, part: str, stated: Columns) -> Iterator[records.Record]:
        if path := self._file(part):
            return records.read_records(path, self.parts.get("split"), stated)
        judged = self.parts.get("qrels")
        splits = tuple(judged) if isinstance(judged, Mapping) and is_by_split(judged) else ()
        every = self._rows(
            part, lambda given: records.is_by_split(given, splits), lambda given: records.by_id(given, part=part)
        )
        return (_checked(lambda row: records.record_of(stated.renamed(row)), row, part) for row in every)

    def _rows(
        self, part: str, is_by_split: Callable[[Mapping[str, Any]], bool], by_key: Callable[[Mapping[str, Any]], Iterator[Row]]
    ) -> Iterator[Row]:
        """Yield the rows of a part, which may be by split; *by_key* makes those of a mapping."""
        if "dataset" in self.parts:
            found = ir_datasets.records(self.parts["dataset"], _PARTS[part])
            yield from rows_in((row._asdict() for row in found), part)
            return
        given = plain(self.parts[part])
        try:
            if isinstance(given, Mapping) and is_by_split(given):
                given = part_of_split(part, given, self.parts.get("split"))
            yield from rows_in(by_key(given) if isinstance(given, Mapping) else given, part)
        except (TypeError, ValueError) as error:
            raise InvalidFile(f"{part}: {str(error).removeprefix(f'{part}: ')}") from None

    @cached_property
    def _digest(self) -> str:
        """Digest of all documents; except of ir_datasets, which may have millions, it does not depend on their order."""
        digest = hashlib.sha256()
        every = self.documents()
        for item in every if "dataset" in self.parts else sorted(every, key=lambda item: item.doc_id):
            digest.update(netstrings(utf8(item.doc_id), utf8(item.text), b"%d" % item.body_at))
        return digest.hexdigest()

    @property
    def name(self) -> str:
        """The given name, or one that depends on all content: "memory-1a2b3c4d"."""
        if "name" in self.parts:
            return str(self.parts["name"])
        whole = self._digest + queries_sha256(self.queries()) + qrels_sha256(self.judgements())
        return f"memory-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"

    def identity(self) -> dict[str, Any]:
        """Return the digest of all documents."""
        return {"memory": self._digest}


def _checked(make: Any, row: Row, part: str) -> Any:
    """Return make(row). Raises InvalidFile, with the name of the *part*, for a row that has no id or a wrong value."""
    try:
        return make(row)
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"{part}: {error}") from None


def rows_in(given: Any, part: str) -> Iterator[Row]:
    """Yield the rows of a data frame or of an iterable of mappings, named tuples or data classes, without missing values.

    Those without names have the order of `_EXAMPLES`.
    """
    if hasattr(given, "columns") and hasattr(given, "iterrows"):  # pandas, whose columns may have one name
        indexed = [name for name in given.index.names if name is not None]
        names = [str(name).lower() for name in [*indexed, *given.columns]]
        check_names(part, names, names)
    if hasattr(given, "iter_rows"):  # polars
        given = given.iter_rows(named=True)
    elif hasattr(given, "iterrows"):  # pandas
        given = (given.reset_index() if indexed else given).to_dict("records")
    elif hasattr(given, "to_pylist"):  # Arrow
        given = given.to_pylist()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidFile(f"{part}: give a mapping, a data frame or rows, not {type(given).__name__}")
    for row in given:
        yield {str(name).lower(): _plain(value) for name, value in _mapping(row, part).items()}


def _mapping(row: Any, part: str) -> Mapping[Any, Any]:
    """Return a row as a mapping. Raises InvalidFile if it is none and can be none."""
    known, named = _EXAMPLES[part], _by_name(row)
    if isinstance(named, list | tuple | np.ndarray):
        if names := next((one for one in known if len(one) == len(named)), None):
            return dict(zip(names, named, strict=True))
        raise InvalidFile(f"{part}: a row is {named!r}; it must be {' or '.join(map(_order, known))}")
    if isinstance(named, str) and "_id" in known[0]:
        raise InvalidFile(f"{part}: {named!r} has no id; give {{id: text}}, or dict(enumerate(texts)) for ids from 0")
    if not isinstance(named, Mapping):
        raise InvalidFile(f"{part}: a row is {type(row).__name__}; it must be a mapping like {known[0]}")
    return named


def _order(row: Mapping[str, Any]) -> str:
    return f"({', '.join(name.strip('_') for name in row)})"


def _by_name(row: Any) -> Any:
    """Return a named tuple or an object of a data class as a mapping; anything else unchanged."""
    if hasattr(row, "_asdict"):
        return row._asdict()
    return {one.name: getattr(row, one.name) for one in dataclasses.fields(row)} if dataclasses.is_dataclass(row) else row


def _plain(value: Any) -> Any:
    """Return a cell as a value of Python, "" for a missing one: None, or NaN, with which pandas marks missing texts."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return value.tolist() if hasattr(value, "tolist") else value  # a number or an array of NumPy
