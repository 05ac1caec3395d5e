"""The executor `ray`: documents go to actors on a Ray cluster, the bytes of shards come back, and this process writes them.

So the machines need no shared file system, and the shards are those of a serial run. Every machine needs the same versions of
lexbench and of the packages that encode, and the same files of models. Shards of an index need a shared file system.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lexbench.display.progress import Progress
from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.executors._workers import CalledWorker, Holder, Reply, Rerankers, WorkerGone, encode_on_workers, workers_with
from lexbench.plugins import Encoder, Executor, Reranker
from lexbench.registry import runtime
from lexbench.storage import environment
from lexbench.types import Corpus

_DECIDING = ("lexbench", "numpy", "scipy", "torch", "transformers", "tokenizers")  # packages that decide the bytes of a shard

Identities = Sequence[tuple[Encoder | Reranker, Mapping[str, Any]]]  # of models that must be the same everywhere

_connections: list[str] = []  # addresses of the open `connected` contexts; the last one to end disconnects


@dataclass(frozen=True)
class Ray(Executor):
    """Each worker is an actor with its own encoder.

    *address* is the address of the cluster. With "" it is the one in RAY_ADDRESS, or the one that runs on this machine, or a
    new one of this machine alone. *workers* is the number of actors; 0 is as many as the cluster has room for at the start.
    Each actor asks Ray for *cpus* and *gpus*; -1 GPUs is one if the cluster has any, and else none. If Ray places no actor
    within *patience* seconds, the command ends and names what was asked for and what is free; autoscaling clusters need more.
    """

    address: str = runtime("")
    workers: int = runtime(0)
    cpus: float = runtime(1.0)
    gpus: float = runtime(-1.0)
    patience: float = runtime(120.0)

    requires: ClassVar[tuple[str, ...]] = ("ray",)
    extra: ClassVar[str] = "ray"

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        if self.workers < 0 or self.cpus < 0 or self.patience <= 0:
            raise CommandError(f"{self}: workers and cpus are 0 or more, patience is more than 0")

    def encode(self, encoder: Encoder, corpus: Corpus, path: Path, shards: Sequence[range], progress: Progress) -> None:
        """Encode the *shards*; an actor that dies is replaced, and its unfinished shards go to others."""
        with _connected(self.address) as ray:
            request = _resources(ray, self.cpus, self.gpus)
            encoders = [encoder] * _places(ray, request, self.workers)
            same = [(encoder, encoder.index_identity())]
            encode_on_workers(encoders, lambda: _Actor(ray, self.patience, request, same), corpus, path, shards, progress)

    @contextmanager
    def index_workers(self, index: Any, shards: int, note: Callable[[str], None]) -> Iterator[Sequence[CalledWorker]]:
        """Start actors with copies of *index*, which use no place that encoding needs; one that dies is replaced."""
        with _connected(self.address) as ray:
            count = min(_places(ray, _resources(ray, self.cpus, 0.0), self.workers), shards)
            # It is idle most of the time and lives as long as the index is open, so it takes no place from encoders.
            request = {"num_cpus": 0.0, "num_gpus": 0.0}
            with workers_with(index, count, lambda: _Actor(ray, self.patience, request, []), note) as workers:
                yield workers

    @contextmanager
    def reranking_workers(self, rerankers: Sequence[Reranker], note: Callable[[str], None]) -> Iterator[Sequence[CalledWorker]]:
        """Start actors with the same resources as actors that encode."""
        with _connected(self.address) as ray:
            request = _resources(ray, self.cpus, self.gpus)
            same = [(one, one.identity()) for one in rerankers]
            copies, count = Rerankers(tuple(rerankers)), _places(ray, request, self.workers)
            with workers_with(copies, count, lambda: _Actor(ray, self.patience, request, same), note) as workers:
                yield workers


# ---- the cluster -----------------------------------------------------------------------------------------------------------


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Yield Ray, connected to the cluster at *address*; an existing connection stays open. Raises CannotStart."""
    # Must be set before Ray is imported, or Ray prints events of the cluster to stdout, which is for our answers.
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


def _resources(ray: Any, cpus: float, gpus: float) -> dict[str, float]:
    """Return the resources of each actor; negative *gpus* are one if the cluster has any, else none."""
    return {"num_cpus": cpus, "num_gpus": gpus if gpus >= 0 else float(ray.cluster_resources().get("GPU", 0) > 0)}


def _places(ray: Any, request: Mapping[str, float], wanted: int) -> int:
    """Return the number of actors to start: *wanted*, or else as many as there is room for, at least one."""
    total = ray.cluster_resources()
    fitting = [total.get(name, 0) // asked for name, asked in zip(("CPU", "GPU"), request.values(), strict=True) if asked]
    return wanted or max(1, int(min(fitting, default=1)))


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


class _Actor:
    """An actor with a holder, and the connection to it. Its machine must have the *same* identities of models."""

    def __init__(self, ray: Any, patience: float, request: Mapping[str, float], same: Identities) -> None:
        self._ray, self._patience, self._request, self._same = ray, patience, request, same
        self._placed = False
        self._actor = ray.remote(HoldingActor).options(max_restarts=0, scheduling_strategy="SPREAD", **request).remote()

    def ask(self, method: str, *arguments: Any) -> Reply:
        """Call a method of the holder. Raises CannotStart if no actor is placed in time, or its machine has other versions."""
        from ray.exceptions import RayError

        try:
            if not self._placed:
                self._wait_for_place()
            answer: Reply = self._ray.get(self._actor.answer.remote(method, arguments))
        except RayError as error:  # the actor, its machine or its answer is lost; errors of the object are answers
            raise WorkerGone(f"Ray says: {_first_line(error)}") from None
        return answer

    def _wait_for_place(self) -> None:
        promise = self._actor.differing.remote(_versions(), self._same)
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


# ---- in the actors ---------------------------------------------------------------------------------------------------------


class HoldingActor(Holder):
    """A holder that can compare its machine with that of the caller."""

    def differing(self, theirs: Mapping[str, str], same: Identities) -> str:
        """Return a line with the versions here that differ from *theirs*, or a model that is missing or not the same; or ""."""
        machine = f"a machine of the Ray cluster ({os.uname().nodename})"
        here = _versions()
        if wrong := [name for name, version in theirs.items() if here.get(name) != version]:
            other = ", ".join(f"{name} {here.get(name, 'missing')} and not {theirs[name]}" for name in wrong)
            return f"{machine} has {other}: install the same versions there"
        for model, identity in same:
            try:
                found = model.index_identity() if isinstance(model, Encoder) else model.identity()
            except LexbenchError as error:
                return f"{machine}: {error}"
            if found != identity:
                return f"{machine} has other files of {', '.join(model.models())}: copy ours there, to the same place"
        return ""


def _versions() -> dict[str, str]:
    """Return the versions of the packages that decide the bytes of a shard."""
    return {name: version for name, version in environment.versions(_DECIDING).items() if name in _DECIDING}
