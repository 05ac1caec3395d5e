"""Whether a result can come from the system that it names: its recipe, its measures, and what its models had seen.

Plug-ins that are not installed here, e.g. those of another person, cannot be checked, and their results are accepted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any

from lexbench import catalog, registry
from lexbench.artifacts.describe import describe
from lexbench.contracts import Contract
from lexbench.errors import CannotStart, LexbenchError, NotationError, UnknownName, shortened
from lexbench.measures import parse as parse_measure
from lexbench.notation import PYTHON_OBJECT, Call, Expression, parse
from lexbench.plugins import CHOSEN_WEIGHTS, Engine, Model, Retriever
from lexbench.results import EXPOSURES, KEPT, Result, VectorSizes, kept_ids
from lexbench.runner.exposure import SEEN, UNKNOWN, leaf_calls, least_exposure
from lexbench.runner.systems import inserted, retrievers
from lexbench.runner.timing_checks import impossible_date, impossible_machine
from lexbench.types import Kind

_ROUNDING = 1e-6
_SHOWN = 80  # characters of an expression
_RUN_FILE = "retrievers/run_file"  # scored without its corpus
_ENCODED = "retrievers/encoded"
_OF_ONE_INDEX = ("retrievers/bm25", "retrievers/bm25_lucene", _ENCODED)
_OF_MODELS = ("encoders", "rerankers")  # whose folders state settings


def contradictory_origin(result: Result) -> Iterator[str]:
    """Yield what a result says about its own origin that cannot be true, wherever it was made."""
    if result.exposure and result.exposure.status not in EXPOSURES:
        yield f"its exposure is {result.exposure.status!r}; known are: {', '.join(EXPOSURES)}"
    elif result.exposure and EXPOSURES.index(result.exposure.status) >= EXPOSURES.index(SEEN) and not result.exposure.because:
        yield f"its exposure is {result.exposure.status!r}, without a reason"
    if result.top or (result.lists and not result.seeds):
        yield from _faults_of_kept_lists(result)
    yield from _faults_of_sizes(result)
    if not result.seeds:
        yield from _missing_sizes(result)
    yield from impossible_machine(result.measured.machine)
    if result.measured.started and (fault := impossible_date(result.measured.started)):
        yield f"it was made on {fault}"


def _faults_of_kept_lists(result: Result) -> Iterator[str]:
    """Yield what is wrong with the documents that a result keeps, whatever was judged, or with what it says of its lists."""
    lists, said = [kept_ids(text) for text in result.top], result.lists
    empty = sum(not ids for ids in lists)
    if len(lists) != len(result.query_ids):
        yield f"it keeps the documents of {len(lists)} queries, and has {len(result.query_ids)}"
    elif max(map(len, lists), default=0) > min(KEPT, result.depth):
        yield f"it keeps more than {min(KEPT, result.depth)} documents of a query"
    elif any(len(set(ids)) < len(ids) for ids in lists):
        yield "it keeps a document twice for one query"
    elif not _are_ranks(result, lists):
        yield "the ranks of its relevant documents are not those of the documents that it keeps"
    elif empty != result.counts.missing:
        yield f"{empty} of its queries have no documents, and it counts {result.counts.missing}"
    elif said and said.same != max(Counter(text for text in result.top if text).values(), default=0):
        yield f"it says that {said.same} queries have the same list, which the documents that it keeps contradict"
    elif said and said.short != sum(0 < len(ids) < min(KEPT, said.judged) for ids in lists):
        yield f"it says that {said.short} queries have short lists, which the documents that it keeps contradict"


def _are_ranks(result: Result, lists: Sequence[Sequence[str]]) -> bool:
    """Return whether relevant documents, which have ranks on the user's own data, are at these ranks of the kept *lists*."""
    if result.counts.self_matches or result.counts.excluded:  # ranks are counted before documents are left out
        return True
    kept = dict(zip(result.query_ids, lists, strict=True))
    ranked = ((kept.get(query, []), name, rank) for query, ranks in result.ranks.items() for name, rank in ranks.items())
    return all(rank > len(ids) or (rank > 0 and ids[rank - 1] == name) for ids, name, rank in ranked)


