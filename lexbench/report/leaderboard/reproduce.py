"""The commands that repeat a board: exactly its datasets, systems, measures and timing."""

from collections.abc import Mapping, Sequence
from shlex import quote

from lexbench.errors import visible
from lexbench.report.leaderboard.board import shareable
from lexbench.results import Result
from lexbench.suites import DATASETS, Suite
from lexbench.timing.protocol import Settings


def command(suite: Suite, systems: Mapping[str, Mapping[str, Result]]) -> str:
    """Return the commands that run *systems* (by name, then by dataset) again: one for each set of datasets and options."""
    groups: dict[tuple[str, ...], list[Result]] = {}
    for of in systems.values():
        present = [of[dataset] for dataset in suite.datasets if dataset in of]
        alone = suite.id == DATASETS  # they were run without a suite, so each dataset takes a command of its own
        for results in [[result] for result in present] if alone else [present]:
            names = [result.dataset for result in results]
            what = _dataset(results[0]) if alone else f"suite {suite.id} {' '.join(f'-d {name}' for name in names)}"
            groups.setdefault((what, *_options(suite, results)), []).append(results[0])
    return "\n".join(
        " \\\n  ".join([f'lexbench run {what} --results "$here"', *_systems(group), *options])
        for (what, *options), group in groups.items()
    )


def _dataset(result: Result) -> str:
    """Return a dataset as `lexbench run` takes it: an id, or a folder of the user's own, which has version 0, and its split."""
    folder, _, split = result.dataset.rpartition("/")
    own = folder and result.contract.endswith("@0")
    return f"dataset {_quoted(f'./{folder}')} --split {_quoted(split)}" if own else f"dataset {_quoted(result.dataset)}"


def script(commands: Sequence[str]) -> str:
    """Return a shell script that runs *commands* and then writes the pages, all in its own folder."""
    head = (
        "#!/bin/sh\n# Repeats the measurements of this leaderboard.\n"
        "# Paths of models and of your own data are relative to the current folder.\n"
        'set -eu\nhere=$(dirname "$0")\n'
    )
    return "\n".join([head, *commands, 'lexbench leaderboard --results "$here"', ""])


def _systems(group: Sequence[Result]) -> list[str]:
    """Return the options -r and --seeds of systems."""
    named: dict[str, str] = {}
    seeds: dict[str, Mapping[str, str]] = {}
    for result in group:
        if result.seeds:
            seeds[result.system] = result.seeds.systems
            named |= result.seeds.systems
        else:
            named[result.system] = result.expression
    typed = [f"{name} = {notation}" if notation else name for name, notation in named.items()]
    lines = [f"-r {_quoted(shareable(text))}" for text in typed]
    return lines + [f"--seeds {_quoted(name + ' = ' + ', '.join(members))}" for name, members in seeds.items()]


def _options(suite: Suite, results: Sequence[Result]) -> list[str]:
    """Return the options for measures, depth and timing, a line each."""
    measures = dict.fromkeys(name for result in results for name in result.means)
    lines = [" ".join(f"-m {_quoted(name)}" for name in measures)]
    if results[0].depth != suite.depth:
        lines.append(f"--depth {results[0].depth}")
    timings = [timing for result in results for timing in result.timings]
    if timings:
        words = ["--time"]
        default = Settings()
        ks = sorted({timing.k for timing in timings} - {result.depth for result in results})
        if ks:
            words += [f"--time-k {k}" for k in sorted({timing.k for timing in timings})]
        processes = max(timing.processes for timing in timings)
        queries = max(timing.queries for timing in timings)
        seconds = max(timing.asked_seconds for timing in timings)
        if seconds != default.seconds:
            words.append(f"--time-seconds {seconds:g}")
        if processes != default.processes:
            words.append(f"--time-processes {processes}")
        if any(timing.queries < result.counts.queries for result in results for timing in result.timings):
            words.append(f"--time-queries {queries}")
        if all(timing.scenario.startswith("single") for timing in timings):
            words.append("--time-single")
        lines.append(" ".join(words))
    return lines


def _quoted(text: str) -> str:
    return quote(visible(" ".join(text.split())))
