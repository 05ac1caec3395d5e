"""The ranked lists of systems: those in run files, and those that systems were found to have when they were run here."""

from collections.abc import Sequence
from pathlib import Path

from lexbench.analysis.stored_results import stored_results
from lexbench.contracts import Contract, Protocol
from lexbench.errors import LexbenchError, MissingData
from lexbench.notation import parse
from lexbench.runner.scoring import excluded
from lexbench.runner.stored_run import read_run as read_stored_run
from lexbench.storage.store import Store
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run, read_run, without_self_matches


def named_runs(
    names: Sequence[str], store: Store, contract: Contract | None = None, qrels: Qrels | None = None
) -> dict[str, Run]:
    """Return the runs of `lists_of` without what the contract leaves out of lists; documents by their grade, given *qrels*."""
    return {name: ruled(run, contract, qrels) for name, run in lists_of(names, store, contract).items()}


def ruled(run: Run, contract: Contract | None, qrels: Qrels | None) -> Run:
    """Return *run* without what the contract leaves out of lists."""
    protocol = contract.protocol if contract else Protocol()
    others = without_self_matches(run).run if protocol.self_match == "drop" else run
    return others if qrels is None else excluded(others, qrels, protocol).run


def lists_of(names: Sequence[str], store: Store, contract: Contract | None = None) -> dict[str, Run]:
    """Return the runs that are named, in that order: run files, or systems as they were run on the dataset of *contract*.

    Of a system that was run again, with other weights in its folder or another version, it is the newest run. MissingData where
    there is neither a file nor a stored run of a name.
    """
    asked = contract is not None and not all(Path(name).is_file() for name in names)
    entries = sorted(stored_results(store) if asked else (), key=lambda entry: entry.result.measured.started)
    stored = {
        entry.result.system: entry.run for entry in entries if entry.run and contract and entry.result.dataset == contract.id
    }
    runs = {}
    for name in dict.fromkeys(names):
        if Path(name).is_file():
            runs[name] = read_run(Path(name))
        elif folder := stored.get(name) or stored.get(_label(name)):
            runs[name] = read_stored_run(folder).run
        else:
            there = f"; there is: {', '.join(sorted(stored))}" if stored else ""
            where = contract.id if contract else "a dataset that is named by -d"
            raise MissingData(f"{name!r} is no run file, and no system that was run on {where}{there}")
    return runs


def _label(name: str) -> str:
    """Return what a system that is named so is called in results: its settings in order."""
    try:
        return str(parse(name))
    except LexbenchError:
        return name
