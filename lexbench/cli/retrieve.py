"""Search vectors that were encoded elsewhere."""

from pathlib import Path

import click

from lexbench.cli._output import say


@click.command()
@click.argument("embeddings", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("output", type=click.Path(path_type=Path, file_okay=False))
@click.option("-e", "--engine", metavar="EXPRESSION", default="impact", show_default=True, help="E.g. 'top_k(64)@impact'.")
@click.option("-k", default=1000, show_default=True, help="Documents of each list.")
@click.option("--dataset", help="The dataset's name for the metadata; of a path, the last part.")
@click.option("--embedding", help="The model's name for the metadata.")
@click.option("--team", help="The team's name for the metadata.")
@click.option("--tag", default="lexbench", show_default=True, help="The tag of the run.")
def command(embeddings: Path, output: Path, engine: str, k: int, **named: str | None) -> None:
    """Search with the queries in EMBEDDINGS, a folder in lsr-benchmark's layout, and write the run into the folder OUTPUT."""
    from lexbench.interop.lsr_benchmark import retrieve

    given = {name: value for name, value in named.items() if value}
    if "dataset" in given:
        given["dataset"] = Path(given["dataset"]).name
    for path in retrieve(embeddings, output, engine, k, given):
        say(f"wrote {path}")
