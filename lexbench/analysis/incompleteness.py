"""What a reader of several results on one dataset must know of documents that nobody judged."""

from collections.abc import Iterator, Sequence

from lexbench.analysis.pool import is_contributor
from lexbench.contracts import find_contract
from lexbench.results import Result

GAP = 0.1  # a difference of `Judged` from which on systems are no peers


def judged_gaps(results: Sequence[Result]) -> Iterator[str]:
    """Yield lines for each dataset whose systems differ in `Judged` by more than .1: the gap, the pool, and what is open.

    Where a contract says that judgements are complete, nothing is open.
    """
    for dataset in dict.fromkeys(result.dataset for result in results):
        contract = find_contract(dataset)
        if contract and contract.judging and contract.judging.complete:
            continue
        group = [result for result in results if result.dataset == dataset]
        for measure in dict.fromkeys(name for result in group for name in result.means if name.startswith("Judged")):
            shares = {result.system: result.means[measure] for result in group if measure in result.means}
            least, most = min(shares, key=lambda name: shares[name]), max(shares, key=lambda name: shares[name])
            if shares[most] - shares[least] > GAP:
                yield (
                    f"{dataset}: {measure} is from {shares[least]:.2f} ({least}) to {shares[most]:.2f} ({most}): what nobody "
                    "judged counts as irrelevant, so systems with less of it judged may be better than their scores say"
                )
                yield from _pool(dataset, [result.system for result in group])
                yield from (
                    line for result in group if shares.get(result.system, 1) < shares[most] - GAP for line in _open(result)
                )


def _pool(dataset: str, systems: Sequence[str]) -> Iterator[str]:
    contract = find_contract(dataset)
    if contract and contract.judging:
        judging = contract.judging
        pool = f", over a pool of {'; '.join(judging.pool)}, which it favours" if judging.pool else ""
        here = [system for system in systems if is_contributor(system, contract)]
        yield f"{dataset} was judged by {judging.by}{pool}" + (f"; of these systems: {', '.join(here)}" if here else "")


def _open(result: Result) -> Iterator[str]:
    """Yield what the judgements leave open of one result."""
    parts = [
        f"{measure} {result.means[measure]:.4f}, on condensed lists {one.condensed:.4f}, at most {one.highest:.4f}"
        for measure, one in result.incomplete.items()
    ]
    if parts:
        yield f"{result.system} on {result.dataset}: {'; '.join(parts)}"
