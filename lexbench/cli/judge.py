"""Let a language model judge the first documents of ranked lists, into qrels of its own."""

from functools import partial
from pathlib import Path

import click

from lexbench.cli._options import json_option
from lexbench.cli._output import print_json, print_rich, say
from lexbench.cli._progress import shown


@click.command()
@click.argument("systems", nargs=-1, required=True, metavar="SYSTEM|RUN...")
@click.option("-d", "--dataset", required=True, metavar="ID|FOLDER", help="Whose texts; SYSTEMs are those that were run on it.")
@click.option("--judge", "named", required=True, metavar="JUDGE", help='As endpoint_judge(url="http://localhost:8000").')
@click.option(
    "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The qrels file that is written."
)
@click.option("-k", "depth", type=click.IntRange(min=1), default=10, show_default=True, help="Documents of each list.")
@click.option("--unjudged", is_flag=True, help="Only documents that nobody has judged.")
@json_option
def command(
    systems: tuple[str, ...], dataset: str, named: str, output: Path, depth: int, *, unjudged: bool, as_json: bool
) -> None:
    """Judge the first documents of SYSTEMs and RUNs by a JUDGE that is no person, and how far it agrees.

    Its judgements are never mixed with others: every line of the qrels file has its stamp, and FILE.stamp.json says what it is.
    Answers are kept as they come, so that the same command goes on where it was cut off.
    """
    import msgspec

    from lexbench import registry
    from lexbench.analysis.lists import named_runs
    from lexbench.datasets.dataset import open_dataset
    from lexbench.datasets.find import named as named_dataset
    from lexbench.notation import parse
    from lexbench.report.judging import table
    from lexbench.report.terminal import render
    from lexbench.runner import judging
    from lexbench.runner.stages import DatasetRunner
    from lexbench.storage.store import Store

    judge = registry.create("judges", parse(named).head)
    store, opened = Store(on_damage=partial(say, err=True)), open_dataset(*named_dataset(dataset))
    contract = opened.contract
    runs = named_runs(systems, store, contract)
    wanted = judging.asked(runs, opened.qrels, depth, unjudged=unjudged)
    with shown(contract.id, 1) as progress:
        made = judging.judge_documents(judge, wanted, DatasetRunner(opened, store, progress), output, list(runs), depth)
    if as_json:
        print_json(msgspec.to_builtins(made))
    else:
        print_rich(render(table(made, output)))
