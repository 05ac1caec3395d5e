"""A board as GitHub Markdown."""

from collections.abc import Iterator

from lexbench.errors import visible
from lexbench.report import table
from lexbench.report.leaderboard.board import Board, BoardMean, BoardSystem, Cell, CellSpeed, Panel, Section
from lexbench.report.table import DIGITS, Table, escape, number

EXPOSURE_MARKS = {"zero-shot": "", "unknown": " ?", "corpus seen": " ‡", "in-domain": " ‡‡"}
_SIZES = ("index MB", "bytes/doc", "model MB", "built s")
_MARKS = {0: "{}", 1: "**{}**", 2: "<ins>{}</ins>"}
_INTRODUCTION = """\
Generated from the files in `results/` by `lexbench leaderboard`; do not edit. [index.html](index.html) has the same figures to
sort and filter, with plots and single queries.

Scores are means over the contract's judged queries; a missing query counts 0. Best in bold, second underlined. A mean over
datasets is given only when all its members are there; otherwise how many are. Systems with a letter in common were not told
apart: no significant difference in the headline measure (paired randomisation test, Holm-corrected over all pairs of the
dataset, not across datasets, p < .05), which does not show that they are equal. ‡‡ marks systems that were trained on queries
of the dataset (another split or task of the same collection), ‡ those that have read its documents, ? those of which nobody
says what they have seen; the rest are zero-shot. † marks scores that others published: not ours, not ranked, not tested.

"Model MB" are a system's files of weights; "built s" are the seconds that encoding and indexing took when they were done,
whatever else that machine did, and are never ranked.
"""
_SEEDS = """\
± is the standard deviation over the seeds of a system, of which each query has the mean value. Tests and intervals are over
queries, for these very models: they do not say what another seed would do.
"""
_SPEEDS = """\
p50, p95 and p99 are of queries, each by its median over the passes, seen before in the warm-up: they say how queries differ,
not how often a query waits. "Of processes" are the rates of the slowest and the fastest of several fresh processes, in which
systems took turns. Noisy timings stand last and have no rank.
"""


def markdown(board: Board) -> str:
    """Return the page: the same board, the same text."""
    return "\n".join(["# Leaderboard\n", _INTRODUCTION, *map(_section, board.suites)])


def _section(section: Section) -> str:
    several = len(section.datasets) > 1 or section.aggregates
    notes = [note for panel in section.datasets for note in panel.notes]
    header, rows = _across(section) if several else _measures(section, section.datasets[0])
    lines = [f"## {escape(section.name)}\n", f"{escape(section.description)}\n"]
    lines.append(table.markdown(Table(section.id, header, tuple(rows)), escaped=True))
    for panel in section.datasets:
        lines += [f"### {title}\n\n{table.markdown(speeds, escaped=True)}" for title, speeds in _speeds(section, panel)]
    least = [f"{panel.detectable:.3f} on {escape(panel.id)}" for panel in section.datasets if panel.detectable is not None]
    if least:
        lines.append(
            f"A difference of {', '.join(least)} would be found four times in five at Holm's first step (median over the pairs "
            f"that differ at all). Tests draw {_resamples(section)} resamples.\n"
        )
    if any(cell and cell.speed for panel in section.datasets for cell in panel.cells):
        lines.append(_SPEEDS)
    if any(system.seeds for system in section.systems):
        lines.append(_SEEDS)
    if section.ran:
        lines += ["Who ran what where\n", *(f"- {escape(line)}" for line in section.ran), ""]
    if section.published:
        lines += ["† Published by\n", *(f"- {escape(source)}" for source in section.published), ""]
    if notes:
        lines += [
            f"<details><summary>Notes: {len(notes)}</summary>\n",
            *(f"- {escape(note)}" for note in notes),
            "\n</details>\n",
        ]
    lines.append(f"Again:\n\n```sh\n{section.command}\n```\n")
    contracts = (visible(panel.stamp).replace("`", "'") for panel in section.datasets)
    stamps = ", ".join(f"`{stamp}`" for stamp in contracts)
    lines.append(f"Contracts: {stamps}. Made with {'; or '.join(map(escape, section.made))}.\n")
    return "\n".join(lines)


