"""Relevance judgements as arrays, and qrels files of TREC, MS MARCO and BEIR.

    TREC qrels      query 0 document grade      MS MARCO has the same columns, separated by tabs
    BEIR qrels      query document grade        tabs, and a header line

The first line is a header if it has the names of at least two known columns; then the columns may be in any order. `#` lines
are skipped. A file whose name ends in `.gz` is written compressed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import InvalidFile, LexbenchError
from lexbench.storage.atomic import writer
from lexbench.trec.columns import Kind, errors_name, first_fields, read_columns
from lexbench.trec.ids import bytes_of, check_writable, encode, text_of
from lexbench.types import Judgement

JUDGE = "judge:"  # begins the second column of a judgement made by a plug-in of the group `judges` (see `runner.judging`)
_LARGEST = 2**31 - 1  # grade, positive or negative
_TREC: Sequence[Kind] = ("id", "skip", "id", "int")
_BEIR: Sequence[Kind] = ("id", "id", "int")
# The names of columns; the first of each kind that exists counts.
QUERY_IDS = ("query-id", "query_id", "qid", "query", "topic", "topic_id", "topic-id")
DOC_IDS = ("corpus-id", "corpus_id", "doc_id", "doc-id", "docno", "docid", "document_id", "document", "doc", "pid")
GRADES = ("score", "rel", "relevance", "grade", "label", "judgment", "judgement")
COLUMNS = {*QUERY_IDS, *DOC_IDS, *GRADES}
BEIR_HEADER = (QUERY_IDS[0], DOC_IDS[0], GRADES[0])


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
        """Gather judgements in any order; a repeated judgement counts once.

        Raises LexbenchError if a document has two different grades for one query.
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
    """Read the qrels file of TREC, MS MARCO or BEIR. Raises InvalidFile if it is malformed or empty."""
    with errors_name(path):
        qrels = Qrels.from_judgements(read_judgements(path))
    if not len(qrels):
        raise InvalidFile(f"{path}: there are no judgements in it")
    return qrels


def read_judgements(path: Path, *, header: bool = True) -> Iterator[Judgement]:
    """Yield the judgements of a qrels file, in its order.

    A file of three columns must have a header line, unless *header* is False. Raises InvalidFile with the number of a faulty
    line.
    """
    first = first_fields(path)
    names = _header(first)
    headed = bool(names)
    if len(first) == len(_BEIR) and header and not headed:
        raise InvalidFile(
            f"{path}:1: 3 columns, not 4; a file of three columns, e.g. of BEIR, begins with 'query-id corpus-id score'"
        )
    kinds = _kinds(path, names) if headed else _BEIR if len(first) == len(_BEIR) else _TREC
    read = read_columns(path, kinds, header=headed)
    grades = read.pop([kind for kind in kinds if kind != "skip"].index("int"))
    swapped = headed and next(name for name in names if name in {*QUERY_IDS, *DOC_IDS}) in DOC_IDS
    queries, documents = reversed(read) if swapped else read
    if len(beyond := grades[np.abs(grades) > _LARGEST]):
        raise InvalidFile(f"{path}: a grade beyond {_LARGEST}: {beyond[0]}")
    for query, document, grade in zip(queries.tolist(), documents.tolist(), grades.tolist(), strict=True):
        yield Judgement(text_of(query), text_of(document), grade)


def _header(fields: Sequence[bytes]) -> list[str]:
    """Return the names of the columns if the first line of a file is a header, otherwise []."""
    names = [field.decode(errors="replace").lower() for field in fields]
    return names if len(COLUMNS & set(names)) > 1 or (names and names[-1] in GRADES) else []


def _kinds(path: Path, names: Sequence[str]) -> list[Kind]:
    """Return what the columns with these *names* are. Raises InvalidFile if queries, documents or grades are not among them."""
    kinds: list[Kind] = ["skip"] * len(names)
    for known, kind in ((QUERY_IDS, "id"), (DOC_IDS, "id"), (GRADES, "int")):
        name = next((name for name in known if name in names), None)
        if name is None:
            wanted = f"there is: {', '.join(names)}; expected: {', '.join(BEIR_HEADER)}"
            raise InvalidFile(f"{path}:1: no column {known[0]!r} in the header; {wanted}")
        kinds[names.index(name)] = cast(Kind, kind)
    return kinds


def write_qrels(qrels: Qrels, path: Path, stamp: str = "0") -> None:
    """Write TREC qrels, sorted by query and document id. All tools ignore the second column, which has a judge's *stamp*."""
    _write_judgements(qrels, path, f"{{0}} {stamp} {{1}} {{2}}\n")


def write_beir_qrels(qrels: Qrels, path: Path) -> None:
    """Write the qrels file of a BEIR folder, sorted by query and document id."""
    _write_judgements(qrels, path, "{0}\t{1}\t{2}\n", "\t".join(BEIR_HEADER).encode() + b"\n")


def judge_stamps(path: Path) -> Counter[str]:
    """Return the number of judgements in a qrels file by the judge's stamp in their second column, "" for all others."""
    first = first_fields(path)
    if len(first) != len(_TREC):
        return Counter()
    (seconds,) = read_columns(path, ("skip", "id", "skip", "skip"), header=bool(_header(first)))
    stamps: Counter[str] = Counter()
    for name, count in zip(*np.unique(seconds, return_counts=True), strict=True):
        stamp = text_of(name)
        stamps[stamp if stamp.startswith(JUDGE) else ""] += int(count)
    return stamps


def judge_notes(path: Path) -> Iterator[str]:
    """Yield a line for each judge whose judgements are in a qrels file, and a line if judgements are mixed."""
    stamps = judge_stamps(path)
    total, judges = stamps.total(), [stamp for stamp in stamps if stamp]
    for stamp in judges:
        yield f"{stamps[stamp]:,} of {total:,} judgements were made by a program ({stamp}) and are not official"
    if judges and len(stamps) > 1:
        yield "these judgements are MIXED, from several judges or from a judge and others: compare these scores with no others"


def _write_judgements(qrels: Qrels, path: Path, line: str, header: bytes = b"") -> None:
    check_writable(encode(qrels.query_ids), "query id")
    check_writable(qrels.doc_ids, "document id")
    with writer(path) as file:
        file.write(header)
        file.writelines(bytes_of(line.format(*judgement)) for judgement in qrels.judgements())
