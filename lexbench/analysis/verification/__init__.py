"""Measured results against published figures of the same system, on the same dataset, with the same measure."""

from lexbench.analysis.verification.diagnosis import Cause, causes
from lexbench.analysis.verification.figures import Figure, published
from lexbench.analysis.verification.matching import is_of
from lexbench.analysis.verification.measured import measured, named
from lexbench.analysis.verification.verdicts import Check, Unmatched, Verdict, Verification, verify

__all__ = [
    "Cause",
    "Check",
    "Figure",
    "Unmatched",
    "Verdict",
    "Verification",
    "causes",
    "is_of",
    "measured",
    "named",
    "published",
    "verify",
]
