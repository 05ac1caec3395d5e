"""Ranked lists as arrays, in the one canonical order, and their files: TREC's and MS MARCO's.

The order is trec_eval's: score, then document id in byte order, both descending. Run files are ordered by their scores as
double, as trec_eval does since 2023 (tag trec_eval-9.0.8, pull request 38; v10.0), or on request as float32, as it did until
v9.0.8 of 2020, and pytrec_eval 0.5, BEIR and MTEB do. Our own retrievers score in float32. One function makes the order, and
everything that is scored or exported has gone through it. Document ids are kept once, in a table sorted in descending byte
order, so a document is a number (its code) and "the smaller code first" breaks ties.

    TREC run        query Q0 document rank score tag       the rank is ignored: the score decides, as in trec_eval,
                                                           and so is what follows the tag; the tag may be missing.
                                                           Where ranks contradict scores, the run has a remark
    MS MARCO run    query document rank                    the rank decides

What is written holds strictly decreasing scores, so every tool that reads it sees our order. `#` lines are read over and
never written: pytrec_eval, ir_measures and ranx fail on them. A name that ends in `.gz` is read and written compressed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lexbench.errors import InvalidFile, LexbenchError
from lexbench.storage.atomic import writer
from lexbench.trec import order
from lexbench.trec.columns import Kind, first_fields, naming, read_columns
from lexbench.trec.ids import (
    MANY,
    Factors,
    bytes_of,
    changes,
    check_writable,
    encode,
    factorize,
    lookup,
    text_of,
)
from lexbench.trec.run_remarks import against_ranks, remarks
from lexbench.types import Hits

RunFormat = Literal["trec", "msmarco", "scored"]
Precision = Literal["double", "float32"]  # as what scores are kept and compared
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
_TREC: Sequence[Kind] = ("id", "skip", "id", "id", "float", "id")
_RANKED: Sequence[Kind] = ("id", "id", "float")


@dataclass(frozen=True, eq=False)
class Run:
    """The ranked lists of one dataset, in canonical order."""

    query_ids: tuple[str, ...]
    offsets: NDArray[np.int64]  # (queries + 1,) list i is docs[offsets[i]:offsets[i + 1]]
    docs: NDArray[np.int32]  # (entries,) codes into table
    scores: NDArray[np.floating]  # (entries,) float32, or float64 of a run file
    table: NDArray[np.bytes_]  # (documents,) UTF-8 ids, descending, unique
    remarks: tuple[str, ...] = ()  # what readers must know of the file that it was read from

    def __len__(self) -> int:
        """Return the number of entries over all queries."""
        return len(self.docs)

    @property
    def ranks(self) -> NDArray[np.int64]:
        """Rank of every entry in its list, from 1 (entries,)."""
        return np.arange(1, len(self) + 1) - np.repeat(self.offsets[:-1], np.diff(self.offsets))

    @property
    def precision(self) -> Precision:
        """As what the scores were compared."""
        return "double" if self.scores.dtype == np.float64 else "float32"

    def as_float32(self) -> "Run":
        """Return the run in the order of its scores rounded to float32; LexbenchError where one is beyond float32."""
        return self if self.precision == "float32" else _ordered(self, "float32")

    def scored(self, scores: NDArray[np.floating]) -> "Run":
        """Return the run with other *scores* (entries,), finite ones, and its lists in the order of these."""
        return replace(self, **order.canonical(self.offsets, self.docs, scores)._asdict())

    def cut(self, depth: int) -> "Run":
        """Return the run with only the first *depth* entries of each list."""
        return kept(self, self.ranks <= depth)

    @classmethod
    def from_hits(cls, query_ids: Iterable[str], hits: Hits, table: NDArray[np.bytes_]) -> "Run":
        """Make a run of what a searcher returned: row i is the list of query i, and -1 is no document.

        *table* is the corpus's ids by position. LexbenchError where a score is not finite or a document comes twice.
        """
        query_ids = tuple(query_ids)
        docs, scores = np.asarray(hits.docs), np.asarray(hits.scores)
        if docs.shape != scores.shape or docs.shape[:-1] != (len(query_ids),):
            raise ValueError(f"hits of {len(query_ids)} queries have docs of shape {docs.shape} and scores of {scores.shape}")
        present = docs >= 0
        if docs.size and int(docs.max()) >= len(table):
            raise ValueError(f"hits name position {docs.max()} in a corpus of {len(table)} documents")
        return cls._make(query_ids, present.sum(axis=1), docs[present], scores[present], table)

    @classmethod
    def from_entries(
        cls,
        query_ids: Sequence[str] | NDArray[np.bytes_],
        doc_ids: Sequence[str] | NDArray[np.bytes_],
        scores: ArrayLike,
        precision: Precision = "float32",
    ) -> "Run":
        """Make a run of entries in any order, given as three columns of one length (entries,).

        Scores are compared, and kept, in that *precision*. Queries keep the order in which they first appear. LexbenchError
        where a score is not finite or a (query, document) pair comes twice.
        """
        queries = query_ids if isinstance(query_ids, np.ndarray) else encode(query_ids)
        documents = doc_ids if isinstance(doc_ids, np.ndarray) else encode(doc_ids)
        numbers = np.asarray(scores)
        if not len(queries) == len(documents) == len(numbers):
            raise ValueError(f"{len(queries)} query ids, {len(documents)} document ids and {len(numbers)} scores")
        lists = changes(queries)
        return cls.from_lists(queries[lists].tolist(), lists, factorize(documents), numbers, precision)

    @classmethod
    def from_lists(
        cls, queries: Sequence[bytes], starts: NDArray[np.int64], documents: Factors, scores: NDArray[Any], precision: Precision
    ) -> "Run":
        """Make a run of *documents* and *scores* (entries,): from starts[i] up to the next start they are of queries[i]."""
        names = dict.fromkeys(map(text_of, queries))
        docs, lengths = documents.codes, np.diff(np.append(starts, len(scores)))
        if len(queries) > len(names):  # the entries of some query are apart
            code = {name: index for index, name in enumerate(names)}
            of_list = np.array([code[text_of(name)] for name in queries], dtype=np.int64)
            grouped = np.argsort(np.repeat(of_list, lengths), kind="stable")
            docs, scores = docs[grouped], scores[grouped]
            lengths = np.bincount(of_list, lengths).astype(np.int64)
        return cls._make(tuple(names), lengths, docs, scores, documents.table, precision)

    @classmethod
    def _make(
        cls,
        query_ids: tuple[str, ...],
        lengths: NDArray[np.integer],
        docs: NDArray[np.integer],
        scores: NDArray[Any],
        table: NDArray[np.bytes_],
        precision: Precision = "float32",
    ) -> "Run":
        """Make a run of entries grouped by query, checking them and putting each list into the canonical order."""
        offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        run = cls(query_ids, offsets, docs.astype(np.int32), scores, table)
        if _may_be_twice(run):
            _refuse_twice(run)
        return _ordered(run, precision)


def _ordered(run: Run, precision: Precision) -> Run:
    """Return *run* with scores of that precision, its lists in the order of these."""
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite, which is refused
        scores: NDArray[np.floating] = run.scores.astype(np.float64 if precision == "double" else np.float32)
    kind = "number" if precision == "double" else "float32 number"
    _refuse(run, ~np.isfinite(scores), f"has a score that is not a finite {kind}")
    return replace(run, **order.canonical(run.offsets, run.docs, scores)._asdict())


def _may_be_twice(run: Run) -> bool:
    """Tell whether a list may have a document twice; False where a compiled loop saw that none has."""
    if len(run) < MANY:
        return True
    from lexbench.trec import scan

    return bool(scan.any_twice(run.offsets, run.docs, len(run.table)))


def _refuse_twice(run: Run) -> None:
    """Raise LexbenchError for a document that a list has twice."""
    entries = np.repeat(np.arange(len(run.query_ids)), np.diff(run.offsets)) * max(len(run.table), 1) + run.docs
    ordered = np.sort(entries)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        _refuse(run, entries == twice[0], "is there more than once")


def _refuse(run: Run, wrong: NDArray[np.bool_], why: str) -> None:
    """Raise LexbenchError for the first entry that is *wrong*, if one is."""
    if wrong.any():
        entry = int(wrong.argmax())
        query = run.query_ids[int(np.searchsorted(run.offsets, entry, side="right")) - 1]
        document = text_of(run.table[run.docs[entry]])
        raise LexbenchError(f"document {document!r} of query {query!r} {why}: {run.scores[entry]}")


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
    self_matches = lookup(run.table, encode(run.query_ids))
    others = run.docs != np.repeat(self_matches, np.diff(run.offsets))
    filtered = kept(run, others)
    return Filtered(filtered if depth is None else filtered.cut(depth), int(len(run) - others.sum()))


def kept(run: Run, keep: NDArray[np.bool_]) -> Run:
    """Return the run with only the entries *keep* (entries,), each list in its order."""
    offsets = np.concatenate(([0], np.cumsum(keep)))[run.offsets]
    return replace(run, offsets=offsets, docs=run.docs[keep], scores=run.scores[keep])


def read_run(path: Path, layout: RunFormat | None = None, precision: Precision = "double") -> Run:
    """Read a run; *layout* is told by the number of columns where it is not given. Scores are compared in that *precision*.

    A file of three columns is MS MARCO's (query, document, rank) if the third counts 1, 2, 3, … in every list. Other tools
    write (query, document, score) in the same shape; such a file must be asked for, as "scored". InvalidFile otherwise, and
    where the third column counts down in every list, as scores that are ranks from behind do.
    """
    first = first_fields(path)
    if layout in ("msmarco", "scored") or (layout is None and len(first) == len(_RANKED)):
        return _read_ranked(path, layout, precision)
    tagged = not _has_no_tag(first)
    queries, documents, ranks, scores, *tags = read_columns(path, _TREC if tagged else _TREC[:-1], more=tagged)
    with naming(path):
        run = Run.from_entries(queries, documents, scores, precision)
    every = [*tags[0][:1].tolist(), *np.unique(tags[0][tags[0] != tags[0][:1]]).tolist()] if tags else []
    return replace(run, remarks=tuple(remarks(against_ranks(queries, ranks, scores), len(run.query_ids), every)))


def _read_ranked(path: Path, layout: RunFormat | None, precision: Precision) -> Run:
    """Read a run of three columns; None is MS MARCO's layout where that was not asked for."""
    queries, documents, numbers = read_columns(path, _RANKED)
    falls = (numbers[1:] < numbers[:-1])[queries[1:] == queries[:-1]]
    counts_down = layout is None and len(falls) > 0 and bool(falls.all())
    with naming(path):
        run = Run.from_entries(queries, documents, numbers if layout == "scored" else -numbers, precision)
    if layout != "scored" and (counts_down or not np.array_equal(-run.scores, run.ranks)):
        raise InvalidFile(
            f"{path}: the third column is not the rank (1, 2, 3, … in every list); if it is a score, write TREC's six columns, "
            "or call read_run(…, 'scored')"
        )
    return run


