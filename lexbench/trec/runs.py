"""Ranked lists as arrays in canonical order, and run files of TREC and MS MARCO.

The order is trec_eval's: score, then document id in byte order, both descending. Scores of run files are compared as double,
like trec_eval since 2023 (tag trec_eval-9.0.8, pull request 38; v10.0). On request they are compared as float32, like trec_eval
until v9.0.8 of 2020, pytrec_eval 0.5, BEIR and MTEB. Our own retrievers score in float32. Everything that is scored or exported
has been put into this order.

    TREC run        query Q0 document rank score tag       The score decides, not the rank, as in trec_eval. The tag may be
                                                           missing; text after it is ignored. If ranks contradict the
                                                           scores, the run has a note.
    MS MARCO run    query document rank                    The rank decides. It counts from 1, or from 0.
    scored run      query document score                   The score decides. It falls in every list.
    ColBERT run     query document rank score [tag]        The rank counts, and the score falls with it, in every list.
    tables          columns with names: see `lexbench.trec.run_tables`

Lines of several runs may be in one file: each has its own tag.

Written scores decrease strictly, so every tool that reads them sees our order. Comments (`#`) are skipped above the first line
of data and never written, because pytrec_eval, ir_measures and ranx fail on them. A file whose name ends in `.gz` is written
compressed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lexbench.errors import InvalidFile, LexbenchError, UnknownName, listed
from lexbench.storage.atomic import writer
from lexbench.storage.rows import TABLES, ending
from lexbench.trec.columns import ITERATION, NOTHING, Beginning, Kind, beginning, errors_name, read_columns
from lexbench.trec.ids import bytes_of, check_writable, encode, factorize, lookup, text_of
from lexbench.trec.qrels import is_table
from lexbench.trec.run_tables import RunColumns, has_names, read_run_table, unknown_names
from lexbench.types import Hits

RunFormat = Literal["trec", "msmarco", "scored", "colbert", "table", "ranx"]
Precision = Literal["double", "float32"]  # in which scores are kept and compared
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
_TREC: Sequence[Kind] = ("id", "skip", "id", "id", "float", "id")
_RANKED: Sequence[Kind] = ("id", "id", "float")
_COLBERT: Sequence[Kind] = ("id", "id", "float", "float", "id")  # the tag may be missing
_SHAPES: Mapping[int, Sequence[Kind]] = {len(kinds): kinds for kinds in (_TREC, _TREC[:-1], _RANKED, _COLBERT[:-1])}  # of lines
_MEASURE = re.compile(rb"(?i)(n?dcg|g?m?_?map|ap|m?rr|p|r|rprec|recall|recip_rank|bpref|success|judged|num_\w+)([@_(].*)?")
_LISTED = 4  # tags in a message
_RISING = 5  # lines whose score is higher than that of the line above, so many that they are no accident


@dataclass(frozen=True, eq=False)
class Run:
    """The ranked lists of one dataset, in canonical order."""

    query_ids: tuple[str, ...]
    offsets: NDArray[np.int64]  # (queries + 1,) list i is docs[offsets[i]:offsets[i + 1]]
    docs: NDArray[np.int32]  # (entries,) codes into table
    scores: NDArray[np.floating]  # (entries,) float32, or float64 if read from a run file
    table: NDArray[np.bytes_]  # (documents,) UTF-8 ids, descending, unique
    notes: tuple[str, ...] = ()  # about the file that the run was read from

    def __len__(self) -> int:
        """Return the number of entries over all queries."""
        return len(self.docs)

    @property
    def ranks(self) -> NDArray[np.int64]:
        """Rank of every entry in its list, from 1 (entries,)."""
        return np.arange(1, len(self) + 1) - np.repeat(self.offsets[:-1], np.diff(self.offsets))

    @property
    def precision(self) -> Precision:
        """The precision in which scores were compared."""
        return "double" if self.scores.dtype == np.float64 else "float32"

    def as_float32(self) -> "Run":
        """Return the run ordered by scores rounded to float32. Raises LexbenchError if a score is beyond float32."""
        return self if self.precision == "float32" else _ordered(self, "float32")

    def cut(self, depth: int) -> "Run":
        """Return the run with only the first *depth* entries of each list."""
        return kept(self, self.ranks <= depth)

    def spans(self) -> Iterator[tuple[str, slice]]:
        """Yield each query with the slice of its entries."""
        for query, start, stop in zip(self.query_ids, self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True):
            yield query, slice(start, stop)

    def doc_ids(self, entries: slice) -> list[str]:
        """Return the ids of the documents of these *entries*, in order."""
        return list(map(text_of, self.table[self.docs[entries]].tolist()))

    @classmethod
    def from_hits(cls, query_ids: Iterable[str], hits: Hits, table: NDArray[np.bytes_]) -> "Run":
        """Make a run from a searcher's hits: row i is the list of query i, and -1 is no document.

        *table* has the ids of the corpus by position. Raises LexbenchError for an unknown position, a score that is not finite,
        or a repeated document.
        """
        query_ids = tuple(query_ids)
        docs, scores = np.asarray(hits.docs), np.asarray(hits.scores)
        if docs.shape != scores.shape or docs.shape[:-1] != (len(query_ids),):
            raise ValueError(f"hits of {len(query_ids)} queries have docs of shape {docs.shape} and scores of {scores.shape}")
        present = docs >= 0
        if docs.size and not -1 <= int(docs.min()) <= int(docs.max()) < len(table):
            wrong = docs.max() if docs.max() >= len(table) else docs.min()
            raise LexbenchError(
                f"a search found position {wrong} in a corpus of {len(table):,} documents; -1 stands for no document"
            )
        return cls._make(query_ids, present.sum(axis=1), docs[present], scores[present], table)

    @classmethod
    def from_entries(
        cls,
        query_ids: Sequence[str] | NDArray[np.bytes_],
        doc_ids: Sequence[str] | NDArray[np.bytes_],
        scores: ArrayLike,
        precision: Precision = "float32",
    ) -> "Run":
        """Make a run from entries in any order, given as three columns of one length (entries,).

        Scores are kept and compared in *precision*. Queries keep the order of their first appearance. Raises LexbenchError if a
        score is not finite or a (query, document) pair is repeated.
        """
        queries = query_ids if isinstance(query_ids, np.ndarray) else encode(query_ids)
        documents = doc_ids if isinstance(doc_ids, np.ndarray) else encode(doc_ids)
        numbers = np.asarray(scores)
        if not len(queries) == len(documents) == len(numbers):
            raise ValueError(f"{len(queries)} query ids, {len(documents)} document ids and {len(numbers)} scores")
        starts = np.flatnonzero(np.append(len(queries) > 0, queries[1:] != queries[:-1]))  # of entries with one query
        name_of_part = [text_of(name) for name in queries[starts].tolist()]
        names = dict.fromkeys(name_of_part)
        table, docs = factorize(documents)
        lengths = np.diff(np.append(starts, len(numbers)))
        if len(starts) > len(names):  # the entries of some query are not together: bring them together
            code = {name: index for index, name in enumerate(names)}
            list_of_part = np.array([code[name] for name in name_of_part], dtype=np.int64)
            grouped = np.argsort(np.repeat(list_of_part, lengths), kind="stable")
            docs, numbers = docs[grouped], numbers[grouped]
            lengths = np.bincount(list_of_part, lengths).astype(np.int64)
        return cls._make(tuple(names), lengths, docs, numbers, table, precision)

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
        """Make a run from entries grouped by query: check them and put each list into canonical order."""
        offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        run = cls(query_ids, offsets, docs.astype(np.int32), scores, table)
        keys = np.repeat(np.arange(len(query_ids)), np.diff(offsets)) * max(len(table), 1) + run.docs
        ordered = np.sort(keys)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(twice):
            _refuse(run, keys == twice[0], "is there more than once")
        return _ordered(run, precision)


def _ordered(run: Run, precision: Precision) -> Run:
    """Return *run* with its scores in *precision* and its lists in canonical order."""
    with np.errstate(over="ignore"):  # a score too large for float32 becomes infinite, which is refused
        scores: NDArray[np.floating] = run.scores.astype(np.float64 if precision == "double" else np.float32)
    kind = "number" if precision == "double" else "float32 number"
    _refuse(run, ~np.isfinite(scores), f"has a score that is not a finite {kind}")
    docs, scores = canonical(run.offsets, run.docs, scores)
    return replace(run, docs=docs, scores=scores)


def _refuse(run: Run, wrong: NDArray[np.bool_], why: str) -> None:
    """Raise LexbenchError about the first *wrong* entry, if there is one."""
    if wrong.any():
        entry = int(wrong.argmax())
        query = run.query_ids[int(np.searchsorted(run.offsets, entry, side="right")) - 1]
        document = text_of(run.table[run.docs[entry]])
        raise LexbenchError(f"document {document!r} of query {query!r} {why}: {run.scores[entry]}")


class Filtered(NamedTuple):
    """A run without some of its entries."""

    run: Run
    dropped: int  # entries taken out, counted before any cut


def without_self_matches(run: Run, depth: int | None = None) -> Filtered:
    """Return the run without documents that have the id of their query, with lists cut to *depth*.

    Lists may become one entry shorter, so search one deeper than *depth*.
    """
    self_matches = lookup(run.table, encode(run.query_ids))
    others = run.docs != np.repeat(self_matches, np.diff(run.offsets))
    filtered = kept(run, others)
    return Filtered(filtered if depth is None else filtered.cut(depth), int(len(run) - others.sum()))


def kept(run: Run, keep: NDArray[np.bool_]) -> Run:
    """Return the run with only the entries marked in *keep* (entries,), in their order."""
    offsets = np.concatenate(([0], np.cumsum(keep)))[run.offsets]
    return replace(run, offsets=offsets, docs=run.docs[keep], scores=run.scores[keep])


def max_passage(run: Run, mark: str) -> Run:
    """Return a run of documents from one of passages: each document has the score of its best passage (MaxP).

    The id of a passage is that of its document, *mark* and a number or name, e.g. `d7#2` with the mark `#`; the last mark
    counts. An id without it is a document. A note says how many passages each list had. Raises LexbenchError if no id has the
    mark. Dai and Callan, SIGIR 2019; Pyserini's `--max-passage`.
    """
    separator = bytes_of(mark)
    names = [name.rpartition(separator)[0] or name if separator else name for name in run.table.tolist()]
    marked = sum(separator in name for name in run.table.tolist()) if separator else 0
    if not marked:
        like = f"; its ids look like {text_of(run.table[run.docs[0]])!r}" if len(run) else ""
        raise LexbenchError(f"no document id of the run has {mark!r} in it, which would separate document and passage{like}")
    table, codes = factorize(np.array(names, np.bytes_))
    docs, lists = codes[run.docs], np.repeat(np.arange(len(run.query_ids)), np.diff(run.offsets))
    first = np.zeros(len(run), dtype=bool)  # the best passage of a document comes first in its list
    first[np.unique(lists * len(table) + docs, return_index=True)[1]] = True
    best = kept(replace(run, docs=docs, table=table), first)
    passages, documents = (np.diff(one.offsets).mean() for one in (run, best))
    note = f"its lists have {documents:.0f} documents on average, from {passages:.0f} passages; the best passage of each counts"
    return replace(_ordered(best, run.precision), notes=(*run.notes, note))


def read_run(path: Path, layout: RunFormat | None = None, precision: Precision = "double") -> Run:
    """Read the only run of a file, or the run "FILE#TAG" of several in one file. See `read_runs`.

    A file whose lines have several tags is one run, with a note, unless a document is repeated. Raises InvalidFile if it has
    several runs, and names them.
    """
    file, tag = typed_run(path)
    columns = _read_columns(file, layout)
    if tag is None:
        with errors_name(file):
            try:
                return columns.run(precision)
            except LexbenchError:
                if len(tags := columns.tags()) > 1:
                    several = f"{len(tags)} runs, by their tags {listed(tags, _LISTED)}"
                    raise InvalidFile(f"{file} has {several}; choose one: {quote(f'{file}#{tags[0]}')}") from None
                raise
    runs = _by_tag(file, columns, precision)
    if tag not in runs:
        raise UnknownName(f"run in {file}:", tag, runs)
    return runs[tag]


def read_by_rank(path: Path) -> Run | None:
    """Return the run of a TREC file in the order of its ranks, whatever the scores; None if its ranks are no numbers."""
    file, tag = typed_run(path)
    columns = _read_columns(file, None)
    columns = columns.only(tag) if tag is not None else columns
    if not len(columns.ranks):
        return None
    with suppress(ValueError, LexbenchError):
        return columns._replace(scores=-columns.ranks.astype(np.float64)).run("double")
    return None


def read_runs(path: Path, precision: Precision = "double") -> dict[str, Run]:
    """Return the runs of a file by their tags; an only run has the tag "".

    The file is a run of TREC, MS MARCO or ColBERT, or a table (see `lexbench.trec.run_tables`); it may be compressed. Without
    names of columns, a file of three columns is MS MARCO's (query, document, rank) if the third counts 1, 2, 3, ... in every
    list, and otherwise has scores; "FILE#TAG" is one of its runs. Raises InvalidFile if it is malformed, UnknownName for the
    tag.
    """
    file, tag = typed_run(path)
    if tag is not None:
        return {tag: read_run(path, precision=precision)}
    columns = _read_columns(file, None)
    return _by_tag(file, columns, precision) if len(columns.tags()) > 1 else {"": read_run(file, precision=precision)}


def typed_run(path: Path) -> tuple[Path, str | None]:
    """Return the file of a run and, for "FILE#TAG", the tag of one of its runs."""
    name, mark, tag = str(path).rpartition("#")
    return (path, None) if not mark or path.exists() else (Path(name), tag)


class _Columns(NamedTuple):
    """The columns of a run file (entries,); *ranks* and *tag* are empty if there are none."""

    queries: NDArray[np.bytes_]
    documents: NDArray[np.bytes_]
    scores: NDArray[np.float64]
    ranks: NDArray[np.bytes_]
    tag: NDArray[np.bytes_]

    def tags(self) -> list[str]:
        """Return the different tags, in the order of the file."""
        first = np.unique(self.tag, return_index=True)[1]
        return [text_of(self.tag[at]) for at in np.sort(first)]

    def only(self, tag: str) -> "_Columns":
        """Return the entries with this tag, without it."""
        marked = self.tag == bytes_of(tag)
        ranks = self.ranks[marked] if len(self.ranks) else self.ranks
        return _Columns(self.queries[marked], self.documents[marked], self.scores[marked], ranks, self.tag[:0])

    def run(self, precision: Precision) -> Run:
        """Return the entries as one run. Raises LexbenchError if a document is repeated, or for a score that is not finite."""
        run = Run.from_entries(self.queries, self.documents, self.scores, precision)
        return replace(run, notes=tuple(_notes(len(run.query_ids), self)))


def run_of(table: RunColumns, precision: Precision = "double") -> Run:
    """Return the entries of rows with names as one run, with its notes.

    Raises LexbenchError if a document is repeated, or for a score that is not finite.
    """
    return _of_table(table).run(precision)


def _of_table(table: RunColumns) -> _Columns:
    queries, documents, ranks, tags = map(encode, (table.queries, table.documents, table.ranks, table.tags))
    return _Columns(queries, documents, np.array(table.scores, float), ranks, tags)


def _by_tag(file: Path, columns: _Columns, precision: Precision) -> dict[str, Run]:
    with errors_name(file):
        return {tag: columns.only(tag).run(precision) for tag in columns.tags()}


def _read_columns(path: Path, layout: RunFormat | None) -> _Columns:
    """Return the columns of a run file. Without *layout*, the names or the number of columns decide."""
    table = layout in ("table", "ranx") or (layout is None and is_table(path))
    begin = NOTHING if table else beginning(path, _SHAPES)
    first = begin.fields
    if table or (layout is None and has_names(begin)):
        if not table and not begin.tabs and ending(path) not in TABLES:
            raise InvalidFile(
                f"{path}:{begin.number}: blanks separate names of columns; remove this line, or separate columns by tabs"
            )
        return _of_table(read_run_table(path, ".json" if layout == "ranx" else ""))
    if layout is None and (unknown := unknown_names(begin)):
        names = f"names that are not known: {', '.join(unknown)}; call them query_id, doc_id, and score or rank"
        raise InvalidFile(f"{path}:{begin.number}: the first line has {names}")
    if layout in ("msmarco", "scored") or (layout is None and len(first) == len(_RANKED)):
        return _read_ranked(path, layout)
    # trec_eval refuses the five columns query Q0 document rank score, but they are unambiguous.
    untagged = len(first) == len(_TREC) - 1
    tagged = not (untagged and first[1] in ITERATION and first[3].isdigit())
    unmarked = len(first) == len(_COLBERT) - 1 or (untagged and first[1] not in ITERATION)
    if layout == "colbert" or (layout is None and unmarked):
        return _read_colbert(path, begin)
    try:
        queries, documents, ranks, numbers, *tags = read_columns(path, _TREC if tagged else _TREC[:-1], begin, more=tagged)
    except InvalidFile as error:
        raise InvalidFile(
            f"{error}; a line of a run is: query Q0 document rank score tag; a table has names of columns in its first line"
        ) from None
    return _Columns(queries, documents, numbers, ranks, tags[0] if tags else queries[:0])


def _read_ranked(path: Path, layout: RunFormat | None) -> _Columns:
    """Return the columns of a run of three. With *layout* None, they are MS MARCO's if the third counts 1, 2, 3, ..."""
    try:
        queries, documents, numbers = read_columns(path, _RANKED)
    except InvalidFile as error:
        raise InvalidFile(f"{error}; a table has names of columns in its first line") from None
    ranked = layout != "scored" and _are_ranks(queries, numbers)
    falls = (numbers[1:] <= numbers[:-1])[queries[1:] == queries[:-1]]
    if ranked and not layout and len(falls) and falls.all():
        raise InvalidFile(
            f"{path}: the third column counts down to {numbers.min():.0f} in every list, so it may be a score or a rank; "
            f"convert the file first: lexbench import scored {quote(str(path))} NEW, or import msmarco if it is a rank"
        )
    if not ranked and layout != "scored" and (layout or not len(falls) or not falls.all()):
        if _MEASURE.fullmatch(queries[0]) or _MEASURE.fullmatch(documents[0]):
            raise InvalidFile(f"{path}: these are values of measures per query, and no run; give the file that was evaluated")
        raise InvalidFile(
            f"{path}: the third column is not the rank (1, 2, 3, … in every list) and not a score that falls; if it is a "
            f"score, convert the file first: lexbench import scored {quote(str(path))} NEW"
        )
    empty = queries[:0]
    return _Columns(queries, documents, -numbers if ranked else numbers, empty, empty)


