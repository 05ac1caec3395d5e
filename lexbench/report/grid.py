"""A table of systems that is made once and written in several ways.

`summary` and `details` make a grid from results. The terminal, Markdown, LaTeX, CSV and the page write the same texts, so they
agree to the last digit. The best two values of a column are marked when a grid is written, among the rows that are shown.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from lexbench.display.table import heading, number
from lexbench.measures import cutoff
from lexbench.report.timings import rate, single_stream
from lexbench.results import EXPOSURES, Result, Results, Timing, measures_of
from lexbench.suites import Aggregate, Mean

MISSING = number(None)
SEEN = {"zero-shot": "yes", "unknown": "?", "corpus seen": "‡", "in-domain": "‡‡"}
_CALLED = {"R": "official recall", "Success": "DPR recall", "RR": "MRR"}  # names of measures in papers


class Value(msgspec.Struct, frozen=True, omit_defaults=True):
    """One cell: its text, the number to sort by, and a note that the page shows on hover."""

    text: str = MISSING
    value: float | None = None
    note: str = ""


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column of numbers. Narrow pages hide columns with a small *keep* first."""

    name: str
    about: str = ""  # a second line of the heading
    ranked: bool = False  # whether the best two values are marked
    keep: int = 0
    measures: tuple[tuple[str, str], ...] = ()  # datasets, each with the measure whose mean, or mean over datasets, is shown


_SIZES = (Column("index MB", keep=60), Column("bytes/doc", keep=20), Column("model MB", keep=30), Column("zero-shot", keep=40))


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One system. Upper bounds, published systems and those that were not measured are not ranked."""

    name: str
    values: tuple[Value, ...]
    system: int = -1  # its position in the section of a leaderboard
    ranked: bool = True
    published: bool = False


class Grid(msgspec.Struct, frozen=True):
    """Rows and columns, with a title and notes."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def marks(self) -> list[list[int]]:
        """Return marks by row and column: 1 for the best of a column, 2 for the second, 0 for others. Equal texts tie."""
        columns = [[row.values[at] for row in self.rows if row.ranked] for at in range(len(self.columns))]
        places: list[dict[str, int]] = []
        for column, cells in zip(self.columns, columns, strict=True):
            known = {cell.text: cell.value for cell in cells if cell.value is not None}
            best = sorted(known, key=lambda text: -known[text])[:2] if column.ranked and len(cells) > 1 else []
            places.append({text: place for place, text in enumerate(best, start=1)})
        return [
            [place.get(cell.text, 0) if row.ranked else 0 for place, cell in zip(places, row.values, strict=True)]
            for row in self.rows
        ]

    def only(self, rows: Iterable[Row]) -> "Grid":
        """Return the grid with only these *rows*, and without columns that are empty in all of them."""
        shown = tuple(rows)
        kept = [at for at in range(len(self.columns)) if any(row.values[at].text != MISSING for row in shown)]
        cut = tuple(msgspec.structs.replace(row, values=tuple(row.values[at] for at in kept)) for row in shown)
        return msgspec.structs.replace(self, columns=tuple(self.columns[at] for at in kept), rows=cut)


