"""What systems had seen of datasets in training: by the names of their training data, and by its texts.

`look_up` and `tables` are behind `lexbench exposure`; `notes` are lines below tables of results.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from lexbench.contracts import all_contracts
from lexbench.datasets.contamination import Contamination, contamination
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.location import find_dataset
from lexbench.results import EXPOSURES, Exposure, Result
from lexbench.runner.exposure import exposures_of
from lexbench.table import Table

_LEGEND = (
    "queries: those that share eight of ten words with a query of the texts; documents: those of whose phrases of eight words "
    "half are in the texts"
)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What is known by names, and what was found by texts."""

    exposure: dict[str, dict[str, Exposure]]  # by system and dataset
    overlap: list[Contamination]


def look_up(systems: Sequence[str], texts: Sequence[Path], datasets: Sequence[str]) -> Found:
    """Return the exposure of *systems* to *datasets* (default: all), and what of the datasets is in the folders *texts*."""
    contracts = [find_dataset(name)[0] for name in datasets] or list(all_contracts().values())
    by_system = [exposures_of(name, contracts) for name in systems]
    return Found(
        exposure={
            label: {contract.id: seen for contract, seen in zip(contracts, exposures, strict=True)}
            for label, exposures in by_system
        },
        overlap=[
            contamination(folder, open_dataset(contract)) for contract in (contracts if texts else ()) for folder in texts
        ],
    )


def tables(found: Found) -> list[Table]:
    """Return a table per system, with the evidence below, and one of the texts."""
    shown = []
    for system, by_dataset in found.exposure.items():
        rows = tuple((dataset, seen.status) for dataset, seen in by_dataset.items())
        evidence = dict.fromkeys(f"{dataset}: {line}" for dataset, seen in by_dataset.items() for line in seen.because)
        shown.append(Table(f"seen in training: {system}", ("dataset", "exposure"), rows, tuple(evidence)))
    if found.overlap:
        counts = tuple(
            (f"{one.texts} in {one.dataset}", f"{one.near:,} of {one.queries:,}", f"{one.seen:,} of {one.documents:,}")
            for one in found.overlap
        )
        examples = (f"{one.texts}: {example}" for one in found.overlap for example in one.examples)
        shown.append(Table("contamination", ("texts", "queries", "documents"), counts, (_LEGEND, *examples)))
    return shown


def notes(results: Sequence[Result]) -> Iterator[str]:
    """Yield notes for each dataset that a system may have seen in training: which systems, and the evidence."""
    for dataset in dict.fromkeys(result.dataset for result in results):
        known = [(result.system, result.exposure) for result in results if result.dataset == dataset and result.exposure]
        by_status = {status: [system for system, seen in known if seen.status == status] for status in EXPOSURES}
        if len(by_status["zero-shot"]) < len(known):
            groups = [f"{status}: {', '.join(systems)}" for status, systems in by_status.items() if systems]
            yield f"seen of {dataset} in training: {'; '.join(groups)}"
            yield from (f"{dataset}: {line}" for line in dict.fromkeys(line for _, seen in known for line in seen.because))
