"""The executor `ray`: documents go to actors on a Ray cluster, the bytes of shards come back, and this process writes them.

So the machines need no shared file system, and the shards are those of a serial run. Every machine needs the same versions of
lexbench and of the packages that encode; the folder of a model is sent to machines that lack it.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from lexbench.encodings.encoding import with_document_name
from lexbench.encodings.shards import shard_file
from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.executors._ray_actors import EncodingActor, HoldingActor, versions
from lexbench.executors._workers import MOST_SHARDS, Answer, Leases, WorkerGone, holding, poison
from lexbench.plugins import Encoder, Executor, Held, Holdable
from lexbench.progress import Progress
from lexbench.registry import runtime
from lexbench.storage import atomic
from lexbench.types import Corpus, Document

_SENT = (".json", ".metadata", ".model", ".safetensors", ".txt", "pytorch_model.bin")  # endings of the files of a model
_ASKED_EVERY = 1.0  # seconds between two requests for the progress of actors
_CALLS = MOST_SHARDS + 1  # of an actor at a time: its shards, and its progress
_STILLBORN = 3  # actors that die before they are ready, after which no more are started

_connections: list[str] = []  # addresses of the open `connected` contexts; the last one to end disconnects


@dataclass(frozen=True)
class Ray(Executor):
    """Each worker is an actor with its own encoder.

    *address*: of the cluster; "" is the one in RAY_ADDRESS or the one that runs here, or else a new one of this machine alone.
    *workers*: the number of actors; 0 is as many as the cluster has room for at the start. *cpus*, *gpus*: what each actor asks
    Ray for; -1 GPUs is one if the cluster has any, and else none. *patience*: seconds in which one worker must be placed, or
    the command ends and says what was asked for and what there is; a cluster that grows by itself needs more.
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
        """Raise CommandError for impossible settings."""
        if self.workers < 0 or self.cpus < 0 or self.patience <= 0:
            raise CommandError(f"{self}: workers and cpus are 0 or more, patience is more than 0")

    def encode(self, encoder: Encoder, corpus: Corpus, path: Path, shards: Sequence[range], progress: Progress) -> None:
        """Encode the *shards*; an actor that dies is replaced, and its unfinished shards go to others."""
        with _connected(self.address) as ray:
            crew = _Crew(ray, self, encoder)
            leases = Leases(shards, progress)
            try:
                for _ in range(min(_places(ray, crew.request, self.workers), len(shards))):
                    crew.hire()
                crew.wait_for_one(self.patience)
                while not leases.finished:
                    self._step(crew, leases, corpus, path, progress)
            finally:
                crew.dismiss()

    def _step(self, crew: "_Crew", leases: Leases, corpus: Corpus, path: Path, progress: Progress) -> None:
        """Lease shards to actors that have room, and handle one event."""
        for actor in crew.ready:
            while (shard := leases.take(actor)) is not None:
                crew.send(actor, shard, list(corpus.documents(shard.start, shard.stop)))
        progress.workers(crew.summary())
        event = crew.receive(self.patience)
        if event.shard and event.content:
            atomic.write_bytes(shard_file(path, event.shard), event.content)
            leases.done(event.actor, event.shard)
        elif event.error and event.shard:
            raise with_document_name(event.error, corpus, event.shard, partial(crew.content, event.actor))
        elif event.error:
            raise event.error
        elif event.encoded:
            leases.encoded(event.actor, event.encoded)
        elif event.gone:
            if deadly := leases.died(event.actor):
                crew.dismiss()  # makes room for the actors that look for the document
                raise poison(corpus, deadly, partial(crew.kills, corpus))
            if leases.left:
                progress.note("a worker of Ray is gone; another one takes over its shards")
                crew.hire()

    @contextmanager
    def hold(self, things: Sequence[Holdable], note: Callable[[str], None]) -> Iterator[Sequence[Held]]:
        """Hold the objects in actors, which use no place that encoding needs; one that dies is replaced."""
        with _connected(self.address) as ray:
            count = _places(ray, _request(ray, self.cpus, 0.0), self.workers)
            with holding(things, count, lambda: _ActorChannel(ray, self.patience), note) as held:
                yield held


