"""What is timed and how: the scenarios, the number of queries, the passes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

STAGES = ("encode_query", "search", "e2e")
LEAST_PASSES = 5  # that are timed
MOST_PASSES = 15
ENOUGH = 2.0  # seconds of timed passes; further ones are added up to it, since short passes are the noisier
MOST_WARM_UP = 5  # passes
STEADY = 0.02  # two warm-up passes whose medians differ by less end the warm-up
SEED = 42  # of the order of queries
ONE_THREAD = 1.05  # CPU time over wall time, at most
DONE = "pass done"  # a measuring process writes after each one
SINGLE, OFFLINE = "single-stream-1t", "offline"

T = TypeVar("T")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a user asks for with `--time`."""

    k: int | None = None  # documents asked for; None: as many as the untimed run asked for
    queries: int = 1000  # at most, evenly spaced
    threads: int | None = None  # of the scenario offline; None: every core of this process
    again: bool = False  # also where this machine has timed it before


class Task(msgspec.Struct, frozen=True, kw_only=True, tag="measure"):
    """What a measuring process is told: everything that it does."""

    system: str  # in the notation of parts
    weights: list[list[float]] = []  # chosen ones, in the order of the combinations that have weights to choose
    index: str  # folder
    queries: list[tuple[str, str]]  # ids and texts
    k: int
    threads: int
    single: bool  # one query in flight, or all at once
    core: int | None = None  # to which one thread is pinned
    out: str  # folder for what it measured


class Baseline(msgspec.Struct, frozen=True, kw_only=True, tag="baseline"):
    """Instead: import *modules*, and say what memory that takes."""

    modules: list[str]
    out: str


class Calibrate(msgspec.Struct, frozen=True, kw_only=True, tag="calibrate"):
    """Instead: do the work that is the same on every machine."""

    core: int | None
    out: str


@dataclass(frozen=True)
class Scenario:
    """One way to send queries."""

    name: str
    threads: int

    @property
    def single(self) -> bool:
        """Whether there is one query in flight."""
        return self.name == SINGLE


def scenarios(settings: Settings) -> list[Scenario]:
    """Return the scenarios that are measured: one query in flight on one core, then all at once on all of them."""
    threads = settings.threads or len(cores())
    return [Scenario(SINGLE, 1), Scenario(f"{OFFLINE}-{threads}t", threads)]


def cores() -> list[int]:
    """Return the cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def sample(items: Sequence[T], most: int) -> list[T]:
    """Return *most* of *items*, evenly spaced, or all where there are no more."""
    if len(items) <= most:
        return list(items)
    return [items[number * len(items) // most] for number in range(most)]
