"""A board as GitHub Markdown."""

from collections.abc import Iterator

from lexbench import table
from lexbench.errors import visible
from lexbench.report.leaderboard.board import Board, BoardMean, BoardSystem, Cell, CellSpeed, Panel, Section
from lexbench.table import DIGITS, Table, escape, number

EXPOSURE_MARKS = {"zero-shot": "", "unknown": " ?", "corpus seen": " ‡", "in-domain": " ‡‡"}
_SIZES = ("index MB", "bytes/doc", "model MB", "built s")
_MARKS = {0: "{}", 1: "**{}**", 2: "<ins>{}</ins>"}
_INTRODUCTION = """\
Generated from the files in `results/` by `lexbench leaderboard`; do not edit. [index.html](index.html) has the same figures to
sort and filter, with plots and single queries.

Scores are means over the judged queries of the dataset's contract; a missing query counts 0. Best in bold, second underlined. A
mean over datasets is given only if all its members are there; otherwise the cell counts them. Systems that share a letter have
no significant difference in the headline measure (paired randomisation test, Holm-corrected over all pairs of the dataset, not
across datasets, p < .05); this does not show that they are equal. ‡‡: trained on queries of the dataset (another split or task
of the same collection); ‡: trained on its documents; ?: unknown training data; all others are zero-shot. †: published scores,
not measured here, not ranked and not tested.

"Model MB" is the size of a system's weights. "Built s" are the seconds of encoding and indexing when they were done, beside
other work of that machine; they are never ranked.
"""
_SEEDS = """\
± is the standard deviation over the seeds of a system; each query has the mean of their values. Tests and intervals are over
queries with these very models: they do not predict another seed.
"""
_SPEEDS = """\
p50, p95 and p99 are percentiles over queries, each query by its median over passes after a warm-up: they show how queries
differ, not how often a query waits. "Of processes" are the rates of the slowest and the fastest of several fresh processes, in
which systems took turns. Noisy timings come last and are not ranked.
"""


def markdown(board: Board) -> str:
    """Return the page; equal boards give equal text."""
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
            f"The tests have 80 % power for differences of {', '.join(least)} (at Holm's first step; median over pairs that "
            f"differ). They draw {_resamples(section)} resamples.\n"
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
    lines.append(f"To repeat this:\n\n```sh\n{section.command}\n```\n")
    contracts = (visible(panel.stamp).replace("`", "'") for panel in section.datasets)
    stamps = ", ".join(f"`{stamp}`" for stamp in contracts)
    lines.append(f"Contracts: {stamps}. Made with {'; or '.join(map(escape, section.made))}.\n")
    return "\n".join(lines)


def _resamples(section: Section) -> str:
    """Return how many resamples the tests of a section drew: one number, or a range."""
    counts = sorted({panel.resamples for panel in section.datasets if panel.resamples})
    return " to ".join(f"{count:,}" for count in dict.fromkeys([counts[0], counts[-1]]))


def _name(system: BoardSystem) -> str:
    who = f" <sub>{escape(', '.join(system.who))}</sub>" if system.who else ""
    return f"† *{escape(system.label)}* ({escape(system.source)})" if system.source else escape(system.label) + who


def _across(section: Section) -> tuple[tuple[str, ...], Iterator[tuple[str, ...]]]:
    """Return one column per dataset with the headline, then means over datasets, then sizes over all datasets."""
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
    """Return one column per measure of one dataset."""
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
    """Yield a title and a table, fastest first, for each machine, scenario and k that systems were timed with."""
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
