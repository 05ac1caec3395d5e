"""The results of a store, and the runs that names on the command line stand for."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lexbench import results
from lexbench.contracts import Contract, Protocol
from lexbench.datasets.corpus import IDS
from lexbench.errors import LexbenchError, MissingData
from lexbench.notation import parse
from lexbench.results import Result
from lexbench.runner.jobs import completed
from lexbench.runner.scoring import excluded
from lexbench.runner.search import read_run as read_stored_run
from lexbench.storage.artifact_folder import DESCRIPTIONS, key_facts_of, key_of
from lexbench.storage.stopwatch import read_measurement
from lexbench.storage.store import Store, finished_files
from lexbench.timing.stored_timings import timings_of_run
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run, read_run, without_self_matches


@dataclass(frozen=True)
class StoredResult:
    """A finished result, and the artifact of its run if the run was made here."""

    result: Result
    run: Path | None


def stored_results(store: Store) -> Iterator[StoredResult]:
    """Yield every finished result of the store, sorted by dataset and system.

    Damaged results are left out with a warning, and so is the run, index or timing of a result if it is damaged.
    """
    rows = []
    for path in finished_files(store, "results", "result.json"):
        result = msgspec.structs.replace(results.load(path), measured=read_measurement(path.parent))
        run_dir = _artifact(store, "runs", key_facts_of(path.parent).get("run"))
        index = run_dir and _artifact(store, "indexes", key_facts_of(run_dir)["index"], DESCRIPTIONS)
        corpus = run_dir and store.root / "corpora" / json.loads((run_dir / "run.json").read_bytes())["corpus"]
        if corpus and corpus.exists() and not store.is_intact(corpus, IDS):
            run_dir = None  # with damaged ids, its documents could be others
        if run_dir and index and corpus and corpus.exists():
            with suppress(MissingData):  # a member of an ensemble may be gone
                timings = timings_of_run(store, key_of(run_dir))
                result = msgspec.structs.replace(completed(result, run_dir, index, corpus), timings=timings)
        rows.append(StoredResult(result, run_dir))
    yield from sorted(rows, key=lambda row: (row.result.dataset, row.result.system))


def _artifact(store: Store, stage: str, key: str | None, only: Sequence[str] = ()) -> Path | None:
    """Return the artifact with that key if it is there and undamaged; *only* names the files to check."""
    folder = next((store.root / stage).glob(f"*-{key}"), None) if key else None
    return folder if folder and store.is_intact(folder, only) else None


def named_runs(
    names: Sequence[str], store: Store, contract: Contract | None = None, qrels: Qrels | None = None
) -> dict[str, Run]:
    """Return the runs of `find_runs` under the rules of *contract*: without documents that it drops from lists.

    Documents that it drops because of their grade are found in *qrels*.
    """
    protocol = contract.protocol if contract else Protocol()
    runs = find_runs(names, store, contract)
    if protocol.self_match == "drop":
        runs = {name: without_self_matches(run).run for name, run in runs.items()}
    return runs if qrels is None else {name: excluded(run, qrels, protocol).run for name, run in runs.items()}


def find_runs(names: Sequence[str], store: Store, contract: Contract | None = None) -> dict[str, Run]:
    """Return the runs that *names* stand for, in that order: run files, or systems that were run on the dataset of *contract*.

    Of a system that was run again (with changed weights or another version) the newest run counts. Raises MissingData for a
    name that is neither a file nor a system with a stored run.
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
        elif folder := stored.get(name) or stored.get(_in_order(name)):
            runs[name] = read_stored_run(folder).run
        elif contract is None:
            raise MissingData(f"{name!r} is not a run file; to name a system, give its dataset with -d")
        else:
            there = f"; there are: {', '.join(sorted(stored))}" if stored else f"; run it: lexbench run dataset {contract.id}"
            raise MissingData(f"{name!r} is neither a run file nor a system that was run on {contract.id}{there}")
    return runs


def _in_order(expression: str) -> str:
    """Return an expression with its settings in the order that results use; other texts as they are."""
    try:
        return str(parse(expression))
    except LexbenchError:
        return expression
