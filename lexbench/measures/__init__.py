"""Measures as values whose text is their identity: `nDCG@10`, `RR(rel=2)@10`, `RCap@1000`.

Each measure is a file with a frozen dataclass that inherits from `Measure` and has `per_query`. ir-measures computes all
other measures. Other packages use the names below and none of the modules.
"""

from lexbench.measures._external import External
from lexbench.measures._external import library as ir_measures_library
from lexbench.measures._notation import AnyMeasure, cutoff, known, parse, parse_native, with_threshold
from lexbench.measures._scores import Scores, incomplete_report, score, tie_report, untied
from lexbench.plugins import Measure
from lexbench.trec.judged_run import JudgedRun, join, ratio

__all__ = [
    "AnyMeasure", "External", "JudgedRun", "Measure", "Scores", "cutoff", "incomplete_report", "ir_measures_library", "join",
    "known", "parse", "parse_native", "ratio", "score", "tie_report", "untied", "with_threshold",
]  # fmt: skip
