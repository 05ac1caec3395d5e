"""The two ways between us and ir_measures: its measures for our runs, and our kernels as one of its providers.

Importing this module imports ir_measures and makes known to it the measure `RCap` and the provider `lexbench`:

    ir_measures.providers.registry["lexbench"].calc([nDCG @ 10, RR @ 10], qrels, run)

Its default pipeline asks us last, for what no other provider computes (`RCap`), so nobody's numbers change.
"""

import ast
import logging
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CannotStart, LexbenchError, NotationError
from lexbench.measures._notation import External, own
from lexbench.measures._scores import score
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run, strictly_decreasing
from lexbench.types import Judgement


def _import_quietly() -> Any:
    """Import ir_measures without the logging handler that it installs; an application decides where its log goes."""
    logger = logging.getLogger("ir_measures")
    handlers = list(logger.handlers)
    module = import_module("ir_measures")
    logger.handlers[:] = handlers
    return module


ir_measures: Any = _import_quietly()


class _RCap(ir_measures.measures.Measure):  # type: ignore[misc]  # ir_measures is untyped
    """Capped recall; see `lexbench.measures.rcap`."""

    NAME = __name__ = "RCap"
    PRETTY_NAME = "Capped recall at k"
    SHORT_DESC = "The relevant documents in the top k, as a share of the smaller of k and all relevant documents."
    SUPPORTED_PARAMS = ir_measures.measures._R.SUPPORTED_PARAMS  # noqa: SLF001 - exported by ir_measures.measures for providers


class _Provider(ir_measures.Provider):  # type: ignore[misc]  # ir_measures is untyped
    """Our kernels, for users of ir_measures. Ties of score are broken as trec_eval breaks them."""

    NAME = "lexbench"

    def supports(self, measure: Any) -> bool:
        measure.validate_params()
        try:
            return own(repr(measure)) is not None
        except LexbenchError:
            return False

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> Any:
        return _Evaluator(list(measures), qrels)


class _Evaluator(ir_measures.Evaluator):  # type: ignore[misc]  # ir_measures is untyped
    def __init__(self, measures: Sequence[Any], qrels: Any) -> None:
        rows = ir_measures.util.QrelsConverter(qrels).as_namedtuple_iter()
        self._qrels = Qrels.from_judgements(Judgement(row.query_id, row.doc_id, row.relevance) for row in rows)
        super().__init__(measures, set(self._qrels.query_ids))

    def _iter_calc(self, run: Any) -> Iterator[Any]:
        rows = list(ir_measures.util.RunConverter(run).as_namedtuple_iter())
        entries = Run.from_entries([r.query_id for r in rows], [r.doc_id for r in rows], [r.score for r in rows])
        if not self._qrels.query_ids:
            return
        ours = {measure: own(repr(measure)) for measure in self.measures}
        scores = score(entries, self._qrels, [measure for measure in ours.values() if measure is not None])
        for measure, values in zip(ours, scores.values.values(), strict=True):
            for query_id, value in zip(self._qrels.query_ids, values.tolist(), strict=True):
                yield ir_measures.Metric(query_id=query_id, measure=measure, value=value)


if "RCap" not in ir_measures.measures.registry:  # it is, where this module is imported a second time
    ir_measures.measures.register(_RCap())
    ir_measures.DefaultPipeline.providers.append(ir_measures.providers.register(_Provider()))


class ExternalScores(NamedTuple):
    """What ir-measures computed for one measure."""

    values: NDArray[np.float64]  # (queries,) in the order of the qrels
    mean: float  # or what else the measure makes of its values: counts are summed


def check(measure: External, text: str) -> None:
    """Raise NotationError where ir_measures refuses the settings, CannotStart where no installed package computes it."""
    made = _made(measure)
    if missing := [name for name, kind in made.SUPPORTED_PARAMS.items() if kind.required and name not in made.params]:
        raise NotationError(f"measure {text!r} needs {' and '.join(missing)}")
    try:
        made.validate_params()
    except AssertionError as error:
        raise NotationError(f"measure {text!r}: {error}") from None
    providers = [one for one in ir_measures.DefaultPipeline.providers if one.supports(made)]
    if not any(one.is_available() for one in providers):
        ways = " or ".join(filter(None, (one.install_instructions() for one in providers)))
        raise CannotStart(f"nothing that is installed computes {text}" + (f"; type: {ways}" if ways else ""))


def calc(measures: Sequence[External], run: Run, qrels: Qrels) -> dict[str, ExternalScores]:
    """Let ir-measures compute *measures*, by text, on scores without ties: its providers break them in different ways."""
    scores, judged = strictly_decreasing(run), set(qrels.query_ids)
    ranked: dict[str, dict[str, float]] = {}
    for query_id, start, stop in zip(run.query_ids, run.offsets[:-1].tolist(), run.offsets[1:].tolist(), strict=True):
        if query_id in judged and stop > start:
            ids = (one.decode() for one in run.table[run.docs[start:stop]].tolist())
            ranked[query_id] = dict(zip(ids, scores[start:stop].tolist(), strict=True))
    grades: dict[str, dict[str, int]] = {query_id: {} for query_id in qrels.query_ids}
    best = dict(zip(qrels.query_ids, np.maximum.reduceat(qrels.grades, qrels.offsets[:-1]).tolist(), strict=True))
    for query_id, doc_id, grade in qrels.judgements():
        # pytrec_eval 0.5 overruns its memory, and hangs or dies, where no grade of a query is 0 or better.
        grades[query_id][doc_id] = grade if best[query_id] >= 0 else 0
    made = {_made(measure): str(measure) for measure in measures}
    found: dict[str, dict[str, float]] = {name: {} for name in made.values()}
    for metric in ir_measures.iter_calc(list(made), grades, ranked):
        found[made[metric.measure]][metric.query_id] = metric.value
    return {name: _gathered(measure, found[name], qrels) for measure, name in made.items()}


def _gathered(measure: Any, found: dict[str, float], qrels: Qrels) -> ExternalScores:
    values = np.array([found.get(query_id, measure.DEFAULT) for query_id in qrels.query_ids], dtype=np.float64)
    total = measure.aggregator()
    for value in values.tolist():
        total.add(value)
    return ExternalScores(values, float(total.result()))


def _made(measure: External) -> Any:
    """Return ir_measures' object for *measure*."""
    kind = ir_measures.measures.registry[measure.name]
    given = {name: ast.literal_eval(value) for name, value in measure.settings}
    return kind(**given) if measure.at is None else kind(**given) @ ast.literal_eval(measure.at)
