"""Known models: which plug-in makes the vectors of a name such as `splade_v3`, with which settings, and what was published.

A model is one TOML file; its name is the file's, and it can be typed wherever an encoder can, or a reranker if it is one. What
is neither, as BM25 over expanded documents, has a file too, which says what to type for it; and so has what cannot be run, with
the reason. Ours are in `lexbench/catalog/`; a user's are in the folders that the variable LEXBENCH_MODELS names
(separated as in PATH), another package's beside the module of its entry point in the group `lexbench.models`. A file is read
when its model is asked for, so one that does not read harms no other.
"""

import os
import shlex
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field
from msgspec.structs import replace

from lexbench import registry
from lexbench.errors import CannotStart, CommandError, InvalidFile, LexbenchError, MissingData, UnknownName
from lexbench.notation import Call
from lexbench.storage.reading import Strict, read_toml
from lexbench.storage.store import readable_bytes

_OWN = Path(__file__).parent
_VARIABLE = "LEXBENCH_MODELS"
_WHERE = {"public": "the id on the hub", "included": "their folder, beside this file"}
_INSIDE = "model.safetensors"
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
    """One figure that others have printed for exactly these weights."""

    dataset: str  # its contract's id
    measure: str  # in ir-measures' notation
    value: Annotated[float, Meta(ge=0, le=1)]
    source: Annotated[str, Meta(min_length=1)]  # who printed it
    where: Annotated[str, Meta(min_length=1)]  # the table, or the file with its commit


class Model(Strict, frozen=True, kw_only=True):
    """One preset, known checkpoint or published system; what has neither *encoder* nor *system* cannot be run."""

    schema: Literal[1]  # of this file's format
    name: str  # the file's
    summary: str
    named: tuple[str, ...] = ()  # what the LexMAE paper calls it, in its tables and elsewhere
    encoder: str = ""  # a plug-in of the group `encoders`, or `rerankers`
    system: str = ""  # what is typed, in the notation of parts, for what is neither
    family: Family
    # Beside this file; on the hub; the user's own, or files; never released, or of no use here; a system without any.
    weights: Literal["included", "public", "bring", "none", "unneeded"]
    why: str = ""  # there is no settings.model, or something is asked; errors say it
    settings: dict[str, str | int | float | bool] = field(default_factory=dict)  # of the encoder; `model`: a hub id or folder
    asks: dict[str, str] = field(default_factory=dict)  # more settings that only a user can give: {query_model = "FOLDER"}
    titles: bool | None = None  # whether passages had their titles in training
    license: str = ""  # of the weights
    data: str = ""  # that they were trained on
    source: str  # where the weights, or failing these the code, are
    paper: str
    note: str = ""
    published: tuple[Published, ...] = ()

    def __post_init__(self) -> None:
        """Refuse, by ValueError, what would leave a user without weights or without the reason."""
        if self.encoder and self.system:
            raise ValueError("encoder and system exclude each other")
        if not self.encoder and (self.settings or self.asks):
            raise ValueError("settings are those of an encoder, and none is named")
        if self.weights in _WHERE and self.encoder and "model" not in self.settings:
            raise ValueError(f'weights = "{self.weights}" needs settings.model, {_WHERE[self.weights]}')
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
        given = ", ".join(f'{setting}="{value}"' for setting, value in self.asked.items())
        return f"{self.name}({given})" if given else self.name

    @property
    def asked(self) -> dict[str, str]:
        """The settings that a user must give, and what each is."""
        return ({} if "model" in self.settings else {"model": "FOLDER"}) | self.asks

    @property
    def run(self) -> str:
        """What is given to `-r`: with an engine, or after BM25; "" for what cannot be run."""
        if self.encoder and self.family == "reranker":
            return f"rerank(bm25, {self.typed}, k=100)"
        impact = self.encoder and self.family in _SPARSE  # others: the exact engine of their kind, which needs no name
        return f"{self.typed}@impact" if impact else self.typed


def names() -> list[str]:
    """Return the names of all models, sorted; their files are not read."""
    return sorted(_files())


def model(name: str) -> Model:
    """Return a model; UnknownName, or InvalidFile where its file does not read or the name is taken."""
    found = _files()
    if name not in found:
        raise UnknownName("model", name, found, see="lexbench list models")
    path, *others = found[name]
    if others:
        raise InvalidFile(f"two files for the model {name!r}: {path} and {others[0]}; rename one of them")
    if name in {*registry.names("encoders"), *registry.names("retrievers")}:
        raise InvalidFile(f"{path}: {name!r} is the name of a plug-in; give the file another")
    if not name.isidentifier():
        raise InvalidFile(f"{path}: {name!r} cannot be typed as a name; use letters, digits and _ in the file's name")
    read = read_toml(path, Model)
    if read.name != name:
        raise InvalidFile(f"{path}: the name is {read.name!r}, and the file's is {name!r} - at `$.name`")
    if read.weights == "included":  # beside the file as it is found, wherever it was installed
        return replace(read, settings={**read.settings, "model": str(path.parent / str(read.settings["model"]))})
    return read


