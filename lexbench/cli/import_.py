"""Read other tools' runs, judgements and results."""

from pathlib import Path

import click

from lexbench.cli._output import json_option, print_json
from lexbench.interop.losses import IMPORTED


@click.command()
@click.argument("layout", metavar="FORMAT", type=click.Choice(list(IMPORTED)))
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def command(layout: str, source: Path, target: Path, *, as_json: bool) -> None:
    """Read SOURCE, a file or folder of the format FORMAT, and write TARGET; say what is lost and what to type next.

    trec, msmarco, scored (query, document, score), ranx (JSON or Parquet) and ir-metadata become a TREC run, for `lexbench
    score` and as a system, `run_file(path="TARGET")`. qrels (TREC, BEIR, MS MARCO) and ranx-qrels become TREC qrels. mteb,
    model-index and eval-results become TOML, as in suites/expected: scores that others published, and no results of ours.
    """
    from lexbench.interop.importing import bring_in

    following = bring_in(layout, source, target)
    if as_json:
        print_json({"file": str(target), "lost": IMPORTED[layout]})
        return
    click.echo(str(target))
    click.echo(f"what is lost: {IMPORTED[layout]}", err=True)
    click.echo(f"next: {following}", err=True)
