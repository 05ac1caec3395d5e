"""How fast an encoder is on this machine, and what a faster dtype costs in effectiveness: `lexbench speed`."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import islice
from typing import Any

import msgspec

from lexbench.analysis.compare.comparison import compared
from lexbench.analysis.compare.tables import Difference
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.location import find_dataset
from lexbench.display.answer import Answer
from lexbench.display.table import Table, interval_cell, number, p_text
from lexbench.errors import CannotStart, LexbenchError, UnknownName
from lexbench.runner import jobs
from lexbench.runner.plan import plan_of
from lexbench.runner.systems import named_systems
from lexbench.storage.environment import cores, facts
from lexbench.storage.store import Store
from lexbench.timing.encoding_speed import OTHERS, OWN, Choice, choices, speeds, with_settings
from lexbench.timing.protocol import sample as spaced

_QUERIES = 50
_MEASURE = "nDCG@10"
DTYPES = ("float32", "bfloat16", "int8")
GPU_DTYPES = ("float32", "bfloat16", "float16")


class EncoderSpeed(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """The speed of an encoder for each choice of settings, and the loss of each dtype."""

    model: str
    choices: list[Choice]
    differences: dict[str, Difference]  # by dtype: of the scores, to the first dtype
    about: str  # the texts
    documents: int  # for which hours and costs are estimated
    price: float | None = None  # of the machine, per hour

    def tables(self) -> list[Table]:
        """Return one row per choice of settings."""
        return [_table(self)]

    def lines(self) -> list[str]:
        """Return which row is fastest, and what it costs."""
        return [_advice(self)]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per choice of settings."""
        return [
            {"expression": one.expression, "runtime": one.runtime, **one.settings, "refused": one.refused}
            | (msgspec.structs.asdict(one.speed) if one.speed else {})
            for one in self.choices
        ]

    def document(self) -> dict[str, Any]:
        """Return all choices, and the differences of dtypes."""
        return {"rows": [one._asdict() for one in self.choices], "differences": self.differences}


def encoder_speed(  # noqa: PLR0913 - what can be varied
    model: str,
    *,
    dtypes: Sequence[str],
    devices: Sequence[str],
    threads: Sequence[int],
    batch: Sequence[int],
    dataset: str,
    sample: int,
    documents: int,
    price: float | None,
    runtimes: Sequence[str],
    scores: bool,
    store: Store,
    on_note: Callable[[str], None],
) -> EncoderSpeed:
    """Time the encoder *model* for each dtype, number of threads and batch; each in a fresh process.

    *runtimes* are other libraries that compute the layers. With *scores*, the whole *dataset* is run in each dtype, and the
    differences are tested. *on_note* gets a line before each measurement. Raises LexbenchError if nothing could be timed.
    """
    by = [OWN, *_installed(runtimes, on_note)]
    expression = named_systems(model)[0][1]
    on_gpu = bool(devices) and all(name.startswith("cuda") for name in devices)
    wanted: dict[str, Any] = {"dtype": dtypes or (GPU_DTYPES if on_gpu else DTYPES)}
    wanted |= {"threads": threads or sorted({1, len(cores())}), **({"device": devices} if devices else {})}
    wanted |= {"batch_tokens": batch} if batch else {}
    kinds = list(dict.fromkeys(str(settings["dtype"]) for settings in choices(expression, wanted) if "dtype" in settings))
    data = open_dataset(*find_dataset(dataset))
    texts = list(islice(data.source.documents(), sample))
    queries = [query.text for query in spaced(data.queries, _QUERIES)]
    found = list(speeds(expression, wanted, texts, queries, lambda typed: on_note(f"timing {typed}"), by))
    if not any(one.speed for one in found):
        raise LexbenchError(f"{model} could not be timed: {found[0].refused}")
    words = sum(len(text.text.split()) for text in texts) / len(texts)
    return EncoderSpeed(
        model=model,
        choices=found,
        differences=_differences(expression, kinds, dataset, store, on_note) if scores and len(kinds) > 1 else {},
        about=f"{len(texts):,} documents of {dataset}, {words:.0f} words each, and {len(queries)} queries",
        documents=documents,
        price=price,
    )


