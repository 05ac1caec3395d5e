"""From the store to other tools' files. Nothing is computed: what was kept is written out."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from lexbench import results
from lexbench.datasets.contracts import contract_of
from lexbench.datasets.dataset import open_dataset
from lexbench.errors import CannotStart, LexbenchError, require
from lexbench.interop import hub, ir_metadata, mteb, ranx
from lexbench.interop.export_vectors import VECTORS, write_vectors
from lexbench.report import figures
from lexbench.results import Result, file_name, files_of, load_system
from lexbench.runner.jobs import Kept, kept_results
from lexbench.runner.stored_run import read_run
from lexbench.storage import atomic
from lexbench.storage.store import Store
from lexbench.trec.qrels import write_qrels
from lexbench.trec.runs import Run, write_msmarco_run, write_run


def export(
    layout: str,
    store: Store,
    folder: Path,
    *,
    systems: Sequence[str] = (),
    datasets: Sequence[str] = (),
    saved: Path | None = None,
    tell: Callable[[str], None] = lambda _line: None,
) -> Iterator[Path]:
    """Write every kept result of *systems* on *datasets* (default: all) into *folder*, yielding each file's path.

    With *saved*, a folder that `lexbench run --save` wrote, results are those of its files; these have no runs. *tell* gets
    a line for each kind of figure that cannot be made. CannotStart where there is no such result.
    """
    wanted = [
        kept
        for kept in (_saved(saved) if saved else kept_results(store))
        if (not systems or kept.result.system in systems) and (not datasets or kept.result.dataset in datasets)
    ]
    if not wanted:
        raise CannotStart(f"no such result in {saved or store.root}; see: lexbench list results")
    folder.mkdir(parents=True, exist_ok=True)
    if layout == "figures":
        found = [kept.result for kept in wanted]
        yield from figures.write(found, folder)
        for line in figures.missing(found):
            tell(line)
    elif layout in _BY_SYSTEM:
        for system, own in _by_system(layout, wanted, tell).items():
            yield from _BY_SYSTEM[layout](own, folder / file_name(system))
    else:
        yield from _one_by_one(layout, wanted, store, folder)


def _by_system(layout: str, wanted: Sequence[Kept], tell: Callable[[str], None]) -> dict[str, list[Result]]:
    """Return the results that *layout* has a place for, by system; CannotStart where there is none."""
    found: dict[str, list[Result]] = {}
    for kept in wanted:
        if layout not in _OF_TASKS or mteb.has(kept.result):
            found.setdefault(kept.result.system, []).append(kept.result)
    left = len(wanted) - sum(map(len, found.values()))
    if not found:
        known = ", ".join(mteb.TASKS)
        raise CannotStart(f"no result with {mteb.MAIN} on a collection that {layout} has; these are {known}")
    if left:
        tell(f"left out, on collections that {layout} has not: {left} of {len(wanted)} results")
    return found


def _saved(folder: Path) -> Iterator[Kept]:
    """Yield the results of the files in a leaderboard folder; a system that two suites have on a dataset comes once."""
    found: dict[tuple[str, str], Result] = {}
    for path in files_of(folder):
        found |= {(result.dataset, result.system): result for result in load_system(path).results}
    yield from (Kept(found[key], None) for key in sorted(found))


def _one_by_one(layout: str, wanted: Sequence[Kept], store: Store, folder: Path) -> Iterator[Path]:
    written = set()
    for kept in wanted:
        name = kept.result.dataset.replace("/", "-")
        if layout != "qrels":
            name += f".{file_name(kept.result.system)}"
        if layout in VECTORS:
            yield from write_vectors(layout, kept, store, folder / name)
        elif layout == "ir-metadata":
            yield from ir_metadata.write(_run(kept), kept.result, folder / name)
        elif name not in written:
            written.add(name)
            suffix, write = _WRITERS[layout]
            write(kept, folder / f"{name}.{suffix}")
            yield folder / f"{name}.{suffix}"


def _run(kept: Kept) -> Run:
    if kept.run is None:
        raise LexbenchError(
            f"{kept.result.system} on {kept.result.dataset} has no run here: it was a run file already, or was saved without; "
            f"runs are in the store: lexbench list results"
        )
    return read_run(kept.run).run


def _write_trec(kept: Kept, path: Path) -> None:
    write_run(_run(kept), path, tag="lexbench")


def _write_msmarco(kept: Kept, path: Path) -> None:
    write_msmarco_run(_run(kept), path)


def _write_qrels(kept: Kept, path: Path) -> None:
    write_qrels(open_dataset(contract_of(kept.result.dataset)).qrels, path)


def _write_csv(kept: Kept, path: Path) -> None:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["query", *kept.result.per_query])
    table.writerows(zip(kept.result.query_ids, *kept.result.per_query.values(), strict=True))
    atomic.write_text(path, text.getvalue())


def _write_json(kept: Kept, path: Path) -> None:
    results.save(kept.result, path)


def _write_ranx(kept: Kept, path: Path) -> None:
    ranx.write_run(_run(kept), path)


def _write_parquet(kept: Kept, path: Path) -> None:
    """Write one row a query and measure; columns system, dataset, contract, measure, query and value."""
    require("export parquet", ["pyarrow"], "parquet")
    import pyarrow as pa
    from pyarrow.parquet import write_table

    result = kept.result
    queries, measures = result.query_ids, list(result.per_query)
    rows = len(queries) * len(measures)
    table = pa.table(
        {
            "system": [result.system] * rows,
            "dataset": [result.dataset] * rows,
            "contract": [result.contract] * rows,
            "measure": [measure for measure in measures for _ in queries],
            "query": queries * len(measures),
            "value": [value for values in result.per_query.values() for value in values],
        }
    )
    with atomic.atomic_path(path) as draft:
        write_table(table, draft)


_WRITERS: Mapping[str, tuple[str, Callable[[Kept, Path], None]]] = {
    "trec": ("trec", _write_trec),
    "msmarco": ("tsv", _write_msmarco),
    "ranx": ("json", _write_ranx),
    "qrels": ("qrels", _write_qrels),
    "csv": ("csv", _write_csv),
    "parquet": ("parquet", _write_parquet),
    "json": ("json", _write_json),
}
_OF_TASKS = {"mteb", "eval-results"}
_BY_SYSTEM: Mapping[str, Callable[[Sequence[Result], Path], Iterator[Path]]] = {
    "mteb": mteb.write,
    "model-index": hub.write_model_index,
    "eval-results": hub.write_eval_results,
}
