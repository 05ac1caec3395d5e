"""One dataset as a user looks at it: its contract, documents, queries and judgements."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

from lexbench.contracts import Contract
from lexbench.datasets.dataset import Dataset, open_dataset
from lexbench.datasets.location import find_dataset
from lexbench.display.answer import Facts
from lexbench.types import Document


class DatasetPage(Facts):
    """A dataset. Its contract is known at once; documents, queries and judgements are read when they are asked for."""

    def __init__(self, name: Any, split: str | None = None, columns: Mapping[str, str] = MappingProxyType({})) -> None:
        """Find the dataset: an id, a folder, or data in memory. Raises UnknownName if there is none."""
        self.contract, self._source = find_dataset(name, split, columns)
        super().__init__(self.contract)

    contract: Contract

    @cached_property
    def _opened(self) -> Dataset:
        return open_dataset(self.contract, self._source)

    @property
    def documents(self) -> Iterator[Document]:
        """The documents, one after another, in no particular order."""
        return self._opened.source.documents()

    @property
    def queries(self) -> dict[str, str]:
        """The texts of the queries that count, by id."""
        return {query.query_id: query.text for query in self._opened.queries}

    @property
    def qrels(self) -> dict[str, dict[str, int | float]]:
        """The grade of each judged document, by query."""
        grades: dict[str, dict[str, int | float]] = {}
        for row in self._opened.qrels.judgements():
            grades.setdefault(row.query_id, {})[row.doc_id] = row.grade
        return grades
