"""Systems against a baseline, from their results: the one function behind `lexbench compare`."""

from collections.abc import Iterable, Sequence

from lexbench import suites
from lexbench.analysis.comparison import effects
from lexbench.analysis.comparison.config_diff import differing
from lexbench.analysis.comparison.model import Comparison
from lexbench.analysis.comparison.per_query import Pair, most_changed
from lexbench.analysis.comparison.selection import Side, sides
from lexbench.analysis.comparison.terms import Opener
from lexbench.analysis.significance.corrections import resamples_for
from lexbench.errors import CannotStart, CommandError
from lexbench.measures import with_threshold
from lexbench.results import BOUND
from lexbench.runner.jobs import Kept
from lexbench.runner.plan import HEADLINE
from lexbench.storage.store import Store

_FEWEST = 2
_TOLD = 16  # digits of a digest in a message


def compare(
    given: Sequence[str],
    *,
    store: Store,
    datasets: Sequence[str] = (),
    measure: str | None = None,
    margin: float | None = None,
    queries: int = 5,
) -> Comparison:
    """Compare the systems that *given* names (labels of the store, result files, folders) with the first of them.

    On the *datasets* that all have results of (default: all such), by *measure* (default: the headline of the dataset's suite).
    With *margin*, also whether each is no worse by more than it. *queries* is how many of the most changed are looked at.
    CannotStart where results are not of the same data under the same contract: they are no comparison.
    """
    found = sides(given, store)
    if len(found) < _FEWEST:
        raise CommandError(f"a comparison takes two systems or more; there is {found[0].label}")
    labels = [side.label for side in found]
    chosen = {name: _chosen(found, name, measure_of(name, measure)) for name in _common(found, datasets)}
    for name, kept in chosen.items():
        _check(name, labels, kept)
    measures = {name: measure_of(name, measure) for name in chosen}
    by_label = {name: dict(zip(labels, (one.result for one in kept), strict=True)) for name, kept in chosen.items()}
    resamples = resamples_for((len(found) - 1) * len(chosen), effects.LEVEL)
    each = effects.corrected([effects.on_dataset(by_label[name], measures[name], margin, resamples) for name in chosen])
    values = {name: effects.values_of(by_label[name], measures[name]) for name in chosen}
    opener = Opener(store)
    changed = [
        one
        for at, label in enumerate(labels[1:], start=1)
        for one in most_changed(
            [Pair(label, measures[name], kept[0], kept[at]) for name, kept in chosen.items()], queries, opener
        )
    ]
    return Comparison(
        systems=labels,
        differing=differing([[kept[at].result for kept in chosen.values()] for at in range(len(labels))]),
        datasets=each,
        macros=list(effects.macros(each, values)),
        changed=changed,
        resamples=resamples,
        margin=margin,
        worse=[f"{one.system} on {on.dataset}" for on in each for one in on.differences if effects.worse(one)],
        notes=[*_left_out(found, chosen), *_bounds(labels, chosen.values())],
    )


def measure_of(dataset: str, measure: str | None) -> str:
    """Return the measure to compare by, with the contract's threshold: *measure*, else the headline of the dataset's suite."""
    homes = (suites.suite(name) for name in suites.suite_names())
    headline = measure or next((home.headline for home in homes if dataset in home.datasets), HEADLINE)
    contract = suites.contracts().get(dataset)
    return with_threshold(headline, contract) if contract else headline


def _common(found: Sequence[Side], datasets: Sequence[str]) -> list[str]:
    """Return the datasets that all systems have results of, or those of them that are named."""
    common = [name for name in sorted(found[0].kept) if all(name in side.kept for side in found)]
    for name in datasets:
        lacking = next((side for side in found if name not in side.kept), None)
        if lacking:
            there = ", ".join(sorted(lacking.kept))
            raise CannotStart(
                f"{lacking.label} has no result on {name}; it has: {there}; make one: lexbench run dataset {name}"
            )
    if not common:
        each = "; ".join(f"{side.label} on {', '.join(sorted(side.kept))}" for side in found)
        raise CannotStart(f"no dataset has results of all systems: {each}; make them: lexbench run suite")
    return [name for name in common if not datasets or name in datasets]


def _chosen(found: Sequence[Side], dataset: str, measure: str) -> list[Kept]:
    """Return the result of each system."""
    kept = [(side, side.with_measure(dataset, measure)) for side in found]
    for side, one in kept:
        if one is None:
            there = ", ".join(side.kept[dataset][0].result.per_query)
            raise CannotStart(f"{side.label} on {dataset} has no {measure}; it has: {there}; choose by -m, or run it again")
    return [one for _, one in kept if one]


def _check(dataset: str, labels: Sequence[str], kept: Sequence[Kept]) -> None:
    """Raise CannotStart where results on *dataset* are not of the same queries, judgements, corpus and rules."""
    first = kept[0].result
    for label, one in zip(labels[1:], kept[1:], strict=True):
        pairs = {"contract": (first.contract, one.result.contract)} | {
            name: (first.digests[name], value) for name, value in one.result.digests.items() if name in first.digests
        }
        for what, (ours, theirs) in pairs.items():
            if ours != theirs:
                raise CannotStart(
                    f"{labels[0]} and {label} are not on the same {dataset}: {what} {ours[:_TOLD]} and {theirs[:_TOLD]}; "
                    "run both again, or leave it out: name the others by -d"
                )
        if first.query_ids != one.result.query_ids:
            raise CannotStart(f"{labels[0]} and {label} were scored on different queries of {dataset}; run both again")


def _left_out(found: Sequence[Side], chosen: Iterable[str]) -> list[str]:
    every = sorted({name for side in found for name in side.kept} - set(chosen))
    lacking = {name: [side.label for side in found if name not in side.kept] for name in every}
    return [
        f"{name} is left out: there is no result on it of {labels[0]}" + (f" and {len(labels) - 1} more" if labels[1:] else "")
        for name, labels in lacking.items()
        if labels
    ]


def _bounds(labels: Sequence[str], chosen: Iterable[Sequence[Kept]]) -> list[str]:
    """Return a line for each result that is an upper bound and no result."""
    return [
        f"{label} on {one.result.dataset}: {note}"
        for kept in chosen
        for label, one in zip(labels, kept, strict=True)
        for note in one.result.notes
        if note.startswith(BOUND)
    ]
