"""Blocks of sparse vectors with the ids of their texts, and the vocabulary that numbers their terms, for all formats.

Formats with one vector per line read their lines as `VectorRow`s, and `blocks_of_rows` turns these into blocks.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.arrays.vectors import canonical
from lexbench.errors import CommandError, InvalidFile
from lexbench.storage.reading import lines

ROWS = 4096  # per block
_LIMIT = 2**31  # weights must be below this in formats of integers


class VectorBlock(NamedTuple):
    """Some vectors in the order of the file.

    Readers yield weights other than 0, with ascending terms in each row. If the vocabulary grows while a file is read, later
    blocks are wider than earlier ones.
    """

    ids: list[str]  # (n,)
    vectors: "scipy.sparse.csr_array"  # (n, vocabulary), float32


class Vocabulary:
    """Tokens and their term ids: positions in *tokens*; without *tokens* it grows, and ids follow the order of appearance."""

    def __init__(self, tokens: Iterable[str] | None = None) -> None:
        self._numbers: dict[str, int] = {}
        if tokens is None:
            self._numbers = growing = defaultdict[str, int]()
            growing.default_factory = growing.__len__  # a new token gets the next number
        for number, token in enumerate(tokens or ()):
            if self._numbers.setdefault(token, number) != number:
                raise CommandError(
                    f"token {token!r} is twice in the vocabulary, as number {self._numbers[token]} and number {number}"
                )

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read a file with one token per line, like `vocab.txt` of BERT; the first line is term 0."""
        try:
            return cls(line.removesuffix(b"\r").decode() for _, line in lines(path))
        except (CommandError, UnicodeDecodeError) as error:
            raise InvalidFile(str(error) if isinstance(error, InvalidFile) else f"{path}: {error}") from None

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def tokens(self) -> list[str]:
        """The tokens by term id, as a new list."""
        return list(self._numbers)

    def numbers(self, tokens: Iterable[str]) -> list[int]:
        """Return the term ids of *tokens*. Raises CommandError for an unknown token if the vocabulary cannot grow."""
        try:
            return list(map(self._numbers.__getitem__, tokens))
        except KeyError as error:
            raise CommandError(f"token {error.args[0]!r} is not one of the {len(self):,} of the vocabulary") from None


class VectorRow(NamedTuple):
    """One vector of a text file."""

    line: int
    text_id: str
    vector: dict[str, float] | dict[str, int]


class _Record(msgspec.Struct):
    id: int | str
    vector: dict[str, float]


def json_rows(path: Path) -> Iterator[VectorRow]:
    """Yield the vectors of a file of JSON lines with `id` and `vector`; other fields are ignored."""
    decoder = msgspec.json.Decoder(_Record)
    for number, line in lines(path):
        if line.strip():
            try:
                record = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InvalidFile(f"{path}:{number}: {error}") from None
            yield VectorRow(number, str(record.id), record.vector)


def blocks_of_rows(path: Path, rows: Iterable[VectorRow], vocabulary: Vocabulary, *, whole: bool) -> Iterator[VectorBlock]:
    """Yield the *rows* of the file *path* in blocks, without weights of 0.

    Raises InvalidFile with the line of a token that *vocabulary* lacks, or of a weight that float32 cannot hold or, with
    *whole*, that is negative or no integer.
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
        fitted = _fitted(path, batch, np.array(weights, np.float64), whole=whole)
        arrays = fitted, np.array(terms, np.int32), np.array(offsets, np.int64)
        matrix = scipy.sparse.csr_array(arrays, shape=(len(batch), len(vocabulary)))
        yield VectorBlock([row.text_id for row in batch], canonical(matrix))


def _fitted(path: Path, batch: list[VectorRow], weights: NDArray[np.float64], *, whole: bool) -> NDArray[np.float32]:
    """Return the *weights* (nonzeros,) of the rows *batch* as float32. Raises InvalidFile, see `blocks_of_rows`."""
    with np.errstate(over="ignore", under="ignore"):
        narrow = weights.astype(np.float32)
    wrong = (narrow != weights) | (narrow < 0) | (narrow != np.floor(narrow)) if whole else ~np.isfinite(narrow)
    if wrong.any():
        entry = int(np.argmax(wrong))
        for row in batch:
            if entry < len(row.vector):
                token, weight = list(row.vector.items())[entry]
                fitting = "a whole number from 0 that float32 holds" if whole else "a float32 number"
                raise InvalidFile(f"{path}:{row.line}: the weight {weight:g} of {token!r} is not {fitting}")
            entry -= len(row.vector)
    return narrow


def _checked(blocks: Iterable[VectorBlock], vocabulary: Vocabulary, whole: str = "") -> Iterator[VectorBlock]:
    """Yield *blocks* in canonical form, after checking that they have an id per vector and fit *vocabulary* and the format.

    *whole* is the name of a format that holds only integer weights from 1 to 2^31 - 1. Raises CommandError if a check fails.
    """
    for ids, vectors in blocks:
        block = VectorBlock(ids, canonical(vectors))
        if len(ids) != vectors.shape[0]:
            raise CommandError(f"{len(ids)} ids for {vectors.shape[0]} vectors")
        if vectors.shape[1] > len(vocabulary):
            raise CommandError(f"the vectors have {vectors.shape[1]:,} terms, and the vocabulary {len(vocabulary):,}")
        weights = block.vectors.data
        fits = (weights >= 1) & (weights < _LIMIT) & (weights == np.floor(weights)) if whole else np.isfinite(weights)
        if not fits.all():
            first = int(np.argmin(fits))
            row = int(np.searchsorted(block.vectors.indptr, first, side="right")) - 1
            hint = f"{whole} holds whole weights from 1; quantise the vectors, e.g. encoder|quantize(100)"
            raise CommandError(f"{ids[row]!r} has the weight {weights[first]:g}; {hint if whole else 'it is no number'}")
        yield block


def token_vectors(
    blocks: Iterable[VectorBlock], vocabulary: Vocabulary, whole: str = ""
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the id and the weights by token of each vector of *blocks*, `_checked`; they are int with *whole*, else float.

    *vocabulary* may still grow.
    """
    names = np.zeros(0, dtype=object)
    for ids, vectors in _checked(blocks, vocabulary, whole):
        if len(names) < vectors.shape[1]:
            names = np.array(vocabulary.tokens, dtype=object)
        tokens = names[vectors.indices].tolist()
        weights = (vectors.data.astype(np.int64) if whole else vectors.data).tolist()
        for text_id, start, stop in zip(ids, vectors.indptr[:-1].tolist(), vectors.indptr[1:].tolist(), strict=True):
            yield text_id, dict(zip(tokens[start:stop], weights[start:stop], strict=True))
