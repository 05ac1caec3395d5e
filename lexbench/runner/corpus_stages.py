"""What is made of a corpus, each a folder of the store: its encodings, its indexes, and corpora cut from it.

encodings   the vectors that an encoder makes of the documents
indexes     what a retriever searches
corpora     passages of the documents, which have encodings and indexes of their own
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

from lexbench.datasets.corpus import StoredCorpus, open_corpus
from lexbench.encodings.shards import SHARD, missing
from lexbench.errors import LexbenchError
from lexbench.executors import suited
from lexbench.plugins import Encoder, Executor, Model, Retriever
from lexbench.progress import Progress
from lexbench.runner.progressing import CorpusWithProgress, VectorsWithProgress
from lexbench.runner.systems import describe, on_workers, reusable, typed_name
from lexbench.storage.environment import packages_of
from lexbench.storage.stopwatch import Stopwatch
from lexbench.storage.store import Draft, Recipe, Store
from lexbench.types import Corpus

FORMAT = 2  # of what the stages write; goes up when a folder of an older lexbench would be misread
R = TypeVar("R")  # a retriever
SHARED = ("corpora", "encodings", "indexes")  # stages that are of a corpus, whatever dataset asks for them


class Part(NamedTuple):
    """One of several parts of the shards of a corpus that are encoded side by side: *number*, from 0, *of* several."""

    number: int
    of: int

    def has(self, shard: range) -> bool:
        """Whether a shard is in this part; the same whichever shards are there already."""
        return shard.start // SHARD % self.of == self.number


class CorpusStages(ABC):
    """Makes, or finds in the store, what is made of one corpus. It is the `BuildContext` of retrievers made of parts."""

    store: Store
    progress: Progress
    executor: Executor | None  # where corpora are encoded; None: what suits the encoder
    parts: list[Path]  # folders that the index in the making was made from
    unshared: list[Path]  # folders of the system at hand alone, or of an object of it

    @property
    @abstractmethod
    def corpus(self) -> StoredCorpus:
        """The documents."""

    @property
    @abstractmethod
    def corpus_name(self) -> str:
        """What people call the corpus."""

    def corpus_dir(self) -> Path:
        """Return the folder of the corpus."""
        return self.corpus.path

    def derived(self, name: str, recipe: Recipe, write: Callable[[Corpus, Path], None]) -> "DerivedStages":
        """Return the stages of a corpus made of this one: *write* is given this corpus and an empty folder for the other.

        *recipe*, values and plug-ins, says what decides its content besides this corpus, *name* what people call it.
        """
        derivation: Recipe = {"format": FORMAT, "corpus": self.corpus.fingerprint, "derived": describe(recipe, index=True)}
        with self.draft("corpora", name, derivation) as draft:
            if draft.unfinished:
                watch, what = Stopwatch(), f"{name} of {self.corpus_name}"
                self.progress.start(what, "read corpus", len(self.corpus), "documents")
                with watch.time("cut"):
                    write(CorpusWithProgress(self.corpus, self.progress), draft.unfinished)
                watch.write(draft.unfinished)
                self.progress.end()
        shared = self.store, self.progress, self.executor, self.parts, self.unshared
        return DerivedStages(draft.folder, f"{self.corpus_name} {name}", *shared)

    def encodings(self, encoder: Encoder) -> VectorsWithProgress:
        """Return the stored vectors of the corpus."""
        name, what, recipe = self._encoding(encoder)
        with Stopwatch().time("part"), self.draft("encodings", name, recipe, resumable=True) as draft:  # no time of an index
            if draft.unfinished:
                shards = missing(len(self.corpus), draft.unfinished)
                watch = Stopwatch(resumed=sum(map(len, shards)) < len(self.corpus))
                with watch.time("encode"):
                    self._encode(encoder, shards, draft.unfinished)
                watch.write(draft.unfinished)
        self.parts.append(draft.folder)
        return VectorsWithProgress(draft.folder, self.progress, what, len(self.corpus))

    def encode_part(self, encoder: Encoder, part: Part) -> int:
        """Encode one part of the shards of the corpus, beside others that encode the rest, and finish what is then complete.

        Return how many shards are left to others; the command of any part, or `run`, can be given again and goes on.
        """
        name, _, recipe = self._encoding(encoder)
        draft = self.store.shared_draft("encodings", f"{self.corpus_name} {name}", recipe)
        if draft.unfinished is None:
            return 0
        shards = missing(len(self.corpus), draft.unfinished)
        try:
            self._encode(encoder, [shard for shard in shards if part.has(shard)], draft.unfinished)
        except FileNotFoundError:  # another that had the same shards has finished, and named, the folder
            if self.store.finished("encodings", recipe) is None:
                raise
            return 0
        if left := len(missing(len(self.corpus), draft.unfinished)) if draft.unfinished.is_dir() else 0:
            return left
        self.encodings(encoder)
        return 0

    def _encoding(self, encoder: Encoder) -> tuple[str, str, Recipe]:
        """Return what folders call an encoder, what people call its encoding, and what decides on the vectors."""
        name = type(encoder).__name__
        recipe = {"format": FORMAT, "encoder": describe(encoder, index=True), "corpus": self.corpus.fingerprint}
        return name, f"{typed_name(encoder)} on {self.corpus_name}", recipe

    def _encode(self, encoder: Encoder, shards: Sequence[range], path: Path) -> None:
        """Encode *shards* of the corpus into *path*, wherever that is done."""
        name, what, recipe = self._encoding(encoder)
        self._note_if_slow(encoder, what)
        self.progress.start(what, "encode", sum(map(len, shards)), "documents")
        if shards:
            (self.executor or suited(encoder)).encode(encoder, self.corpus, path, shards, self.progress)
        if describe(encoder, index=True) != recipe["encoder"]:
            raise LexbenchError(f"{name} has changed while it encoded: give the same command again")
        self.progress.end()

    def index(self, retriever: Retriever, label: str = "") -> Path:
        """Return the folder of an index of the corpus, made or found; what it refers to is there, too."""
        label = label or type(retriever).__name__
        recipe: Recipe = {"format": FORMAT, "retriever": describe(retriever, index=True), "corpus": self.corpus.fingerprint}
        with Stopwatch().time("part"):  # of another index, whose own time it is not
            with self._parts_apart():  # what it refers to may be gone, or damaged, since it was made
                retriever.search_inputs(self)
            with self.draft("indexes", label, recipe) as draft:
                if draft.unfinished:
                    self._build(retriever, draft.unfinished, f"{label} on {self.corpus_name}")
        self.parts.append(draft.folder)
        return draft.folder

    def _build(self, retriever: Retriever, path: Path, what: str) -> None:
        """Write an index into *path*, with the times of it and of its parts."""
        watch = Stopwatch(packages=packages_of(retriever))
        retriever = self.with_workers(retriever)
        with self._parts_apart() as parts:
            with watch.time("build"):
                if not retriever.finished:
                    retriever.assemble(CorpusWithProgress(self.corpus, self.progress, what), path, self)
            for part in parts:
                watch.add(part)
        watch.write(path)

    def with_workers(self, retriever: R) -> R:
        """Return *retriever* with engines that workers build and search, where the executor's and some of its engines can."""
        if not self.executor or not self.executor.holds:
            return retriever
        elsewhere: R = on_workers(retriever, self.executor, self.progress.note)
        return elsewhere

    @contextmanager
    def _parts_apart(self) -> Iterator[list[Path]]:
        """Collect the parts of one index, apart from those of the index that it is a part of."""
        outer, self.parts = self.parts, []
        try:
            yield self.parts
        finally:
            self.parts = outer

    @contextmanager
    def draft(self, stage: str, label: str, recipe: Recipe, *, resumable: bool = False) -> Iterator[Draft]:
        """Yield the folder of a stage, as `Store.draft` does, and remember it if no other system can share it.

        The draft of an object that may have changed since is never gone on from.
        """
        complete, name = reusable(recipe), f"{self._owner(stage)} {label}"
        with self.store.draft(stage, name, recipe, resumable=resumable and complete, shared=stage == "encodings") as draft:
            yield draft
        if not (stage in SHARED and complete):
            self.unshared.append(draft.folder)

    def _owner(self, stage: str) -> str:  # noqa: ARG002 - stages of a corpus are all there is here
        """Return what the folders of a stage are called after."""
        return self.corpus_name

    def _note_if_slow(self, plugin: Model, what: str) -> None:
        """Tell the user, before *plugin* begins, of a setting that is slow on this machine; *what* it is to do."""
        if line := plugin.slow_note():
            self.progress.note(f"{what}: {line}")


@dataclass
class DerivedStages(CorpusStages):
    """The stages of a corpus that was made of another. Its lists of folders are those of the other's stages."""

    folder: Path  # of the corpus
    name: str
    store: Store
    progress: Progress
    executor: Executor | None
    parts: list[Path]
    unshared: list[Path]

    @cached_property
    def corpus(self) -> StoredCorpus:
        """The corpus, opened once."""
        return open_corpus(self.folder)

    @property
    def corpus_name(self) -> str:
        """The other corpus's name, and what was made of it."""
        return self.name


def placed(retriever: Retriever, stages: CorpusStages) -> Iterator[tuple[Retriever, CorpusStages]]:
    """Yield the retrievers that *retriever* is made of in the end, each with the stages of the corpus that it searches."""
    if not retriever.members:
        yield retriever, stages
        return
    inner = retriever.member_context(stages)
    assert isinstance(inner, CorpusStages)  # what `derived` returns
    for member in retriever.members:
        yield from placed(member, inner)
