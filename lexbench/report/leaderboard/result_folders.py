"""Read folders of results, check every file, and merge the folders of several people.

Committed results are what people trust, so everything that can be recomputed is checked: a mean against the values of its
queries, a file's name against its content. In a merge, a system is one row if all its results agree: contract, digests and the
value of every query. Otherwise it has one row per folder, "SYSTEM (WHO)".
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from lexbench import measures
from lexbench.errors import CannotStart, InvalidFile, LexbenchError
from lexbench.report.leaderboard.board import machine_line
from lexbench.results import Result, SystemResults, file_name, files_of, load_system

BySystem: TypeAlias = dict[str, dict[str, Result]]  # system -> dataset -> result


def read_folder(folder: Path) -> dict[str, BySystem]:
    """Return the results of a folder by suite. Raises CannotStart if there are none, InvalidFile for a faulty file."""
    by_suite: dict[str, BySystem] = {}
    for path in files_of(folder):
        entry = read_checked(path)
        by_suite.setdefault(entry.suite, {})[entry.system] = {result.dataset: result for result in entry.results}
    if not by_suite:
        raise CannotStart(f"no result files in {folder / 'results'}; write some: lexbench run suite pydoc --results {folder}")
    return by_suite


def read_checked(path: Path) -> SystemResults:
    """Read a file of a folder of results. Raises InvalidFile if its content contradicts itself or its path."""
    entry = load_system(path)
    for fault in _faults(entry, path):
        raise InvalidFile(f"{path}: {fault}")
    return entry


def _faults(entry: SystemResults, path: Path) -> Iterator[str]:
    if (path.parent.name, path.stem) != (entry.suite, file_name(entry.system)):
        yield f"it holds {entry.system} on {entry.suite}, whose file is {entry.suite}/{file_name(entry.system)}.json"
    for dataset, count in Counter(result.dataset for result in entry.results).items():
        if count > 1:
            yield f"{dataset} is there {count} times"
    for result in entry.results:
        if result.system != entry.system:
            yield f"it has a result of {result.system} among those of {entry.system}"
        yield from (f"{result.dataset}: {fault}" for fault in _faults_of_result(result))


def _faults_of_result(result: Result) -> Iterator[str]:
    """Yield the faults of one result whose values and means already agree."""
    if not re.fullmatch(rf"{re.escape(result.dataset)}@[0-9]+", result.contract):
        yield f"its contract {result.contract!r} is not of this dataset"
    if result.counts.queries != len(result.query_ids):
        yield f"it counts {result.counts.queries} queries but has {len(result.query_ids)}"
    for measure, mean in result.means.items():
        if measure not in result.per_query:
            yield f"{measure} has a mean but no values by query"
        elif _is_share(measure) and not all(0 <= value <= 1 for value in (mean, *result.per_query[measure])):
            yield f"{measure} has a mean or a value that is not from 0 to 1"
    for measure, tie in result.ties.items():
        if tie.lowest > tie.highest:
            yield f"the tie interval of {measure} goes from {tie.lowest} down to {tie.highest}"


def _is_share(measure: str) -> bool:
    """Whether a measure is one of lexbench's own, which are all from 0 to 1; others may be counts."""
    try:
        return measures.parse_native(measure) is not None
    except LexbenchError:
        return False


def merge(by_person: Mapping[str, dict[str, BySystem]]) -> tuple[dict[str, BySystem], dict[str, dict[str, tuple[str, ...]]]]:
    """Return the results of all people by suite, and who ran each row: suite -> row -> names, in the order of *by_person*."""
    merged: dict[str, BySystem] = {}
    ran: dict[str, dict[str, tuple[str, ...]]] = {}
    for suite in dict.fromkeys(suite for results in by_person.values() for suite in results):
        of_suite = {who: results[suite] for who, results in by_person.items() if suite in results}
        for system in dict.fromkeys(system for results in of_suite.values() for system in results):
            copies = {who: results[system] for who, results in of_suite.items() if system in results}
            for row, people in _rows(system, copies):
                # In reverse, so that the first person's result is kept where several have the dataset.
                merged.setdefault(suite, {})[row] = {
                    dataset: result for who in reversed(people) for dataset, result in copies[who].items()
                }
                ran.setdefault(suite, {})[row] = people
    return merged, ran


def _rows(system: str, copies: Mapping[str, Mapping[str, Result]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the rows of one system, each with the people who ran it."""
    scored: dict[str, tuple[object, ...]] = {}
    for results in copies.values():
        for dataset, result in results.items():
            facts = (result.contract, sorted(result.digests.items()), result.query_ids, result.per_query)
            if scored.setdefault(dataset, facts) != facts:
                yield from ((f"{system} ({who})", (who,)) for who in copies)
                return
    yield system, tuple(copies)


def who_ran_what(results: BySystem, ran: Mapping[str, tuple[str, ...]], folders: Mapping[str, BySystem]) -> Iterator[str]:
    """Yield a line per person and machine: who, the rows that they ran, with which version, and where."""
    lines: dict[tuple[str, str], list[str]] = {}
    for row in results:
        for who in ran[row]:
            system = row.removesuffix(f" ({who})") if row not in folders[who] else row
            for result in folders[who][system].values():
                where = f"lexbench {result.measured.versions.get('lexbench', '?')}; {machine_line(result.measured.machine)}"
                shown = lines.setdefault((who, where), [])
                if row not in shown:
                    shown.append(row)
    yield from (f"{who}: {', '.join(rows)} ({where})" for (who, where), rows in lines.items())
