"""The executor `ray`: documents go to actors on a Ray cluster, the bytes of shards come back, and this process writes them.

So the machines need no shared file system, and the shards are those of a serial run. Every machine needs the same versions of
lexbench and of the packages that encode; the folder of a model is sent to machines that lack it.
"""

import atexit
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar

from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.executors._workers import (
    Answer,
    HeldModel,
    Holder,
    WorkerGone,
    answered,
    encode_on_workers,
    holding,
    holding_rerankers,
)
from lexbench.plugins import Encoder, Executor, Held, Holdable, Reranker
from lexbench.progress import Progress
from lexbench.registry import runtime
from lexbench.storage import environment
from lexbench.types import Corpus

_SENT = (".json", ".metadata", ".model", ".safetensors", ".txt", "pytorch_model.bin")  # endings of the files of a model
_DECIDING = ("lexbench", "numpy", "scipy", "torch", "transformers", "tokenizers")  # packages that decide the bytes of a shard

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
            request = _request(ray, self.cpus, self.gpus)
            things = [_sent(ray, encoder)] * _places(ray, request, self.workers)
            encode_on_workers(things, lambda: _Actor(ray, self.patience, request), corpus, path, shards, progress)

    @contextmanager
    def hold(self, things: Sequence[Holdable], note: Callable[[str], None]) -> Iterator[Sequence[Held]]:
        """Hold the objects in actors, which use no place that encoding needs; one that dies is replaced."""
        with _connected(self.address) as ray:
            count = _places(ray, _request(ray, self.cpus, 0.0), self.workers)
            # A holder is idle most of the time and lives as long as an index is open, so it takes no place from encoders.
            request = {"num_cpus": 0.0, "num_gpus": 0.0}
            with holding(things, count, lambda: _Actor(ray, self.patience, request), note) as held:
                yield held

    @contextmanager
    def hold_rerankers(self, rerankers: Sequence[Reranker], note: Callable[[str], None]) -> Iterator[Sequence[Sequence[Held]]]:
        """Hold the rerankers in actors like those that encode."""
        with _connected(self.address) as ray:
            request = _request(ray, self.cpus, self.gpus)
            recipes, count = [_sent(ray, one) for one in rerankers], _places(ray, request, self.workers)
            with holding_rerankers(recipes, count, lambda: _Actor(ray, self.patience, request), note) as held:
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


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


class _Actor:
    """An actor with a holder, and the connection to it."""

    def __init__(self, ray: Any, patience: float, request: Mapping[str, float]) -> None:
        self._ray, self._patience, self._request = ray, patience, request
        self._placed = False
        self._actor = ray.remote(HoldingActor).options(max_restarts=0, scheduling_strategy="SPREAD", **request).remote()

    def ask(self, method: str, *arguments: Any) -> Answer:
        """Call a method of the holder. Raises CannotStart if no actor is placed in time, or its machine has other versions."""
        from ray.exceptions import RayError

        try:
            if not self._placed:
                self._wait_for_place()
            answer: Answer = self._ray.get(self._actor.answer.remote(method, arguments))
        except RayError as error:  # the actor, its machine or its answer is lost; errors of the object are answers
            raise WorkerGone(f"Ray says: {_first_line(error)}") from None
        return answer

    def _wait_for_place(self) -> None:
        promise = self._actor.differing.remote(_versions())
        if not self._ray.wait([promise], timeout=self._patience)[0]:
            asked = f"{self._request['num_cpus']:g} CPUs and {self._request['num_gpus']:g} GPUs"
            total, free = (
                f"{there.get('CPU', 0):g} CPUs and {there.get('GPU', 0):g} GPUs"
                for there in (self._ray.cluster_resources(), self._ray.available_resources())
            )
            raise CannotStart(
                f"Ray placed no worker in {self._patience:g} s: each asks for {asked}, the cluster has {total}, {free} of them "
                "free; ask for less, e.g. --on 'ray(cpus=1, gpus=0)', or wait longer, e.g. --on 'ray(patience=900)'"
            )
        if wrong := self._ray.get(promise):
            raise CannotStart(wrong)
        self._placed = True

    def end(self) -> None:
        """End the actor, even if it is busy."""
        if self._ray.is_initialized():  # not at the end of the interpreter
            self._ray.kill(self._actor)


def _sent(ray: Any, model: Encoder | Reranker) -> "SentModel":
    """Return the recipe of a model. Ray keeps its identity and the files of its folders once for all machines."""
    folders = {
        setting: {
            file.relative_to(folder).as_posix(): file.read_bytes()
            for file in sorted(folder.rglob("*"))
            if file.is_file() and file.name.endswith(_SENT)
        }
        for setting, folder in model.document_folders().items()
    }
    return SentModel(ray.put((model, HeldModel(model).identity, folders)))


# ---- in the actors ---------------------------------------------------------------------------------------------------------


class HoldingActor:
    """An actor that holds objects."""

    def __init__(self) -> None:
        self._holder = Holder()

    def differing(self, theirs: Mapping[str, str]) -> str:
        """Return a line with the versions here that differ from *theirs*; "" if none does."""
        here = _versions()
        if wrong := [name for name, version in theirs.items() if here.get(name) != version]:
            other = ", ".join(f"{name} {here.get(name, 'missing')} and not {theirs[name]}" for name in wrong)
            return f"a machine of the Ray cluster ({os.uname().nodename}) has {other}: install the same versions there"
        return ""

    def answer(self, method: str, arguments: tuple[Any, ...]) -> Answer:
        """Call a method of the holder."""
        return answered(self._holder, method, arguments)


def _versions() -> dict[str, str]:
    """Return the versions of the packages that decide the bytes of a shard."""
    return {name: version for name, version in environment.versions(_DECIDING).items() if name in _DECIDING}


@dataclass(frozen=True)
class SentModel(Holdable):
    """The recipe of an encoder or reranker in an actor."""

    content: Any  # Ray's reference to the model, its identity, and the files of its folders

    def make(self) -> Any:
        """Return the object to hold, with its files on this machine if they are the same, or else with those that were sent."""
        import ray

        try:
            return HeldModel(_with_files(*ray.get(self.content))).make()
        except LexbenchError as error:
            raise LexbenchError(f"a machine of the Ray cluster ({os.uname().nodename}): {error}") from None


def _with_files(model: Any, identity: Any, folders: Mapping[str, Mapping[str, bytes]]) -> Encoder | Reranker:
    try:
        if HeldModel(model).identity == identity:
            return model  # type: ignore[no-any-return]
    except LexbenchError:  # this machine lacks them
        if not folders:
            raise
    root = Path(mkdtemp(prefix="lexbench-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for setting, files in folders.items():
        for name, content in files.items():
            file = root / setting / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    sent = model.with_document_folders({setting: root / setting for setting in folders}) if folders else model
    if HeldModel(sent).identity != identity:
        raise LexbenchError("the files of the model differ from those that were sent; copy them there, to the same place")
    return sent  # type: ignore[no-any-return]
