"""From an expression that a user types, or an object that a program gives, to a system that the harness can run.

`system` makes one system, and `variants` splits an expression with lists into several.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from lexbench import catalog, notation, registry
from lexbench.artifacts.describe import describe, is_lasting, remember_name, short_name
from lexbench.artifacts.turns import rerankers
from lexbench.errors import CannotStart, CommandError, LexbenchError, MissingExtra, NotationError, UnknownName, with_meaning
from lexbench.models.checkpoint import ADAPTER, CONFIG, MODULES, no_model
from lexbench.notation import Call, Expression, Value, parse
from lexbench.plugins import Encoder, Engine, Model, Retriever, Transform
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.adapters import adapted
from lexbench.runner.object_encoders import name_of
from lexbench.runner.repairs import of_hub, repaired
from lexbench.storage.artifact_folder import KeyFacts
from lexbench.storage.reading import check_data, unpacking
from lexbench.trec.runs import typed_run
from lexbench.types import Kind

_OF_MODELS = (".safetensors", ".bin", ".pt", ".pth", ".onnx", ".gguf", ".h5", ".ckpt", ".msgpack")  # endings of weights
_EXACT = {Kind.SPARSE: "csr", Kind.DENSE: "flat", Kind.MULTI: "maxsim"}  # the engine of an encoder that names none


@dataclass(frozen=True)
class System:
    """One system to be measured."""

    name: str  # shown in tables: given by the user, or else the expression
    retriever: Retriever
    recipe: KeyFacts  # everything about it that can change its answers
    expression: str | None = None  # what a command line types for it; None for an object
    imported_from: str = ""  # the module:name that a command line types for an object

    @property
    def alias_of(self) -> str:
        """The expression or module:name that the user's name stands for; "" if they are the same, or there is none."""
        typed = self.expression or self.imported_from
        return typed if typed != self.name else ""

    @property
    def definition(self) -> str:
        """What a command line types, with the user's name before it if there is one; "" for the object of a program."""
        return f"{self.name} = {self.alias_of}" if self.alias_of else self.expression or self.imported_from

    @property
    def reusable(self) -> bool:
        """Whether another session can know that it is the same system."""
        return is_lasting(self.recipe)

    def for_dataset(self, dataset: str) -> "System":
        """Return the system as it is on the dataset with this id: models may have another prompt for each."""

        def changed(plugin: Any) -> Any:
            new = plugin.for_dataset(dataset) if isinstance(plugin, Model) else plugin
            if new is not plugin and isinstance(plugin, Encoder):
                remember_name(new, short_name(plugin))
            return new

        retriever = registry.replace_plugins(self.retriever, changed)
        return self if retriever is self.retriever else replace(self, retriever=retriever, recipe=describe(retriever))


def system(given: Any, name: str | None = None, imported_from: str = "") -> System:
    """Return the system of an expression, a retriever, or an encoder object; tables call it *name* if that is given.

    *imported_from* is the module:name that was typed for an object.

    Raises CommandError or CannotStart, in one line, for everything that can be known before work starts.
    """
    if isinstance(given, str):
        expression = parse(given)
        retriever = resolve(expression)
        return System(name or str(expression), retriever, describe(retriever), str(expression))
    plugin = adapted(given)
    if isinstance(plugin, Encoder):
        plugin = Encoded(plugin, registry.create("engines", Call(_EXACT[plugin.kind])).for_metric(plugin.metric))
    return System(name or imported_from or name_of(given), plugin, describe(plugin), imported_from=imported_from)


def imported(text: str, folder: Path = Path()) -> Any:
    """Return the object `module:name`. Modules in *folder* can be imported. Raises CannotStart if the import fails."""
    if str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    try:
        return resolve_name(text)
    except Exception as error:  # any mistake of the user's module becomes one line
        raise CannotStart(f"{text} cannot be imported: {type(error).__name__}: {error}") from error


# ---- several systems in one expression -------------------------------------------------------------------------------------


def named_systems(text: str) -> list[tuple[str | None, str]]:
    """Return the name, if any, and the expression of each system in *text*, e.g. 'tuned = bm25(k1=0.8)' or a path.

    Raises CommandError if one name is given to several systems.
    """
    name, expression = notation.split_name(text)
    found = _variants_of(expression, text)
    if name and len(found) > 1:
        raise CommandError(f"{name!r} would be the name of {len(found)} systems, e.g. {found[0]}; give each its own name")
    return [(name or None, one) for one in found]


