"""Conversion from the store or a folder of results to other tools' files, and from their files to ours."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shlex import quote

from lexbench.analysis.stored_results import StoredResult, chosen_systems, results_at
from lexbench.datasets.location import find_dataset
from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.interop.formats import Target, exports, imports
from lexbench.results import file_name
from lexbench.storage.store import Store
from lexbench.trec.qrels import write_qrels
from lexbench.trec.runs import Run, write_run


def export(
    format_name: str,
    store: Store,
    folder: Path,
    *,
    systems: Sequence[str] = (),
    datasets: Sequence[str] = (),
    results: Path | None = None,
    on_note: Callable[[str], None] = lambda _line: None,
) -> Iterator[Path]:
    """Write the results of *systems* on *datasets* (default: all) into *folder*, yielding the path of each file.

    The results come from the store, or from the folder *results*, which has no runs. *on_note* gets a note about each
    thing that cannot be written. Raises CannotStart if there is no such result, LexbenchError if nothing was written.
    """
    form = exports()[format_name]
    wanted = [find_dataset(name)[0].id if Path(name).exists() else name for name in datasets]
    there = sorted(results_at(store, results), key=lambda entry: (entry.result.dataset, entry.result.system))
    chosen = chosen_systems(systems, there)
    selected = [entry for entry in chosen if not wanted or entry.result.dataset in wanted]
    if not selected:
        raise CannotStart(f"no such result in {results or store.root}; see: lexbench list results")
    folder.mkdir(parents=True, exist_ok=True)
    before, written = set(folder.rglob("*")), 0
    groups: dict[str, list[StoredResult]] = {}  # by the name of the file or folder, without a suffix
    for entry in selected:
        dataset, system = entry.result.dataset.replace("/", "-"), file_name(entry.result.system)
        name = {"result": f"{dataset}.{system}", "dataset": dataset, "system": system, "export": ""}[form.per]
        groups.setdefault(name, []).append(entry)
    for name, group in groups.items():
        for path in form.convert(group, Target(folder / name, store, on_note)):
            if path in before:
                on_note(f"replaced: {path}")
            written += 1
            yield path
    if not written:
        raise LexbenchError(f"nothing was written: none of these results can become {form.name}")


def import_file(format_name: str, source: Path, target: Path, on_note: Callable[[str], None] = lambda _line: None) -> str:
    """Read *source*, a file of that format, write it to *target* as a TREC run or qrels, and return what to type next.

    *on_note* gets a note if *target* existed. Raises CommandError if *target* is *source*, InvalidFile if *source* is
    malformed.
    """
    content = imports()[format_name].convert(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        if target.samefile(source):
            raise CommandError(f"{target} is the file to read; name another one to write")
        on_note(f"replaced: {target}")
    if isinstance(content, Run):
        write_run(content, target)
        system = quote(f"run_file(path={json.dumps(str(target), ensure_ascii=False)})")
        return f"lexbench score {quote(str(target))} --dataset ID; or as a system: -r {system}"
    write_qrels(content, target)
    return f"lexbench score RUN --qrels {quote(str(target))}"
