"""Relevance judgements as arrays, and their files: TREC's, MS MARCO's and BEIR's.

    TREC qrels      query 0 document grade                 MS MARCO's are the same, set apart by tabs
    BEIR qrels      query document grade                   tabs, and a header line

A header is known by how its last column is called. `#` lines are read over. A name that ends in `.gz` is written compressed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import InvalidFile, LexbenchError
from lexbench.storage.atomic import writer
from lexbench.trec.columns import Kind, first_fields, naming, read_columns
from lexbench.trec.ids import bytes_of, check_writable, encode, text_of
from lexbench.types import Judgement

JUDGE = "judge:"  # how the second column of a judgement begins that is of a judge and no person: see `runner.judging`
_LARGEST = 2**31 - 1  # grade, above and below 0
_TREC: Sequence[Kind] = ("id", "skip", "id", "int")
_BEIR: Sequence[Kind] = ("id", "id", "int")
_HEADER = [b"query-id", b"corpus-id", b"score"]
_GRADES = {b"score", b"rel", b"relevance", b"grade", b"label", b"judgment", b"judgement"}  # names of the column of grades


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
            if not -_LARGEST <= grade <= _LARGEST:
                raise LexbenchError(f"document {doc_id!r} of query {query_id!r} has a grade beyond {_LARGEST}: {grade}")
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
            yield Judgement(self.query_ids[query], text_of(doc_id), grade)


def read_qrels(path: Path) -> Qrels:
    """Read the judgements of a TREC or MS MARCO file, or of a BEIR file, which has a header line; InvalidFile for none."""
    with naming(path):
        qrels = Qrels.from_judgements(read_judgements(path))
    if not len(qrels):
        raise InvalidFile(f"{path}: there are no judgements in it")
    return qrels


def read_judgements(path: Path, *, header: bool = True) -> Iterator[Judgement]:
    """Yield the judgements of a qrels file, in its order.

    Without *header* a file of three columns needs none. InvalidFile names the line that does not read.
    """
    first = first_fields(path)
    three, headed = len(first) == len(_BEIR), _is_header(first)
    if three and header and not headed:
        raise InvalidFile(
            f"{path}:1: 3 columns, not 4; where there are three, as in BEIR, the first line is 'query-id corpus-id score'"
        )
    queries, documents, grades = read_columns(path, _BEIR if three else _TREC, header=headed)
    if len(beyond := grades[np.abs(grades) > _LARGEST]):
        raise InvalidFile(f"{path}: a grade beyond {_LARGEST}: {beyond[0]}")
    for query, document, grade in zip(queries.tolist(), documents.tolist(), grades.tolist(), strict=True):
        yield Judgement(text_of(query), text_of(document), grade)


def _is_header(fields: Sequence[bytes]) -> bool:
    return len(fields) in (len(_BEIR), len(_TREC)) and fields[-1].lower() in _GRADES


def write_qrels(qrels: Qrels, path: Path) -> None:
    """Write TREC qrels, sorted by query and document id."""
    _write_judgements(qrels, path, "{0} 0 {1} {2}\n")


def write_beir_qrels(qrels: Qrels, path: Path) -> None:
    """Write the qrels file of a BEIR folder, sorted by query and document id."""
    _write_judgements(qrels, path, "{0}\t{1}\t{2}\n", b"\t".join(_HEADER) + b"\n")


def write_judged(judgements: Iterable[Judgement], path: Path, stamp: str) -> None:
    """Write TREC qrels with a judge's *stamp* in the second column, which every tool reads over; sorted likewise."""
    _write_judgements(Qrels.from_judgements(judgements), path, f"{{0}} {stamp} {{1}} {{2}}\n")


def judge_stamps(path: Path) -> Counter[str]:
    """Return how many judgements of a qrels file have which second column: a judge's stamp, or "" for all others."""
    first = first_fields(path)
    if len(first) != len(_TREC):
        return Counter()
    (seconds,) = read_columns(path, ("skip", "id", "skip", "skip"), header=_is_header(first))
    stamps: Counter[str] = Counter()
    for name, count in zip(*np.unique(seconds, return_counts=True), strict=True):
        stamp = text_of(name)
        stamps[stamp if stamp.startswith(JUDGE) else ""] += int(count)
    return stamps


def judge_remarks(path: Path) -> Iterator[str]:
    """Yield a line for each judge whose judgements are in a qrels file, and one where others are among them."""
    stamps = judge_stamps(path)
    total, judges = stamps.total(), [stamp for stamp in stamps if stamp]
    for stamp in judges:
        yield f"{stamps[stamp]:,} of {total:,} judgements are of a judge that is no person ({stamp}), and not official"
    if judges and len(stamps) > 1:
        yield "these judgements are MIXED, of several judges or of a judge and others: no figure of this kind is comparable"


def _write_judgements(qrels: Qrels, path: Path, line: str, header: bytes = b"") -> None:
    check_writable(encode(qrels.query_ids), "query id")
    check_writable(qrels.doc_ids, "document id")
    with writer(path) as file:
        file.write(header)
        file.writelines(bytes_of(line.format(*judgement)) for judgement in qrels.judgements())
