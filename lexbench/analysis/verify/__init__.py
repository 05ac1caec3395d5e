"""The work behind `lexbench verify`: measured scores against published ones of the same system, dataset and measure.

Others take from here what `__all__` names, and from `published` the files of `suites/expected`.
"""

from lexbench.analysis.verify.diagnosis import Cause, causes, diagnose
from lexbench.analysis.verify.matching import is_of
from lexbench.analysis.verify.published import PublishedScore, published_scores
from lexbench.analysis.verify.verdicts import Check, Unmatched, Verdict, Verification, measured, systems_by_label, verify

__all__ = [
    "Cause",
    "Check",
    "PublishedScore",
    "Unmatched",
    "Verdict",
    "Verification",
    "causes",
    "diagnose",
    "is_of",
    "measured",
    "published_scores",
    "systems_by_label",
    "verify",
]
