"""On a Ray cluster: documents go to actors, the bytes of shards come back, and only this process touches the store.

So the machines share no file system, and the shards are those of a serial run. Every machine needs the same versions of
lexbench and of what it encodes with; a model's folder is sent to those that do not have it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from lexbench.encodings.encode import named
from lexbench.encodings.shards import shard_file
from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.executors._holding import holding
from lexbench.executors._leases import HELD, Leases, poison
from lexbench.executors._ray_cluster import HoldingActor, connected, first_line, places, requested, wait_for_place
from lexbench.executors._ray_worker import Worker, versions
from lexbench.plugins import Encoder, Executor, Held, Holdable
from lexbench.progress import Progress, tell_of_workers
from lexbench.registry import runtime
from lexbench.storage import atomic
from lexbench.types import Corpus, Document

_SENT = (".json", ".metadata", ".model", ".safetensors", ".txt", "pytorch_model.bin")  # endings of files of a model's folder
_ASKED_EVERY = 1.0  # seconds between the times that actors are asked how far they are
_CALLS = HELD + 1  # of an actor at a time: its shards, and how far it is
_STILLBORN = 3  # actors that die before they are ready: one more would, too


@dataclass(frozen=True)
class Ray(Executor):
    """Each worker is an actor with an encoder of its own.

    *address*: of the cluster; "" is the one that RAY_ADDRESS names or that runs here, or else a new one of this machine alone.
    *workers*: how many; 0 is as many as the cluster has place for when it starts. *cpus*, *gpus*: what each asks Ray for; -1
    GPUs is one where the cluster has any, and none where it has not. *patience*: seconds in which one worker must be placed,
    or the command ends and says what was asked for and what there is; a cluster that grows by itself needs more.
    """

    address: str = runtime("")
    workers: int = runtime(0)
    cpus: float = runtime(1.0)
    gpus: float = runtime(-1.0)
    patience: float = runtime(120.0)

    requires: ClassVar[tuple[str, ...]] = ("ray",)
    extra: ClassVar[str] = "ray"
    holds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse what no cluster could have."""
        if self.workers < 0 or self.cpus < 0 or self.patience <= 0:
            raise CommandError(f"{self}: workers and cpus are 0 or more, patience is more than 0")

    def encode(self, encoder: Encoder, corpus: Corpus, path: Path, shards: Sequence[range], progress: Progress) -> None:
        """Encode the *shards*; an actor that dies, or whose machine is gone, is replaced, and what it had goes to others."""
        with connected(self.address) as ray:
            crew = _Crew(ray, self, encoder)
            leases = Leases(shards, progress)
            try:
                for _ in range(min(crew.places(self.workers), len(shards))):
                    crew.hire()
                crew.wait_for_one(self.patience)
                while not leases.finished:
                    self._step(crew, leases, corpus, path, progress)
            finally:
                crew.dismiss()

    def _step(self, crew: "_Crew", leases: Leases, corpus: Corpus, path: Path, progress: Progress) -> None:
        """Hand out what there is to do, and take in one thing that is done, or one actor that is gone."""
        for actor in crew.ready:
            while (shard := leases.take(actor)) is not None:
                crew.send(actor, shard, list(corpus.documents(shard.start, shard.stop)))
        tell_of_workers(progress, crew.summary())
        news = crew.receive(self.patience)
        if news.shard and news.content:
            atomic.write_bytes(shard_file(path, news.shard), news.content)
            leases.done(news.actor, news.shard)
        elif news.error:
            raise named(news.error, corpus, news.shard, partial(crew.content, news.actor)) if news.shard else news.error
        elif news.encoded:
            leases.encoded(news.actor, news.encoded)
        elif news.gone:
            if deadly := leases.died(news.actor):
                crew.dismiss()  # which makes room for those that look for the document
                raise poison(corpus, deadly, partial(crew.kills, corpus))
            if leases.left:
                progress.note("a worker of Ray is gone; another takes over what it had")
                crew.hire()

    @contextmanager
    def hold(self, things: Sequence[Holdable], note: Callable[[str], None]) -> Iterator[Sequence[Held]]:
        """Let actors hold the objects, which take no place from those that encode; one that dies is replaced."""
        with connected(self.address) as ray:
            count = places(ray, requested(ray, self.cpus, 0.0), self.workers)
            with holding(things, count, lambda: HoldingActor(ray, self.patience), note) as held:
                yield held


class _News(NamedTuple):
    """What came of an actor: the bytes of a shard, or an error; how far it is; its end. None of these: nothing to act on."""

    actor: Any = None
    shard: range | None = None
    content: bytes | None = None
    error: LexbenchError | None = None  # that encoding the shard met
    encoded: int = 0  # documents since it began
    gone: bool = False


