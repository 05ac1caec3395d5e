"""What is made from a corpus, each an artifact in the store: made once, kept, and shared by all systems that need it.

    corpora     passages of the documents, which have encodings and indexes of their own
    encodings   the vectors that an encoder makes of the documents
    indexes     what a retriever searches

`lexbench.runner.search` makes the corpus itself and the runs.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from lexbench.datasets.corpus import StoredCorpus
from lexbench.encodings.shards import SHARD, Encodings, missing
from lexbench.errors import LexbenchError
from lexbench.executors import suited
from lexbench.plugins import Encoder, Executor, Model, Retriever
from lexbench.progress import Progress
from lexbench.runner.systems import describe, is_reusable, on_workers, short_name
from lexbench.storage.artifact_folder import KeyFacts, key_facts_of
from lexbench.storage.code import recoded, without_code
from lexbench.storage.environment import packages_of
from lexbench.storage.stopwatch import Stopwatch
from lexbench.storage.store import Draft, Store
from lexbench.types import Corpus, Document

FORMAT = 2  # of all artifacts; raise it when an artifact of an older lexbench would be misread
_SHARED = ("corpora", "encodings", "indexes")  # artifacts of a corpus, shared by its datasets
R = TypeVar("R")  # a retriever


@dataclass
class Workspace:
    """Where artifacts are made: the store, the listener for progress, and the executor."""

    store: Store
    progress: Progress
    executor: Executor | None = None  # encodes corpora; None: the one that suits the encoder
    unshared: list[Path] = field(default_factory=list)  # artifacts that other systems cannot use
    recoded: set[str] = field(default_factory=set)  # plug-ins of which a note has said that their code has changed

    @contextmanager
    def draft(self, kind: str, label: str, facts: KeyFacts, *, resumable: bool = False) -> Iterator[Draft]:
        """Yield the artifact, as `Store.draft` does, and remember it in `unshared` if no other system can use it.

        A draft of an object from a notebook is never continued: the object may have changed since.
        """
        complete = is_reusable(facts)
        shared = kind == "encodings"
        with self.store.draft(kind, label, facts, resumable=resumable and complete, shared=shared) as draft:
            if draft.unfinished:
                self._note_changed_code(kind, label, facts)
            yield draft
        if not (kind in _SHARED and complete):
            self.unshared.append(draft.folder)

    def _note_changed_code(self, kind: str, label: str, facts: KeyFacts) -> None:
        """Show a note for each plug-in of whose older code the store has this artifact."""
        made = {**facts, "index": ""}  # of a run: the key of its index, which has the same code
        for folder in self.store.folders(kind, label):
            with suppress(LexbenchError):  # damaged
                before = {**key_facts_of(folder), "index": ""}
                if before != made and without_code(before) == without_code(made):
                    changed = {one.rpartition("/")[2].rpartition(":")[2] for one in recoded(before, made)} - self.recoded
                    self.recoded |= changed
                    for name in sorted(changed):
                        self.progress.note(f"the code of {name} has changed since it was last run: made again")

    def with_workers(self, retriever: R) -> R:
        """Return *retriever* with engines that the executor's workers build and search, as far as both can."""
        if not self.executor:
            return retriever
        elsewhere: R = on_workers(retriever, self.executor, self.progress.note)
        return elsewhere

    def note_if_slow(self, plugin: Model, what: str) -> None:
        """Show a note, before *plugin* begins to do *what*, if another setting would be faster on this machine."""
        if line := plugin.slow_note():
            self.progress.note(f"{what}: {line}")