def _read_colbert(path: Path, begin: Beginning) -> _Columns:
    """Return the columns of a run of ColBERT: four, and perhaps a tag. Raises InvalidFile if ranks and scores contradict."""
    kinds = _COLBERT[: max(len(begin.fields), len(_COLBERT) - 1)]
    expected = f"{len(kinds)} columns are query document rank score{' tag' * (len(kinds) == len(_COLBERT))}"
    line = "a line of a run is: query Q0 document rank score tag"
    try:
        queries, documents, ranks, scores, *tags = read_columns(path, kinds, begin)
    except InvalidFile as error:
        judged = len(kinds) < len(_COLBERT) and begin.fields[1:2] in ([one] for one in ITERATION)
        raise InvalidFile(f"{error}; {'this is a file of judgements' if judged else expected}; {line}") from None
    order = np.lexsort((ranks, np.unique(queries, return_inverse=True)[1]))
    rises = (scores[order][1:] > scores[order][:-1]) & (queries[order][1:] == queries[order][:-1])
    if not _are_ranks(queries, ranks):
        raise InvalidFile(f"{path}: {expected}, but the third does not count 1, 2, 3, … in every list; {line}")
    if rises.any():
        raise InvalidFile(f"{path}: {expected}, but the fourth does not fall with the third in every list; {line}")
    return _Columns(queries, documents, scores, ranks.astype(np.int64).astype(np.bytes_), tags[0] if tags else queries[:0])


