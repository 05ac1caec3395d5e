"""The leaderboard: a Markdown page made from committed result files, and from nothing else.

leaderboard/results/<suite>/<system>.json   one file a system: its results on the suite's datasets
leaderboard/README.md                       generated; `lexbench leaderboard --check` fails when it is stale
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote

import msgspec

from lexbench import aggregates, atomic, results, suites
from lexbench.errors import CannotStart, InvalidFile
from lexbench.report.cells import DIGITS, Table
from lexbench.report.markdown import escape, render
from lexbench.report.table import notes
from lexbench.results import BOUND, Result
from lexbench.suites import Suite

PAGE = "README.md"
_INTRODUCTION = """\
Generated from the files in `results/` by `lexbench leaderboard`; do not edit. Scores are means over the contract's judged
queries; a missing query counts 0. Best in bold, second underlined. A mean over datasets is given only when all its members
are there; otherwise how many are.
"""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One system on one suite, as its file holds it."""

    schema: int = 1
    suite: str
    system: str
    results: list[Result]


def write_results(found: Iterable[Result], suite: str, folder: Path) -> list[Path]:
    """Write one file a system below *folder*; datasets that a file has already and *found* does not are kept."""
    by_system: dict[str, dict[str, Result]] = {}
    for result in found:
        by_system.setdefault(result.system, {})[result.dataset] = result
    written = []
    for system, fresh in by_system.items():
        path = folder / "results" / suite / f"{file_name(system)}.json"
        kept = {result.dataset: result for result in read_results(path).results} if path.is_file() else {}
        merged = {**kept, **fresh}
        entry = Entry(suite=suite, system=system, results=[merged[name] for name in sorted(merged)])
        results.save(entry, path)
        written.append(path)
    return written


def file_name(system: str) -> str:
    """Return a file name for a system: its label, with a digest where characters had to go."""
    safe = re.sub(r"[^A-Za-z0-9@._=,()-]", "_", system)[:80]
    return safe if safe == system else f"{safe}-{hashlib.sha256(system.encode()).hexdigest()[:8]}"


def read_results(path: Path) -> Entry:
    """Read what *write_results* wrote; InvalidFile where it does not read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Entry)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidFile(f"{path}: {error}") from None


def page(folder: Path) -> str:
    """Return the leaderboard page of *folder* as Markdown: the same files, the same text."""
    found = [read_results(path) for path in sorted((folder / "results").glob("*/*.json"))]
    if not found:
        raise CannotStart(f"no result files in {folder / 'results'}; write some: lexbench run suite pydoc --save {folder}")
    parts = ["# Leaderboard\n", _INTRODUCTION]
    for suite_id in dict.fromkeys(entry.suite for entry in found):
        entries = [entry for entry in found if entry.suite == suite_id]
        parts.append(_section(suites.suite(suite_id), entries))
    return "\n".join(parts)


def _section(suite: Suite, entries: Sequence[Entry]) -> str:
    lines = [f"## {escape(suite.name)}\n", f"{escape(suite.description)}\n"]
    several = len(suite.datasets) > 1
    table = _datasets_across(suite, entries, suite.headline) if several else _measures_across(suite, entries)
    lines.append(render(table, escaped=True))
    systems = " ".join(f"-r {quote(' '.join(entry.system.split()))}" for entry in entries)
    lines.append(f"Again:\n\n```sh\nlexbench run suite {suite.id} {systems}\n```\n")
    lines.append(_made_with(entries))
    return "\n".join(lines)


def _datasets_across(suite: Suite, entries: Sequence[Entry], measure: str) -> Table:
    """Return one row a system, one column a dataset, then the aggregates of *measure*."""
    columns = [name for name in suite.datasets if any(r.dataset == name for entry in entries for r in entry.results)]
    scores = {entry.system: {r.dataset: r.means[measure] for r in entry.results if measure in r.means} for entry in entries}
    means = [aggregate for aggregate in suite.aggregates if aggregate.measure == measure]
    order = sorted(entries, key=lambda entry: (-len(scores[entry.system]), -sum(scores[entry.system].values()), entry.system))
    bounds = {entry.system for entry in entries if any(map(_is_bound, entry.results))}
    cells = {name: marked({system: found.get(name) for system, found in scores.items()}, bounds) for name in columns}
    rows = [
        (
            escape(entry.system),
            *(cells[name][entry.system] for name in columns),
            *(str(aggregates.over_results(aggregate, entry.results)) for aggregate in means),
        )
        for entry in order
    ]
    return Table(measure, (f"{measure}", *columns, *(aggregate.id for aggregate in means)), tuple(rows), _notes(entries))


def _measures_across(suite: Suite, entries: Sequence[Entry]) -> Table:
    """Return one row a system, one column a measure of the suite's one dataset, best headline first."""
    only = {entry.system: entry.results[0] for entry in entries if entry.results}
    measures = list(dict.fromkeys(measure for result in only.values() for measure in result.means))
    order = sorted(only, key=lambda system: (-only[system].means.get(suite.headline, 0.0), system))
    bounds = {system for system, result in only.items() if _is_bound(result)}
    scores = {measure: {system: result.means.get(measure) for system, result in only.items()} for measure in measures}
    cells = {measure: marked(found, bounds) for measure, found in scores.items()}
    rows = [(escape(system), *(cells[measure][system] for measure in measures), _megabytes(only[system])) for system in order]
    return Table(suite.id, ("system", *measures, "index MB"), tuple(rows), _notes(entries))