def _resamples(section: Section) -> str:
    """Return how many resamples the tests of a section drew: one number, or the least and the most."""
    counts = sorted({panel.resamples for panel in section.datasets if panel.resamples})
    return " to ".join(f"{count:,}" for count in dict.fromkeys([counts[0], counts[-1]]))


def _name(system: BoardSystem) -> str:
    who = f" <sub>{escape(', '.join(system.who))}</sub>" if system.who else ""
    return f"† *{escape(system.label)}* ({escape(system.source)})" if system.source else escape(system.label) + who


def _across(section: Section) -> tuple[tuple[str, ...], Iterator[tuple[str, ...]]]:
    """Return one column a dataset with the headline, then the aggregates, then what the indexes of all of them take."""
    names = [panel.id for panel in section.datasets]
    header = (section.headline, *names, *section.aggregates, *_SIZES)
    rows = (
        (
            _name(system),
            *(_score(panel.cells[row], section.headline, section.headline) for panel in section.datasets),
            *map(_mean, system.means),
            *_sizes(system),
        )
        for row, system in enumerate(section.systems)
    )
    return header, rows


def _measures(section: Section, panel: Panel) -> tuple[tuple[str, ...], Iterator[tuple[str, ...]]]:
    """Return one column a measure of one dataset."""
    header = ("system", *panel.measures, *_SIZES)
    rows = (
        (_name(system), *(_score(cell, measure, panel.headline) for measure in panel.measures), *_sizes(cell))
        for system, cell in zip(section.systems, panel.cells, strict=True)
        if cell is not None
    )
    return header, rows


def _score(cell: Cell | None, measure: str, headline: str) -> str:
    value = cell.means.get(measure) if cell else None
    if cell is None or value is None:
        return number(None)
    letters = f" <sup>{escape(cell.letters)}</sup>" if cell.letters and measure == headline else ""
    seen = EXPOSURE_MARKS[cell.exposure] if measure == headline else ""
    deviation = f" <sub>±{number(cell.deviations[measure])}</sub>" if measure in cell.deviations else ""
    return _MARKS[cell.marks.get(measure, 0)].format(f"{value:.{DIGITS}f}") + deviation + seen + letters


def _mean(mean: BoardMean) -> str:
    return _MARKS[mean.mark].format(mean.text)


def _sizes(of: Cell | BoardSystem) -> tuple[str, ...]:
    index, model = (None if size is None else size / 1e6 for size in (of.index, of.model))
    return number(index, ".1f"), number(of.bytes_per_document, ",.0f"), number(model, ".1f"), number(of.built, ",.1f")


def _speeds(section: Section, panel: Panel) -> Iterator[tuple[str, Table]]:
    """Yield a table for each machine, scenario and depth that systems were timed with, fastest first."""
    timed = [
        (system, speed)
        for system, cell in zip(section.systems, panel.cells, strict=True)
        if cell and cell.speed
        for speed in (cell.speed, *cell.speeds)
    ]
    groups = dict.fromkeys((speed.group, speed.fingerprint, speed.machine) for _, speed in timed)
    for group, fingerprint, machine in sorted(groups):
        rows = [(system, speed) for system, speed in timed if (speed.group, speed.fingerprint) == (group, fingerprint)]
        rows.sort(key=lambda row: (bool(row[1].unranked), -row[1].qps, row[0].label))
        header = ("system", "QPS", "of processes", "p50 ms", "p95 ms", "p99 ms", "results", "remarks")
        title = f"{escape(group)} on {escape(panel.id)}: {escape(machine)} (fingerprint {escape(fingerprint)})"
        yield title, Table(title, header, tuple(_speed_row(system, speed) for system, speed in rows))


def _speed_row(system: BoardSystem, speed: CellSpeed) -> tuple[str, ...]:
    latencies = [number(None if value is None else value * 1000, ".3g") for value in (speed.p50, speed.p95, speed.p99)]
    spread = " to ".join(f"{rate:,.0f}" for rate in speed.range or ()) or number(None)
    return (
        _name(system),
        f"{speed.qps:,.0f}",
        spread,
        *latencies,
        speed.name.rpartition(", ")[2],
        escape(", ".join(speed.flags)),
    )
