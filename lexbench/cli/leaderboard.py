"""Make the leaderboard page from its result files."""

from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default="leaderboard")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if the page is stale.")
def command(folder: Path, *, check: bool) -> None:
    """Write FOLDER/README.md (default: leaderboard/README.md) from the files in FOLDER/results.

    `lexbench run suite NAME --save FOLDER` puts files there.
    """
    from lexbench.report import leaderboard

    if not check:
        click.echo(str(leaderboard.write(folder)))
    elif leaderboard.stale(folder):
        click.echo(f"{folder / leaderboard.PAGE} is stale; type: lexbench leaderboard {folder}", err=True)
        click.get_current_context().exit(1)
    else:
        click.echo(f"{folder / leaderboard.PAGE} is up to date")
