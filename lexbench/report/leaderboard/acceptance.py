"""What a leaderboard asks of a file of results before it shows it: committed results are what people trust.

Whatever can be worked out again is: a mean from the values of its queries, a file's name from what it holds.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lexbench import measures
from lexbench.errors import InvalidFile, LexbenchError
from lexbench.results import Result, SystemResults, file_name, load_system


def accepted(path: Path) -> SystemResults:
    """Read a file of a folder of results; InvalidFile says what is wrong with it, and of which result."""
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
            yield f"a result of {result.system} stands among those of {entry.system}"
        yield from (f"{result.dataset}: {fault}" for fault in _faults_of_result(result))


def _faults_of_result(result: Result) -> Iterator[str]:
    """Yield what is wrong with one result, which does not contradict itself where it has both values and means."""
    if not re.fullmatch(rf"{re.escape(result.dataset)}@[0-9]+", result.contract):
        yield f"its contract is {result.contract!r}, which is not of this dataset"
    if result.counts.queries != len(result.query_ids):
        yield f"it counts {result.counts.queries} queries and has {len(result.query_ids)}"
    for measure, mean in result.means.items():
        if measure not in result.per_query:
            yield f"{measure} has a mean and no values by query"
        elif _is_share(measure) and not all(0 <= value <= 1 for value in (mean, *result.per_query[measure])):
            yield f"{measure} has a mean or a value that is not from 0 to 1"
    for measure, tie in result.ties.items():
        if tie.lowest > tie.highest:
            yield f"ties leave {measure} open from {tie.lowest} down to {tie.highest}"


def _is_share(measure: str) -> bool:
    """Whether a measure is one of ours, which are all from 0 to 1; others may count."""
    try:
        return measures.parse_native(measure) is not None
    except LexbenchError:
        return False
