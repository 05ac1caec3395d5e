"""The queries on which two systems differ most, and the document that moved. `lexbench explain` shows the terms behind it."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import log2
from typing import NamedTuple

import msgspec
import numpy as np

from lexbench.analysis.stored_results import run_behind, stored_results
from lexbench.contracts import Contract, find_contract
from lexbench.datasets.dataset import Dataset, open_dataset
from lexbench.datasets.location import find_folder, is_here
from lexbench.errors import LexbenchError
from lexbench.measures import cutoff as cutoff_of
from lexbench.plugins import Source
from lexbench.results import Entry, Result, Results
from lexbench.storage.store import Store
from lexbench.trec.ids import text_of
from lexbench.trec.runs import Run


class MovedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The relevant document whose move contributes most to the difference."""

    document: str
    grade: float
    baseline_rank: int | None  # None if it is not in the run
    rank: int | None


class QueryChange(msgspec.Struct, frozen=True, kw_only=True):
    """A query on which a system and the baseline differ much."""

    dataset: str
    system: str
    query: str  # its id
    text: str | None  # None if the dataset is not on this machine, or if only its judgements were given
    baseline_value: float
    value: float
    moved: MovedDocument | None = None


class Pair(NamedTuple):
    """The results of the baseline and of a system on one dataset."""

    label: str  # of the system
    measure: str
    baseline: Entry
    other: Entry


def most_changed(pairs: list[Pair], count: int, reader: "StoreReader") -> list[QueryChange]:
    """Return the *count* queries that differ most over all *pairs*, one per dataset, the largest difference first.

    Equal differences keep the order of datasets and queries. Queries without a difference are left out.
    """
    candidates = []
    for number, pair in enumerate(pairs):
        before, after = (np.array(entry.result.per_query[pair.measure]) for entry in (pair.baseline, pair.other))
        differences = np.abs(after - before)
        largest = np.argsort(-differences, kind="stable")[:count]
        candidates += [(-float(differences[at]), number, int(at)) for at in largest if differences[at] > 0]
    return [_change(pairs[number], query, reader) for _, number, query in sorted(candidates)[:count]]


def _change(pair: Pair, query: int, reader: "StoreReader") -> QueryChange:
    first = pair.baseline.result
    query_id, data = first.query_ids[query], reader.dataset(first)
    before, after = (entry.result.per_query[pair.measure][query] for entry in (pair.baseline, pair.other))
    return QueryChange(
        dataset=first.dataset,
        system=pair.label,
        query=query_id,
        text=next((one.text for one in data.queries if one.query_id == query_id), None) if data else None,
        baseline_value=before,
        value=after,
        moved=_moved(pair, query_id, 1 if after > before else -1, data, reader) if data else None,
    )


def _moved(pair: Pair, query: str, sign: int, data: Dataset, reader: "StoreReader") -> MovedDocument | None:
    """Return the relevant document whose move contributes most in the direction *sign*; None if a run is not here."""
    old_run, new_run = (reader.run(entry) for entry in (pair.baseline, pair.other))
    if old_run is None or new_run is None:
        return None
    before, after = _ranks(old_run, query), _ranks(new_run, query)
    cutoff = cutoff_of(pair.measure)
    grades = {row.doc_id: row.grade for row in data.topics.judgements if row.query_id == query and row.grade > 0}
    # A document contributes its grade times the change of its discount, counted in the direction of the difference.
    gains = {
        document: sign * grade * (_discount(after.get(document), cutoff) - _discount(before.get(document), cutoff))
        for document, grade in grades.items()
    }
    document = max(gains, key=lambda doc_id: (gains[doc_id], doc_id), default=None)
    if document is None or gains[document] <= 0:
        return None
    ranks = before.get(document), after.get(document)
    return MovedDocument(document=document, grade=grades[document], baseline_rank=ranks[0], rank=ranks[1])


def _ranks(run: Run, query: str) -> Mapping[str, int]:
    """Return the rank of every document that *run* has for *query*."""
    at = run.query_ids.index(query) if query in run.query_ids else -1
    codes = run.docs[run.offsets[at] : run.offsets[at + 1]] if at >= 0 else run.docs[:0]
    return {text_of(doc_id): rank for rank, doc_id in enumerate(run.table[codes].tolist(), start=1)}


def _discount(rank: int | None, cutoff: int | None) -> float:
    """Return the discount of a rank as in nDCG; 0 beyond the measure's cutoff."""
    return 0.0 if rank is None or (cutoff is not None and rank > cutoff) else 1 / log2(rank + 1)


@dataclass
class StoreReader:
    """Reads datasets and runs, each once."""

    store: Store
    located: Mapping[str, tuple[Contract, Source | None]]  # datasets that were typed as folders
    runs: dict[int, Run | None] = field(default_factory=dict)  # by the id of the entry
    by_dataset: dict[str, Dataset | None] = field(default_factory=dict)

    def dataset(self, result: Result) -> Dataset | None:
        """Return the dataset of a result; None if it is not on this machine or has changed. Downloads nothing."""
        if result.dataset not in self.by_dataset:
            self.by_dataset[result.dataset] = None
            place = self.store.place(result.digests)
            found = find_folder(place) if place else (find_contract(result.dataset), None)
            contract, source = self.located.get(result.dataset, found)
            if contract is not None and (source or is_here(contract)):
                with suppress(LexbenchError):
                    data = open_dataset(contract, source)
                    if data.digests.items() <= result.digests.items():
                        self.by_dataset[result.dataset] = data
        return self.by_dataset[result.dataset]

    def run(self, entry: Entry) -> Run | None:
        """Return the run behind a result; None if it is not on this machine."""
        if id(entry) not in self.runs:
            self.runs[id(entry)] = run_behind(entry, lambda: self._finished)
        return self.runs[id(entry)]

    @cached_property
    def _finished(self) -> Results:
        return stored_results(self.store)
