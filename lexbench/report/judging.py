"""The table of `lexbench judge`: what grades a judge gave, and how it agrees with the official judgements."""

from pathlib import Path

from lexbench.report.table import Table, number
from lexbench.runner.judging import STAMP, Judging


def table(made: Judging, path: Path) -> Table:
    """Return one row: how often each grade was given, and the agreement on what is relevant."""
    one = made.agreement
    header = (
        "judge",
        *(f"grade\n{grade}" for grade in made.grades),
        "no\ngrade",
        "relevant\nby both",
        "by the\njudge",
        "officially",
        "by\nneither",
        "kappa",
    )
    counts = (*made.grades.values(), made.unreadable, one.both, one.judge, one.official, one.neither)
    notes = [
        "relevant by both, by the judge alone, officially alone, by neither: of what both have judged; kappa: Cohen's",
        f"{path} has {sum(made.grades.values()):,} judgements, not official ones; {path.name}{STAMP} says whose",
    ]
    if made.unreadable:
        notes.append(f"{made.unreadable:,} answers had no grade of the scale: these documents are not judged")
    cells = (made.stamp, *map(str, counts), number(one.kappa, ".2f"))
    return Table(f"{made.dataset}: judged by no person, {made.date}", header, (cells,), tuple(notes))