def _variants_of(text: str, whole: str) -> list[str]:
    """Return the expressions in *text*, a typed expression or path. Raises CommandError with what it may mean.

    *whole* is the text with its name; what looks like a name may be a part of a malformed expression.
    """
    heads = {*retrievers(), *registry.names("retrievers"), *registry.names("encoders"), *catalog.names()}
    if not Path(text).exists() and (meant := of_hub(text)):
        raise with_meaning(NotationError(f"{text} is no expression; for the model of the hub, write: {meant}"), text, meant)
    try:
        found = variants(_as_expression(text))
    except NotationError as error:
        for typed in (text, whole):
            if meant := repaired(typed, heads):
                raise with_meaning(NotationError(f"{error}; did you mean {meant}"), typed, meant) from None
        raise
    if any(parse(one).head.name not in heads for one in found) and (meant := repaired(text, heads)):
        raise UnknownName("system", text, (), see="lexbench list systems", meant=meant)
    return found


def _as_expression(text: str) -> str:
    """Return the expression of the run file, or of the model in the folder, whose path was typed; other texts as they are."""
    if not text.strip():
        raise CommandError("a system is empty; write e.g. -r bm25")
    path, written = Path(text).expanduser(), notation.write_value(text)
    if text.startswith(("http://", "https://")):
        raise CommandError(f"{text} is an address; to ask it as a search server, write: url({written})")
    if program := re.fullmatch(r"(?:python3? )?([^()\"']+\.py)(:\w+)?", text):
        function = f"{Path(program[1]).stem}{program[2] or ':FUNCTION'}"
        raise CommandError(
            f"""{text} is Python; type -r {function} in its folder, or as a program: -r 'command("python {program[1]}")'"""
        )
    if text.startswith(("/", "./", "../", "~")) and not path.exists():
        raise CommandError(f"no file or folder {text}; give a run file, the folder of a model, or an expression such as bm25")
    if (file := typed_run(path)[0]).is_file() or file.is_fifo():
        _check_run_file(file)
        return f"run_file({written})"
    if not path.is_dir() or (path.name == text and text in {*retrievers(), *registry.names("encoders"), *catalog.names()}):
        return text
    from lexbench.models.stated_settings import expression_of_folder, stated_object

    if not is_model_folder(path):
        raise CommandError(f"{no_model(path)}, or an expression such as bm25")
    if expression := expression_of_folder(path):
        return expression
    if hint := stated_object(path):
        raise CommandError(f"{text}: lexbench does not compute its modules; {hint}")
    raise CommandError(
        f"the files in {text} do not say what model it is; type sparse_mlm(model={written})@impact, dense(model={written}), or "
        f"late_interaction(model={written})"
    )


def _check_run_file(file: Path) -> None:
    """Raise CommandError if a *file* is packed, or one of the files of a model, and InvalidFile if it has no data to read."""
    check_data(file)
    if command := unpacking(file):
        raise CommandError(f"{file} is packed; type: {command}; then give the run file, or the folder of the model, in it")
    if file.suffix in _OF_MODELS or (file.name in (CONFIG, MODULES) and is_model_folder(file.parent)):
        raise CommandError(f"{file} is a file of a model; give the folder that it is in")


def is_model_folder(path: Path) -> bool:
    """Whether *path* is a folder with a model of transformers, sentence-transformers or ColBERT."""
    return any((path / name).is_file() for name in (CONFIG, MODULES, ADAPTER, "artifact.metadata"))


def variants(text: str) -> list[str]:
    """Return the expressions in *text*: one for each value of a list given to a transform, e.g. top_k([64, 32])."""
    return [str(expression) for expression in _variants(parse(text))]


def _variants(expression: Expression) -> list[Expression]:
    # Lists are alternatives in transforms alone; in the head they are settings, which may hold expressions.
    heads = _choices(expression.head, lambda value: _variants(value) if isinstance(value, Expression) else [value])
    choices = [_choices(call, lambda value: value if isinstance(value, tuple) else [value]) for call in expression.transforms]
    return [replace(expression, head=head, transforms=tuple(transforms)) for head, *transforms in product(heads, *choices)]


def _choices(call: Call, values_of: Callable[[Value], Sequence[Value]]) -> list[Call]:
    """Return *call* once for each combination of what *values_of* returns for its values."""
    names = [name for name, _ in call.kwargs]
    values = [values_of(value) for value in (*call.args, *(value for _, value in call.kwargs))]
    if not all(values):
        raise CommandError(f"{call}: an empty list names no system; give a value, e.g. {call.name}(64)")
    by_place = len(call.args)
    rows = product(*values)
    return [Call(call.name, row[:by_place], tuple(zip(names, row[by_place:], strict=True))) for row in rows]


# ---- from an expression to a retriever -------------------------------------------------------------------------------------


