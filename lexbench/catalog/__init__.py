"""Known models by name, such as `splade_v3`: which plug-in runs one, with which settings, and what was published of it.

A model is one TOML file in the form of `Model`; its name is the file's, and it can be typed wherever an encoder can, or a
reranker if it is one. What is neither, as BM25 over expanded documents, has a file too, which says what to type for it; and so
has what cannot be run, with the reason. Ours are in `lexbench/catalog/`; a user's are in the folders that the variable
LEXBENCH_MODELS names (separated as in PATH), another package's beside the module of its entry point in the group
`lexbench.models`. A file is read when its model is asked for, so one that does not read harms no other.

Other packages look models up (`names`, `model`, `listing`), and replace a model's name by its plug-in's call (`expand`).
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field
from msgspec.structs import replace

from lexbench import registry
from lexbench.errors import CannotStart, CommandError, InvalidFile, LexbenchError, MissingData, UnknownName
from lexbench.notation import Call
from lexbench.storage import environment
from lexbench.storage.reading import Strict, read_toml
from lexbench.storage.store import readable_bytes

_OWN = Path(__file__).parent
_VARIABLE = "LEXBENCH_MODELS"
_SETTINGS_MODEL = {"public": "the id on the hub", "included": "their folder, beside this file"}  # what it is, by `weights`
_WEIGHTS_FILE = "model.safetensors"  # of weights that are included
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
_SPARSE = ("sparse", "term weights")  # families whose vectors the engine `impact` takes


class Published(Strict, frozen=True):
    """A value of a measure that others have printed for exactly these weights."""

    dataset: str  # its contract's id
    measure: str  # in ir-measures' notation
    value: Annotated[float, Meta(ge=0, le=1)]
    source: Annotated[str, Meta(min_length=1)]  # who printed it
    where: Annotated[str, Meta(min_length=1)]  # the table, or the file with its commit


class PublishedSpeed(Strict, frozen=True):
    """A speed that others have printed. It stands beside no measurement: `unstated` is what one would have to know of it."""

    dataset: str
    queries_per_second: float
    source: Annotated[str, Meta(min_length=1)]
    where: Annotated[str, Meta(min_length=1)]
    unstated: Annotated[str, Meta(min_length=1)]


class Training(Strict, frozen=True, kw_only=True):
    """What a model has learned from, by the names that contracts know collections by (their corpora, and `related`)."""

    queries: tuple[str, ...] = ()  # with judgements, or as pairs
    texts: tuple[str, ...] = ()  # without; the general text of language models is not counted
    where: Annotated[str, Meta(min_length=1)]  # who says so


class Model(Strict, frozen=True, kw_only=True):
    """One preset, known checkpoint or published system; what has neither *encoder* nor *system* cannot be run."""

    schema: Literal[1]  # of this file's format
    name: str  # the file's
    summary: str
    named: tuple[str, ...] = ()  # what the LexMAE paper calls it
    encoder: str = ""  # a plug-in of the group `encoders` or `rerankers`
    system: str = ""  # what a user types for a system that no one plug-in makes
    family: Family
    # In order: beside this file; on the hub; the user's own, or files; never released, or of no use here; a system without any.
    weights: Literal["included", "public", "bring", "none", "unneeded"]
    why: str = ""  # why there is no settings.model, or why something is asked; errors say it
    settings: dict[str, str | int | float | bool] = field(default_factory=dict)  # of the encoder; `model`: a hub id or folder
    asks: dict[str, str] = field(default_factory=dict)  # more settings that only a user can give: {query_model = "FOLDER"}
    titles: bool | None = None  # whether passages had their titles in training
    license: str = ""  # of the weights
    data: str = ""  # what they were trained on, in words
    training: Training | None = None  # the same by names; None: nobody says, or a user's own folder does
    source: str  # where the weights, or failing these the code, are
    paper: str
    note: str = ""
    published: tuple[Published, ...] = ()
    speeds: tuple[PublishedSpeed, ...] = ()  # under other rules: shown, never compared

    def __post_init__(self) -> None:
        """Raise ValueError for a file that would leave a user without weights or without the reason."""
        if self.encoder and self.system:
            raise ValueError("encoder and system exclude each other")
        if not self.encoder and (self.settings or self.asks):
            raise ValueError("settings are those of an encoder, and none is named")
        if self.weights in _SETTINGS_MODEL and self.encoder and "model" not in self.settings:
            raise ValueError(f'weights = "{self.weights}" needs settings.model, {_SETTINGS_MODEL[self.weights]}')
        if self.weights == "none" and (self.system or "model" in self.settings):
            raise ValueError('weights = "none" has no settings.model, and no system')
        if self.weights != "none" and not (self.encoder or self.system):
            raise ValueError(f'weights = "{self.weights}" needs an encoder or a system')
        if self.weights == "unneeded" and not self.system:
            raise ValueError('weights = "unneeded" is for a system; an encoder needs some')
        if self.asks and not self.why:
            raise ValueError("the key `why` must say why something is asked")
        if self.weights in ("bring", "none") and not self.why and "model" not in self.settings:
            raise ValueError("without settings.model the key `why` must say why there is none")

    @property
    def typed(self) -> str:
        """How a user names it: `splade_v3`, `lexmae(model="FOLDER")`, `bm25(expansions="FILE")`; "" for what cannot be run."""
        if not self.encoder:
            return self.system
        settings = ", ".join(f'{setting}="{value}"' for setting, value in self.required.items())
        return f"{self.name}({settings})" if settings else self.name

    @property
    def required(self) -> dict[str, str]:
        """The settings that a user must give, and what stands for each: "FOLDER"."""
        return ({} if "model" in self.settings else {"model": "FOLDER"}) | self.asks

    @property
    def run(self) -> str:
        """What is typed after `-r`: an encoder with its engine, a reranker after BM25; "" for what cannot be run."""
        if self.encoder and self.family == "reranker":
            return f"rerank(bm25, {self.typed}, k=100)"
        on_impact = self.encoder and self.family in _SPARSE  # others: the exact engine of their kind, which needs no name
        return f"{self.typed}@impact" if on_impact else self.typed


def names() -> list[str]:
    """Return the names of all models, sorted; their files are not read."""
    return sorted(_paths())


def model(name: str) -> Model:
    """Return a model; UnknownName, or InvalidFile where its file does not read or the name is taken."""
    return _read(name, _paths())


def _read(name: str, paths: Mapping[str, Sequence[Path]]) -> Model:
    if name not in paths:
        raise UnknownName("model", name, paths, see="lexbench list models")
    path, *others = paths[name]
    if others:
        raise InvalidFile(f"two files for the model {name!r}: {path} and {others[0]}; rename one of them")
    if name in {*registry.names("encoders"), *registry.names("retrievers")}:
        raise InvalidFile(f"{path}: {name!r} is the name of a plug-in; give the file another")
    if not name.isidentifier():
        raise InvalidFile(f"{path}: {name!r} cannot be typed as a name; use letters, digits and _ in the file's name")
    entry = read_toml(path, Model)
    if entry.name != name:
        raise InvalidFile(f"{path}: the name is {entry.name!r}, and the file's is {name!r} - at `$.name`")
    if entry.weights == "included":  # they lie beside the file, wherever that was installed
        return replace(entry, settings={**entry.settings, "model": str(path.parent / str(entry.settings["model"]))})
    return entry


def listing() -> dict[str, Model | LexbenchError]:
    """Return every model by name, sorted; in place of one whose file does not read, the error."""
    entries: dict[str, Model | LexbenchError] = {}
    paths = _paths()
    for name in sorted(paths):
        try:
            entries[name] = _read(name, paths)
        except LexbenchError as error:
            entries[name] = error
    return entries


def command(entry: Model) -> str:
    """Return the line for a shell that runs a model on BEIR, or on documents if it is one for these; "" if none does."""
    for_documents = entry.published and all(value.dataset.startswith("msmarco-document/") for value in entry.published)
    return f"lexbench run suite {'msmarco_doc' if for_documents else 'beir'} -r {shlex.quote(entry.run)}" if entry.run else ""


def included(entry: Model) -> dict[str, Any]:
    """Return whether weights that belong beside a model's file are there, their size and model card; {} for other models."""
    if entry.weights != "included":
        return {}
    folder = Path(str(entry.settings["model"]))
    if not (folder / _WEIGHTS_FILE).is_file():
        return {"here": False}
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"here": True, "size": readable_bytes(size), "card": str(folder / "README.md")}


