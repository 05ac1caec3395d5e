"""Weights of fusions that are chosen by what they score: weights="tuned", and weights="oracle".

Tuned weights are chosen on the queries of the dataset that the tested one's contract names as `tuning`, which has the same
corpus; queries that are tested, too, are left out. The oracle's are chosen on the tested queries: an upper bound of what any
choice could give, and no result. `lexbench.runner.weight_search` says how.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lexbench import measures
from lexbench.contracts import Contract, all_contracts, contract_of
from lexbench.datasets.dataset import Dataset, Topics, open_dataset
from lexbench.errors import CannotStart, CommandError
from lexbench.plugins import CHOSEN_WEIGHTS, Retriever
from lexbench.results import BOUND
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.stages import DatasetRunner
from lexbench.runner.systems import System, describe, leaves, model_name
from lexbench.runner.weight_search import BestWeights, WeightSearch
from lexbench.types import Query


def rules(retriever: Retriever) -> Iterator[str]:
    """Yield the rule, "tuned" or "oracle", of each fusion in *retriever* whose weights are to be chosen."""
    for member in retriever.members:
        yield from rules(member)
    if retriever.weights in CHOSEN_WEIGHTS:
        yield str(retriever.weights)


def check(retriever: Retriever, contract: Contract) -> None:
    """Raise CommandError where *retriever* has weights to tune and the *contract* of a dataset names no queries for it."""
    if "tuned" not in rules(retriever):
        return
    if contract.tuning is None:
        known = [other.id for other in all_contracts().values() if other.tuning]
        raise CommandError(
            f'{contract.id}: its contract names no tuning queries, which weights="tuned" needs; type weights=[…], or run only '
            f"datasets that have some: {', '.join(known)}"
        )
    tuning = contract_of(contract.tuning)
    if tuning.corpus != contract.corpus:
        raise CommandError(
            f"{contract.id} has the corpus {contract.corpus}, and {tuning.id}, its tuning queries, {tuning.corpus}; "
            "type weights=[…]"
        )


class WithWeights(NamedTuple):
    """A system without weights to choose, and a line on each choice."""

    system: System
    notes: list[str]


def with_weights(system: System, runner: DatasetRunner, headline: str, depth: int) -> WithWeights:
    """Return *system* with its weights chosen, those of inner fusions first, by the measure *headline*.

    *runner* is of the tested dataset and *depth* that of the run. CommandError as *check* has it, MissingData where the tuning
    queries are not here, CannotStart where every one of them is tested, ContractMismatch where their corpus is another: all
    before any work.
    """
    needed = set(rules(system.retriever))
    if not needed:
        return WithWeights(system, [])
    queries = {"oracle": _Queries(runner.dataset)} if "oracle" in needed else {}
    if "tuned" in needed:
        check(system.retriever, runner.dataset.contract)
        queries["tuned"] = _tuning_queries(runner.dataset)
    for rule in queries.values():
        rule.dataset.check_corpus(runner.corpus)
    choices = _Choices(runner, queries, headline, depth, system.label)
    retriever = choices.applied(system.retriever)
    return WithWeights(replace(system, retriever=retriever, recipe=describe(retriever)), choices.notes)


class _Queries(NamedTuple):
    """The queries to choose on."""

    dataset: Dataset
    left_out: int = 0


def _tuning_queries(tested: Dataset) -> _Queries:
    """Return the dataset of the tuning queries, without those that are tested."""
    tuning = open_dataset(contract_of(str(tested.contract.tuning)))
    ids = {query.query_id for query in tested.queries}
    texts = {_plain(query) for query in tested.queries}
    queries = tuple(query for query in tuning.queries if query.query_id not in ids and _plain(query) not in texts)
    if not queries:
        raise CannotStart(
            f"every query of {tuning.contract.id} is one of {tested.contract.id}, so none is left to tune on; type weights=[…]"
        )
    kept = {query.query_id for query in queries}
    judgements = tuple(row for row in tuning.topics.judgements if row.query_id in kept)
    topics = Topics(queries, judgements, tuning.topics.unjudged)
    return _Queries(replace(tuning, topics=topics), len(tuning.queries) - len(queries))


def _plain(query: Query) -> str:
    return " ".join(query.text.split()).casefold()


@dataclass(frozen=True)
class _Choices:
    """The choices for one system on one dataset."""

    runner: DatasetRunner
    queries: dict[str, _Queries]  # by rule
    headline: str
    depth: int
    label: str
    notes: list[str] = field(default_factory=list)

    def applied(self, retriever: Any, position: str = "") -> Any:
        """Return *retriever*, the part of the system at *position* ("2.1" is the first of the second), with chosen weights."""
        if not any(rules(retriever)):
            return retriever
        below = (f"{position}.{number}".lstrip(".") for number in range(1, len(retriever.members) + 1))
        retriever = replace(retriever, members=tuple(map(self.applied, retriever.members, below)))
        if not isinstance(retriever.weights, str):
            return retriever
        queries = self.queries[retriever.weights]
        measure = measures.with_threshold(self.headline, queries.dataset.contract)
        best = WeightSearch(self.runner, queries.dataset, measure, self.depth, self.label).best(retriever)
        self.notes.append(_note(retriever.weights, position, best, measure, queries))
        self.notes.extend(_trained_on_them(retriever, queries.dataset.contract.id))
        return replace(retriever, weights=best.weights)


def _trained_on_them(retriever: Retriever, dataset: str) -> Iterator[str]:
    """Yield a warning for each encoder that has learned from the queries on which its weight was chosen."""
    for leaf in leaves(retriever):
        if isinstance(leaf, Encoded) and dataset in leaf.encoder.trained_on():
            yield (
                f"{type(leaf.encoder).__name__} {model_name(leaf.encoder)} was trained on the queries of {dataset}, on which "
                "weights are chosen: it looks better there than it is, and its weight may be too large"
            )


def _note(rule: str, position: str, best: BestWeights, measure: str, tuning: _Queries) -> str:
    """Return one line on a choice."""
    weights = f"weights [{', '.join(f'{weight:.4g}' for weight in best.weights)}]" + (
        f" of part {position}" if position else ""
    )
    queries = f"{len(tuning.dataset.queries)} queries of {tuning.dataset.contract.id}"
    mean = f"{measure} {best.mean:.4f} is the best of {best.tried}, in steps of {best.step:g}"
    if rule == "oracle":
        return f"{BOUND}{weights}, chosen on the very {queries} that are scored: an upper bound, no result; {mean}"
    left_out = f"; {tuning.left_out} more are tested here, too, and were left out" if tuning.left_out else ""
    return f"{weights}, tuned on {queries}, where {mean}{left_out}"
