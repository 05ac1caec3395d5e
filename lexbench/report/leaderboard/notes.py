"""The notes of a suite, grouped by kind: how many results each concerns, and the worst case."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lexbench.analysis.judgements import judged_gaps
from lexbench.report.leaderboard.panels import POWER
from lexbench.report.run import WIDE_TIE
from lexbench.results import Result

_MOST = 5  # lines


class _Kind(NamedTuple):
    """A kind of note: a sentence, and how strongly a result is concerned (0: not at all)."""

    text: str  # with the fields count, most and worst
    extent: Callable[[Result], float]
    form: str


def _kinds(headline: str) -> Iterator[_Kind]:
    def cut(result: Result) -> float:
        return result.vectors.truncated / result.counts.documents if result.vectors and result.counts.documents else 0.0

    def tied(result: Result) -> float:
        tie = result.ties.get(headline)
        width = tie.highest - tie.lowest if tie else 0.0
        return width if width > WIDE_TIE else 0.0

    def missing(result: Result) -> float:
        return result.counts.missing / result.counts.queries

    yield _Kind("Upper bounds, chosen on the tested queries and not ranked: {count}", lambda one: one.is_bound, ".0f")
    yield _Kind("Queries without results score 0 in {count}, at most {most} of the queries ({worst})", missing, ".1%")
    yield _Kind(
        "Texts were cut to the model's maximum length in {count}, at most {most} of the documents ({worst})", cut, ".0%"
    )
    yield _Kind(f"Ties leave {headline} open in {{count}}, by at most {{most}} ({{worst}})", tied, ".4f")


def grouped_notes(results: Sequence[Result], headline: str, notes: Sequence[str]) -> list[str]:
    """Return at most five lines about *results*. *notes* are all notes in full; some kinds are counted from them."""
    lines = []
    for kind in _kinds(headline):
        extents = {f"{one.system} on {one.dataset}": kind.extent(one) for one in results if kind.extent(one)}
        if extents:
            worst = max(extents, key=lambda name: extents[name])
            count = f"{len(extents)} of {len(results)} results"
            lines.append(kind.text.format(count=count, most=format(extents[worst], kind.form).removeprefix("0"), worst=worst))
    issues = sum(note.startswith("data issue: ") for note in notes)
    if issues:
        lines.append(f"Known issues of the data: {issues}; see: lexbench show dataset NAME")
    lines += list(judged_gaps(results))[:1]
    power = [note for note in notes if note.startswith(POWER)]
    return [*lines[: _MOST - len(power[:1])], *power[:1]]
