"""The notes of a suite, grouped by kind: how many results each concerns, and the worst case."""

from collections.abc import Callable, Sequence

from lexbench.analysis.judgements import judged_gaps
from lexbench.report.leaderboard.panels import POWER
from lexbench.report.run import WIDE_TIE
from lexbench.results import Result

_MOST = 5  # lines


def _cut(result: Result, _headline: str) -> float:
    return result.vectors.truncated / result.counts.documents if result.vectors and result.counts.documents else 0.0


def _tied(result: Result, headline: str) -> float:
    width = result.ties[headline].highest - result.ties[headline].lowest if headline in result.ties else 0.0
    return width if width > WIDE_TIE else 0.0


# What a note says, how strongly a result is concerned (0: not at all), and the format of that.
_KINDS: tuple[tuple[str, Callable[[Result, str], float], str], ...] = (
    ("Upper bounds, chosen on the tested queries and not ranked: {count}", lambda one, _: one.is_bound, ".0f"),
    (
        "Queries without results score 0 in {count}, at most {most} of the queries ({worst})",
        lambda one, _: one.counts.missing / one.counts.queries,
        ".1%",
    ),
    ("Texts were cut to the model's maximum length in {count}, at most {most} of the documents ({worst})", _cut, ".0%"),
    ("Ties leave {headline} open in {count}, by at most {most} ({worst})", _tied, ".4f"),
)


def grouped_notes(results: Sequence[Result], headline: str, notes: Sequence[str]) -> list[str]:
    """Return at most five lines about *results*. *notes* are all notes in full; some kinds are counted from them."""
    lines = []
    for text, extent, form in _KINDS:
        extents = {f"{one.system} on {one.dataset}": extent(one, headline) for one in results if extent(one, headline)}
        if extents:
            worst = max(extents, key=lambda name: extents[name])
            count, most = f"{len(extents)} of {len(results)} results", format(extents[worst], form).removeprefix("0")
            lines.append(text.format(headline=headline, count=count, most=most, worst=worst))
    if issues := sum(note.startswith("data issue: ") for note in notes):
        lines.append(f"Known issues of the data: {issues}; see: lexbench show dataset NAME")
    lines += [note.partition(". ")[0] for note in list(judged_gaps(results))[:1]]
    power = [note for note in notes if note.startswith(POWER)]
    return [*lines[: _MOST - len(power[:1])], *power[:1]]