def resolve(expression: Expression) -> Retriever:
    """Return the retriever of *expression*, with names, settings, kinds and extras checked."""
    name = expression.head.name
    if _is_reranker(expression):
        raise CommandError(f"{name} is a reranker; write rerank(bm25, {expression}, k=100)")
    if name in registry.names("encoders") or name in catalog.names():
        return _encoded(expression)
    if expression.transforms:
        raise CommandError(f"{expression}: {name} is no encoder, so it has no vectors for |{expression.transforms[0]}")
    if name not in registry.names("retrievers"):
        known = [*retrievers(), *registry.names("encoders"), *catalog.names()]
        raise UnknownName("retriever, encoder or model", name, known, see="lexbench list systems")
    call = expression.head if expression.engine is None else _on_engine(expression.head, expression.engine)
    shown = f"{name}@{expression.engine.name}" if expression.engine else ""
    settings = {item.name for item in fields(registry.load("retrievers", call.name, shown))}
    if "reranker" in settings:
        call = _with_reranker(call)
    elif "members" in settings:
        call = _with_members(call)
    retriever: Retriever = registry.create("retrievers", call, shown)
    return retriever


def _with_members(call: Call) -> Call:
    """Return the call of a retriever with members, with the members resolved."""
    listed = [value for value in call.args if isinstance(value, Expression)]
    if len(listed) < len(call.args) or "members" in dict(call.kwargs):
        raise CommandError(f"{call}: {call.name} takes retrievers, then settings by name, e.g. {call.name}(bm25, bm25(k1=2.0))")
    members: Any = tuple(map(resolve, listed))
    return replace(call, args=(members,))


def _with_reranker(call: Call) -> Call:
    """Return the call of a reranking retriever, with its first retriever and its reranker resolved."""
    if len(call.args) != 2 or not all(isinstance(value, Expression) for value in call.args):  # noqa: PLR2004 - a pair
        raise CommandError(
            f"{call}: {call.name} takes a retriever and a reranker, then settings by name, "
            f'e.g. {call.name}(bm25, cross_encoder(model="FOLDER"), k=100)'
        )
    retriever, reranker = (value for value in call.args if isinstance(value, Expression))
    if not _is_reranker(reranker):
        raise _no_reranker(call, retriever, reranker.head)
    if reranker.transforms or reranker.engine:
        raise CommandError(f"{call}: a reranker has no vectors; write {reranker.head} alone")
    args: Any = (resolve(retriever),), registry.create("rerankers", catalog.expand(reranker.head))
    return replace(call, args=args)


def _is_reranker(expression: Expression) -> bool:
    """Whether *expression* names a reranker, or a model of one."""
    name, known = expression.head.name, registry.names("rerankers")
    return name in known or (name in catalog.names() and catalog.model(name).encoder in known)


def _no_reranker(call: Call, retriever: Expression, head: Call) -> LexbenchError:
    """Return the error for a second argument of `rerank` that is no reranker."""
    if head.name in catalog.names() and not catalog.model(head.name).encoder:
        catalog.expand(head)  # raises: it knows why the model cannot be run, or what to type instead
    known = registry.names("rerankers")
    if head.name not in {*registry.names("encoders"), *registry.names("retrievers"), *catalog.names()}:
        see = "lexbench list systems"
        return UnknownName("reranker or model", head.name, [*known, *catalog.names()], see=see)
    return CommandError(
        f"{call}: {head.name} is no reranker ({', '.join(known)}); to let it score what {retriever.head.name} "
        f"found, write pipeline({retriever}, {head}, weights=[0, 1])"
    )


def retrievers() -> dict[str, str]:
    """Return the retriever plug-ins by what a user types, e.g. `bm25@lucene` for `bm25_lucene`."""
    names = _typed_retrievers()
    bases = {name: next((base for base in names if name.startswith(f"{base}_")), None) for name in names}
    return {f"{base}@{name.removeprefix(f'{base}_')}" if base else name: name for name, base in bases.items()}


def _typed_retrievers() -> list[str]:
    """Return the retriever plug-ins that can be typed: all but `encoded`, which `encoder@engine` makes."""
    return [name for name in registry.names("retrievers") if name != "encoded"]


def _on_engine(head: Call, engine: Call) -> Call:
    """Return the call of the plug-in that is the retriever *head* on *engine*: `bm25@lucene` is `bm25_lucene`."""
    name = f"{head.name}_{engine.name}"
    if name not in registry.names("retrievers"):
        known = [other.removeprefix(f"{head.name}_") for other in _typed_retrievers() if other.startswith(f"{head.name}_")]
        raise UnknownName(f"{head.name} on engine", engine.name, known)
    return Call(name, head.args, tuple(sorted({**dict(head.kwargs), **dict(engine.kwargs)}.items())))


