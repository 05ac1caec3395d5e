"""Whether a result can come from the system that it names: its sizes, its measures, and what its models had seen.

`runner.recipe_checks` compares its recipe with its expression. Plug-ins that are not installed here, e.g. those of another
person, cannot be checked, and their results are accepted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from lexbench import registry
from lexbench.contracts import Contract
from lexbench.errors import CannotStart, LexbenchError, NotationError, UnknownName, shortened
from lexbench.measures import parse as parse_measure
from lexbench.notation import PYTHON_OBJECT, Call, Expression, parse
from lexbench.results import EXPOSURES, KEPT, Result, VectorSizes, kept_ids
from lexbench.runner.exposure import SEEN, UNKNOWN, least_exposure
from lexbench.runner.recipe_checks import (
    ENCODED,
    candidates_of,
    created,
    elsewhere,
    faults_of_expression,
    faults_of_versions,
    included_models,
    is_system,
    known_names,
    model_bytes,
    nodes,
    stated_flags,
)
from lexbench.runner.timing_checks import impossible_machine
from lexbench.storage.stopwatch import impossible_date
from lexbench.types import Kind

_ROUNDING = 1e-6
_NOT_WHOLE = 1e-3  # of a count that is a mean times a number
_SHOWN = 80  # characters of an expression
_RUN_FILE = "retrievers/run_file"  # scored without its corpus
_OF_ONE_INDEX = ("retrievers/bm25", "retrievers/bm25_lucene", ENCODED)


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
    elif said and said.found > said.judged:
        yield f"it says that {said.found:,} judged documents are in its lists, of {said.judged:,} that there are"
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
        terms = vectors.terms.get("mean", 0) * (documents or 0)
        if result.recipe.get("plugin") == ENCODED and abs(terms - round(terms)) > _NOT_WHOLE:
            yield f"its {documents:,} documents have {terms:,.6g} terms, which is no whole number"
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
    if plugin == ENCODED and (vectors is None or bool(vectors.terms) == bool(vectors.dimensions)):
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
        yield from faults_of_versions(result.recipe)
    named = result.seeds.systems if result.seeds else {result.system: result.expression}
    for name, text in named.items():
        if text and names_another(name, text):
            yield f"its name is that of another system, and it is {shortened(text, _SHOWN)}"
        if (expression := stated_expression(name, text)) is None:
            if text and not PYTHON_OBJECT.fullmatch(text):
                yield f"its expression {shortened(text, _SHOWN)} cannot be read"
            for model in included_models(result.recipe):
                yield from _faults_of_exposure(result, Expression(Call(model)), contract)
            continue
        if result.recipe and not result.seeds:
            yield from _faults_of_system(result, expression)
        yield from _faults_of_exposure(result, expression, contract)
    yield from _faults_of_exactness(result)


def _faults_of_system(result: Result, expression: Expression) -> Iterator[str]:
    """Yield how the recipe of a result, or the size of its models, differs from that of its expression."""
    for fault in faults_of_expression(expression, result.recipe):
        yield f"its recipe is not that of {expression}: {fault}"
    size, found = model_bytes(expression), result.sizes.get("model", 0)
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
    engines = [created(node, "engines") for node in nodes(result.recipe, "engines")]
    if not all(engines):  # a plug-in is not installed here
        return
    exact = all(one.exact for one in engines)
    alone = result.recipe.get("plugin") == ENCODED
    if bool(result.found) != (alone and not exact and engines[0].kind is not Kind.MULTI):
        yield f"its search is {'exact' if exact else 'approximate'}, and it has {len(result.found) or 'no'} recalls of exact"
    elif result.found and not any(note.kind == "approximate search" for note in result.notes):
        yield "it has recalls of exact, and no note on them"
    plugin = registry.find(str(result.recipe.get("plugin", "")))
    candidates = candidates_of(result.recipe)
    for timing in result.timings:
        if plugin and timing.exact != exact:
            yield f"its timing {timing.scenario}: its search is {'exact' if exact else 'approximate'}, and it says otherwise"
        if timing.memory and (who := elsewhere(plugin)):
            yield f"its timing {timing.scenario}: {who} answers, and it has memory, which is not measured then"
        if plugin and timing.candidates != candidates:
            yield f"its timing {timing.scenario}: it has {timing.candidates:,} candidates in place of {candidates:,}"


@cache
def _unknown_measure(text: str) -> tuple[str, ...]:
    try:
        parse_measure(text)
    except (UnknownName, NotationError) as error:
        return (f"its measure {text} is not known here: {error}",)
    except CannotStart:  # its package is not installed
        return ()
    return ()


def names_another(name: str, stated: str) -> bool:
    """Return whether the *name* of a system is what a user types for another one than *stated*, or than an object, ""."""
    other = stated_expression(name, "")
    if other is None or other.head.name not in known_names():
        return False
    own = stated_expression(name, stated) if stated else None
    whole = set("(@") & set(name)  # settings or an engine, and not only what kind of system it is
    return own is None or own.head.name != other.head.name or bool(whole and own != other)


def stated_expression(name: str, stated: str) -> Expression | None:
    """Return the expression of the system *name*, or "" for *stated*; None for an object, of which only a name is known."""
    text = stated or name
    if PYTHON_OBJECT.fullmatch(text):
        return None
    try:
        expression = parse(text)
    except LexbenchError:
        return None
    return expression if stated or set("(@") & set(text) or is_system(text) else None
