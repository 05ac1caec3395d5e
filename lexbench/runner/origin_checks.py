"""Whether a result can come from the system that it names: its recipe, its measures, and what its models had seen.

Plug-ins that are not installed here, e.g. those of another person, cannot be checked, and their results are accepted.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any

from lexbench import catalog, registry
from lexbench.artifacts.describe import describe
from lexbench.contracts import Contract
from lexbench.errors import CannotStart, LexbenchError, NotationError, UnknownName
from lexbench.measures import parse as parse_measure
from lexbench.notation import PYTHON_OBJECT, Call, Expression, parse
from lexbench.plugins import CHOSEN_WEIGHTS, Model
from lexbench.results import EXPOSURES, KEPT, Result, VectorSizes, kept_ids
from lexbench.runner.exposure import SEEN, UNKNOWN, least_exposure
from lexbench.runner.systems import retrievers
from lexbench.runner.timing_checks import in_the_future

_INSERTED = {"transforms/collection_idf", "transforms/quantize"}  # by the harness, if the encoder or engine needs them
_ROUNDING = 1e-6
_OF_MODELS = ("encoders", "rerankers")  # whose folders state settings


def contradictory_origin(result: Result) -> Iterator[str]:
    """Yield what a result says about its own origin that cannot be true, wherever it was made."""
    if result.exposure and result.exposure.status not in EXPOSURES:
        yield f"its exposure is {result.exposure.status!r}; known are: {', '.join(EXPOSURES)}"
    elif result.exposure and EXPOSURES.index(result.exposure.status) >= EXPOSURES.index(SEEN) and not result.exposure.because:
        yield f"its exposure is {result.exposure.status!r}, without a reason"
    if result.top:
        yield from _faults_of_kept_lists(result)
    yield from _faults_of_sizes(result)
    with suppress(ValueError):
        if result.measured.started and in_the_future(result.measured.started):
            yield f"it was made on {result.measured.started}, which is in the future"
        return
    yield f"it was made on {result.measured.started!r}, which is no date"


def _faults_of_kept_lists(result: Result) -> Iterator[str]:
    """Yield what is wrong with the documents that a result keeps, whatever was judged."""
    lists = [kept_ids(text) for text in result.top]
    empty = sum(not ids for ids in lists)
    if len(lists) != len(result.query_ids):
        yield f"it keeps the documents of {len(lists)} queries, and has {len(result.query_ids)}"
    elif max(map(len, lists), default=0) > min(KEPT, result.depth):
        yield f"it keeps more than {min(KEPT, result.depth)} documents of a query"
    elif any(len(set(ids)) < len(ids) for ids in lists):
        yield "it keeps a document twice for one query"
    elif empty != result.counts.missing:
        yield f"{empty} of its queries have no documents, and it counts {result.counts.missing}"


def _faults_of_sizes(result: Result) -> Iterator[str]:
    """Yield sizes and counts of work that are no sizes of this index, or contradict each other."""
    documents, vectors, work = result.counts.documents, result.vectors, result.work
    index = result.sizes.get("index")
    one_bit_each = result.recipe.get("plugin") in ("retrievers/bm25", "retrievers/bm25_lucene", "retrievers/encoded")
    if one_bit_each and index is not None and 8 * index < (documents or 0):
        yield f"its index has {index:,} bytes for {documents:,} documents"
    if (corpus := result.sizes.get("corpus")) is not None and corpus < (documents or 0):  # each has an id, of a byte or more
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
    if work and work.flops is not None and documents and "mean" in work.postings:
        flops = work.postings["mean"] / documents
        if abs(work.flops - flops) > _ROUNDING * max(1.0, flops):
            yield f"it has {work.flops:.4g} FLOPS, and its postings give {flops:.4g}"


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
    return not largest % 1 and not 2 * median % 1 and spread.get("mean", median) >= median / 2


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
            continue
        other = stated_expression(name, "") if text else None
        if other and other.head.name in _known_names() and other.head.name != expression.head.name:
            yield f"its name is that of another system, and it is {expression}"
        if result.recipe and not result.seeds:
            for fault in _faults_of_expression(expression, result.recipe):
                yield f"its recipe is not that of {expression}: {fault}"
        said = result.exposure.status if result.exposure else UNKNOWN
        least = least_exposure(expression, contract) if contract and said in EXPOSURES else None
        if least and EXPOSURES.index(said) < EXPOSURES.index(least.status):
            why = f" ({least.because[0]})" if least.because else ""
            yield f"it says {said}, and by the catalogue it is {least.status}{why}"


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
    if typed not in known:
        return  # the plug-in is not installed here
    if expression.engine:
        head = Call(known[typed], head.args, tuple(sorted({**dict(head.kwargs), **dict(expression.engine.kwargs)}.items())))
    settings = node.get("settings", {})
    members = [value for value in head.args if isinstance(value, Expression)]
    stated = Call(known[typed], tuple(value for value in head.args if not isinstance(value, Expression)), head.kwargs)
    yield from _faults_of_call("retrievers", stated, node)
    if members and isinstance(settings, Mapping):
        parts = list(settings.get("members", ()))
        if "reranker" in settings:
            yield from _faults_of_model("rerankers", members.pop().head, settings["reranker"])
        if len(parts) != len(members):
            yield f"it has {len(parts)} members in place of {len(members)}"
        for member, part in zip(members, parts, strict=False):
            yield from _faults_of_expression(member, part)


def _faults_of_encoded(expression: Expression, node: Mapping[str, Any]) -> Iterator[str]:
    """Yield how a recipe differs from that of an encoder with its transforms and engine."""
    if node.get("plugin") != "retrievers/encoded":
        yield f"it has {node.get('plugin')} in place of an encoder with an engine"
        return
    settings = node.get("settings", {})
    yield from _faults_of_model("encoders", expression.head, settings.get("encoder"))
    if expression.engine:
        yield from _faults_of_call("engines", expression.engine, settings.get("engine"))
    transforms = list(settings.get("transforms", ()))
    names = [f"transforms/{call.name}" for call in expression.transforms]
    kept = [one for one in transforms if one.get("plugin") not in _INSERTED - set(names)]
    if len(kept) != len(names):
        yield f"it has {len(kept)} transforms in place of {len(names)}"
    for call, transform in zip(expression.transforms, kept, strict=False):
        yield from _faults_of_call("transforms", call, transform)


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
    if entry and "model" not in typed and not call.args and catalog.model(call.name).weights == "included":
        own = describe(registry.create(group, expanded))
        if isinstance(node, Mapping) and node.get("identity") == own["identity"]:  # the same weights state the same settings
            for name, value in node.get("settings", {}).items():
                if name in own["settings"] and value != own["settings"][name]:
                    yield f"{call.name}({name}=…) is {value!r} in place of {own['settings'][name]!r}"


def _faults_of_call(group: str, call: Call, node: Any) -> Iterator[str]:
    """Yield how one plug-in of a recipe differs from its call."""
    try:
        plugin = registry.load(group, call.name)
    except LexbenchError:  # not installed here
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


def is_elsewhere(recipe: Any) -> bool:
    """Return whether another program or server answers for a system with this recipe."""
    if isinstance(recipe, Mapping):
        plugin = registry.find(str(recipe.get("plugin", "")))
        own = getattr(plugin, "elsewhere", "") if plugin and issubclass(plugin, Model) else ""
        return (isinstance(own, str) and bool(own)) or any(map(is_elsewhere, recipe.values()))
    return isinstance(recipe, list | tuple) and any(map(is_elsewhere, recipe))
