"""ranx's files: JSON `{query: {document: score}}` for runs and, with whole numbers, qrels; and its Parquet of runs.

Nothing of ranx is imported. Its .lz4 files are ranx's own (CBOR in LZ4): `Run.from_file("x.lz4").save("x.json")` opens them.
Checked with ranx 0.3.21. ranx refuses empty runs and sorts equal scores in no fixed order, so ours are strictly decreasing.
"""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lexbench.errors import InvalidFile, LexbenchError, require
from lexbench.storage import atomic
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run, strictly_decreasing
from lexbench.types import Judgement

N = TypeVar("N")


def write_run(run: Run, path: Path) -> None:
    """Write a run as JSON: each list in order, scores strictly decreasing as float32 numbers."""
    scores = strictly_decreasing(run).tolist()
    found = {}
    for query, start, stop in zip(run.query_ids, run.offsets[:-1].tolist(), run.offsets[1:].tolist(), strict=True):
        documents = [one.decode() for one in run.table[run.docs[start:stop]].tolist()]
        found[query] = dict(zip(documents, scores[start:stop], strict=True))
    atomic.write_bytes(path, msgspec.json.encode(found) + b"\n")


def read_run(path: Path) -> Run:
    """Read a run from .json, or from .parquet by the extra `parquet`; InvalidFile where it does not read."""
    if path.suffix in {".parquet", ".parq"}:
        return _checked(path, lambda: _from_parquet(path))
    found = _decoded(path, float)
    rows = [(query, document, score) for query, scores in found.items() for document, score in scores.items()]
    queries, documents, scores = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    return _checked(path, lambda: Run.from_entries(queries, documents, scores))


def write_qrels(qrels: Qrels, path: Path) -> None:
    """Write judgements as JSON, sorted by query and document."""
    found: dict[str, dict[str, int]] = {}
    for query, document, grade in qrels.judgements():
        found.setdefault(query, {})[document] = grade
    atomic.write_bytes(path, msgspec.json.encode(found) + b"\n")


def read_qrels(path: Path) -> Qrels:
    """Read judgements from .json; InvalidFile where it does not read."""
    found = _decoded(path, int)
    return Qrels.from_judgements(Judgement(q, d, grade) for q, judged in found.items() for d, grade in judged.items())


def _decoded(path: Path, number: type[N]) -> dict[str, dict[str, N]]:
    if path.suffix == ".lz4":
        raise InvalidFile(f"{path}: only ranx reads its .lz4; in Python: Run.from_file({path.name!r}).save('run.json')")
    try:
        kind: Any = dict[str, dict[str, number]]  # type: ignore[valid-type]
        found: dict[str, dict[str, N]] = msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidFile(f"{path}: {error}") from None
    return found


def _from_parquet(path: Path) -> Run:
    require("reading Parquet", ["pyarrow"], "parquet")
    from pyarrow import ArrowException
    from pyarrow.parquet import read_table

    try:
        columns = read_table(path, columns=["q_id", "doc_id", "score"]).to_pydict()
    except (OSError, ArrowException) as error:
        raise InvalidFile(f"{path}: {str(error).splitlines()[0]}") from None
    return Run.from_entries(columns["q_id"], columns["doc_id"], columns["score"])


def _checked(path: Path, make: Any) -> Run:
    try:
        run: Run = make()
    except InvalidFile:
        raise
    except LexbenchError as error:
        raise InvalidFile(f"{path}: {error}") from None
    return run
