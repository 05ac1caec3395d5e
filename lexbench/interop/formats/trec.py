"""TREC's files of runs and judgements, MS MARCO's of runs, and runs with bare scores."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lexbench.interop.formats import RUN_LOST, RUN_NOT_KEPT, Export, Import, later, one_file, run_file

if TYPE_CHECKING:
    from lexbench.analysis.stored_results import StoredResult

_READ, _WRITE = later("trec.runs", "read_run"), later("trec.runs", "write_run")
_EQUAL = "equal scores, which are lowered by the least step so that all tools see one order"
_RANKS = "nothing; the score of a document is its rank with a minus"
_RULES = "the contract's rules: thresholds and self-matches"


def _write_qrels(entry: "StoredResult", path: Path) -> None:
    from lexbench.contracts import contract_of
    from lexbench.datasets.dataset import open_dataset
    from lexbench.trec.qrels import write_qrels

    write_qrels(open_dataset(contract_of(entry.result.dataset)).qrels, path)


_EXPORT, _RANKED = run_file("trec", _WRITE), run_file("tsv", later("trec.runs", "write_msmarco_run"))
EXPORTS = (
    Export("trec", "the run, as trec_eval reads it", f"{_EQUAL}; {RUN_LOST}", _EXPORT),
    Export("msmarco", "the run, as MS MARCO's scripts read it", f"scores, of which only the ranks stay; {RUN_LOST}", _RANKED),
    Export("qrels", "the judgements, as trec_eval reads them", _RULES, one_file("qrels", _write_qrels), per="dataset"),
)
_JUDGED, _LOST = "judgements of TREC, BEIR or MS MARCO", "the second column, which no tool uses"
IMPORTS = (
    Import("trec", "a TREC run", RUN_NOT_KEPT, partial(_READ, layout="trec")),
    Import("msmarco", "a run of MS MARCO: query, document, rank", _RANKS, partial(_READ, layout="msmarco")),
    Import("scored", "a run of three columns: query, document, score", RUN_NOT_KEPT, partial(_READ, layout="scored")),
    Import("qrels", _JUDGED, _LOST, later("trec.qrels", "read_qrels")),
)
