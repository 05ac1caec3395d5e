"""The table of `lexbench overlap`: how alike the lists of systems are to those of the first."""

from collections.abc import Sequence

from lexbench.analysis.overlap import Overlap, weight_of_first
from lexbench.report.table import Table, number

_DEPTH = 10


def table(rows: Sequence[Overlap], first: str, p: float) -> Table:
    """Return one row a system but the *first*, with whose lists theirs were compared by persistence *p*."""
    depths = list(rows[0].overlaps)
    header = (
        "system",
        *(f"overlap\n@{k}" for k in depths),
        *(f"same\n@{k}" for k in depths),
        f"RBO\np={p:g}",
        "RBO between",
        "queries",
    )
    cells = [
        (
            row.system,
            *(number(row.overlaps[k]) for k in depths),
            *(number(row.same[k], ".1%") for k in depths),
            number(row.rbo),
            f"{row.rbo_lowest:.4f} and {row.rbo_highest:.4f}",
            str(row.queries),
        )
        for row in rows
    ]
    notes = [
        "overlap@k: share of the first k in common; same@k: queries with the same first k in the same order",
        "RBO (Webber, Moffat, Zobel 2010): extrapolated, and between which values it lies whatever the lists left out",
        f"the first {_DEPTH} documents have {weight_of_first(_DEPTH, p):.2f} of its weight",
        *(f"{row.system}: {row.one_sided} queries have one list alone, and count 0" for row in rows if row.one_sided),
    ]
    return Table(f"overlap with {first}", header, tuple(cells), tuple(notes))
