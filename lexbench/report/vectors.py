"""The tables of what vectors weigh: terms, bytes and work of sparse ones, dimensions and bytes of dense ones."""

from collections.abc import Sequence

from lexbench.report.table import Table, number
from lexbench.results import Result, Vectors, Work

_SPARSE_HEADER = ("system", "terms", "bytes\na doc.", "index bytes\na doc.", "query terms", "postings", "FLOPS")
_SPARSE_LEGEND = (
    "a document's terms, its bytes at 3 a term and in the index; a query's terms and postings; products per document"
)
_DENSE_HEADER = ("system", "dimensions", "vectors", "bytes\na doc.", "index bytes\na doc.")
_DENSE_LEGEND = "a document's vectors, their bytes as float32, and its bytes in the index"


def vector_tables(results: Sequence[Result]) -> list[Table]:
    """Return tables for each dataset on which systems have vectors; but for the index, the same on every machine."""
    tables = []
    for dataset in dict.fromkeys(result.dataset for result in results):
        group = [(result, result.vectors) for result in results if result.dataset == dataset and result.vectors is not None]
        sparse = [(result, vectors) for result, vectors in group if not vectors.dimensions]
        dense = [(result, vectors) for result, vectors in group if vectors.dimensions]
        if sparse:
            rows = tuple(_sparse_row(result, vectors) for result, vectors in sparse)
            tables.append(Table(f"sparse vectors, {dataset}", _SPARSE_HEADER, rows, (_SPARSE_LEGEND, *_remarks(sparse))))
        if dense:
            rows = tuple(_dense_row(result, vectors) for result, vectors in dense)
            tables.append(Table(f"dense vectors, {dataset}", _DENSE_HEADER, rows, (_DENSE_LEGEND, *_remarks(dense))))
    return tables


def _sparse_row(result: Result, vectors: Vectors) -> tuple[str, ...]:
    work = result.work or Work()
    return (
        result.system,
        number(vectors.terms.get("mean"), ".1f"),
        number(vectors.bytes_per_document, ".0f"),
        _index_bytes(result),
        number(work.query_terms.get("mean"), ".1f"),
        number(work.postings.get("mean"), ",.0f"),
        number(work.flops, ".3g"),
    )


def _dense_row(result: Result, vectors: Vectors) -> tuple[str, ...]:
    sizes = number(vectors.vectors, ".1f"), number(vectors.bytes_per_document, ",.0f"), _index_bytes(result)
    return result.system, str(vectors.dimensions), *sizes


def _index_bytes(result: Result) -> str:
    """Return the bytes of the index a document."""
    return number(result.sizes["index"] / (result.counts.documents or 1) if "index" in result.sizes else None, ",.0f")


def _remarks(group: Sequence[tuple[Result, Vectors]]) -> list[str]:
    """Return what a reader must know of vectors; what is the same line for several systems is there once."""
    lines = []
    for result, vectors in group:
        documents = result.counts.documents
        if vectors.truncated:
            lines.append(f"{vectors.truncated:,} of {documents:,} texts were cut to the encoder's length")
        if vectors.empty:
            lines.append(f"{vectors.empty:,} of {documents:,} documents have no term")
        if "top_k(" in result.system and not vectors.dropped:
            lines.append(f"{result.system}: top_k had no effect, no document has more terms")
        if vectors.clipped:
            lines.append(f"{result.system}: {vectors.clipped:,} weights were clipped")
    return list(dict.fromkeys(lines))
