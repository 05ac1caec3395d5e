"""Why a system ranks a document where it does: the terms that it and the query have in common, and what each adds to the score.

For sparse vectors a term adds its weight in the query times its weight in the document, as the engine has them; for BM25 its
inverse document frequency, as often as the query has it, times the part of the term's frequency. Vectors that are not sparse
have no terms to explain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.datasets.dataset import Dataset, open_dataset
from lexbench.datasets.find import named
from lexbench.encodings.shards import read_rows
from lexbench.errors import CannotStart, CommandError, UnknownName
from lexbench.progress import Progress, Silent
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.stages import DatasetRunner
from lexbench.runner.systems import System, system
from lexbench.storage.store import Store
from lexbench.trec.ids import encode, lookup
from lexbench.types import Kind, Query

_BY_ID = "qid:"


@dataclass(frozen=True)
class Term:
    """One term of the query; where a document has it, what it adds to that document's score."""

    term: str
    query: float  # its weight in the query; for BM25 its idf, times how often the query has it
    document: float = 0.0  # its weight in the document; for BM25 the part of its frequency, below 1

    @property
    def contribution(self) -> float:
        """What the term adds to the score."""
        return self.query * self.document


@dataclass(frozen=True)
class ExplainedDocument:
    """One document: its score, and the terms that it shares with the query, the one that adds most first."""

    doc_id: str
    score: float  # the engine's
    terms: tuple[Term, ...]
    text: str

    @property
    def total(self) -> float:
        """The sum of what the terms add: the score, where the engine is exact."""
        return sum(term.contribution for term in self.terms)


@dataclass(frozen=True)
class Explanation:
    """The terms that a system sees in a query, and what they add to the scores of documents."""

    system: str
    query: str
    terms: tuple[Term, ...]  # of the query, the heaviest first
    documents: tuple[ExplainedDocument, ...] = ()
    unknown: tuple[str, ...] = field(default=())  # words of the query that BM25 found in no document


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
    """Explain *query*, a text or `qid:ID` of the dataset, for the system *system_name* in the notation of parts.

    With a *dataset*, its *documents* of these ids are explained, or else the best *k*; what the store lacks of its index is
    made. CannotStart for a system without terms, or an id that is not there; CommandError where a dataset must be named.
    """
    explained = system(system_name)
    sparse_vectors = isinstance(explained.retriever, Encoded) and explained.retriever.engine.kind is Kind.SPARSE
    if not (sparse_vectors or explained.retriever.scores_by_term):
        raise CannotStart(_no_terms(explained))
    if dataset is None:
        if documents or query.startswith(_BY_ID) or not sparse_vectors:
            what = "a document" if documents else "a query's id" if query.startswith(_BY_ID) else "what a term weighs in bm25"
            raise CommandError(f"{what} is of a dataset; name it by -d, see: lexbench list datasets")
        return _of_vectors(explained, Query("", query), None, documents, k)
    runner = DatasetRunner(_opened(dataset), store or Store(), progress or Silent())
    asked = _query(query, runner.dataset)
    return (_of_vectors if sparse_vectors else _of_terms)(explained, asked, runner, documents, k)


def _no_terms(explained: System) -> str:
    """Return why a system cannot be explained."""
    if isinstance(explained.retriever, Encoded):
        return f"{explained.label}: its vectors are {explained.retriever.engine.kind}, so there are no terms to explain"
    if explained.retriever.members:
        return f"{explained.label} is made of several systems; explain each of them"
    return f"{explained.label} does not show its terms; those of bm25 and of encoders of sparse vectors can be explained"


def _opened(name: str) -> Dataset:
    """Return the dataset of that id, of the hub, or in the folder at that path."""
    return open_dataset(*named(name))


def _query(text: str, dataset: Dataset) -> Query:
    """Return the query of that text, or of that id."""
    if not text.startswith(_BY_ID):
        return Query("", text)
    by_id = {query.query_id: query for query in dataset.queries}
    query_id = text.removeprefix(_BY_ID)
    if query_id not in by_id:
        raise UnknownName(f"judged query of {dataset.contract.id}:", query_id, by_id)
    return by_id[query_id]


