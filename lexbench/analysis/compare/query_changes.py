"""The queries on which two systems differ most, and the documents that moved. `lexbench explain` shows the terms behind it."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import log2
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from lexbench.analysis.stored_results import run_behind, stored_results
from lexbench.contracts import Contract, find_contract
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import Dataset, open_dataset
from lexbench.datasets.location import find_again, is_here
from lexbench.errors import LexbenchError
from lexbench.measures import cutoff as cutoff_of
from lexbench.plugins import Source
from lexbench.results import Entry, QueryTexts, Result, Results
from lexbench.runner.query_texts import beginnings, query_texts, relevant_ranks
from lexbench.runner.search import corpus_of_run
from lexbench.storage.store import Store
from lexbench.trec.runs import Run

_MOVED = 3  # documents of a query

Side = Literal["both", "gained", "lost"]  # queries that changed, only those that gained, or only those that lost
Ranks = Mapping[str, Mapping[str, int]]  # of relevant documents, by query


class MovedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A relevant document whose move explains a part of the difference."""

    document: str
    beginning: str = ""  # of its text, if it is known
    grade: float
    baseline_rank: int | None  # None if it is not among the first 100
    rank: int | None

    def __str__(self) -> str:
        """Return the move, e.g. "digikam 4 → 16"; a dash is no rank among the first 100."""
        return f"{self.document} {self.baseline_rank or '—'} → {self.rank or '—'}"


class QueryChange(msgspec.Struct, frozen=True, kw_only=True):
    """A query on which a system and the baseline differ."""

    dataset: str
    system: str
    query: str  # its id
    text: str | None  # None if the dataset is not on this machine, or if only its judgements were given
    baseline_value: float
    value: float
    moved: list[MovedDocument] = []  # those that contribute most to the difference


class Pair(NamedTuple):
    """The results of the baseline and of a system on one dataset."""

    label: str  # of the system
    measure: str
    baseline: Entry
    other: Entry


def most_changed(pairs: list[Pair], count: int, reader: "Reader", side: Side = "both") -> list[QueryChange]:
    """Return the *count* queries that differ most over all *pairs*, one per dataset, the largest difference first.

    *side* chooses queries that gained or lost. Equal differences keep the order of datasets and queries. Queries without a
    difference are left out.
    """
    candidates = []
    for number, pair in enumerate(pairs):
        before, after = (np.array(entry.result.per_query[pair.measure]) for entry in (pair.baseline, pair.other))
        sizes = {"both": np.abs(after - before), "gained": after - before, "lost": before - after}[side]
        largest = np.argsort(-sizes, kind="stable")[:count]
        candidates += [(-float(sizes[at]), number, int(at)) for at in largest if sizes[at] > 0]
    return [_change(pairs[number], query, reader) for _, number, query in sorted(candidates)[:count]]


def _change(pair: Pair, query: int, reader: "Reader") -> QueryChange:
    first = pair.baseline.result
    query_id, texts = first.query_ids[query], reader.texts(pair.baseline) or reader.texts(pair.other)
    before, after = (entry.result.per_query[pair.measure][query] for entry in (pair.baseline, pair.other))
    first_ranks, ranks = reader.ranks(pair.baseline), reader.ranks(pair.other)
    moved: list[MovedDocument] = []
    if texts and first_ranks is not None and ranks is not None:
        grades = texts.relevant.get(query_id, {})
        known = texts.documents or reader.beginnings((pair.baseline, pair.other), grades)
        both, sign = (first_ranks.get(query_id, {}), ranks.get(query_id, {})), 1 if after > before else -1
        moved = moved_documents(grades, *both, cutoff_of(pair.measure), known, sign)
    return QueryChange(
        dataset=first.dataset,
        system=pair.label,
        query=query_id,
        text=(texts.texts.get(query_id) or None) if texts else None,
        baseline_value=before,
        value=after,
        moved=moved,
    )


