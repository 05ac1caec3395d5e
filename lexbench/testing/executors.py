"""The contract of executors, on five shards of synthetic documents; the last one has only three documents."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lexbench import registry
from lexbench.artifacts.describe import describe
from lexbench.datasets.corpus import write_corpus
from lexbench.display.progress import Progress
from lexbench.encodings.shards import SHARD, missing, shard_file
from lexbench.errors import LexbenchError
from lexbench.executors.here import Here
from lexbench.plugins import Encoder, Executor, Worker
from lexbench.storage.atomic import UNFINISHED
from lexbench.testing._letters import Letters, Sum
from lexbench.types import Corpus, Document, Kind

WORDS = ("a b", "", "a c", "b b", "e", "c a", "e e e e", "a e", "b", "c c")
DOCUMENTS = 4 * SHARD + 3
POISON = DOCUMENTS - 2  # the position of the one document with a "d", in the middle of the last shard


class RecordedProgress(Progress):
    """Progress that records its calls."""

    def __init__(self) -> None:
        """Start without calls."""
        self.done: list[int] = []
        self.notes: list[str] = []

    def advance(self, count: int = 1) -> None:
        """Record a number of documents."""
        self.done.append(count)

    def note(self, line: str) -> None:
        """Record a line."""
        self.notes.append(line)


class ExecutorContract:
    """The tests of an executor. A subclass sets `plugin` to one, or overrides the fixture `executor`.

    Its workers must run on this machine and be able to import lexbench and pytest.
    """

    plugin: Any
    in_this_process = False  # whether the encoder runs in this process, which tests must not kill

    @pytest.fixture
    def executor(self) -> Any:
        """Return the executor to check."""
        return self.plugin

    @pytest.fixture
    def corpus(self, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
        """Write the documents; ids descend by position, like in every corpus."""
        documents = (
            Document(f"{DOCUMENTS - 1 - at:06d}", f"{at} {'d' if at == POISON else WORDS[at % len(WORDS)]}")
            for at in range(DOCUMENTS)
        )
        return write_corpus(documents, tmp_path_factory.mktemp("corpus"))

    @pytest.fixture
    def serial(self, corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
        """Return the files of a run in this process, by name."""
        return encoded(Here(), Letters(), corpus, tmp_path_factory.mktemp("serial")).files

    def test_bytes_are_those_of_here(self, executor: Any, corpus: Corpus, serial: dict[str, bytes], tmp_path: Path) -> None:
        """Each shard has the same bytes as in this process, and progress counts each document once."""
        encoder = Letters()
        described = describe(encoder, index=True)
        done = encoded(executor, encoder, corpus, tmp_path)

        assert isinstance(executor, Executor)
        assert done.files == serial
        assert sum(done.progress.done) == DOCUMENTS
        assert describe(encoder, index=True) == described, "the key facts of the encoder have changed"

    def test_only_requested_shards_are_written(self, executor: Any, corpus: Corpus, tmp_path: Path) -> None:
        """Two of five shards, with a vector per token, are written; no other file is touched."""
        for name in ("here", "there"):
            (tmp_path / name).mkdir()
        shards = missing(DOCUMENTS, tmp_path / "there")
        kept = shard_file(tmp_path / "there", shards[0])
        kept.write_bytes(b"of another command")
        asked = [shards[1], shards[4]]
        serial = encoded(Here(), Letters(kind=Kind.MULTI), corpus, tmp_path / "here", asked)
        done = encoded(executor, Letters(kind=Kind.MULTI), corpus, tmp_path / "there", asked)

        assert len(serial.files) == len(asked)
        assert done.files == serial.files | {kept.name: b"of another command"}
        assert sum(done.progress.done) == SHARD + 3

    def test_it_is_in_no_key(self, executor: Any) -> None:
        """All its settings are `registry.runtime`, so none of them is in a key."""
        assert registry.settings(executor) == {}

    def test_an_error_stops_it_at_once(self, executor: Any, corpus: Corpus, tmp_path: Path) -> None:
        """An error of the encoder names its document in one line; its shard is tried once, and not all others are encoded.

        The failing shard is the first of five, and each of the others would take a second.
        """
        shards = missing(DOCUMENTS, tmp_path)
        log = tmp_path / "log"
        folder = tmp_path / "vectors"
        folder.mkdir()
        failing = Letters(fails="d", log=str(log), seconds=1 / SHARD)
        with pytest.raises(LexbenchError) as caught:
            encoded(executor, failing, corpus, folder, [shards[-1], *shards[:-1]])
        tries = [line.split(" ", 2) for line in log.read_text(encoding="utf-8").splitlines()]

        assert str(caught.value) == f"document '{corpus.doc_ids[POISON].decode()}' cannot be encoded: no such letter"
        assert [int(texts) for _process, texts, _first in tries].count(3) == 1
        assert len(files_of(folder)) < len(shards) - 1

    def test_a_worker_that_is_killed_is_replaced(
        self, executor: Any, corpus: Corpus, serial: dict[str, bytes], tmp_path: Path
    ) -> None:
        """If a worker is killed by signal 9, there is a note, and bytes and progress are the same."""
        self._needs_workers()
        (tmp_path / "vectors").mkdir()
        dying = Letters(fails="d kill", once=str(tmp_path / "died"))
        done = encoded(executor, dying, corpus, tmp_path / "vectors")

        assert (tmp_path / "died").exists()
        assert done.files == serial
        assert sum(done.progress.done) == DOCUMENTS
        assert done.progress.notes

    def test_a_document_that_kills_every_worker_is_named(
        self, executor: Any, corpus: Corpus, serial: dict[str, bytes], tmp_path: Path
    ) -> None:
        """The error is one line with the document's id; its shard is not written, and written ones have the right bytes."""
        self._needs_workers()
        with pytest.raises(LexbenchError, match=f"^document '{corpus.doc_ids[POISON].decode()}' kills .*") as caught:
            encoded(executor, Letters(fails="d kill"), corpus, tmp_path)
        there = files_of(tmp_path)

        assert "\n" not in str(caught.value)
        assert shard_file(tmp_path, missing(DOCUMENTS, tmp_path)[-1]).name not in there
        assert there == {name: serial[name] for name in there}

    def test_workers_have_copies_of_an_object(self, executor: Any) -> None:
        """Each copy keeps its own state, several threads can call it, and after an error of a method it still works."""
        notes: list[str] = []
        with self._workers(executor, Sum(3), notes) as (first, second), ThreadPoolExecutor(3) as pool:
            assert sorted(one.result() for one in [pool.submit(first.call, "add", 4) for _ in range(3)]) == [7, 11, 15]
            assert second.call("add", 1) == 4
            with pytest.raises(LexbenchError, match=r"^it only goes up$"):
                first.call("add", -1)
            assert first.call("add", 0) == 15
            assert first.spent > 0
        assert not notes

    def test_a_copy_whose_worker_is_killed_is_made_again(self, executor: Any, tmp_path: Path) -> None:
        """If a worker is killed by signal 9, there is a note and another worker answers; three deaths are an error."""
        notes: list[str] = []
        with self._workers(executor, Sum(3), notes) as (first, second):
            assert first.call("add_or_die", 2, str(tmp_path / "once"), 1) == 5
            assert second.call("add", 0) == 3
            assert len(notes) == 1
            assert "\n" not in notes[0]
            with pytest.raises(LexbenchError, match=r"^3 workers died in `add_or_die`"):
                second.call("add_or_die", 1, str(tmp_path / "always"), 9)
        assert (tmp_path / "always").read_text(encoding="utf-8").count("\n") == 3

    @contextmanager
    def _workers(self, executor: Executor, thing: Any, notes: list[str]) -> Iterator[Sequence[Worker]]:
        with executor.index_workers(thing, 2, notes.append) as workers:
            if not workers:
                pytest.skip("it has no workers for indexes")
            yield workers

    def _needs_workers(self) -> None:
        if self.in_this_process:
            pytest.skip("it encodes in this process")


class Done(NamedTuple):
    """The files that an executor wrote, and the calls of progress."""

    files: dict[str, bytes]
    progress: RecordedProgress


def encoded(executor: Executor, encoder: Encoder, corpus: Corpus, path: Path, shards: Sequence[range] | None = None) -> Done:
    """Encode *shards* of *corpus* (default: those that *path* lacks) into *path*."""
    progress = RecordedProgress()
    executor.encode(encoder, corpus, path, missing(len(corpus), path) if shards is None else shards, progress)
    return Done(files_of(path), progress)


def files_of(path: Path) -> dict[str, bytes]:
    """Return the bytes of every finished file in a folder, without temporary files."""
    return {file.name: file.read_bytes() for file in sorted(path.iterdir()) if file.suffix != UNFINISHED}
