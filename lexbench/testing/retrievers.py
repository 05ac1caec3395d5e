"""The contract of retrievers, on seven documents. The members of a fusion are built in a tiny store."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lexbench.datasets.corpus import StoredCorpus, open_corpus, write_corpus
from lexbench.runner import systems
from lexbench.storage.artifact_folder import digest
from lexbench.testing.engines import digests_of
from lexbench.types import Corpus, Document

TEXTS = {
    "d1": "The quick brown fox jumps over the lazy dog.",
    "d2": "A fox, a fox! My kingdom for a fox.",
    "d3": "Dogs and cats do not mix.",
    "d4": "",
    "d5": "Nothing to see here.",
    "d6": "Quick foxes jump.",
    "d7": "Quick foxes jump.",
}


@dataclass(frozen=True)
class TinyStore:
    """A folder like a store, in which the indexes of members are built: a `BuildContext`."""

    corpus: StoredCorpus
    root: Path

    def encodings(self, encoder: Any) -> Any:
        """Refuse: a retriever of vectors is tested by its encoder and its engine."""
        raise NotImplementedError(type(encoder).__name__)

    def index(self, retriever: Any) -> Path:
        """Return the index, built if need be; the folder's name ends in its key, like in a store."""
        key = digest({"corpus": self.corpus.fingerprint, "retriever": systems.describe(retriever, index=True)})
        path = self.root / "indexes" / f"index-{key}"
        if not path.exists():
            path.mkdir(parents=True)
            retriever.assemble(self.corpus, path, self)
        return path

    def derived(self, name: str, recipe: Mapping[str, Any], write: Callable[[Corpus, Path], None]) -> "TinyStore":
        """Return a store of another corpus, which *write* makes from this one."""
        key = digest({"corpus": self.corpus.fingerprint, "recipe": systems.describe(recipe, index=True)})
        path = self.root / "corpora" / f"{name}-{key}"
        if not path.exists():
            path.mkdir(parents=True)
            write(self.corpus, path)
        return TinyStore(open_corpus(path), self.root)

    def corpus_dir(self) -> Path:
        """Return the corpus, copied to its place in the store."""
        if self.corpus.path.parent == self.root / "corpora":
            return self.corpus.path
        path = self.root / "corpora" / f"corpus-{self.corpus.fingerprint[:16]}"
        if not path.exists():
            shutil.copytree(self.corpus.path, path)
        return path


def built(retriever: Any, corpus: StoredCorpus, path: Path) -> Any:
    """Build an index in the store *path* and open it."""
    return retriever.open(TinyStore(corpus, path).index(retriever))


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
    def corpus(self, tmp_path: Path) -> StoredCorpus:
        """Write a corpus of seven documents; position 0 is d7, the largest id."""
        (tmp_path / "corpus").mkdir()
        return write_corpus((Document(doc_id, text) for doc_id, text in TEXTS.items()), tmp_path / "corpus")

    def test_matching_documents_are_found(self, retriever: Any, corpus: Any, tmp_path: Path) -> None:
        """Documents with a word of the query are found, and no others; the one with most of it comes first."""
        searcher = built(retriever, corpus, tmp_path / "index")

        assert found(searcher, corpus, "fox")[0] == "d2"
        assert set(found(searcher, corpus, "fox")) == {"d1", "d2", "d6", "d7"}
        assert found(searcher, corpus, "cats") == ["d3"]

    @pytest.mark.parametrize("query", ["", "   ", "?!", "xylophone", "the"])
    def test_a_query_without_matches(self, retriever: Any, corpus: Any, tmp_path: Path, query: str) -> None:
        """A query without words, or with only unknown words or stop words, finds nothing, without an error."""
        assert found(built(retriever, corpus, tmp_path / "index"), corpus, query) == []

    def test_k_bounds_the_list(self, retriever: Any, corpus: Any, tmp_path: Path) -> None:
        """At most k documents are returned, the same as the first k of a longer list."""
        searcher = built(retriever, corpus, tmp_path / "index")

        assert found(searcher, corpus, "quick fox", 2) == found(searcher, corpus, "quick fox", 100)[:2]

    def test_ties_have_one_order(self, retriever: Any, corpus: Any, tmp_path: Path) -> None:
        """Two documents with the same text have the same order for any k, and a cut between them keeps the first."""
        searcher = built(retriever, corpus, tmp_path / "index")
        twins = [doc_id for doc_id in found(searcher, corpus, "quick foxes") if doc_id in ("d6", "d7")]

        assert len(twins) == 2
        assert found(searcher, corpus, "quick foxes jump", 1) == twins[:1]

    def test_a_batch_equals_single_queries(self, retriever: Any, corpus: Any, tmp_path: Path) -> None:
        """Each query of a batch has the same hits as alone."""
        searcher = built(retriever, corpus, tmp_path / "index")
        queries = ["fox", "", "dogs", "quick jump", "cats mix"] * 30
        batch = searcher.search(searcher.encode(queries), 5)
        for row, query in enumerate(queries[:5]):
            alone = searcher.search(searcher.encode([query]), 5)
            width = alone.docs.shape[1]
            assert np.array_equal(batch.docs[row][:width], alone.docs[0])
            assert np.array_equal(batch.docs[row], batch.docs[row + 145])

    def test_the_folder_is_complete(self, retriever: Any, corpus: Any, tmp_path: Path) -> None:
        """An index answers the same after its store was moved and its corpus removed."""
        before = found(built(retriever, corpus, tmp_path / "index"), corpus, "quick fox")
        (tmp_path / "index").rename(tmp_path / "elsewhere")
        moved = TinyStore(corpus, tmp_path / "elsewhere").index(retriever)
        (tmp_path / "corpus").rename(tmp_path / "gone")

        assert found(retriever.open(moved), corpus, "quick fox") == before

    def test_two_builds_are_the_same_bytes(self, retriever: Any, corpus: Any, tmp_path: Path) -> None:
        """If the retriever is `deterministic`, two builds write the same files."""
        if not retriever.deterministic:
            pytest.skip("it is not `deterministic`")
        for name in "ab":
            built(retriever, corpus, tmp_path / name)

        assert digests_of(tmp_path / "a") == digests_of(tmp_path / "b")
