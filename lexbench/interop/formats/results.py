"""Results: the values of every query as CSV, whole results as JSON, tables as LaTeX, and figures."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from lexbench.interop.formats import Format, Target, one_file
from lexbench.results import DATASETS, Entry, Results, save
from lexbench.storage import atomic


def _write_csv(entry: Entry, path: Path) -> None:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["query", *entry.result.per_query])
    table.writerows(zip(entry.result.query_ids, *entry.result.per_query.values(), strict=True))
    atomic.write_text(path, text.getvalue())


def _write_json(entries: Sequence[Entry], target: Target) -> Iterator[Path]:
    result, path = entries[0].result, target.path.with_name(f"{target.path.name}.json")
    save(result, path)
    if entries[0].run and "index" not in result.sizes:
        again = f"lexbench run dataset {quote(result.dataset)} -r {quote(result.expression or result.system)}"
        target.on_note(f"{path}: without sizes, build times and timings, because the index is not in the store; again: {again}")
    yield path


def _write_figures(results: Sequence[Entry], target: Target) -> Iterator[Path]:
    from lexbench.report import figures

    drawn = [entry.result for entry in results]
    yield from figures.write(drawn, target.path)
    for line in figures.missing(drawn):
        target.on_note(line)


def _write_latex(results: Sequence[Entry], target: Target) -> Iterator[Path]:
    """Write the main table of one dataset, as the leaderboard has it."""
    from lexbench.report.leaderboard import copies, sections

    shown = Results(entry._replace(suite=DATASETS) for entry in results)
    shown.check_comparable()
    board = sections.board(shown, published="none")
    path = target.path.with_name(f"{target.path.name}.tex")
    atomic.write_text(path, copies.latex(copies.view(board)))
    yield path


_CSV_LOST = "all but the value of every query and measure; of the system and dataset only their file's name"
_DRAWN = "effectiveness against queries per second and index bytes: SVG, PDF, PNG"
EXPORTS = (
    Format("csv", "the value of every query, a column per measure", _CSV_LOST, one_file("csv", _write_csv)),
    Format("json", "the whole result", "nothing but the run", _write_json),
    Format(
        "latex", "a table of each dataset: means, ranks, QPS, sizes", "all but the main figures", _write_latex, per="dataset"
    ),
    Format("figures", _DRAWN, "all but the drawing", _write_figures, per="export"),
)
