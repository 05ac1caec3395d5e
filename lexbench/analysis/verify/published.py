"""Published scores: their sources, the tolerance for measured scores, and whether a result is of the same system.

Each score is in one of two places: those of a model of the catalogue are in the `published` list of its file, all others in
`suites/expected/<suite>.toml`. Facts about a source are in `suites/expected/sources.toml`.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, NamedTuple

from msgspec import field

from lexbench import catalog, registry
from lexbench.artifacts.describe import describe
from lexbench.catalog.dataset_prompts import prompt_for
from lexbench.contracts import toml_files
from lexbench.errors import LexbenchError, NotationError
from lexbench.measures import parse as parse_measure
from lexbench.notation import Call, Expression, parse
from lexbench.results import Result
from lexbench.storage.reading import Strict, read_toml

_SOURCES = "sources"
_SAME_ARITHMETIC = 0.0005  # what the order of additions, and of equal scores at the last place, can change
_SWAP = 0.5  # what swapping the first two documents of one query can change in its value
_ENCODER = 0.002  # what other hardware or ONNX can change: the sources' own scores of one model differ by as much
_WHOLE = "quantize"  # published indexes with integer weights were made with its defaults


class OtherProtocol(Strict, frozen=True):
    """A rule of a source that makes its scores on a dataset, or of a measure, not comparable with ours."""

    why: str
    dataset: str = ""
    measure: str = ""


class PublishedSource(Strict, frozen=True):
    """Who printed scores, and under which rules."""

    name: str
    origin: str
    decimals: int  # digits that it prints of a fraction
    protocol: str
    own: tuple[str, ...] = ()  # models that the source measured itself; () means all
    quotes: str = ""  # where the scores of the other models are from
    differs: tuple[OtherProtocol, ...] = ()


class _Sources(Strict, frozen=True):
    schema: int
    sources: tuple[PublishedSource, ...]
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


class PublishedScore(NamedTuple):
    """One published score."""

    system: str  # the expression for the system; "" if there is none
    called: str  # its name in the source, or the model's name
    dataset: str
    measure: str  # in ir-measures' notation
    value: float
    source: PublishedSource
    where: str

    @property
    def printed(self) -> str:
        """The score as its source printed it, as a fraction (e.g. 0.6789)."""
        digits = len(repr(self.value).partition(".")[2])
        return f"{self.value:.{max(digits, self.source.decimals)}f}"

    def tolerance(self, queries: int) -> float:
        """Return how far a mean over this many *queries* may be off: the allowance, and half a unit of the last printed digit.

        On other hardware an encoder's scores differ in the last bits, and two documents may swap. On one query that changes a
        mean by up to .5 / queries (RR, from the first place to the second): .0116 on the 43 queries of TREC DL 2019. BM25's
        arithmetic is the same everywhere.
        """
        allowance = _SAME_ARITHMETIC if self.system.startswith("bm25") else max(_ENCODER, _SWAP / max(queries, 1))
        return allowance + 0.5 * 10.0 ** -len(self.printed.partition(".")[2])

    @property
    def differs(self) -> str:
        """Why the score was made under other rules than ours; "" if that is not known."""
        reasons = (
            rule.why
            for rule in self.source.differs
            if rule.dataset in ("", self.dataset) and rule.measure in ("", self.measure)
        )
        return next(reasons, "")

    @property
    def quoted(self) -> str:
        """Where the score is from if its source copied it; "" if the source measured it."""
        own = self.source.own
        name = parse(self.system).head.name if self.system else ""
        return "" if not own or name in own or self.called in own else self.source.quotes


def published_scores() -> list[PublishedScore]:
    """Return every published score; scores of the catalogue come first. Models whose file cannot be read are left out."""
    models = [model for model in catalog.listing().values() if isinstance(model, catalog.CatalogModel)]
    found = [
        PublishedScore(
            system_of(model), model.name, one.dataset, _canonical(one.measure), one.value, source(one.source), one.where
        )
        for model in models
        for one in model.published
    ]
    files = [read_toml(path, PublishedFile) for name, path in toml_files("expected").items() if name != _SOURCES]
    return found + [
        PublishedScore(one.system, one.called, on.dataset, _canonical(measure), value, source(one.source), on.where)
        for file in files
        for one in file.systems
        for on in one.figures
        for measure, value in on.values.items()
    ]


def system_of(model: catalog.CatalogModel) -> str:
    """Return the expression for the published scores of a model."""
    return model.system or model.name


@cache
def _canonical(measure: str) -> str:
    return str(parse_measure(measure))


@cache
def _sources() -> _Sources:
    return read_toml(toml_files("expected")[_SOURCES], _Sources)


def source(name: str) -> PublishedSource:
    """Return the facts about a source. Of a user's own source only the name is known."""
    own = PublishedSource(name=name, origin="a model file of your own", decimals=1, protocol="Its rules are not known")
    return next((described for described in _sources().sources if described.name == name), own)