def listing() -> dict[str, Model | LexbenchError]:
    """Return every model by name, sorted, or the error that reading it gives."""
    found: dict[str, Model | LexbenchError] = {}
    for name in names():
        try:
            found[name] = model(name)
        except LexbenchError as error:
            found[name] = error
    return found


def command(found: Model) -> str:
    """Return a line that runs a model, ready for a shell: on BEIR, or on documents if it is one for these; "" if none does."""
    documents = found.published and all(one.dataset.startswith("msmarco-document/") for one in found.published)
    return f"lexbench run suite {'msmarco_doc' if documents else 'beir'} -r {shlex.quote(found.run)}" if found.run else ""


def included(found: Model) -> dict[str, Any]:
    """Return what is known of weights that lie beside a model's file: size and model card; {} for other models."""
    if found.weights != "included":
        return {}
    folder = Path(str(found.settings["model"]))
    if not (folder / _INSIDE).is_file():
        return {"here": False}
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"here": True, "size": readable_bytes(size), "card": str(folder / "README.md")}


def expand(call: Call) -> Call:
    """Return the call of a plug-in that a model's name stands for, what *call* sets before what the file does.

    A name that is no model's comes back as it is. CommandError where a model is not given what it asks for, or is a system,
    which is typed otherwise; CannotStart where it cannot be run; MissingData where weights that belong beside its file are not
    there.
    """
    if call.name not in _files():
        return call
    found = model(call.name)
    if not found.encoder:
        raise _otherwise(found)
    given = dict(call.kwargs)
    if call.args:
        if "model" in found.settings or "model" in given or len(call.args) > 1 or not isinstance(call.args[0], str):
            alone = "" if "model" in found.settings else ", or the model alone"
            raise CommandError(f"{call}: {found.name} takes settings by name{alone}; see: lexbench show model {found.name}")
        given["model"] = call.args[0]
    settings = {**found.settings, **given}
    for setting, value in found.asked.items():
        if setting not in settings:
            raise CommandError(f'{found.name} needs {setting}="{value}": {found.why}; write {found.typed}')
    if found.weights == "included" and "model" not in given and not Path(str(settings["model"]), _INSIDE).is_file():
        raise MissingData(
            f"{found.name}: its weights are not in this copy of lexbench ({settings['model']} has no {_INSIDE}); install the "
            f'whole package again, or write {found.name}(model="FOLDER")'
        )
    return Call(found.encoder, kwargs=tuple(sorted(settings.items())))


def _otherwise(found: Model) -> LexbenchError:
    """Return what says what to type instead of the name of a system, or why there is nothing."""
    if not found.system:
        return CannotStart(f"{found.name} cannot be run: {found.why}; see: lexbench show model {found.name}")
    return CommandError(f"{found.name} is made of parts: type {found.system}" + (f"; {found.why}" if found.why else ""))


def _files() -> dict[str, list[Path]]:
    """Return the files of each name: one, unless somebody has made a mistake."""
    asked = [Path(part).expanduser() for part in os.environ.get(_VARIABLE, "").split(os.pathsep) if part]
    for folder in asked:
        if not folder.is_dir():
            raise CommandError(f"{_VARIABLE} names {folder}, which is no folder; correct it, or unset {_VARIABLE}")
    found: dict[str, list[Path]] = {}
    for folder in dict.fromkeys(path.resolve() for path in (_OWN, *_plugged_in(), *asked)):
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, []).append(path)
    return found


@cache
def _plugged_in() -> tuple[Path, ...]:
    return tuple(_folder(entry) for entry in entry_points(group="lexbench.models"))


def _folder(entry: EntryPoint) -> Path:
    """Return the folder of the module that *entry* names, which is not imported."""
    try:
        spec = find_spec(entry.module)
    except Exception as error:  # the package around it is imported, and its mistake is no reason for a traceback of ours
        raise CannotStart(f"models of plug-in {entry.name!r} do not load: {type(error).__name__}: {error}") from error
    places = [*(spec.submodule_search_locations or []), spec.origin and str(Path(spec.origin).parent)] if spec else []
    if not places or not places[0]:
        raise CannotStart(f"models of plug-in {entry.name!r} do not load: there is no module {entry.module}")
    return Path(places[0])
