"""Read leaderboards of other tools, and of lexbench, for `lexbench audit`.

folder with results/SUITE/SYSTEM.json       results of lexbench, a board per suite
folder with MODEL/REVISION/TASK.json        results of MTEB 1.11 or later
folder with run files and a qrels file      one dataset; folders of these are several
table .csv or .tsv                          a row per system and a column per dataset, or columns system, dataset, score
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from lexbench import catalog, measures, suites
from lexbench.analysis.audit import Board, Cell
from lexbench.analysis.compare.comparison import measure_of
from lexbench.analysis.stored_results import stored_results
from lexbench.contracts import find_contract
from lexbench.errors import CommandError, InvalidFile
from lexbench.interop.formats.mteb import TASKS
from lexbench.interop.scores import from_mteb
from lexbench.report.leaderboard.result_folders import read_folder
from lexbench.results import Result
from lexbench.runner.exposure import IN_DOMAIN, SEEN, exposure_of_entry
from lexbench.storage.store import Store
from lexbench.suites import HEADLINE
from lexbench.trec.qrels import read_qrels
from lexbench.trec.runs import read_run

_META = "model_meta.json"  # of MTEB: what is known about a model
_DATASETS = {task.name: dataset for dataset, task in TASKS.items()}
_COLUMNS = {  # of a table with a row per score
    "system": ("system", "model", "model_name", "name", "run"),
    "dataset": ("dataset", "task", "task_name", "collection"),
    "value": ("value", "score", "main_score"),
    "measure": ("measure", "metric"),
    "revision": ("revision", "dataset_revision"),
}
_NO_DATASET = re.compile(r"(?i)(rank|mean|average|avg|borda|overall|params?|parameters|size|dim|zero|memory|tokens)\b")


def read_boards(path: Path, measure: str | None = None) -> list[Board]:
    """Return the boards in a folder or table. Runs are scored by *measure*, default nDCG@10.

    Raises InvalidFile for a malformed file, CommandError if there is nothing to read.
    """
    if path.is_file():
        return [_table(path, measure)]
    if (path / "results").is_dir():
        return [from_results(suite, (r for by_dataset in systems.values() for r in by_dataset.values()), measure)
                for suite, systems in read_folder(path).items()]  # fmt: skip
    if next(path.glob("**/*.json"), None):
        return [_mteb(path)]
    folders = [folder for folder in (path, *sorted(path.iterdir())) if folder.is_dir() and any(folder.glob("*qrels*"))]
    if not folders:
        raise CommandError(
            f"{path} has no scores: give a CSV table, or a folder of results of lexbench or MTEB, or of runs with a qrels file"
        )
    scored = (row for folder in folders for row in _runs(folder, measure or HEADLINE))
    return [_board(path.name, scored)]


def from_results(name: str, results: Iterable[Result], measure: str | None = None) -> Board:
    """Return the board of results of lexbench by *measure*, default: the headline of each dataset's suite."""

    def rows() -> Iterator[tuple[str, str, Cell]]:
        for result in results:
            wanted = measure_of(result.dataset, measure)
            if wanted in result.means and not result.is_bound:
                digests = ", ".join(
                    f"{what} {digest[:8]}" for what, digest in sorted(result.digests.items()) if what != "corpus"
                )
                status = result.exposure.status if result.exposure else ""
                yield result.system, result.dataset, Cell(
                    value=result.means[wanted],
                    measure=wanted,
                    revision=f"{result.contract}, {digests}",
                    seen=status if status in (SEEN, IN_DOMAIN) else "",
                    values=dict(zip(result.query_ids, result.per_query.get(wanted, []), strict=False)),
                )  # fmt: skip

    return _board(name, rows())


def stored_board(measure: str | None = None) -> Board:
    """Return the board of all results in the store."""
    return from_results("store", (entry.result for entry in stored_results(Store())), measure)


