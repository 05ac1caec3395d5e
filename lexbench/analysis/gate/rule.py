"""Decide whether a system is worse than its baseline: pass, fail or cannot tell.

A gate fails if the mean fell by more than the margin and a one-sided paired randomisation test calls the fall significant. If
the mean fell by more than the margin and the test does not, the gate cannot tell. Anything else passes.

The level of the test is (1 - confidence) / (commits x gates). By the union bound, a history of so many commits without a real
change fails with probability 1 - confidence at most, whether or not the commits are independent. Systems that return the same
lists as the baseline pass without a test.
"""

from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.significance import bootstrap, noninferiority, randomisation

Verdict = Literal["pass", "fail", "cannot tell"]
COMMITS, CONFIDENCE, MARGIN = 100, 0.95, 0.02


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of a system beside those of its baseline, and the verdict."""

    verdict: Verdict
    queries: int
    before: float  # mean of the baseline
    after: float
    interval: tuple[float, float]  # 95 % of the difference, paired bootstrap over queries
    margin: float
    p: float  # one-sided: that the system is not worse; 1 if no query differs
    level: float  # p must be at most this to fail
    shown: bool  # whether the loss is shown to be below the margin, with the confidence of the gate
    needed: int | None = None  # queries that would probably tell (power .8), if the gate cannot tell
    better: int  # queries
    worse: int

    @property
    def difference(self) -> float:
        """The change of the mean; negative is worse."""
        return self.after - self.before


def worst(verdicts: list[Verdict]) -> Verdict:
    """Return the verdict over several: fail before cannot tell before pass."""
    order: tuple[Verdict, ...] = ("fail", "cannot tell", "pass")
    return next((verdict for verdict in order if verdict in verdicts), "pass")


def judge(
    before: NDArray[np.float64], after: NDArray[np.float64], margin: float = MARGIN, *, confidence: float = CONFIDENCE,
    tests: int = COMMITS,
) -> Quality:  # fmt: skip
    """Compare the values (queries,) of a system with those of its baseline, both from 0 to 1.

    *tests* is the number of tests that share the chance of a false alarm: commits x gates.
    """
    differences = after - before
    level = (1 - confidence) / tests
    fell = bool(-differences.mean() > margin)
    p, shown = 1.0, True
    if differences.any():
        resamples = randomisation.resamples_for(tests, 1 - confidence)
        two_sided = randomisation.p_value(differences, resamples=resamples)
        p = two_sided / 2 if differences.mean() < 0 else 1 - two_sided / 2  # the test is symmetric
        shown = noninferiority.noninferiority(np.clip(differences, -1, 1), margin, level=1 - confidence).holds
    verdict: Verdict = "pass" if not fell else "fail" if p <= level else "cannot tell"
    needed = None
    if verdict == "cannot tell" and len(differences) > 1:
        needed = randomisation.queries_needed(differences, float(-differences.mean()), level=2 * level)
    return Quality(
        verdict=verdict,
        queries=len(before),
        before=float(before.mean()),
        after=float(after.mean()),
        interval=bootstrap.interval(differences),
        margin=margin,
        p=p,
        level=level,
        shown=shown,
        needed=needed,
        better=int((differences > 0).sum()),
        worse=int((differences < 0).sum()),
    )
