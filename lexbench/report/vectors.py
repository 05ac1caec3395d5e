"""The tables of sparse systems: what their vectors weigh, and what searching them looks at."""

from collections.abc import Iterator, Sequence

from lexbench.report.cells import Table, figure
from lexbench.results import Result, Work

_HEADER = ("system", "terms", "bytes", "index", "query terms", "postings", "FLOPS")
_LEGEND = "a document's terms, its bytes at 3 a term and in the index; a query's terms and postings; products per document"


def vector_tables(results: Sequence[Result]) -> list[Table]:
    """Return a table for each dataset on which there are sparse systems; but for the index, the same on every machine."""
    sparse = [result for result in results if result.vectors is not None]
    found = []
    for dataset in dict.fromkeys(result.dataset for result in sparse):
        own = [result for result in sparse if result.dataset == dataset]
        notes = _LEGEND, *dict.fromkeys(line for result in own for line in _remarks(result))
        found.append(Table(f"sparse vectors, {dataset}", _HEADER, tuple(_row(result) for result in own), notes))
    return found


def _row(result: Result) -> tuple[str, ...]:
    assert result.vectors is not None
    documents, work = result.counts.documents or 1, result.work or Work()
    index = result.sizes["index"] / documents if "index" in result.sizes else None
    return (
        result.system,
        figure(result.vectors.terms.get("mean"), ".1f"),
        figure(result.vectors.bytes_per_document, ".0f"),
        figure(index, ".0f"),
        figure(work.query_terms.get("mean"), ".1f"),
        figure(work.postings.get("mean"), ",.0f"),
        figure(work.flops, ".3g"),
    )


def _remarks(result: Result) -> Iterator[str]:
    """Yield what a reader must know; what all systems of one encoding have in common is the same line for each."""
    facts, documents = result.vectors, result.counts.documents
    assert facts is not None
    if facts.truncated:
        yield f"{facts.truncated:,} of {documents:,} texts were cut to the encoder's length"
    if facts.empty:
        yield f"{facts.empty:,} of {documents:,} documents have no term"
    if facts.clipped:
        yield f"{result.system}: {facts.clipped:,} weights were clipped"
