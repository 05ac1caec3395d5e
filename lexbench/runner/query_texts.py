"""What people read instead of ids: texts of queries, ranks of their relevant documents, and how these documents begin."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from lexbench.contracts import Contract
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import Dataset, open_dataset
from lexbench.errors import LexbenchError, one_line, shortened
from lexbench.plugins import Source
from lexbench.results import QueryTexts, TextsOnce, no_texts
from lexbench.trec.ids import encode, lookup, text_of
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run
from lexbench.types import Judgement

DEPTH = 100  # a document below this rank is as good as not found
_BEGINNING = 70  # characters of a document


def is_own(contract: Contract) -> bool:
    """Whether data are the user's, so that results may have their texts and ranks. Published data have licenses."""
    return contract.version == 0 and contract.source.loader in ("files", "memory")


def relevant_ranks(run: Run, qrels: Qrels, depth: int = DEPTH) -> dict[str, dict[str, int]]:
    """Return by query the rank of each relevant document (grade above 0) among the first *depth* of its list."""
    spans = dict(run.spans())
    found: dict[str, dict[str, int]] = {}
    for at, query in enumerate(qrels.query_ids):
        if query not in spans:
            continue
        judged = slice(qrels.offsets[at], qrels.offsets[at + 1])
        relevant = {doc_id for doc_id, grade in zip(qrels.doc_ids[judged], qrels.grades[judged], strict=True) if grade > 0}
        start, stop = spans[query].start, spans[query].stop
        ranked = enumerate(run.table[run.docs[start : min(stop, start + depth)]].tolist(), start=1)
        found[query] = {text_of(doc_id): rank for rank, doc_id in ranked if doc_id in relevant}
    return found


def query_texts(dataset: Dataset, corpus: StoredCorpus | None) -> QueryTexts:
    """Return the texts of *dataset*, and how its relevant documents begin if its *corpus* is there."""
    relevant: dict[str, dict[str, float]] = {}
    for row in dataset.topics.judgements:
        if row.grade > 0:
            relevant.setdefault(row.query_id, {})[row.doc_id] = row.grade
    return QueryTexts(
        dataset=dataset.contract.id,
        digests=dataset.digests,
        texts={query.query_id: query.text for query in dataset.queries},
        relevant=relevant,
        documents=beginnings(corpus, {name for of_query in relevant.values() for name in of_query}) if corpus else {},
    )


def relevant_documents(texts: QueryTexts, query_ids: Iterable[str]) -> Qrels:
    """Return the relevant documents in *texts* as judgements of *query_ids*; a query that has none has one of grade 0.

    Raises LexbenchError if grades are beyond those of judgements.
    """
    return Qrels.from_judgements(
        Judgement(query, name, int(grade) if grade % 1 == 0 else grade)
        for query in query_ids
        for name, grade in (texts.relevant.get(query) or {"": 0}).items()
    )


def beginnings(corpus: StoredCorpus, doc_ids: Iterable[str]) -> dict[str, str]:
    """Return how documents begin, by id: the title if there is one. Documents that *corpus* lacks are left out."""
    wanted = sorted(doc_ids)
    places = lookup(corpus.doc_ids, encode(wanted))
    found = {}
    for name, place in zip(wanted, places.tolist(), strict=True):
        if place >= 0:
            (document,) = corpus.documents(place, place + 1)
            found[name] = shortened(one_line(document.title or document.text), _BEGINNING)
    return found


def texts_of_data(contract: Contract, source: Source | None, corpus: StoredCorpus | None) -> Callable[[], QueryTexts | None]:
    """Return a function that reads the texts of the user's own data; for other data it returns None.

    *corpus* has the beginnings of documents, if it is known.
    """
    return TextsOnce(partial(_texts_of_data, contract, source, corpus)) if is_own(contract) else no_texts


def _texts_of_data(contract: Contract, source: Source | None, corpus: StoredCorpus | None) -> QueryTexts | None:
    with suppress(LexbenchError):  # the files may have changed while systems ran
        return query_texts(open_dataset(contract, source), corpus)
    return None
