"""The statistics of a comparison: intervals, paired tests, Holm over all of them, and margins."""

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench import suites
from lexbench.analysis.comparison.model import Difference, Macro, MacroDifference, NoWorse, OnDataset, Score
from lexbench.analysis.significance import bootstrap, corrections, noninferiority, power, randomisation
from lexbench.results import Result

LEVEL = 0.05  # of all tests

Values = Mapping[str, NDArray[np.float64]]  # (queries,) by system, the baseline first


def on_dataset(found: Mapping[str, Result], measure: str, margin: float | None, resamples: int) -> OnDataset:
    """Return how systems do on one dataset, given their results by label, the baseline first; p is not corrected yet.

    *resamples* are those of the tests.
    """
    values = values_of(found, measure)
    baseline, *others = values
    spans = bootstrap.intervals(np.array(list(values.values())))
    first = found[baseline]
    return OnDataset(
        dataset=first.dataset,
        contract=first.contract,
        measure=measure,
        queries=len(first.query_ids),
        scores=[_score(name, found[name], measure, span) for name, span in zip(values, spans.tolist(), strict=True)],
        differences=[_difference(name, values[name] - values[baseline], margin, resamples) for name in others],
    )


def values_of(found: Mapping[str, Result], measure: str) -> dict[str, NDArray[np.float64]]:
    """Return the values of *measure* by system, in the order of the queries."""
    return {name: np.array(result.per_query[measure], dtype=np.float64) for name, result in found.items()}


def _score(name: str, result: Result, measure: str, span: Sequence[float]) -> Score:
    return Score(
        system=name,
        mean=result.means[measure],
        interval=(span[0], span[1]),
        terms=result.vectors.terms.get("mean") if result.vectors else None,
        query_terms=result.work.query_terms.get("mean") if result.work else None,
        flops=result.work.flops if result.work else None,
    )


def _difference(name: str, differences: NDArray[np.float64], margin: float | None, resamples: int) -> Difference:
    p = randomisation.p_value(differences, resamples=resamples)
    detectable = power.minimum_detectable(differences, level=LEVEL)
    shown = None if margin is None else noninferiority.test(differences, margin, level=LEVEL)
    return Difference(
        system=name,
        difference=float(differences.mean()),
        interval=bootstrap.interval(differences),
        p=p,
        corrected=p,
        wins=int((differences > 0).sum()),
        ties=int((differences == 0).sum()),
        losses=int((differences < 0).sum()),
        detectable=detectable if math.isfinite(detectable) else None,
        no_worse=NoWorse(bound=shown.bound, holds=shown.holds) if shown else None,
    )


def corrected(found: Sequence[OnDataset]) -> list[OnDataset]:
    """Return the same with p corrected by Holm: the family is every difference on every dataset."""
    ps = iter(corrections.holm([each.p for one in found for each in one.differences]))
    return [
        msgspec.structs.replace(
            one, differences=[msgspec.structs.replace(each, corrected=next(ps)) for each in one.differences]
        )
        for one in found
    ]


def worse(difference: Difference) -> bool:
    """Whether a system fails against the baseline: with a margin if it is not shown to be no worse, else if it is worse."""
    if difference.no_worse:
        return not difference.no_worse.holds
    return difference.difference < 0 and difference.corrected < LEVEL


def macros(found: Sequence[OnDataset], values: Mapping[str, Values]) -> Iterator[Macro]:
    """Yield every named mean of which all members were compared, by the measure that it is of; *values* are by dataset."""
    measures = {one.dataset: one.measure for one in found}
    named = {each.id: each for name in suites.suite_names() for each in suites.suite(name).aggregates}
    for aggregate in named.values():
        if any(measures.get(member) != aggregate.measure for member in aggregate.members):
            continue
        each = [values[member] for member in aggregate.members]
        baseline, *others = each[0]
        paired = {name: [one[name] - one[baseline] for one in each] for name in others}
        yield Macro(
            aggregate=aggregate.id,
            measure=aggregate.measure,
            means={name: float(np.mean([one[name].mean() for one in each])) for name in each[0]},
            differences=[
                MacroDifference(
                    system=name,
                    difference=float(np.mean([one.mean() for one in differences])),
                    interval=bootstrap.macro_interval(differences),
                )
                for name, differences in paired.items()
            ],
        )
