"""What every executor must do, on five shards of made-up documents, the last of three documents alone."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lexbench import registry
from lexbench.datasets.corpus import write_corpus
from lexbench.encodings.shards import SHARD, missing, shard_file
from lexbench.errors import LexbenchError
from lexbench.executors.here import Here
from lexbench.plugins import Encoder, Executor
from lexbench.progress import Silent
from lexbench.runner import systems
from lexbench.storage.atomic import UNFINISHED
from lexbench.testing._letters import Letters, Sum
from lexbench.types import Corpus, Document, Kind

WORDS = ("a b", "", "a c", "b b", "e", "c a", "e e e e", "a e", "b", "c c")
DOCUMENTS = 4 * SHARD + 3
POISON = DOCUMENTS - 2  # the position of the one document with a "d", in the middle of the last shard


class Heard(Silent):
    """Progress that keeps what it hears."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.done: list[int] = []
        self.notes: list[str] = []

    def advance(self, count: int = 1) -> None:
        """Keep how many documents are done."""
        self.done.append(count)

    def note(self, line: str) -> None:
        """Keep a line."""
        self.notes.append(line)


class ExecutorContract:
    """The tests of an executor: a subclass sets `plugin` to one, or overrides the fixture `executor`.

    Its workers must run on this machine, have at least one place among them, and find lexbench and pytest as here.
    """

    plugin: Any
    in_this_process = False  # whether the encoder runs in the process of the command, which no executor can kill and go on

    @pytest.fixture
    def executor(self) -> Any:
        """Return the executor."""
        return self.plugin

    @pytest.fixture
    def corpus(self, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
        """Write the documents; ids descend from position to position, as in every corpus."""
        documents = (
            Document(f"{DOCUMENTS - 1 - at:06d}", f"{at} {'d' if at == POISON else WORDS[at % len(WORDS)]}")
            for at in range(DOCUMENTS)
        )
        return write_corpus(documents, tmp_path_factory.mktemp("corpus"))

    @pytest.fixture
    def serial(self, corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
        """Return the files of a serial run, by name."""
        return encoded(Here(), Letters(), corpus, tmp_path_factory.mktemp("serial")).files

    def test_the_same_bytes_as_here(self, executor: Any, corpus: Corpus, serial: dict[str, bytes], tmp_path: Path) -> None:
        """Each shard is the file that a serial run writes, byte for byte, and progress hears of every document once."""
        encoder = Letters()
        described = systems.describe(encoder, index=True)
        done = encoded(executor, encoder, corpus, tmp_path)

        assert isinstance(executor, Executor)
        assert done.files == serial
        assert sum(done.heard.done) == DOCUMENTS
        assert systems.describe(encoder, index=True) == described, "what the encoder is in keys has changed"

    def test_what_is_there_is_left_alone(self, executor: Any, corpus: Corpus, tmp_path: Path) -> None:
        """Asked for the second and the last of five shards, a vector a token, it writes these and touches no other file."""
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
        assert sum(done.heard.done) == SHARD + 3

    def test_it_is_in_no_key(self, executor: Any) -> None:
        """Its settings are all `registry.runtime`, so that none of them is in the key of a folder."""
        assert registry.settings(executor) == {}

    def test_an_error_stops_it_at_once(self, executor: Any, corpus: Corpus, tmp_path: Path) -> None:
        """What the encoder says of a document arrives in one line that names it; its shard is tried once, others are not begun.

        The shard that fails is the first of five, and each other would take a second.
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
        """A worker dies of signal 9 with a shard in hand: a line says so, and bytes and documents counted are the same."""
        self._needs_workers()
        (tmp_path / "vectors").mkdir()
        dying = Letters(fails="d kill", once=str(tmp_path / "died"))
        done = encoded(executor, dying, corpus, tmp_path / "vectors")

        assert (tmp_path / "died").exists()
        assert done.files == serial
        assert sum(done.heard.done) == DOCUMENTS
        assert done.heard.notes

    def test_a_document_that_kills_every_worker_is_named(
        self, executor: Any, corpus: Corpus, serial: dict[str, bytes], tmp_path: Path
    ) -> None:
        """It ends in one line with that document's id; its shard is not written, and those that are have the right bytes."""
        self._needs_workers()
        with pytest.raises(LexbenchError, match=f"^document '{corpus.doc_ids[POISON].decode()}' kills .*") as caught:
            encoded(executor, Letters(fails="d kill"), corpus, tmp_path)
        there = files_of(tmp_path)

        assert "\n" not in str(caught.value)
        assert shard_file(tmp_path, missing(DOCUMENTS, tmp_path)[-1]).name not in there
        assert there == {name: serial[name] for name in there}

    def test_objects_are_held_and_called(self, executor: Any) -> None:
        """Three objects, two workers at most: each is filled once, keeps what it has, and several threads may call them."""
        notes: list[str] = []
        with self._holds(executor).hold([Sum(3), Sum(4), Sum(5)], notes.append) as held, ThreadPoolExecutor(3) as pool:
            twice = [pool.submit(one.call, "times", 2) for one in held]
            assert [one.result() for one in twice] == [2 * 3, 2 * 6, 2 * 10]
            held[1].call("add", 4)
            assert [one.call("times", 1) for one in held] == [3, 10, 10]
            assert all(one.worker >= 0 and one.spent > 0 for one in held)
        assert not notes

    def test_an_object_that_raises_goes_on(self, executor: Any) -> None:
        """What a method raises arrives in one line, and the object is there for the next call."""
        with self._holds(executor).hold([Sum(3)], print) as (held,):
            with pytest.raises(LexbenchError, match=r"^no such factor$"):
                held.call("times", 0)
            assert held.call("times", 5) == 15  # 0 + 1 + 2, times 5

    def test_an_object_whose_worker_is_killed_is_filled_again(self, executor: Any, tmp_path: Path) -> None:
        """A worker dies of signal 9 in a call: a line says so, and another answers; after three deaths there is an error."""
        self._needs_workers()
        notes: list[str] = []
        with self._holds(executor).hold([Sum(4), Sum(3)], notes.append) as held:
            assert held[0].call("times_or_die", 2, str(tmp_path / "once"), 1) == 2 * 6
            assert [one.call("times", 1) for one in held] == [6, 3]
            assert len(notes) == 1
            assert "\n" not in notes[0]
            with pytest.raises(LexbenchError, match=r"^3 workers died in `times_or_die`"):
                held[1].call("times_or_die", 1, str(tmp_path / "always"), 9)
        assert (tmp_path / "always").read_text(encoding="utf-8").count("\n") == 3

    def _holds(self, executor: Executor) -> Executor:
        if not executor.holds:
            pytest.skip("its workers hold no objects")
        return executor

    def _needs_workers(self) -> None:
        if self.in_this_process:
            pytest.skip("it encodes in this process, which would be the one to die")


class Done(NamedTuple):
    """What an executor wrote, and what progress heard."""

    files: dict[str, bytes]
    heard: Heard


def encoded(executor: Executor, encoder: Encoder, corpus: Corpus, path: Path, shards: Sequence[range] | None = None) -> Done:
    """Let *executor* encode *shards* (default: those that *path* lacks) of *corpus* into *path*."""
    heard = Heard()
    executor.encode(encoder, corpus, path, missing(len(corpus), path) if shards is None else shards, heard)
    return Done(files_of(path), heard)


def files_of(path: Path) -> dict[str, bytes]:
    """Return the bytes of every finished file in a folder; a killed process may leave others."""
    return {file.name: file.read_bytes() for file in sorted(path.iterdir()) if file.suffix != UNFINISHED}