def _are_ranks(queries: NDArray[np.bytes_], numbers: NDArray[np.float64]) -> bool:
    """Return whether *numbers* (entries,) are 1, 2, 3, ... in the list of each query, in any order; or all of them from 0."""
    lists = np.unique(queries, return_inverse=True)[1]
    order = np.lexsort((numbers, lists))
    counted = np.arange(len(lists)) - np.searchsorted(lists[order], lists[order])
    return any(np.array_equal(numbers[order], counted + first) for first in (1, 0))


def _notes(lists: int, columns: _Columns) -> Iterator[str]:
    """Yield a note for each contradiction in the *columns* of a run with so many *lists*."""
    queries, scores, ranks, tags = columns.queries, columns.scores, columns.ranks, columns.tag
    within = np.flatnonzero(queries[1:] == queries[:-1])  # entries that the next line follows in the same list
    rises = within[scores[within + 1] > scores[within]]
    against = queries[:0]
    with suppress(ValueError, OverflowError):  # a file may have other texts in place of ranks
        numbers = ranks.astype(np.int64) if len(ranks) else np.zeros(len(queries), np.int64)
        against = np.unique(queries[rises[numbers[rises] < numbers[rises + 1]]])
    if len(against):
        yield f"in {len(against)} of {lists} lists a later rank has a higher score: scores decide, as in trec_eval"
    else:
        yield from rising_notes(len(rises), int(np.count_nonzero(scores[within + 1] < scores[within])))
    if (others := np.unique(tags[tags != tags[:1]])).size:
        first, second = text_of(tags[0]), text_of(others[0])
        yield f"its lines have {len(others) + 1} tags, e.g. {first!r} and {second!r}: is it one run?"


