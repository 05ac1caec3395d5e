"""The work behind `lexbench verify`: measured scores against published ones of the same system, dataset and measure.

`published` reads the published scores and matches systems, `verdicts` compares, `diagnosis` explains scores that are off, and
`tables` shows it all.
"""

from lexbench.analysis.verify.diagnosis import Cause, causes, diagnose
from lexbench.analysis.verify.published import PublishedScore, is_same_system, published_scores
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
    "is_same_system",
    "measured",
    "published_scores",
    "systems_by_label",
    "verify",
]
