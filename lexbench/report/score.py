"""The tables of `lexbench score` beside those of a run: slices of queries, and scores kept in fewer bits."""

from collections.abc import Sequence

from lexbench.analysis.precision import AtPrecision
from lexbench.analysis.slices import SliceScore
from lexbench.report.table import Table, heading, number
from lexbench.results import Result

FEW = 25  # queries below which a slice says little
_DIGITS = 12  # of a digest


def of_slices(scores: Sequence[SliceScore], result: Result, sha256: str) -> Table:
    """Return a row for each slice: queries, and each measure's mean with its interval."""
    measures = list(result.means)
    rows = [("all", str(len(result.query_ids)), *(number(result.means[measure]) for measure in measures))]
    for one in scores:
        cells = (f"{number(one.means[name])}\n{span(one.intervals[name])}" for name in measures)
        rows.append((one.slice, str(one.queries), *cells))
    note = f"[ ]: bootstrap over queries; those of all {len(scores)} slices hold together with 95 % confidence (Bonferroni)"
    header = ("slice", "queries", *map(heading, measures))
    return Table(f"{result.dataset}: slices", header, tuple(rows), (note, *slice_notes([s.queries for s in scores], sha256)))


def span(interval: Sequence[float], form: str = ".3f") -> str:
    """Return an interval as a cell."""
    return f"[{interval[0]:{form}}, {interval[1]:{form}}]"


def slice_notes(queries: Sequence[int], sha256: str) -> list[str]:
    """Return what a reader of slices must know: the file that declares them, and that small ones say little."""
    few = [f"{sum(count < FEW for count in queries)} of the slices have fewer than {FEW} queries, and say little"]
    declared = f"slices are those of the file with SHA-256 {sha256[:_DIGITS]}…: commit it before you look"
    return [declared, *(few if min(queries) < FEW else [])]


def of_precisions(rows: Sequence[AtPrecision], result: Result) -> Table:
    """Return a row for each precision: ties, documents that moved, and means."""
    measures = list(result.means)
    cells = []
    for one in rows:
        known = not one.beyond
        ranks = (
            number(one.tied if known else None, ".2%"),
            number(one.across if known else None, ".1%"),
            number(one.moved if known else None, ".1%"),
            number(one.flips if known else None, ",d"),
        )
        cells.append((one.precision, *ranks, *(number(one.means.get(measure)) for measure in measures)))
    k = rows[0].depth
    header = ("scores as", f"tied\n@{k}", f"tie across\n{k}", f"moved\n@{k}", "pairs\nflipped", *map(heading, measures))
    return Table(f"{result.system} on {result.dataset}: scores in fewer bits", header, tuple(cells), tuple(_notes(rows)))


def _notes(rows: Sequence[AtPrecision]) -> list[str]:
    k = rows[0].depth
    lines = [
        f"tied: documents of the first {k} with the score of another, or the next number below",
        f"tie across {k}: queries in which the last of these ties with the next",
        f"moved: queries whose first {k} are others, or in another order, than by the scores as they are",
        "scores are rounded, and ties broken by id: what a model computes in fewer bits differs by more than that",
    ]
    for one in rows:
        if one.beyond:
            lines.append(f"{one.precision}: {one.beyond:,} scores are beyond its largest number")
        wide = [
            f"{measure} [{tie.lowest:.4f}, {tie.highest:.4f}]"
            for measure, tie in one.ties.items()
            if f"{tie.lowest:.4f}" != f"{tie.highest:.4f}"
        ]
        if wide:
            lines.append(f"{one.precision}: the order of ties leaves open {', '.join(wide)}")
    return lines
