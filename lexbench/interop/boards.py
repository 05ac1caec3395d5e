"""Read leaderboards of other tools, and of lexbench, for `lexbench audit`.

folder with results/SUITE/SYSTEM.json       results of lexbench, a board per suite
folder with MODEL/REVISION/TASK.json        results of MTEB 1.11 or later
folder with run files and a qrels file      one dataset; folders of these are several
CSV file                                    a row per system and a column per dataset, or columns system, dataset, score
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from lexbench.analysis.audit import AuditedBoard, audited
from lexbench.analysis.stored_results import stored_results
from lexbench.contracts import find_contract
from lexbench.errors import CommandError, InvalidFile
from lexbench.interop.formats.mteb import TASKS, from_mteb, read_task
from lexbench.results import Counts, Exposure, Result, Results
from lexbench.runner.exposure import IN_DOMAIN, SEEN, catalogued_model, exposure_of_entry
from lexbench.runner.scoring import JudgementRules, score_lists
from lexbench.runner.soundness import read_folder
from lexbench.storage.store import Store
from lexbench.suites import HEADLINE, suite, suite_names
from lexbench.trec.qrels import read_qrels
from lexbench.trec.runs import read_run


class Cell(NamedTuple):
    """One mean on a board of another tool."""

    system: str
    dataset: str
    value: float
    measure: str
    revision: str = ""  # of the dataset
    seen: str = ""  # "in-domain" or "corpus seen"; "" if nothing is known


_UNNAMED = "score"  # the measure of a table that names none
_META = "model_meta.json"  # of MTEB: what is known about a model
_DATASETS = {task.name: dataset for dataset, task in TASKS.items()}
_COLUMNS = {  # by how a table with a row per score may call them
    **dict.fromkeys(("model", "model_name", "name", "run"), "system"),
    **dict.fromkeys(("task", "task_name", "collection"), "dataset"),
    **dict.fromkeys(("value", "main_score"), "score"),
    "metric": "measure",
    "dataset_revision": "revision",
}
_NO_DATASET = re.compile(r"(?i)(rank|mean|average|avg|borda|overall|params?|parameters|size|dim|zero|memory|tokens)\b")


def read_boards(path: Path, measure: str | None = None) -> list[AuditedBoard]:
    """Return the boards in a folder or CSV file. Runs are scored by *measure*, default nDCG@10.

    Raises InvalidFile for a malformed file, CommandError if there is nothing to read.
    """
    if path.is_file():
        return [_of_cells(path.stem, _table(path), measure)]
    if (path / "results").is_dir():
        return boards_of(read_folder(path), measure)
    if next(path.glob("**/*.json"), None):
        return [_of_cells(path.name, _mteb(path), measure)]
    folders = [folder for folder in (path, *sorted(path.iterdir())) if folder.is_dir() and any(folder.glob("*qrels*"))]
    if not folders:
        kinds = "a CSV table, or a folder of results of lexbench or MTEB, or of runs with a qrels file"
        raise CommandError(f"{path} has no scores: give {kinds}")
    scored = Results(result for folder in folders for result in _runs(folder, measure or HEADLINE))
    return [audited(path.name, scored, measure or HEADLINE)]


def boards_of(results: Results, measure: str | None = None) -> list[AuditedBoard]:
    """Return the boards of results of lexbench, one per suite."""
    return [audited(suite or "results", results.select(suite=suite), measure) for suite in results.suites]


def merged_board(path: Path | None, measure: str | None = None) -> AuditedBoard:
    """Return all boards at *path* as one; without a path, that of the results in the store."""
    if path is None:
        return audited("store", stored_results(Store()), measure)
    boards = read_boards(path, measure)
    measures = {name: known for one in reversed(boards) for name, known in one.measures.items()}
    return AuditedBoard("", Results(entry for one in boards for entry in one.results.entries), measures)


def suite_datasets(text: str) -> list[str]:
    """Return the datasets of a suite, or the names separated by commas."""
    return list(suite(text).datasets) if text in suite_names() else text.split(",")


def _of_cells(name: str, cells: Iterable[Cell], measure: str | None) -> AuditedBoard:
    """Return the board of *cells*, with all measures of a system on a dataset.

    If a cell occurs twice, the first one counts and a note says so.
    """
    found: dict[tuple[str, str], dict[str, Cell]] = {}
    twice = 0
    for cell in cells:
        kept = found.setdefault((cell.system, cell.dataset), {}).setdefault(cell.measure, cell)
        twice += kept is not cell
    results = Results(
        Result(
            system=system,
            dataset=dataset,
            contract="none",
            depth=0,
            means={measure: cell.value for measure, cell in by_measure.items()},
            query_ids=[],
            per_query={},
            counts=Counts(queries=0),
            digests={"": first.revision} if first.revision else {},
            exposure=Exposure(status=first.seen) if first.seen else None,
        )
        for (system, dataset), by_measure in found.items()
        for first in [next(iter(by_measure.values()))]
    )
    return audited(name, results, measure, [f"{twice} cells are there twice; the first counts"] if twice else [])


def _seen(system: str, dataset: str) -> str:
    """Return what a model of the catalogue had seen of a dataset with a contract; "" if nothing, or unknown."""
    entry = catalogued_model(system)
    contract = find_contract(dataset) if entry else None
    status = exposure_of_entry(entry, contract).status if entry and contract else ""
    return status if status in (SEEN, IN_DOMAIN) else ""


def _table(path: Path) -> Iterator[Cell]:
    """Yield the cells of a CSV file in either layout. Columns of means and ranks are skipped."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    header = list(rows[0]) if rows else []
    named = {_COLUMNS.get(column.lower(), column.lower()): column for column in header}
    if {"system", "dataset", "score"} <= named.keys():
        listed = [{name: row[column] or "" for name, column in named.items()} for row in rows]
    else:
        datasets = [
            column for column in header[1:] if not _NO_DATASET.match(column) and any(map(_number, (r[column] for r in rows)))
        ]
        listed = [{"system": r[header[0]], "dataset": name, "score": r[name]} for r in rows for name in datasets if r[name]]
    if not listed:
        raise InvalidFile(f"{path} has no scores: it needs columns system, dataset, score, or a column per dataset")
    for row in listed:
        system, dataset, value = row["system"], row["dataset"], _number(row["score"])
        if value is None:
            raise InvalidFile(f"{path}: {system} on {dataset}: {row['score']!r} is no score")
        seen = _seen(system, dataset)
        yield Cell(system, dataset, value, row.get("measure") or _UNNAMED, row.get("revision", ""), seen)


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").strip().rstrip("%"))
    except ValueError:
        return None


