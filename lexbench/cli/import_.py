"""Read runs and judgements of other tools."""

from functools import partial
from pathlib import Path

import click

from lexbench.cli._options import FormatCommand, json_option
from lexbench.cli._output import print_json, say
from lexbench.interop.formats import imports


@click.command(cls=FormatCommand, formats=imports())
@click.argument("format_name", metavar="FORMAT", type=click.Choice(list(imports())))
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def command(format_name: str, source: Path, target: Path, *, as_json: bool) -> None:
    """Convert SOURCE, a file of the format FORMAT, to TARGET; print what is lost and what to type next.

    Runs become a TREC run file, for `lexbench score` and for the system `run_file(path="TARGET")`. Judgements become TREC
    qrels.
    """
    from lexbench.interop.conversion import import_file

    following = import_file(format_name, source, target, partial(say, err=True))
    lost = imports()[format_name].lost
    if as_json:
        print_json({"file": str(target), "lost": lost})
        return
    say(str(target))
    say(f"not kept: {lost}", err=True)
    say(f"next: {following}", err=True)