def summary(results: Results, datasets: Sequence[str], headline: str, means: Sequence[Aggregate] = ()) -> Grid:
    """Return the main table of *results*, a row per system.

    Columns: headline per dataset, means, MRR, both recalls, QPS, sizes and zero-shot. MRR and recalls are means over
    *datasets*. QPS are those on the dataset with most documents. Missing values have a dash.
    """
    columns_of = {name: results.column(name) for name in datasets}
    chosen = [_main_measures([*columns_of[name].values()], headline) for name in datasets]
    others = [kind for kind in ("RR", "R", "Success") if all(kind in named for named in chosen)]
    largest = max(datasets, key=lambda name: max((one.counts.documents or 0 for one in columns_of[name].values()), default=0))
    timings = comparable_timings(columns_of[largest])
    columns = [
        *(
            Column(name, ranked=True, keep=70 if means else 90, measures=((dataset, headline),))
            for name, dataset in zip(score_names(datasets, headline), datasets, strict=True)
        ),
        *(Column(mean.id, ranked=True, keep=90) for mean in means),
        *(
            Column(*_heads([named[kind] for named in chosen]), ranked=True, keep=50,
                   measures=tuple((dataset, named[kind]) for dataset, named in zip(datasets, chosen, strict=True)))
            for kind in others
        ),
        Column("QPS", score_names(datasets, "")[list(datasets).index(largest)], keep=80), *_SIZES,
    ]  # fmt: skip
    rows = []
    for name in results.systems:
        row = results.row(name)
        here = [row.get(dataset) for dataset in datasets]
        values = [
            *(score_value(result, headline) for result in here),
            *(mean_value(mean.over_results(row.values())) for mean in means),
            *(_mean_score([(result, of_kind[kind]) for result, of_kind in zip(here, chosen, strict=True)]) for kind in others),
            rate_value(timings.get(name)),
            *_size_values(here),
        ]
        rows.append(Row(name, tuple(values), ranked=not any(result.aside for result in row.values())))
    title = f"{headline} on {datasets[0] if len(datasets) == 1 else 'each dataset'}"
    return Grid(title, tuple(columns), tuple(rows), tuple(_rate_notes(timings)))


def details(systems: Mapping[str, Result]) -> Grid:
    """Return all measures, latencies and sizes of *systems* on one dataset."""
    first = next(iter(systems.values()))
    measured = measures_of(systems.values())
    timings = comparable_timings(systems)
    columns = [
        *(
            Column(*_heads([name]), ranked=not name.startswith("Judged"), keep=90 - at, measures=((first.dataset, name),))
            for at, name in enumerate(measured)
        ),
        Column("QPS", keep=80), Column("p50 ms", keep=3), Column("p99 ms", keep=2), Column("built s", keep=1), *_SIZES,
    ]  # fmt: skip
    rows = []
    for name, result in systems.items():
        timing = timings.get(name)
        built = [result.measured.seconds[stage] for stage in ("encode", "build") if stage in result.measured.seconds]
        latencies = [getattr(timing.stages["e2e"], part) if timing else None for part in ("p50", "p99")]
        values = [
            *(score_value(result, measure) for measure in measured),
            rate_value(timing),
            *(_value(None if one is None else one * 1000, ".3g") for one in latencies),
            _value(sum(built) if built and not result.measured.resumed else None, ",.1f"),  # resumed: of the last process only
            *_size_values([result]),
        ]
        rows.append(Row(name, tuple(values), ranked=not result.aside))
    grid = Grid(first.dataset, tuple(columns), tuple(rows), tuple(_rate_notes(timings)))
    return grid.only(grid.rows)


def comparable_timings(systems: Mapping[str, Result]) -> dict[str, Timing]:
    """Return for each system its latest timing of single queries with the machine and k that most systems have."""
    timings = {name: single_stream(result) for name, result in systems.items()}
    counts = Counter((one.fingerprint, one.k) for found in timings.values() for one in found)
    if not counts:
        return {}
    most = max(counts, key=lambda group: (counts[group], group[1], group[0]))
    return {name: one for name, found in timings.items() for one in found if (one.fingerprint, one.k) == most}


def score_names(datasets: Sequence[str], headline: str) -> list[str]:
    """Return the headings of the headline by dataset: nfcorpus for beir/nfcorpus/test; for a single dataset, the headline."""
    if len(datasets) == 1:
        return [headline]
    short = [name.partition("/")[2].removesuffix("/test") or name for name in datasets]
    return short if len(set(short)) == len(datasets) else list(datasets)


def score_value(result: Result | None, measure: str) -> Value:
    """Return the mean of *measure*, with the standard deviation over seeds if there is one."""
    if result is None or measure not in result.means:
        return Value()
    deviation = f" ±{number(result.seeds.deviation(measure))}" if result.seeds else ""
    return Value(number(result.means[measure]) + deviation, result.means[measure])


