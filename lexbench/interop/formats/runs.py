"""Runs and judgements: files of TREC and MS MARCO, runs with bare scores, tables, and ranx's JSON.

ranx's JSON is `{query: {document: score}}`. Nothing of ranx is imported. ranx sorts equal scores in no fixed order, so our
scores decrease strictly. Checked with ranx 0.3.21.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lexbench.errors import InvalidFile
from lexbench.interop.formats import RUN_LOST, RUN_NOT_KEPT, Format, deferred, one_file, run_file
from lexbench.storage import atomic

if TYPE_CHECKING:
    from lexbench.results import Entry
    from lexbench.trec.runs import Run


def write_ranx_run(run: "Run", path: Path) -> None:
    """Write a run as ranx's JSON: each list in order, scores strictly decreasing as float32 numbers."""
    from lexbench.trec.ids import text_of
    from lexbench.trec.runs import strictly_decreasing

    scores = strictly_decreasing(run.offsets, run.scores).tolist()
    lists = {}
    for query, start, stop in zip(run.query_ids, run.offsets[:-1].tolist(), run.offsets[1:].tolist(), strict=True):
        documents = [text_of(one) for one in run.table[run.docs[start:stop]].tolist()]
        lists[query] = dict(zip(documents, scores[start:stop], strict=True))
    atomic.write_bytes(path, msgspec.json.encode(lists) + b"\n")


def read_ranx_run(path: Path) -> "Run":
    """Read a run of ranx from .json. Raises InvalidFile for malformed files."""
    from lexbench.trec.columns import errors_name
    from lexbench.trec.runs import Run

    if path.suffix in {".lz4", ".parquet"}:
        raise InvalidFile(f"{path} is no JSON; in Python: ranx.Run.from_file({path.name!r}).save('run.json')")
    try:
        lists = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, float]])
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidFile(f"{path}: {error}") from None
    rows = [(query, document, score) for query, scored in lists.items() for document, score in scored.items()]
    queries, documents, scores = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    with errors_name(path):
        return Run.from_entries(queries, documents, scores, "double")


def read_run_table(path: Path) -> "Run":
    """Read a run from a table with a row per document: CSV, TSV, JSON lines or Parquet, e.g. a data frame of PyTerrier.

    Columns have the names that they have in judgements, e.g. `qid` and `docno`. The column `score` decides, or `rank` if there
    is none. Raises InvalidFile for malformed files, with the number of the row.
    """
    from lexbench.storage.rows import Table, rows
    from lexbench.trec.columns import errors_name
    from lexbench.trec.ids import id_of
    from lexbench.trec.qrels import DOC_IDS, QUERY_IDS, by_query
    from lexbench.trec.runs import Run

    wanted = (QUERY_IDS, DOC_IDS, ("score", "rank"))
    known = [name for names in wanted for name in names]
    queries, documents, scores = list[str](), list[str](), list[float]()
    for number, row in rows(path, Table({3: ("query_id", "doc_id", "score")}, known, QUERY_IDS, by_query)):
        query, document, value = (next((name for name in names if name in row), None) for names in wanted)
        if query is None or document is None or value is None:
            there = ", ".join(map(str, row))
            raise InvalidFile(f"{path}, line {number}: there is: {there}; expected: query_id, doc_id, and score or rank")
        try:
            queries.append(id_of(row[query]))
            documents.append(id_of(row[document]))
            scores.append(-float(row[value]) if value == "rank" else float(row[value]))
        except (TypeError, ValueError) as error:
            raise InvalidFile(f"{path}, line {number}: {error}") from None
    with errors_name(path):
        return Run.from_entries(queries, documents, scores, "double")


def _write_qrels(entry: "Entry", path: Path) -> None:
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
    Format("trec", "the run, as trec_eval reads it", f"{_EQUAL}; {RUN_LOST}", _write_trec),
    Format("msmarco", "the run, as MS MARCO's scripts read it", f"scores, only ranks stay; {RUN_LOST}", _write_msmarco),
    Format("qrels", "the judgements, as trec_eval reads them", _RULES, one_file("qrels", _write_qrels), per="dataset"),
    Format("ranx", "the run, as JSON", f"equal scores, as in trec; {RUN_LOST}", run_file("json", write_ranx_run)),
)
_JUDGED, _LOST = "judgements of TREC, BEIR or MS MARCO", "the second column, which no tool uses"
IMPORTS = (
    Format("trec", "a TREC run", RUN_NOT_KEPT, partial(_read, layout="trec")),
    Format("msmarco", "a run of MS MARCO: query, document, rank", _RANKS, partial(_read, layout="msmarco")),
    Format("scored", "a run of three columns: query, document, score", RUN_NOT_KEPT, partial(_read, layout="scored")),
    Format("qrels", _JUDGED, _LOST, deferred("trec.qrels", "read_qrels")),
    Format("table", "a run as CSV, TSV, JSON lines or Parquet: query_id, doc_id, score or rank", RUN_NOT_KEPT, read_run_table),
    Format("ranx", "a run of ranx, JSON", _DIGITS, read_ranx_run),
)
