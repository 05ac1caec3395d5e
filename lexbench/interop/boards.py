"""Read leaderboards of other tools, and of lexbench, for `lexbench audit`.

folder with results/SUITE/SYSTEM.json       results of lexbench, a board per suite
folder with MODEL/REVISION/TASK.json        results of MTEB 1.11 or later
folder with run files and a qrels file      one dataset; folders of these are several
CSV or TSV file                             a row per system and a column per dataset, or columns system, dataset, score
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from lexbench.analysis.audit import AuditedBoard, audited
from lexbench.analysis.compare.run_files import bare_name
from lexbench.analysis.stored_results import stored_results
from lexbench.contracts import find_contract
from lexbench.errors import CommandError, InvalidFile
from lexbench.interop.formats.mteb import TASKS, from_mteb, read_task
from lexbench.results import Counts, Exposure, Result, Results
from lexbench.runner.exposure import IN_DOMAIN, SEEN, catalogued_model, exposure_of_entry
from lexbench.runner.scoring import JudgementRules, score_lists
from lexbench.runner.soundness import read_folder
from lexbench.storage.rows import check_names, lines_of_fields
from lexbench.storage.store import Store
from lexbench.suites import HEADLINE, suite, suite_names
from lexbench.trec.columns import are_numbers
from lexbench.trec.qrels import QUERY_IDS, read_qrels
from lexbench.trec.runs import read_runs


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
_NO_DATASET = re.compile(
    r"(?i)^(rank|mean|average|avg|borda|overall|size|dim|zero)\b|"
    r"\b(params?|parameters|embedding dim\w*|memory usage|max tokens)\b"
)
_MISSING = re.compile(r"(?i)[-\u2013\u2014]*|n/?a|nan|null|none")  # a cell without a score
_SCALE = 30  # times the lowest score of a dataset: a higher one may be a percentage beside a share


def read_boards(path: Path, measure: str | None = None) -> list[AuditedBoard]:
    """Return the boards in a folder, or in a CSV or TSV file. Runs are scored by *measure*, default nDCG@10.

    Raises InvalidFile for a malformed file, CommandError if there is nothing to read.
    """
    if not path.is_dir():
        cells, notes = _table(path)
        return [_of_cells(path.stem, cells, measure, notes)]
    inside = path / "results"  # of lexbench, or of MTEB in a clone of its repository
    if inside.is_dir() and not next(inside.glob("*/*/*.json"), None):
        return boards_of(read_folder(path), measure)
    folders = [folder for folder in (path, *sorted(path.iterdir())) if folder.is_dir() and any(folder.glob("*qrels*"))]
    if not folders:
        if next(path.glob("**/*.json"), None):
            return [_of_cells(path.name, _mteb(inside if inside.is_dir() else path), measure)]
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


def _of_cells(name: str, cells: Iterable[Cell], measure: str | None, notes: Sequence[str] = ()) -> AuditedBoard:
    """Return the board of *cells*, with all measures of a system on a dataset, and *notes* on what they were read from.

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
    more = [f"{twice} cells are there twice; the first counts"] if twice else []
    return audited(name, results, measure, [*notes, *more])


def _seen(system: str, dataset: str) -> str:
    """Return what a model of the catalogue had seen of a dataset with a contract; "" if nothing, or unknown."""
    entry = catalogued_model(system)
    contract = find_contract(dataset) if entry else None
    status = exposure_of_entry(entry, contract).status if entry and contract else ""
    return status if status in (SEEN, IN_DOMAIN) else ""


