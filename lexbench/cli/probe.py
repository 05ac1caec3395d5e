"""Measure an index that you already run: recall of exact and latency for each setting and filter."""

from pathlib import Path
from typing import Any

import click

import lexbench
from lexbench.cli._options import COUNT, EXISTING, EXISTING_FILE, FILE, described, json_option
from lexbench.cli._output import print_answer, say
from lexbench.cli._progress import shown

_ADDRESSES = """
\b
pgvector://HOST:5432/DATABASE/TABLE/COLUMN      PostgreSQL; filters are SQL, e.g. 'tenant = 7'
qdrant://HOST:6333/COLLECTION                   Qdrant (a folder: qdrant:///path/COLLECTION)
opensearch://HOST:9200/INDEX/FIELD              also elasticsearch://; for TLS opensearch+https://
milvus://HOST:19530/COLLECTION/FIELD            Milvus
http://HOST:8080/search                         gets {"vector": […], "k": 10, KNOB: value, "filter": TEXT},
                                                answers {"docs": [[id, score], …]}
'./my-search --index idx'                       a command: the same, one line per query
"""


def _shares(_context: click.Context, _option: click.Parameter, text: str | None) -> list[float]:
    try:
        return [float(share) for share in (text or "").split(",") if share]
    except ValueError:
        raise click.BadParameter("write shares of the documents, e.g. 1,0.1,0.01") from None


@click.command(help=f"{described(lexbench.probe)}\n{_ADDRESSES}")
@click.argument("target", metavar="ADDRESS|COMMAND")
@click.option(
    "--knob",
    multiple=True,
    metavar="NAME=V1,V2",
    help="A setting of the search to vary; repeat for others. Default: the server's.",
)
@click.option("-k", default=10, show_default=True, type=COUNT, help="Documents per query.")
@click.option("--sample", default=200, show_default=True, type=COUNT, help="Queries.")
@click.option(
    "--queries",
    type=EXISTING,
    metavar="FILE",
    help="Vectors of queries (.npy, or .npz of SciPy); default: a sample of documents.",
)
@click.option(
    "--vectors", type=EXISTING, metavar="FILE|FOLDER", help="Vectors of documents, if the server gives none; also encodings."
)
@click.option("--ids", type=EXISTING_FILE, help="The ids of these vectors, one per line; default: their row numbers.")
@click.option("--similarity", type=click.Choice(("dot", "cosine", "l2")), help="Default: that of the server, or dot.")
@click.option(
    "--filter",
    multiple=True,
    metavar="TEXT",
    help="A filter in the server's language; {} stands for a value. Repeat for others.",
)
@click.option(
    "--selectivity", callback=_shares, metavar="S1,S2", help="Fill in {} so that about these shares pass; 1: no filter."
)
@click.option(
    "--passing", multiple=True, type=EXISTING_FILE, help="The ids that pass a filter, if the server does not list them."
)
@click.option("--load", default=0.0, help="Queries per second; default: a quarter of what the slowest setting answers alone.")
@click.option(
    "--seconds", default=10.0, show_default=True, help="Offer the load for this long per setting and filter; 0: no load."
)
@click.option("--goal", default=0.95, show_default=True, type=click.FloatRange(0, 1), help="The recall of exact that you want.")
@click.option("--plot", type=FILE, help="Draw recall over latency: PLOT.svg, .pdf and .png.")
@json_option
def command(target: str, *, plot: Path | None, as_json: bool, **options: Any) -> None:
    """Measure a running index; the help is that of `lexbench.probe`."""
    with shown() as progress:
        found = lexbench.probe(target, **options, progress=progress)
    print_answer(found, as_json=as_json)
    for path in found.plot(plot) if plot else ():
        say(f"wrote {path}", err=True)
