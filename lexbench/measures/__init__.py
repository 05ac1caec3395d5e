"""Measures as values whose text is their identity: `nDCG@10`, `RR(rel=2)@10`, `RCap@1000`.

Each measure is a file with a frozen dataclass that inherits from `Measure` and has `per_query`. ir-measures computes all
other measures. Other packages use the names below and none of the modules.
"""

from lexbench.measures._external import External
from lexbench.measures._functions import MARK, function_keys, function_text
from lexbench.measures._notation import cutoff, parse, parse_native, with_threshold
from lexbench.measures._scores import incomplete_report, score, tie_report
from lexbench.plugins import Measure
from lexbench.trec.judged_run import DocumentTokens, JudgedRun

__all__ = [
    "MARK",
    "DocumentTokens",
    "External",
    "JudgedRun",
    "Measure",
    "cutoff",
    "function_keys",
    "function_text",
    "incomplete_report",
    "parse",
    "parse_native",
    "score",
    "tie_report",
    "with_threshold",
]  # fmt: skip
