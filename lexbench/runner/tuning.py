"""Weights of combinations that are chosen by what they score: weights="tuned", and weights="oracle".

Tuned weights are chosen on the queries of the dataset that the tested one's contract names as `tuning`, which has the same
corpus; queries that are tested, too, are left out. The oracle's are chosen on the tested queries: an upper bound of what any
choice could give, and no result. `lexbench.runner.weight_search` says how.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lexbench import measures
from lexbench.datasets.contracts import Contract, all_contracts, contract_of
from lexbench.datasets.dataset import Dataset, Topics, open_dataset
from lexbench.errors import CannotStart, CommandError
from lexbench.results import BOUND
from lexbench.retrievers._combination import CHOSEN, Combination
from lexbench.runner.stages import Workbench
from lexbench.runner.systems import System, describe, leaves
from lexbench.runner.weight_search import Choice, Chooser
from lexbench.types import Combined, Query


def rules(retriever: Any) -> Iterator[str]:
    """Yield the rule, "tuned" or "oracle", of each combination in *retriever* whose weights are to be chosen."""
    if isinstance(retriever, Combined):
        for part in retriever.parts:
            yield from rules(part)
        if isinstance(retriever, Combination) and retriever.weights in CHOSEN:
            yield str(retriever.weights)


def check(retriever: Any, contract: Contract) -> None:
    """Raise CommandError where *retriever* has weights to tune and the *contract* of a dataset names no queries for it."""
    if "tuned" not in rules(retriever):
        return
    if contract.tuning is None:
        known = [one.id for one in all_contracts().values() if one.tuning]
        raise CommandError(
            f'{contract.id}: its contract names no tuning queries, which weights="tuned" needs; type weights=[…], or run only '
            f"datasets that have some: {', '.join(known)}"
        )
    other = contract_of(contract.tuning)
    if other.corpus != contract.corpus:
        raise CommandError(
            f"{contract.id} has the corpus {contract.corpus}, and {other.id}, its tuning queries, {other.corpus}; "
            "type weights=[…]"
        )


class Resolved(NamedTuple):
    """A system without weights to choose, and a line on each choice."""

    system: System
    notes: list[str]


def resolved(system: System, bench: Workbench, headline: str, depth: int) -> Resolved:
    """Return *system* with its weights chosen, those of inner combinations first, by the measure *headline*.

    *bench* is of the tested dataset and *depth* that of the run. CommandError as *check* has it, MissingData where the tuning
    queries are not here, CannotStart where every one of them is tested, ContractMismatch where their corpus is another: all
    before any work.
    """
    wanted = set(rules(system.retriever))
    if not wanted:
        return Resolved(system, [])
    on = {"oracle": _Queries(bench.dataset)} if "oracle" in wanted else {}
    if "tuned" in wanted:
        check(system.retriever, bench.dataset.contract)
        on["tuned"] = _tuning(bench.dataset)
    for queries in on.values():
        queries.dataset.check_corpus(bench.corpus)
    settling = _Settling(bench, on, headline, depth, system.label)
    retriever = settling.settle(system.retriever)
    return Resolved(replace(system, retriever=retriever, recipe=describe(retriever)), settling.notes)


class _Queries(NamedTuple):
    """The queries to choose on."""

    dataset: Dataset
    left_out: int = 0


def _tuning(tested: Dataset) -> _Queries:
    """Return the dataset of the tuning queries, without those that are tested."""
    found = open_dataset(contract_of(str(tested.contract.tuning)))
    ids = {query.query_id for query in tested.queries}
    texts = {_plain(query) for query in tested.queries}
    queries = tuple(query for query in found.queries if query.query_id not in ids and _plain(query) not in texts)
    if not queries:
        raise CannotStart(
            f"every query of {found.contract.id} is one of {tested.contract.id}, so none is left to tune on; type weights=[…]"
        )
    kept = {query.query_id for query in queries}
    judged = tuple(row for row in found.topics.judgements if row.query_id in kept)
    topics = Topics(queries, judged, found.topics.unjudged)
    return _Queries(replace(found, topics=topics), len(found.queries) - len(queries))


def _plain(query: Query) -> str:
    return " ".join(query.text.split()).casefold()


@dataclass(frozen=True)
class _Settling:
    """The choices for one system on one dataset."""

    bench: Workbench
    on: dict[str, _Queries]  # by rule
    headline: str
    depth: int
    label: str
    notes: list[str] = field(default_factory=list)

    def settle(self, retriever: Any, place: str = "") -> Any:
        """Return *retriever*, the part of the system at *place*, without weights to choose."""
        if not any(rules(retriever)):
            return retriever
        below = (f"{place}.{at}".lstrip(".") for at in range(1, len(retriever.parts) + 1))
        settled = replace(retriever, parts=tuple(map(self.settle, retriever.parts, below)))
        if not (isinstance(settled, Combination) and isinstance(settled.weights, str)):
            return settled
        on = self.on[settled.weights]
        measure = measures.with_threshold(self.headline, on.dataset.contract)
        choice = Chooser(self.bench, on.dataset, measure, self.depth, self.label).choose(settled)
        self.notes.append(_note(settled.weights, place, choice, measure, on))
        self.notes.extend(_learned(settled, on.dataset.contract.id))
        return replace(settled, weights=choice.weights)


def _learned(retriever: Combination, dataset: str) -> Iterator[str]:
    """Yield a warning for each encoder that has learned from the queries on which its weight was chosen."""
    for leaf in leaves(retriever):
        encoder: Any = getattr(leaf, "encoder", None)
        if hasattr(encoder, "trained_on") and dataset in encoder.trained_on():
            yield (
                f"{type(encoder).__name__} {getattr(encoder, 'model', '')} was trained on the queries of {dataset}, on which "
                "weights are chosen: it looks better there than it is, and its weight may be too large"
            )


def _note(rule: str, place: str, choice: Choice, measure: str, on: _Queries) -> str:
    """Return one line on a choice."""
    weights = f"weights [{', '.join(f'{weight:.4g}' for weight in choice.weights)}]" + (f" of part {place}" if place else "")
    queries = f"{len(on.dataset.queries)} queries of {on.dataset.contract.id}"
    best = f"{measure} {choice.mean:.4f} is the best of {choice.tried}, in steps of {choice.step:g}"
    if rule == "oracle":
        return f"{BOUND}{weights}, chosen on the very {queries} that are scored: an upper bound, no result; {best}"
    left_out = f"; {on.left_out} more are tested here, too, and were left out" if on.left_out else ""
    return f"{weights}, tuned on {queries}, where {best}{left_out}"