def _encoded(expression: Expression) -> Encoded:
    """Return the retriever of `encoder|transform@engine`."""
    named_engine = _engine(expression.engine) if expression.engine else None  # first: its errors need no model
    head = catalog.expand(expression.head)
    kind: Kind = registry.load("encoders", head.name, expression.head.name).kind
    engine = (named_engine or registry.create("engines", Call(_EXACT[kind]))).for_kind(kind)
    if engine.kind is not kind:
        fitting = [name for name in registry.names("engines") if _takes(name, kind)]
        raise CommandError(
            f"{expression}: {expression.engine} takes {engine.kind} vectors; {expression.head.name} makes {kind} ones. "
            f"Engines that take {kind}: {', '.join(fitting)}"
        )
    transforms = [registry.create("transforms", call) for call in expression.transforms]
    for call, transform in zip(expression.transforms, transforms, strict=True):
        if kind not in (transform.kinds or (transform.kind,)):
            raise CommandError(f"{expression}: {call} takes {transform.kind} vectors; {expression.head.name} makes {kind} ones")
    _check_codes(expression, transforms, engine)
    encoder = registry.create("encoders", head)  # last: a checkpoint may have to be fetched
    first, then = inserted(transforms, impacts=engine.impacts, query_idf=encoder.query_idf)
    transforms = [*(registry.create("transforms", call) for call in first), *transforms]
    transforms += [registry.create("transforms", call) for call in then]
    remember_name(encoder, expression.head.name)
    if encoder.metric != "dot" and any(transform.codes for transform in transforms):
        raise CommandError(f"{expression}: codes are compared by dot product, and the model states {encoder.metric}")
    return Encoded(encoder, engine.for_metric(encoder.metric), tuple(transforms))


def inserted(transforms: Sequence[Any], *, impacts: bool, query_idf: float) -> tuple[list[Call], list[Call]]:
    """Return the transforms of sparse vectors that come before and after the typed *transforms* without being typed.

    *impacts*: the engine adds whole numbers. *query_idf* is the setting of the encoder.
    """
    first = [Call("collection_idf", (query_idf,))] if query_idf and not any(one.uses_collection for one in transforms) else []
    return first, [Call("quantize")] if impacts and not any(one.impacts for one in transforms) else []


def _check_codes(expression: Expression, transforms: Sequence[Transform], engine: Engine) -> None:
    """Raise CommandError if a transform does not take the codes of the one before it, or the engine those of the last."""
    codes, before = "", ""
    for call, transform in zip(expression.transforms, transforms, strict=True):
        if codes not in transform.takes:
            raise CommandError(f"{expression}: {call} takes vectors, and {before} makes codes of them; write |{call}|{before}")
        codes, before = transform.codes or codes, str(call)
    name = expression.engine.name if expression.engine else type(engine).__name__.lower()
    if codes and codes not in engine.codes:
        raise CommandError(f"{expression}: {name} takes vectors, and {before} makes codes of them; write |{before}@flat")
    if engine.rescore and not codes:
        raise CommandError(
            f"{expression}: rescore={engine.rescore} scores the candidates that codes find again, and there are none; "
            f"write |binary@{name}(rescore={engine.rescore}), or leave it out"
        )


def _engine(call: Call) -> Engine:
    """Return the engine of *call*, also with engines as settings, e.g. sharded(impact)."""

    def resolved(value: Value) -> Any:
        return _engine(value.head) if isinstance(value, Expression) else value

    args, kwargs = tuple(map(resolved, call.args)), tuple((name, resolved(value)) for name, value in call.kwargs)
    engine: Engine = registry.create("engines", replace(call, args=args, kwargs=kwargs))
    return engine


def _takes(engine: str, kind: Kind) -> bool:
    """Whether an engine takes vectors of that kind; False if its extra is not installed."""
    try:
        plugin = registry.load("engines", engine)
    except MissingExtra:
        return False
    return plugin.kind is kind or kind in plugin.kinds


# ---- what a system is made of ----------------------------------------------------------------------------------------------


def leaves(retriever: Retriever) -> Iterator[Retriever]:
    """Yield the retrievers that *retriever* is made of in the end: itself, unless it has members."""
    if not retriever.members:
        yield retriever
    for member in retriever.members:
        yield from leaves(member)


def encoded_leaves(retriever: Retriever) -> Iterator[Encoded]:
    """Yield the leaves that search an encoder's vectors."""
    return (leaf for leaf in leaves(retriever) if isinstance(leaf, Encoded))


def trained_members(retriever: Retriever) -> Iterator[Model]:
    """Yield everything in *retriever* that may have been trained: encoders, rerankers, and other retrievers."""
    for leaf in leaves(retriever):
        yield leaf.encoder if isinstance(leaf, Encoded) else leaf
    yield from rerankers(retriever)


def weight_bytes(retriever: Retriever) -> int:
    """Return the bytes of all files of trained weights that *retriever* uses, each once."""
    files: dict[str, int] = {}
    for member in trained_members(retriever):
        files |= member.weight_files()
    return sum(files.values())


def model_name(encoder: Model) -> str:
    """Return the name or folder of an encoder's model, or the name of its class."""
    return next(iter(encoder.models()), type(encoder).__name__)
