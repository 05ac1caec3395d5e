"""Whether what was found is what the contract expects, and other questions that cost little to ask of data."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.datasets import digests
from lexbench.datasets.contract import Contract, Expected
from lexbench.datasets.source import Source
from lexbench.errors import ContractMismatch, InvalidFile
from lexbench.trec import ids
from lexbench.types import Judgement, Query

_SAID = {
    "documents": "documents",
    "queries": "judged queries",
    "judgements": "judgements",
    "absent": "judged documents absent from the corpus",
    "corpus_sha256": "SHA-256 of the corpus",
    "queries_sha256": "SHA-256 of the queries",
    "qrels_sha256": "SHA-256 of the judgements",
}


@dataclass(frozen=True)
class Topics:
    """The judged queries of a dataset and their judgements."""

    queries: tuple[Query, ...]  # by ascending bytes of the id; every one has a judgement
    judgements: tuple[Judgement, ...]  # in the order of the source
    unjudged: int  # queries that the source has besides

    @cached_property
    def found(self) -> Expected:
        """What there is, in the words of a contract."""
        return msgspec.structs.replace(found(self.judgements), queries_sha256=digests.queries_sha256(self.queries))

    @property
    def textless(self) -> tuple[str, ...]:
        """The ids of judged queries whose text is empty: they find nothing."""
        return tuple(query.query_id for query in self.queries if not query.text.strip())


def found(judgements: Sequence[Judgement]) -> Expected:
    """Return what *judgements* alone tell, in the words of a contract."""
    grades = Counter(row.grade for row in judgements)
    return Expected(
        queries=len({row.query_id for row in judgements}),
        judgements=len(judgements),
        grades={str(grade): count for grade, count in sorted(grades.items())},
        qrels_sha256=digests.qrels_sha256(judgements),
    )


def read_topics(source: Source) -> Topics:
    """Read the queries and judgements of *source*.

    InvalidFile: a query id or a judged pair twice, or a judgement of a query that has no text anywhere.
    """
    judgements = tuple(source.judgements())
    wanted = {row.query_id for row in judgements}
    every = tuple(source.queries())
    queries = tuple(sorted((query for query in every if query.query_id in wanted), key=lambda query: query.query_id.encode()))
    _refuse_twins([query.query_id for query in queries], "queries have the id")
    _refuse_twins([(row.query_id, row.doc_id) for row in judgements], "judgements are of")
    lost = wanted.difference(query.query_id for query in queries)
    if lost:
        raise InvalidFile(f"{len(lost)} judged queries have no text, as {min(lost)!r}; are queries and qrels of one dataset?")
    return Topics(queries, judgements, len(every) - len(queries))


def _refuse_twins(keys: Sequence[object], what: str) -> None:
    if len(set(keys)) < len(keys):
        twin, _count = Counter(keys).most_common(1)[0]
        raise InvalidFile(f"two {what} {twin!r}")


def absent(judgements: Sequence[Judgement], doc_ids: NDArray[np.bytes_]) -> tuple[str, ...]:
    """Return the judged documents that are not among *doc_ids* (documents,), which are descending; sorted."""
    judged = sorted({row.doc_id for row in judgements})
    found = ids.lookup(doc_ids, ids.encode(judged)) >= 0
    return tuple(doc_id for doc_id, there in zip(judged, found, strict=True) if not there)


def check(contract: Contract, found: Expected) -> None:
    """Raise ContractMismatch, naming both values, where *found* differs from the contract in what both of them give."""
    expected = msgspec.to_builtins(contract.expected)
    actual = msgspec.to_builtins(found)
    wrong = [
        f"{said}: {_short(expected[key])} expected, {_short(actual[key])} found"
        for key, said in _SAID.items()
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


def _short(value: object) -> str:
    """Write a count whole and a digest by its first 16 digits."""
    return str(value)[:16]
