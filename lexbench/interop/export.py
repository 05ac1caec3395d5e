"""From the store to other tools' files. Nothing is computed: what was kept is written out."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from lexbench import atomic, results, suites
from lexbench.datasets.dataset import open_dataset
from lexbench.errors import CannotStart, LexbenchError
from lexbench.interop import trec
from lexbench.interop.export_vectors import VECTORS, write_vectors
from lexbench.pipeline import Kept, kept_results
from lexbench.ranking import Run
from lexbench.report.leaderboard import file_name
from lexbench.run_folder import read_run
from lexbench.store import Store


def export(layout: str, store: Store, folder: Path, *, systems: Sequence[str], datasets: Sequence[str]) -> Iterator[Path]:
    """Write every kept result of *systems* on *datasets* (default: all) into *folder*, yielding each file's path.

    CannotStart where the store has none of them.
    """
    wanted = [
        kept
        for kept in kept_results(store)
        if (not systems or kept.result.system in systems) and (not datasets or kept.result.dataset in datasets)
    ]
    if not wanted:
        raise CannotStart(f"no such result in {store.root}; see: lexbench list results")
    folder.mkdir(parents=True, exist_ok=True)
    if layout in VECTORS:
        for kept in wanted:
            name = f"{kept.result.dataset.replace('/', '-')}.{file_name(kept.result.system)}"
            yield from write_vectors(layout, kept, store, folder / name)
        return
    suffix, write = _WRITERS[layout]
    written = set()
    for kept in wanted:
        name = kept.result.dataset.replace("/", "-")
        if layout != "qrels":
            name += f".{file_name(kept.result.system)}"
        if name not in written:
            written.add(name)
            write(kept, folder / f"{name}.{suffix}")
            yield folder / f"{name}.{suffix}"


def _run(kept: Kept) -> Run:
    if kept.run is None:
        raise LexbenchError(f"{kept.result.system} on {kept.result.dataset} was a run file already")
    return read_run(kept.run).run


def _write_trec(kept: Kept, path: Path) -> None:
    trec.write_run(_run(kept), path, tag="lexbench")


def _write_msmarco(kept: Kept, path: Path) -> None:
    trec.write_msmarco_run(_run(kept), path)


def _write_qrels(kept: Kept, path: Path) -> None:
    trec.write_qrels(open_dataset(suites.contract(kept.result.dataset)).qrels, path)


def _write_csv(kept: Kept, path: Path) -> None:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["query", *kept.result.per_query])
    table.writerows(zip(kept.result.query_ids, *kept.result.per_query.values(), strict=True))
    atomic.write_text(path, text.getvalue())


def _write_json(kept: Kept, path: Path) -> None:
    results.save(kept.result, path)


_WRITERS: Mapping[str, tuple[str, Callable[[Kept, Path], None]]] = {
    "trec": ("trec", _write_trec),
    "msmarco": ("tsv", _write_msmarco),
    "qrels": ("qrels", _write_qrels),
    "csv": ("csv", _write_csv),
    "json": ("json", _write_json),
}
