"""A source of datasets: numbers in words, made on the spot."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from lexbench.contracts import Contract
from lexbench.plugins import Source
from lexbench.types import Document, Judgement, Query

_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True)
class Numerals(Source):
    """A hundred documents such as `four two`; a query asks for one of them."""

    @classmethod
    def locate(cls, contract: Contract, folders: Sequence[Path]) -> Self | None:
        """Return it: it is always there."""
        return cls()

    @classmethod
    def status(cls, contract: Contract, folders: Sequence[Path]) -> str:
        """Say so."""
        return "made here"

    def documents(self) -> Iterator[Document]:
        """Yield `d00` to `d99`."""
        for number in range(100):
            yield Document(f"d{number:02d}", f"{_DIGITS[number // 10]} {_DIGITS[number % 10]}")

    def queries(self) -> Iterator[Query]:
        """Yield ten queries."""
        for number in range(0, 100, 10):
            yield Query(f"q{number:02d}", f"{_DIGITS[number // 10]} zero")

    def judgements(self) -> Iterator[Judgement]:
        """Yield one relevant document a query."""
        for number in range(0, 100, 10):
            yield Judgement(f"q{number:02d}", f"d{number:02d}", 1)

    def identity(self) -> dict[str, Any]:
        """Return what determines the documents."""
        return {"numerals": 1}
