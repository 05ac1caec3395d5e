"""TREC's files of runs and judgements, MS MARCO's of runs, and runs with bare scores."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lexbench.interop.formats import RUN_LOST, RUN_NOT_KEPT, Export, Import, one_file, qrels_import, run_file, run_import

if TYPE_CHECKING:
    from lexbench.analysis.stored_results import StoredResult
    from lexbench.trec.qrels import Qrels
    from lexbench.trec.runs import Run, RunFormat


def _write_trec(run: "Run", path: Path) -> None:
    from lexbench.trec.runs import write_run

    write_run(run, path, tag="lexbench")


def _write_msmarco(run: "Run", path: Path) -> None:
    from lexbench.trec.runs import write_msmarco_run

    write_msmarco_run(run, path)


def _write_qrels(kept: "StoredResult", path: Path) -> None:
    from lexbench.datasets.contracts import contract_of
    from lexbench.datasets.dataset import open_dataset
    from lexbench.trec.qrels import write_qrels

    write_qrels(open_dataset(contract_of(kept.result.dataset)).qrels, path)


def _reader(layout: "RunFormat") -> "Callable[[Path], Run]":
    def read(path: Path) -> "Run":
        from lexbench.trec.runs import read_run

        return read_run(path, layout)

    return read


def _read_qrels(path: Path) -> "Qrels":
    from lexbench.trec.qrels import read_qrels

    return read_qrels(path)


EXPORTS = (
    Export(
        name="trec",
        what="the run, as trec_eval reads it",
        lost=f"equal scores, which are lowered by the least step so that all tools see one order; {RUN_LOST}",
        write=run_file("trec", _write_trec),
    ),
    Export(
        name="msmarco",
        what="the run, as MS MARCO's scripts read it",
        lost=f"scores, of which only the ranks stay; {RUN_LOST}",
        write=run_file("tsv", _write_msmarco),
    ),
    Export(
        name="qrels",
        what="the dataset's judgements, as trec_eval reads them",
        lost="the contract's rules: thresholds and self-matches",
        write=one_file("qrels", _write_qrels),
        per="dataset",
    ),
)
IMPORTS = (
    Import("trec", "a TREC run", RUN_NOT_KEPT, run_import(_reader("trec"))),
    Import(
        "msmarco",
        "a run of MS MARCO: query, document, rank",
        "nothing; the score of a document is its rank with a minus",
        run_import(_reader("msmarco")),
    ),
    Import("scored", "a run of three columns: query, document, score", RUN_NOT_KEPT, run_import(_reader("scored"))),
    Import("qrels", "judgements of TREC, BEIR or MS MARCO", "the second column, which no tool uses", qrels_import(_read_qrels)),
)
