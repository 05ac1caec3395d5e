"""Notes of a result about texts that no system, or not this system, can search well."""

import unicodedata
from collections.abc import Iterator

from lexbench.artifacts.searches import Search, searched
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import Dataset
from lexbench.plugins import Retriever
from lexbench.runner.systems import trained_members

_MANY = 0.1  # share of documents without text from which it is said
_SAMPLE = 200  # documents, evenly spaced, whose letters are counted
_LETTERS = 2000  # characters of each


def data_notes(search: Search, dataset: Dataset, corpus: StoredCorpus) -> Iterator[str]:
    """Yield a note for each fact about the texts of a dataset that limits what is searched, or every system."""
    if corpus.empty > _MANY * len(corpus):
        yield f"{corpus.empty:,} of {len(corpus):,} documents have no text, so no system finds them"
    yield from _equal_queries(dataset)
    yield from _unread_instructions(search.retriever, dataset)
    english = any(getattr(one.retriever, "analyzer", "") == "english" for one in searched(search))
    if english and (share := other_scripts(corpus)) > 1 / 2:
        letters = f"{share:.0%} of the letters of the corpus are not Latin"
        yield f'{letters}, and the analyser of bm25 is for English; for other languages: bm25(analyzer="unicode")'


def _equal_queries(dataset: Dataset) -> Iterator[str]:
    """Yield a note if judged queries have one text and different relevant documents."""
    relevant: dict[str, set[str]] = {query.query_id: set() for query in dataset.queries}
    for row in dataset.topics.judgements:
        if row.grade > 0:
            relevant[row.query_id].add(row.doc_id)
    by_text: dict[str, list[str]] = {}
    for query in dataset.queries:
        by_text.setdefault(" ".join(f"{query.text} {query.instruction}".split()).casefold(), []).append(query.query_id)
    groups = [ids for text, ids in by_text.items() if text and any(relevant[one] != relevant[ids[0]] for one in ids[1:])]
    if groups:
        first, second = groups[0][0], next(one for one in groups[0][1:] if relevant[one] != relevant[groups[0][0]])
        yield (
            f"{sum(map(len, groups))} of {len(dataset.queries)} judged queries have the text of another query with other "
            f"relevant documents, e.g. {first!r} and {second!r}: no system can rank well for both"
        )


def _unread_instructions(retriever: Retriever, dataset: Dataset) -> Iterator[str]:
    """Yield a note if queries have instructions that a member of *retriever* is not given."""
    instructed = sum(bool(query.instruction) for query in dataset.queries)
    blind = [member for member in trained_members(retriever) if not member.reads_instructions] if instructed else []
    for member in {type(member): member for member in blind}.values():
        able = hasattr(member, "instructed_query")
        advice = '; to put them behind the query, type instructed_query="{query} {instruction}"' if able else ""
        yield (
            f"{instructed} of {len(dataset.queries)} judged queries have an instruction, which "
            f"{type(member).__name__} does not read{advice}"
        )


def other_scripts(corpus: StoredCorpus) -> float:
    """Return the share of letters that are not Latin in evenly spaced documents of *corpus*."""
    latin, other = 0, 0
    for start in range(0, len(corpus), max(1, len(corpus) // _SAMPLE)):
        for document in corpus.documents(start, start + 1):
            for letter in filter(str.isalpha, document.text[:_LETTERS]):
                if letter.isascii() or unicodedata.name(letter, "").startswith("LATIN"):
                    latin += 1
                else:
                    other += 1
    return other / max(latin + other, 1)
