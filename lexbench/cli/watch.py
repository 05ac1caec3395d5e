"""Benchmark each checkpoint of a training as it comes, and draw the curve."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lexbench.cli._options import FOLDER, datasets_option, json_option, measures_option, system_option
from lexbench.cli._output import print_json, say

if TYPE_CHECKING:
    from lexbench.watch import Point

_BARS = "▁▂▃▄▅▆▇█"


@click.command()
@click.argument("folder", type=FOLDER, metavar="DIR")
@system_option("With {} where the checkpoint comes, as 'sparse_mlm(model=\"{}\")@impact'.", multiple=False, required=True)
@datasets_option("To choose on, as beir/nfcorpus/dev, or a folder; repeatable.")
@measures_option(default=("nDCG@10",))
@click.option("--once", is_flag=True, help="Benchmark what there is, and end.")
@click.option("--every", type=click.FloatRange(min=1), default=60.0, show_default=True, help="Seconds between two looks.")
@click.option("--tests-too", is_flag=True, help="Take datasets to test on, too: nothing chosen by them can be tested on them.")
@json_option
def command(  # noqa: PLR0913 - options
    folder: Path, system: str, datasets: tuple[str, ...], measures: tuple[str, ...], *, once: bool, every: float,
    tests_too: bool, as_json: bool,
) -> None:  # fmt: skip
    """Run SYSTEM of each checkpoint in DIR on datasets as a training writes them; after Ctrl-C the same command goes on.

    A line a checkpoint, with the curve so far. Checkpoints that were benchmarked before come from the store.
    """
    from lexbench.watch import Point, Watch, check

    if not datasets:
        raise click.UsageError("name a dataset to choose on: -d beir/nfcorpus/dev")
    check(system, datasets, tests_too=tests_too)
    watch = Watch(folder, system, datasets, measures, settled=0.0 if once else 10.0)
    seen: set[Path] = set()
    points: list[Point] = []
    while True:
        for point in watch.new_points(seen):
            points.append(point)
            if not as_json:
                say(_line(points, measures[0]))
        if once:
            break
        time.sleep(every)
    if as_json:
        print_json(
            [
                {"checkpoint": point.checkpoint.name, "step": point.step, "dataset": point.dataset, "error": point.error}
                | {"means": point.result.means if point.result else {}}
                for point in points
            ]
        )
    click.get_current_context().exit(1 if not points or any(point.error for point in points) else 0)


def _line(points: "list[Point]", measure: str) -> str:
    """Return what is said of the last point: its means, and the curve of its dataset so far."""
    last = points[-1]
    if last.result is None:
        return f"{last.checkpoint.name}  {last.dataset}  failed: {last.error}"
    means = "  ".join(f"{name} {value:.4f}" for name, value in last.result.means.items())
    results = (point.result for point in points if point.dataset == last.dataset and point.result)
    values = [mean for result in results if (mean := result.means.get(measure)) is not None]
    return f"{last.checkpoint.name}  {last.dataset}  {means}  {curve(values)}".rstrip()


def curve(values: list[float]) -> str:
    """Return a bar for each value, between the least and the greatest of them."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1)) if high > low else 0] for value in values)
