"""What is searched: the index of a retriever, and a retriever with everything that it needs, opened together."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lexbench.artifacts.corpora import CorpusWithProgress, StoredTexts
from lexbench.artifacts.describe import describe
from lexbench.artifacts.turns import on_workers
from lexbench.plugins import Rescorer, Retriever, Searcher, has
from lexbench.storage.artifact_folder import KeyFacts
from lexbench.storage.drafting import Draft
from lexbench.storage.environment import packages_of
from lexbench.storage.node import Node, Parts, Stored

INDEX = "index"  # the part that `build` of a retriever fills
_BYTES = 900  # per document in an index and while it is built, and no less than the text


@dataclass(frozen=True)
class RetrieverIndex(Node[Path]):
    """The index that a retriever builds of a corpus. It opens as its folder."""

    corpus: StoredTexts
    retriever: Any
    kind: ClassVar[str] = "indexes"

    def label(self) -> str:
        """Return the corpus and the name of the retriever."""
        return f"{self.corpus.label()} {self.called}"

    @property
    def called(self) -> str:
        """The name of the retriever; settings that only searching uses do not matter here."""
        return type(self.retriever).__name__.lower()

    def parts(self) -> Mapping[str, Node[Any]]:
        """Return the corpus."""
        return {"corpus": self.corpus}

    def facts(self) -> KeyFacts:
        """Return what decides the index: not the settings that only searching uses."""
        return {"retriever": describe(self.retriever, index=True)}

    def bytes_needed(self) -> float:
        """Return what indexes usually take."""
        return max(self.corpus.documents * _BYTES, self.corpus.text_bytes)

    def make(self, draft: Draft, parts: Parts) -> None:
        """Let the retriever build its index, on workers if both can."""
        draft.watch.packages = packages_of(self.retriever)
        with draft.watch.time("build"):
            self.build(on_workers(self.retriever, draft.executor, draft.progress.note), draft, parts)

    def build(self, retriever: Any, draft: Draft, parts: Parts) -> None:
        """Build the index of *retriever* from *parts*."""
        what = f"{self.called} on {self.corpus.label()}"
        retriever.build(CorpusWithProgress(parts["corpus"], draft.progress, what), draft.folder)

    def open(self, stored: Stored | None, parts: Parts) -> Path:
        """Return the folder."""
        assert stored is not None
        return stored.folder


@dataclass(frozen=True)
class Search(Node[Searcher]):
    """A retriever that can search a corpus: its parts, opened together."""

    corpus: StoredTexts
    retriever: Retriever

    def parts(self) -> Mapping[str, Node[Any]]:
        """Return what the retriever says that searching needs."""
        own = has(self.retriever, "parts")
        return self.retriever.parts(self.corpus) if own else {INDEX: RetrieverIndex(self.corpus, self.retriever)}

    def open(self, stored: Stored | None, parts: Parts) -> Searcher:
        """Return the searcher."""
        return self.retriever.open(parts if has(self.retriever, "parts") else parts[INDEX])


@dataclass(frozen=True)
class Scorer(Node[Rescorer]):
    """A retriever that can score given documents of a corpus."""

    corpus: StoredTexts
    retriever: Retriever

    def parts(self) -> Mapping[str, Node[Any]]:
        """Return what the retriever says that scoring needs."""
        own = has(self.retriever, "scorer_parts")
        return self.retriever.scorer_parts(self.corpus) if own else {INDEX: RetrieverIndex(self.corpus, self.retriever)}

    def open(self, stored: Stored | None, parts: Parts) -> Rescorer:
        """Return the scorer."""
        return self.retriever.scorer(parts if has(self.retriever, "scorer_parts") else parts[INDEX])


def searched(node: Search | Scorer) -> Iterator[Search | Scorer]:
    """Yield the searches that *node* is made of in the end, each on the corpus that it searches."""
    if not node.retriever.members:
        yield node
    for part in node.parts().values():
        if isinstance(part, Search | Scorer):
            yield from searched(part)
