"""Make a test collection from your own documents."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lexbench.cli._options import COUNT, EXISTING, EXISTING_FILE, FOLDER, json_option, system_option
from lexbench.cli._output import open_store, print_json, print_tables, say
from lexbench.cli._progress import shown

if TYPE_CHECKING:
    from lexbench.collecting.collection import Collection, Judged

_SYSTEMS = ("bm25", "lexmae_nano", "ensemble(bm25, lexmae_nano)")


@click.command()
@click.argument("documents", type=EXISTING)
@click.option("--output", type=FOLDER, metavar="FOLDER", help="The collection; default: DOCUMENTS-collection, here.")
@click.option("--queries", "given", type=EXISTING_FILE, help="Queries, one per line, or a log with counts: query<TAB>count.")
@click.option("--count", type=COUNT, help="Queries to make (default: 50), or to draw from FILE (default: all).")
@click.option("--writer", metavar="URL", help="Let the chat model of this server write the queries.")
@click.option("--writer-model", default="", metavar="NAME", help="The name of that model on the server.")
@click.option("--key", default="", metavar="VARIABLE", help="The environment variable with the key of your account there.")
@system_option(f"A system of the pool; repeatable; default: {', '.join(_SYSTEMS)}.")
@click.option("-k", "depth", type=COUNT, default=10, show_default=True, help="Documents of each to judge.")
@click.option("--judge", "judge_text", metavar="JUDGE", help='A model, e.g. endpoint_judge(url="http://localhost:8000").')
@click.option("--by", default="", metavar="NAME", help="Whose judgements count; default: the person with the most.")
@json_option
def command(  # noqa: PLR0913 - options
    documents: Path, *, output: Path | None, given: Path | None, count: int | None, writer: str | None, writer_model: str,
    key: str, systems: tuple[str, ...], depth: int, judge_text: str | None, by: str, as_json: bool,
) -> None:  # fmt: skip
    """Make a test collection from DOCUMENTS: a corpus file, or a folder of .txt, .md, .rst and .html files.

    Queries come from a file, from a model, or from titles, headings, questions and key words of the documents. All systems
    search, and the first documents of each are judged, by a person (`lexbench judge page`) or by a model. The same command
    continues where it was interrupted, and writes the judgements so far.
    """
    from lexbench.analysis.judgements import pool_table
    from lexbench.collecting.collection import MEASURE, Collection, leak_line
    from lexbench.collecting.made_queries import Writer
    from lexbench.errors import CommandError
    from lexbench.runner import judging

    if given and writer:
        raise CommandError("give --queries FILE or --writer URL, not both")
    judge = judging.judge(judge_text) if judge_text else None
    folder = output or Path(f"{documents.resolve().name.partition('.')[0]}-collection")
    made = Collection.begin(folder, documents)
    say(f"{made.known.documents:,} documents of {made.known.source}", err=True)
    made.add_queries(given, count, Writer(writer, key=key, model=writer_model) if writer else None)
    left_out = f"; {made.known.left_out} left out, because they copy their documents" if made.known.left_out else ""
    say(f"{made.known.queries:,} queries, {made.known.queries_from}{left_out}", err=True)
    if made.known.shared is not None:
        say(leak_line(made.known), err=True)
    with shown(folder.name, 1) as progress:
        runner = made.runner(open_store(progress.note), progress)
        made.add_to_pool(systems or tuple(made.known.asked) or _default_systems(), depth, runner)
        if judge:
            made.ask_judge(judge, runner)
    judged = made.publish(by)
    pool = sum(map(len, made.pool.values()))
    if as_json:
        print_json({"facts": made.known, "pool": pool, "judged": judged})
        return
    say(f"pool: {pool:,} documents, the first {made.known.depth} of {', '.join(made.known.systems)}")
    if judged and (rows := made.losses(judged.by)):
        print_tables([pool_table(rows, folder.name, MEASURE, made.known.depth)])
    report(made, judged)


def _default_systems() -> tuple[str, ...]:
    """Return the default systems; only bm25 if the packages of models are not installed."""
    from lexbench.errors import MissingExtra
    from lexbench.runner.systems import system

    try:
        system(_SYSTEMS[-1])
    except MissingExtra as error:
        say(f"the pool has only bm25: {error}", err=True)
        return _SYSTEMS[:1]
    return _SYSTEMS


def report(made: "Collection", judged: "Judged | None") -> None:
    """Print how many documents are judged, the agreement of judges, and what to type next."""
    from shlex import quote

    if judged:
        grades = ", ".join(f"{grade}: {count}" for grade, count in judged.grades.items())
        say(f"{judged.judged:,} of {judged.pool:,} documents are judged, by {judged.by}; grades {grades}")
        for name, one in judged.agreement.items():
            say(f"{judged.by} and {name}: {one.line()}")
    place = quote(str(made.path))
    if judged is None or judged.judged < judged.pool:
        say(f"to judge in the browser, type: lexbench judge page {place}")
    if judged:
        say(f"to use the collection, type: lexbench run dataset {place} -r bm25 -m nDCG@10 -m Judged@10")
