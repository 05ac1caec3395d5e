"""The contract of retrievers, on seven documents in a store."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lexbench.artifacts.corpora import StoredTexts
from lexbench.artifacts.graph import Graph
from lexbench.artifacts.searches import INDEX, Scorer, Search
from lexbench.datasets.corpus import StoredCorpus, write_corpus
from lexbench.storage.artifact_folder import KeyFacts, Manifest
from lexbench.storage.drafting import Draft
from lexbench.storage.node import Parts, Place, open_at
from lexbench.storage.store import Store
from lexbench.types import Document

TEXTS = {
    "d1": "The quick brown fox jumps over the lazy dog.",
    "d2": "A fox, a fox! My kingdom for a fox.",
    "d3": "Dogs and cats do not mix.",
    "d4": "",
    "d5": "Nothing to see here.",
    "d6": "Quick foxes jump.",
    "d7": "Quick foxes jump.",
}


class GivenTexts(StoredTexts):
    """A corpus of texts by id."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def label(self) -> str:
        """Return a name."""
        return "corpus"

    def facts(self) -> KeyFacts:
        """Return the texts."""
        return {"texts": dict(self._texts)}

    def make(self, draft: Draft, parts: Parts) -> None:
        """Write the corpus."""
        write_corpus((Document(doc_id, text) for doc_id, text in self._texts.items()), draft.folder)


class Bench:
    """A corpus of *texts* by id in the store at *path*, and what retrievers make of it."""

    def __init__(self, path: Path, texts: Mapping[str, str] = TEXTS) -> None:
        self.graph, self.texts = Graph(Store(path)), GivenTexts(texts)

    @property
    def corpus(self) -> StoredCorpus:
        """The corpus."""
        return self.graph.open(self.texts)

    def searcher(self, retriever: Any) -> Any:
        """Make everything that a retriever needs, and open it."""
        return self.graph.open(Search(self.texts, retriever))

    def scorer(self, retriever: Any) -> Any:
        """Make everything that a retriever needs to score given documents, and open it."""
        return self.graph.open(Scorer(self.texts, retriever))

    def index(self, retriever: Any) -> Path:
        """Make the index that a retriever searches; return its folder."""
        place = self.graph.place(Search(self.texts, retriever)).parts[INDEX]
        assert place.stored is not None
        return place.stored.folder

    def manifests(self, retriever: Any) -> list[Manifest]:
        """Make everything that a retriever needs; return the manifest of each artifact."""
        return [Manifest.read(one.folder) for one in self.graph.place(Search(self.texts, retriever)).artifacts().values()]


def found(searcher: Any, corpus: StoredCorpus, query: str, k: int = 10) -> list[str]:
    """Return the ids that a query finds, best first, having checked the form of the hits."""
    hits = searcher.search(searcher.encode([query]), k)
    filled = hits.docs[0] >= 0

    assert hits.docs.dtype == np.int32
    assert hits.scores.dtype == np.float32
    assert np.all(np.diff(hits.scores[0][filled]) <= 0)
    assert not np.any(filled[1:] & ~filled[:-1])  # what is not there comes last
    return [corpus.doc_ids[doc].decode() for doc in hits.docs[0][filled]]


class RetrieverContract:
    """The tests of a retriever that matches words: a subclass sets `plugin` to one, or overrides the fixture `retriever`."""

    plugin: Any

    @pytest.fixture
    def retriever(self) -> Any:
        """Return the retriever."""
        return self.plugin

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[Bench]:
        """Yield a corpus of seven documents in a store; position 0 is d7, the largest id."""
        made = Bench(tmp_path / "store")
        with made.graph:
            yield made

    @pytest.fixture
    def corpus(self, bench: Bench) -> StoredCorpus:
        """Return the corpus."""
        return bench.corpus

    @pytest.fixture
    def searcher(self, retriever: Any, bench: Bench) -> Any:
        """Build an index and open it."""
        return bench.searcher(retriever)

    def test_matching_documents_are_found(self, searcher: Any, corpus: Any) -> None:
        """Documents with a word of the query are found, and no others; the one with most of it comes first."""
        assert found(searcher, corpus, "fox")[0] == "d2"
        assert set(found(searcher, corpus, "fox")) == {"d1", "d2", "d6", "d7"}
        assert found(searcher, corpus, "cats") == ["d3"]

    @pytest.mark.parametrize("query", ["", "   ", "?!", "xylophone", "the"])
    def test_a_query_without_matches(self, searcher: Any, corpus: Any, query: str) -> None:
        """A query without words, or with only unknown words or stop words, finds nothing, without an error."""
        assert found(searcher, corpus, query) == []

    def test_k_bounds_the_list(self, searcher: Any, corpus: Any) -> None:
        """At most k documents are returned, the same as the first k of a longer list."""
        assert found(searcher, corpus, "quick fox", 2) == found(searcher, corpus, "quick fox", 100)[:2]

    def test_ties_have_one_order(self, searcher: Any, corpus: Any) -> None:
        """Two documents with the same text have the same order for any k, and a cut between them keeps the first."""
        twins = [doc_id for doc_id in found(searcher, corpus, "quick foxes") if doc_id in ("d6", "d7")]

        assert len(twins) == 2
        assert found(searcher, corpus, "quick foxes jump", 1) == twins[:1]

    def test_a_batch_equals_single_queries(self, searcher: Any) -> None:
        """Each query of a batch has the same hits as alone."""
        queries = ["fox", "", "dogs", "quick jump", "cats mix"] * 30
        batch = searcher.search(searcher.encode(queries), 5)
        for row, query in enumerate(queries[:5]):
            alone = searcher.search(searcher.encode([query]), 5)
            width = alone.docs.shape[1]
            assert np.array_equal(batch.docs[row][:width], alone.docs[0])
            assert np.array_equal(batch.docs[row], batch.docs[row + 145])

    def test_the_folders_are_complete(self, retriever: Any, bench: Bench, tmp_path: Path) -> None:
        """What was made answers the same in another process, after its store was moved."""
        search = Search(bench.texts, retriever)
        before, place = found(bench.searcher(retriever), bench.corpus, "quick fox"), bench.graph.place(search).written()
        (tmp_path / "store").rename(tmp_path / "elsewhere")
        moved = open_at(search, Place.read(_moved(place, str(tmp_path / "store"), str(tmp_path / "elsewhere"))))

        assert found(moved, bench.corpus, "quick fox") == before

    def test_two_builds_are_the_same_bytes(self, retriever: Any, tmp_path: Path) -> None:
        """If the retriever is `deterministic`, two builds write the same files."""
        if not retriever.deterministic:
            pytest.skip("it is not `deterministic`")
        one, other = (Bench(tmp_path / name).manifests(retriever) for name in "ab")
        assert one == other


def _moved(place: Any, before: str, after: str) -> Any:
    """Return a written place in another store."""
    folder, parts = place
    return [folder.replace(before, after, 1), {name: _moved(part, before, after) for name, part in parts.items()}]
