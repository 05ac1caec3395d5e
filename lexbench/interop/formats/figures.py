"""Figures for pages and papers: SVG, PDF and PNG."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lexbench.interop.formats import Export, Target

if TYPE_CHECKING:
    from lexbench.analysis.stored_results import StoredResult


def _write(results: "Sequence[StoredResult]", target: Target) -> Iterator[Path]:
    from lexbench.report import figures

    drawn = [entry.result for entry in results]
    yield from figures.write(drawn, target.path)
    for line in figures.missing(drawn):
        target.tell(line)


_WHAT = "effectiveness against queries a second and index bytes, and datasets with intervals: SVG, PDF, PNG"
EXPORTS = (Export("figures", _WHAT, "all but what is drawn", _write, per="export"),)
