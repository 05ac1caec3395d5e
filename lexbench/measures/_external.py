"""Measures that ir-measures computes for our runs. The library is imported when the first of them is used.

Its logging handler is removed, because the application decides where a log goes.
"""

import ast
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CannotStart, LexbenchError, NotationError
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run


@dataclass(frozen=True)
class External:
    """A measure that a provider of ir-measures computes."""

    name: str
    settings: tuple[tuple[str, str], ...] = ()  # names and values as typed, sorted by name
    at: str | None = None  # the part after the @

    def __str__(self) -> str:
        """Return the text of the measure; `parse` reads it back to an equal one."""
        settings = ",".join(f"{name}={value}" for name, value in self.settings)
        return self.name + (f"({settings})" if settings else "") + (f"@{self.at}" if self.at is not None else "")


@cache
def library() -> Any:
    """Import and return ir_measures."""
    logger = logging.getLogger("ir_measures")
    handlers = list(logger.handlers)
    ir_measures = import_module("ir_measures")
    logger.handlers[:] = handlers
    return ir_measures


def names() -> set[str]:
    """Return the names of all measures of ir-measures."""
    return set(library().measures.registry)


def settings_of(name: str) -> list[str]:
    """Return the names of the settings of a measure of ir-measures; none if there is no such measure."""
    return list(library().measures.registry[name].SUPPORTED_PARAMS) if name in names() else []


def measure_of(text: str, name: str, settings: dict[str, Any], at: Any) -> External:
    """Return the measure *name* of ir-measures with *settings* and the part *at* after the @ (None: nothing).

    Error messages call it *text*. Raises NotationError if ir-measures refuses the settings, and CannotStart if no installed
    package computes the measure.
    """
    kind = library().measures.registry[name]
    values = {name: repr(value) for name, value in settings.items()}
    behind = values.pop(kind.AT_PARAM, None) if at is None else repr(at)
    measure = External(kind.NAME, tuple(sorted(values.items())), behind)
    theirs = _theirs(measure)
    if missing := [name for name, kind in theirs.SUPPORTED_PARAMS.items() if kind.required and name not in theirs.params]:
        raise NotationError(f"measure {text!r} needs {' and '.join(missing)}")
    try:
        theirs.validate_params()
    except AssertionError as error:
        raise NotationError(f"measure {text!r}: {error}") from None
    providers = [provider for provider in library().DefaultPipeline.providers if provider.supports(theirs)]
    if not any(provider.is_available() for provider in providers):
        ways = " or ".join(filter(None, (provider.install_instructions() for provider in providers)))
        raise CannotStart(f"no installed package computes {text}" + (f"; type: {ways}" if ways else ""))
    return measure


def ranked_and_judged(
    run: Run, qrels: Qrels, *, scores: bool = False
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int | float]]]:
    """Return the documents of each query in order, and all grades by query and document.

    Documents have their *scores*, or else n, n - 1, ..., 1, because libraries would break ties differently.
    """
    judged = set(qrels.query_ids)
    ranked: dict[str, dict[str, float]] = {}
    for query_id, entries in run.spans():
        if query_id in judged and (ids := run.doc_ids(entries)):
            values = run.scores[entries].tolist() if scores else range(len(ids), 0, -1)
            ranked[query_id] = dict(zip(ids, map(float, values), strict=True))
    grades: dict[str, dict[str, int | float]] = {query_id: {} for query_id in qrels.query_ids}
    for query_id, doc_id, grade in qrels.judgements():
        grades[query_id][doc_id] = grade
    return ranked, grades


def calc(measures: Sequence[External], run: Run, qrels: Qrels) -> dict[str, tuple[NDArray[np.float64], float]]:
    """Return by the text of each measure its values (queries,), in the order of *qrels*, and their mean or other aggregate."""
    ranked, grades = ranked_and_judged(run, qrels)
    for of_query in grades.values():
        if max(of_query.values()) < 0:  # pytrec_eval 0.5 hangs or crashes then
            of_query.update(dict.fromkeys(of_query, 0))
    numbers = {query_id: str(number) for number, query_id in enumerate(qrels.query_ids)}  # gdeval knows no other ids
    queries = dict(zip(numbers.values(), numbers, strict=True))
    ranked = {numbers[query_id]: of_query for query_id, of_query in ranked.items()}
    grades = {numbers[query_id]: of_query for query_id, of_query in grades.items()}
    texts = {_theirs(measure): str(measure) for measure in measures}
    values: dict[str, dict[str, float]] = {text: {} for text in texts.values()}
    try:
        for metric in library().iter_calc(list(texts), grades, ranked):
            values[texts[metric.measure]][queries[metric.query_id]] = metric.value
    except (
        Exception
    ) as error:  # any failure of another package becomes one line, e.g. Accuracy divides by no irrelevant document
        why = f"{type(error).__name__}: {error}"
        raise LexbenchError(f"ir-measures cannot compute {' or '.join(texts.values())} of these lists: {why}") from error
    return {text: _scores(measure, values[text], qrels) for measure, text in texts.items()}


def _scores(measure: Any, by_query: dict[str, float], qrels: Qrels) -> tuple[NDArray[np.float64], float]:
    """Return the values of all queries and their aggregate; *measure* is ir-measures' object."""
    values = np.array([by_query.get(query_id, measure.DEFAULT) for query_id in qrels.query_ids], dtype=np.float64)
    total = measure.aggregator()
    for value in values.tolist():
        total.add(value)
    return values, float(total.result())


def _theirs(measure: External) -> Any:
    """Return the object of ir-measures for *measure*."""
    kind = library().measures.registry[measure.name]
    settings = {name: ast.literal_eval(value) for name, value in measure.settings}
    return kind(**settings) if measure.at is None else kind(**settings) @ ast.literal_eval(measure.at)