def _positions(runner: DatasetRunner, documents: Sequence[str]) -> NDArray[np.int32]:
    """Return the positions of the documents of these ids (n,), ascending; CannotStart for one that is not there."""
    positions = lookup(runner.corpus.doc_ids, encode(documents))
    if (missing := np.flatnonzero(positions < 0)).size:
        doc_id, corpus = documents[missing[0]], runner.dataset.contract.corpus
        raise CannotStart(
            f"no document {doc_id!r} in {corpus}; ids are those of its files, as runs have them: leave --document out"
        )
    return np.unique(positions).astype(np.int32)


def _scored(
    explained: System, encoded: Any, runner: DatasetRunner, documents: Sequence[str], k: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return positions (n,) of the documents to explain and their scores: those asked for, or the best *k* of a search."""
    retriever: Any = explained.retriever  # bm25 or an Encoded, which have a rescorer
    if documents:
        docs = _positions(runner, documents)
        rescorer = retriever.rescorer(iter(retriever.rescoring_inputs(runner)))
        scores = rescorer.score(encoded, docs[None])[0]
        order = np.argsort(-scores, kind="stable")
        return docs[order], scores[order]
    hits = retriever.open(runner.index(retriever, explained.label)).search(encoded, k)
    filled = hits.docs[0] >= 0
    return hits.docs[0][filled], hits.scores[0][filled]


def _document(runner: DatasetRunner, position: int, score: float, terms: Sequence[Term]) -> ExplainedDocument:
    """Return the document at *position* with those of *terms* that it has."""
    (document,) = runner.corpus.documents(position, position + 1)
    common = sorted((term for term in terms if term.document), key=lambda term: (-term.contribution, term.term))
    return ExplainedDocument(document.doc_id, score, tuple(common), document.text)


def _of_vectors(explained: System, query: Query, runner: DatasetRunner | None, documents: Sequence[str], k: int) -> Explanation:
    """Explain a system of sparse vectors, by the weights that its engine gets."""
    retriever: Any = explained.retriever  # an Encoded
    encoded = retriever.encode_queries([query])
    weights = _weights(encoded)
    names = {number: retriever.encoder.token(number) for number in weights}
    terms = sorted((Term(names[number], weight) for number, weight in weights.items()), key=_heaviest_first)
    if runner is None:
        return Explanation(explained.label, query.text, tuple(terms))
    docs, scores = _scored(explained, encoded, runner, documents, k)
    shown = []
    for position, score in zip(docs.tolist(), scores.tolist(), strict=True):
        stored = read_rows(runner.encodings(retriever.encoder).path, np.array([position], np.int32))
        in_document = _weights(retriever.as_documents(stored))
        common = [Term(names[number], weight, in_document.get(number, 0.0)) for number, weight in weights.items()]
        shown.append(_document(runner, position, score, common))
    return Explanation(explained.label, query.text, tuple(terms), tuple(shown))


def _heaviest_first(term: Term) -> tuple[float, str]:
    return -term.query, term.term


def _weights(vector: Any) -> dict[int, float]:
    """Return the weights of one sparse *vector* (1, vocabulary) by the term's number."""
    row = sparse.csr_array(vector)
    return dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))


def _of_terms(explained: System, query: Query, runner: DatasetRunner, documents: Sequence[str], k: int) -> Explanation:
    """Explain a system as BM25, by what it scores a document for each term alone."""
    retriever: Any = explained.retriever  # one with single_terms
    searcher = retriever.open(runner.index(retriever, explained.label))
    singles, unknown = retriever.single_terms(searcher, query.text)
    terms = [Term(term, weight) for term, (_, weight) in singles.items()]
    docs, scores = _scored(explained, searcher.encode([query.text]), runner, documents, k)
    by_term = [searcher.score(single, docs[None])[0] for single, _ in singles.values()]  # (n,) each
    shown = []
    for number, (position, score) in enumerate(zip(docs.tolist(), scores.tolist(), strict=True)):
        in_document = [
            Term(term.term, term.query, float(added[number]) / term.query) for term, added in zip(terms, by_term, strict=True)
        ]
        shown.append(_document(runner, position, score, in_document))
    return Explanation(explained.label, query.text, tuple(sorted(terms, key=_heaviest_first)), tuple(shown), tuple(unknown))
