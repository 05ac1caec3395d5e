"""Published scores, each with who printed it and how near a measured one has to come.

They are in two places, and each score in one of them: those of a model of the catalogue, as `published` in its file; the rest
in `suites/expected/<suite>.toml`. What is true of all scores of a source is in `suites/expected/sources.toml`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from msgspec import field

from lexbench import catalog, measures, suites
from lexbench.errors import InvalidFile, LexbenchError
from lexbench.notation import parse
from lexbench.storage.reading import Strict, read_toml

_SOURCES = "sources"
_SAME_ARITHMETIC = 0.0005  # what the order of additions, and of equal scores at the last place, can move
_SWAP = 0.5  # what an exchange of the first two documents of one query can move its value
_ENCODER = 0.002  # what other hardware, or ONNX, can move: the sources' own scores of one model differ by up to so much


class OtherProtocol(Strict, frozen=True):
    """Why scores of a source are not to be compared with ours: those on one dataset, or of one measure."""

    why: str
    dataset: str = ""
    measure: str = ""


class Source(Strict, frozen=True):
    """Who printed scores, and under which rules."""

    name: str
    origin: str
    decimals: int  # that it prints of a fraction
    protocol: str
    own: tuple[str, ...] = ()  # models whose scores the source measured itself; () is all
    quotes: str = ""  # what is known of the others
    differs: tuple[OtherProtocol, ...] = ()


class _Sources(Strict, frozen=True):
    schema: int
    sources: tuple[Source, ...]
    weights: dict[str, str] = field(default_factory=dict)  # SHA-256 of the weights by model


class DatasetScores(Strict, frozen=True):
    """The scores of a system on one dataset."""

    dataset: str
    where: str
    values: dict[str, float]  # by measure


class SystemScores(Strict, frozen=True):
    """The scores of a system that a source printed."""

    called: str
    source: str
    figures: tuple[DatasetScores, ...]
    system: str = ""


class PublishedFile(Strict, frozen=True):
    """A file of `suites/expected`."""

    schema: int
    systems: tuple[SystemScores, ...]


@dataclass(frozen=True)
class PublishedScore:
    """One published score."""

    system: str  # what is typed for it; "" where nothing is
    called: str  # by its source, or the model's name
    dataset: str
    measure: str  # in ir-measures' notation
    value: float
    source: Source
    where: str

    @property
    def printed(self) -> str:
        """The score as its source printed it, as a fraction: 0.6789."""
        digits = len(repr(self.value).partition(".")[2])
        return f"{self.value:.{max(digits, self.source.decimals)}f}"

    @property
    def allowance(self) -> float:
        """How far a repetition may be off, rounding apart: less for BM25, which is the same arithmetic everywhere."""
        return _SAME_ARITHMETIC if self.system.startswith("bm25") else _ENCODER

    def tolerance(self, queries: int) -> float:
        """Return how far a mean over so many *queries* may be off: the allowance, and half a unit of the last printed digit.

        An encoder's scores on other hardware differ in their last bits, and two documents may change places for it: on one
        query that moves a mean by up to .5 / queries (RR, from the first place to the second), .0116 on the 43 of TREC DL 2019.
        """
        swap = 0.0 if self.system.startswith("bm25") else _SWAP / max(queries, 1)
        return max(self.allowance, swap) + 0.5 * 10.0 ** -len(self.printed.partition(".")[2])

    @property
    def differs(self) -> str:
        """Why the score is of another protocol than ours; "" where it is not known to be."""
        reasons = (
            rule.why
            for rule in self.source.differs
            if rule.dataset in ("", self.dataset) and rule.measure in ("", self.measure)
        )
        return next(reasons, "")

    @property
    def quoted(self) -> str:
        """What is known of a score that its source took from elsewhere; "" where it measured itself."""
        own = self.source.own
        name = parse(self.system).head.name if self.system else ""
        return "" if not own or name in own or self.called in own else self.source.quotes


def published_scores() -> list[PublishedScore]:
    """Return every published score, those of the catalogue first; a model whose file does not read has none."""
    return [*_of_catalogue(), *(score for name in suites.published_figures() if name != _SOURCES for score in _of_file(name))]


def weights() -> dict[str, str]:
    """Return the SHA-256 of the weights of public models, by their name."""
    return _sources().weights


def system_of(model: catalog.Model) -> str:
    """Return how the published scores of a model name it: by what is typed for a system, by the name of an encoder."""
    return model.system or model.name


def _of_catalogue() -> Iterator[PublishedScore]:
    for model in catalog.listing().values():
        if isinstance(model, LexbenchError):
            continue
        for score in model.published:
            measure = _notation(score.measure)
            names = system_of(model), model.name, score.dataset, measure
            yield PublishedScore(*names, score.value, source(score.source), score.where)


def _of_file(name: str) -> Iterator[PublishedScore]:
    for system in read_toml(suites.published_figures()[name], PublishedFile).systems:
        for scores in system.figures:
            for measure, value in scores.values.items():
                names = system.system, system.called, scores.dataset, _notation(measure)
                yield PublishedScore(*names, value, source(system.source), scores.where)


@cache
def _notation(measure: str) -> str:
    return str(measures.parse(measure))


@cache
def _sources() -> _Sources:
    return read_toml(suites.published_figures()[_SOURCES], _Sources)


def source(name: str) -> Source:
    """Return what is known of a source; InvalidFile for one that nobody has described."""
    known = {described.name: described for described in _sources().sources}
    if name not in known:
        raise InvalidFile(f"{suites.published_figures()[_SOURCES]}: no source {name!r}; there is: {', '.join(known)}; add it")
    return known[name]
