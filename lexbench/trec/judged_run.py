"""A run joined with its judgements, once for all measures.

Measures need no unjudged document, only the ranks of the judged ones. So only the judged documents of each list are kept: a few
per thousand entries. The depth of the run costs nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.trec.ids import lookup, text_of
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Filtered, Run, kept, untied


class DocumentTokens(NamedTuple):
    """The numbers of tokens of documents."""

    ids: NDArray[np.bytes_]  # (documents,) descending, like a run's table
    counts: Mapping[str, NDArray[np.int64]]  # (documents,) by tokenizer

    def counted(self, tokenizer: str, ids: NDArray[np.bytes_]) -> NDArray[np.int64]:
        """Return the tokens of documents (n,), -1 for those that are not in the corpus."""
        places = lookup(self.ids, ids)
        return np.where(places >= 0, self.counts[tokenizer][places], -1)


@dataclass(frozen=True, eq=False)
class JudgedRun:
    """The judged documents in the ranked lists, by query and then rank. The queries are those of the qrels, in their order."""

    query_ids: tuple[str, ...]
    retrieved: NDArray[np.int64]  # (queries,) length of each list; 0 if the run does not have the query
    query: NDArray[np.int64]  # (found,) index into query_ids, ascending; found: judged documents in the lists
    rank: NDArray[np.int64]  # (found,) from 1, ascending within a query
    grade: NDArray[np.int32 | np.float64]  # (found,)
    entry: NDArray[np.int64]  # (found,) index into the run's entries
    judged_query: NDArray[np.int64]  # (judgements,) found or not; by query and then grade, the best first
    judged_grade: NDArray[np.int32 | np.float64]  # (judgements,)
    run: Run
    judged_ids: NDArray[np.bytes_]  # (judgements,) in the same order
    tokens: DocumentTokens | None = None  # for measures with a budget of tokens

    def fitting(self, budget: int, tokenizer: str) -> NDArray[np.bool_]:
        """Return a mask (found,) of documents that fit into a *budget* of tokens with all that come before them.

        Raises LexbenchError if a document of the run is not in the corpus.
        """
        counts = self._tokens(tokenizer, self.run.table)[self.run.docs]
        if (counts < 0).any():
            unknown = text_of(self.run.table[self.run.docs[int((counts < 0).argmax())]])
            raise LexbenchError(f"document {unknown!r} of the run is not in the corpus, so nobody knows how many tokens it has")
        total = np.append(0, np.cumsum(counts))
        starts = np.repeat(self.run.offsets[:-1], np.diff(self.run.offsets))[self.entry]
        return np.asarray(total[self.entry + 1] - total[starts] <= budget)

    def most_fitting(self, budget: int, tokenizer: str) -> NDArray[np.int64]:
        """Return for each query (queries,) how many judged documents of a grade above 0 fit at most, the shortest first."""
        counts = self._tokens(tokenizer, self.judged_ids)
        able = (self.judged_grade > 0) & (counts >= 0)
        query, counts = self.judged_query[able], counts[able]
        order = np.lexsort((counts, query))
        total = np.append(0, np.cumsum(counts[order]))
        starts = np.searchsorted(query[order], query[order])
        fits = total[1:] - total[starts] <= budget
        return np.bincount(query[order][fits], minlength=len(self.query_ids))

    def ideal(self, most: float | NDArray[np.int64]) -> NDArray[np.float64]:
        """Return for each query (queries,) the discounted gain of its *most* judged documents, the best first."""
        query = self.judged_query
        rank = np.arange(1, len(query) + 1) - np.searchsorted(query, query)
        first = rank <= np.broadcast_to(most, len(self.query_ids))[query]
        gain = np.maximum(self.judged_grade, 0) / np.log2(rank + 1)
        return np.bincount(query[first], gain[first], minlength=len(self.query_ids)).astype(np.float64)

    def _tokens(self, tokenizer: str, ids: NDArray[np.bytes_]) -> NDArray[np.int64]:
        if self.tokens is None or tokenizer not in self.tokens.counts:
            raise LexbenchError("a budget of tokens takes the documents; name the dataset that has them with -d")
        return self.tokens.counted(tokenizer, ids)

    def sum(self, mask: NDArray[np.bool_], values: NDArray[np.floating] | None = None) -> NDArray[np.float64]:
        """Return for each query (queries,) the number of documents in *mask* (found,), or the sum of their *values*."""
        weights = None if values is None else values[mask]
        return np.bincount(self.query[mask], weights, minlength=len(self.query_ids)).astype(np.float64)

    def relevant(self, rel: float) -> NDArray[np.float64]:
        """Return for each query (queries,) the number of documents of grade *rel* or better, found or not."""
        queries = self.judged_query[self.judged_grade >= rel]
        return np.bincount(queries, minlength=len(self.query_ids)).astype(np.float64)

    def within(self, cutoff: int | None, rel: float | None = None) -> NDArray[np.bool_]:
        """Return a mask (found,) of documents among the first *cutoff* of their list and of grade *rel* or better."""
        mask = np.ones(len(self.rank), dtype=bool) if cutoff is None else self.rank <= cutoff
        return mask if rel is None else mask & (self.grade >= rel)

    def tied_ranks(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first and the last rank (found,) of the documents whose scores tie with each judged document."""
        starts = np.flatnonzero(untied(self.run))
        stops = np.append(starts[1:], len(self.run))
        group = np.searchsorted(starts, self.entry, side="right") - 1
        before = self.run.offsets[np.searchsorted(self.run.offsets, self.entry, side="right") - 1]
        return starts[group] - before + 1, stops[group] - before

    def reordered(self, rank: NDArray[np.int64]) -> "JudgedRun":
        """Return the same documents at the ranks *rank* (found,)."""
        by_rank = np.lexsort((rank, self.query))
        return replace(self, rank=rank[by_rank], grade=self.grade[by_rank], entry=self.entry[by_rank])


