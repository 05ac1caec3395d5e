"""The tables of a comparison. Systems are A, B, C ... in the order given; the first table says which is which."""

from collections.abc import Iterator, Sequence

from lexbench.analysis.compare.model import Comparison, DatasetComparison, Difference, QueryChange, TermChange
from lexbench.analysis.significance.groups import letter
from lexbench.analysis.significance.randomisation import LEVEL
from lexbench.report.cells import Table, figure

_DIGEST, _VALUE, _LABEL = 12, 34, 24  # characters of a digest, another value and a system, in a cell
_HEX = 32  # digits from which on a value is a digest
_SIDE_BY_SIDE = 6  # systems whose settings a reader can still compare
_SIGNED = "+.4f"
_TEXT = 70  # characters of a query


def tables(found: Comparison, *, curve: bool = False) -> list[Table]:
    """Return what a terminal shows of a comparison; with *curve* the systems as points of a learning curve instead of pairs."""
    names = {system: letter(at).upper() for at, system in enumerate(found.systems)}
    rows = tuple((f"{name}  {system}",) for system, name in names.items())
    many = bool(found.config_diff) and len(names) > _SIDE_BY_SIDE
    note = f"{len(found.config_diff)} settings differ: --json has them, and of {_SIDE_BY_SIDE} systems or fewer a table"
    shown = [Table("systems", ("the first is what the others are compared with",), rows, (note,) if many else ())]
    if found.config_diff and not many:
        shown.append(_facts(found, names))
    if curve:
        return [*shown, *(_curve(one, names) for one in found.datasets)]
    notes = (*_legend(found), *_verdicts(found, names), *found.notes)
    each = list(_effects(found, names))
    shown += [*each[:-1], Table(each[-1].title, each[-1].header, each[-1].rows, notes)]
    return [*shown, *_changes(found, names)]


def _facts(found: Comparison, names: dict[str, str]) -> Table:
    told = [one for one in found.config_diff if not one.implied]
    hidden = len(found.config_diff) - len(told)
    note = f"{hidden} more settings, of parts that only some kinds of these systems have, are in --json"
    rows = ((one.field, *(_short(value) for value in one.values)) for one in told)
    return Table("what differs", ("field", *names.values()), tuple(rows), (note,) if hidden else ())


def _named(system: str, names: dict[str, str]) -> str:
    """Return the letter of a system with its label, of a long one the beginning: the first table has all of it."""
    return f"{names[system]}  {system if len(system) <= _LABEL else system[: _LABEL - 1] + '…'}"


def _short(value: str | None) -> str:
    if value is None:
        return "—"
    is_digest = len(value) >= _HEX and all(sign in "0123456789abcdef" for sign in value)
    most = _DIGEST if is_digest else _VALUE
    return value if len(value) <= most else f"{value[: most - 1]}…"


def _curve(one: DatasetComparison, names: dict[str, str]) -> Table:
    rows = (
        (
            _named(score.system, names),
            figure(score.mean),
            _span(score.interval, ".4f"),
            figure(score.terms, ".1f"),
            figure(score.query_terms, ".1f"),
            figure(score.flops, ".3g"),
        )
        for score in one.scores
    )
    header = ("system", one.measure, "95 %", "terms", "query terms", "FLOPS")
    return Table(f"{one.dataset}, {one.queries} queries", header, tuple(rows))


def _effects(found: Comparison, names: dict[str, str]) -> Iterator[Table]:
    """Yield the tests: a row a system where there is one dataset, else for each system a row a dataset and then the means."""
    tail = (
        "difference",
        "95 %",
        "p",
        "better/equal\n/worse",
        "detectable",
        *(("bound", "no worse") if found.margin is not None else ()),
    )
    if len(found.datasets) == 1:
        only = found.datasets[0]
        first, *others = only.scores
        blank = ("",) * len(tail)
        rows = [(_named(first.system, names), figure(first.mean), *blank)]
        for score, one in zip(others, only.differences, strict=True):
            rows.append((_named(score.system, names), figure(score.mean), *_cells(one)))
        yield Table(f"{only.dataset}, {only.measure}, {only.queries} queries", ("system", "mean", *tail), tuple(rows))
        return
    for at, system in enumerate(found.systems[1:], start=1):
        rows = [
            (_place(one, found), figure(one.scores[0].mean), figure(one.scores[at].mean), *_cells(one.differences[at - 1]))
            for one in found.datasets
        ]
        for macro in found.means:
            own = macro.differences[at - 1]
            means = (figure(macro.means[found.systems[0]]), figure(macro.means[system]))
            difference = (figure(own.difference, _SIGNED), _span(own.interval, "+.3f"))
            rows.append((macro.aggregate, *means, *difference, *("",) * (len(tail) - len(difference))))
        yield Table(f"{_named(system, names)}{_measure(found)}", ("dataset", "A", names[system], *tail), tuple(rows))


