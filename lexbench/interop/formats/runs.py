"""Runs and judgements: files of TREC, MS MARCO and ColBERT, runs with bare scores, tables, and ranx's JSON.

ranx's JSON is `{query: {document: score}}`. Nothing of ranx is imported. ranx sorts equal scores in no fixed order, so our
scores decrease strictly. Checked with ranx 0.3.21.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lexbench.interop.formats import RUN_LOST, RUN_NOT_KEPT, Format, deferred, one_file, run_file
from lexbench.storage import atomic

if TYPE_CHECKING:
    from lexbench.results import Entry
    from lexbench.trec.runs import Run


def write_ranx_run(run: "Run", path: Path) -> None:
    """Write a run as ranx's JSON: each list in order, scores strictly decreasing as float32 numbers."""
    from lexbench.trec.runs import strictly_decreasing

    scores = strictly_decreasing(run.offsets, run.scores).tolist()
    lists = {query: dict(zip(run.doc_ids(entries), scores[entries], strict=True)) for query, entries in run.spans()}
    atomic.write_bytes(path, msgspec.json.encode(lists) + b"\n")


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
    Format("colbert", "a run of ColBERT: query, document, rank, score", RUN_NOT_KEPT, partial(_read, layout="colbert")),
    Format("qrels", _JUDGED, _LOST, deferred("trec.qrels", "read_qrels")),
    Format(
        "table",
        "a run as CSV, TSV, JSON lines or Parquet: query_id, doc_id, score or rank",
        RUN_NOT_KEPT,
        partial(_read, layout="table"),
    ),
    Format("ranx", "a run of ranx, JSON", _DIGITS, partial(_read, layout="ranx")),
)
