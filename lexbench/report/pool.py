"""The table of `lexbench pool`: how far each contributor to a pool falls without the judgements that it alone brought."""

from collections.abc import Sequence

from lexbench.analysis.pool import LeftOut
from lexbench.report.table import Table, heading, number

_WHAT = (
    "unique: judged documents that no other contributor has among its first {depth}, and how many are relevant; without: "
    "the mean and rank if nobody had judged those"
)


def table(rows: Sequence[LeftOut], dataset: str, measure: str, depth: int) -> Table:
    """Return one row a system, best first; contributors have a mark, and what they have without their own judgements."""
    header = ("system", heading(measure), "rank", f"judged\n@{depth}", "unique", "relevant", "without", "rank\nwithout")
    cells = [
        (
            f"{row.system} *" if row.contributes else row.system,
            number(row.mean),
            str(row.rank),
            number(row.judged, ".2f"),
            str(row.unique) if row.contributes else number(None),
            str(row.relevant) if row.contributes else number(None),
            number(row.mean_without),
            number(row.rank_without, "d"),
        )
        for row in rows
    ]
    notes = ("*: its list was judged", _WHAT.format(depth=depth), *_summary(rows))
    return Table(f"{dataset}: one contributor left out at a time", header, tuple(cells), notes)


def _summary(rows: Sequence[LeftOut]) -> list[str]:
    """Return what a system that comes later must fear: the mean and the largest fall of those that had judges."""
    falls = [(row.mean - row.mean_without, row) for row in rows if row.mean_without is not None]
    if not falls:
        return []
    most, worst = max(falls, key=lambda fall: fall[0])
    ranks = [row.rank_without - row.rank for row in rows if row.rank_without is not None]
    mean = sum(fall for fall, _ in falls) / len(falls)
    line = f"without its own judgements a contributor loses {mean:.4f} on average, at most {most:.4f} ({worst.system})"
    return [f"{line}, and falls by up to {max(ranks)} rank{'s' * (max(ranks) != 1)}"]