def _measure(found: Comparison) -> str:
    """Return the measure as part of a title, where all datasets have the same; else it stands beside each dataset."""
    measures = {one.measure for one in found.datasets}
    return f", {measures.pop()}" if len(measures) == 1 else ""


def _place(one: DatasetComparison, found: Comparison) -> str:
    return one.dataset if _measure(found) else f"{one.dataset} {one.measure}"


def _cells(one: Difference) -> tuple[str, ...]:
    counts = f"{one.wins}/{one.ties}/{one.losses}"
    cells = (
        figure(one.difference, _SIGNED),
        _span(one.interval, "+.3f"),
        figure(one.corrected),
        counts,
        figure(one.detectable),
    )
    return (
        cells if one.no_worse is None else (*cells, figure(one.no_worse.bound, _SIGNED), "yes" if one.no_worse.holds else "no")
    )


def _span(interval: Sequence[float], form: str) -> str:
    return f"[{interval[0]:{form}}, {interval[1]:{form}}]"


def _legend(found: Comparison) -> Iterator[str]:
    family = sum(len(one.differences) for one in found.datasets)
    yield (
        "95 %: paired bootstrap over queries; p: paired randomisation test, by Holm over "
        f"{family} comparison{'s' * (family > 1)}, {found.resamples:,} resamples"
    )
    yield "detectable: the least difference that one such test finds with power .8"
    if found.means:
        yield "means over datasets: the bootstrap is stratified by dataset"
    if found.margin is not None:
        yield f"no worse: the difference is above -{found.margin:g} with 95 % confidence (one-sided bootstrap bound)"


def _verdicts(found: Comparison, names: dict[str, str]) -> Iterator[str]:
    """Yield a line for each system: on how many of several datasets it is better or worse, and with a margin no worse."""
    if len(found.datasets) == 1:
        return
    for at, system in enumerate(found.systems[1:]):
        own = [one.differences[at] for one in found.datasets]
        sure = [one for one in own if one.corrected < LEVEL]
        better = sum(one.difference > 0 for one in sure)
        counts = f"better than A on {better}, worse on {len(sure) - better}, undecided on {len(own) - len(sure)}"
        line = f"{names[system]}: {counts} of {len(own)} datasets"
        if found.margin is not None:
            holds = [one.no_worse is not None and one.no_worse.holds for one in own]
            line += f"; {no_worse(found.margin, holds)}"
        yield line


def no_worse(margin: float, holds: Sequence[bool]) -> str:
    """Say on how many datasets a system was shown to be no worse by more than *margin*: `no worse than .005 on 11 of 12`.

    Each dataset is tested by itself: the count is not corrected for how many there are. That all hold needs no correction.
    """
    return f"no worse than {f'{margin:g}'.removeprefix('0')} on {sum(holds)} of {len(holds)}"


def _changes(found: Comparison, names: dict[str, str]) -> Iterator[Table]:
    """Yield for each system the queries that changed most, and below them the documents and terms that did it."""
    several = len(found.datasets) > 1
    for system in found.systems[1:]:
        own = [one for one in found.query_changes if one.system == system]
        if own:
            rows = (_row(one, several=several) for one in own)
            notes = tuple(dict.fromkeys(line for one in own for line in _why(one, names[system])))
            header = ("query", "A", names[system], "document", "rank")
            shown = len(header) if any(one.moved for one in own) else len(header) - 2
            title = f"{_named(system, names)}: the queries that changed most"
            yield Table(title, header[:shown], tuple(row[:shown] for row in rows), notes)


def _row(one: QueryChange, *, several: bool) -> tuple[str, ...]:
    text = " ".join((one.text or "").split())
    text = text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"
    query = f"{one.dataset} {one.query}" if several else one.query
    place = ("", "")
    if one.moved:
        ranks = (str(rank or "—") for rank in (one.moved.baseline_rank, one.moved.rank))
        place = (_short(one.moved.document), " → ".join(ranks))
    return (f"{query}: {text}" if text else query, figure(one.baseline_value), figure(one.value), *place)


def _why(one: QueryChange, name: str) -> Iterator[str]:
    """Yield a line of terms, and one for each system of which they are not known."""
    if one.text is None:
        yield f"{one.dataset} is not on this machine: queries are shown by their ids"
    elif one.moved is None:
        yield "no document is named where a run is not in the store, as of results in files, or where no relevant one moved"
    else:
        if one.moved.terms:
            yield f"{one.query}, {one.moved.document}: {', '.join(_term(term, name) for term in one.moved.terms)}"
        yield from (f"terms of {line}" for line in one.moved.unavailable)


def _term(term: TermChange, name: str) -> str:
    values = {"A": term.baseline, name: term.system}
    known = [f"{system} {value:g}" for system, value in values.items() if value is not None]
    return f"{term.token} {' '.join(known)}"