def _mteb(path: Path) -> Iterator[Cell]:
    """Yield the main scores of MTEB's files: means over the subsets of the split test, or else of the first split.

    If a model has several revisions, the one with most tasks counts.
    """
    files = sorted(file for file in path.glob("**/*.json") if file.name != _META)
    for folder, of_model in groupby(files, key=lambda file: file.parent.parent):
        revisions = (list(group) for _, group in groupby(of_model, key=lambda file: file.parent))
        chosen, model = max(revisions, key=len), folder.name.replace("__", "/")
        trained = _trained_on(chosen[0].with_name(_META))
        for file in chosen:
            task = read_task(file)
            split = "test" if "test" in task.scores else min(task.scores, default="")
            entries = task.scores.get(split, [])
            if not entries or not all(isinstance(entry.get("main_score"), float | int) for entry in entries):
                raise InvalidFile(f"{file}: no main_score")
            names = {name for name, value in entries[0].items() if name != "main_score" and value == entries[0]["main_score"]}
            known = {from_mteb(name) or name for name in names}
            measure = HEADLINE if HEADLINE in known else min(known, default="?")
            yield Cell(
                model,
                task.task_name,
                value=sum(entry["main_score"] for entry in entries) / len(entries),
                measure=f"{measure} on {split}" + (f", {len(entries)} subsets" if len(entries) > 1 else ""),
                revision=task.dataset_revision,
                seen=IN_DOMAIN if task.task_name in trained else _seen(model, _DATASETS.get(task.task_name, "")),
            )


def _trained_on(meta: Path) -> set[str]:
    """Return the tasks that a model was trained on, as its model_meta.json states; none if it says nothing."""
    try:
        return set(json.loads(meta.read_bytes()).get("training_datasets") or ()) if meta.is_file() else set()
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidFile(f"{meta}: {error}") from None


def _runs(folder: Path, measure: str) -> Iterator[Result]:
    """Yield the results of a folder of run files and one qrels file, whose name contains `qrels`."""
    judged, *more = sorted(folder.glob("*qrels*"))
    if more:
        raise CommandError(f"{folder} has several files of qrels; leave one: {judged.name}, {more[0].name}")
    qrels = read_qrels(judged)
    for file in sorted(file for file in folder.iterdir() if file.is_file() and file != judged and file.name[0] != "."):
        name = Path(file.name.removesuffix(".gz")).stem
        yield score_lists(read_run(file), name, [measure], JudgementRules(qrels, None, folder.name))