def _faults_of_sizes(result: Result) -> Iterator[str]:
    """Yield sizes and counts of work that are no sizes of this index, or contradict each other."""
    documents, vectors, work = result.counts.documents, result.vectors, result.work
    index, corpus = result.sizes.get("index"), result.sizes.get("corpus")
    if result.recipe.get("plugin") in _OF_ONE_INDEX and index is not None and 8 * index < (documents or 0):
        yield f"its index has {index:,} bytes for {documents:,} documents"
    if corpus is not None and corpus < (documents or 0):  # each has an id, of a byte or more
        yield f"its corpus has {corpus:,} bytes for {documents:,} documents"
    spreads = [vectors.terms] if vectors else []
    for spread in [*spreads, *([work.query_terms, work.postings] if work else [])]:
        known = [spread[name] for name in ("p50", "p95", "max") if name in spread]
        if known != sorted(known) or not 0 <= spread.get("mean", 0) <= spread.get("max", spread.get("mean", 0)):
            yield "its counts of terms or postings are out of order"
        elif not _can_be_counts(spread):
            yield "its counts of terms or postings are those of no whole numbers"
    if vectors:
        yield from _faults_of_vectors(vectors, documents)
    if work and documents and "mean" in work.postings:
        flops = work.postings["mean"] / documents
        if work.flops is None or abs(work.flops - flops) > _ROUNDING * max(1.0, flops):
            yield f"it has {work.flops or 0:.4g} FLOPS, and its postings give {flops:.4g}"


def _missing_sizes(result: Result) -> Iterator[str]:
    """Yield sizes and counts that a result lacks, although it has others that are always written with them."""
    plugin, sizes, vectors = result.recipe.get("plugin", _RUN_FILE), result.sizes, result.vectors
    if result.counts.documents is None and plugin != _RUN_FILE:
        yield "it does not count its documents"
    if "index" in sizes and "corpus" not in sizes:
        yield "it has the bytes of its index, and not those of its corpus"
    if plugin not in _OF_ONE_INDEX or "corpus" not in sizes:  # without it, its index or its run had been removed
        return
    if "index" not in sizes and "elsewhere" not in stated_flags(result.recipe):
        yield "it has the bytes of its corpus, and not those of its index"
    if plugin == _ENCODED and (vectors is None or bool(vectors.terms) == bool(vectors.dimensions)):
        yield "it has no sizes of its vectors"
    if vectors and bool(vectors.terms) != bool(result.work and result.work.query_terms and result.work.postings):
        yield f"its vectors have {'terms, and it counts no postings' if vectors.terms else 'no terms, and it counts postings'}"


def _faults_of_vectors(vectors: VectorSizes, documents: int | None) -> Iterator[str]:
    """Yield sizes that no vectors of so many *documents* have."""
    if documents and max(vectors.truncated, vectors.empty) > documents:
        yield f"{vectors.truncated:,} of its texts were cut and {vectors.empty:,} are empty, of {documents:,} documents"
    if vectors.terms and (vectors.dimensions or vectors.vectors):
        yield "its vectors have terms and dimensions"
    # 3 bytes per term; 4 per dimension, or a bit and more of codes: see `VectorSizes`
    most = 3 * vectors.terms.get("mean", 0) if vectors.terms else 4 * vectors.dimensions * vectors.vectors
    least = most if vectors.terms else most / 32
    if not least - 1 <= vectors.bytes_per_document <= most + 1:
        yield f"its vectors have {vectors.bytes_per_document:,.1f} bytes per document, and their sizes give {most:,.1f}"


def _can_be_counts(spread: Mapping[str, float]) -> bool:
    """Return whether whole numbers can have this mean, median and largest value."""
    median, largest = spread.get("p50", 0), spread.get("max", 0)
    mean = spread.get("mean", median)
    # Half of the numbers are at least the median, and half of them at most.
    return not largest % 1 and not 2 * median % 1 and median / 2 <= mean <= (median + largest) / 2 + _ROUNDING


