"""From what a user names, or hands over, to a system that the harness can run."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any
from uuid import uuid4
from weakref import ref

from lexbench import catalog, registry
from lexbench.errors import CommandError, MissingExtra, UnknownName
from lexbench.notation import Call, Part, parse
from lexbench.plugins import Encoder, Engine, Executor, Model, Retriever
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.adapters import Adapted, adapted, digests
from lexbench.storage.store import Recipe
from lexbench.types import Kind

_EXACT = {
    Kind.SPARSE: "csr",
    Kind.DENSE: "flat",
    Kind.MULTI: "maxsim",
}  # what searches the vectors of an encoder that names no engine
_SESSION = "only in this session"
_typed: dict[Any, str] = {}  # by encoder, which two systems may have named
_sessions: dict[int, tuple[Callable[[], object], str]] = {}


@dataclass(frozen=True)
class System:
    """One thing to be measured."""

    label: str  # how tables call it: as it was named
    retriever: Retriever
    recipe: Recipe  # everything about it that can change its answers
    text: str | None = None  # in the notation of parts, where it was given so: what a command line would name it by

    @property
    def notation(self) -> str:
        """The notation that a name stands for; "" where tables call it by its notation, or where it has none."""
        return self.text if self.text and self.text != self.label else ""

    @property
    def typed(self) -> str | None:
        """What a command line names it by, its name with it; None for an object of the user's."""
        return f"{self.label} = {self.text}" if self.notation else self.text

    @property
    def reusable(self) -> bool:
        """Whether another session can know that it is the same system."""
        return reusable(self.recipe)


def system(named: Any, label: str | None = None) -> System:
    """Return the system that is *named*: a text in the notation of parts, a retriever, or an encoder object.

    Raises CommandError or CannotStart, in one line, for everything that can be known before work starts.
    """
    if not isinstance(named, str):
        retriever = _of_object(named)
        return System(label or str(getattr(named, "name", type(named).__name__)), retriever, describe(retriever))
    part = parse(named)
    retriever = resolve(part)
    return System(label or str(part), retriever, describe(retriever), str(part))


def resolve(part: Part) -> Retriever:
    """Return the retriever that *part* names, its names, settings, kinds and extras checked."""
    if _is_reranker(part):
        raise CommandError(f"{part}: {part.head.name} is a reranker; write rerank(bm25, {part}, k=100)")
    if part.head.name in registry.names("encoders") or part.head.name in catalog.names():
        return _encoded(part)
    if part.transforms:
        raise CommandError(f"{part}: {part.head.name} is no encoder, so it has no vectors for |{part.transforms[0]}")
    if part.head.name not in registry.names("retrievers"):
        known = [*retrievers(), *registry.names("encoders"), *catalog.names()]
        raise UnknownName("retriever, encoder or model", part.head.name, known, see="lexbench list retrievers, or models")
    call = part.head if part.engine is None else _on_engine(part.head, part.engine)
    typed = f"{part.head.name}@{part.engine.name}" if part.engine else ""
    plugin = registry.load("retrievers", call.name, typed)
    if any(item.name == "reranker" for item in fields(plugin)):
        call = _of_reranking(call)
    elif any(item.name == "members" for item in fields(plugin)):
        call = _of_retrievers(call)
    retriever: Retriever = registry.create("retrievers", call, typed=typed)
    return retriever


def _of_retrievers(call: Call) -> Call:
    """Return the call of a retriever that is made of retrievers, these resolved."""
    listed = [value for value in call.args if isinstance(value, Part)]
    if len(listed) < len(call.args) or "members" in dict(call.kwargs):
        raise CommandError(
            f"{call}: {call.name} takes retrievers, then settings by name, as in {call.name}(bm25, bm25(k1=2.0))"
        )
    members: Any = tuple(map(resolve, listed))
    return replace(call, args=(members,))


