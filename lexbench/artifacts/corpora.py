"""Corpora as artifacts: the documents of a dataset, and their passages. Others know a corpus by its content."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lexbench.artifacts.describe import describe
from lexbench.datasets.corpus import InvalidDocument, StoredCorpus, write_corpus
from lexbench.datasets.dataset import Dataset
from lexbench.display.progress import Progress
from lexbench.errors import InvalidFile
from lexbench.storage.artifact_folder import KeyFacts
from lexbench.storage.code import code_facts
from lexbench.storage.drafting import Draft
from lexbench.storage.node import Node, Parts, Stored
from lexbench.types import Corpus, Document

_COPIES = 2  # of the texts: they are written as they come, and then in order
# Bytes of a text: of long web documents; in collections of up to a million documents (NFCorpus and Touché have the longest); in
# larger collections, which have short passages.
_WEB, _LONG, _SHORT, _MANY = 7000, 1700, 600, 1_000_000
_PACKED = 4  # bytes of text per byte of a compressed file


@dataclass(frozen=True)
class StoredTexts(Node[StoredCorpus]):
    """A corpus that is there."""

    kind: ClassVar[str] = "corpora"
    named_by_content: ClassVar[bool] = True

    def open(self, stored: Stored | None, parts: Parts) -> StoredCorpus:
        """Return the corpus."""
        assert stored is not None
        return StoredCorpus(stored.folder)

    @property
    def documents(self) -> float:
        """How many documents it has, by estimate."""
        return 0

    @property
    def text_bytes(self) -> float:
        """The bytes of all texts, by estimate."""
        return 0

    def bytes_needed(self) -> float:
        """Return the bytes of the texts while they are written."""
        return self.text_bytes * _COPIES


@dataclass(frozen=True)
class ExpectedCorpus(StoredTexts):
    """The corpus of a dataset, as far as its contract describes it; its data need not be here."""

    dataset: Dataset

    def label(self) -> str:
        """Return the name of the corpus."""
        return self.dataset.contract.corpus

    def facts(self) -> KeyFacts:
        """Return what is known of the documents."""
        return {"contract": self.dataset.contract.stamp}

    @property
    def documents(self) -> float:
        """The number that the contract states, or an estimate from the size of the texts."""
        return self.dataset.contract.expected.documents or max(1, self.text_bytes // _SHORT)

    @property
    def text_bytes(self) -> float:
        """The bytes of all texts, as is typical for collections of its size."""
        count, policy = self.dataset.contract.expected.documents or 0, self.dataset.contract.text.document
        if policy in ("url_title_body", "url_title_headings_body"):
            return count * _WEB
        return count * (_SHORT if count > _MANY else _LONG)


@dataclass(frozen=True)
class DatasetCorpus(ExpectedCorpus):
    """The documents of a dataset, read from its source once and checked against the contract before they are kept."""

    def facts(self) -> KeyFacts:
        """Return what identifies the source, and the code that reads it."""
        source = self.dataset.source
        return {"source": source.identity(), **code_facts("lexbench.datasets.corpus", type(source))}

    def make(self, draft: Draft, parts: Parts) -> None:
        """Write the corpus. Raises InvalidFile, with the place if the source knows it, for an invalid document."""
        source = self.dataset.source
        draft.progress.start(self.label(), "read corpus", self.dataset.contract.expected.documents, "documents")
        with draft.watch.time("read"):
            try:
                corpus = write_corpus(counted(source.documents(), draft.progress), draft.folder)
            except InvalidDocument as error:
                if not (place := source.place("documents", error.doc_id)):
                    raise
                raise InvalidFile(f"{place}: {error}") from None
        self.dataset.check_corpus(corpus)
        draft.note(source.notes())
        draft.progress.end()

    def open(self, stored: Stored | None, parts: Parts) -> StoredCorpus:
        """Return the corpus. Raises ContractMismatch if it was kept under an older contract and is another one now."""
        corpus = super().open(stored, parts)
        self.dataset.check_corpus(corpus)
        return corpus

    @property
    def text_bytes(self) -> float:
        """The bytes of all texts: of their file, or typical for collections of its size."""
        if not (place := self.dataset.source.place("documents")):
            return super().text_bytes
        return Path(place).stat().st_size * (_PACKED if place.endswith(".gz") else 1)


@dataclass(frozen=True)
class DerivedCorpus(StoredTexts):
    """A corpus that is made from another one, e.g. the passages of its documents.

    *write* gets the corpus and an empty folder for the other. *recipe*, values and plug-ins, has everything else that decides
    its content. *growth* is about how many documents it has for each of the other, given the bytes of one.
    """

    corpus: StoredTexts
    name: str
    recipe: Mapping[str, Any]
    write: Callable[[Corpus, Path], None]
    growth: Callable[[float], float]

    def label(self) -> str:
        """Return the name of the corpus, and what it is made into."""
        return f"{self.corpus.label()} {self.name}"

    def parts(self) -> Mapping[str, Node[Any]]:
        """Return the corpus."""
        return {"corpus": self.corpus}

    def facts(self) -> KeyFacts:
        """Return the recipe."""
        return {"derived": describe(self.recipe, index=True)}

    def make(self, draft: Draft, parts: Parts) -> None:
        """Write the other corpus."""
        corpus: StoredCorpus = parts["corpus"]
        draft.progress.start(f"{self.name} of {self.corpus.label()}", "read corpus", len(corpus), "documents")
        with draft.watch.time("cut"):
            self.write(CorpusWithProgress(corpus, draft.progress), draft.folder)
        draft.progress.end()

    @property
    def documents(self) -> float:
        """The documents of the corpus, times the growth."""
        return self.corpus.documents * self.growth(self.text_bytes / max(self.corpus.documents, 1))

    @property
    def text_bytes(self) -> float:
        """As many as the corpus has."""
        return self.corpus.text_bytes


class CorpusWithProgress(StoredCorpus):
    """A corpus that reports every document read from it to *progress*, as building the index *what* if that is given."""

    def __init__(self, corpus: StoredCorpus, progress: Progress, what: str = "") -> None:
        super().__init__(corpus.path)
        self._progress, self._what = progress, what

    def documents(self, start: int = 0, stop: int | None = None) -> Iterator[Document]:
        """Yield the documents, reporting each."""
        if self._what:  # an index of stored vectors reads no documents; VectorsWithProgress reports for it
            self._progress.start(self._what, "build index", len(self), "documents")
        yield from counted(super().documents(start, stop), self._progress)
        if self._what:
            self._progress.end()


def counted(documents: Iterator[Document], progress: Progress) -> Iterator[Document]:
    """Yield *documents*, reporting each to *progress*."""
    for document in documents:
        progress.advance()
        yield document