def impossible_origin(result: Result, contract: Contract | None) -> Iterator[str]:
    """Yield how a result contradicts the plug-ins, the measures and the catalogue of this machine.

    *contract* is that of its dataset, if there is one.
    """
    for measure in result.means:
        yield from _unknown_measure(measure)
    if result.measured.started and not result.recipe and not result.seeds:
        yield "it has no recipe, so nobody can tell how it was made"
    if not result.seeds:
        yield from _faults_of_versions(result.recipe)
    named = result.seeds.systems if result.seeds else {result.system: result.expression}
    for name, text in named.items():
        if (expression := stated_expression(name, text)) is None:
            if text and not PYTHON_OBJECT.fullmatch(text):
                yield f"its expression {shortened(text, _SHOWN)} cannot be read"
            for model in _included_models(result.recipe):
                yield from _faults_of_exposure(result, Expression(Call(model)), contract)
            continue
        other = stated_expression(name, "") if text else None
        if other and other.head.name in _known_names() and other.head.name != expression.head.name:
            yield f"its name is that of another system, and it is {expression}"
        if result.recipe and not result.seeds:
            yield from _faults_of_system(result, expression)
        yield from _faults_of_exposure(result, expression, contract)
    yield from _faults_of_exactness(result)


def _faults_of_system(result: Result, expression: Expression) -> Iterator[str]:
    """Yield how the recipe of a result, or the size of its models, differs from that of its expression."""
    for fault in _faults_of_expression(expression, result.recipe):
        yield f"its recipe is not that of {expression}: {fault}"
    size, found = _model_bytes(expression), result.sizes.get("model", 0)
    if size not in (None, found):
        yield f"its models have {found:,} bytes, and those of {expression} {size:,}"


def _faults_of_exposure(result: Result, expression: Expression, contract: Contract | None) -> Iterator[str]:
    """Yield a line if a result claims less exposure than the catalogue states for a system."""
    said = result.exposure.status if result.exposure else UNKNOWN
    least = least_exposure(expression, contract) if contract and said in EXPOSURES else None
    if least and EXPOSURES.index(said) < EXPOSURES.index(least.status):
        why = f" ({least.because[0]})" if least.because else ""
        yield f"it says {said}, and by the catalogue it is {least.status}{why}"


def _faults_of_exactness(result: Result) -> Iterator[str]:
    """Yield what a result says wrongly about the search of its engines: whether it is exact, and how many are candidates."""
    engines = [_created(node, "engines") for node in _nodes(result.recipe, "engines")]
    if not all(engines):  # a plug-in is not installed here
        return
    exact = all(one.exact for one in engines)
    alone = result.recipe.get("plugin") == _ENCODED
    if bool(result.found) != (alone and not exact and engines[0].kind is not Kind.MULTI):
        yield f"its search is {'exact' if exact else 'approximate'}, and it has {len(result.found) or 'no'} recalls of exact"
    elif result.found and not any(note.kind == "approximate search" for note in result.notes):
        yield "it has recalls of exact, and no note on them"
    plugin = registry.find(str(result.recipe.get("plugin", "")))
    candidates = candidates_of(result.recipe)
    for timing in result.timings:
        if plugin and timing.exact != exact:
            yield f"its timing {timing.scenario}: its search is {'exact' if exact else 'approximate'}, and it says otherwise"
        if timing.memory and (who := _elsewhere(plugin)):
            yield f"its timing {timing.scenario}: {who} answers, and it has memory, which is not measured then"
        if plugin and timing.candidates != candidates:
            yield f"its timing {timing.scenario}: it has {timing.candidates:,} candidates in place of {candidates:,}"


def candidates_of(recipe: Mapping[str, Any]) -> int:
    """Return how many documents of its first retriever a system with this recipe ranks; 0: it ranks all, or is unknown here."""
    plugin, settings = registry.find(str(recipe.get("plugin", ""))), recipe.get("settings")
    ranks_all = plugin is None or getattr(plugin, "candidates", None) is Retriever.candidates
    found = settings.get("k") if isinstance(settings, Mapping) and not ranks_all else 0
    return found if isinstance(found, int) else 0


@cache
def _unknown_measure(text: str) -> tuple[str, ...]:
    try:
        parse_measure(text)
    except (UnknownName, NotationError) as error:
        return (f"its measure {text} is not known here: {error}",)
    except CannotStart:  # its package is not installed
        return ()
    return ()


