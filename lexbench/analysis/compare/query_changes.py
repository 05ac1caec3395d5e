"""The queries on which two systems differ most, the document that moved, and the terms that moved it."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import log2
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from lexbench import measures
from lexbench.analysis.stored_results import StoredResult, expression_of, stored_results
from lexbench.contracts import Contract, find_contract
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.location import find_folder, is_here
from lexbench.encodings.shards import read_rows
from lexbench.errors import LexbenchError
from lexbench.plugins import Source
from lexbench.results import Result
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.search import read_run
from lexbench.runner.systems import describe, system
from lexbench.storage.artifact_folder import MANIFEST, key_facts_of
from lexbench.storage.store import Store
from lexbench.trec.ids import encode, lookup, text_of
from lexbench.trec.runs import Run
from lexbench.types import Kind, Query

_SHOWN = 6  # terms per document


class TermChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a term adds to the score of a document; None for a system without sparse vectors in the store."""

    token: str
    baseline: float | None
    system: float | None


class MovedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The relevant document whose move contributes most to the difference."""

    document: str
    grade: int
    baseline_rank: int | None  # None if it is not in the run
    rank: int | None
    terms: list[TermChange]  # the largest changes first
    unavailable: list[str]  # why the terms of a system are unknown


class QueryChange(msgspec.Struct, frozen=True, kw_only=True):
    """A query on which a system and the baseline differ much."""

    dataset: str
    system: str
    query: str  # its id
    text: str | None  # None if the dataset is not on this machine
    baseline_value: float
    value: float
    moved: MovedDocument | None = None


class Pair(NamedTuple):
    """The results of the baseline and of a system on one dataset."""

    label: str  # of the system
    measure: str
    baseline: StoredResult
    other: StoredResult

    def values(self, query: int) -> tuple[float, float]:
        """Return the values of both for the query at a position."""
        return self.baseline.result.per_query[self.measure][query], self.other.result.per_query[self.measure][query]


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
    query_id = first.query_ids[query]
    topics = reader.topics(first)
    before, after = pair.values(query)
    return QueryChange(
        dataset=first.dataset,
        system=pair.label,
        query=query_id,
        text=topics.queries[query_id].text if topics else None,
        baseline_value=before,
        value=after,
        moved=_moved(pair, query, topics, reader) if topics else None,
    )


class Topics(NamedTuple):
    """The judged queries of a dataset and the grades of their documents, by query id."""

    queries: dict[str, Query]
    grades: dict[str, dict[str, int]]


def _topics(result: Result, contract: Contract | None, source: Source | None) -> Topics | None:
    """Return the topics behind a result; None if they are not on this machine or have other digests. Fetches nothing."""
    if contract is None or not (source or is_here(contract)):
        return None
    try:
        opened = open_dataset(contract, source)
    except LexbenchError:
        return None
    if (opened.queries_sha256, opened.qrels_sha256) != (result.digests.get("queries"), result.digests.get("qrels")):
        return None
    grades: dict[str, dict[str, int]] = {}
    for query_id, doc_id, grade in opened.topics.judgements:
        grades.setdefault(query_id, {})[doc_id] = grade
    return Topics({query.query_id: query for query in opened.queries}, grades)


def _moved(pair: Pair, query: int, topics: Topics, reader: "StoreReader") -> MovedDocument | None:
    """Return the relevant document whose move contributes most to the difference; None if a run is not on this machine."""
    old_run, new_run = (reader.run(entry) for entry in (pair.baseline, pair.other))
    if old_run is None or new_run is None:
        return None
    query_id = pair.baseline.result.query_ids[query]
    old_ranks, new_ranks = _ranks(old_run, query_id), _ranks(new_run, query_id)
    cutoff = measures.cutoff(pair.measure)
    before, after = pair.values(query)
    sign = 1 if after > before else -1
    grades = {document: grade for document, grade in topics.grades[query_id].items() if grade > 0}
    # A document contributes its grade times the change of its discount, counted in the direction of the difference.
    gains = {
        document: sign * grade * (_discount(new_ranks.get(document), cutoff) - _discount(old_ranks.get(document), cutoff))
        for document, grade in grades.items()
    }
    document = max(gains, key=lambda doc_id: (gains[doc_id], doc_id), default=None)
    if document is None or gains[document] <= 0:
        return None
    terms, unavailable = _term_changes(reader, (pair.baseline, pair.other), topics.queries[query_id], document)
    return MovedDocument(
        document=document,
        grade=grades[document],
        baseline_rank=old_ranks.get(document),
        rank=new_ranks.get(document),
        terms=terms,
        unavailable=unavailable,
    )


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
    """Reads topics, runs and vectors of systems, each once."""

    store: Store
    located: Mapping[str, tuple[Contract, Source | None]] = field(default_factory=dict)  # datasets that were typed as folders
    runs: dict[int, Run | None] = field(default_factory=dict)  # by the id of the entry
    systems: dict[int, "SparseSystem | str"] = field(default_factory=dict)
    by_dataset: dict[str, Topics | None] = field(default_factory=dict)

    def topics(self, result: Result) -> Topics | None:
        """Return the queries and grades behind a result; None if they are not on this machine."""
        if result.dataset not in self.by_dataset:
            place = None if result.dataset in self.located else self.store.place(result.digests)
            found = find_folder(place) if place else (find_contract(result.dataset), None)
            contract, source = self.located.get(result.dataset, found)
            self.by_dataset[result.dataset] = _topics(result, contract, source)
        return self.by_dataset[result.dataset]

    def run(self, entry: StoredResult) -> Run | None:
        """Return the run behind a result: from the store, or from the run file of the system; None if it is in neither."""
        if id(entry) not in self.runs:
            folder = entry.run or self._run_of_equal(entry.result)
            self.runs[id(entry)] = read_run(folder).run if folder else _run_of_file(entry.result)
        return self.runs[id(entry)]

    def _run_of_equal(self, result: Result) -> Path | None:
        """Return the run in the store whose result has the same system and the same values."""
        same = (found for found in self._finished if found.run and found.result.dataset == result.dataset)
        return next((e.run for e in same if (e.result.recipe, e.result.per_query) == (result.recipe, result.per_query)), None)

    @cached_property
    def _finished(self) -> list[StoredResult]:
        return list(stored_results(self.store))

    def sparse_system(self, entry: StoredResult) -> "SparseSystem | str":
        """Return the system of a result with its stored vectors, or why its terms are unknown."""
        if id(entry) not in self.systems:
            try:
                self.systems[id(entry)] = _sparse_system(entry, self)
            except LexbenchError as error:  # the model, or a package that it needs, is not on this machine
                self.systems[id(entry)] = str(error)
        return self.systems[id(entry)]


@dataclass(frozen=True)
class SparseSystem:
    """A system of sparse vectors, with the stored vectors of the documents."""

    retriever: Encoded
    vectors: Path
    run: Run

    def contributions(self, query: Query, document: str) -> dict[str, float]:
        """Return what each term adds to the score of *document*: the product of its two weights, by the term's text."""
        position = lookup(self.run.table, encode([document])).astype(np.int32)
        in_query = self.retriever.encode_queries([query]).tocsr()
        in_document = self.retriever.as_documents(read_rows(self.vectors, position)).tocsr()
        products: Any = in_query.multiply(in_document).tocoo()
        encoder: Any = self.retriever.encoder
        return {
            encoder.token(int(term)): float(value)
            for term, value in zip(products.coords[1], products.data, strict=True)
            if value
        }


