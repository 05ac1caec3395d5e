"""Read folders of results, and merge the folders of several people.

In a merge, a system is one row if all its results agree: contract, digests and the value of every query. Otherwise it has one
row per folder, "SYSTEM (WHO)".
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from lexbench.report.leaderboard.board import machine_line
from lexbench.results import Result
from lexbench.runner import soundness

BySystem: TypeAlias = dict[str, dict[str, Result]]  # system -> dataset -> result


def read_folder(folder: Path) -> dict[str, BySystem]:
    """Return the results of a folder by suite. Raises like `soundness.read_folder`."""
    by_suite: dict[str, BySystem] = {}
    for entry in soundness.read_folder(folder):
        by_suite.setdefault(entry.suite, {})[entry.system] = {result.dataset: result for result in entry.results}
    return by_suite


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
        soundness.check_all_comparable({row: results.values() for row, results in merged[suite].items()})
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
