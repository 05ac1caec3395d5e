"""A dataset that was found and checked: its judged queries and judgements in memory, its corpus still at the source."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.contracts import Contract, Expected
from lexbench.datasets import digests
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.location import find_source
from lexbench.errors import ContractMismatch, InvalidFile
from lexbench.plugins import Source
from lexbench.trec import ids
from lexbench.trec.qrels import Qrels
from lexbench.types import Judgement, Query

T = TypeVar("T", bound=Hashable)

_LABELS = {
    "documents": "documents",
    "queries": "judged queries",
    "judgements": "judgements",
    "absent": "judged documents absent from the corpus",
    "corpus_sha256": "SHA-256 of the corpus",
    "query_ids_sha256": "SHA-256 of the query ids",
    "queries_sha256": "SHA-256 of the queries",
    "qrels_sha256": "SHA-256 of the judgements",
}  # the facts of a contract, as error messages call them


@dataclass(frozen=True)
class Topics:
    """The judged queries of a dataset and their judgements."""

    queries: tuple[Query, ...]  # by ascending bytes of the id; each has a judgement
    judgements: tuple[Judgement, ...]  # in the order of the source
    unjudged: int  # number of other queries in the source

    @cached_property
    def facts(self) -> Expected:
        """Their counts and digests, in the terms of a contract."""
        return msgspec.structs.replace(judgement_facts(self.judgements), queries_sha256=digests.queries_sha256(self.queries))

    @property
    def textless(self) -> tuple[str, ...]:
        """The ids of judged queries whose text is empty, so that they find nothing."""
        return tuple(query.query_id for query in self.queries if not query.text.strip())


@dataclass(frozen=True)
class Dataset:
    """The dataset of a contract, found and checked."""

    contract: Contract
    source: Source
    topics: Topics

    @property
    def queries(self) -> tuple[Query, ...]:
        """The judged queries, by ascending bytes of the id."""
        return self.topics.queries

    @cached_property
    def qrels(self) -> Qrels:
        """The judgements as arrays."""
        return Qrels.from_judgements(self.topics.judgements)

    @property
    def digests(self) -> dict[str, str]:
        """The digests of the judged queries and of the judgements, as results have them."""
        return {"queries": self.topics.facts.queries_sha256 or "", "qrels": self.topics.facts.qrels_sha256 or ""}

    def check_corpus(self, corpus: StoredCorpus) -> int:
        """Return how many judged documents *corpus* lacks. Raises ContractMismatch if it is not the expected corpus."""
        judged = {row.doc_id for row in self.topics.judgements}
        lacking = len(absent_documents(self.topics.judgements, corpus.doc_ids))
        if judged and lacking == len(judged):
            raise ContractMismatch(
                f"{self.contract.id}: none of the {lacking:,} judged documents is in the corpus: the judgements have ids like "
                f"{min(judged)!r}, the documents like {corpus.doc_ids[-1].decode()!r}; write them in the same way"
            )
        check(self.contract, Expected(documents=len(corpus), corpus_sha256=corpus.fingerprint, absent=lacking))
        return lacking


def open_dataset(contract: Contract, source: Source | None = None) -> Dataset:
    """Return the dataset from *source* (default: where it is found) after reading and checking its queries and judgements.

    Raises MissingData or ContractMismatch.
    """
    source = source or find_source(contract)
    topics = read_topics(source)
    check(contract, topics.facts)
    return Dataset(contract, source, topics)


def read_topics(source: Source) -> Topics:
    """Read the queries and judgements of *source*.

    Raises InvalidFile for a repeated query id, a pair with two grades, a judged query without text, or no judgements at all.
    """
    judgements = tuple(dict.fromkeys(source.judgements()))  # a repeated judgement counts once
    if not judgements:
        raise _invalid(source, "judgements", "there are no judgements; a line is: query-id, corpus-id, score")
    judged = {row.query_id for row in judgements}
    every = tuple(source.queries())
    queries = tuple(
        sorted((query for query in every if query.query_id in judged), key=lambda query: ids.bytes_of(query.query_id))
    )
    if repeated := _repeated([query.query_id for query in queries]):
        raise _invalid(source, "queries", f"two queries have the id {repeated!r}", repeated)
    if pair := _repeated([(row.query_id, row.doc_id) for row in judgements]):
        grades = " and ".join(str(row.grade) for row in judgements if (row.query_id, row.doc_id) == pair)
        pairs = len(judgements) - len({(row.query_id, row.doc_id) for row in judgements})
        more = f" ({pairs} judgements contradict another)" if pairs > 1 else ""
        why = f"document {pair[1]!r} of query {pair[0]!r} has two grades, {grades}; keep one of the lines{more}"
        raise _invalid(source, "judgements", why, " ".join(pair))
    lost = judged.difference(query.query_id for query in queries)
    if lost:
        theirs = f"; queries have ids like {every[0].query_id!r}" if every and len(lost) == len(judged) else ""
        raise _invalid(
            source,
            "judgements",
            f"{len(lost)} of {len(judged)} judged queries are not among the queries, e.g. {min(lost)!r}{theirs}",
        )
    return Topics(queries, judgements, len(every) - len(queries))


def _repeated(keys: Sequence[T]) -> T | None:
    """Return one of the *keys* that occur more than once, None if there is none."""
    return Counter(keys).most_common(1)[0][0] if len(set(keys)) < len(keys) else None


def _invalid(source: Source, kind: Literal["queries", "judgements"], why: str, record_id: str | None = None) -> InvalidFile:
    """Return the error for faulty queries or judgements, with the file and line if *source* knows them."""
    place = source.place(kind, record_id)
    return InvalidFile(f"{place}: {why}" if place else why)


def judgement_facts(judgements: Sequence[Judgement]) -> Expected:
    """Return the counts and the digest of *judgements*, in the terms of a contract."""
    grades = Counter(row.grade for row in judgements)
    query_ids = {row.query_id for row in judgements}
    return Expected(
        queries=len(query_ids),
        judgements=len(judgements),
        grades={str(grade): count for grade, count in sorted(grades.items())} if {*map(type, grades)} <= {int} else {},
        query_ids_sha256=digests.query_ids_sha256(query_ids),
        qrels_sha256=digests.qrels_sha256(judgements),
    )


def absent_documents(judgements: Sequence[Judgement], doc_ids: NDArray[np.bytes_]) -> tuple[str, ...]:
    """Return the judged documents, sorted, that are not among *doc_ids* (documents,), which are descending."""
    judged = sorted({row.doc_id for row in judgements})
    present = ids.lookup(doc_ids, ids.encode(judged)) >= 0
    return tuple(doc_id for doc_id, is_present in zip(judged, present, strict=True) if not is_present)


def check(contract: Contract, facts: Expected) -> None:
    """Raise ContractMismatch with both values if *facts* contradict the contract. A fact that one of them lacks is skipped."""
    expected = msgspec.to_builtins(contract.expected)
    actual = msgspec.to_builtins(facts)
    wrong = [
        f"{label}: {str(expected[key])[:16]} expected, {str(actual[key])[:16]} found"
        for key, label in _LABELS.items()
        if None not in (expected[key], actual[key]) and expected[key] != actual[key]
    ]
    if expected["grades"] and actual["grades"]:
        wrong += [
            f"judgements of grade {grade}: {expected['grades'].get(grade, 0)} expected, {actual['grades'].get(grade, 0)} found"
            for grade in sorted(expected["grades"] | actual["grades"], key=int)
            if expected["grades"].get(grade, 0) != actual["grades"].get(grade, 0)
        ]
    if wrong:
        raise ContractMismatch(f"{contract.id} is not what its contract {contract.stamp} says: {'; '.join(wrong)}")