def moved_documents(
    grades: Mapping[str, float], before: Mapping[str, int], after: Mapping[str, int], cutoff: int | None,
    beginnings: Mapping[str, str], sign: int,
) -> list[MovedDocument]:  # fmt: skip
    """Return the relevant documents of a query that contribute most in the direction *sign*, the largest first.

    *before* and *after* are ranks by document. A document contributes its grade times the change of its discount.
    """
    gains = {
        document: sign * grade * (_discount(after.get(document), cutoff) - _discount(before.get(document), cutoff))
        for document, grade in grades.items()
    }
    largest = sorted((name for name in gains if gains[name] > 0), key=lambda name: (-gains[name], name))[:_MOVED]
    return [
        MovedDocument(
            document=name,
            beginning=beginnings.get(name, ""),
            grade=grades[name],
            baseline_rank=before.get(name),
            rank=after.get(name),
        )
        for name in largest
    ]


def _discount(rank: int | None, cutoff: int | None) -> float:
    """Return the discount of a rank as in nDCG; 0 beyond the measure's cutoff."""
    return 0.0 if rank is None or (cutoff is not None and rank > cutoff) else 1 / log2(rank + 1)


class Reader:
    """Reads what is beside results: the texts of queries, and the ranks of their relevant documents."""

    def texts(self, entry: Entry) -> QueryTexts | None:
        """Return the texts of the queries of a result, None if they are unknown."""
        return entry.texts()

    def ranks(self, entry: Entry) -> Ranks | None:
        """Return the ranks of relevant documents by query, None if they are unknown."""
        return entry.result.ranks or None

    def beginnings(self, entries: tuple[Entry, ...], documents: Iterable[str]) -> dict[str, str]:
        """Return how *documents* of the corpus of *entries* begin, those that are known."""
        del entries, documents
        return {}


@dataclass
class StoreReader(Reader):
    """Reads datasets and runs from their folders and the store, each once."""

    store: Store
    located: Mapping[str, tuple[Contract, Source | None]]  # datasets that were typed as folders
    datasets: dict[str, Dataset | None] = field(default_factory=dict)  # by id, those that are open
    _runs: dict[int, Run | None] = field(default_factory=dict)  # by the id of the entry
    _ranks: dict[int, Ranks | None] = field(default_factory=dict)
    _texts: dict[str, QueryTexts | None] = field(default_factory=dict)  # by dataset

    def dataset(self, result: Result) -> Dataset | None:
        """Return the dataset of a result; None if it is not on this machine or has changed. Downloads nothing."""
        if result.dataset not in self.datasets:
            self.datasets[result.dataset] = None
            with suppress(LexbenchError):
                place = self.store.place(result.digests)
                found = find_again(result.dataset, place) if place else (find_contract(result.dataset), None)
                contract, source = self.located.get(result.dataset, found)
                if contract is not None and (source or is_here(contract)):
                    data = open_dataset(contract, source)
                    if data.digests.items() <= result.digests.items():
                        self.datasets[result.dataset] = data
        return self.datasets[result.dataset]

    def texts(self, entry: Entry) -> QueryTexts | None:
        """Return the texts of the queries of a result: those beside it, or else of its dataset; None if that is not here."""
        if kept := super().texts(entry):
            return kept
        name = entry.result.dataset
        if name not in self._texts:
            data = self.dataset(entry.result)
            self._texts[name] = query_texts(data, None) if data else None
        return self._texts[name]

    def ranks(self, entry: Entry) -> Ranks | None:
        """Return the ranks of relevant documents by query: those in the result, or else from its run; None without a run."""
        if known := super().ranks(entry):
            return known
        if id(entry) not in self._ranks:
            run, data = self.run(entry), self.dataset(entry.result)
            self._ranks[id(entry)] = relevant_ranks(run, data.qrels) if run and data else None
        return self._ranks[id(entry)]

    def run(self, entry: Entry) -> Run | None:
        """Return the run behind a result; None if it is not on this machine."""
        if id(entry) not in self._runs:
            self._runs[id(entry)] = run_behind(entry, lambda: self._finished)
        return self._runs[id(entry)]

    def beginnings(self, entries: tuple[Entry, ...], documents: Iterable[str]) -> dict[str, str]:
        """Return how *documents* begin, from the corpus that one of *entries* searched; {} if it is not on this machine."""
        for folder in (entry.run for entry in entries if isinstance(entry.run, Path)):
            with suppress(OSError, ValueError, KeyError):  # the corpus may be gone
                return beginnings(StoredCorpus(corpus_of_run(folder).folder), documents)
        return {}

    @cached_property
    def _finished(self) -> Results:
        return stored_results(self.store)
