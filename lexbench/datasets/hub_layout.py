"""Datasets as the Hugging Face hub keeps those in BEIR's layout: three tables, each in files of Parquet, JSON lines or TSV.

    corpus     _id, title (may be missing), text
    queries    _id, text
    qrels      query-id, corpus-id, score (1 where there is no such column)

A table is whatever lies in the folder of its name, or is called by it: `corpus/train-00000-of-00001.parquet`, `corpus.jsonl`,
`queries/queries.parquet`, `qrels/test.tsv`. Qrels may also lie in the folder `data`, as `test-00000-of-00001.parquet`, or be
called `default`. Of several splits one is read.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lexbench.errors import InvalidFile, require
from lexbench.storage.reading import lines
from lexbench.trec.qrels import read_judgements
from lexbench.types import Judgement

TABLES: Mapping[str, tuple[str, ...]] = {
    "corpus": ("corpus",),
    "queries": ("queries", "query"),
    "qrels": ("qrels", "default", "data", "relevance"),
}  # the names of their folders and files, the first that is there
_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".tsv", ".tsv.gz")
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
_IDS = {"corpus": ("_id", "id", "corpus-id", "doc_id"), "queries": ("_id", "id", "query-id", "query_id")}
_ROWS = 2048  # of Parquet, in memory at once


class Layout(NamedTuple):
    """Where the tables of one dataset are."""

    corpus: tuple[Path, ...]
    queries: tuple[Path, ...]
    qrels: tuple[Path, ...]


def layout(folder: Path, split: str, judged: Path | None = None) -> Layout | None:
    """Return the tables below *folder*, the qrels of *split*; None where it has not all three.

    *judged* is a folder of judgements alone. InvalidFile where the qrels have splits and *split* is none of them.
    """
    tables = {name: _files(folder, names) for name, names in TABLES.items()}
    if judged is not None:
        tables["qrels"] = [path for path in sorted(judged.rglob("*")) if path.name.endswith(_ENDINGS)]
    if not all(tables.values()):
        return None
    by_split: dict[str, list[Path]] = {}
    for path in tables["qrels"]:
        by_split.setdefault(_split(path), []).append(path)
    chosen = split if split in by_split else next(iter(by_split)) if len(by_split) == 1 else ""
    if not chosen:
        raise InvalidFile(f"{folder}: the qrels have no split {split!r}; there is: {', '.join(sorted(by_split))}")
    queries = [path for path in tables["queries"] if _split(path) == chosen] or tables["queries"]
    return Layout(tuple(tables["corpus"]), tuple(queries), tuple(by_split[chosen]))


def splits(folder: Path) -> list[str]:
    """Return the splits of the qrels below *folder*, sorted."""
    return sorted({_split(path) for path in _files(folder, TABLES["qrels"])})


def _files(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the files of the first of *names* that there is: those in its folder, else those that are called so."""
    for name in names:
        inside = [path for path in sorted((folder / name).glob("*")) if path.name.endswith(_ENDINGS)]
        found = inside or [path for path in sorted(folder.glob(f"{name}*")) if _split(path) == name]
        if found:
            return found
    return []


def _split(path: Path) -> str:
    """Return what a file is called, without its ending and the number of its shard: "train", "test", or "corpus"."""
    return _SHARD.sub("", path.name.partition(".")[0]) if path.name.endswith(_ENDINGS) else ""


def texts(files: Sequence[Path], table: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the id and the fields that are text of each row of the *table* "corpus" or "queries"; InvalidFile for no id."""
    for path in files:
        for row in _rows(path):
            name = next((name for name in _IDS[table] if name in row), None)
            if name is None:
                raise InvalidFile(f"{path}: a row has no column {' or '.join(_IDS[table])}; there is: {', '.join(row)}")
            yield str(row[name]), {key: value for key, value in row.items() if isinstance(value, str)}


def judgements(files: Sequence[Path]) -> Iterator[Judgement]:
    """Yield the judgements of *files*; InvalidFile for a row that is none."""
    for path in files:
        if ".tsv" in path.suffixes:
            yield from read_judgements(path, header=False)
            continue
        for row in _rows(path):
            try:
                yield Judgement(str(row["query-id"]), str(row["corpus-id"]), _grade(row.get("score", 1)))
            except (KeyError, TypeError, ValueError) as error:
                why = f"a row has no column {error}" if isinstance(error, KeyError) else str(error)
                raise InvalidFile(f"{path}: {why}; judgements have query-id, corpus-id and score") from None


def _grade(score: Any) -> int:
    """Return a score as a grade; ValueError where it is no whole number."""
    if int(score) != float(score):
        raise ValueError(f"the score {score!r} is no whole number")
    return int(score)


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.suffix == ".parquet":
        yield from _parquet(path)
        return
    for number, line in lines(path):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InvalidFile(f"{path}, line {number}: {error}") from None
            if not isinstance(row, dict):
                raise InvalidFile(f'{path}, line {number}: it is no table, as {{"_id": "d1", "text": "…"}}')
            yield row


def _parquet(path: Path) -> Iterator[Mapping[str, Any]]:
    require("reading Parquet", ["pyarrow"], "parquet")
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS):
                yield from batch.to_pylist()
    except (ArrowException, OSError) as error:
        raise InvalidFile(f"{path}: it does not read as Parquet ({str(error).partition(chr(10))[0]})") from None