def rising_notes(rises: int, falls: int) -> Iterator[str]:
    """Yield a note if scores rise from line to line so often that it is no accident, and never fall.

    Right scores may come in this order, too, e.g. from numpy.argsort. Nothing in the lines tells them from distances.
    """
    if rises >= _RISING and not falls:
        yield (
            "the scores never fall from line to line, so the lowest comes first, and the highest counts as the best; change "
            "their sign if they are distances or ranks"
        )


def write_run(run: Run, path: Path, tag: str = "lexbench") -> None:
    """Write a TREC run: ranks from 1, scores strictly decreasing both as float32 numbers and as text."""
    check_writable(encode([tag]), "tag")
    scores, end = strictly_decreasing(run.offsets, run.scores), tag.encode()
    line = b"%b Q0 %b %d %.9g %b\n"  # nine digits distinguish any two float32 numbers
    with writer(path) as file:
        for query, documents, part in _lists(run):
            ranked = enumerate(zip(documents, scores[part].tolist(), strict=True), 1)
            file.write(b"".join(line % (query, document, rank, score, end) for rank, (document, score) in ranked))


def write_msmarco_run(run: Run, path: Path) -> None:
    """Write an MS MARCO run: query, document and rank, separated by tabs."""
    with writer(path) as file:
        for query, documents, _ in _lists(run):
            file.write(b"".join(b"%b\t%b\t%d\n" % (query, document, rank) for rank, document in enumerate(documents, 1)))


