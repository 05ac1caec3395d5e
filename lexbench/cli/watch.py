"""Benchmark the checkpoints of a training as they are written."""

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
@system_option("With {} in place of the checkpoint (e.g. 'sparse_mlm(model=\"{}\")@impact').", multiple=False, required=True)
@datasets_option("A dataset or folder to choose checkpoints on (e.g. beir/nfcorpus/dev); repeatable.")
@measures_option(default=("nDCG@10",))
@click.option("--once", is_flag=True, help="Benchmark the checkpoints that are there, and end.")
@click.option("--every", type=click.FloatRange(min=1), default=60.0, show_default=True, help="Seconds between two looks.")
@click.option("--tests-too", is_flag=True, help="Allow test datasets. A checkpoint chosen on one cannot be tested on it.")
@json_option
def command(  # noqa: PLR0913 - options
    folder: Path, system: str, datasets: tuple[str, ...], measures: tuple[str, ...], *, once: bool, every: float,
    tests_too: bool, as_json: bool,
) -> None:  # fmt: skip
    """Run SYSTEM with each checkpoint in DIR while a training writes them. After Ctrl-C the same command continues.

    Prints one line per checkpoint, with the curve so far. Checkpoints that were benchmarked before come from the store.
    """
    from lexbench.storage.store import Store
    from lexbench.watch import Point, benchmark, check, checkpoints

    if not datasets:
        raise click.UsageError("name a dataset to choose on, e.g. -d beir/nfcorpus/dev")
    check(system, datasets, tests_too=tests_too)
    settled = 0.0 if once else 10.0  # seconds: a checkpoint that changed later may still be written
    seen: set[Path] = set()
    points: list[Point] = []
    while True:
        new = [checkpoint for checkpoint in checkpoints(folder, settled) if checkpoint not in seen]
        seen.update(new)
        for point in (point for checkpoint in new for point in benchmark(checkpoint, system, datasets, measures, Store())):
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
    if not points:
        say(f"no complete checkpoint in {folder}: one has config.json or modules.json, and weights", err=True)
    click.get_current_context().exit(1 if not points or any(point.error for point in points) else 0)


def _line(points: "list[Point]", measure: str) -> str:
    """Return the line of the last point: its means, and the curve of its dataset so far."""
    last = points[-1]
    if last.result is None:
        return f"{last.checkpoint.name}  {last.dataset}  failed: {last.error}"
    means = "  ".join(f"{name} {value:.4f}" for name, value in last.result.means.items())
    results = (point.result for point in points if point.dataset == last.dataset and point.result)
    values = [mean for result in results if (mean := result.means.get(measure)) is not None]
    return f"{last.checkpoint.name}  {last.dataset}  {means}  {curve(values)}".rstrip()


def curve(values: list[float]) -> str:
    """Return a bar for each value, scaled from the lowest to the highest."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1)) if high > low else 0] for value in values)
