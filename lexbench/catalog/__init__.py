"""Known models by name, e.g. `splade_v3`: the plug-in that runs one, its settings, and its published figures.

A model is one TOML file in the form of `CatalogModel`, with the model's name. It can be typed wherever an encoder can, or a
reranker if it is one. Systems that are neither, e.g. BM25 over expanded documents, also have a file, which says what to type
for them; models that cannot be run have a file with the reason. Ours are in `lexbench/catalog/`. A user's are in the folders of
the variable LEXBENCH_MODELS (separated as in PATH), another package's beside the module of its entry point in the group
`lexbench.models`. A file is read only when its model is used, so a broken file affects no other model.

Other packages look models up (`names`, `model`, `listing`), and replace a model's name by a call of its plug-in (`expand`).
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field
from msgspec.structs import replace

from lexbench import registry
from lexbench.catalog.dataset_prompts import read_prompts
from lexbench.contracts import plugin_folders
from lexbench.errors import CannotStart, CommandError, InvalidFile, LexbenchError, MissingData, UnknownName
from lexbench.notation import Call
from lexbench.storage.reading import Strict, read_toml
from lexbench.storage.store import readable_bytes

_OWN = Path(__file__).parent
_VARIABLE = "LEXBENCH_MODELS"
# What settings.model is, by `weights`.
_SETTINGS_MODEL = {"public": "the id on the hub", "included": "their folder, beside this file"}
_WEIGHTS_FILE = "model.safetensors"  # of included weights
Family: TypeAlias = Literal[
    "bm25",
    "document expansion",
    "term weights",
    "sparse",
    "dense",
    "compressed dense",
    "late interaction",
    "hybrid",
    "reranker",
]
_OF_ALL_DATASETS = {"query_prompt", "instruction", "prompts"}  # if one is typed, prompts by dataset of the model do not count
_SPARSE = ("sparse", "term weights")  # families for the engine `impact`


class Published(Strict, frozen=True):
    """A value of a measure that others published for exactly these weights."""

    dataset: str  # its contract's id
    measure: str  # in ir-measures' notation
    value: Annotated[float, Meta(ge=0, le=1)]
    source: Annotated[str, Meta(min_length=1)]  # who published it
    where: Annotated[str, Meta(min_length=1)]  # the table, or the file with its commit


class KnownTraining(Strict, frozen=True, kw_only=True):
    """The training data of a model, by the names of collections in contracts (their corpora, and `related`)."""

    queries: tuple[str, ...] = ()  # with judgements, or as pairs
    texts: tuple[str, ...] = ()  # without judgements; the general text of language models does not count
    where: Annotated[str, Meta(min_length=1)]  # who states it


class CatalogModel(Strict, frozen=True, kw_only=True):
    """A preset, a known checkpoint or a published system. Without *encoder* and *system* it cannot be run."""

    schema: Literal[1]  # version of the format
    name: str  # the name of the file
    summary: str
    named: tuple[str, ...] = ()  # its names in the LexMAE paper
    encoder: str = ""  # a plug-in of the group `encoders` or `rerankers`
    system: str = ""  # what a user types for a system of several plug-ins
    family: Family
    # Where the weights are: beside this file; on the hub; with the user; never released, or unusable here; not needed.
    weights: Literal["included", "public", "bring", "none", "unneeded"]
    why: str = ""  # why there is no settings.model, or why a setting is required; shown in error messages
    settings: dict[str, str | int | float | bool] = field(default_factory=dict)  # `model` is a hub id or a folder
    # Prompts of queries by dataset (see `dataset_prompts`), or the name of a file of them in catalog/prompts.
    prompts: str | dict[str, str] = ""
    asks: dict[str, str] = field(default_factory=dict)  # others that only a user can give: {query_model = "FOLDER"}
    titles: bool | None = None  # whether passages had their titles in training
    license: str = ""  # of the weights
    data: str = ""  # the training data in words
    training: KnownTraining | None = None  # the same by names; None if unknown, or if a user's own folder states it
    source: Annotated[str, Meta(min_length=1)]  # of the weights, or else of the code
    paper: Annotated[str, Meta(min_length=1)]
    note: str = ""
    published: tuple[Published, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError if keys contradict each other, or if a user would get neither weights nor the reason."""
        runnable, model = self.encoder or self.system, "model" in self.settings
        sources = [(value.dataset, value.measure, value.source) for value in self.published]
        faults = {
            "encoder and system exclude each other": self.encoder and self.system,
            "settings are those of an encoder, and none is named": (
                not self.encoder and (self.settings or self.asks or self.prompts)
            ),
            f'weights = "{self.weights}" needs settings.model, {_SETTINGS_MODEL.get(self.weights)}': (
                self.weights in _SETTINGS_MODEL and self.encoder and not model
            ),
            'weights = "none" has no settings.model, and no system': self.weights == "none" and (self.system or model),
            f'weights = "{self.weights}" needs an encoder or a system': self.weights != "none" and not runnable,
            'weights = "unneeded" is for a system; an encoder needs some': self.weights == "unneeded" and not self.system,
            "the key `why` must say why users have to give the settings in `asks`": self.asks and not self.why,
            "without settings.model the key `why` must say why there is none": (
                self.weights in ("bring", "none") and not self.why and not model
            ),
            "license is that of weights, and there are none here": self.license and self.weights not in _SETTINGS_MODEL,
            "two published values are of the same dataset, measure and source": len(set(sources)) < len(sources),
        }
        for fault, found in faults.items():
            if found:
                raise ValueError(fault)

    @property
    def typed(self) -> str:
        """What a user types: `splade_v3`, `lexmae(model="FOLDER")`, `bm25(expansions="FILE")`; "" if it cannot be run."""
        if not self.encoder:
            return self.system
        settings = ", ".join(f'{setting}="{value}"' for setting, value in self.required.items())
        return f"{self.name}({settings})" if settings else self.name

    @property
    def required(self) -> dict[str, str]:
        """The settings that a user must give, each with a placeholder: "FOLDER"."""
        return ({} if "model" in self.settings else {"model": "FOLDER"}) | self.asks

    @property
    def run(self) -> str:
        """What is typed after `-r`: an encoder with its engine, a reranker after BM25; "" if it cannot be run."""
        if self.encoder and self.family == "reranker":
            return f"rerank(bm25, {self.typed}, k=100)"
        on_impact = self.encoder and self.family in _SPARSE  # other kinds have a default engine
        return f"{self.typed}@impact" if on_impact else self.typed


