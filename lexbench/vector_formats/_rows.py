"""Rows of text files made into blocks: what the formats share that write one vector a line."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from lexbench.errors import CommandError, InvalidFile
from lexbench.storage.reading import lines
from lexbench.vector_formats.blocks import ROWS, Block, Vocabulary, made


class Row(NamedTuple):
    """One vector of a text file."""

    line: int
    text_id: str
    vector: dict[str, float] | dict[str, int]


class _Record(msgspec.Struct):
    id: int | str
    vector: dict[str, float]


def json_rows(path: Path) -> Iterator[Row]:
    """Yield the vector of each line of a file of JSON objects with `id` and `vector`; other fields are passed over."""
    decoder = msgspec.json.Decoder(_Record)
    for number, line in lines(path):
        if line.strip():
            try:
                record = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InvalidFile(f"{path}:{number}: {error}") from None
            yield Row(number, str(record.id), record.vector)


def blocks(path: Path, rows: Iterable[Row], vocabulary: Vocabulary, *, whole: bool) -> Iterator[Block]:
    """Yield the *rows* of the file *path* in blocks; a weight of 0 is none.

    InvalidFile names the line of a token that *vocabulary* lacks, of a weight that float32 cannot hold, or, for *whole*, of one
    that is negative or no whole number.
    """
    rows = iter(rows)
    while batch := list(islice(rows, ROWS)):
        terms: list[int] = []
        weights: list[float] = []
        offsets = [0]
        for row in batch:
            try:
                terms += vocabulary.numbers(row.vector)
            except CommandError as error:
                raise InvalidFile(f"{path}:{row.line}: {error}") from None
            weights += row.vector.values()
            offsets.append(len(terms))
        yield made(
            [row.text_id for row in batch],
            _fitted(path, batch, np.array(weights, np.float64), whole=whole),
            np.array(terms, np.int32),
            np.array(offsets, np.int64),
            len(vocabulary),
        )


def _fitted(path: Path, batch: list[Row], weights: np.ndarray, *, whole: bool) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        narrow = weights.astype(np.float32)
    wrong = (narrow != weights) | (narrow < 0) | (narrow != np.floor(narrow)) if whole else ~np.isfinite(narrow)
    if wrong.any():
        place = int(np.argmax(wrong))
        for row in batch:
            if place < len(row.vector):
                token, weight = list(row.vector.items())[place]
                wanted = "a whole number from 0 that float32 holds" if whole else "a float32 number"
                raise InvalidFile(f"{path}:{row.line}: the weight {weight:g} of {token!r} is not {wanted}")
            place -= len(row.vector)
    return narrow
