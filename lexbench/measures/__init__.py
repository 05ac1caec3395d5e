"""Measures as values whose text is their identity: `nDCG@10`, `RR(rel=2)@10`, `RCap@1000`.

One file adds one: a frozen dataclass that derives from `Notation` and has `per_query`. What we do not have, ir-measures
computes.
"""

from lexbench.measures._judged_run import JudgedRun, join, ratio
from lexbench.measures._measure import Measure, Notation
from lexbench.measures._notation import AnyMeasure, External, known, parse, with_threshold
from lexbench.measures._scores import Scores, score
from lexbench.measures._ties import tie_report

__all__ = [
    "AnyMeasure",
    "External",
    "JudgedRun",
    "Measure",
    "Notation",
    "Scores",
    "join",
    "known",
    "parse",
    "ratio",
    "score",
    "tie_report",
    "with_threshold",
]