def _lists(run: Run) -> Iterator[tuple[bytes, list[bytes], slice]]:
    """Yield for each query its id, its document ids in order and its slice of the entries, after checking all ids."""
    check_writable(encode(run.query_ids), "query id")
    used = np.zeros(len(run.table), dtype=bool)
    used[run.docs] = True
    check_writable(run.table[used], "document id")
    for query, entries in run.spans():
        yield bytes_of(query), run.table[run.docs[entries]].tolist(), entries


# ---- the canonical order ---------------------------------------------------------------------------------------------------
# Lists are columns of entries, grouped by query: list i is `docs[offsets[i]:offsets[i + 1]]`. Documents are codes, and ids
# descend with the code, so the smaller code comes first.

_LOWEST = np.int32(-(2**31))
_LARGEST = float(np.finfo(np.float32).max)


def canonical(
    offsets: NDArray[np.int64], docs: NDArray[np.int32], scores: NDArray[np.floating]
) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    """Return *docs* and *scores* (entries,) in canonical order; -0.0 becomes 0.0, which it equals."""
    # Most runs are in order already, so only lists with an entry out of order are sorted.
    follows = (scores[1:] < scores[:-1]) | ((scores[1:] == scores[:-1]) & (docs[1:] > docs[:-1]))
    breaks = np.flatnonzero(~follows) + 1
    unordered = np.unique(np.searchsorted(offsets, np.setdiff1d(breaks, offsets), side="right") - 1)
    if not len(unordered):
        return docs, scores + 0.0  # -0.0 + 0.0 is 0.0
    order = np.arange(len(docs))
    for start, stop in zip(offsets[unordered].tolist(), offsets[unordered + 1].tolist(), strict=True):
        order[start:stop] = start + np.lexsort((docs[start:stop], -scores[start:stop]))
    return docs[order], scores[order] + 0.0


