"""A Ray cluster as executors use it: connected to, asked for places, and with actors that hold objects."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lexbench.errors import CannotStart
from lexbench.executors._holding import Answer, WorkerGone
from lexbench.executors._ray_worker import HoldingWorker, versions

_connections: list[str] = []  # addresses of the contexts below that are open; the last that is closed ends the connection


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Yield Ray, connected to the cluster at *address*; what was connected before stays so afterwards. CannotStart."""
    # Before Ray is imported: it prints what a cluster says, as of a machine that is gone, to stdout, where our answers go.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^")
    import ray

    if ray.is_initialized() and not _connections:  # by whoever calls lexbench
        yield ray
        return
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # of a cluster that is started here: nothing is sent to anyone
        try:
            ray.init(address or None, logging_level=logging.ERROR, log_to_driver=False, configure_logging=True)
        except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
            raise CannotStart(
                f"no Ray cluster answers at {address or 'the address in RAY_ADDRESS'} ({first_line(error)}); "
                "start one with ray start --head, or leave the address out for a new one of this machine"
            ) from None
    _connections.append(address)
    try:
        yield ray
    finally:
        _connections.remove(address)
        if not _connections:
            ray.shutdown()


def requested(ray: Any, cpus: float, gpus: float) -> dict[str, float]:
    """Return what each actor asks Ray for; fewer than 0 GPUs are one where the cluster has any."""
    return {"num_cpus": cpus, "num_gpus": gpus if gpus >= 0 else float(ray.cluster_resources().get("GPU", 0) > 0)}


def places(ray: Any, request: Mapping[str, float], wanted: int) -> int:
    """Return how many actors to start: *wanted*, or as many as there is place for, at least one."""
    total = ray.cluster_resources()
    fitting = [total.get(name, 0) // asked for name, asked in zip(("CPU", "GPU"), request.values(), strict=True) if asked]
    return wanted or max(1, int(min(fitting, default=1)))


def wait_for_place(ray: Any, placed: Sequence[Any], request: Mapping[str, float], patience: float) -> None:
    """Wait until one of the promises *placed* is kept; CannotStart, saying what there is, after *patience* seconds."""
    if ray.wait(list(placed), timeout=patience)[0]:
        return
    asked = f"{request['num_cpus']:g} CPUs and {request['num_gpus']:g} GPUs"
    total, free = (
        f"{there.get('CPU', 0):g} CPUs and {there.get('GPU', 0):g} GPUs"
        for there in (ray.cluster_resources(), ray.available_resources())
    )
    raise CannotStart(
        f"Ray placed no worker in {patience:g} s: each asks for {asked}, the cluster has {total}, {free} of them free; "
        "ask for less, as in --on 'ray(cpus=1, gpus=0)', or wait longer, as in --on 'ray(patience=900)'"
    )


class HoldingActor:
    """An actor with a holder, and the way to it."""

    def __init__(self, ray: Any, patience: float) -> None:
        self._ray = ray
        # Idle most of the time, and there as long as an index is open: as long as others encode, too.
        request = {"num_cpus": 0.0, "num_gpus": 0.0}
        self._actor = ray.remote(HoldingWorker).options(max_restarts=0, scheduling_strategy="SPREAD", **request).remote()
        wait_for_place(ray, [self._actor.differing.remote({})], request, patience)
        if wrong := self._get(self._actor.differing.remote(versions())):
            raise CannotStart(wrong)

    def ask(self, method: str, *arguments: Any) -> Answer:
        """Return what that method of the holder returns."""
        answer: Answer = self._get(self._actor.answer.remote(method, arguments))
        return answer

    def _get(self, promise: Any) -> Any:
        from ray.exceptions import RayError

        try:
            return self._ray.get(promise)
        except RayError as error:  # the actor, its machine or its answer is gone; what it raises is an answer
            raise WorkerGone(f"Ray says: {first_line(error)}") from None

    def end(self) -> None:
        """End the actor, whatever it does."""
        if self._ray.is_initialized():  # which it no longer is where the interpreter ends
            self._ray.kill(self._actor)


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return str(error).partition("\n")[0]
