"""Ranked lists in the one canonical order, and relevance judgements, both as arrays.

The order is trec_eval's: score as float32, then document id in byte order, both descending. One function makes it, and
everything that is scored or exported has gone through it. Document ids are kept once, in a table sorted in descending byte
order, so a document is a number (its code) and "the smaller code first" breaks ties.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lexbench.errors import LexbenchError
from lexbench.trec import order
from lexbench.trec.ids import encode, factorize, lookup
from lexbench.types import Hits, Judgement


@dataclass(frozen=True, eq=False)
class Run:
    """The ranked lists of one dataset, in canonical order."""

    query_ids: tuple[str, ...]
    offsets: NDArray[np.int64]  # (queries + 1,) list i is docs[offsets[i]:offsets[i + 1]]
    docs: NDArray[np.int32]  # (entries,) codes into table
    scores: NDArray[np.float32]  # (entries,)
    table: NDArray[np.bytes_]  # (documents,) UTF-8 ids, descending, unique

    def __len__(self) -> int:
        """Return the number of entries over all queries."""
        return len(self.docs)

    @property
    def ranks(self) -> NDArray[np.int64]:
        """Rank of every entry in its list, from 1 (entries,)."""
        return np.arange(1, len(self) + 1) - np.repeat(self.offsets[:-1], np.diff(self.offsets))

    def cut(self, depth: int) -> "Run":
        """Return the run with only the first *depth* entries of each list."""
        return _keep(self, self.ranks <= depth)

    @classmethod
    def from_hits(cls, query_ids: Iterable[str], hits: Hits, table: NDArray[np.bytes_]) -> "Run":
        """Make a run of what a searcher returned: row i is the list of query i, and -1 is no document.

        *table* is the corpus's ids by position. LexbenchError where a score is not finite or a document comes twice.
        """
        query_ids = tuple(query_ids)
        docs, scores = np.asarray(hits.docs), np.asarray(hits.scores)
        if docs.shape != scores.shape or docs.shape[:-1] != (len(query_ids),):
            raise ValueError(f"hits of {len(query_ids)} queries have docs of shape {docs.shape} and scores of {scores.shape}")
        there = docs >= 0
        if docs.size and int(docs.max()) >= len(table):
            raise ValueError(f"hits name position {docs.max()} in a corpus of {len(table)} documents")
        return cls._make(query_ids, there.sum(axis=1), docs[there], scores[there], table)

    @classmethod
    def from_entries(
        cls,
        query_ids: Sequence[str] | NDArray[np.bytes_],
        doc_ids: Sequence[str] | NDArray[np.bytes_],
        scores: ArrayLike,
    ) -> "Run":
        """Make a run of entries in any order, given as three columns of one length (entries,).

        Queries keep the order in which they first appear. LexbenchError where a score is not finite or a (query, document)
        pair comes twice.
        """
        queries = query_ids if isinstance(query_ids, np.ndarray) else encode(query_ids)
        documents = doc_ids if isinstance(doc_ids, np.ndarray) else encode(doc_ids)
        numbers = np.asarray(scores)
        if not len(queries) == len(documents) == len(numbers):
            raise ValueError(f"{len(queries)} query ids, {len(documents)} document ids and {len(numbers)} scores")
        lists = np.flatnonzero(np.append(len(queries) > 0, queries[1:] != queries[:-1]))  # entries where the query id changes
        names = dict.fromkeys(one.decode() for one in queries[lists].tolist())
        code = {name: index for index, name in enumerate(names)}
        of_list = np.array([code[one.decode()] for one in queries[lists].tolist()], dtype=np.int64)
        of_entry = np.repeat(of_list, np.diff(np.append(lists, len(queries))))
        table, docs = factorize(documents)
        if len(lists) > len(names):  # the entries of some query are apart
            grouped = np.argsort(of_entry, kind="stable")
            docs, numbers = docs[grouped], numbers[grouped]
        return cls._make(tuple(names), np.bincount(of_entry, minlength=len(names)), docs, numbers, table)

    @classmethod
    def _make(
        cls,
        query_ids: tuple[str, ...],
        lengths: NDArray[np.integer],
        docs: NDArray[np.integer],
        scores: NDArray[np.generic],
        table: NDArray[np.bytes_],
    ) -> "Run":
        """Make a run of entries grouped by query, checking them and putting each list into the canonical order."""
        offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        with np.errstate(over="ignore"):  # too large for float32 becomes infinite, which is refused below
            rounded = scores.astype(np.float32)
        run = cls(query_ids, offsets, docs.astype(np.int32), rounded, table)
        _refuse(run, ~np.isfinite(rounded), "has a score that is not a finite float32 number", scores)
        entries = np.repeat(np.arange(len(query_ids)), lengths) * max(len(table), 1) + run.docs
        ordered = np.sort(entries)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(twice):
            _refuse(run, entries == twice[0], "is there more than once", scores)
        return replace(run, **order.canonical(offsets, run.docs, rounded)._asdict())


def _refuse(run: Run, wrong: NDArray[np.bool_], why: str, scores: NDArray[np.generic]) -> None:
    """Raise LexbenchError for the first entry that is *wrong*, if one is."""
    if wrong.any():
        entry = int(wrong.argmax())
        query = run.query_ids[int(np.searchsorted(run.offsets, entry, side="right")) - 1]
        document = run.table[run.docs[entry]].decode()
        raise LexbenchError(f"document {document!r} of query {query!r} {why}: {scores[entry]}")


def strictly_decreasing(run: Run) -> NDArray[np.float32]:
    """Return the scores to export (entries,): each below the one before it in its list, lowered as little as that takes.

    Every tool, however it breaks ties, then sees the canonical order. LexbenchError where float32 has no number left.
    """
    return order.strictly_decreasing(run.offsets, run.scores)


class Filtered(NamedTuple):
    """A run without some of its entries."""

    run: Run
    dropped: int  # entries taken out, whether or not the cut would have


def without_self_matches(run: Run, depth: int | None = None) -> Filtered:
    """Take the document whose id equals the query's out of each list, then cut the lists to *depth*.

    Lists get shorter by it, so a search goes one deeper than *depth*.
    """
    own = lookup(run.table, encode(run.query_ids))
    others = run.docs != np.repeat(own, np.diff(run.offsets))
    kept = _keep(run, others)
    return Filtered(kept if depth is None else kept.cut(depth), int(len(run) - others.sum()))


def _keep(run: Run, keep: NDArray[np.bool_]) -> Run:
    offsets = np.concatenate(([0], np.cumsum(keep)))[run.offsets]
    return replace(run, offsets=offsets, docs=run.docs[keep], scores=run.scores[keep])


@dataclass(frozen=True, eq=False)
class Qrels:
    """The judgements of one dataset."""

    query_ids: tuple[str, ...]  # sorted; every one has a judgement
    offsets: NDArray[np.int64]  # (queries + 1,)
    doc_ids: NDArray[np.bytes_]  # (judgements,) sorted within a query
    grades: NDArray[np.int32]  # (judgements,)

    def __len__(self) -> int:
        """Return the number of judgements."""
        return len(self.grades)

    @classmethod
    def from_judgements(cls, judgements: Iterable[Judgement]) -> "Qrels":
        """Gather judgements that come in any order; one that is repeated counts once.

        LexbenchError where a document is judged twice for one query, with different grades.
        """
        by_query: dict[str, dict[str, int]] = {}
        for query_id, doc_id, grade in judgements:
            known = by_query.setdefault(query_id, {}).setdefault(doc_id, grade)
            if known != grade:
                raise LexbenchError(f"document {doc_id!r} of query {query_id!r} is judged twice, {known} and {grade}")
        ordered = {query_id: sorted(by_query[query_id].items()) for query_id in sorted(by_query)}
        offsets = np.concatenate(([0], np.cumsum([len(judged) for judged in ordered.values()], dtype=np.int64)))
        doc_ids = encode(doc_id for judged in ordered.values() for doc_id, _ in judged)
        grades = np.array([grade for judged in ordered.values() for _, grade in judged], dtype=np.int32)
        return cls(tuple(ordered), offsets, doc_ids, grades)

    def judgements(self) -> Iterable[Judgement]:
        """Yield every judgement, by query and then document id, both ascending."""
        queries = np.repeat(np.arange(len(self.query_ids)), np.diff(self.offsets)).tolist()
        for query, doc_id, grade in zip(queries, self.doc_ids.tolist(), self.grades.tolist(), strict=True):
            yield Judgement(self.query_ids[query], doc_id.decode(), grade)