def ratio(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide, with x / 0 = 0: a query without relevant documents scores 0, as in trec_eval."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def judged_queries(run: Run, qrels: Qrels) -> NDArray[np.int64]:
    """Return for each list of *run* the index of its query in *qrels* (lists,), -1 if it is not judged."""
    index = {query_id: number for number, query_id in enumerate(qrels.query_ids)}
    return np.array([index.get(query_id, -1) for query_id in run.query_ids], dtype=np.int64)


def join(run: Run, qrels: Qrels, depth: int | None = None, tokens: DocumentTokens | None = None) -> JudgedRun:
    """Find the judged documents in the first *depth* entries (default: all) of each list of *run*."""
    queries = judged_queries(run, qrels)
    retrieved = np.zeros(len(qrels.query_ids), np.int64)
    retrieved[queries[queries >= 0]] = np.diff(run.offsets)[queries >= 0]

    # Judgements and entries become integers, one for each (query, document), so that a search in sorted keys joins them.
    judged_query = np.repeat(np.arange(len(qrels.query_ids)), np.diff(qrels.offsets))
    codes = lookup(run.table, qrels.doc_ids)
    in_table = np.flatnonzero(codes >= 0)
    keys = judged_query[in_table] * len(run.table) + codes[in_table]
    by_key = np.argsort(keys)
    judged = np.zeros(len(run.table), dtype=bool)
    judged[codes[in_table]] = True
    entry = np.flatnonzero(judged[run.docs])
    if depth is not None:
        entry = entry[run.ranks[entry] <= depth]
    lists = np.searchsorted(run.offsets, entry, side="right") - 1
    entry_keys = queries[lists] * len(run.table) + run.docs[entry]  # negative, unlike all keys, if not judged
    match = by_key[np.minimum(np.searchsorted(keys, entry_keys, sorter=by_key), len(keys) - 1)]

    found = np.flatnonzero(keys[match] == entry_keys)
    found = found[np.argsort(queries[lists[found]], kind="stable")]  # entries of a query come in rank order already
    by_grade = np.lexsort((-qrels.grades, judged_query))
    return JudgedRun(
        query_ids=qrels.query_ids,
        retrieved=retrieved,
        query=queries[lists[found]],
        rank=entry[found] - run.offsets[lists[found]] + 1,
        grade=qrels.grades[in_table[match[found]]],
        entry=entry[found],
        judged_query=judged_query,
        judged_grade=qrels.grades[by_grade],
        run=run,
        judged_ids=qrels.doc_ids[by_grade],
        tokens=tokens,
    )


def without_grade(run: Run, qrels: Qrels, grade: int) -> Filtered:
    """Return the run without documents whose judgement for the query is *grade*."""
    judged = join(run, qrels)
    keep = np.ones(len(run), dtype=bool)
    keep[judged.entry[judged.grade == grade]] = False
    return Filtered(kept(run, keep), int(np.count_nonzero(~keep)))
