"""The tables of `lexbench exposure`: what systems had seen of datasets in training, by names and by texts."""

from collections.abc import Sequence

from lexbench.datasets.overlap import Overlap
from lexbench.report.table import Table
from lexbench.results import Exposure

_WHAT = (
    "queries: those with nearly the words of a query of the texts (eight of ten); documents: those of which the texts have "
    "half of all phrases of eight words"
)


def by_name(system: str, exposures: Sequence[tuple[str, Exposure]]) -> Table:
    """Return what one system may have learned of each dataset, with the evidence below."""
    rows = tuple((dataset, seen.status) for dataset, seen in exposures)
    lines = dict.fromkeys(f"{dataset}: {line}" for dataset, seen in exposures for line in seen.because)
    return Table(f"seen in training: {system}", ("dataset", "exposure"), rows, tuple(lines))


def by_text(found: Sequence[Overlap]) -> Table:
    """Return how many queries and documents of datasets are among texts, a row each."""
    rows = tuple(
        (f"{one.texts} in {one.dataset}", f"{one.near:,} of {one.queries:,}", f"{one.seen:,} of {one.documents:,}")
        for one in found
    )
    examples = (f"{one.texts}: {example}" for one in found for example in one.examples)
    return Table("the same texts", ("texts", "queries", "documents"), rows, (_WHAT, *examples))
