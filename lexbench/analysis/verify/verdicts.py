"""Choose the results to verify, and give a verdict on each mean with a published score of the same measure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from lexbench import measures
from lexbench.analysis.stored_results import StoredResult, chosen_systems, current_results
from lexbench.analysis.verify.published import PublishedScore, is_same_system
from lexbench.errors import CannotStart, CommandError
from lexbench.results import Result
from lexbench.runner.soundness import read_folder
from lexbench.storage.store import Store
from lexbench.suites import Suite

_RECALLS = ("R", "RCap", "Success")  # measures that papers call recall
_VERSIONS = (("msmarco-passage-titled/", "msmarco-passage/"), ("beir/webis-touche2020/v2", "beir/webis-touche2020"))


class Verdict(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    OFF = "off"
    SPREAD = "other figure"  # differs, but agrees with another score that its source measured itself
    QUOTED = "quoted"  # differs from a score that its source copied, which proves nothing
    PROTOCOL = "other rules"  # the published score was made under other or unknown rules


@dataclass(frozen=True)
class Check:
    """One measured mean beside published scores of one value."""

    result: Result
    measure: str
    published: tuple[PublishedScore, ...]  # the first is the one that is shown
    verdict: Verdict
    spread: tuple[str, str] = ("", "")  # the lowest and the highest published score of the same mean, as printed

    @property
    def measured(self) -> float:
        """The measured mean."""
        return self.result.means[self.measure]

    @property
    def difference(self) -> float:
        """Measured minus published."""
        return self.measured - self.published[0].value

    @property
    def reason(self) -> str:
        """Why the verdict is neither ok nor off; "" otherwise."""
        reasons = {
            Verdict.QUOTED: self.published[0].quoted,
            Verdict.PROTOCOL: self.published[0].differs,
            Verdict.SPREAD: f"published scores range from {self.spread[0]} to {self.spread[1]}, and it agrees with one of them",
        }
        return reasons.get(self.verdict, "")

    @property
    def tolerance(self) -> float:
        """How far the mean may be off."""
        return self.published[0].tolerance(self.result.counts.queries)


@dataclass(frozen=True)
class Unmatched:
    """A measured mean without a published score."""

    result: Result
    measure: str
    near: tuple[PublishedScore, ...] = ()  # scores of the same system that could be mistaken for it

    @property
    def mistakable(self) -> bool:
        """Whether a near score has the same name: another threshold, or another version of the dataset."""
        return bool(self.near) and _name(self.near[0].measure) == _name(self.measure)

    @property
    def reason(self) -> str:
        """Which near score there is, and why it was not compared; "" without one."""
        if not self.near:
            return ""
        score = self.near[0]
        what = "another measure" if score.measure != self.measure else "another version of the dataset"
        return f"{score.measure} {score.printed} on {score.dataset} ({score.source.name}) is {what}"


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


def verify(
    results: Sequence[Result], published: Sequence[PublishedScore], systems: Mapping[str, str] | None = None
) -> Verification:
    """Compare each of *results* with the *published* scores of its system, dataset and measure.

    *systems* names the published system of a result whose name and settings do not show it, e.g. {"my-model": "minilm"}.
    """
    systems = systems or {}
    names = dict.fromkeys(score.system for score in published if score.system)
    checks: list[Check] = []
    unmatched: list[Unmatched] = []
    for result in results:
        name = systems.get(result.system)
        fitting = {one for one in names if is_same_system(result, one)} if name is None else {name}
        scores = [score for score in published if score.system in fitting or (name is not None and score.called == name)]
        for measure in result.means:
            same = [score for score in scores if (score.dataset, score.measure) == (result.dataset, measure)]
            checks += _checks(result, measure, same)
            if not same:
                near = tuple(score for score in scores if _is_near(score, result.dataset, measure))
                unmatched.append(Unmatched(result, measure, near))
    return Verification(tuple(checks), tuple(unmatched))


def _checks(result: Result, measure: str, scores: Iterable[PublishedScore]) -> list[Check]:
    """Return one check per published value, with all sources that agree on it.

    If sources measured different values (e.g. with PyTorch and with ONNX), agreeing with one of them is enough.
    """
    groups: dict[tuple[str, Verdict], list[PublishedScore]] = {}
    for score in scores:
        groups.setdefault((score.printed, _verdict(result, measure, score)), []).append(score)
    by_source = [score for agreed in groups.values() for score in agreed if not (score.differs or score.quoted)]
    agrees = any(verdict is Verdict.OK and not agreed[0].quoted for (_, verdict), agreed in groups.items())
    ends = [end(by_source, key=lambda score: score.value).printed for end in (min, max)] if by_source else ["", ""]
    checks = (Check(result, measure, tuple(agreed), verdict, (ends[0], ends[1])) for (_, verdict), agreed in groups.items())
    return [replace(one, verdict=Verdict.SPREAD) if agrees and one.verdict is Verdict.OFF else one for one in checks]


def _verdict(result: Result, measure: str, score: PublishedScore) -> Verdict:
    if score.differs:
        return Verdict.PROTOCOL
    if abs(result.means[measure] - score.value) <= score.tolerance(result.counts.queries):
        return Verdict.OK
    return Verdict.QUOTED if score.quoted else Verdict.OFF


def _is_near(score: PublishedScore, dataset: str, measure: str) -> bool:
    """Whether a score could be mistaken for one of *measure* on *dataset*."""
    if score.measure == measure:
        return score.dataset in _other_versions(dataset)
    return score.dataset == dataset and _kind(score.measure) == _kind(measure)


def _other_versions(dataset: str) -> set[str]:
    """Return the ids of the dataset's other versions: with or without titles, with the first or the second judgements."""
    swapped = {
        dataset.replace(one, other) if dataset.startswith(one) else dataset.replace(other, one) for one, other in _VERSIONS
    }
    return swapped - {dataset}


