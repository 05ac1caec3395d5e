"""Explain the score of a document for a query: the terms that they share, and how much each adds to the score.

For sparse vectors a term adds its weight in the query times its weight in the document. For BM25 it adds its inverse document
frequency, counted as often as the query has the term, times the term frequency part. Dense vectors have no terms to explain.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.artifacts.graph import Graph
from lexbench.artifacts.searches import Scorer, Search
from lexbench.artifacts.vectors import CorpusVectors
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import Dataset, open_dataset
from lexbench.datasets.location import find_dataset
from lexbench.display.answer import Answer
from lexbench.display.progress import Progress
from lexbench.display.table import DIGITS, Table
from lexbench.encodings.shards import read_rows
from lexbench.engines.kernels.checks import as_hits, as_scores
from lexbench.errors import CannotStart, CommandError, UnknownName, shortened
from lexbench.plugins import Searcher, has
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.search import Data, data_of
from lexbench.runner.systems import System, named_systems, system
from lexbench.storage.store import Store
from lexbench.trec.ids import encode, lookup
from lexbench.types import Kind, Query

_BY_ID = "qid:"
_WORDS = 3  # of a feature
_BEGINNING = 160  # characters of a document to show


class Term(NamedTuple):
    """One term of the query, and its weight in a document."""

    term: str
    query: float  # its weight in the query; for BM25 its idf times how often the query has it
    document: float = 0.0  # its weight in the document; for BM25 the term frequency part, below 1

    words: tuple[str, ...] = ()  # of a feature without a name of its own: the words of the document that give it

    @property
    def contribution(self) -> float:
        """What the term adds to the score."""
        return self.query * self.document


class ExplainedDocument(NamedTuple):
    """One document: its score, and the terms that it shares with the query, by contribution."""

    doc_id: str
    score: float  # the engine's
    terms: tuple[Term, ...]
    text: str

    @property
    def total(self) -> float:
        """The sum of the contributions. With an exact engine it is the score."""
        return sum(term.contribution for term in self.terms)


class Explanation(Answer, msgspec.Struct, frozen=True):
    """The terms of a query in a system, and how much they add to the scores of documents."""

    system: str
    query: str
    terms: tuple[Term, ...]  # of the query, the heaviest first
    documents: tuple[ExplainedDocument, ...] = ()
    unknown: tuple[str, ...] = ()  # for BM25: words of the query that are in no document
    most: int = 15  # terms in a table

    def tables(self) -> list[Table]:
        """Return a table of the query's terms and one per document; notes count the terms that are not shown."""
        rows = tuple((term.term, _weight(term.query)) for term in self.terms[: self.most])
        notes = _more(self.terms, self.most)
        if self.unknown:
            notes.append(f"in no document: {', '.join(self.unknown)}")
        query = Table(f"{self.system}: {' '.join(self.query.split())}", ("term", "weight"), rows, tuple(notes))
        return [query, *(_document_table(rank, shown, self.most) for rank, shown in enumerate(self.documents, 1))]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per document and term, or per term of the query if no document is explained."""
        if not self.documents:
            return [{"term": term.term, "query": term.query} for term in self.terms]
        return [
            {"document": shown.doc_id, "score": shown.score, **term._asdict(), "contribution": term.contribution}
            for shown in self.documents
            for term in shown.terms
        ]

    def document(self) -> dict[str, Any]:
        """Return all terms, those of the query and those of each document."""
        return {
            "system": self.system,
            "query": self.query,
            "terms": [{"term": term.term, "weight": term.query} for term in self.terms],
            "unknown": list(self.unknown),
            "documents": [
                {
                    "id": shown.doc_id,
                    "score": shown.score,
                    "sum": shown.total,
                    "terms": [term._asdict() | {"contribution": term.contribution} for term in shown.terms],
                }
                for shown in self.documents
            ],
        }


def explain(
    query: str,
    system_name: str,
    dataset: str | None = None,
    documents: Sequence[str] = (),
    k: int = 3,
    *,
    store: Store | None = None,
    progress: Progress | None = None,
) -> Explanation:
    """Explain *query*, a text, the id of a query, or `qid:ID`, for the system *system_name*, e.g. "bm25" or "x = bm25(b=0.3)".

    With a *dataset*, the *documents* with these ids are explained, or else the best *k*; a missing index is built. Raises
    CannotStart for a system without terms or an unknown id, and CommandError if a dataset is needed and not given.
    """
    ((name, expression),) = named_systems(system_name)
    explained = system(expression, name)
    sparse_vectors = isinstance(explained.retriever, Encoded) and explained.retriever.engine.kind is Kind.SPARSE
    if not (sparse_vectors or has(explained.retriever, "single_terms")):
        raise CannotStart(_no_terms(explained))
    if dataset is None:
        if documents or query.startswith(_BY_ID) or not sparse_vectors:
            what = "a document" if documents else "a query's id" if query.startswith(_BY_ID) else "the weight of a term in bm25"
            raise CommandError(f"{what} depends on the dataset; name it with -d, see: lexbench list datasets")
        return _explain_vectors(explained, Query("", query), None, documents, k)
    data = data_of(open_dataset(*find_dataset(dataset)))
    asked, explained = _query(query, data.dataset), explained.for_dataset(data.dataset.contract.id)
    with Graph(store or Store(), progress or Progress()) as graph:
        made = _Made(graph, data, explained.retriever)
        return (_explain_vectors if sparse_vectors else _explain_terms)(explained, asked, made, documents, k)


class _Made(NamedTuple):
    """Where the artifacts of the explained system are."""

    graph: Graph
    data: Data
    retriever: Any

    @property
    def corpus(self) -> StoredCorpus:
        """The documents."""
        return self.graph.open(self.data.corpus)

    @property
    def searcher(self) -> Searcher:
        """The opened system."""
        return self.graph.open(Search(self.data.corpus, self.retriever))

    @property
    def vectors(self) -> Path:
        """The folder of the vectors of the documents."""
        return self.graph.open(CorpusVectors(self.data.corpus, self.retriever.encoder)).path


def _no_terms(explained: System) -> str:
    """Return why a system cannot be explained."""
    if isinstance(explained.retriever, Encoded):
        return f"{explained.name} has {explained.retriever.engine.kind} vectors, so there are no terms to explain"
    if explained.retriever.members:
        return f"{explained.name} is made of several systems; explain each of them"
    return f"{explained.name} does not show its terms; bm25 and encoders of sparse vectors do"


def _query(text: str, dataset: Dataset) -> Query:
    """Return the query with that id, or the id after `qid:`, or else with that text."""
    by_id = {query.query_id: query for query in dataset.queries}
    if text in by_id:
        return by_id[text]
    if not text.startswith(_BY_ID):
        return Query("", text)
    query_id = text.removeprefix(_BY_ID)
    if query_id not in by_id:
        see = f"lexbench score bm25 -d {quote(dataset.contract.id)} --per-query"
        raise UnknownName(f"judged query of {dataset.contract.id}:", query_id, by_id, see=see)
    return by_id[query_id]


def _scored(
    explained: System, encoded: Any, made: _Made, documents: Sequence[str], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return positions (n,) and scores of *documents*, or of the best *k* of a search. Raises CannotStart for an unknown id."""
    retriever: Any = explained.retriever
    if not documents:
        hits = as_hits(made.searcher.search(encoded, k), type(made.searcher).__name__, 1)
        filled = hits.docs[0] >= 0
        return hits.docs[0][filled], hits.scores[0][filled]
    positions = lookup(made.corpus.doc_ids, encode(documents))
    if (missing := np.flatnonzero(positions < 0)).size:
        doc_id, corpus = documents[missing[0]], made.data.dataset.contract.corpus
        raise CannotStart(f"no document {doc_id!r} in {corpus}; --document takes ids as they are in its files and in runs")
    docs = np.unique(positions).astype(np.int32)
    scorer = made.graph.open(Scorer(made.data.corpus, retriever))
    scores = as_scores(scorer.score(encoded, docs[None]), type(scorer).__name__, (1, len(docs)))[0]
    order = np.argsort(-scores, kind="stable")
    return docs[order], scores[order]


