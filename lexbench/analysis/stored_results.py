"""The results that a store holds, with the run and the timings of each."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lexbench import results
from lexbench.datasets.corpus import IDS
from lexbench.errors import MissingData
from lexbench.results import Result
from lexbench.runner.jobs import completed
from lexbench.storage.artifacts import DESCRIPTIONS, key_facts_of, key_of
from lexbench.storage.stopwatch import read_measurement
from lexbench.storage.store import Store, finished_files
from lexbench.timing.stored_timings import timings_of_run


@dataclass(frozen=True)
class StoredResult:
    """A finished result of the store, and the folder of its run where the run was made here."""

    result: Result
    run: Path | None


def stored_results(store: Store) -> Iterator[StoredResult]:
    """Yield every finished result of the store, sorted by dataset and system.

    What is not as it was written is left out, and said: a result, or the run, index or timing that completes it.
    """
    rows = []
    for path in finished_files(store, "results", "result.json"):
        result = msgspec.structs.replace(results.load(path), measured=read_measurement(path.parent))
        run_dir = _folder(store, "runs", key_facts_of(path.parent).get("run"))
        index = run_dir and _folder(store, "indexes", key_facts_of(run_dir)["index"], DESCRIPTIONS)
        corpus = run_dir and store.root / "corpora" / json.loads((run_dir / "run.json").read_bytes())["corpus"]
        if corpus and corpus.exists() and not store.is_intact(corpus, IDS):
            run_dir = None  # its documents could be others
        if run_dir and index and corpus and corpus.exists():
            with suppress(MissingData):  # of an ensemble a part may be gone
                timings = timings_of_run(store, key_of(run_dir))
                result = msgspec.structs.replace(completed(result, run_dir, index, corpus), timings=timings)
        rows.append(StoredResult(result, run_dir))
    yield from sorted(rows, key=lambda row: (row.result.dataset, row.result.system))


def _folder(store: Store, stage: str, key: str | None, only: Sequence[str] = ()) -> Path | None:
    """Return the finished folder of that key, if it is still there and it, or the files *only* of it, as it was written."""
    folder = next((store.root / stage).glob(f"*-{key}"), None) if key else None
    return folder if folder and store.is_intact(folder, only) else None
