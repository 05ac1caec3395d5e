"""Measure an index that you already run: recall of exact and latency for each value of a knob."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lexbench.cli._options import COUNT, EXISTING, EXISTING_FILE, FILE, json_option
from lexbench.cli._output import print_json, print_tables, say

if TYPE_CHECKING:
    from lexbench.probing.probe import Probe
    from lexbench.table import Table


@click.command()
@click.argument("target", metavar="ADDRESS|COMMAND")
@click.option("--knob", "knob_text", metavar="NAME=V1,V2", help="The setting of a search to vary; default: that of the server.")
@click.option("-k", default=10, show_default=True, type=COUNT, help="Documents per query.")
@click.option("--sample", default=200, show_default=True, type=COUNT, help="Queries.")
@click.option("--queries", type=EXISTING_FILE, metavar="FILE.npy", help="Vectors of queries; default: a sample of documents.")
@click.option("--vectors", type=EXISTING, metavar="FILE.npy|FOLDER", help="Vectors of documents, if the server gives none.")
@click.option("--ids", type=EXISTING_FILE, help="The ids of these vectors, one per line; default: their row numbers.")
@click.option("--similarity", type=click.Choice(("dot", "cosine", "l2")), help="Default: that of the server, or dot.")
@click.option("--load", default=0.0, help="Queries per second; default: a quarter of what the slowest value answers alone.")
@click.option("--seconds", default=10.0, show_default=True, help="Offer the load for this long per value; 0: no load.")
@click.option("--goal", default=0.95, show_default=True, type=click.FloatRange(0, 1), help="The recall of exact that you want.")
@click.option("--plot", type=FILE, help="Draw recall over latency: PLOT.svg, .pdf and .png.")
@json_option
def command(  # noqa: PLR0913 - options
    target: str, *, knob_text: str | None, k: int, sample: int, queries: Path | None, vectors: Path | None, ids: Path | None,
    similarity: str | None, load: float, seconds: float, goal: float, plot: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Compare the answers of an index with exact search over the same vectors, for each value of a knob (e.g. hnsw_ef=16,64).

    \b
    qdrant://localhost:6333/COLLECTION     Qdrant (a folder: qdrant:///path/COLLECTION)
    opensearch://localhost:9200/INDEX/FIELD, elasticsearch://…; opensearch+https://… for TLS
    http://localhost:8080/search           gets {"vector": […], "k": 10, KNOB: value}, answers {"docs": [[id, score], …]}
    './my-search --index idx'              a command: the same, one line per query
    """  # noqa: D301 - \b keeps the lines
    from lexbench.errors import CommandError
    from lexbench.probing.probe import probe
    from lexbench.probing.servers import file_blocks, opened, read_matrix

    given = read_matrix(queries) if queries else None
    with opened(target) as index:
        name, _, listed = (knob_text or "").partition("=")
        if knob_text and not all(value.strip().isdigit() for value in listed.split(",")):
            raise CommandError(f"--knob {knob_text}: write a name and whole numbers, e.g. --knob hnsw_ef=16,64,256")
        knob = name or index.knob
        values = [int(value) for value in listed.split(",")] if knob_text else [*index.values] if knob else [None]
        blocks = file_blocks(vectors, ids) if vectors else index.blocks
        if blocks is None:
            raise CommandError(f"{target} gives no vectors; type --vectors FILE.npy and --ids FILE (Qdrant: ?vector=NAME)")
        say(f"searching {sample:,} queries for {len(values)} settings, then {seconds:g} s of load each", err=True)
        found = probe(
            index, target, blocks, queries=given, count=sample, knob=knob, values=sorted(values, key=lambda value: value or 0),
            k=k, similarity=similarity or index.similarity or "dot", load=load, seconds=seconds, goal=goal,
        )  # fmt: skip
    if as_json:
        print_json(found)
        return
    say(found.advice)
    print_tables([_table(found)])
    if plot:
        from lexbench.report.figures import write_curve

        drawn = [(1000 * point.alone, point.recall, f"{found.knob} {point.value}") for point in found.points]
        for path in write_curve(drawn, found.target, ("median ms, one query at a time", f"recall of exact @{found.k}"), plot):
            say(f"wrote {path}", err=True)


def _table(found: "Probe") -> "Table":
    """Return one row per value of the knob."""
    from lexbench.table import Table, interval_cell, number

    def ms(seconds: float | None) -> str:
        return number(None if seconds is None else seconds * 1000, ".2f")

    cheapest = min(point.alone for point in found.points)
    rows = []
    for point in found.points:
        name = f"{point.value or 'as it is'}{' (overloaded)' if point.overloaded(found.offered) else ''}"
        quality = (number(point.recall), interval_cell(point.recall_range))
        loads = (point.load.p50, point.load.p95, point.load.p99) if point.load else (None, None, None)
        rows.append((name, *quality, ms(point.alone), f"{point.alone / cheapest:.1f}x", *map(ms, loads)))
    columns = (f"recall\n@{found.k}", "95 %\ninterval", "alone\nms", "cost", "p50\nms", "p95\nms", "p99\nms")
    notes = [
        f"{found.queries:,} queries, {found.documents:,} documents, similarity {found.similarity}",
        f"at rank {found.k} documents tie in {found.ties:,} queries, and any of them counts",
        "alone: median of one query at a time; cost: relative to the fastest value",
        *([f"p50, p95, p99: at {found.offered:,.0f} queries/s, from the time when a query was due"] if found.offered else []),
        *found.notes,
    ]
    return Table(f"{found.target}: recall of exact", (found.knob or "index", *columns), tuple(rows), tuple(notes))