def _documents(
    made: _Made, docs: NDArray[np.int32], scores: NDArray[np.float32], terms: Sequence[Term], weights: Iterable[Any]
) -> tuple[ExplainedDocument, ...]:
    """Return the documents at positions *docs*, each with the *terms* that it has. *weights* are by document and term."""
    shown = []
    for position, score, inside in zip(docs.tolist(), scores.tolist(), weights, strict=True):
        (document,) = made.corpus.documents(position, position + 1)
        common = [term._replace(document=float(weight)) for term, weight in zip(terms, inside, strict=True) if weight]
        common.sort(key=lambda term: (-term.contribution, term.term))
        shown.append(ExplainedDocument(document.doc_id, score, tuple(common), document.text))
    return tuple(shown)


def _explain_vectors(explained: System, query: Query, made: _Made | None, documents: Sequence[str], k: int) -> Explanation:
    """Explain a system of sparse vectors by the weights in its index and its queries."""
    retriever: Any = explained.retriever
    if made is not None:
        retriever = retriever.with_stored_collection(made.vectors)
    encoded = retriever.encode_queries([query])
    weights = _weights(encoded)
    terms = [Term(retriever.encoder.token(number), weight) for number, weight in weights.items()]
    shown: tuple[ExplainedDocument, ...] = ()
    if made is not None:
        docs, scores = _scored(explained, encoded, made, documents, k)
        path = made.vectors
        stored = [_weights(retriever.as_documents(read_rows(path, docs[[at]]))) for at in range(len(docs))]
        shown = _documents(made, docs, scores, terms, ([row.get(number, 0.0) for number in weights] for row in stored))
        if hasattr(retriever.encoder, "firing"):
            numbers = {retriever.encoder.token(number): number for number in weights}
            shown = tuple(_with_words(one, retriever.encoder, numbers) for one in shown)
    return Explanation(explained.name, query.text, _heaviest_first(terms), shown)