def expand(call: Call) -> Call:
    """Return the call of the plug-in that a model's name stands for; settings of *call* come before those of the file.

    Where *call* names a folder as the model, the lengths that it states come before the file's, which are of other weights.
    A name that is no model's comes back as it is. CommandError where *call* lacks a setting that the model requires, or the
    model is a system, which is typed otherwise; CannotStart where it cannot be run; MissingData where weights that belong
    beside its file are not there.
    """
    if call.name not in _paths():
        return call
    entry = model(call.name)
    if not entry.encoder:
        raise _not_callable(entry)
    settings = dict(call.kwargs)
    if call.args:
        if "model" in entry.settings or "model" in settings or len(call.args) > 1 or not isinstance(call.args[0], str):
            alone = "" if "model" in entry.settings else ", or the model alone"
            raise CommandError(f"{call}: {entry.name} takes settings by name{alone}; see: lexbench show model {entry.name}")
        settings["model"] = call.args[0]
    own_weights = entry.weights == "included" and "model" not in settings
    stated = _stated(entry, settings)
    settings = {**{name: value for name, value in entry.settings.items() if name not in stated}, **settings}
    for setting, value in entry.required.items():
        if setting not in settings:
            raise CommandError(f'{entry.name} needs {setting}="{value}": {entry.why}; write {entry.typed}')
    if own_weights and not Path(str(settings["model"]), _WEIGHTS_FILE).is_file():
        raise MissingData(
            f"{entry.name}: its weights are not in this copy of lexbench ({settings['model']} has no {_WEIGHTS_FILE}); install "
            f'the whole package again, or write {entry.name}(model="FOLDER")'
        )
    return Call(entry.encoder, kwargs=tuple(sorted(settings.items())))


