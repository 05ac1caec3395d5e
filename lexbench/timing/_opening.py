"""A system made again in the measuring process: from its text, with the weights that a run chose and so many threads."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from lexbench.plugins import CHOSEN_WEIGHTS, Fusion, NeedsQueryIds, SearchesInBlocks, Weighted
from lexbench.runner import systems
from lexbench.timing.protocol import Task
from lexbench.types import Query


def chosen_weights(asked: Any, resolved: Any) -> list[list[float]]:
    """Return the weights that *resolved* has where the retriever *asked* for leaves them to be chosen, inner ones first."""
    found = []
    if isinstance(asked, Fusion):
        for part, other in zip(asked.parts, resolved.parts, strict=True):
            found += chosen_weights(part, other)
        if isinstance(asked, Weighted) and asked.weights in CHOSEN_WEIGHTS:
            found.append(list(resolved.weights))
    return found


def with_weights(retriever: Any, weights: Iterator[Sequence[float]]) -> Any:
    """Return *retriever* with *weights* where they are to be chosen: the inverse of `chosen_weights`."""
    if not isinstance(retriever, Fusion):
        return retriever
    changed: Any = replace(retriever, parts=tuple(with_weights(part, weights) for part in retriever.parts))  # type: ignore[type-var]
    chosen = isinstance(changed, Weighted) and changed.weights in CHOSEN_WEIGHTS
    return replace(changed, weights=tuple(next(weights))) if chosen else changed


def with_threads(plugin: Any, threads: int) -> Any:
    """Return *plugin* with that number wherever it, or a part of it, has a setting `threads` that changes no answer."""
    if isinstance(plugin, tuple):
        return tuple(with_threads(item, threads) for item in plugin)
    if not is_dataclass(plugin) or isinstance(plugin, type):
        return plugin
    changed = {}
    for item in fields(plugin):
        value = getattr(plugin, item.name)
        told = item.name == "threads" and "runtime" in item.metadata
        new = threads if told else with_threads(value, threads)
        if item.init and new is not value:
            changed[item.name] = new
    return replace(plugin, **changed) if changed else plugin


def opened(task: Task) -> Any:
    """Return the searcher of a task."""
    retriever = with_weights(systems.system(task.system).retriever, iter(task.weights))
    return with_threads(retriever, task.threads).open(Path(task.index))


def inputs_of(searcher: Any, task: Task) -> tuple[Callable[[Any], Any], list[Any]]:
    """Return what encodes queries, and what it is given: one query each time, or as many as the searcher takes at once."""
    most = searcher.queries_at_a_time if isinstance(searcher, SearchesInBlocks) else len(task.queries)
    size = 1 if task.single else most
    blocks = [task.queries[start : start + size] for start in range(0, len(task.queries), size)]
    if isinstance(searcher, NeedsQueryIds):
        return searcher.encode_queries, [[Query(*query) for query in block] for block in blocks]
    return searcher.encode, [[text for _, text in block] for block in blocks]
