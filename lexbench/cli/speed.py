"""Measure how fast an encoder is on this machine, and what a faster dtype costs in effectiveness."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from lexbench.cli._options import COUNT, json_option
from lexbench.cli._output import print_json, print_tables, say

if TYPE_CHECKING:
    from lexbench.analysis.compare.comparison import Difference
    from lexbench.table import Table
    from lexbench.timing.encoding_speed import Choice

_QUERIES = 50
_MEASURE = "nDCG@10"
_DTYPES = ("float32", "bfloat16", "int8")


@click.command()
@click.argument("model", metavar="MODEL")
@click.option("--dtype", "dtypes", multiple=True, help="Only this dtype; repeatable. Default: float32, bfloat16, int8.")
@click.option("--threads", type=COUNT, multiple=True, help="Threads; repeatable. Default: 1 and all cores.")
@click.option("--batch", type=COUNT, multiple=True, help="Tokens computed at once; repeatable. Default: what suits the device.")
@click.option("-d", "--dataset", default="pydoc/test", show_default=True, metavar="ID|FOLDER", help="Texts and judgements.")
@click.option("--sample", default=256, show_default=True, type=COUNT, help="Documents to encode, the first of the dataset.")
@click.option("--documents", default=1_000_000, show_default=True, type=COUNT, help="Your documents: for hours and costs.")
@click.option("--price", type=click.FloatRange(min=0), help="Costs of this machine per hour.")
@click.option("--with", "others", metavar="NAMES", help="Also by openvino, onnx (ONNX Runtime), or both: openvino,onnx.")
@click.option("--scores/--no-scores", default=True, help="Run the whole dataset in each dtype, and test the difference.")
@json_option
def command(  # noqa: PLR0913 - options
    model: str, *, dtypes: tuple[str, ...], threads: tuple[int, ...], batch: tuple[int, ...], dataset: str, sample: int,
    documents: int, price: float | None, others: str | None, scores: bool, as_json: bool,
) -> None:  # fmt: skip
    """Time the encoder MODEL (lexmae_nano, 'minilm(model="FOLDER")', ./FOLDER) for each dtype, number of threads and batch.

    Each row has a fresh process. The machine should do nothing else.
    """
    from itertools import islice

    from lexbench.analysis.stored_results import definition
    from lexbench.datasets.dataset import open_dataset
    from lexbench.datasets.location import find_dataset
    from lexbench.errors import LexbenchError
    from lexbench.runner.systems import named_systems
    from lexbench.storage.environment import cores
    from lexbench.storage.store import Store
    from lexbench.timing.encoding_speed import OWN, choices, speeds
    from lexbench.timing.protocol import sample as spaced

    runtimes = [OWN, *_installed(others)]
    expression = named_systems(definition(model, Store()))[0][1]
    wanted: dict[str, Any] = {"dtype": dtypes or _DTYPES, "threads": threads or sorted({1, len(cores())})}
    wanted |= {"batch_tokens": batch} if batch else {}
    kinds = list(dict.fromkeys(str(settings["dtype"]) for settings in choices(expression, wanted) if "dtype" in settings))
    data = open_dataset(*find_dataset(dataset))
    texts = list(islice(data.source.documents(), sample))
    queries = [query.text for query in spaced(data.queries, _QUERIES)]
    found = list(speeds(expression, wanted, texts, queries, lambda typed: say(f"timing {typed}", err=True), runtimes))
    if not any(one.speed for one in found):
        raise LexbenchError(f"{model} could not be timed: {found[0].refused}")
    tests = _tests(expression, kinds, dataset) if scores and len(kinds) > 1 else {}
    if as_json:
        print_json({"rows": [one._asdict() for one in found], "differences": tests})
        return
    words = sum(len(text.text.split()) for text in texts) / len(texts)
    about = f"{len(texts):,} documents of {dataset}, {words:.0f} words each, and {len(queries)} queries"
    print_tables([_table(model, found, tests, about, documents, price)])
    say(_advice(found, tests))


def _installed(others: str | None) -> list[str]:
    """Return the names in *others*, and say their dtypes. Raises UnknownName, and CannotStart without the library."""
    from importlib.util import find_spec

    from lexbench.errors import CannotStart, UnknownName
    from lexbench.timing.encoding_speed import OTHERS

    names = [name.strip() for name in others.split(",")] if others else []
    for name in names:
        if name not in OTHERS:
            raise UnknownName("runtime", name, OTHERS)
        if not all(map(find_spec, OTHERS[name].packages)):
            raise CannotStart(f"--with {name} needs more packages; type: pip install {' '.join(OTHERS[name].packages)}")
        say(f"{name} is timed in {' and '.join(OTHERS[name].dtypes)} only", err=True)
    return names


def _tests(expression: str, kinds: Sequence[str], dataset: str) -> "dict[str, Difference]":
    """Run the dataset in each dtype and return the difference of each to the first."""
    from lexbench.api import run
    from lexbench.timing.encoding_speed import with_settings

    say(f"running {dataset} in {', '.join(kinds)}", err=True)
    results = run(dataset, {kind: with_settings(expression, {"dtype": kind}) for kind in kinds}, measures=[_MEASURE])
    for line in results.failures:
        say(line, err=True)
    if len(results) < 2 or next(iter(results)).system != kinds[0]:  # noqa: PLR2004 - nothing to compare
        return {}
    (compared,) = results.compare(measure=_MEASURE).comparison.datasets
    return {one.system: one for one in compared.differences}


def _table(
    model: str, found: "Sequence[Choice]", tests: "Mapping[str, Difference]", about: str, documents: int, price: float | None
) -> "Table":
    """Return one row per combination of settings."""
    from lexbench.storage.environment import facts
    from lexbench.table import Table, interval_cell, number
    from lexbench.timing.encoding_speed import OWN

    names = list(dict.fromkeys(name for one in found for name in one.settings))
    several = any(one.runtime != OWN for one in found)
    heads = [*(["by"] if several else []), *(name.replace("_", "\n") for name in names)]
    rows = []
    for one in found:
        cells = [*([one.runtime] if several else []), *(str(one.settings.get(name)) for name in names)]
        speed, test = one.speed, tests.get(str(one.settings.get("dtype"))) if one.runtime == OWN else None
        if speed:
            hours = documents / speed.documents_per_second / 3600
            cells += [f"{speed.documents_per_second:,.1f}", f"{speed.query_seconds * 1000:.1f}", f"{speed.first_answer:.1f}"]
            cells += [f"{speed.memory / 1e6:,.0f}", f"{hours:,.1f}", *([] if price is None else [f"{hours * price:,.2f}"])]
        if speed and test:
            cells += [f"{test.difference:+.4f}", interval_cell(test.interval), number(test.p)]
        rows.append(tuple(cells))
    columns = ["docs/s", "query\nms", "first\nanswer", "memory\nMB", f"hours for\n{documents:,}"]
    columns += [*([] if price is None else ["costs"]), *([_MEASURE, "95 %\ninterval", "p"] if tests else [])]
    filled = [(*row, *[number(None)] * (len(heads) + len(columns) - len(row))) for row in rows]
    notes = [
        f"{about}; docs/s: documents per second, the fastest of three rounds; query: the median of one at a time",
        "first answer: seconds from opening the model to the first query's vector; memory: of the process, with libraries",
        *([f"{_MEASURE}: difference to {found[0].settings['dtype']}; p: two-sided paired randomisation test"] if tests else []),
        *dict.fromkeys(f"not here: {one.expression}: {one.refused}" for one in found if one.refused),
    ]
    return Table(f"{model}: encoding on {facts()['processor']}", (*heads, *columns), tuple(filled), tuple(notes))


def _advice(found: "Sequence[Choice]", tests: "Mapping[str, Difference]") -> str:
    """Say which row is fastest, and what it costs."""
    from lexbench.table import number
    from lexbench.timing.encoding_speed import OWN

    timed = [(one.speed.documents_per_second, one) for one in found if one.speed]
    rate, best = max(timed, key=lambda row: row[0])
    own = best.runtime == OWN
    test = tests.get(str(best.settings.get("dtype"))) if own else None
    costs = f", {_MEASURE} {number(test.difference, '+.4f')} (p {number(test.p)})" if test else ""
    by = "" if own else f" by {best.runtime}"
    return f"fastest: {best.expression}{by}, {rate / timed[0][0]:.2f} times the first row{costs}"
