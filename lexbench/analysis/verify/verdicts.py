"""Which results are verified, and the verdict on each mean that has a published score; scores of other measures never serve."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from lexbench import measures
from lexbench.analysis.stored_results import stored_results
from lexbench.analysis.verify.matching import is_of
from lexbench.analysis.verify.published import PublishedScore
from lexbench.errors import CannotStart, CommandError, UnknownName
from lexbench.results import Result, files_of, load_system
from lexbench.storage.store import Store
from lexbench.suites import Suite

_RECALLS = ("R", "RCap", "Success")  # what papers call recall
_VERSIONS = (("msmarco-passage-titled/", "msmarco-passage/"), ("beir/webis-touche2020/v2", "beir/webis-touche2020"))


class Verdict(StrEnum):
    """What a comparison says."""

    OK = "ok"
    OFF = "off"
    SPREAD = "other figure"  # differs, and another figure of the same that its source measured too is met
    QUOTED = "quoted"  # differs from a score that its source copied: nothing follows from it
    PROTOCOL = "other rules"  # the score was made under other rules, or it is not known under which


@dataclass(frozen=True)
class Check:
    """One measured mean beside published scores that are equal."""

    result: Result
    measure: str
    published: tuple[PublishedScore, ...]  # of one value; the first is the one that is shown
    verdict: Verdict
    spread: tuple[str, str] = ("", "")  # the least and the greatest that was published of the same, as printed

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
        spread = f"what was published of it is from {self.spread[0]} to {self.spread[1]}, and one of these is met"
        reasons = {
            Verdict.QUOTED: self.published[0].quoted,
            Verdict.PROTOCOL: self.published[0].differs,
            Verdict.SPREAD: spread,
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
    near: tuple[PublishedScore, ...] = ()  # of the same system, of what is like it and is not the same

    @property
    def mistakable(self) -> bool:
        """Whether what there is instead has the same name: another threshold, or another version of the dataset."""
        return bool(self.near) and _name(self.near[0].measure) == _name(self.measure)

    @property
    def reason(self) -> str:
        """What there is instead, and why that was not compared."""
        if not self.near:
            return ""
        score = self.near[0]
        what = "another measure" if score.measure != self.measure else "another version of the dataset"
        return f"{score.measure} {score.printed} on {score.dataset} ({score.source.name}) is of {what}"


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

    *systems* says by label of which published system a result is, where its label and settings do not: {LABEL: "minilm"}.
    """
    systems = systems or {}
    names = dict.fromkeys(score.system for score in published if score.system)
    checks: list[Check] = []
    unmatched: list[Unmatched] = []
    for result in results:
        name = systems.get(result.system)
        fitting = {one for one in names if is_of(result, one)} if name is None else {name}
        scores = [score for score in published if score.system in fitting or (name is not None and score.called == name)]
        for measure in result.means:
            same = [score for score in scores if (score.dataset, score.measure) == (result.dataset, measure)]
            checks += _checks(result, measure, same)
            if not same:
                near = tuple(score for score in scores if _is_near(score, result.dataset, measure))
                unmatched.append(Unmatched(result, measure, near))
    return Verification(tuple(checks), tuple(unmatched))


def _checks(result: Result, measure: str, scores: Iterable[PublishedScore]) -> list[Check]:
    """Return one check for each value that was published, the sources that agree on it together.

    Of figures that their sources measured themselves, as one by PyTorch and one by ONNX, one that is met is enough.
    """
    groups: dict[tuple[str, Verdict], list[PublishedScore]] = {}
    for score in scores:
        groups.setdefault((score.printed, _verdict(result, measure, score)), []).append(score)
    measured = [score for _, agreed in groups.items() for score in agreed if not (score.differs or score.quoted)]
    is_met = any(verdict is Verdict.OK and not agreed[0].quoted for (_, verdict), agreed in groups.items())
    ends = [end(measured, key=lambda score: score.value).printed for end in (min, max)] if measured else ["", ""]
    checks = (Check(result, measure, tuple(agreed), verdict, (ends[0], ends[1])) for (_, verdict), agreed in groups.items())
    return [replace(one, verdict=Verdict.SPREAD) if is_met and one.verdict is Verdict.OFF else one for one in checks]


def _verdict(result: Result, measure: str, score: PublishedScore) -> Verdict:
    if score.differs:
        return Verdict.PROTOCOL
    if abs(result.means[measure] - score.value) <= score.tolerance(result.counts.queries):
        return Verdict.OK
    return Verdict.QUOTED if score.quoted else Verdict.OFF


def _is_near(score: PublishedScore, dataset: str, measure: str) -> bool:
    """Whether a score could be mistaken for one of *measure* on *dataset*."""
    if score.measure == measure:
        return score.dataset in _twins(dataset)
    return score.dataset == dataset and _kind(score.measure) == _kind(measure)


def _twins(dataset: str) -> set[str]:
    """Return the ids of the dataset's other versions: with titles or without, with the first judgements or the second."""
    swapped = {
        dataset.replace(one, other) if dataset.startswith(one) else dataset.replace(other, one) for one, other in _VERSIONS
    }
    return swapped - {dataset}


def _kind(measure: str) -> tuple[str, int | None]:
    """Return what a measure is like: its name, all recalls alike, and its cutoff; the threshold does not count."""
    name = _name(measure)
    return ("recall" if name in _RECALLS else name), measures.cutoff(measure)


def _name(measure: str) -> str:
    return measure.partition("(")[0].partition("@")[0]


def measured(suite: Suite, store: Store, folder: Path | None = None, systems: Sequence[str] = ()) -> list[Result]:
    """Return the results on the datasets of *suite* that the store has, or result files below *folder*; of *systems* alone.

    CannotStart where there are none, UnknownName for a system without any.
    """
    results = [result for result in _results(store, folder) if result.dataset in suite.datasets]
    if not results:
        raise CannotStart(
            f"no results of the suite {suite.id} in {folder or store.root}; make some: lexbench run suite {suite.id}"
        )
    labels = {result.system for result in results}
    for name in systems:
        if name not in labels:
            raise UnknownName("result of", name, labels, see="lexbench list results")
    return [result for result in results if not systems or result.system in systems]


def _results(store: Store, folder: Path | None) -> Iterator[Result]:
    if folder is None:
        yield from (entry.result for entry in stored_results(store))
    else:
        yield from (result for path in files_of(folder) for result in load_system(path).results)


def systems_by_label(texts: Sequence[str], published: Sequence[PublishedScore], results: Sequence[Result]) -> dict[str, str]:
    """Return which published system each label is, of texts such as `minilm=dense(model="x")`: both may have a = in them.

    CommandError where nothing is published of such a system, or no result has that label.
    """
    names = {name for score in published for name in (score.system, score.called) if name}
    labels = {result.system for result in results}
    systems = {}
    for text in texts:
        name = max((name for name in names if text.startswith(f"{name}=")), key=len, default="")
        if not name:
            raise CommandError(f"--as {text}: nothing is published of what stands before the =; write --as 'minilm=LABEL'")
        label = text.removeprefix(f"{name}=")
        if label not in labels:
            raise CommandError(f"--as {text}: no result is of {label!r}; there is: {', '.join(sorted(labels))}")
        systems[label] = name
    return systems