def _megabytes(result: Result) -> str:
    return f"{result.sizes['index'] / 1e6:.1f}" if "index" in result.sizes else "—"


def _notes(entries: Sequence[Entry]) -> tuple[str, ...]:
    return tuple(notes([result for entry in entries for result in entry.results]))


def _is_bound(result: Result) -> bool:
    """Whether a result is an upper bound and no result."""
    return any(note.startswith(BOUND) for note in result.notes)


def marked(scores: Mapping[str, float | None], bounds: Collection[str] = ()) -> dict[str, str]:
    """Return each score as text, the best in bold and the second underlined; equal figures are marked alike.

    Those of the systems *bounds*, which are no results, are neither marked nor compared with.
    """
    written = {name: "—" if score is None else f"{score:.{DIGITS}f}" for name, score in scores.items()}
    ranked = sorted({text for name, text in written.items() if text != "—" and name not in bounds}, reverse=True)
    styles = dict(zip(ranked, ("**{}**", "<ins>{}</ins>"), strict=False)) if len(scores) > 1 else {}
    return {name: text if name in bounds else styles.get(text, "{}").format(text) for name, text in written.items()}


def _made_with(entries: Sequence[Entry]) -> str:
    stamps = sorted({result.contract for entry in entries for result in entry.results})
    software = sorted(
        {f"lexbench {result.measured.versions.get('lexbench', '?')}" for entry in entries for result in entry.results}
    )
    machines = sorted({_machine(result) for entry in entries for result in entry.results})
    made = f"Made with {', '.join(software)} on {'; '.join(machines)}."
    return f"Contracts: {', '.join(f'`{stamp}`' for stamp in stamps)}. {made}\n"


def _machine(result: Result) -> str:
    facts = result.measured.machine
    return ", ".join(escape(facts[name]) for name in ("processor", "system") if name in facts) + (
        f", {facts['cores']} cores, Python {facts['python']}" if "cores" in facts else ""
    )


def write(folder: Path) -> Path:
    """Write the page of *folder* and return its path."""
    target = folder / PAGE
    atomic.write_text(target, page(folder))
    return target


def stale(folder: Path) -> bool:
    """Return whether the page differs from what the result files give."""
    target = folder / PAGE
    return not target.is_file() or target.read_text(encoding="utf-8") != page(folder)
