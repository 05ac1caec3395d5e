"""What systems had seen of datasets in training: by the names of their training data, and by its texts."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from heapq import nsmallest
from itertools import islice
from math import ceil
from pathlib import Path

import msgspec

from lexbench.contracts import all_contracts
from lexbench.datasets.dataset import Dataset, open_dataset
from lexbench.datasets.location import find_dataset
from lexbench.datasets.records import read_records, title_text
from lexbench.display.answer import Answer
from lexbench.display.table import Table
from lexbench.errors import MissingData
from lexbench.results import EXPOSURES, Exposure, Result, by_dataset
from lexbench.runner.exposure import exposures_of

_LEGEND = (
    "queries: share eight of ten words with a query of the texts; documents: at least half of their phrases of eight words are "
    "in the texts"
)


class Contamination(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a dataset is in some texts that a model learned from."""

    texts: str  # name of their folder
    dataset: str
    queries: int  # of the dataset
    near: int  # queries of the dataset that are similar to a query of the texts
    documents: int  # of the dataset that were compared, evenly spaced
    seen: int  # compared documents with at least half of their phrases of eight words in the texts
    examples: list[str] = []  # the first three similar queries


class SeenInTraining(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """The exposure that follows from the names of training data, and the overlap of texts."""

    exposure: dict[str, dict[str, Exposure]]  # by system and dataset
    overlap: list[Contamination]

    def tables(self) -> list[Table]:
        """Return one table per system, with the evidence as notes, and one for the texts of folders."""
        shown = []
        for system, exposures in self.exposure.items():
            rows = tuple((dataset, seen.status) for dataset, seen in exposures.items())
            evidence = dict.fromkeys(f"{dataset}: {line}" for dataset, seen in exposures.items() for line in seen.because)
            shown.append(Table(f"seen in training: {system}", ("dataset", "exposure"), rows, tuple(evidence)))
        if self.overlap:
            counts = tuple(
                (f"{one.texts} in {one.dataset}", f"{one.near:,} of {one.queries:,}", f"{one.seen:,} of {one.documents:,}")
                for one in self.overlap
            )
            examples = (f"{one.texts}: {example}" for one in self.overlap for example in one.examples)
            shown.append(Table("contamination", ("texts", "queries", "documents"), counts, (_LEGEND, *examples)))
        return shown

    def rows(self) -> list[dict[str, object]]:
        """Return a row per system and dataset; per folder of texts and dataset if no system was asked for."""
        if not self.exposure:
            return [msgspec.structs.asdict(one) for one in self.overlap]
        return [
            {"system": system, "dataset": dataset, "exposure": seen.status, "because": "; ".join(seen.because)}
            for system, exposures in self.exposure.items()
            for dataset, seen in exposures.items()
        ]


def look_up(systems: Sequence[str], texts: Sequence[Path], datasets: Sequence[str]) -> SeenInTraining:
    """Return the exposure of *systems* to *datasets* (default: all), and how much of them is in the texts of the folders."""
    located = [find_dataset(name) for name in datasets] or [(contract, None) for contract in all_contracts().values()]
    contracts = [contract for contract, _ in located]
    by_system = [exposures_of(name, contracts) for name in systems]
    return SeenInTraining(
        exposure={
            label: {contract.id: seen for contract, seen in zip(contracts, exposures, strict=True)}
            for label, exposures in by_system
        },
        overlap=[contamination(folder, open_dataset(*one)) for one in (located if texts else ()) for folder in texts],
    )


def notes(results: Sequence[Result]) -> Iterator[str]:
    """Yield notes for each dataset that a system may have seen in training: which systems, and the evidence."""
    for dataset, group in by_dataset(results).items():
        known = [(result.system, result.exposure) for result in group if result.exposure]
        by_status = {status: [system for system, seen in known if seen.status == status] for status in EXPOSURES}
        if len(by_status["zero-shot"]) < len(known):
            groups = [f"{status}: {', '.join(systems)}" for status, systems in by_status.items() if systems]
            yield f"seen of {dataset} in training: {'; '.join(groups)}"
            yield from (f"{dataset}: {line}" for line in dict.fromkeys(line for _, seen in known for line in seen.because))


# ---- the texts of a dataset that are also in training texts, under any name --------------------------------------------------


_SIMILAR = 0.8  # share of the words of two queries that both have
_PHRASE = 8  # words
_SEEN = 0.5  # share of a document's phrases
_DOCUMENTS = 10_000  # compared per collection, evenly spaced, because their phrases are in memory
_WORD = re.compile(r"\w+")


class SimilarQueries:
    """An index of queries that finds those with nearly the same words.

    It is a prefix filter (Chaudhuri, Ganti and Kaushik, ICDE 2006). Two queries that share 80 % of their words also share one
    of the rarest words of each: with w words, one of the w - ceil(0.8 w) + 1 rarest. So only these words are indexed.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        """Index the *texts* of queries. Queries without words are ignored."""
        self._words = sorted({_words(text) for text in texts} - {frozenset[str]()}, key=sorted)
        self._frequency = Counter(word for words in self._words for word in words)
        self._with_word: defaultdict[str, list[int]] = defaultdict(list)  # numbers of the queries with a word among the rarest
        for number, words in enumerate(self._words):
            for word in self._rarest(words):
                self._with_word[word].append(number)

    @cached_property
    def digest(self) -> str:
        """A digest of the indexed words: two indexes with the same digest give the same answers."""
        lines = "\n".join(" ".join(sorted(words)) for words in self._words)
        return hashlib.sha256(f"{_SIMILAR} {_WORD.pattern}\n{lines}".encode()).hexdigest()

    def has_similar(self, text: str) -> bool:
        """Return whether a query shares at least 80 % of the words that it and *text* have together."""
        words = _words(text)
        numbers = {number for word in self._rarest(words) for number in self._with_word.get(word, ())}
        return any(self._are_similar(words, self._words[number]) for number in numbers)

    def _rarest(self, words: frozenset[str]) -> list[str]:
        """Return the rarest of *words*, so many that every similar query has one of them. Unknown words are the rarest."""
        count = len(words) - ceil(_SIMILAR * len(words)) + 1
        return nsmallest(count, words, key=lambda word: (self._frequency.get(word, 0), word)) if words else []

    @staticmethod
    def _are_similar(words: frozenset[str], others: frozenset[str]) -> bool:
        shared = len(words & others)
        return shared >= _SIMILAR * (len(words) + len(others) - shared)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def contamination(folder: Path, dataset: Dataset) -> Contamination:
    """Compare the texts of a BEIR *folder* with a dataset. Raises MissingData if the folder has no corpus.jsonl."""
    corpus, queries = _file(folder, "corpus"), _file(folder, "queries")
    if corpus is None:
        raise MissingData(f"{folder}: no corpus.jsonl, so there are no texts to compare")
    trained = SimilarQueries(record.fields.get("text", "") for record in (read_records(queries) if queries else ()))
    near = [query.text for query in dataset.queries if trained.has_similar(query.text)]
    step = max(1, -(-(dataset.contract.expected.documents or 0) // _DOCUMENTS))  # 1 if the contract gives no number
    compared = [document.text for document in islice(dataset.source.documents(), 0, None, step)]
    seen = _count_seen(compared, (title_text({"text": "", **record.fields}) for record in read_records(corpus)))
    return Contamination(
        texts=folder.name,
        dataset=dataset.contract.id,
        queries=len(dataset.queries),
        near=len(near),
        documents=len(compared),
        seen=seen,
        examples=near[:3],
    )


def _file(folder: Path, name: str) -> Path | None:
    return next((path for end in (".jsonl", ".jsonl.gz") if (path := folder / f"{name}{end}").is_file()), None)


def _phrases(text: str) -> set[int]:
    """Return the hashes of all phrases of eight words; a shorter text is one phrase."""
    words = _WORD.findall(text.casefold())
    starts = range(max(1, len(words) - _PHRASE + 1))
    return {hash(tuple(words[start : start + _PHRASE])) for start in starts} if words else set()


def _count_seen(documents: Iterable[str], texts: Iterable[str]) -> int:
    """Return how many *documents* have at least half of their phrases in *texts*, which are read once."""
    with_phrase: defaultdict[int, list[int]] = defaultdict(list)  # numbers of the documents that have a phrase
    sizes = []  # phrases per document
    for number, document in enumerate(documents):
        phrases = _phrases(document)
        sizes.append(len(phrases))
        for phrase in phrases:
            with_phrase[phrase].append(number)
    met = set[int]()
    for text in texts:
        met |= {phrase for phrase in _phrases(text) if phrase in with_phrase}
    shared = Counter(number for phrase in met for number in with_phrase[phrase])
    return sum(count >= _SEEN * sizes[number] for number, count in shared.items())
