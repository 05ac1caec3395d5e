"""Scoring: a run, the judgements and measures in, one value a query and measure out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.measures._judged_run import join
from lexbench.measures._measure import Measure
from lexbench.measures._notation import AnyMeasure, External, parse
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run


@dataclass(frozen=True, eq=False)
class Scores:
    """What *score* found. Means are over the queries of the qrels; one that the run does not have scores 0."""

    query_ids: tuple[str, ...]  # of the qrels, sorted
    values: Mapping[str, NDArray[np.float64]]  # by the measure's text, (queries,)
    means: dict[str, float]  # by the measure's text
    missing: int  # queries without a single document in the run
    unjudged: int  # queries of the run that have no judgement and are left out
    judged: int  # judged documents found, as deep as our measures look


def score(run: Run, qrels: Qrels, measures: Iterable[str | AnyMeasure]) -> Scores:
    """Score *run* with *measures*, given as text (`nDCG@10`) or as values; the result keeps their order.

    Ours are computed from one join of run and judgements. The others go to ir-measures, on scores without ties.
    LexbenchError where there are no judgements.
    """
    if not len(qrels):
        raise LexbenchError("there are no judgements to score with")
    wanted = {str(one): one for one in (parse(one) if isinstance(one, str) else one for one in measures)}
    ours = {name: one for name, one in wanted.items() if not isinstance(one, External)}
    judged = join(run, qrels, depth(ours.values()))
    values = {name: measure.per_query(judged) for name, measure in ours.items()}
    means = {name: float(value.mean()) for name, value in values.items()}
    if others := [one for one in wanted.values() if isinstance(one, External)]:
        from lexbench.measures import _provider  # ir_measures is imported when it is needed

        for name, found in _provider.calc(others, run, qrels).items():
            values[name], means[name] = found
    return Scores(
        query_ids=qrels.query_ids,
        values={name: values[name] for name in wanted},
        means={name: means[name] for name in wanted},
        missing=int(np.count_nonzero(judged.retrieved == 0)),
        unjudged=len(set(run.query_ids) - set(qrels.query_ids)),
        judged=len(judged.rank),
    )


def depth(measures: Iterable[Measure]) -> int | None:
    """Return how deep *measures* look into the lists; None is to the end."""
    cutoffs = [measure.cutoff for measure in measures]
    return None if None in cutoffs else max((cutoff for cutoff in cutoffs if cutoff is not None), default=0)
