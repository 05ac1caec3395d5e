"""Runs and judgements: files of TREC and MS MARCO, runs with bare scores, and ranx's JSON and Parquet.

ranx's JSON is `{query: {document: score}}`, with integers for judgements. Nothing of ranx is imported. Its .lz4 files (CBOR in
LZ4) can only be opened by ranx: `Run.from_file("x.lz4").save("x.json")`. ranx refuses empty runs and sorts equal scores in no
fixed order, so our scores decrease strictly. Checked with ranx 0.3.21.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from lexbench.errors import InvalidFile, require
from lexbench.interop.formats import RUN_LOST, RUN_NOT_KEPT, Export, Import, deferred, one_file, run_file
from lexbench.storage import atomic

if TYPE_CHECKING:
    from lexbench.analysis.stored_results import StoredResult
    from lexbench.trec.qrels import Qrels
    from lexbench.trec.runs import Run

N = TypeVar("N")


def write_ranx_run(run: "Run", path: Path) -> None:
    """Write a run as ranx's JSON: each list in order, scores strictly decreasing as float32 numbers."""
    from lexbench.trec.ids import text_of
    from lexbench.trec.runs import strictly_decreasing

    scores = strictly_decreasing(run).tolist()
    lists = {}
    for query, start, stop in zip(run.query_ids, run.offsets[:-1].tolist(), run.offsets[1:].tolist(), strict=True):
        documents = [text_of(one) for one in run.table[run.docs[start:stop]].tolist()]
        lists[query] = dict(zip(documents, scores[start:stop], strict=True))
    atomic.write_bytes(path, msgspec.json.encode(lists) + b"\n")


def read_ranx_run(path: Path) -> "Run":
    """Read a run of ranx from .json, or from .parquet (extra `parquet`). Raises InvalidFile for malformed files."""
    from lexbench.trec.columns import errors_name
    from lexbench.trec.runs import Run

    if path.suffix in {".parquet", ".parq"}:
        queries, documents, scores = _parquet_columns(path)
    else:
        lists = _decoded(path, float)
        rows = [(query, document, score) for query, scored in lists.items() for document, score in scored.items()]
        queries, documents, scores = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    with errors_name(path):
        return Run.from_entries(queries, documents, scores, "double")


def _parquet_columns(path: Path) -> list[list[Any]]:
    require("reading Parquet", ["pyarrow"], "parquet")
    from pyarrow import ArrowException
    from pyarrow.parquet import read_table

    names = ["q_id", "doc_id", "score"]
    try:
        columns = read_table(path, columns=names).to_pydict()
    except (OSError, ArrowException) as error:
        raise InvalidFile(f"{path}: {str(error).splitlines()[0]}") from None
    return [columns[name] for name in names]


def write_ranx_qrels(qrels: "Qrels", path: Path) -> None:
    """Write judgements as ranx's JSON, sorted by query and document."""
    grades: dict[str, dict[str, int]] = {}
    for query, document, grade in qrels.judgements():
        grades.setdefault(query, {})[document] = grade
    atomic.write_bytes(path, msgspec.json.encode(grades) + b"\n")


def read_ranx_qrels(path: Path) -> "Qrels":
    """Read judgements of ranx from .json. Raises InvalidFile for malformed files."""
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


def _write_qrels(entry: "StoredResult", path: Path) -> None:
    from lexbench.datasets.dataset import open_dataset
    from lexbench.datasets.location import find_again
    from lexbench.storage.store import Store
    from lexbench.trec.qrels import write_qrels

    place = Store().place(entry.result.digests)
    write_qrels(open_dataset(*find_again(entry.result.dataset, place)).qrels, path)


_EQUAL = "equal scores, which are lowered by the smallest step so that all tools see one order"
_RANKS = "nothing; the score of a document is its rank with a minus"
_RULES = "the contract's rules: thresholds and self-matches"
_DIGITS = "score digits that float32 cannot hold; equal scores are lowered by the smallest step"
_write_trec = run_file("trec", deferred("trec.runs", "write_run"))
_write_msmarco = run_file("tsv", deferred("trec.runs", "write_msmarco_run"))
_read = deferred("trec.runs", "read_run")
EXPORTS = (
    Export("trec", "the run, as trec_eval reads it", f"{_EQUAL}; {RUN_LOST}", _write_trec),
    Export("msmarco", "the run, as MS MARCO's scripts read it", f"scores, only ranks stay; {RUN_LOST}", _write_msmarco),
    Export("qrels", "the judgements, as trec_eval reads them", _RULES, one_file("qrels", _write_qrels), per="dataset"),
    Export("ranx", "the run, as JSON", f"equal scores, as in trec; {RUN_LOST}", run_file("json", write_ranx_run)),
)
_JUDGED, _LOST = "judgements of TREC, BEIR or MS MARCO", "the second column, which no tool uses"
IMPORTS = (
    Import("trec", "a TREC run", RUN_NOT_KEPT, partial(_read, layout="trec")),
    Import("msmarco", "a run of MS MARCO: query, document, rank", _RANKS, partial(_read, layout="msmarco")),
    Import("scored", "a run of three columns: query, document, score", RUN_NOT_KEPT, partial(_read, layout="scored")),
    Import("qrels", _JUDGED, _LOST, deferred("trec.qrels", "read_qrels")),
    Import("ranx", "a run of ranx, JSON or Parquet", _DIGITS, read_ranx_run),
    Import("ranx-qrels", "judgements of ranx, JSON", "nothing", read_ranx_qrels),
)
