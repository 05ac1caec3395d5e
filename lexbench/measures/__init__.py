"""Measures as values whose text is their identity: `nDCG@10`, `RR(rel=2)@10`, `RCap@1000`.

One file adds one: a frozen dataclass that inherits from `Measure` and has `per_query`. What we do not have, ir-measures
computes. Other packages take what is named here, and no module of this package.
"""

from lexbench.measures._external import External
from lexbench.measures._external import library as ir_measures_library
from lexbench.measures._incomplete import incomplete_report
from lexbench.measures._notation import AnyMeasure, cutoff, known, parse, parse_native, with_threshold
from lexbench.measures._scores import Scores, score, tie_report, untied
from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun, join, ratio

__all__ = [
    "AnyMeasure",
    "External",
    "JudgedRun",
    "Measure",
    "Scores",
    "cutoff",
    "incomplete_report",
    "ir_measures_library",
    "join",
    "known",
    "parse",
    "parse_native",
    "ratio",
    "score",
    "tie_report",
    "untied",
    "with_threshold",
]