def _stated(entry: Model, settings: Mapping[str, Any]) -> set[str]:
    """Return the names of the numbers, as of tokens, that the folder of a user's own model states, if *settings* name one.

    Ways, such as which positions are pooled, are the name's: who types `splade` for a LexMAE gets that, with a remark.
    """
    folder = Path(str(settings["model"])) if "model" in settings else None
    if folder is None or not folder.is_dir():
        return set()
    plugin = registry.load("rerankers" if entry.family == "reranker" else "encoders", entry.encoder)
    return {name for name, value in plugin.checkpoint_defaults(settings).items() if not isinstance(value, str)}


def _not_callable(entry: Model) -> LexbenchError:
    """Return the error that says what to type in place of a system's name, or why nothing can be typed."""
    if not entry.system:
        return CannotStart(f"{entry.name} cannot be run: {entry.why}; see: lexbench show model {entry.name}")
    return CommandError(f"{entry.name} is made of parts: type {entry.system}" + (f"; {entry.why}" if entry.why else ""))


def _paths() -> dict[str, list[Path]]:
    """Return the files of each name: one, unless two are called the same."""
    user_folders = [Path(part).expanduser() for part in os.environ.get(_VARIABLE, "").split(os.pathsep) if part]
    for folder in user_folders:
        if not folder.is_dir():
            raise CommandError(f"{_VARIABLE} names {folder}, which is no folder; correct it, or unset {_VARIABLE}")
    paths: dict[str, list[Path]] = {}
    for folder in dict.fromkeys(path.resolve() for path in (_OWN, *_plugged_in(), *user_folders)):
        for path in sorted(folder.glob("*.toml")):
            paths.setdefault(path.stem, []).append(path)
    return paths


@cache
def _plugged_in() -> tuple[Path, ...]:
    return tuple(_folder(entry) for entry in environment.entries("lexbench.models"))


def _folder(entry: EntryPoint) -> Path:
    """Return the folder of the module that *entry* names, which is not imported."""
    try:
        spec = find_spec(entry.module)
    except Exception as error:  # the package around it is imported, and its mistake is no reason for a traceback of ours
        raise CannotStart(f"models of plug-in {entry.name!r} do not load: {type(error).__name__}: {error}") from error
    folders = [*(spec.submodule_search_locations or []), spec.origin and str(Path(spec.origin).parent)] if spec else []
    if not folders or not folders[0]:
        raise CannotStart(f"models of plug-in {entry.name!r} do not load: there is no module {entry.module}")
    return Path(folders[0])