def together(boards: Iterable[Board]) -> Board:
    """Return boards as one."""
    listed = list(boards)
    rows = ((system, name, cell) for one in listed for system, cells in one.cells.items() for name, cell in cells.items())
    return _board(listed[0].name, rows, (note for one in listed for note in one.notes))


def suite_datasets(text: str) -> list[str]:
    """Return the datasets of a suite, or the names separated by commas."""
    return list(suites.suite(text).datasets) if text in suites.suite_names() else text.split(",")


def _board(name: str, rows: Iterable[tuple[str, str, Cell]], notes: Iterable[str] = ()) -> Board:
    """Return the board of (system, dataset, cell); of a cell that is there twice the first counts, and a note says so."""
    cells: dict[str, dict[str, Cell]] = {}
    twice = 0
    for system, dataset, cell in rows:
        kept = cells.setdefault(system, {}).setdefault(dataset, cell)
        twice += kept is not cell and kept.measure == cell.measure
    if not cells:
        raise CommandError(f"{name}: no scores")
    return Board(
        name=name, cells=cells, notes=[*notes, *([f"{twice} cells are there twice; the first counts"] if twice else [])]
    )


# ---- tables ----------------------------------------------------------------------------------------------------------------


def _table(path: Path, measure: str | None) -> Board:
    """Read a CSV or TSV table in either layout."""
    text = path.read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(text.splitlines(), delimiter="\t" if "\t" in text.partition("\n")[0] else ","))
    header = list(rows[0]) if rows else []
    names = {what: next((column for column in header if column.lower() in known), None) for what, known in _COLUMNS.items()}
    if names["dataset"] and names["value"] and names["system"]:
        return _board(path.stem, _long(rows, names, path, measure))
    datasets = [
        column
        for column in header[1:]
        if not _NO_DATASET.match(column) and any(_number(row[column]) is not None for row in rows)
    ]
    if not datasets:
        raise InvalidFile(f"{path} has no scores: it needs columns system, dataset, score, or a column per dataset")
    cells = (
        (row[header[0]], column, Cell(value=value, seen=_seen(row[header[0]], column)))
        for row in rows
        for column in datasets
        if (value := _number(row[column])) is not None
    )
    ignored = [column for column in header[1:] if column not in datasets]
    return _board(path.stem, cells, [f"columns that are no datasets: {', '.join(ignored)}"] if ignored else [])


def _long(
    rows: Iterable[Mapping[str, str]], names: Mapping[str, str | None], path: Path, measure: str | None
) -> Iterator[tuple[str, str, Cell]]:
    """Yield the cells of a table with a row per score."""

    def field(row: Mapping[str, str], what: str) -> str:
        return row[str(names[what])] if names[what] else ""

    listed = [row for row in rows if measure is None or field(row, "measure") == measure]
    systems = Counter((field(row, "dataset"), field(row, "measure")) for row in listed)
    # Of several measures the one that most systems have on the dataset comes first, and counts.
    for row in sorted(listed, key=lambda row: -systems[field(row, "dataset"), field(row, "measure")]):
        value, system, dataset = _number(field(row, "value")), field(row, "system"), field(row, "dataset")
        if value is None:
            raise InvalidFile(f"{path}: {system} on {dataset}: {field(row, 'value')!r} is no score")
        seen = _seen(system, dataset)
        cell = Cell(value=value, measure=field(row, "measure"), revision=field(row, "revision"), seen=seen)
        yield system, dataset, cell


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").strip().rstrip("%"))
    except ValueError:
        return None


@cache
def _models() -> dict[str, catalog.Model]:
    """Return the models of the catalogue by their name here and on the hub."""
    entries = [entry for entry in catalog.listing().values() if isinstance(entry, catalog.Model)]
    return {str(name): entry for entry in entries for name in (entry.name, entry.settings.get("model")) if name}