def untied(run: Run) -> NDArray[np.bool_]:
    """Return a mask (entries,) of entries that do not tie with the entry before them in their list.

    Scores tie if they are equal or neighbouring numbers, because exports lower tied scores to the next number.
    """
    differs = np.ones(len(run), dtype=bool)
    differs[1:] = ~tied(run.scores[:-1], run.scores[1:])
    differs[run.offsets[:-1][np.diff(run.offsets) > 0]] = True
    return differs


def tied(scores: NDArray[np.floating], following: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return a mask (n,) of *scores* that are equal to the ones *following* them, or the next larger number."""
    return np.asarray(following >= np.nextafter(scores, scores.dtype.type(-np.inf)))


def strictly_decreasing(offsets: NDArray[np.int64], scores: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return float32 scores (entries,) that decrease strictly in each list, lowered as little as that takes.

    Every tool then sees the canonical order, in which *scores* are, however it breaks ties. Float64 scores are rounded first,
    and those beyond float32 become its largest number. A score that ties becomes the next float32 number below the one before
    it. Raises LexbenchError if there is none.
    """
    if scores.dtype == np.float64:
        scores = np.clip(scores, -_LARGEST, _LARGEST).astype(np.float32)
    # With ordinals, lowered[i] = min(score[i], lowered[i - 1] - 1), so lowered[i] + i is a running minimum of score[i] + i.
    # The slope puts every list far below the end of the last one, so a single running minimum serves all lists.
    lists = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    slope = np.arange(len(scores)) - (lists << 35)
    lowered = np.minimum.accumulate(_ordinals(scores) + slope) - slope
    if np.any(lowered < _ordinals(np.array([np.finfo(np.float32).min]))):
        raise LexbenchError("scores tie at the lowest float32 number, below which there is none left")
    bits = lowered.astype(np.int32)
    return np.where(bits < 0, _LOWEST - bits, bits).view(np.float32)


def _ordinals(scores: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return integers that compare like *scores* and differ by 1 for neighbouring floats; -0.0 and 0.0 are both 0."""
    bits = scores.view(np.int32)
    return np.where(bits < 0, _LOWEST - bits, bits).astype(np.int64)