def names() -> list[str]:
    """Return the names of all models, sorted, without reading their files."""
    return sorted(_paths())


def model(name: str) -> CatalogModel:
    """Return a model. Raises UnknownName, or InvalidFile if its file cannot be read or its name is taken."""
    return _read(name, _paths())


def _read(name: str, paths: Mapping[str, Sequence[Path]]) -> CatalogModel:
    if name not in paths:
        raise UnknownName("model", name, paths, see="lexbench list models")
    path, *others = paths[name]
    if others:
        raise InvalidFile(f"two files for the model {name!r}: {path} and {others[0]}; rename one of them")
    if name in {*registry.names("encoders"), *registry.names("retrievers")}:
        raise InvalidFile(f"{path}: {name!r} is the name of a plug-in; give the file another")
    if not name.isidentifier():
        raise InvalidFile(f"{path}: {name!r} cannot be typed as a name; use letters, digits and _ in the file's name")
    entry = read_toml(path, CatalogModel)
    if entry.name != name:
        raise InvalidFile(f"{path}: the name is {entry.name!r}, and the file's is {name!r} - at `$.name`")
    if entry.weights == "included":  # beside the file, wherever that is installed
        return replace(entry, settings={**entry.settings, "model": str(path.parent / str(entry.settings["model"]))})
    return entry


def listing() -> dict[str, CatalogModel | LexbenchError]:
    """Return every model by name, sorted; the error instead of a model whose file cannot be read."""
    paths, found = _paths(), dict[str, CatalogModel | LexbenchError]()
    for name in sorted(paths):
        try:
            found[name] = _read(name, paths)
        except LexbenchError as error:
            found[name] = error
    return found


def command(entry: CatalogModel) -> str:
    """Return the shell command that runs a model on BEIR, or on MS MARCO documents if its figures are; "" if there is none."""
    for_documents = entry.published and all(value.dataset.startswith("msmarco-document/") for value in entry.published)
    return f"lexbench run suite {'msmarco_doc' if for_documents else 'beir'} -r {shlex.quote(entry.run)}" if entry.run else ""


def included(entry: CatalogModel) -> dict[str, Any]:
    """Return whether included weights are there, their size and model card; {} for other models."""
    if entry.weights != "included":
        return {}
    folder = Path(str(entry.settings["model"]))
    if not (folder / _WEIGHTS_FILE).is_file():
        return {"here": False}
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"here": True, "size": readable_bytes(size), "card": str(folder / "README.md")}