def _installed(names: Sequence[str], on_note: Callable[[str], None]) -> Sequence[str]:
    """Return *names*, and say their dtypes. Raises UnknownName, and CannotStart without the library."""
    for name in names:
        if name not in OTHERS:
            raise UnknownName("runtime", name, OTHERS)
        if not all(map(find_spec, OTHERS[name].packages)):
            raise CannotStart(f"--with {name} needs more packages; type: pip install {' '.join(OTHERS[name].packages)}")
        on_note(f"{name} is timed in {' and '.join(OTHERS[name].dtypes)} only")
    return names


def _differences(
    expression: str, kinds: Sequence[str], dataset: str, store: Store, on_note: Callable[[str], None]
) -> dict[str, Difference]:
    """Run the dataset in each dtype and return the difference of each to the first."""
    on_note(f"running {dataset} in {', '.join(kinds)}")
    plan = plan_of(dataset, {kind: with_settings(expression, {"dtype": kind}) for kind in kinds}, (), [_MEASURE])
    results = jobs.results_of(plan, jobs.run(plan, store), store)
    for failure in results.failures:
        on_note(str(failure))
    if len(results) < 2 or results.systems[0] != kinds[0]:  # noqa: PLR2004 - nothing to compare
        return {}
    found = compared(results.systems, store=store, results=results, measures=[_MEASURE]).comparison
    return {one.system: one for one in found.datasets[0].differences}


def _table(found: EncoderSpeed) -> Table:
    """Return one row per combination of settings."""
    names = list(dict.fromkeys(name for one in found.choices for name in one.settings))
    gpus = next((", ".join(one.speed.gpus) for one in found.choices if one.speed and one.speed.gpus), "")
    several = any(one.runtime != OWN for one in found.choices)
    heads = [*(["by"] if several else []), *(name.replace("_", "\n") for name in names)]
    rows = []
    for one in found.choices:
        cells = [*([one.runtime] if several else []), *(str(one.settings.get(name)) for name in names)]
        speed, test = one.speed, found.differences.get(str(one.settings.get("dtype"))) if one.runtime == OWN else None
        if speed:
            hours = found.documents / speed.documents_per_second / 3600
            cells += [f"{speed.documents_per_second:,.1f}", f"{speed.query_seconds * 1000:.1f}", f"{speed.first_answer:.1f}"]
            cells += [f"{speed.memory / 1e6:,.0f}", *([f"{speed.gpu_memory / 1e6:,.0f}"] if gpus else []), f"{hours:,.1f}"]
            cells += [] if found.price is None else [f"{hours * found.price:,.2f}"]
        if speed and test:
            cells += [f"{test.difference:+.4f}", interval_cell(test.interval), p_text(test.p)]
        rows.append(tuple(cells))
    columns = ["docs/s", "query\nms", "first\nanswer", "memory\nMB", *(["GPU\nMB"] if gpus else [])]
    columns.append(f"hours for\n{found.documents:,}")
    columns += [*([] if found.price is None else ["costs"])]
    columns += [_MEASURE, "95 %\ninterval", "p"] if found.differences else []
    filled = [(*row, *[number(None)] * (len(heads) + len(columns) - len(row))) for row in rows]
    first = found.choices[0].settings.get("dtype")
    notes = [
        f"{found.about}; docs/s: documents per second, the fastest of three rounds; query: the median of one at a time",
        "first answer: seconds from opening the model to the first query's vector; memory: of the process, with libraries",
        *([f"{_MEASURE}: difference to {first}; p: two-sided paired randomisation test"] if found.differences else []),
        *dict.fromkeys(f"not here: {one.expression}: {one.refused}" for one in found.choices if one.refused),
    ]
    return Table(f"{found.model}: encoding on {gpus or facts()['processor']}", (*heads, *columns), tuple(filled), tuple(notes))


def _advice(found: EncoderSpeed) -> str:
    """Return which row is fastest, and what it costs."""
    timed = [(one.speed.documents_per_second, one) for one in found.choices if one.speed]
    rate, best = max(timed, key=lambda row: row[0])
    own = best.runtime == OWN
    test = found.differences.get(str(best.settings.get("dtype"))) if own else None
    costs = f", {_MEASURE} {number(test.difference, '+.4f')} (p {p_text(test.p)})" if test else ""
    by = "" if own else f" by {best.runtime}"
    return f"fastest: {best.expression}{by}, {rate / timed[0][0]:.2f} times the first row{costs}"