def stated_expression(name: str, stated: str) -> Expression | None:
    """Return the expression of the system *name*, or "" for *stated*; None for an object, of which only a name is known."""
    text = stated or name
    if PYTHON_OBJECT.fullmatch(text):
        return None
    try:
        expression = parse(text)
    except LexbenchError:
        return None
    return expression if stated or set("(@") & set(text) or text in _known_names() else None


def _known_names() -> set[str]:
    return {*retrievers(), *registry.names("encoders"), *catalog.names()}


# ---- recipes ---------------------------------------------------------------------------------------------------------------


def _faults_of_versions(recipe: Any) -> Iterator[str]:
    """Yield the plug-ins of lexbench in a recipe that do not exist, or have another version or other settings."""
    if isinstance(recipe, list):
        for one in recipe:
            yield from _faults_of_versions(one)
    if not isinstance(recipe, Mapping):
        return
    name = str(recipe.get("plugin", ""))
    plugin = registry.find(name) if name else None
    if plugin:
        version, own = recipe.get("version"), getattr(plugin, "version", 1)
        if version != own:
            yield f"it was made by version {version} of {name}, and this lexbench has {own}"
        settings = recipe.get("settings", {})
        known = {item.name for item in fields(plugin)} if is_dataclass(plugin) else set()
        if unknown := [one for one in settings if one not in known]:
            yield f"its recipe has the setting {unknown[0]!r}, and {name} has none"
    elif name and ":" not in name and name.partition("/")[0] in registry.PACKAGES:
        yield f"its recipe has {name}, and there is no such plug-in"
    for value in recipe.values():
        yield from _faults_of_versions(value)


def _faults_of_expression(expression: Expression, recipe: Any) -> Iterator[str]:
    """Yield how a recipe differs from that of *expression*, as far as this machine can tell."""
    name, head = expression.head.name, expression.head
    node = recipe if isinstance(recipe, Mapping) else {}
    if name in registry.names("encoders") or name in catalog.names():
        yield from _faults_of_encoded(expression, node)
        return
    known = retrievers()
    typed = f"{name}@{expression.engine.name}" if expression.engine else name
    if typed not in known:  # the plug-in, or the file of a model, is not installed here
        if node.get("plugin") == _ENCODED:
            yield from _faults_of_encoded(expression, node)
        elif _tail(node) != typed.replace("@", "_"):
            yield f"it has {node.get('plugin')} in place of {typed}"
        return
    if expression.engine:
        head = Call(known[typed], head.args, tuple(sorted({**dict(head.kwargs), **dict(expression.engine.kwargs)}.items())))
    settings = node.get("settings", {})
    members = [value for value in head.args if isinstance(value, Expression)]
    stated = Call(known[typed], tuple(value for value in head.args if not isinstance(value, Expression)), head.kwargs)
    yield from _faults_of_call("retrievers", stated, node)
    if members and isinstance(settings, Mapping):
        if "reranker" in settings:
            yield from _faults_of_model("rerankers", members.pop().head, settings["reranker"])
        yield from _faults_of_members(stated, members, node)


def _faults_of_members(stated: Call, named: Sequence[Expression], node: Mapping[str, Any]) -> Iterator[str]:
    """Yield how the members of a recipe, and their weights, differ from the members *named* in its expression."""
    settings, plugin, members = node["settings"], registry.find(str(node.get("plugin"))), named
    if plugin and hasattr(plugin, "default_weights"):  # a fusion
        members = plugin.expanded(named)
        usual = plugin.default_weights(len(members))
        if "weights" not in dict(stated.kwargs) and not _is_same(usual, settings.get("weights", ())):
            yield f"{stated.name}(weights=…) is {settings.get('weights')} in place of {list(usual)}"
    parts = list(settings.get("members", ()))
    if len(parts) != len(members):
        yield f"it has {len(parts)} members in place of {len(members)}"
    for member, part in zip(members, parts, strict=False):
        yield from _faults_of_expression(member, part)