def _run_of_file(result: Result) -> Run | None:
    """Return the run of a system that is a run file; None if it is another system, or the file is gone."""
    with suppress(LexbenchError):
        retriever = system(expression_of(result)).retriever
        return retriever.read(result.dataset) if retriever.finished else None
    return None


def _sparse_system(entry: StoredResult, reader: StoreReader) -> SparseSystem | str:
    retriever, run = system(expression_of(entry.result)).retriever, reader.run(entry)
    if not isinstance(retriever, Encoded) or retriever.engine.kind is not Kind.SPARSE:
        return "has no sparse vectors"
    if not retriever.encoder.names_terms:
        return "its encoder does not name its terms"
    if describe(retriever) != entry.result.recipe:
        return "has changed since it was run"
    wanted = {"encoder": describe(retriever.encoder, index=True), "corpus": entry.result.digests.get("corpus")}
    for manifest in sorted(reader.store.root.glob(f"encodings/*/{MANIFEST}")):
        if wanted.items() <= key_facts_of(manifest.parent).items():
            assert run is not None  # it has the document that moved
            return SparseSystem(retriever.with_stored_collection(manifest.parent), manifest.parent, run)
    return "its vectors are not in the store"


def _term_changes(
    reader: StoreReader, pair: tuple[StoredResult, StoredResult], query: Query, document: str
) -> tuple[list[TermChange], list[str]]:
    """Return the terms that changed the score of *document* most, and why the terms of a system are unknown."""
    contributions: list[dict[str, float] | None] = []
    unavailable = []
    for entry in pair:
        opened = reader.sparse_system(entry)
        if isinstance(opened, str):
            unavailable.append(f"{entry.result.system}: {opened}")
        contributions.append(None if isinstance(opened, str) else opened.contributions(query, document))
    before, after = contributions
    tokens = dict.fromkeys([*(before or ()), *(after or ())])
    changes = [
        TermChange(
            token=token,
            baseline=None if before is None else before.get(token, 0.0),
            system=None if after is None else after.get(token, 0.0),
        )
        for token in tokens
    ]
    changes.sort(key=lambda change: (-abs((change.system or 0.0) - (change.baseline or 0.0)), change.token))
    return changes[:_SHOWN], unavailable