def _of_reranking(call: Call) -> Call:
    """Return the call of a retriever that reranks what another finds, this and the reranker resolved."""
    if len(call.args) != 2 or not all(isinstance(value, Part) for value in call.args):  # noqa: PLR2004 - a pair
        raise CommandError(
            f"{call}: {call.name} takes a retriever and a reranker, then settings by name, "
            f'as in {call.name}(bm25, cross_encoder(model="FOLDER"), k=100)'
        )
    retriever, reranker = (value for value in call.args if isinstance(value, Part))
    if not _is_reranker(reranker):
        if (name := reranker.head.name) in catalog.names() and not catalog.model(name).encoder:
            catalog.expand(reranker.head)  # says why it cannot be run, or what to type for it
        known = registry.names("rerankers")
        if reranker.head.name not in {*registry.names("encoders"), *registry.names("retrievers"), *catalog.names()}:
            named = [*known, *catalog.names()]
            raise UnknownName("reranker or model", reranker.head.name, named, see="lexbench list rerankers, or models")
        raise CommandError(
            f"{call}: {reranker.head.name} is no reranker ({', '.join(known)}); to let it score what {retriever.head.name} "
            f"found, write pipeline({retriever}, {reranker}, weights=[0, 1])"
        )
    if reranker.transforms or reranker.engine:
        raise CommandError(f"{call}: a reranker has no vectors; write {reranker.head} alone")
    args: Any = (resolve(retriever),), registry.create("rerankers", catalog.expand(reranker.head))
    return replace(call, args=args)


def _is_reranker(part: Part) -> bool:
    """Whether *part* names a reranker, or a model of one."""
    name, known = part.head.name, registry.names("rerankers")
    return name in known or (name in catalog.names() and catalog.model(name).encoder in known)


def leaves(retriever: Retriever) -> Iterator[Retriever]:
    """Yield the retrievers that *retriever* is made of in the end: itself, unless it is made of retrievers."""
    if not retriever.members:
        yield retriever
    for member in retriever.members:
        yield from leaves(member)


def _retrievers() -> list[str]:
    """Return the plug-ins that can be named; an `encoded` is what `encoder@engine` makes."""
    return [name for name in registry.names("retrievers") if name != "encoded"]


def retrievers() -> dict[str, str]:
    """Return the plug-ins by what a user types for them: `bm25@lucene` for `bm25_lucene`, which is `bm25` on another engine."""
    names = _retrievers()
    bases = {name: next((base for base in names if name.startswith(f"{base}_")), None) for name in names}
    return {f"{base}@{name.removeprefix(f'{base}_')}" if base else name: name for name, base in bases.items()}


def _on_engine(head: Call, engine: Call) -> Call:
    """Return the call of the retriever *head* as it is written for *engine*: `bm25@lucene` is the plug-in `bm25_lucene`."""
    name = f"{head.name}_{engine.name}"
    if name not in registry.names("retrievers"):
        engines = [other.removeprefix(f"{head.name}_") for other in _retrievers() if other.startswith(f"{head.name}_")]
        raise UnknownName(f"{head.name} on engine", engine.name, engines)
    return Call(name, head.args, tuple(sorted({**dict(head.kwargs), **dict(engine.kwargs)}.items())))


def _encoded(part: Part) -> Encoded:
    head = catalog.expand(part.head)
    kind: Kind = registry.load("encoders", head.name, typed=part.head.name).kind
    engine = _engine(part.engine or Call(_EXACT[kind]))
    if engine.kind is not kind:
        fitting = [name for name in registry.names("engines") if _takes(name, kind)]
        raise CommandError(
            f"{part}: {part.engine} takes {engine.kind} vectors; {part.head.name} makes {kind} ones. "
            f"Engines that take {kind}: {', '.join(fitting)}"
        )
    transforms = [registry.create("transforms", call) for call in part.transforms]
    for call, transform in zip(part.transforms, transforms, strict=True):
        if transform.kind is not kind:
            raise CommandError(f"{part}: {call} takes {transform.kind} vectors; {part.head.name} makes {kind} ones")
    whole = any(transform.impacts for transform in transforms)
    if engine.impacts and not whole:
        transforms.append(registry.create("transforms", Call("quantize")))  # the engine adds whole numbers
    encoder = registry.create("encoders", head)  # last: a checkpoint may have to be fetched
    with suppress(TypeError):  # of a setting that has no hash
        _typed[encoder] = part.head.name
    return Encoded(encoder, engine, tuple(transforms))


