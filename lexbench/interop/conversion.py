"""Conversion from the store or a folder of results to other tools' files, and from their files to ours."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote

import msgspec

from lexbench.analysis.stored_results import chosen_systems, expression_of, results_at
from lexbench.datasets.location import typed_id
from lexbench.display.answer import Answer
from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.interop.formats import Target, exports, imports
from lexbench.results import Entry, Results, file_name
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
    results: Results | Path | None = None,
    on_note: Callable[[str], None] = lambda _line: None,
) -> Iterator[Path]:
    """Write the results of *systems* on *datasets* (default: all) into *folder*, yielding the path of each file.

    The results come from the store, or are *results* or those in a folder of results, which has no runs. *on_note* gets a
    note about each thing that cannot be written. Raises CannotStart if there is no such result, and LexbenchError if nothing
    was written.
    """
    form = exports()[format_name]
    wanted = list(map(typed_id, datasets))
    there = results if isinstance(results, Results) else results_at(store, results)
    chosen = sorted(chosen_systems(systems, there).entries, key=lambda one: (one.result.dataset, one.result.system))
    selected = list(_newest((one for one in chosen if not wanted or one.result.dataset in wanted), on_note))
    if not selected:
        where = "these results" if isinstance(results, Results) else results or store.root
        raise CannotStart(f"no such result in {where}; see: lexbench list results")
    folder.mkdir(parents=True, exist_ok=True)
    before, written = set(folder.rglob("*")), 0
    groups: dict[str, list[Entry]] = {}  # by the name of the file or folder, without a suffix
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


def _newest(entries: Iterable[Entry], on_note: Callable[[str], None]) -> Iterator[Entry]:
    """Yield the first, i.e. newest, of *entries* for each system and dataset; *on_note* gets a note about the others."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.result.dataset, entry.result.system), []).append(entry)
    for (dataset, system), (first, *older) in groups.items():
        if older:
            what = f"{system} on {dataset}: the newest of {len(older) + 1} results"
            depths = dict.fromkeys(str(one.result.depth) for one in (first, *older))
            meant = expression_of(first.result)
            others = dict.fromkeys(expression_of(one.result) for one in older if expression_of(one.result) != meant)
            facts = [f"depths {', '.join(depths)}"] if len(depths) > 1 else []
            facts += [f"for another, type its expression: -r {quote(one)}" for one in others]
            on_note("; ".join([what, *facts]))
        yield first


class Imported(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """A converted file. It can be used as its path."""

    file: str
    lost: str  # what is not kept
    following: str  # what to type next

    def __fspath__(self) -> str:
        """Return the path of the file."""
        return self.file

    def lines(self) -> list[str]:
        """Return the path of the file."""
        return [self.file]

    def document(self) -> dict[str, str]:
        """Return the file and what is not kept."""
        return {"file": self.file, "lost": self.lost}


def import_file(format_name: str, source: Path, target: Path, on_note: Callable[[str], None] = lambda _line: None) -> Imported:
    """Read *source*, a file of that format, and write it to *target* as a TREC run or qrels.

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
        following = f"lexbench score {quote(str(target))} --dataset ID; or as a system: -r {system}"
    else:
        write_qrels(content, target)
        following = f"lexbench score RUN --qrels {quote(str(target))}"
    return Imported(file=str(target), lost=imports()[format_name].lost, following=following)
