"""Scoring a run under a contract: the one way from ranked lists to a result."""

from collections.abc import Sequence
from pathlib import Path

from lexbench import measures, suites
from lexbench.errors import LexbenchError
from lexbench.interop.trec import read_qrels, read_run
from lexbench.ranking import Qrels, Run
from lexbench.results import Counts, Result


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
    """Score the TREC run at *path* by the contract and judgements of *dataset*, or by the file *qrels* without a contract."""
    run = read_run(path)
    if qrels is not None:
        judged, contract_id, stamp, wanted = read_qrels(qrels), qrels.name, "none", tuple(named)
    elif dataset is not None:
        from lexbench.datasets.dataset import open_dataset
        from lexbench.ranking import without_self_matches

        contract = suites.contract(dataset)
        opened = open_dataset(contract)
        judged, contract_id, stamp = opened.qrels, contract.id, contract.stamp
        wanted = tuple(measures.with_threshold(measure, contract) for measure in named)
        if contract.protocol.self_match == "drop":
            run = without_self_matches(run).run
    else:
        raise LexbenchError("a run is scored by a dataset or by a qrels file")
    depth = int((run.offsets[1:] - run.offsets[:-1]).max(initial=0))
    return score_run(run, judged, wanted, system=path.name, dataset=contract_id, contract=stamp, depth=depth)