def _seen(system: str, dataset: str) -> str:
    """Return what a model of the catalogue had seen of a dataset with a contract; "" if nothing, or unknown."""
    entry = _models().get(system)
    contract = find_contract(dataset) if entry else None
    status = exposure_of_entry(entry, contract).status if entry and contract else ""
    return status if status in (SEEN, IN_DOMAIN) else ""


# ---- MTEB ------------------------------------------------------------------------------------------------------------------


def _mteb(path: Path) -> Board:
    """Read results of MTEB. Of a model with several revisions the one with most tasks counts."""
    notes: list[str] = []

    def rows() -> Iterator[tuple[str, str, Cell]]:
        files = sorted(file for file in path.glob("**/*.json") if file.name != _META)
        for folder, of_model in groupby(files, key=lambda file: file.parent.parent):
            revisions = {name: list(group) for name, group in groupby(of_model, key=lambda file: file.parent.name)}
            chosen = max(revisions, key=lambda name: len(revisions[name]))
            model = folder.name.replace("__", "/")
            if len(revisions) > 1:
                notes.append(f"{model} has {len(revisions)} revisions; {chosen} counts, which has most tasks")
            trained = _trained_on(folder / chosen / _META)
            for file in revisions[chosen]:
                task, cell = _task(file)
                seen = IN_DOMAIN if task in trained else _seen(model, _DATASETS.get(task, ""))
                yield model, task, Cell(value=cell.value, measure=cell.measure, revision=cell.revision, seen=seen)

    board = _board(path.name, rows())
    return Board(name=board.name, cells=board.cells, notes=[*notes, *board.notes])


def _trained_on(meta: Path) -> set[str]:
    """Return the tasks that a model was trained on, as its model_meta.json states; none if it says nothing."""
    if not meta.is_file():
        return set()
    try:
        return set(json.loads(meta.read_bytes()).get("training_datasets") or ())
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidFile(f"{meta}: {error}") from None


def _task(file: Path) -> tuple[str, Cell]:
    """Return the task of a result file and its score: the mean over subsets of the split test, or of the first split."""
    try:
        content: dict[str, Any] = json.loads(file.read_bytes())
        splits = content["scores"]
        split = "test" if "test" in splits else next(iter(splits))
        entries = splits[split]
        value = sum(float(entry["main_score"]) for entry in entries) / len(entries)
        named = {_measure(entry) for entry in entries}
        measure = f"{' and '.join(sorted(named))} on {split}" + (f", {len(entries)} subsets" * (len(entries) > 1))
        return str(content["task_name"]), Cell(value=value, measure=measure, revision=str(content["dataset_revision"]))
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError, StopIteration) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidFile(f"{file}: {what}; it is not a result file of MTEB 1.11 or later") from None


def _measure(entry: Mapping[str, Any]) -> str:
    """Return the measure whose value is the main score; "?" if none is."""
    same = [name for name, value in entry.items() if name != "main_score" and value == entry["main_score"]]
    ours = [measure for name in same if (measure := from_mteb(name))]
    return HEADLINE if HEADLINE in ours else next(iter([*ours, *same]), "?")


# ---- runs ------------------------------------------------------------------------------------------------------------------


def _runs(folder: Path, measure: str) -> Iterator[tuple[str, str, Cell]]:
    """Yield the cells of a folder of run files and one qrels file, whose name contains `qrels`."""
    judged, *more = sorted(folder.glob("*qrels*"))
    if more:
        raise CommandError(f"{folder} has several files of qrels; leave one: {judged.name}, {more[0].name}")
    qrels = read_qrels(judged)
    for file in sorted(file for file in folder.iterdir() if file.is_file() and file != judged and file.name[0] != "."):
        scores = measures.score(read_run(file), qrels, [measure])
        values = dict(zip(scores.query_ids, scores.values[measure].tolist(), strict=True))
        yield Path(file.name.removesuffix(".gz")).stem, folder.name, Cell(
            value=scores.means[measure], measure=measure, values=values
        )  # fmt: skip