@dataclass(frozen=True)
class Artifacts:
    """Makes, or finds in the store, the artifacts of one corpus. It is the `BuildContext` of retrievers."""

    corpus: StoredCorpus
    name: str  # of the corpus, for people
    workspace: Workspace
    used: list[Path] = field(default_factory=list)  # artifacts that this context has returned

    def corpus_dir(self) -> Path:
        """Return the folder of the corpus."""
        return self.corpus.path

    def derived(self, name: str, recipe: KeyFacts, write: Callable[[Corpus, Path], None]) -> "Artifacts":
        """Return the artifacts of a corpus made from this one: *write* gets this corpus and an empty folder for the other.

        *recipe* (values and plug-ins) and this corpus decide the content of the other. Messages call it *name*.
        """
        facts: KeyFacts = {"format": FORMAT, "corpus": self.corpus.fingerprint, "derived": describe(recipe, index=True)}
        progress = self.workspace.progress
        with self.workspace.draft("corpora", f"{self.name} {name}", facts) as draft:
            if draft.unfinished:
                watch = Stopwatch()
                progress.start(f"{name} of {self.name}", "read corpus", len(self.corpus), "documents")
                with watch.time("cut"):
                    write(CorpusWithProgress(self.corpus, progress), draft.unfinished)
                watch.write(draft.unfinished)
                progress.end()
        return Artifacts(StoredCorpus(draft.folder), f"{self.name} {name}", self.workspace, self.used)

    # ---- vectors

    def encodings(self, encoder: Encoder) -> "VectorsWithProgress":
        """Return the stored vectors of the corpus."""
        name, facts = type(encoder).__name__, self._encoding_facts(encoder)
        # The block subtracts the time of encoding from the time of the index that needs the vectors.
        with Stopwatch().time("part"), self.workspace.draft("encodings", f"{self.name} {name}", facts, resumable=True) as draft:
            if draft.unfinished:
                shards = missing(len(self.corpus), draft.unfinished)
                watch = Stopwatch(resumed=sum(map(len, shards)) < len(self.corpus))
                with watch.time("encode"):
                    self._encode(encoder, shards, draft.unfinished)
                watch.write(draft.unfinished)
        self.used.append(draft.folder)
        what = f"{short_name(encoder)} on {self.name}"
        return VectorsWithProgress(draft.folder, self.workspace.progress, what, len(self.corpus))

    def encode_part(self, encoder: Encoder, part: int, parts: int) -> int:
        """Encode *part*, from 0, of *parts* of the corpus, while other processes encode the rest.

        Finishes the artifact if it is complete. Returns how many shards are left to others. The same command, or `run`,
        continues if it is given again.
        """
        store, facts, label = self.workspace.store, self._encoding_facts(encoder), f"{self.name} {type(encoder).__name__}"
        with store.part("encodings", label, facts, f"{part}-of-{parts}"):
            draft = store.shared_draft("encodings", label, facts)
            if draft.unfinished is None:
                return 0
            shards = missing(len(self.corpus), draft.unfinished)
            try:
                # The part of a shard does not depend on which shards are finished already.
                self._encode(encoder, [shard for shard in shards if shard.start // SHARD % parts == part], draft.unfinished)
            except FileNotFoundError:
                if draft.unfinished.is_dir():  # otherwise a process with other parts has made the same shards, and finished
                    raise
            if left := len(missing(len(self.corpus), draft.unfinished)) if draft.unfinished.is_dir() else 0:
                return left
            self.encodings(encoder)
        return 0

    def _encoding_facts(self, encoder: Encoder) -> KeyFacts:
        return {"format": FORMAT, "encoder": describe(encoder, index=True), "corpus": self.corpus.fingerprint}

    def _encode(self, encoder: Encoder, shards: Sequence[range], path: Path) -> None:
        """Encode *shards* of the corpus into *path*, on the executor."""
        before = describe(encoder, index=True)
        progress, what = self.workspace.progress, f"{short_name(encoder)} on {self.name}"
        self.workspace.note_if_slow(encoder, what)
        progress.start(what, "encode", sum(map(len, shards)), "documents")
        if shards:
            (self.workspace.executor or suited(encoder)).encode(encoder, self.corpus, path, shards, progress)
        if describe(encoder, index=True) != before:
            raise LexbenchError(f"{type(encoder).__name__} has changed while it encoded: give the same command again")
        progress.end()

    # ---- indexes

    def index(self, retriever: Retriever, name: str = "") -> Path:
        """Return the folder of an index of the corpus. The artifacts that it refers to exist too. Tables call it *name*."""
        name = name or type(retriever).__name__
        facts: KeyFacts = {"format": FORMAT, "retriever": describe(retriever, index=True), "corpus": self.corpus.fingerprint}
        # The block subtracts the time of this index from the time of an index that needs it.
        with Stopwatch().time("part"):
            retriever.search_inputs(replace(self, used=[]))  # they may have been removed, or damaged, since it was made
            with self.workspace.draft("indexes", f"{self.name} {name}", facts) as draft:
                if draft.unfinished:
                    self._build(retriever, draft.unfinished, f"{name} on {self.name}")
        self.used.append(draft.folder)
        return draft.folder

    def _build(self, retriever: Retriever, path: Path, what: str) -> None:
        """Write an index into *path*, with its own times and the times of the artifacts it is made from."""
        watch, context = Stopwatch(packages=packages_of(retriever)), replace(self, used=[])
        with watch.time("build"):
            if not retriever.finished:
                corpus = CorpusWithProgress(self.corpus, self.workspace.progress, what)
                self.workspace.with_workers(retriever).assemble(corpus, path, context)
        for folder in context.used:
            watch.add(folder)
        watch.write(path)


def placed(retriever: Retriever, artifacts: Artifacts) -> Iterator[tuple[Retriever, Artifacts]]:
    """Yield the retrievers that *retriever* is made of in the end, each with the artifacts of the corpus that it searches."""
    if not retriever.members:
        yield retriever, artifacts
        return
    inner = retriever.member_context(artifacts)
    assert isinstance(inner, Artifacts)  # what `derived` returns
    for member in retriever.members:
        yield from placed(member, inner)


# ---- what reports progress while it is read --------------------------------------------------------------------------------


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


@dataclass(frozen=True)
class VectorsWithProgress(Encodings):
    """Stored vectors that report every document that an engine has taken to *progress*."""

    progress: Progress
    what: str
    documents: int

    def shards(self) -> Iterator[Any]:
        """Yield the vectors. A shard is reported when the next one is requested, because the engine is done with it then."""
        self.progress.start(self.what, "build index", self.documents, "documents")
        for shard in super().shards():
            yield shard
            self.progress.advance(shard.shape[0])
        self.progress.end()
