"""Scoring a run under a contract: the one way from ranked lists to a result."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from lexbench import measures, suites
from lexbench.datasets.dataset import open_dataset
from lexbench.errors import CommandError
from lexbench.interop.trec import read_qrels, read_run
from lexbench.ranking import Filtered, Qrels, Run, without_self_matches
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
    ranked = Filtered(read_run(path), 0)
    if dataset is not None:
        contract = suites.contract(dataset)
        judged, judged_by, stamp = open_dataset(contract).qrels, contract.id, contract.stamp
        wanted = [measures.with_threshold(measure, contract) for measure in named]
        if contract.protocol.self_match == "drop":
            ranked = without_self_matches(ranked.run)
    elif qrels is not None:
        judged, judged_by, stamp, wanted = read_qrels(qrels), qrels.name, "none", list(named)
    else:
        raise CommandError("a run is scored by a dataset or by a qrels file")
    depth = int(np.diff(ranked.run.offsets).max(initial=0))
    found = score_run(ranked.run, judged, wanted, system=path.name, dataset=judged_by, contract=stamp, depth=depth)
    return msgspec.structs.replace(found, counts=msgspec.structs.replace(found.counts, self_matches=ranked.dropped))