def is_same_system(result: Result, published: str) -> bool:
    """Whether *result* is of the system with the expression *published*, e.g. `bm25(k1=0.82, b=0.68)` or `lexmae|top_k(64)`.

    A model must have been named, or have weights that are known to be its own. All settings that change answers must be the
    model's, and its engine exact. A system of several retrievers must have the very same expression.
    """
    part, typed = parse(published), None
    with suppress(NotationError):  # a name need not be an expression
        typed = parse(result.system)
    if typed == part:
        return True
    if "encoder" in result.recipe.get("settings", {}):
        return _is_same_encoder(part, typed, result)
    if part.head.name not in registry.names("retrievers"):
        return False
    plugin = registry.load("retrievers", part.head.name)
    fusion = any(item.name == "members" for item in fields(plugin))
    return not fusion and _is_same_retriever(plugin, part.head, result.recipe)


def _is_same_retriever(plugin: type[Any], call: Call, recipe: Mapping[str, Any]) -> bool:
    """Whether the retriever of *recipe* is *plugin* with the settings of *call*, possibly on another engine."""
    identity, expected = str(recipe.get("plugin", "")), registry.identity(plugin)
    if identity != expected and not identity.startswith(f"{expected}_"):  # bm25_lucene is bm25 on another engine
        return False
    typed = dict(call.kwargs)
    files = {item.name for item in fields(plugin) if item.metadata.get("runtime") and item.name in typed}
    return _fits(_settings(plugin, typed), recipe["settings"]) and set(recipe.get("identity", ())) == files


def _is_same_encoder(part: Expression, typed: Expression | None, result: Result) -> bool:
    """Whether a result is of the encoder or model that *part* names, with its transforms, on an exact engine."""
    settings, name = result.recipe["settings"], part.head.name
    encoder = settings["encoder"]
    digest = ((encoder.get("identity") or {}).get("model") or {}).get("weights")
    if (typed is None or typed.head.name != name) and (digest is None or digest != _sources().weights.get(name)):
        return False
    model = catalog.model(name) if name in catalog.names() else None
    if (model is None or not model.encoder) and name not in registry.names("encoders"):
        return False
    transforms = [describe(registry.create("transforms", call)) for call in part.transforms]
    if not _is_exact(settings["engine"]) or _changing(settings["transforms"]) != _changing(transforms):
        return False
    plugin = registry.load("encoders", model.encoder if model else name)
    expected = _settings(plugin, {**(model.settings if model else {}), **dict(part.head.kwargs)})
    if model and (prompt := prompt_for(result.dataset, catalog.prompts_of(model))) is not None:
        expected["instruction" if "instruction" in model.settings else "query_prompt"] = prompt
    if "-titled/" in result.dataset:  # its titles are joined as the model's authors did; the catalogue leaves that open
        expected.pop("titles", None)
    return encoder["plugin"] == registry.identity(plugin) and _fits(expected, encoder["settings"])


def _settings(plugin: type[Any], typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of *plugin* that change answers: the *typed* values, or else the defaults."""
    settings = [item for item in fields(plugin) if item.init and not item.metadata.get("runtime")]
    defaults = {item.name: item.default for item in settings if item.default is not MISSING}
    return defaults | {item.name: typed[item.name] for item in settings if item.name in typed}


def _fits(expected: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether all *settings* that are in *expected* have the expected value."""
    return all(settings.get(name, value) == value for name, value in expected.items())


def _is_exact(engine: Mapping[str, Any]) -> bool:
    name = str(engine["plugin"]).rpartition("/")[2]
    with suppress(LexbenchError):  # the engine of a result from another machine may not be installed here
        return registry.load("engines", name).exact is True
    return False


def _changing(transforms: list[Any]) -> list[Any]:
    """Return the recipes of the transforms that change the system."""
    whole = describe(registry.create("transforms", Call(_WHOLE)))
    return [recipe for recipe in transforms if recipe != whole]