def _faults_of_encoded(expression: Expression, node: Mapping[str, Any]) -> Iterator[str]:
    """Yield how a recipe differs from that of an encoder, or model, with its transforms and engine."""
    if node.get("plugin") != _ENCODED:
        yield f"it has {node.get('plugin')} in place of an encoder with an engine"
        return
    settings = node.get("settings", {})
    if expression.head.name in _known_names():
        yield from _faults_of_model("encoders", expression.head, settings.get("encoder"))
    if expression.engine:
        yield from _faults_of_call("engines", expression.engine, settings.get("engine"))
    transforms, calls = list(settings.get("transforms", ())), _with_inserted(expression.transforms, settings)
    if calls is None:  # a plug-in is not installed here
        return
    found, names = [str(one.get("plugin")).rpartition("/")[2] for one in transforms], [call.name for call in calls]
    if len(found) != len(names):
        yield f"it has the transforms {', '.join(found) or 'none'} in place of {', '.join(names) or 'none'}"
    for call, transform in zip(calls, transforms, strict=False):
        yield from _faults_of_call("transforms", call, transform)


def _with_inserted(typed: Sequence[Call], settings: Mapping[str, Any]) -> list[Call] | None:
    """Return the *typed* transforms with those that lexbench inserts for an encoder and engine with these *settings*.

    None if a plug-in is unknown here.
    """
    encoder, engine = settings.get("encoder"), _created(settings.get("engine"), "engines")
    model = registry.find(str(encoder.get("plugin", ""))) if isinstance(encoder, Mapping) else None
    transforms = [registry.find(f"transforms/{call.name}") for call in typed]
    if not (isinstance(encoder, Mapping) and model and engine and all(transforms)):
        return None
    if model.kind is not Kind.SPARSE or Kind.SPARSE not in (engine.kind, *engine.kinds):
        return list(typed)
    first, then = inserted(transforms, impacts=engine.impacts, query_idf=encoder.get("settings", {}).get("query_idf", 0))
    return [*first, *typed, *then]


def _created(node: Any, group: str) -> Any:
    """Return the plug-in of lexbench that a part of a recipe describes; None if it is not lexbench's, or not possible."""
    name = str(node.get("plugin", "")) if isinstance(node, Mapping) else ""
    plugin = registry.find(name) if name.startswith(f"{group}/") else None
    if plugin is None:
        return None
    stated = node.get("settings", {})
    settings = {one: _created(value, group) if isinstance(value, Mapping) else value for one, value in stated.items()}
    with suppress(LexbenchError, TypeError, ValueError):
        return plugin(**settings)
    return None


def _nodes(recipe: Any, group: str) -> Iterator[Any]:
    """Yield the outermost plug-ins of a *group* in a recipe."""
    if isinstance(recipe, Mapping):
        if group in str(recipe.get("plugin", "")).rpartition(":")[2].split("/"):
            yield recipe
            return
        recipe = list(recipe.values())
    for one in recipe if isinstance(recipe, list) else ():
        yield from _nodes(one, group)


def _tail(node: Any) -> str:
    """Return the name of the plug-in in a recipe, without its group and package."""
    return str(node.get("plugin", "")).rpartition("/")[2] if isinstance(node, Mapping) else ""


# ---- models whose weights come with lexbench -------------------------------------------------------------------------------


def _included_models(recipe: Any) -> Iterator[str]:
    """Yield the included models whose files are in a recipe."""
    found = [one.get("identity") for group in _OF_MODELS for one in _nodes(recipe, group)]
    for name in catalog.names() if any(found) else ():
        with suppress(LexbenchError):
            if (own := _included(Call(name))) and own.identity() in found:
                yield name


def _model_bytes(expression: Expression) -> int | None:
    """Return the bytes of the weights of a system if all its models are included; else None."""
    files: dict[str, int] = {}
    for call in leaf_calls(expression):
        try:
            model = None if call == Call("bm25") else _included(call)
        except LexbenchError:
            return None
        if call != Call("bm25") and model is None:
            return None
        files |= model.weight_files() if model else {}
    return sum(files.values())


def _faults_of_model(group: str, call: Call, node: Any) -> Iterator[str]:
    """Yield how a recipe differs from that of an encoder or reranker, of which a folder may state settings."""
    try:
        expanded = catalog.expand(call)
    except LexbenchError:  # e.g. its weights are not here
        return
    typed, entry = dict(call.kwargs), expanded is not call
    kwargs = expanded.kwargs
    if entry and "model" in typed:  # a folder's own numbers win over those of the catalogue
        kwargs = tuple(item for item in kwargs if item[0] in typed or isinstance(item[1], str))
    yield from _faults_of_call(group, Call(expanded.name, expanded.args, kwargs), node)
    with suppress(LexbenchError):  # e.g. another file that it names is not here
        if model := _included(call):
            yield from _faults_of_included(call, model, node)


