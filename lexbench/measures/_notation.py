"""Writing and reading measures in ir-measures' notation: `nDCG@10`, `RR(rel=2)@10`, `RBP(p=0.8)@100`.

`ir_measures.parse_measure` is not used, because it fails on Python 3.14 and our measures do not need ir_measures.
"""

import ast
import re
from dataclasses import MISSING, fields, replace
from functools import cache
from typing import Any, TypeAlias, cast

from lexbench import registry
from lexbench.contracts import Contract
from lexbench.errors import LexbenchError, NotationError, UnknownName, echoed, with_meaning
from lexbench.measures import _external
from lexbench.measures._external import External
from lexbench.measures._functions import MARK, function_named
from lexbench.notation import read_expression
from lexbench.plugins import Measure
from lexbench.synonyms import nearest

_ALIASES = {
    "mrr": "rr",
    "recip_rank": "rr",
    "map": "ap",
    "recall": "r",
    "precision": "p",
    "recall_cap": "rcap",
}
_BUDGET = re.compile(r"(\w+)(\(.*\))?@(\d+)tok(?:ens)?")
_BUDGETED = ("r", "ndcg")  # measures with a form for budgets
_OTHER_TOOLS = re.compile(
    r"([A-Za-z]+(?:_rank)?)(?:_cut|_at|_at_recall)?[_.](\d+(?:\.\d+)?)"
)  # ndcg_cut_10, P.10, recall_100; mteb's ndcg_at_10

AnyMeasure: TypeAlias = Measure | External


def parse(text: str) -> AnyMeasure:
    """Parse a measure: one of ours, else one that ir-measures can compute here.

    Names may be in upper or lower case, and those of ir-measures (MRR, MAP), trec_eval (ndcg_cut_10, recip_rank) and mteb
    (ndcg_at_10) are accepted. Raises NotationError for malformed text, UnknownName for an unknown measure, and CannotStart if a
    package is not installed.
    """
    if not isinstance(text, str):
        raise NotationError(f"{type(text).__name__} is no text and no function; write a measure like nDCG@10")
    if MARK in text:
        return function_named(text)
    if (measure := parse_native(text)) is not None:
        return measure
    name, settings, at = _parts(text)
    by_letters = {known.lower(): known for known in sorted(_external.names(), reverse=True)}
    name = name if name in _external.names() else by_letters.get(name.lower().replace("_", ""), name)  # trec_eval's num_rel
    if plugin := _plugin(name):  # with a setting that it does not have, but ir-measures' measure of this name may
        known_settings = dict.fromkeys([*(item.name for item in fields(plugin)), *_external.settings_of(name)])
        if unknown := [setting for setting in settings if setting not in known_settings]:
            it_has = ", ".join(known_settings)
            raise NotationError(f"measure {text!r}: {plugin.__name__} has no setting {unknown[0]!r}; it has: {it_has}")
    if name not in _external.names():
        raise UnknownName("measure", text, known(), see="lexbench list measures", meant=_meant(text))
    return _external.measure_of(text, name, settings, at)


@cache
def parse_native(text: str) -> Measure | None:
    """Parse a measure that lexbench computes itself; None if there is none with this name and settings. Raises like `parse`."""
    if MARK in text:
        return None
    name, settings, at = _parts(text)
    plugin = _plugin(name)
    if plugin is None:
        return None
    settings |= {} if at is None else {plugin.at: at}
    if not settings.keys() <= {item.name for item in fields(plugin)}:
        return None
    for item in fields(plugin):
        if item.default is item.default_factory is MISSING and item.name not in settings:
            name = plugin.__name__
            example = f"{name}@{plugin.example}" if item.name == plugin.at else f"{name}({item.name}=…)"
            raise NotationError(f"{name} needs a {item.name}, e.g. {example}")
    own = {key: value for key, value in settings.items() if key not in ("cutoff", "rel")}  # which `Measure` checks
    return cast(Measure, plugin(**settings | registry.converted(plugin, own, plugin.__name__)))


def _plugin(name: str) -> type[Any] | None:
    """Return the class of our measure that *name* means, in upper or lower case or as other tools call it; None if none."""
    plugins = {one.replace("_", ""): one for one in registry.names("measures")}
    key = _ALIASES.get(name.lower(), name.lower().replace("_", ""))
    return registry.load("measures", plugins[key]) if key in plugins else None


