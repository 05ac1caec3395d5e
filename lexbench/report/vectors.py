"""The tables of systems that have vectors: what these weigh, and what searching sparse ones looks at."""

from collections.abc import Iterator, Sequence

from lexbench.report.cells import Table, figure
from lexbench.results import Result, Work

_HEADER = ("system", "terms", "bytes", "index", "query terms", "postings", "FLOPS")
_LEGEND = "a document's terms, its bytes at 3 a term and in the index; a query's terms and postings; products per document"
_DENSE_HEADER = ("system", "dimensions", "vectors", "bytes", "index")
_DENSE_LEGEND = "a document's vectors, their bytes as float32, and its bytes in the index"


def vector_tables(results: Sequence[Result]) -> list[Table]:
    """Return tables for each dataset on which systems have vectors; but for the index, the same on every machine."""
    found = []
    for dataset in dict.fromkeys(result.dataset for result in results):
        own = [result for result in results if result.dataset == dataset and result.vectors is not None]
        sparse, dense = ([one for one in own if one.vectors and bool(one.vectors.dimensions) is kind] for kind in (False, True))
        if sparse:
            notes = _LEGEND, *dict.fromkeys(line for result in sparse for line in _remarks(result))
            found.append(Table(f"sparse vectors, {dataset}", _HEADER, tuple(map(_row, sparse)), notes))
        if dense:
            notes = _DENSE_LEGEND, *dict.fromkeys(line for result in dense for line in _remarks(result))
            found.append(Table(f"dense vectors, {dataset}", _DENSE_HEADER, tuple(map(_dense_row, dense)), notes))
    return found


def _index(result: Result) -> str:
    return figure(result.sizes["index"] / (result.counts.documents or 1) if "index" in result.sizes else None, ",.0f")


def _dense_row(result: Result) -> tuple[str, ...]:
    assert result.vectors is not None
    facts = result.vectors
    dimensions, vectors = str(facts.dimensions), figure(facts.vectors, ".1f")
    return (result.system, dimensions, vectors, figure(facts.bytes_per_document, ",.0f"), _index(result))


def _row(result: Result) -> tuple[str, ...]:
    assert result.vectors is not None
    work = result.work or Work()
    return (
        result.system,
        figure(result.vectors.terms.get("mean"), ".1f"),
        figure(result.vectors.bytes_per_document, ".0f"),
        _index(result),
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
