"""An explanation as tables: the query's terms, then each document with what its terms add to the score."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lexbench.analysis.explain import ExplainedDocument, Explanation, Term
from lexbench.report.cells import DIGITS, Table

_BEGINNING = 160  # characters of a document that are shown


def tables(found: Explanation, most: int) -> list[Table]:
    """Return a table of the query's terms and one a document, of no more than *most* terms each; notes tell of the rest."""
    shown = [(term.term, _number(term.query)) for term in found.terms[:most]]
    notes = [*_rest(found.terms, most)]
    if found.unknown:
        notes.append(f"in no document: {', '.join(found.unknown)}")
    first = Table(f"{found.system}: {' '.join(found.query.split())}", ("term", "weight"), tuple(shown), tuple(notes))
    return [first, *(_of_document(rank, one, most) for rank, one in enumerate(found.documents, 1))]


def _of_document(rank: int, one: ExplainedDocument, most: int) -> Table:
    rows = [
        (term.term, _number(term.query), _number(term.document), _number(term.contribution), _share(term, one))
        for term in one.terms[:most]
    ]
    text = " ".join(one.text.split())
    cut = text if len(text) <= _BEGINNING else f"{text[:_BEGINNING]}…"
    title = f"{rank}. {one.doc_id}: score {_number(one.score)}, sum of its terms {_number(one.total)}"
    return Table(title, ("term", "query", "document", "adds", "share"), tuple(rows), (*_rest(one.terms, most), cut))


def _share(term: Term, one: ExplainedDocument) -> str:
    return f"{term.contribution / one.total:.0%}" if one.total else "—"


def _rest(terms: Sequence[Term], most: int) -> list[str]:
    left = len(terms) - most
    return [f"{left} more term{'s' * (left > 1)}"] if left > 0 else []


def _number(value: float) -> str:
    """Write whole numbers as such."""
    return f"{value:.0f}" if value == int(value) else f"{value:.{DIGITS}f}"


def document(found: Explanation) -> dict[str, Any]:
    """Return all of it for JSON."""
    return {
        "system": found.system,
        "query": found.query,
        "terms": [{"term": term.term, "weight": term.query} for term in found.terms],
        "unknown": list(found.unknown),
        "documents": [
            {
                "id": one.doc_id,
                "score": one.score,
                "sum": one.total,
                "terms": [asdict(term) | {"contribution": term.contribution} for term in one.terms],
            }
            for one in found.documents
        ],
    }
