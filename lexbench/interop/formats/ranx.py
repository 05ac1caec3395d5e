"""ranx's files: JSON `{query: {document: score}}` for runs and, with whole numbers, qrels; and its Parquet of runs.

Nothing of ranx is imported. Its .lz4 files are ranx's own (CBOR in LZ4): `Run.from_file("x.lz4").save("x.json")` opens them.
Checked with ranx 0.3.21. ranx refuses empty runs and sorts equal scores in no fixed order, so ours are strictly decreasing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from lexbench.errors import InvalidFile, LexbenchError, require
from lexbench.interop.formats import RUN_LOST, Export, Import, run_file
from lexbench.storage import atomic

if TYPE_CHECKING:
    from lexbench.trec.qrels import Qrels
    from lexbench.trec.runs import Run

N = TypeVar("N")


def write_run(run: "Run", path: Path) -> None:
    """Write a run as JSON: each list in order, scores strictly decreasing as float32 numbers."""
    from lexbench.trec.ids import text_of
    from lexbench.trec.runs import strictly_decreasing

    scores = strictly_decreasing(run).tolist()
    lists = {}
    for query, start, stop in zip(run.query_ids, run.offsets[:-1].tolist(), run.offsets[1:].tolist(), strict=True):
        documents = [text_of(one) for one in run.table[run.docs[start:stop]].tolist()]
        lists[query] = dict(zip(documents, scores[start:stop], strict=True))
    atomic.write_bytes(path, msgspec.json.encode(lists) + b"\n")


def read_run(path: Path) -> "Run":
    """Read a run from .json, or from .parquet by the extra `parquet`; InvalidFile where it does not read."""
    from lexbench.trec.runs import Run

    if path.suffix in {".parquet", ".parq"}:
        return _checked(path, lambda: _from_parquet(path))
    lists = _decoded(path, float)
    rows = [(query, document, score) for query, scores in lists.items() for document, score in scores.items()]
    queries, documents, scores = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    return _checked(path, lambda: Run.from_entries(queries, documents, scores, "double"))


def write_qrels(qrels: "Qrels", path: Path) -> None:
    """Write judgements as JSON, sorted by query and document."""
    grades: dict[str, dict[str, int]] = {}
    for query, document, grade in qrels.judgements():
        grades.setdefault(query, {})[document] = grade
    atomic.write_bytes(path, msgspec.json.encode(grades) + b"\n")


def read_qrels(path: Path) -> "Qrels":
    """Read judgements from .json; InvalidFile where it does not read."""
    from lexbench.trec.qrels import Qrels
    from lexbench.types import Judgement

    grades = _decoded(path, int)
    return Qrels.from_judgements(Judgement(q, d, grade) for q, judged in grades.items() for d, grade in judged.items())


def _decoded(path: Path, number: type[N]) -> dict[str, dict[str, N]]:
    if path.suffix == ".lz4":
        raise InvalidFile(f"{path}: only ranx reads its .lz4; in Python: Run.from_file({path.name!r}).save('run.json')")
    try:
        kind: Any = dict[str, dict[str, number]]  # type: ignore[valid-type]
        numbers: dict[str, dict[str, N]] = msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidFile(f"{path}: {error}") from None
    return numbers


def _from_parquet(path: Path) -> "Run":
    require("reading Parquet", ["pyarrow"], "parquet")
    from pyarrow import ArrowException
    from pyarrow.parquet import read_table

    from lexbench.trec.runs import Run

    try:
        columns = read_table(path, columns=["q_id", "doc_id", "score"]).to_pydict()
    except (OSError, ArrowException) as error:
        raise InvalidFile(f"{path}: {str(error).splitlines()[0]}") from None
    return Run.from_entries(columns["q_id"], columns["doc_id"], columns["score"], "double")


def _checked(path: Path, make: "Callable[[], Run]") -> "Run":
    try:
        return make()
    except InvalidFile:
        raise
    except LexbenchError as error:
        raise InvalidFile(f"{path}: {error}") from None


_NOT_KEPT = "score digits that float32 cannot hold; equal scores are lowered by the least step"
EXPORTS = (Export("ranx", "the run, as JSON", f"equal scores, as in trec; {RUN_LOST}", run_file("json", write_run)),)
IMPORTS = (
    Import("ranx", "a run of ranx, JSON or Parquet", _NOT_KEPT, read_run),
    Import("ranx-qrels", "judgements of ranx, JSON", "nothing", read_qrels),
)