# ---- the cluster -----------------------------------------------------------------------------------------------------------


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Yield Ray, connected to the cluster at *address*; an existing connection stays open. Raises CannotStart."""
    # Must be set before Ray is imported, or Ray prints what happens in the cluster to stdout, where our answers go.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^")
    import ray

    if ray.is_initialized() and not _connections:  # by the program that calls lexbench
        yield ray
        return
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that is started here sends nothing to anyone
        try:
            ray.init(address or None, logging_level=logging.ERROR, log_to_driver=False, configure_logging=True)
        except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
            raise CannotStart(
                f"no Ray cluster answers at {address or 'the address in RAY_ADDRESS'} ({_first_line(error)}); "
                "start one with ray start --head, or leave the address out for a new one of this machine"
            ) from None
    _connections.append(address)
    try:
        yield ray
    finally:
        _connections.remove(address)
        if not _connections:
            ray.shutdown()


def _request(ray: Any, cpus: float, gpus: float) -> dict[str, float]:
    """Return what each actor asks Ray for; negative *gpus* are one if the cluster has any."""
    return {"num_cpus": cpus, "num_gpus": gpus if gpus >= 0 else float(ray.cluster_resources().get("GPU", 0) > 0)}


def _places(ray: Any, request: Mapping[str, float], wanted: int) -> int:
    """Return the number of actors to start: *wanted*, or else as many as there is room for, at least one."""
    total = ray.cluster_resources()
    fitting = [total.get(name, 0) // asked for name, asked in zip(("CPU", "GPU"), request.values(), strict=True) if asked]
    return wanted or max(1, int(min(fitting, default=1)))


def _wait_for_place(ray: Any, placed: Sequence[Any], request: Mapping[str, float], patience: float) -> None:
    """Wait until one of the promises *placed* is kept. Raises CannotStart after *patience* seconds."""
    if ray.wait(list(placed), timeout=patience)[0]:
        return
    asked = f"{request['num_cpus']:g} CPUs and {request['num_gpus']:g} GPUs"
    total, free = (
        f"{there.get('CPU', 0):g} CPUs and {there.get('GPU', 0):g} GPUs"
        for there in (ray.cluster_resources(), ray.available_resources())
    )
    raise CannotStart(
        f"Ray placed no worker in {patience:g} s: each asks for {asked}, the cluster has {total}, {free} of them free; "
        "ask for less, e.g. --on 'ray(cpus=1, gpus=0)', or wait longer, e.g. --on 'ray(patience=900)'"
    )


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


class _ActorChannel:
    """The connection to an actor with a holder."""

    def __init__(self, ray: Any, patience: float) -> None:
        self._ray = ray
        # It is idle most of the time and lives as long as an index is open, so it must take no place from encoding actors.
        request = {"num_cpus": 0.0, "num_gpus": 0.0}
        self._actor = ray.remote(HoldingActor).options(max_restarts=0, scheduling_strategy="SPREAD", **request).remote()
        _wait_for_place(ray, [self._actor.differing.remote({})], request, patience)
        if wrong := self._get(self._actor.differing.remote(versions())):
            raise CannotStart(wrong)

    def ask(self, method: str, *arguments: Any) -> Answer:
        """Call a method of the holder."""
        answer: Answer = self._get(self._actor.answer.remote(method, arguments))
        return answer

    def _get(self, promise: Any) -> Any:
        from ray.exceptions import RayError

        try:
            return self._ray.get(promise)
        except RayError as error:  # the actor, its machine or its answer is lost; errors of the object are answers
            raise WorkerGone(f"Ray says: {_first_line(error)}") from None

    def end(self) -> None:
        """End the actor, even if it is busy."""
        if self._ray.is_initialized():  # not at the end of the interpreter
            self._ray.kill(self._actor)


# ---- the actors of one call ------------------------------------------------------------------------------------------------


class _Event(NamedTuple):
    """What happened to an actor: a shard or an error, its progress, or its end. If all are empty nothing has to be done."""

    actor: Any = None
    shard: range | None = None
    content: bytes | None = None
    error: LexbenchError | None = None  # of encoding the shard
    encoded: int = 0  # documents since it began
    gone: bool = False


class _Crew:
    """The actors of one call, and what they are doing."""

    def __init__(self, ray: Any, settings: Ray, encoder: Encoder) -> None:
        self._ray = ray
        self.ready: list[Any] = []
        self._starting: dict[Any, Any] = {}  # actors, by the promise that they are ready
        self._stillborn = 0  # actors that died before they were ready
        self._encoding: dict[Any, tuple[Any, range]] = {}  # actors and shards, by the promise of the shard's bytes
        self._asked: dict[Any, Any] = {}  # actors, by the promise of their progress
        self._asked_at = 0.0  # by time.monotonic()
        self._memory: dict[Any, float] = {}  # peak of each actor, in MB
        self.request = _request(ray, settings.cpus, settings.gpus)
        self._actor = ray.remote(EncodingActor).options(max_restarts=0, max_concurrency=_CALLS, **self.request)
        # `put` once: Ray keeps them for all machines.
        self._load = [ray.put(item) for item in (encoder, versions(), encoder.index_identity(), _folders(encoder))]

    def hire(self) -> None:
        """Ask Ray for one more actor."""
        actor = self._actor.remote()
        self._starting[actor.load.remote(*self._load)] = actor

    def wait_for_one(self, patience: float) -> None:
        """Wait until an actor is placed. Raises CannotStart after *patience* seconds."""
        _wait_for_place(self._ray, [actor.is_there.remote() for actor in self._starting.values()], self.request, patience)

    def send(self, actor: Any, shard: range, documents: list[Document]) -> None:
        """Let *actor* encode *shard*."""
        self._encoding[actor.encode.remote(documents)] = actor, shard

    def receive(self, patience: float) -> _Event:
        """Wait for the next event.

        Raises CannotStart if an actor cannot encode, or if none is at work and none is placed in *patience* seconds.
        """
        if not self._encoding:
            self.wait_for_one(patience)
        if time.monotonic() - self._asked_at >= _ASKED_EVERY:
            self._asked_at = time.monotonic()
            self._asked |= {actor.state.remote(): actor for actor in self.ready if actor not in self._asked.values()}
        done, _ = self._ray.wait([*self._encoding, *self._starting, *self._asked], num_returns=1, timeout=_ASKED_EVERY)
        return self._event(done[0]) if done else _Event()

    def _event(self, promise: Any) -> _Event:
        """Return what has become of a *promise* that is kept or broken."""
        from ray.exceptions import RayError, RayTaskError

        actor, shard = self._encoding.pop(promise, (None, None))
        starting, asked = self._starting.pop(promise, None), self._asked.pop(promise, None)
        actor = actor or starting or asked
        try:
            answer = self._ray.get(promise)
        except RayTaskError as error:
            return _Event(actor, shard, error=_as_ours(error))
        except RayError as error:  # the actor, its machine or its answer is lost
            self._stillborn += starting is not None
            if self._stillborn >= _STILLBORN and not self.ready:
                raise LexbenchError(
                    f"{_STILLBORN} workers of Ray died before they could encode: {_first_line(error)}"
                ) from None
            self._forget(actor)
            return _Event(actor, gone=True)
        if asked:
            encoded, self._memory[actor] = answer
            return _Event(actor, encoded=encoded)
        if shard:
            return _Event(actor, shard, answer)
        if answer:
            raise CannotStart(answer)
        self.ready.append(actor)
        return _Event(actor)

    def _forget(self, actor: Any) -> None:
        """Kill and forget *actor*, which may come back after a broken connection."""
        self.ready = [one for one in self.ready if one != actor]
        self._encoding = {promise: (one, shard) for promise, (one, shard) in self._encoding.items() if one != actor}
        self._asked = {promise: one for promise, one in self._asked.items() if one != actor}
        self._memory.pop(actor, None)
        self._ray.kill(actor)

    def content(self, actor: Any, documents: Sequence[Document]) -> bytes:
        """Return the bytes of the shard of *documents*."""
        content: bytes = self._ray.get(actor.encode.remote(documents))
        return content

    def kills(self, corpus: Corpus, positions: range) -> bool:
        """Whether a new actor that encodes these documents dies."""
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
        """Return a line with the number of actors and their memory, as far as it is known."""
        memory = f", {sum(self._memory.values()):,.0f} MB" if self._memory else ""
        return f"workers on Ray: {len(self.ready)}{memory}"


def _folders(encoder: Any) -> dict[str, dict[str, bytes]]:
    """Return the files of the folders that the encoder's settings name, by setting and by name below the folder."""
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
    """Return the error of an actor in one line."""
    cause = error.cause
    if isinstance(cause, LexbenchError):
        return LexbenchError(str(cause))
    return LexbenchError(f"a worker of Ray failed: {type(cause).__name__}: {_first_line(cause)}")
