"""Read runs and judgements of other tools."""

from functools import partial
from pathlib import Path

import click

from lexbench.cli._options import EXISTING, FILE, FormatCommand, json_option
from lexbench.cli._output import say, say_answer
from lexbench.interop.formats import imports


@click.command(cls=FormatCommand, formats=imports())
@click.argument("format_name", metavar="FORMAT", type=click.Choice(list(imports())))
@click.argument("source", type=EXISTING)
@click.argument("target", type=FILE)
@json_option
def command(format_name: str, source: Path, target: Path, *, as_json: bool) -> None:
    """Convert SOURCE, a file of the format FORMAT, to TARGET; print what is lost and what to type next.

    Runs become a TREC run file, for `lexbench score` and for the system `run_file(path="TARGET")`. Judgements become TREC
    qrels.
    """
    from lexbench.interop.conversion import import_file

    following = import_file(format_name, source, target, partial(say, err=True))
    lost = imports()[format_name].lost
    say_answer({"file": str(target), "lost": lost}, [str(target)], as_json=as_json)
    if not as_json:
        say(f"not kept: {lost}", err=True)
        say(f"next: {following}", err=True)
