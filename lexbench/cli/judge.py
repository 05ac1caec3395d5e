"""Judge documents in the browser or with a language model, or test a pool."""

from pathlib import Path

import click

from lexbench.cli._options import COUNT, EXISTING_FILE, EXISTING_FOLDER, FILE, dataset_option, json_option
from lexbench.cli._output import open_store, print_answer, say
from lexbench.cli._progress import shown

_DEPTH = 100  # of a pool whose depth the dataset does not state


@click.group()
def command() -> None:
    """Judge documents in the browser or with a language model, or test how much a pool favours its contributors."""


@command.command(short_help="Judge the pool of a collection in the browser.")
@click.argument("folder", type=EXISTING_FOLDER)
@click.option("--name", default="judge-1", show_default=True, help="Your name; a second person takes another.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port of the page; default: a free one.")
def page(folder: Path, name: str, port: int) -> None:
    """Serve a page on this machine to judge the pool of FOLDER, a collection of `lexbench collect`. Ctrl-C ends it.

    Every grade is stored at once, so the page and the command can end at any time, and the same command continues. At the end
    the judgements become the qrels of the collection.
    """
    from contextlib import suppress

    from lexbench.cli.collect import report
    from lexbench.collecting.collection import Collection
    from lexbench.collecting.page import PageServer, Session
    from lexbench.errors import CannotStart

    collection = Collection(folder)
    session = Session(collection, name)
    try:
        server = PageServer(session, port)
    except OSError as error:
        raise CannotStart(f"port {port} cannot be used: {error.strerror}; leave --port out to get a free one") from None
    state = session.state()
    say(f"{state['done']:,} of {state['total']:,} documents are judged; judge in your browser, and type Ctrl-C here to end:")
    say(server.url)
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()
    report(collection, collection.publish())


@command.command(short_help="Grade the first documents of lists with a model.")
@click.argument("systems", nargs=-1, required=True, metavar="SYSTEM|RUN...")
@dataset_option("The dataset; SYSTEMs must have been run on it.", required=True)
@click.option("--judge", "judge_text", required=True, metavar="JUDGE", help='E.g. endpoint_judge(url="http://localhost:8000").')
@click.option("--output", required=True, type=FILE, help="The qrels file to write.")
@click.option("-k", "depth", type=COUNT, default=10, show_default=True, help="Documents of each list.")
@click.option("--unjudged", is_flag=True, help="Only documents without a judgement.")
@json_option
def documents(
    systems: tuple[str, ...], dataset: str, judge_text: str, output: Path, depth: int, *, unjudged: bool, as_json: bool
) -> None:
    """Let JUDGE, a language model, grade the first documents of SYSTEMs and run files, and show how far it agrees with people.

    Its judgements are never mixed with official ones: every line of the qrels file has the judge's stamp, and FILE.stamp.json
    describes the judge. Answers are saved as they come, so the same command continues where it was interrupted.
    """
    from lexbench.analysis.judgements import judge_table
    from lexbench.analysis.stored_results import named_runs
    from lexbench.datasets.dataset import open_dataset
    from lexbench.datasets.location import find_dataset
    from lexbench.runner import judging
    from lexbench.runner.search import DatasetRunner

    judge = judging.judge(judge_text)
    store, opened = open_store(), open_dataset(*find_dataset(dataset))
    contract = opened.contract
    runs = named_runs(systems, store, contract)
    known = {row[:2] for row in opened.topics.judgements} if unjudged else ()
    wanted = judging.documents_to_judge(runs, opened.qrels.query_ids, depth, known)
    with shown(contract.id, 1) as progress:
        made = judging.judge_documents(judge, wanted, DatasetRunner(opened, store, progress), output, list(runs), depth)
    print_answer(made, lambda: [judge_table(made, output)], as_json=as_json)


@command.command(short_help="Leave out one contributor to the pool at a time.")
@click.argument("systems", nargs=-1, required=True, metavar="SYSTEM|RUN...")
@dataset_option("The dataset with the judgements and rules; SYSTEMs must have been run on it.")
@click.option("--qrels", type=EXISTING_FILE, help="A qrels file instead of a dataset, without rules.")
@click.option("-m", "--measure", default="nDCG@10", show_default=True, metavar="MEASURE")
@click.option("-c", "--contributor", "contributors", multiple=True, metavar="SYSTEM|RUN", help="A contributor; repeatable.")
@click.option("--depth", type=COUNT, help="Judged documents per list; default: the dataset's, or 100.")
@json_option
def pool(
    systems: tuple[str, ...], dataset: str | None, qrels: Path | None, measure: str, contributors: tuple[str, ...],
    depth: int | None, *, as_json: bool,
) -> None:  # fmt: skip
    """Score systems again without the judgements that only one contributor to the pool brought, for each contributor in turn.

    This shows how unfair the judgements are to a new system whose results nobody judged. Contributors are those that the
    dataset names among SYSTEMs, otherwise all SYSTEMs.
    """
    from lexbench import measures
    from lexbench.analysis.judgements import is_contributor, leave_one_out, pool_table
    from lexbench.analysis.stored_results import named_runs
    from lexbench.runner.scoring import judgements

    if (dataset is None) == (qrels is None):
        raise click.UsageError("give -d ID, or --qrels FILE")
    judged, contract = judgements(dataset, qrels)[:2]
    measure = measures.with_threshold(measure, contract) if contract else str(measures.parse(measure))
    runs = named_runs(systems, open_store(), contract, judged)
    stated = contract.judging if contract else None
    by_contract = [name for name in runs if contract and is_contributor(name, contract)]
    depth = depth or (stated.depth if stated and stated.depth else _DEPTH)
    relevant = contract.relevance.default if contract else 1
    rows = leave_one_out(runs, judged, measure, contributors or by_contract or list(runs), depth=depth, relevant=relevant)
    print_answer(rows, lambda: [pool_table(rows, dataset or str(qrels), measure, depth)], as_json=as_json)
