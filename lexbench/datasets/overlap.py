"""Whether texts are those of a dataset, whatever they are called: queries by their words, documents by their phrases."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from lexbench.datasets.dataset import Dataset
from lexbench.datasets.records import read_records, title_text
from lexbench.errors import MissingData

_NEAR = 0.8  # of the words of both queries are in each of them
_PHRASE = 8  # words
_SEEN = 0.5  # of a document's phrases
_DOCUMENTS = 10_000  # of a collection, evenly spaced: its phrases are in memory
_WORD = re.compile(r"\w+")


class SimilarQueries:
    """Queries, as sets of words, to look others up in."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Take the *texts* of the queries; one without words is like none."""
        self._words = list({_words(text) for text in texts} - {frozenset[str]()})
        self._with: defaultdict[str, list[int]] = defaultdict(list)  # queries that have a word, by it
        for number, words in enumerate(self._words):
            for word in words:
                self._with[word].append(number)

    def has_nearly(self, text: str) -> bool:
        """Return whether a query has the words of *text* but for a fifth at most, of those of both together."""
        words = _words(text)
        shared = Counter(number for word in words for number in self._with.get(word, ()))
        return any(count >= _NEAR * len(words | self._words[number]) for number, count in shared.items())


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """What some texts that a model learned from have of a dataset."""

    texts: str  # their folder
    dataset: str
    queries: int  # of the dataset
    near: int  # of these, that have nearly the words of a query of the texts
    documents: int  # of the dataset that were looked at, evenly spaced
    seen: int  # of these, half of whose phrases of eight words, or more, are in the texts
    examples: list[str] = []  # queries that are near, the first three


def overlap(folder: Path, dataset: Dataset) -> Overlap:
    """Compare the texts of a BEIR *folder*, which has corpus.jsonl, with a dataset; MissingData where there is none."""
    corpus, queries = _file(folder, "corpus"), _file(folder, "queries")
    if corpus is None:
        raise MissingData(f"{folder}: no corpus.jsonl, so there are no texts to compare")
    trained = SimilarQueries(record.fields.get("text", "") for record in (read_records(queries) if queries else ()))
    near = [query.text for query in dataset.queries if trained.has_nearly(query.text)]
    looked = list(_spread(dataset))
    seen = _seen(looked, (title_text({"text": "", **record.fields}) for record in read_records(corpus)))
    return Overlap(
        texts=folder.name,
        dataset=dataset.contract.id,
        queries=len(dataset.queries),
        near=len(near),
        documents=len(looked),
        seen=seen,
        examples=near[:3],
    )


def _file(folder: Path, name: str) -> Path | None:
    return next((path for end in (".jsonl", ".jsonl.gz") if (path := folder / f"{name}{end}").is_file()), None)


def _spread(dataset: Dataset) -> Iterator[str]:
    """Yield the texts of at most ten thousand documents, evenly spaced where the contract says how many there are."""
    step = max(1, -(-(dataset.contract.expected.documents or 0) // _DOCUMENTS))
    for number, document in enumerate(dataset.source.documents()):
        if number % step == 0:
            yield document.text


class _Phrases(NamedTuple):
    """The phrases of documents, by hash."""

    documents: dict[int, list[int]]  # that have a phrase, by number
    counts: list[int]  # of the phrases of each document


def _phrases(text: str) -> set[int]:
    """Return the hashes of all runs of eight words, of fewer the one of all of them."""
    words = _WORD.findall(text.casefold())
    starts = range(max(1, len(words) - _PHRASE + 1))
    return {hash(tuple(words[start : start + _PHRASE])) for start in starts} if words else set()


def _index(texts: Iterable[str]) -> _Phrases:
    found = _Phrases(defaultdict(list), [])
    for number, text in enumerate(texts):
        phrases = _phrases(text)
        found.counts.append(len(phrases))
        for phrase in phrases:
            found.documents[phrase].append(number)
    return found


def _seen(documents: Iterable[str], texts: Iterable[str]) -> int:
    """Return how many *documents* have half of their phrases, or more, in *texts*, which are read once."""
    index = _index(documents)
    met = set[int]()
    for text in texts:
        met |= {phrase for phrase in _phrases(text) if phrase in index.documents}
    shared = Counter(number for phrase in met for number in index.documents[phrase])
    return sum(count >= _SEEN * index.counts[number] for number, count in shared.items())