def _kind(measure: str) -> tuple[str, int | None]:
    """Return the name and cutoff of a measure without its threshold; all recalls have one name."""
    name = _name(measure)
    return ("recall" if name in _RECALLS else name), measures.cutoff(measure)


def _name(measure: str) -> str:
    return measure.partition("(")[0].partition("@")[0]


def measured(suite: Suite, store: Store, folder: Path | None = None, systems: Sequence[str] = ()) -> list[Result]:
    """Return the results on the datasets of *suite* in the store or in *folder*, a folder of results; of *systems* only.

    Raises CannotStart if there are none, and UnknownName for a system without results.
    """
    entries = [entry for entry in _entries(store, folder) if entry.result.dataset in suite.datasets]
    if not entries:
        raise CannotStart(
            f"no results of the suite {suite.id} in {folder or store.root}; make some: lexbench run suite {suite.id}"
        )
    return [entry.result for entry in (chosen_systems(systems, entries) if systems else entries)]


def _entries(store: Store, folder: Path | None) -> Iterator[StoredResult]:
    if folder is None:
        yield from current_results(store)
    else:
        yield from (StoredResult(result, None) for entry in read_folder(folder) for result in entry.results)


def systems_by_label(texts: Sequence[str], published: Sequence[PublishedScore], results: Sequence[Result]) -> dict[str, str]:
    """Return the published system of each name, from texts like `minilm=dense(model="x")`; both sides may contain a =.

    Raises CommandError if nothing is published of such a system, or no result has that name.
    """
    names = {name for score in published for name in (score.system, score.called) if name}
    labels = {result.system for result in results}
    systems = {}
    for text in texts:
        name = max((name for name in names if text.startswith(f"{name}=")), key=len, default="")
        if not name:
            raise CommandError(f"--as {text}: no published system stands before the =; write e.g. --as 'minilm=NAME'")
        label = text.removeprefix(f"{name}=")
        if label not in labels:
            raise CommandError(f"--as {text}: no result is of {label!r}; there are: {', '.join(sorted(labels))}")
        systems[label] = name
    return systems
