"""What vector files are read into and written from: blocks of sparse vectors with the ids of their texts, and a vocabulary."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.errors import CommandError, InvalidFile
from lexbench.storage.reading import lines

ROWS = 4096  # of a block
_LIMIT = 2**31  # of weights that formats hold as whole numbers


class Block(NamedTuple):
    """Some vectors in the order of the file.

    Readers give weights that are not 0, terms ascending in each row. The vocabulary of a file that names its terms by strings
    may grow while it is read; then later blocks are wider than earlier ones.
    """

    ids: list[str]  # (n,)
    vectors: sparse.csr_array  # (n, vocabulary), float32


class _Growing(dict[str, int]):
    """Numbers what it is asked for and has not seen."""

    def __missing__(self, token: str) -> int:
        self[token] = number = len(self)
        return number


class Vocabulary:
    """Strings of tokens and their term ids: those of the list *tokens*, from 0; without one, numbered as they turn up."""

    def __init__(self, tokens: Iterable[str] | None = None) -> None:
        self.grows = tokens is None
        self._numbers: dict[str, int] = _Growing()
        if tokens is not None:
            self._numbers = {}
            for number, token in enumerate(tokens):
                if self._numbers.setdefault(token, number) != number:
                    raise CommandError(
                        f"token {token!r} is twice in the vocabulary, as number {self._numbers[token]} and number {number}"
                    )

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Read a file of one token a line, as the `vocab.txt` of a BERT model; the first line is term 0."""
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
        """Return the term id of each of *tokens*; CommandError for one that is not there, unless the vocabulary grows."""
        try:
            return list(map(self._numbers.__getitem__, tokens))
        except KeyError as error:
            raise CommandError(f"token {error.args[0]!r} is not one of the {len(self):,} of the vocabulary") from None


class Named(NamedTuple):
    """A vector with its terms as strings."""

    text_id: str
    tokens: list[str]
    weights: list[float] | list[int]


def made(
    ids: list[str], data: NDArray[np.float32], terms: NDArray[np.integer], offsets: NDArray[np.integer], width: int
) -> Block:
    """Return a block of the arrays of a CSR matrix (n, *width*), its rows sorted and rid of zeros where they need it."""
    matrix = sparse.csr_array((data, terms, offsets), shape=(len(offsets) - 1, width))
    if not (matrix.has_canonical_format and matrix.data.all()):
        matrix = sparse.csr_array(matrix, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    return Block(ids, matrix)


def checked(blocks: Iterable[Block], vocabulary: Vocabulary | None, whole: str = "") -> Iterator[Block]:
    """Yield *blocks* as they are to be written: in canonical form, no wider than *vocabulary*, and with an id each.

    *whole* names what holds whole weights from 1 to 2^31 - 1 only. CommandError for what does not fit.
    """
    for ids, vectors in blocks:
        block = made(ids, vectors.data, vectors.indices, vectors.indptr, vectors.shape[1])
        if len(ids) != vectors.shape[0]:
            raise CommandError(f"{len(ids)} ids for {vectors.shape[0]} vectors")
        if vocabulary is not None and vectors.shape[1] > len(vocabulary):
            raise CommandError(f"the vectors have {vectors.shape[1]:,} terms, and the vocabulary {len(vocabulary):,}")
        _refuse_unfit(block, whole)
        yield block


def _refuse_unfit(block: Block, whole: str) -> None:
    weights = block.vectors.data
    fits = (weights >= 1) & (weights < _LIMIT) & (weights == np.floor(weights)) if whole else np.isfinite(weights)
    if fits.all():
        return
    first = int(np.argmin(fits))
    row = int(np.searchsorted(block.vectors.indptr, first, side="right")) - 1
    hint = f"{whole} holds whole weights from 1; quantise the vectors, as in encoder|quantize(100)"
    raise CommandError(f"{block.ids[row]!r} has the weight {weights[first]:g}; {hint if whole else 'it is no number'}")


def named(blocks: Iterable[Block], vocabulary: Vocabulary, whole: str = "") -> Iterator[Named]:
    """Yield each vector of *blocks*, `checked`, with its tokens; weights are int for *whole*. *vocabulary* may still grow."""
    names = np.zeros(0, dtype=object)
    for ids, vectors in checked(blocks, vocabulary, whole):
        if len(names) < vectors.shape[1]:
            names = np.array(vocabulary.tokens, dtype=object)
        tokens = names[vectors.indices].tolist()
        weights = (vectors.data.astype(np.int64) if whole else vectors.data).tolist()
        for text_id, start, stop in zip(ids, vectors.indptr[:-1].tolist(), vectors.indptr[1:].tolist(), strict=True):
            yield Named(text_id, tokens[start:stop], weights[start:stop])
