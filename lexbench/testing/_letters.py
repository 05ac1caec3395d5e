"""An encoder that counts letters and an object that adds up, which can fail or die, for tests of workers; and `as_kind`."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.arrays.vectors import offsets_of
from lexbench.errors import LexbenchError
from lexbench.plugins import Encoder
from lexbench.registry import runtime
from lexbench.types import Document, Kind, MultiVectors

_LETTERS = "abcde"


def as_kind(kind: Kind, rows: NDArray[np.float32]) -> Any:
    """Return *rows* as vectors of *kind*. As MultiVectors, a row of zeros is a text without vectors, any other row has one."""
    if kind is Kind.SPARSE:
        return sparse.csr_array(rows)
    full = np.any(rows, axis=1)
    return rows if kind is Kind.DENSE else MultiVectors(rows[full], offsets_of(full.astype(np.int64)))


class WordTokens(NamedTuple):
    """Texts cut to their first words."""

    texts: list[str]
    truncated: int


@dataclass(frozen=True)
class Letters(Encoder):
    """Counts the letters a to e among the first *length* words of a text, in thirds.

    *fails*: a letter at which it raises an error; a letter with " kill" at which it dies of signal 9. *once*: a file; it fails
    only if that file does not exist, and then creates it. *log*: a file to which each call appends a line: process, number of
    texts, first text. *seconds*: the least time per text.
    """

    devices: int = runtime(1)
    length: int = 2
    storage: str = "float32"
    kind: Kind = Kind.SPARSE  # type: ignore[misc]  # a setting, so that one class has all kinds
    fails: str = runtime("")
    once: str = runtime("")
    log: str = runtime("")
    seconds: float = runtime(0.0)

    def tokenise_documents(self, documents: Sequence[Document]) -> WordTokens:
        """Cut the texts."""
        words = [one.text.split() for one in documents]
        return WordTokens([" ".join(some[: self.length]) for some in words], sum(len(some) > self.length for some in words))

    def encode_tokens(self, tokens: WordTokens, advance: Callable[[int], None]) -> Any:
        """Count letters; fail or die at the letter *fails*."""
        self._write_log(tokens.texts)
        time.sleep(self.seconds * len(tokens.texts))
        self._fail(tokens.texts)
        advance(len(tokens.texts))
        counts = np.array([[text.count(letter) / 3 for letter in _LETTERS] for text in tokens.texts], np.float32)
        return as_kind(self.kind, counts.reshape(-1, len(_LETTERS)))

    def _write_log(self, texts: Sequence[str]) -> None:
        if self.log:
            with Path(self.log).open("a", encoding="utf-8") as log:
                log.write(f"{os.getpid()} {len(texts)} {texts[0] if texts else ''}\n")

    def _fail(self, texts: Sequence[str]) -> None:
        if not self.fails or not any(self.fails[0] in text for text in texts) or (self.once and Path(self.once).exists()):
            return
        if self.once:
            Path(self.once).touch()
        if self.fails.endswith("kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        raise LexbenchError("no such letter")

    def encode_document(self, texts: Sequence[str]) -> Any:
        """Tokenise and encode."""
        return self.encode_tokens(self.tokenise_documents([Document("", text) for text in texts]), lambda _: None)

    encode_query = encode_document

    def workers(self) -> list[Self]:
        """Return a copy per device."""
        return [replace(self, devices=1)] * self.devices


class Sum:
    """An object for workers: a number that grows."""

    def __init__(self, start: int) -> None:
        """Start with a number."""
        self._sum = start

    def add(self, number: int) -> int:
        """Add a number and return the sum. Raises LexbenchError if it is negative."""
        if number < 0:
            raise LexbenchError("it only goes up")
        self._sum += number
        return self._sum

    def add_or_die(self, number: int, died: str, alive: int) -> int:
        """Do the same if the file *died* has *alive* lines; otherwise append a line to it and die of signal 9."""
        file = Path(died)
        lines = file.read_text(encoding="utf-8") if file.exists() else ""
        if lines.count("\n") < alive:
            file.write_text(f"{lines}{os.getpid()}\n", encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
        return self.add(number)
