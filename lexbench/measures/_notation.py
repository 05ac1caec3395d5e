"""The text of measures, in ir-measures' notation: `nDCG@10`, `RR(rel=2)@10`, `RBP(p=0.8)@100`.

Read here and not by `ir_measures.parse_measure`, which needs parts of Python that 3.14 does not have; so our own measures also
need no ir_measures at all.
"""

import ast
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeAlias, cast

from lexbench import registry
from lexbench.datasets.contracts import Contract
from lexbench.errors import NotationError, UnknownName
from lexbench.measures._measure import Measure

_ALIASES = {"mrr": "rr", "map": "ap", "recall": "r", "precision": "p"}  # ir-measures' own


@dataclass(frozen=True)
class External:
    """A measure that ir-measures' own providers compute."""

    name: str
    settings: tuple[tuple[str, str], ...] = ()  # name and value as written, sorted by name
    at: str | None = None  # what stands behind the @

    def __str__(self) -> str:
        """Write the measure so that it reads back to an equal one."""
        settings = ",".join(f"{name}={value}" for name, value in self.settings)
        return self.name + (f"({settings})" if settings else "") + (f"@{self.at}" if self.at is not None else "")


AnyMeasure: TypeAlias = Measure | External


class _Read(NamedTuple):
    name: str
    settings: dict[str, Any]
    at: Any  # None: no @


def parse(text: str) -> AnyMeasure:
    """Read a measure: one of ours, or else any that ir-measures can compute here.

    NotationError where it does not read, UnknownName where there is no such measure, CannotStart where computing it takes a
    package that is not installed. Names of our measures are read in any case, and ir-measures' aliases (MRR, MAP, …) too.
    """
    return own(text) or _external(text)


def own(text: str) -> Measure | None:
    """Read a measure of ours; None where there is no such, or not with these settings. NotationError where it does not read."""
    read = _read(text)
    key = read.name.lower()
    plugins = {name.replace("_", ""): name for name in registry.names("measures")}
    if (key := _ALIASES.get(key, key)) not in plugins:
        return None
    plugin = registry.load("measures", plugins[key])
    settings = read.settings | ({} if read.at is None else {"cutoff": read.at})
    if not settings.keys() <= {item.name for item in fields(plugin)}:
        return None
    try:
        return cast(Measure, plugin(**settings))
    except TypeError:
        raise NotationError(f"{plugin.__name__} needs a cutoff, as in {plugin.__name__}@10") from None


def with_threshold(measure: str, contract: Contract) -> str:
    """Return *measure* with the relevance threshold that *contract* sets for it, unless it names one itself.

    `RR@10` becomes `RR(rel=2)@10` on TREC DL passages; `RR(rel=1)@10` stays, and so do measures that take no `rel`.
    """
    found = parse(measure)
    if isinstance(found, External):
        threshold = contract.threshold(found.name)
        if threshold != 1 and "rel" not in dict(found.settings) and _takes_rel(found):
            found = replace(found, settings=tuple(sorted((*found.settings, ("rel", str(threshold))))))
        return str(found)
    threshold = contract.threshold(type(found).__name__)
    if threshold != 1 and getattr(found, "rel", 1) is None:
        found = replace(cast(Any, found), rel=threshold)
    return str(found)


def known() -> list[str]:
    """Return the names of all measures: ours and ir-measures'."""
    from lexbench.measures import _provider  # ir_measures is imported when it is asked for

    ours = {registry.load("measures", name).__name__ for name in registry.names("measures")}
    return sorted(ours | set(_provider.ir_measures.measures.registry))


def _external(text: str) -> External:
    from lexbench.measures import _provider

    read = _read(text)
    if read.name not in _provider.ir_measures.measures.registry:
        raise UnknownName("measure", read.name, known(), see="lexbench list measures")
    kind = _provider.ir_measures.measures.registry[read.name]
    settings = {name: repr(value) for name, value in read.settings.items()}
    at = settings.pop(kind.AT_PARAM, None) if read.at is None else repr(read.at)
    found = External(kind.NAME, tuple(sorted(settings.items())), at)
    _provider.check(found, text)
    return found


def _takes_rel(measure: External) -> bool:
    from lexbench.measures import _provider

    return "rel" in _provider.ir_measures.measures.registry[measure.name].SUPPORTED_PARAMS


def _read(text: str) -> _Read:
    """Take *text* apart with Python's own parser; nothing is evaluated."""
    wrong = NotationError(f"measure {text!r} does not read; write it like nDCG@10 or RR(rel=2)@10")
    try:
        node: ast.expr = ast.parse(text.strip(), mode="eval").body
        at = None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            at, node = ast.literal_eval(node.right), node.left
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        settings = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError):
        raise wrong from None
    if call.args or not isinstance(call.func, ast.Name) or "None" in settings or (at is None and "@" in text):
        raise wrong
    return _Read(call.func.id, settings, at)