def _with_words(shown: ExplainedDocument, encoder: Any, numbers: Mapping[str, int]) -> ExplainedDocument:
    """Return the document with the words that give it its features, whose names say nothing."""
    found = encoder.firing([numbers[term.term] for term in shown.terms], [shown.text], _WORDS)
    named = ((term, dict.fromkeys(one.word for one in found[numbers[term.term]])) for term in shown.terms)
    return shown._replace(terms=tuple(term._replace(words=tuple(words)) for term, words in named))


def _heaviest_first(terms: Sequence[Term]) -> tuple[Term, ...]:
    return tuple(sorted(terms, key=lambda term: (-term.query, term.term)))


def _weights(vector: Any) -> dict[int, float]:
    """Return the weights of one sparse *vector* (1, vocabulary) by the number of the term."""
    row = sparse.csr_array(vector)
    return dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))


def _explain_terms(explained: System, query: Query, made: _Made, documents: Sequence[str], k: int) -> Explanation:
    """Explain a system like BM25 by scoring each document for each term of the query alone."""
    retriever: Any = explained.retriever
    searcher: Any = made.searcher
    singles, unknown = retriever.single_terms(searcher, query.text)
    terms = [Term(term, weight) for term, (_, weight) in singles.items()]
    docs, scores = _scored(explained, searcher.encode([query.text]), made, documents, k)
    added = [searcher.score(single, docs[None])[0].astype(np.float64) / weight for single, weight in singles.values()]
    shown = _documents(made, docs, scores, terms, np.reshape(added, (len(terms), len(docs))).T)
    return Explanation(explained.name, query.text, _heaviest_first(terms), shown, tuple(unknown))


def _document_table(rank: int, shown: ExplainedDocument, most: int) -> Table:
    rows = [
        (
            f"{term.term} ({', '.join(term.words)})" if term.words else term.term,
            *map(_weight, (term.query, term.document, term.contribution)),
            f"{term.contribution / shown.total:.0%}" if shown.total else "—",
        )
        for term in shown.terms[:most]
    ]
    beginning = shortened(" ".join(shown.text.split()), _BEGINNING)
    title = f"{rank}. {shown.doc_id}: score {_weight(shown.score)}, sum of its terms {_weight(shown.total)}"
    return Table(title, ("term", "query", "document", "adds", "share"), tuple(rows), (*_more(shown.terms, most), beginning))


def _more(terms: Sequence[Term], most: int) -> list[str]:
    left = len(terms) - most
    return [f"{left} more term{'s' * (left > 1)}"] if left > 0 else []


def _weight(value: float) -> str:
    """Return a weight as a cell, whole numbers without decimals."""
    return f"{value:.0f}" if value == int(value) else f"{value:.{DIGITS}f}"
