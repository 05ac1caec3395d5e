"""Score a folder of results again, from the documents that its results keep and the judgements on this machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lexbench.contracts import Contract, find_contract
from lexbench.datasets.location import find_source
from lexbench.display.answer import Answer
from lexbench.display.table import Table
from lexbench.errors import CannotStart, CommandError, LexbenchError, shortened
from lexbench.results import KEPT, Result, SystemResults, files_of, kept_ids, load
from lexbench.runner.soundness import contradictions, judgements_of
from lexbench.runner.value_checks import own_measure, unattainable_values
from lexbench.trec.qrels import Qrels

_MOST_DOCUMENTS = 1_000_000  # of a corpus whose ids are read
_HEADER = ("dataset", "results", "scored again", "values equal", "values bounded", "wrong", "without documents")


class Rescored(NamedTuple):
    """One result, scored again."""

    suite: str
    result: Result
    equal: int  # values per query that the kept documents decide
    bounded: int  # values of deeper measures, for which they give a lowest and a highest
    faults: tuple[str, ...]
    untold: str = ""  # why it was not scored again


class Rescoring(Answer, msgspec.Struct, frozen=True):
    """All results of a folder, scored again."""

    folder: Path
    results: tuple[Rescored, ...]

    @property
    def holds(self) -> bool:
        """Whether something was scored again and nothing is wrong."""
        return any(one.equal for one in self.results) and not any(one.faults for one in self.results)

    def tables(self) -> list[Table]:
        """Return one row per dataset."""
        datasets = dict.fromkeys(one.result.dataset for one in self.results)
        rows = [self._row(name, [one for one in self.results if one.result.dataset == name]) for name in datasets]
        note = f"documents deeper than {KEPT} are not kept: deeper measures must lie between what those kept allow"
        return [Table("scored again", _HEADER, tuple(rows), (note,))]

    def _row(self, dataset: str, results: list[Rescored]) -> tuple[str, ...]:
        counts = (
            len(results), sum(not one.untold for one in results), sum(one.equal for one in results),
            sum(one.bounded for one in results), sum(bool(one.faults) for one in results),
            sum(not one.result.top for one in results),
        )  # fmt: skip
        return (dataset, *(f"{count:,}" for count in counts))

    def lines(self) -> list[str]:
        """Return a line for each wrong result, and one for each reason why results were not scored again."""
        wrong = [f"{one.result.system} on {one.result.dataset}: {fault}" for one in self.results for fault in one.faults[:1]]
        untold: dict[str, list[str]] = {}
        for one in self.results:
            if one.untold:
                untold.setdefault(one.untold, []).append(f"{one.result.system} on {one.result.dataset}")
        return [*wrong, *(f"not scored again, {why}: {len(names)} results, e.g. {names[0]}" for why, names in untold.items())]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per result."""
        return [
            {
                "suite": one.suite, "system": one.result.system, "dataset": one.result.dataset, "equal": one.equal,
                "bounded": one.bounded, "faults": list(one.faults), "not_scored": one.untold,
            }
            for one in self.results
        ]  # fmt: skip

    def document(self) -> dict[str, Any]:
        """Return all results."""
        return {"results": self.rows()}


def rescore(folder: Path) -> Rescoring:
    """Score all results in *folder*, a folder of results, again. Raises CommandError if it has none."""
    if not (files := files_of(folder)):
        raise CommandError(f"no result files in {folder / 'results'}; --rescore takes a folder of results")
    known: dict[str, _Data | str] = {}
    found = []
    for path in files:
        entry = load(path, SystemResults)
        for result in entry.results:
            contract = find_contract(result.dataset)
            if result.dataset not in known:
                known[result.dataset] = _data(contract) if contract else "there is no contract of its data"
            found.append(_rescored(entry.suite, result, known[result.dataset]))
    return Rescoring(folder, tuple(found))


class _Data(NamedTuple):
    """What is known of a dataset on this machine."""

    contract: Contract
    qrels: Qrels
    documents: frozenset[str]  # ids; none if the corpus is not here or too large


def _data(contract: Contract) -> "_Data | str":
    """Return the judgements of a dataset and the ids of its documents, or why there are none."""
    try:
        qrels = judgements_of(contract)
    except CannotStart as error:
        return str(error)
    few = (contract.expected.documents or 0) <= _MOST_DOCUMENTS
    try:
        ids = frozenset(document.doc_id for document in find_source(contract).documents()) if few else frozenset[str]()
    except LexbenchError:
        ids = frozenset()
    return _Data(contract, qrels, ids)


def _rescored(suite: str, result: Result, data: "_Data | str") -> Rescored:
    if fault := next(contradictions(result), ""):  # e.g. a mean that is not that of its values
        return Rescored(suite, result, 0, 0, (fault,))
    if isinstance(data, str):
        return Rescored(suite, result, 0, 0, (), data)
    if result.contract != data.contract.stamp or tuple(result.query_ids) != data.qrels.query_ids:
        fault = f"it was scored under {result.contract}, or has other queries than {data.contract.stamp}"
        return Rescored(suite, result, 0, 0, (fault,))
    if result.seeds or not result.top:
        why = "it is a mean over seeds" if result.seeds else "it keeps no documents"
        return Rescored(suite, result, 0, 0, tuple(unattainable_values(result, data.qrels)), why)
    ours = [measure for name in result.per_query if (measure := own_measure(name)) and not getattr(measure, "ties", None)]
    shallow = sum((one.cutoff or KEPT + 1) <= KEPT for one in ours)
    faults = (*_foreign_documents(result, data.documents), *unattainable_values(result, data.qrels))
    queries = len(result.query_ids)
    return Rescored(suite, result, shallow * queries, (len(ours) - shallow) * queries, faults)


def _foreign_documents(result: Result, documents: frozenset[str]) -> Iterator[str]:
    """Yield a kept document that the corpus lacks."""
    kept = {one for text in result.top for one in kept_ids(text)}
    if documents and (unknown := sorted(kept - documents)):
        yield f"{len(unknown):,} of the documents that it keeps are not in the corpus, e.g. {shortened(repr(unknown[0]), 60)}"
