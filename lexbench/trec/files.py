"""Runs and qrels as text files: TREC's, BEIR's and MS MARCO's. A name that ends in `.gz` is read and written compressed.

    TREC run        query Q0 document rank score tag       the rank is ignored: the score decides, as in trec_eval
    MS MARCO run    query document rank                    the rank decides
    TREC qrels      query 0 document grade                 MS MARCO's are the same, set apart by tabs
    BEIR qrels      query document grade                   tabs, and a header line

What is written holds strictly decreasing scores, so every tool that reads it sees our order. `#` lines are read over and
never written: pytrec_eval, ir_measures and ranx fail on them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import InvalidFile, LexbenchError
from lexbench.storage.atomic import writer
from lexbench.trec.columns import Kind, first_fields, read_columns
from lexbench.trec.ids import encode
from lexbench.trec.runs import Qrels, Run, strictly_decreasing
from lexbench.types import Judgement

RunFormat = Literal["trec", "msmarco", "scored"]
_TREC: Sequence[Kind] = ("id", "skip", "id", "skip", "float", "skip")
_RANKED: Sequence[Kind] = ("id", "id", "float")
_HEADER = [b"query-id", b"corpus-id", b"score"]
T = TypeVar("T")


def read_run(path: Path, layout: RunFormat | None = None) -> Run:
    """Read a run; *layout* is told by the number of columns where it is not given.

    A file of three columns is MS MARCO's (query, document, rank) if the third counts 1, 2, 3, … in every list. Other tools
    write (query, document, score) in the same shape; such a file must be asked for, as "scored". InvalidFile otherwise.
    """
    layout = layout or ("msmarco" if len(first_fields(path)) == len(_RANKED) else "trec")  # other numbers are trec's to refuse
    if layout == "trec":
        queries, documents, scores = read_columns(path, _TREC)
        return _checked(path, lambda: Run.from_entries(queries, documents, scores))
    queries, documents, numbers = read_columns(path, _RANKED)
    run = _checked(path, lambda: Run.from_entries(queries, documents, numbers if layout == "scored" else -numbers))
    if layout == "msmarco" and not np.array_equal(-run.scores, run.ranks):
        raise InvalidFile(
            f"{path}: the third column is not the rank (1, 2, 3, … in every list); if it is a score, say 'scored'"
        )
    return run


def read_qrels(path: Path) -> Qrels:
    """Read the judgements of a TREC or MS MARCO file, or of a BEIR file, which has a header line."""
    return _checked(path, lambda: Qrels.from_judgements(read_judgements(path)))


def read_judgements(path: Path, *, header: bool = True) -> Iterator[Judgement]:
    """Yield the judgements of a qrels file, in its order.

    Without *header* a file of three columns needs none. InvalidFile names the line that does not read.
    """
    first = first_fields(path)
    three = first == _HEADER or (len(first) == len(_HEADER) and not header)
    kinds: Sequence[Kind] = ("id", "id", "int") if three else ("id", "skip", "id", "int")
    queries, documents, grades = read_columns(path, kinds, header=first == _HEADER)
    try:
        for query, document, grade in zip(queries.tolist(), documents.tolist(), grades.tolist(), strict=True):
            yield Judgement(query.decode(), document.decode(), grade)
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{path}: an id is not UTF-8 ({error})") from None


def write_run(run: Run, path: Path, tag: str = "lexbench") -> None:
    """Write a TREC run: ranks from 1, scores strictly decreasing as float32 numbers and as the text that is written."""
    _refuse_unwritable(encode([tag]), "tag")
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


def write_qrels(qrels: Qrels, path: Path) -> None:
    """Write TREC qrels, sorted by query and document id."""
    _write_judgements(qrels, path, "{0} 0 {1} {2}\n")


def write_beir_qrels(qrels: Qrels, path: Path) -> None:
    """Write the qrels file of a BEIR folder, sorted by query and document id."""
    _write_judgements(qrels, path, "{0}\t{1}\t{2}\n", b"\t".join(_HEADER) + b"\n")


def _write_judgements(qrels: Qrels, path: Path, line: str, header: bytes = b"") -> None:
    _refuse_unwritable(encode(qrels.query_ids), "query id")
    _refuse_unwritable(qrels.doc_ids, "document id")
    with writer(path) as file:
        file.write(header)
        file.writelines(line.format(*judgement).encode() for judgement in qrels.judgements())


def _lists(run: Run) -> Iterator[tuple[bytes, list[bytes], slice]]:
    """Yield the id, the document ids in order and the entries of each query, once all of them are known to be writable."""
    _refuse_unwritable(encode(run.query_ids), "query id")
    used = np.zeros(len(run.table), dtype=bool)
    used[run.docs] = True
    _refuse_unwritable(run.table[used], "document id")
    for query, start, stop in zip(run.query_ids, run.offsets[:-1].tolist(), run.offsets[1:].tolist(), strict=True):
        yield query.encode(), run.table[run.docs[start:stop]].tolist(), slice(start, stop)


def _refuse_unwritable(ids: NDArray[np.bytes_], what: str) -> None:
    """Raise LexbenchError for the first id that would not read back: white space splits it, # makes the line a comment."""
    wrong: Iterable[bytes] = (one for one in ids.tolist() if len(one.split()) != 1 or one.split()[0] != one or one[:1] == b"#")
    for one in wrong:
        raise LexbenchError(f"{what} {one.decode()!r} cannot be written: it is empty, has white space in it or begins with '#'")


def _checked(path: Path, make: Callable[[], T]) -> T:
    try:
        return make()
    except LexbenchError as error:
        raise InvalidFile(f"{path}: {error}") from None
