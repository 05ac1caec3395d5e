"""Scoring a run under a contract: the one way from ranked lists to a result."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from lexbench import measures
from lexbench.datasets.contracts import contract_of
from lexbench.datasets.dataset import check, judgement_facts, open_dataset
from lexbench.errors import CommandError
from lexbench.results import Counts, Result
from lexbench.trec.qrels import Qrels, read_qrels
from lexbench.trec.runs import Filtered, Run, read_run, without_self_matches


def score_run(run: Run, qrels: Qrels, named: Sequence[str], *, system: str, dataset: str, contract: str, depth: int) -> Result:
    """Return the result of *run*: means over all queries of *qrels*, values by query, counts, and what ties leave open."""
    scores = measures.score(run, qrels, named)
    return Result(
        system=system,
        dataset=dataset,
        contract=contract,
        depth=depth,
        means=scores.means,
        query_ids=list(scores.query_ids),
        per_query={name: values.tolist() for name, values in scores.values.items()},
        counts=Counts(queries=len(scores.query_ids), missing=scores.missing, unjudged=scores.unjudged),
        ties=measures.tie_report(run, qrels, named),
    )


def score_file(path: Path, named: Sequence[str], *, dataset: str | None = None, qrels: Path | None = None) -> Result:
    """Score the run at *path* by the contract of *dataset*, by the judgements in the file *qrels*, or by both.

    With both, the file has to hold what the contract expects, and nothing of the dataset need be here. CommandError for
    neither, ContractMismatch for judgements of another dataset.
    """
    ranked = Filtered(read_run(path), 0)
    if dataset is None:
        if qrels is None:
            raise CommandError("a run is scored by a dataset or by a qrels file")
        return _result(ranked, read_qrels(qrels), named, system=path.name, dataset=qrels.name, contract="none")
    contract = contract_of(dataset)
    if qrels is None:
        judged = open_dataset(contract).qrels
    else:
        judged = read_qrels(qrels)
        check(contract, judgement_facts(tuple(judged.judgements())))
    if contract.protocol.self_match == "drop":
        ranked = without_self_matches(ranked.run)
    wanted = [measures.with_threshold(measure, contract) for measure in named]
    return _result(ranked, judged, wanted, system=path.name, dataset=contract.id, contract=contract.stamp)


def _result(ranked: Filtered, qrels: Qrels, named: Sequence[str], **stamps: str) -> Result:
    depth = int(np.diff(ranked.run.offsets).max(initial=0))
    result = score_run(ranked.run, qrels, named, **stamps, depth=depth)
    return msgspec.structs.replace(result, counts=msgspec.structs.replace(result.counts, self_matches=ranked.dropped))