def rate_value(timing: Timing | None) -> Value:
    """Return the queries per second of a timing with its flags, e.g. "326 ~"."""
    if timing is None:
        return Value()
    low, high = timing.qps_range.get("e2e", (None, None))
    parts = [f"{number(low, ',.0f')} to {number(high, ',.0f')} over {timing.processes} fresh processes"] if low else []
    return Value(rate(timing), timing.qps["e2e"], "; ".join([*parts, *timing.flags]))


def _size_values(by_dataset: Sequence[Result | None]) -> tuple[Value, ...]:
    """Return the cells for the columns `_SIZES` of one system. *by_dataset* has its result on each dataset, None if missing."""
    results = [result for result in by_dataset if result]
    sizes = [result.sizes["index"] for result in results if "index" in result.sizes]
    documents = [result.counts.documents for result in results if result.counts.documents]
    complete = len(sizes) == len(by_dataset)
    model = max((result.sizes["model"] for result in results if "model" in result.sizes), default=None)
    seen = [result.exposure.status if result.exposure else "unknown" for result in results]
    because = [f"{result.dataset}: {line}" for result in results if result.exposure for line in result.exposure.because]
    return (
        _value(sum(sizes) / 1e6 if complete else None, ",.1f"),
        _value(sum(sizes) / sum(documents) if complete and len(documents) == len(by_dataset) else None, ",.0f"),
        _value(None if model is None else model / 1e6, ",.1f"),
        Value(SEEN[max(seen, key=EXPOSURES.index)], None, "\n".join(because)),
    )


def _value(value: float | None, form: str) -> Value:
    return Value(number(value, form), value)


def _heads(names: Sequence[str]) -> tuple[str, str]:
    """Return the heading for measures of one kind and the lines below it, e.g. RR@10, and "rel=2" above "MRR"."""
    heads = list(dict.fromkeys(heading(name).partition("\n")[::2] for name in names))
    called = _CALLED.get(kind_of(names[0]), "")
    short, settings = heads[0] if len(heads) == 1 else (kind_of(names[0]), "")
    return short, "\n".join(part for part in (settings, called) if part)


def mean_value(mean: Mean) -> Value:
    """Return a mean over datasets as a cell."""
    return Value(str(mean), mean.value)


def _mean_score(scores: Sequence[tuple[Result | None, str]]) -> Value:
    """Return the mean over datasets as a cell. *scores* are the result and the measure on each dataset."""
    means = [result.means[name] for result, name in scores if result and name in result.means]
    if len(scores) == 1:
        return score_value(*scores[0])
    return _value(sum(means) / len(means) if len(means) == len(scores) else None, ".4f")


def _rate_notes(timings: Mapping[str, Timing]) -> Iterable[str]:
    """Yield notes that explain QPS and their marks."""
    for timing in list(timings.values())[:1]:
        yield f"QPS: queries per second, one at a time, with encoding; k={timing.k}"
    shown = " ".join(rate(timing) for timing in timings.values())
    if "~" in shown:
        reasons = dict.fromkeys(one.unranked for one in timings.values() if one.unranked)
        yield f"~: not ranked: {', '.join(reasons)}"
    if "≠" in shown:
        yield "≠: the timed search returned other documents than the scored one"


def _main_measures(results: Sequence[Result], headline: str) -> dict[str, str]:
    """Return by kind the measures of the main table after the headline: the first RR, both recalls.

    These are the deepest pair with a common cutoff, or else the first of each; `plan.with_both_recalls` adds what is missing.
    """
    measured = measures_of(results)
    chosen: dict[str, str] = {}
    for name in measured:
        if kind_of(name) == "RR":
            chosen.setdefault("RR", name)
    cutoffs = {kind: {cutoff(name): name for name in measured if kind_of(name) == kind} for kind in ("R", "Success")}
    shared = [at for at in cutoffs["R"] if at in cutoffs["Success"] and at is not None]
    for kind, names in cutoffs.items():
        names.pop(None, None)  # a budget of tokens
        if names:
            chosen[kind] = names[max(shared)] if shared else next(iter(names.values()))
    return {kind: name for kind, name in chosen.items() if name != headline}


def kind_of(measure: str) -> str:
    """Return the name of a measure without settings and cutoff, e.g. RR of RR(rel=2)@10."""
    return measure.partition("(")[0].partition("@")[0]