def expand(call: Call) -> Call:
    """Return *call* with the name of a model replaced by its plug-in and settings. Other calls are returned unchanged.

    Settings of *call* win over those in the model's file. If *call* names a folder as the model, the lengths that the folder
    states also win, because the file's are for other weights. Raises CommandError if *call* lacks a required setting or names a
    system, CannotStart if the model cannot be run, MissingData if included weights are missing.
    """
    if call.name not in _paths():
        return call
    entry = model(call.name)
    if not entry.encoder:
        why = f"; {entry.why}" if entry.why else ""
        if entry.system:
            raise CommandError(f"{entry.name} is made of parts: type {entry.system}{why}")
        raise CannotStart(f"{entry.name} cannot be run: {entry.why}; see: lexbench show model {entry.name}")
    settings = dict(call.kwargs)
    if call.args:
        if "model" in entry.settings or "model" in settings or len(call.args) > 1 or not isinstance(call.args[0], str):
            alone = "" if "model" in entry.settings else ", or the model alone"
            raise CommandError(f"{call}: {entry.name} takes settings by name{alone}; see: lexbench show model {entry.name}")
        settings["model"] = call.args[0]
    own_weights = entry.weights == "included" and "model" not in settings
    settings = _defaults(entry, settings) | settings
    for setting, value in entry.required.items():
        if setting not in settings:
            raise CommandError(f'{entry.name} needs {setting}="{value}": {entry.why}; write {entry.typed}')
    if own_weights and not Path(str(settings["model"]), _WEIGHTS_FILE).is_file():
        raise MissingData(
            f"{entry.name}: its weights are not in this copy of lexbench ({settings['model']} has no {_WEIGHTS_FILE}); install "
            f'the whole package again, or write {entry.name}(model="FOLDER")'
        )
    return Call(entry.encoder, kwargs=tuple(sorted(settings.items())))


def _defaults(entry: CatalogModel, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of *entry* that hold beside those that were *typed*, with its prompts by dataset as a file."""
    left_out = _stated(entry, typed)
    if "query_prompt" in typed:  # another prompt need not have a place for the instruction
        left_out |= {"instruction"}
    found = {name: value for name, value in entry.settings.items() if name not in left_out}
    if entry.prompts and _OF_ALL_DATASETS.isdisjoint(typed):
        found |= {"prompts": str(_prompts_file(entry, _paths()[entry.name][0]))}
    return found


def _prompts_file(entry: CatalogModel, path: Path) -> Path:
    """Return the file with the prompts of *entry*, whose own file is *path*. Raises InvalidFile if there is none."""
    if not isinstance(entry.prompts, str):
        return path
    if not (named := _OWN / "prompts" / f"{entry.prompts}.toml").is_file():
        there = ", ".join(sorted(known.stem for known in named.parent.glob("*.toml")))
        raise InvalidFile(f"{path}: there are no prompts {entry.prompts!r}; there is: {there} - at `$.prompts`")
    return named


def prompts_of(entry: CatalogModel) -> dict[str, str]:
    """Return the instructions or prompts of a model by the ids of datasets, or the beginnings of ids."""
    if not entry.prompts:
        return {}
    return dict(read_prompts(_prompts_file(entry, _paths()[entry.name][0])))


def _stated(entry: CatalogModel, settings: Mapping[str, Any]) -> set[str]:
    """Return the names of numeric settings, e.g. lengths, that the folder of a user's own model states.

    Other settings, e.g. which positions are pooled, define what the name means: they stay, and a note points out the
    difference.
    """
    folder = Path(str(settings["model"])) if "model" in settings else None
    if folder is None or not folder.is_dir():
        return set()
    plugin = registry.load("rerankers" if entry.family == "reranker" else "encoders", entry.encoder)
    return {name for name, value in plugin.checkpoint_defaults(settings).items() if not isinstance(value, str)}


def _paths() -> dict[str, list[Path]]:
    """Return the files of each name; `_read` refuses names with several."""
    user_folders = [Path(part).expanduser() for part in os.environ.get(_VARIABLE, "").split(os.pathsep) if part]
    for folder in user_folders:
        if not folder.is_dir():
            raise CommandError(f"{_VARIABLE} names {folder}, which is no folder; correct it, or unset {_VARIABLE}")
    paths: dict[str, list[Path]] = {}
    for folder in dict.fromkeys(path.resolve() for path in (_OWN, *plugin_folders("models"), *user_folders)):
        for path in _own_files() if folder == _OWN else sorted(folder.glob("*.toml")):
            paths.setdefault(path.stem, []).append(path)
    return paths


@cache
def _own_files() -> list[Path]:
    """Return lexbench's own files, which stay the same while a process runs."""
    return sorted(_OWN.glob("*.toml"))