def with_threshold(measure: str, contract: Contract) -> str:
    """Return *measure* with the relevance threshold that *contract* sets, unless it has one.

    For example, `RR@10` becomes `RR(rel=2)@10` on TREC DL passages. Measures without `rel` stay as they are.
    """
    parsed = parse(measure)
    if isinstance(parsed, External):
        threshold = contract.threshold(parsed.name)
        if threshold != 1 and "rel" not in dict(parsed.settings) and "rel" in _external.settings_of(parsed.name):
            parsed = replace(parsed, settings=tuple(sorted((*parsed.settings, ("rel", str(threshold))))))
        return str(parsed)
    threshold = contract.threshold(type(parsed).__name__.removesuffix("Tokens"))
    if threshold != 1 and getattr(parsed, "rel", 1) is None:
        parsed = replace(cast(Any, parsed), rel=threshold)
    return str(parsed)


def cutoff(measure: str) -> int | None:
    """Return how many documents of a list *measure* looks at; None for all, or if only ir-measures knows."""
    parsed = None if MARK in measure else parse(measure)
    return parsed.cutoff if isinstance(parsed, Measure) else None


def known() -> list[str]:
    """Return the names of all measures, ours and those of ir-measures."""
    ours = {registry.load("measures", name).__name__ for name in registry.names("measures")}
    return sorted(ours | _external.names())


def _meant(text: str) -> str:
    """Return the measure that *text* may mean, e.g. nDCG@10 for ndcg10, Success@1 for hit@1; "" if none is likely.

    Of several with commas it is the list with -m between them, as the command line takes it.
    """
    parts = [text] if "(" in text else re.split(r"[,;]\s*|(?<=\d)\s+", text.strip())
    found = [re.fullmatch(r"\s*([^\W\d]+?)\W*_?(\d+|(?<=@)[A-Za-z]+)?\s*", part) for part in parts]
    if not all(found):
        return ""
    words = {"k": "10", "five": "5", "ten": "10", "hundred": "100", "thousand": "1000"}
    meant = []
    for one in found:
        name, cutoff = one.groups() if one else ("", None)
        near = next(iter(nearest(_ALIASES.get(name.lower(), name), known())), "")
        near = plugin.__name__ if (plugin := _plugin(near)) else near
        needed = plugin and any(item.name == "cutoff" and item.default is MISSING for item in fields(plugin))
        cutoff = words.get(cutoff.lower(), cutoff) if cutoff else "10" if needed else None
        if not near or (cutoff and not cutoff.isdigit()):
            return ""
        meant.append(f"{near}@{cutoff}" if cutoff else near)
    return " -m ".join(meant) if meant != [text] else ""


def _malformed(text: str) -> LexbenchError:
    """Return the error for a text that is no measure, with the one that it may mean."""
    what = f"measure {echoed(text)} is not valid"
    if meant := _meant(text):
        return with_meaning(NotationError(f"{what}; did you mean {meant!r}?"), text, meant)
    return NotationError(f"{what}; write it like nDCG@10 or RR(rel=2)@10")


def _parts(text: str) -> tuple[str, dict[str, Any], Any]:
    """Return the name, the settings and the part behind the @ (None: no @), by Python's own parser, without evaluation.

    A budget, R@2000tok, is a setting of the measure RTokens.
    """
    if budget := _BUDGET.fullmatch(text):
        name, settings, _ = _parts(f"{budget[1]}{budget[2] or ''}")
        name = _ALIASES.get(name.lower(), name)
        if name.lower() not in _BUDGETED:
            raise NotationError(f"measure {echoed(text)}: a budget of tokens is for R and nDCG, e.g. R@2000tok")
        return f"{name}tokens", {**settings, "budget": int(budget[3])}, None
    if other := _OTHER_TOOLS.fullmatch(text):
        text = f"{other[1]}@{other[2]}"
    try:
        node = read_expression(text)
        at = None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            at, node = ast.literal_eval(node.right), node.left
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        settings = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise _malformed(text) from None
    if call.args or not isinstance(call.func, ast.Name) or "None" in settings or (at is None and "@" in text):
        raise _malformed(text)
    return call.func.id, settings, at
