"""The tables of `lexbench explain`: the query's terms, then each document with what its terms add to the score."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lexbench.analysis.explain import ExplainedDocument, Explanation, Term
from lexbench.report.table import DIGITS, Table

_BEGINNING = 160  # characters of a document that are shown


def tables(explanation: Explanation, most: int) -> list[Table]:
    """Return a table of the query's terms and one a document, of no more than *most* terms each; notes tell of the rest."""
    rows = tuple((term.term, _weight(term.query)) for term in explanation.terms[:most])
    notes = _more(explanation.terms, most)
    if explanation.unknown:
        notes.append(f"in no document: {', '.join(explanation.unknown)}")
    query = Table(f"{explanation.system}: {' '.join(explanation.query.split())}", ("term", "weight"), rows, tuple(notes))
    return [query, *(_document_table(rank, shown, most) for rank, shown in enumerate(explanation.documents, 1))]


def _document_table(rank: int, shown: ExplainedDocument, most: int) -> Table:
    rows = [
        (term.term, _weight(term.query), _weight(term.document), _weight(term.contribution), _share(term, shown))
        for term in shown.terms[:most]
    ]
    text = " ".join(shown.text.split())
    beginning = text if len(text) <= _BEGINNING else f"{text[:_BEGINNING]}…"
    title = f"{rank}. {shown.doc_id}: score {_weight(shown.score)}, sum of its terms {_weight(shown.total)}"
    return Table(title, ("term", "query", "document", "adds", "share"), tuple(rows), (*_more(shown.terms, most), beginning))


def _share(term: Term, shown: ExplainedDocument) -> str:
    return f"{term.contribution / shown.total:.0%}" if shown.total else "—"


def _more(terms: Sequence[Term], most: int) -> list[str]:
    left = len(terms) - most
    return [f"{left} more term{'s' * (left > 1)}"] if left > 0 else []


def _weight(value: float) -> str:
    """Write whole numbers as such."""
    return f"{value:.0f}" if value == int(value) else f"{value:.{DIGITS}f}"


def document(explanation: Explanation) -> dict[str, Any]:
    """Return all of it for JSON."""
    return {
        "system": explanation.system,
        "query": explanation.query,
        "terms": [{"term": term.term, "weight": term.query} for term in explanation.terms],
        "unknown": list(explanation.unknown),
        "documents": [
            {
                "id": shown.doc_id,
                "score": shown.score,
                "sum": shown.total,
                "terms": [asdict(term) | {"contribution": term.contribution} for term in shown.terms],
            }
            for shown in explanation.documents
        ],
    }