class _Crew:
    """The actors of one call, and what they are at."""

    def __init__(self, ray: Any, settings: Ray, encoder: Encoder) -> None:
        self._ray = ray
        self.ready: list[Any] = []
        self._starting: dict[Any, Any] = {}  # actors, by the promise that they are ready
        self._stillborn = 0  # actors that died before they were ready
        self._at: dict[Any, tuple[Any, range]] = {}  # actors and shards, by the promise of its bytes
        self._asked: dict[Any, Any] = {}  # actors, by the promise to say how far they are
        self._asked_at = 0.0  # by time.monotonic()
        self._memory: dict[Any, float] = {}  # the most that each has had, in MB
        self._request = requested(ray, settings.cpus, settings.gpus)
        self._actor = ray.remote(Worker).options(max_restarts=0, max_concurrency=_CALLS, **self._request)
        # Once, and kept by Ray for all machines.
        self._load = [ray.put(item) for item in (encoder, versions(), encoder.index_identity(), _folders(encoder))]

    def places(self, wanted: int) -> int:
        """Return how many actors to start: *wanted*, or as many as there is place for, at least one."""
        return places(self._ray, self._request, wanted)

    def hire(self) -> None:
        """Ask Ray for one more actor."""
        actor = self._actor.remote()
        self._starting[actor.load.remote(*self._load)] = actor

    def wait_for_one(self, patience: float) -> None:
        """Wait until an actor is placed; CannotStart, with what was asked for and what there is, after *patience* seconds."""
        wait_for_place(self._ray, [actor.is_there.remote() for actor in self._starting.values()], self._request, patience)

    def send(self, actor: Any, shard: range, documents: list[Document]) -> None:
        """Let *actor* encode *shard*."""
        self._at[actor.encode.remote(documents)] = actor, shard

    def receive(self, patience: float) -> _News:
        """Wait for the next thing that an actor says, or that is heard of its end.

        CannotStart where an actor says that it cannot encode, or where none is at work, nor placed in *patience* seconds.
        """
        if not self._at:
            self.wait_for_one(patience)
        if time.monotonic() - self._asked_at >= _ASKED_EVERY:
            self._asked_at = time.monotonic()
            self._asked |= {actor.state.remote(): actor for actor in self.ready if actor not in self._asked.values()}
        done, _ = self._ray.wait([*self._at, *self._starting, *self._asked], num_returns=1, timeout=_ASKED_EVERY)
        return self._heard(done[0]) if done else _News()

    def _heard(self, promise: Any) -> _News:
        """Return what has become of a *promise* that is kept, or broken."""
        from ray.exceptions import RayError, RayTaskError

        actor, shard = self._at.pop(promise, (None, None))
        starting, asked = self._starting.pop(promise, None), self._asked.pop(promise, None)
        actor = actor or starting or asked
        try:
            answer = self._ray.get(promise)
        except RayTaskError as error:
            return _News(actor, shard, error=_as_ours(error))
        except RayError as error:  # the actor, its machine or its answer is gone
            self._stillborn += starting is not None
            if self._stillborn >= _STILLBORN and not self.ready:
                raise LexbenchError(f"{_STILLBORN} workers of Ray died before they could encode: {first_line(error)}") from None
            self._forget(actor)
            return _News(actor, gone=True)
        if asked:
            encoded, self._memory[actor] = answer
            return _News(actor, encoded=encoded)
        if shard:
            return _News(actor, shard, answer)
        if answer:
            raise CannotStart(answer)
        self.ready.append(actor)
        return _News(actor)

    def _forget(self, actor: Any) -> None:
        """Count no more on *actor*, which may come back from behind a broken line."""
        self.ready = [one for one in self.ready if one != actor]
        self._at = {promise: (one, shard) for promise, (one, shard) in self._at.items() if one != actor}
        self._asked = {promise: one for promise, one in self._asked.items() if one != actor}
        self._memory.pop(actor, None)
        self._ray.kill(actor)

    def content(self, actor: Any, documents: Sequence[Document]) -> bytes:
        """Return the bytes of the shard of *documents*, which nothing else waits for."""
        content: bytes = self._ray.get(actor.encode.remote(documents))
        return content

    def kills(self, corpus: Corpus, positions: range) -> bool:
        """Whether an actor that encodes these documents does not come to its end."""
        from ray.exceptions import RayError, RayTaskError

        actor = self._actor.remote()
        actor.load.remote(*self._load)
        try:
            self._ray.get(actor.encode.remote(list(corpus.documents(positions.start, positions.stop))))
        except RayTaskError:
            return False
        except RayError:
            return True
        finally:
            self._ray.kill(actor)
        return False

    def dismiss(self) -> None:
        """End every actor."""
        for actor in (*self.ready, *self._starting.values()):
            self._ray.kill(actor)

    def summary(self) -> str:
        """Say how many encode, and in how much memory, as far as that has been heard."""
        memory = f", {sum(self._memory.values()):,.0f} MB" if self._memory else ""
        return f"workers on Ray: {len(self.ready)}{memory}"


def _folders(encoder: Any) -> dict[str, dict[str, bytes]]:
    """Return the files that the encoder's settings name, by setting and by name below the folder."""
    folders = encoder.document_folders()
    return {
        setting: {
            file.relative_to(folder).as_posix(): file.read_bytes()
            for file in sorted(folder.rglob("*"))
            if file.is_file() and file.name.endswith(_SENT)
        }
        for setting, folder in folders.items()
    }


def _as_ours(error: Any) -> LexbenchError:
    """Return what an actor raised, in one line."""
    cause = error.cause
    if isinstance(cause, LexbenchError):
        return LexbenchError(str(cause))
    return LexbenchError(f"a worker of Ray failed: {type(cause).__name__}: {first_line(cause)}")
