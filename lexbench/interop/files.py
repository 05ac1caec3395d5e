"""From the store, or a folder of results, to other tools' files; and from their files to ours. Nothing is computed."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shlex import quote

from lexbench.analysis.stored_results import StoredResult, stored_results
from lexbench.errors import CannotStart, CommandError
from lexbench.interop.formats import Export, Target, exports, imports
from lexbench.interop.scores import write_scores
from lexbench.results import Result, file_name, files_of, load_system
from lexbench.storage.store import Store
from lexbench.trec.qrels import Qrels, write_qrels
from lexbench.trec.runs import Run, write_run


def export(
    format_name: str,
    store: Store,
    folder: Path,
    *,
    systems: Sequence[str] = (),
    datasets: Sequence[str] = (),
    results: Path | None = None,
    tell: Callable[[str], None] = lambda _line: None,
) -> Iterator[Path]:
    """Write every result of *systems* on *datasets* (default: all) into *folder*, yielding each file's path.

    Results are those of the store, or of the folder *results*, which has no runs. *tell* gets a line for what cannot be
    written. CannotStart where there is no such result.
    """
    form = exports()[format_name]
    selected = [
        entry
        for entry in (_of_folder(results) if results else stored_results(store))
        if (not systems or entry.result.system in systems) and (not datasets or entry.result.dataset in datasets)
    ]
    if results and not files_of(results):
        raise CannotStart(
            f"{results}: no results (results/SUITE/*.json) in it; give the folder that `lexbench run --results` wrote"
        )
    if not selected:
        raise CannotStart(f"no such result in {results or store.root}; see: lexbench list results")
    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.rglob("*"))
    groups: dict[str, list[StoredResult]] = {}
    for entry in _held(form, selected, tell):
        groups.setdefault(_name(form, entry.result), []).append(entry)
    for name, group in groups.items():
        for path in form.write(group, Target(folder / name, store, tell)):
            if path in before:
                tell(f"replaced: {path}")
            yield path


def _of_folder(folder: Path) -> Iterator[StoredResult]:
    """Yield the results of the files in a folder of results; a system that two suites have on a dataset comes once."""
    by_name: dict[tuple[str, str], Result] = {}
    for path in files_of(folder):
        by_name |= {(result.dataset, result.system): result for result in load_system(path).results}
    yield from (StoredResult(by_name[key], None) for key in sorted(by_name))


def _held(form: Export, selected: Sequence[StoredResult], tell: Callable[[str], None]) -> Sequence[StoredResult]:
    """Return the results that the format has a place for; CannotStart where there is none."""
    if form.holds is None:
        return selected
    held = [entry for entry in selected if form.holds(entry.result)]
    if not held:
        raise CannotStart(f"no result {form.needs}")
    if len(held) < len(selected):
        left = len(selected) - len(held)
        tell(f"left out, on collections that {form.name} has not: {left} of {len(selected)} results")
    return held


def _name(form: Export, result: Result) -> str:
    """Return the name of the file or folder that a result goes to, without a suffix."""
    dataset, system = result.dataset.replace("/", "-"), file_name(result.system)
    return {"result": f"{dataset}.{system}", "dataset": dataset, "system": system, "export": ""}[form.per]


def import_file(format_name: str, source: Path, target: Path, tell: Callable[[str], None] = lambda _line: None) -> str:
    """Read *source*, a file or folder of that format, and write *target*; return what to type next, one line.

    *tell* gets a line where there was a file before. CommandError where that is *source*.

    A run becomes a TREC run, judgements TREC qrels, scores a TOML file in the form of suites/expected. InvalidFile where
    *source* does not read, CannotStart where it has no score of a dataset and measure that lexbench knows.
    """
    form = imports()[format_name]
    content = form.read(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        if target.samefile(source):
            raise CommandError(f"{target} is what is read; name another file to write")
        tell(f"replaced: {target}")
    if isinstance(content, Run):
        write_run(content, target)
        system = quote(f"run_file(path={json.dumps(str(target), ensure_ascii=False)})")
        return f"lexbench score {quote(str(target))} --dataset ID; or as a system: -r {system}"
    if isinstance(content, Qrels):
        write_qrels(content, target)
        return f"lexbench score RUN --qrels {quote(str(target))}"
    scores = list(content)
    if not scores:
        raise CannotStart(f"{source}: no score of a dataset and measure that lexbench knows; see: lexbench list datasets")
    write_scores(scores, target)
    return f"{len(scores)} published scores; as a file of suites/expected, `lexbench verify SUITE` compares with them"