def typed_name(encoder: Encoder) -> str:
    """Return what a user typed for *encoder*, as lexmae_nano; of an object that was handed over its class."""
    with suppress(KeyError, TypeError):
        return _typed[encoder]
    return type(encoder).__name__


def _engine(call: Call) -> Any:
    """Return the engine that *call* names, with the engines that are its settings, as in sharded(impact)."""
    args: Any = tuple(_engine(value.head) if isinstance(value, Part) else value for value in call.args)
    kwargs: Any = tuple((name, _engine(value.head) if isinstance(value, Part) else value) for name, value in call.kwargs)
    return registry.create("engines", replace(call, args=args, kwargs=kwargs))


def _takes(engine: str, kind: Kind) -> bool:
    """Whether an engine takes vectors of that kind; one whose extra is not installed is not asked."""
    try:
        return bool(registry.load("engines", engine).kind is kind)
    except MissingExtra:
        return False


def _of_object(item: Any) -> Retriever:
    """Return a retriever for a user's object: an encoder gets the exact engine of its kind of vectors."""
    plugin = adapted(item)
    return Encoded(plugin, registry.create("engines", Call(_EXACT[plugin.kind]))) if isinstance(plugin, Encoder) else plugin


def describe(plugin: Any, *, index: bool = False) -> Any:
    """Return what decides the answers of *plugin*, as JSON values: its code's name and version, its settings, its files.

    With *index*, what decides its index alone. An object that is no
    frozen dataclass and has no `identity()` gets a new description in every session, so that its results are never taken for
    those of another object of the same name.
    """
    if isinstance(plugin, tuple | list):
        return [describe(item, index=index) for item in plugin]
    if isinstance(plugin, Mapping):
        return {str(name): describe(value, index=index) for name, value in plugin.items()}
    if plugin is None or isinstance(plugin, bool | int | float | str):
        return plugin
    if isinstance(plugin, Adapted):
        return describe(plugin.wrapped, index=index)
    description = {"plugin": registry.identity(type(plugin)), "version": getattr(plugin, "version", 1)}
    files = digests(plugin, index=index)
    if is_dataclass(plugin) and fields(plugin):
        description["settings"] = describe(registry.settings(plugin, index=index), index=index)
    elif not files and not is_dataclass(plugin):
        description[_SESSION] = _session(plugin)
    if files:  # of none: bm25 without expansions has the key that it always had
        description["identity"] = files
    return description


def _session(plugin: object) -> str:
    """Return the same new text for the same object, as long as it lives; equal objects are not the same."""
    held, text = _sessions.get(id(plugin), (None, ""))
    if held is None or held() is not plugin:
        try:
            held = ref(plugin)
        except TypeError:  # it has slots and no place for weak references
            held = lambda: plugin  # noqa: E731
        text = uuid4().hex
        _sessions[id(plugin)] = held, text
    return text


def learned_parts(retriever: Retriever) -> Iterator[Any]:
    """Yield what may have learned something: encoders, rerankers, and retrievers that are neither."""
    for leaf in leaves(retriever):
        yield leaf.encoder if isinstance(leaf, Encoded) else leaf
    yield from rerankers(retriever)


def rerankers(retriever: Any) -> Iterator[Any]:
    """Yield the rerankers of *retriever* and of its parts."""
    if retriever.reranker:
        yield retriever.reranker
    for member in retriever.members:
        yield from rerankers(member)


def on_workers(retriever: Any, executor: Executor, note: Callable[[str], None]) -> Any:
    """Return *retriever* with engines that the workers of *executor* build and search; itself where it has no such engine."""
    return registry.everywhere(
        retriever, lambda plugin: plugin.on_workers(executor, note) if isinstance(plugin, Engine) else plugin
    )


def model_name(encoder: Model) -> str:
    """Return the name or folder of an encoder's model, or the name of its class."""
    return next(iter(encoder.models()), type(encoder).__name__)


def weights(retriever: Retriever) -> int:
    """Return the bytes of all files of trained weights that a retriever is made from, each once."""
    files: dict[str, int] = {}
    for part in learned_parts(retriever):
        files |= part.weight_files()
    return sum(files.values())


def reusable(recipe: Recipe) -> bool:
    """Whether *recipe* says all: an object from a notebook can change without anyone knowing."""
    return _SESSION not in str(recipe)
