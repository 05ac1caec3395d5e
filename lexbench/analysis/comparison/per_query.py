"""The queries on which two systems differ most, and the document whose place made the difference."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from math import log2
from typing import NamedTuple

import numpy as np

from lexbench import measures, suites
from lexbench.analysis.comparison.model import Changed, Moved
from lexbench.analysis.comparison.terms import Opener, contributions
from lexbench.datasets.dataset import Dataset, open_dataset
from lexbench.datasets.find import status
from lexbench.errors import LexbenchError
from lexbench.runner.jobs import Kept
from lexbench.trec.runs import Run
from lexbench.types import Query


class Pair(NamedTuple):
    """The results of the baseline and of a system on one dataset."""

    label: str  # of the system
    measure: str
    baseline: Kept
    other: Kept


def most_changed(pairs: list[Pair], count: int, opener: Opener) -> list[Changed]:
    """Return the *count* queries on which the systems of *pairs*, one pair a dataset, differ most, the largest first.

    Of queries that differ by as much the earlier dataset and query come first; those that do not differ are left out.
    """
    found = []
    for number, pair in enumerate(pairs):
        before, after = (np.array(kept.result.per_query[pair.measure]) for kept in (pair.baseline, pair.other))
        differences = np.abs(after - before)
        best = np.argsort(-differences, kind="stable")[:count]
        found += [(-float(differences[at]), number, int(at)) for at in best if differences[at] > 0]
    return [_changed(pairs[number], at, opener) for _, number, at in sorted(found)[:count]]


def _changed(pair: Pair, at: int, opener: Opener) -> Changed:
    first = pair.baseline.result
    name = first.query_ids[at]
    topics = _topics(first.dataset, first.digests.get("queries", ""), first.digests.get("qrels", ""))
    return Changed(
        dataset=first.dataset,
        system=pair.label,
        query=name,
        text=topics.queries[name].text if topics else None,
        baseline_value=first.per_query[pair.measure][at],
        value=pair.other.result.per_query[pair.measure][at],
        moved=_moved(pair, at, topics, opener) if topics else None,
    )


class Topics:
    """The queries and judgements of a dataset, by query id."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    @cached_property
    def queries(self) -> dict[str, Query]:
        """Return the judged queries."""
        return {query.query_id: query for query in self.dataset.queries}

    @cached_property
    def grades(self) -> dict[str, dict[str, int]]:
        """Return the grade of every judged document of every query."""
        found: dict[str, dict[str, int]] = {}
        for query_id, doc_id, grade in self.dataset.topics.judgements:
            found.setdefault(query_id, {})[doc_id] = grade
        return found


@lru_cache(maxsize=2)
def _topics(dataset: str, queries_sha256: str, qrels_sha256: str) -> Topics | None:
    """Return the topics that results are of; None where they are not on this machine. Nothing is fetched."""
    contract = suites.contracts().get(dataset)
    if contract is None or status(contract) in ("not here", "to be fetched"):
        return None
    try:
        found = open_dataset(contract)
    except LexbenchError:
        return None
    known = (found.queries_sha256, found.qrels_sha256)
    return Topics(found) if known == (queries_sha256, qrels_sha256) else None


def _moved(pair: Pair, at: int, topics: Topics, opener: Opener) -> Moved | None:
    """Return the relevant document that did most to the difference; None where the runs are not in the store."""
    if pair.baseline.run is None or pair.other.run is None:
        return None
    name = pair.baseline.result.query_ids[at]
    ranks = [_ranks(opener.run(kept), name) for kept in (pair.baseline, pair.other)]
    cutoff = getattr(measures.parse(pair.measure), "cutoff", None)
    sign = 1 if pair.other.result.per_query[pair.measure][at] > pair.baseline.result.per_query[pair.measure][at] else -1
    grades = {document: grade for document, grade in topics.grades[name].items() if grade > 0}
    gains = {
        document: sign * grade * (_discount(ranks[1].get(document), cutoff) - _discount(ranks[0].get(document), cutoff))
        for document, grade in grades.items()
    }
    document = max(gains, key=lambda one: (gains[one], one), default=None)
    if document is None or gains[document] <= 0:
        return None
    terms, unavailable = contributions(opener, (pair.baseline, pair.other), topics.queries[name], document)
    return Moved(
        document=document,
        grade=grades[document],
        baseline_rank=ranks[0].get(document),
        rank=ranks[1].get(document),
        terms=terms,
        unavailable=unavailable,
    )


def _ranks(run: Run, query: str) -> Mapping[str, int]:
    """Return the rank of every document that *run* has for *query*."""
    at = run.query_ids.index(query) if query in run.query_ids else -1
    codes = run.docs[run.offsets[at] : run.offsets[at + 1]] if at >= 0 else run.docs[:0]
    return {one.decode(): rank for rank, one in enumerate(run.table[codes].tolist(), start=1)}


def _discount(rank: int | None, cutoff: int | None) -> float:
    """Return how much a place counts, as in nDCG; beyond the measure's cut-off nothing."""
    return 0.0 if rank is None or (cutoff is not None and rank > cutoff) else 1 / log2(rank + 1)