def _has_no_tag(fields: Sequence[bytes]) -> bool:
    """Whether a line is of five columns, query Q0 document rank score: trec_eval refuses it, but it can be read in one way."""
    return len(fields) == len(_TREC) - 1 and fields[1].upper() in (b"Q0", b"0") and fields[3].isdigit()


def write_run(run: Run, path: Path, tag: str = "lexbench") -> None:
    """Write a TREC run: ranks from 1, scores strictly decreasing as float32 numbers and as the text that is written."""
    check_writable(encode([tag]), "tag")
    scores, end = strictly_decreasing(run), tag.encode()
    line = b"%b Q0 %b %d %.9g %b\n"  # nine digits tell any two float32 numbers apart
    with writer(path) as file:
        for query, documents, part in _lists(run):
            ranked = enumerate(zip(documents, scores[part].tolist(), strict=True), 1)
            file.write(b"".join(line % (query, document, rank, score, end) for rank, (document, score) in ranked))


def write_msmarco_run(run: Run, path: Path) -> None:
    """Write an MS MARCO run: query, document and rank, set apart by tabs."""
    with writer(path) as file:
        for query, documents, _ in _lists(run):
            file.write(b"".join(b"%b\t%b\t%d\n" % (query, document, rank) for rank, document in enumerate(documents, 1)))


def _lists(run: Run) -> Iterator[tuple[bytes, list[bytes], slice]]:
    """Yield the id, the document ids in order and the entries of each query, once all of them are known to be writable."""
    check_writable(encode(run.query_ids), "query id")
    used = np.zeros(len(run.table), dtype=bool)
    used[run.docs] = True
    check_writable(run.table[used], "document id")
    for query, start, stop in zip(run.query_ids, run.offsets[:-1].tolist(), run.offsets[1:].tolist(), strict=True):
        yield bytes_of(query), run.table[run.docs[start:stop]].tolist(), slice(start, stop)