def _included(call: Call) -> Model | None:
    """Return the model of *call* if its weights are in lexbench, or in an installed package; else None."""
    if call.name not in catalog.names() or call.args or "model" in dict(call.kwargs):
        return None
    entry = catalog.model(call.name)
    if entry.weights != "included":
        return None
    model: Model = registry.create("rerankers" if entry.family == "reranker" else "encoders", catalog.expand(call))
    return model


def _faults_of_included(call: Call, model: Any, node: Any) -> Iterator[str]:
    """Yield how a recipe differs from that of an included *model*."""
    own, found = describe(model), node if isinstance(node, Mapping) else {}
    typed, files = dict(call.kwargs), found.get("identity")
    for name, content in own["identity"].items():
        if name not in typed and (not isinstance(files, Mapping) or files.get(name) != content):
            yield f"its files are not those of {call.name} in this lexbench: the digest of its {name} is another"
    items = {item.name: item.default for item in fields(model)}
    for name in items.keys() & {*own["settings"], *found.get("settings", {})}:
        expected, value = (one["settings"].get(name, items[name]) for one in (own, found))
        if value != expected:
            yield f"{call.name}({name}=…) is {value!r} in place of {expected!r}"


def _faults_of_call(group: str, call: Call, node: Any) -> Iterator[str]:
    """Yield how one plug-in of a recipe differs from its call."""
    try:
        plugin = registry.load(group, call.name)
    except LexbenchError:  # not installed here
        if _tail(node) != call.name:
            yield f"it has {_tail(node) or 'nothing'} in place of {call.name}"
        return
    if not isinstance(node, Mapping) or node.get("plugin") != registry.identity(plugin):
        found = node.get("plugin") if isinstance(node, Mapping) else node
        yield f"it has {found} in place of {call.name}"
        return
    settings = node.get("settings", {})
    items = [item for item in fields(plugin) if item.init]
    stated = dict(zip((item.name for item in items if not item.kw_only), call.args, strict=False)) | dict(call.kwargs)
    for item in items:
        if "runtime" in item.metadata or item.name in ("members", "reranker"):
            continue
        of_folder = group in _OF_MODELS or (group == "engines" and item.name not in settings)
        if item.name in stated:
            expected: Any = stated[item.name]
        elif of_folder or item.default is MISSING or item.default in ((), None, ""):
            continue
        else:
            expected = item.default
        found = settings.get(item.name, item.default if "optional" in item.metadata else None)
        if not _is_same(expected, found):
            yield f"{call.name}({item.name}=…) is {found!r} in place of {expected!r}"


def _is_same(expected: Any, found: Any) -> bool:
    """Return whether a setting of a recipe is the one that was typed; settings that the harness chooses always are."""
    if isinstance(expected, Expression) or (isinstance(expected, str) and expected in CHOSEN_WEIGHTS):
        return True
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        same = isinstance(found, Sequence) and not isinstance(found, str) and len(found) == len(expected)
        return same and all(map(_is_same, expected, found))
    return bool(expected == found)


def stated_flags(recipe: Any) -> Iterator[str]:
    """Yield the flags that every timing of a system with this recipe has."""
    if isinstance(recipe, Mapping):
        plugin: Any = registry.find(str(recipe.get("plugin", "")))
        if getattr(plugin, "remote", False) is True or _elsewhere(plugin):
            yield "elsewhere"
        if getattr(plugin, "looks_up", False) is True:
            yield "no encoding"
        # Timing asks only the outer one of two engines.
        recipe = [] if plugin and issubclass(plugin, Engine) else list(recipe.values())
    for one in recipe if isinstance(recipe, list | tuple) else ():
        yield from stated_flags(one)


def _elsewhere(plugin: Any) -> str:
    """Return what answers instead of a plug-in, e.g. "a server"; "" if it answers itself."""
    own = getattr(plugin, "elsewhere", "")
    return own if isinstance(own, str) else ""