def _table(path: Path) -> tuple[list[Cell], list[str]]:
    """Return the cells of a CSV or TSV file in either layout, and notes on columns that are not read and on mixed scales.

    Raises InvalidFile for a file that is malformed, or that has rows of something else than systems.
    """
    every = list(lines_of_fields(path))
    first, header = every[0] if every else (1, [""])
    header = [name.strip() for name in header]
    place = f"{path}, line {first}"
    check_names(place, header, set(filter(None, header)))
    for number, fields in every[1:]:
        if len(fields) != len(header):
            raise InvalidFile(f"{path}, line {number}: {len(fields)} columns, not {len(header)} as in line {first}")
    rows = [[field.strip() for field in fields] for _, fields in every[1:]]
    named = {_COLUMNS.get(column.lower(), column.lower()): at for at, column in reversed(list(enumerate(header)))}
    notes: list[str] = []
    if {"system", "dataset"} <= named.keys():
        if "score" not in named:
            raise InvalidFile(f"{place}: there is no column 'score'; there is: {', '.join(header)}")
        listed = [{name: row[at] for name, at in named.items()} for row in rows]
    else:
        _check_wide(place, header, named)
        system = named.get("system", 0)
        datasets = [
            at
            for at, name in enumerate(header)
            if at != system and name and not _NO_DATASET.search(name) and any(_number(row[at]) is not None for row in rows)
        ]
        others = {header[at] or "a column without a name": at for at in range(len(header)) if at not in (system, *datasets)}
        unread = [name for name, at in others.items() if header[at] or any(row[at] for row in rows)]
        notes = [f"not read, because they are no datasets: {', '.join(unread)}"] if datasets and unread else []
        listed = [{"system": row[system], "dataset": header[at], "score": row[at]} for row in rows for at in datasets]
    listed = [row for row in listed if not _MISSING.fullmatch(row["score"])]
    if not listed:
        raise InvalidFile(
            f"{path} has no scores: it needs columns system, dataset, score, or a column per dataset, of numbers like 0.5"
        )
    cells: list[Cell] = []
    for row in listed:
        value = _number(row["score"])
        if value is None:
            raise InvalidFile(f"{path}: {row['system']} on {row['dataset']}: {row['score']!r} is no score")
        seen = _seen(row["system"], row["dataset"])
        cells.append(Cell(row["system"], row["dataset"], value, row.get("measure") or _UNNAMED, row.get("revision", ""), seen))
    return cells, [*notes, *_mixed_scales(cells)]


def _check_wide(place: str, header: Sequence[str], named: Mapping[str, int]) -> None:
    """Raise InvalidFile if the first line of a table has no names, or if its rows are queries or datasets."""
    if "system" in named:
        return
    if header[0].lower() in QUERY_IDS:
        raise InvalidFile(
            f"{place}: it has a row per query, and a board has one per system; compare run files: lexbench compare"
        )
    if "dataset" in named:
        raise InvalidFile(f"{place}: it has a row per dataset, and a board has one per system; swap rows and columns")
    if any("." in name for name in header[1:]) and all(_number(name) is not None for name in header[1:]):
        raise InvalidFile(f"{place}: there are scores and no names of columns; add such a line above it, e.g.: model,A,B")


def _mixed_scales(cells: Iterable[Cell]) -> Iterator[str]:
    """Yield a note for each dataset whose scores may be shares and percentages, e.g. 0.6 and 61."""
    by_dataset: dict[str, list[float]] = {}
    for cell in cells:
        by_dataset.setdefault(cell.dataset, []).append(cell.value)
    for dataset, values in by_dataset.items():
        low, high = min(values), max(values)
        if 0 < low <= 1 < high and high > _SCALE * low:
            yield f"the scores of {dataset} are from {low:g} to {high:g}: are they on one scale?"


def _number(text: str) -> float | None:
    """Return the number that a cell has, 0.5 for 50%; None if it has none, or no finite one."""
    digits = text.strip()
    share = digits.removesuffix("%")
    if not are_numbers([share]) or not math.isfinite(float(share)):
        return None
    return float(share) / 100 if share != digits else float(share)


def _mteb(path: Path) -> Iterator[Cell]:
    """Yield the main scores of MTEB's files: means over the subsets of the split test, or else of the first split.

    If a model has several revisions, the one with most tasks counts.
    """
    files = sorted(file for file in path.glob("**/*.json") if file.name != _META)
    if alone := next((file for file in files if file.parent.parent == path), None):
        raise InvalidFile(f"{alone}: results of MTEB are in MODEL/REVISION/TASK.json, and here is no folder of the revision")
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
            if not math.isfinite(mean := sum(entry["main_score"] for entry in entries) / len(entries)):
                continue  # MTEB writes NaN where it could not evaluate: the cell is missing
            names = {name for name, value in entries[0].items() if name != "main_score" and value == entries[0]["main_score"]}
            known = {from_mteb(name) or name for name in names}
            measure = HEADLINE if HEADLINE in known else min(known, default="?")
            yield Cell(
                model,
                task.task_name,
                value=mean,
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
    files = sorted(file for file in folder.iterdir() if file.is_file() and file != judged and file.name[0] != ".")
    if not files:
        raise CommandError(f"{folder} has judgements and no run files; put them beside {judged.name}")
    runs = [(file, tag, run) for file in files for tag, run in read_runs(file).items()]
    names = [tag or bare_name(file.name) for file, tag, _ in runs]
    for name, (file, tag, run) in zip(names, runs, strict=True):
        label = name if names.count(name) == 1 else f"{file.name}#{tag}" if tag else file.name
        yield score_lists(run, label, [measure], JudgementRules(qrels, None, folder.name))
