"""The verdict on each measured mean that has a published figure; a figure of another measure is never taken for one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lexbench import measures
from lexbench.analysis.verification.figures import Figure
from lexbench.analysis.verification.matching import is_of
from lexbench.results import Result

_RECALLS = ("R", "RCap", "Success")  # what papers call recall
_VERSIONS = (("msmarco-passage-titled/", "msmarco-passage/"), ("beir/webis-touche2020/v2", "beir/webis-touche2020"))


class Verdict(StrEnum):
    """What a comparison says."""

    OK = "ok"
    OFF = "off"
    QUOTED = "quoted"  # differs from a figure that its source copied: nothing follows from it
    PROTOCOL = "other rules"  # the figure was made under other rules, or it is not known under which


@dataclass(frozen=True)
class Check:
    """One measured mean beside figures that say the same."""

    result: Result
    measure: str
    figures: tuple[Figure, ...]  # of one value; the first is the one that is shown
    verdict: Verdict

    @property
    def measured(self) -> float:
        """The measured mean."""
        return self.result.means[self.measure]

    @property
    def difference(self) -> float:
        """Measured minus published."""
        return self.measured - self.figures[0].value

    @property
    def reason(self) -> str:
        """Why the verdict is neither ok nor off; "" otherwise."""
        reasons = {Verdict.QUOTED: self.figures[0].quoted, Verdict.PROTOCOL: self.figures[0].differs}
        return reasons.get(self.verdict, "")


@dataclass(frozen=True)
class Unmatched:
    """A measured mean without a published figure."""

    result: Result
    measure: str
    near: tuple[Figure, ...] = ()  # of the same system, of what is like it and is not the same

    @property
    def mistakable(self) -> bool:
        """Whether what there is instead has the same name: another threshold, or another version of the dataset."""
        return bool(self.near) and _name(self.near[0].measure) == _name(self.measure)

    @property
    def reason(self) -> str:
        """What there is instead, and why that was not compared."""
        if not self.near:
            return ""
        found = self.near[0]
        what = "another measure" if found.measure != self.measure else "another version of the dataset"
        return f"{found.measure} {found.printed} on {found.dataset} ({found.source.name}) is of {what}"


@dataclass(frozen=True)
class Verification:
    """What was compared, and what could not be."""

    checks: tuple[Check, ...]
    unmatched: tuple[Unmatched, ...]

    @property
    def off(self) -> tuple[Check, ...]:
        """The checks whose verdict is off."""
        return tuple(check for check in self.checks if check.verdict is Verdict.OFF)

    @property
    def holds(self) -> bool:
        """Whether something was compared and nothing is off."""
        return not self.off and any(check.verdict is Verdict.OK for check in self.checks)


def verify(results: Sequence[Result], figures: Sequence[Figure], given: Mapping[str, str] | None = None) -> Verification:
    """Compare each of *results* with the *figures* of its system, dataset and measure.

    *given* says by label of which published system a result is, where its label and settings do not: {LABEL: "minilm"}.
    """
    given = given or {}
    systems = dict.fromkeys(figure.system for figure in figures if figure.system)
    checks: list[Check] = []
    unmatched: list[Unmatched] = []
    for result in results:
        name = given.get(result.system)
        fitting = {one for one in systems if is_of(result, one)} if name is None else {name}
        own = [figure for figure in figures if figure.system in fitting or (name is not None and figure.called == name)]
        for measure in result.means:
            same = [figure for figure in own if (figure.dataset, figure.measure) == (result.dataset, measure)]
            checks += _checks(result, measure, same)
            if not same:
                unmatched.append(Unmatched(result, measure, tuple(one for one in own if _near(one, result.dataset, measure))))
    return Verification(tuple(checks), tuple(unmatched))


def _checks(result: Result, measure: str, figures: Iterable[Figure]) -> list[Check]:
    """Return one check for each value that was published, the sources that agree on it together."""
    groups: dict[tuple[str, Verdict], list[Figure]] = {}
    for figure in figures:
        groups.setdefault((figure.printed, _verdict(result.means[measure], figure)), []).append(figure)
    return [Check(result, measure, tuple(agreed), verdict) for (_, verdict), agreed in groups.items()]


def _verdict(measured: float, figure: Figure) -> Verdict:
    if figure.differs:
        return Verdict.PROTOCOL
    if abs(measured - figure.value) <= figure.tolerance:
        return Verdict.OK
    return Verdict.QUOTED if figure.quoted else Verdict.OFF


def _near(figure: Figure, dataset: str, measure: str) -> bool:
    """Whether a figure could be mistaken for one of *measure* on *dataset*."""
    if figure.measure == measure:
        return figure.dataset in _twins(dataset)
    return figure.dataset == dataset and _kind(figure.measure) == _kind(measure)


def _twins(dataset: str) -> set[str]:
    """Return the ids of the dataset's other versions: with titles or without, with the first judgements or the second."""
    swapped = {
        dataset.replace(one, other) if dataset.startswith(one) else dataset.replace(other, one) for one, other in _VERSIONS
    }
    return swapped - {dataset}


def _kind(measure: str) -> tuple[str, int | None]:
    """Return what a measure is like: its name, all recalls alike, and its cutoff; the threshold does not count."""
    name = _name(measure)
    return ("recall" if name in _RECALLS else name), getattr(measures.parse(measure), "cutoff", None)


def _name(measure: str) -> str:
    return measure.partition("(")[0].partition("@")[0]
