"""Measures that are functions of the user, in Python: (the scores of a query's documents, their grades) -> a number.

Such a measure is called NAME#DIGEST, with the digest of its code, so two versions of a function are two measures. It is known
only in the process that was given the function.
"""

import hashlib
import marshal
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from types import FunctionType, MethodType
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError, NotationError, one_line
from lexbench.measures._external import External, ranked_and_judged
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run

MARK = "#"  # stands between the name of a function and the digest of its code
_DIGITS = 8
_given: dict[str, "Function"] = {}


@dataclass(frozen=True)
class Function(External):
    """A function as a measure."""

    function: Callable[[dict[str, float], dict[str, float]], float] = field(default=lambda *_: 0.0, compare=False)
    key: str = ""  # of this very function: it may call others whose code the digest does not cover


def function_text(function: Callable[..., Any]) -> str:
    """Return what the measure *function* is called from now on. Raises NotationError for anything else."""
    name = getattr(function, "__name__", type(function).__name__)
    if not isinstance(function, FunctionType | MethodType) or not name.isidentifier():
        raise NotationError(f"{name} is no text, and no function that Python code defines with a name; write it with def")
    code = marshal.dumps(function.__code__.replace(co_filename="", co_firstlineno=1))
    text = f"{name}{MARK}{hashlib.sha256(code).hexdigest()[:_DIGITS]}"
    if text not in _given or _given[text].function is not function:
        _given[text] = Function(text, function=function, key=uuid4().hex)
    return text


def function_named(text: str) -> Function:
    """Return the measure of a function. Raises NotationError if this process was not given it."""
    if text not in _given:
        name = text.partition(MARK)[0]
        raise NotationError(f"measure {text} is a function; give it in Python: lexbench.run(..., measures=[{name}])")
    return _given[text]


def function_keys(measures: Sequence[str]) -> dict[str, str]:
    """Return the keys of those of *measures* that are functions, for key facts."""
    return {text: function_named(text).key for text in measures if MARK in text}


def function_values(measures: Sequence[Function], run: Run, qrels: Qrels) -> dict[str, tuple[NDArray[np.float64], float]]:
    """Return by the text of each function its values for the queries of *qrels*, and their mean.

    A function gets the scores of the documents, in the order of the run, and the grades. Raises LexbenchError in one line.
    """
    ranked, grades = ranked_and_judged(run, qrels, scores=True)
    return {str(measure): _values(measure, ranked, grades) for measure in measures}


def _values(
    measure: Function, ranked: Mapping[str, dict[str, float]], grades: Mapping[str, dict[str, int | float]]
) -> tuple[NDArray[np.float64], float]:
    values = []
    for query_id, judged in grades.items():
        try:
            values.append(float(measure.function(dict(ranked.get(query_id, {})), dict(judged))))
        except Exception as error:  # any failure of the user's code becomes one line
            why = f"{type(error).__name__}: {one_line(str(error))}"
            raise LexbenchError(f"measure {measure.name} of query {query_id}: {why}") from error
        if not math.isfinite(values[-1]):
            raise LexbenchError(f"measure {measure.name} of query {query_id} is {values[-1]}; return a number")
    return np.array(values, np.float64), fmean(values)
