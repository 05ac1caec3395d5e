"""The measurements of `lexbench probe`: exact search over the same vectors, recall of exact, and latency at an offered load."""

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.significance.bootstrap import SCORES, interval
from lexbench.datasets.digests import drawn_number
from lexbench.errors import CannotStart, CommandError
from lexbench.probing.servers import Block, Target
from lexbench.results import Latency
from lexbench.timing.stored_timings import latency

_BEYOND = 100  # documents after the k-th that may tie with it
_ROUNDING = 1e-5  # two scores that differ by less, relative to the larger one, are equal
_THREADS = 64  # queries in flight at a time
_ROUNDS = 2  # the values take turns
_KEPT_UP = 0.95  # share of the offered load; below it the server is overloaded
_SHARE = 0.25  # of what the slowest value answers one by one, if no load is given
_WORTH = 0.001  # of recall, to be named
_SEED = 42


class Exact(NamedTuple):
    """The exact answer to one query: scores by document, and the score from which a document is among the best k."""

    scores: Mapping[str, float]
    bar: float
    k: int  # fewer than asked for if there are fewer documents
    ties: bool  # whether a document beyond the k-th has its score


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What one value of the knob gives."""

    value: int | None
    recall: float  # of exact, mean over the queries
    recall_range: tuple[float, float]  # 95 % bootstrap interval
    alone: float  # seconds, the median of one query at a time
    load: Latency | None  # at the offered load, from the time when a query was due
    achieved: float  # queries per second

    def overloaded(self, offered: float) -> bool:
        """Whether the server fell behind the offered load."""
        return bool(offered) and self.achieved < _KEPT_UP * offered


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe found."""

    target: str
    knob: str
    k: int
    queries: int
    documents: int
    similarity: str
    ties: int  # queries whose k-th document ties with a later one
    offered: float  # queries per second
    points: list[Point]
    advice: str
    notes: list[str]


def sample(blocks: Iterable[Block], count: int) -> tuple[list[str], NDArray[np.float32]]:
    """Return the ids and vectors (count, dimensions) of documents drawn by their ids."""
    every = ((drawn_number(name, "probe"), name, row) for names, rows in blocks for name, row in zip(names, rows, strict=True))
    drawn = heapq.nsmallest(count, every, key=lambda one: one[:2])
    if not drawn:
        raise CannotStart("the index has no vectors")
    return [name for _, name, _ in drawn], np.stack([row for *_, row in drawn])


def exact_answers(
    blocks: Iterable[Block], queries: NDArray[np.float32], k: int, similarity: str, own: Sequence[str] | None
) -> tuple[list[Exact], int]:
    """Return the exact answer to each of *queries* (n, dimensions), and the number of documents.

    *own* are the ids of the documents that the queries are, which are left out. Memory does not grow with the documents.
    Raises CommandError if queries and documents have different dimensions.
    """
    left = _unit(queries) if similarity == "cosine" else queries
    best: list[list[tuple[float, str]]] = [[] for _ in queries]
    documents = 0
    for names, rows in blocks:
        if rows.shape[1] != left.shape[1]:
            raise CommandError(f"queries have {left.shape[1]} dimensions, documents {rows.shape[1]}")
        documents += len(names)
        scores = left @ (_unit(rows) if similarity == "cosine" else rows).T
        if similarity == "l2":
            scores = 2 * scores - (rows**2).sum(1) - (left**2).sum(1, keepdims=True)
        for row, of_query in enumerate(scores):
            top = np.argsort(-of_query)[: k + _BEYOND]
            found = [(float(of_query[at]), names[at]) for at in top if own is None or names[at] != own[row]]
            best[row] = heapq.nlargest(k + _BEYOND, [*best[row], *found])
    return [_exact(found, k) for found in best], documents


def _exact(found: Sequence[tuple[float, str]], k: int) -> Exact:
    last = found[min(k, len(found)) - 1][0] if found else 0.0
    bar = last - _ROUNDING * max(abs(last), 1e-9)
    return Exact({name: score for score, name in found}, bar, min(k, len(found)), sum(score >= bar for score, _ in found) > k)


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.maximum(lengths, np.finfo(np.float32).tiny)).astype(np.float32)


def recall(exact: Exact, found: Iterable[str]) -> float:
    """Return the share of the exact top k in *found*. Any document that ties with the k-th counts."""
    return min(sum(exact.scores.get(name, -np.inf) >= exact.bar for name in set(found)), exact.k) / max(exact.k, 1)


def offered(ask: Callable[[int], object], rate: float, seconds: float, threads: int) -> tuple[NDArray[np.int64], float]:
    """Return the latency of each query (nanoseconds) at *rate* queries per second for some *seconds*, and the achieved rate.

    Queries are due at random times (a Poisson process), however slow the answers are, and a latency counts from then on.
    """
    gaps = np.random.default_rng(_SEED).exponential(1 / rate, max(int(rate * seconds), 1))
    due = np.cumsum(gaps)
    begin = time.perf_counter()

    def one(number: int) -> float:
        ask(number)
        return time.perf_counter() - begin

    with ThreadPoolExecutor(threads) as pool:
        waiting = []
        for number, at in enumerate(due):
            time.sleep(max(0.0, at - (time.perf_counter() - begin)))
            waiting.append(pool.submit(one, number))
        ends = np.array([answer.result() for answer in waiting])
    return ((ends - due) * 1e9).astype(np.int64), rate * float(due[-1] / ends.max())


def probe(  # noqa: PLR0913 - settings of a measurement, by name
    target: Target, name: str, blocks: Callable[[], Iterator[Block]], *, queries: NDArray[np.float32] | None, count: int,
    knob: str, values: Sequence[int | None], k: int, similarity: str, load: float, seconds: float, goal: float,
) -> Probe:  # fmt: skip
    """Measure *target* for each of *values* of its *knob*; *blocks* are its documents, *queries* None for a sample of them.

    *load* is in queries per second, 0 for a quarter of what the slowest value answers one by one. *goal* is the wanted recall.
    """
    own, notes = None, []
    if queries is None:
        own, queries = sample(blocks(), count)
        notes.append("queries are vectors of documents, without themselves; real ones may be harder: give some with --queries")
    queries = queries[:count]
    exact, documents = exact_answers(blocks(), queries, k, similarity, own)
    listed = queries.tolist()

    def ask(row: int, value: int | None) -> list[str]:
        found = target.search(listed[row], k + (own is not None), {} if value is None else {knob: value})
        return [one for one in found if own is None or one != own[row]][:k]

    for row in range(min(len(listed), 20)):  # a connection, and caches of the server
        ask(row, values[-1])
    times, recalls = np.zeros((2, len(values), len(listed)))
    for row, (at, value) in product(range(len(listed)), enumerate(values)):  # the values take turns
        begin = time.perf_counter()
        found = ask(row, value)
        times[at, row] = time.perf_counter() - begin
        recalls[at, row] = recall(exact[row], found)
    alone = np.median(times, axis=1)
    if not recalls.any():
        known, said = next(iter(exact[0].scores), "none"), next(iter(ask(0, values[0])), "none")
        raise CommandError(f"no answer has a right document: the server names them like {said!r}, the vectors like {known!r}")
    rate, threads = load or _SHARE / float(alone.max()), _THREADS if target.parallel else 1
    loads: list[list[tuple[NDArray[np.int64], float]]] = [[] for _ in values]
    for _, (at, value) in product(range(_ROUNDS if seconds else 0), enumerate(values)):
        loads[at].append(offered(lambda n, v=value: ask(n % len(listed), v), rate, seconds / _ROUNDS, threads))  # type: ignore[misc]
    if seconds:
        idle = latency(offered(lambda _: None, rate, min(seconds, 1.0), threads)[0][np.newaxis])
        notes.append(f"this machine alone adds {idle.p50 * 1000:.2f} ms (p50, the same load without a search)")
    points = [
        Point(
            value=value,
            recall=float(recalls[at].mean()),
            recall_range=interval(recalls[at], unseen=SCORES),
            alone=float(alone[at]),
            load=latency(np.concatenate([taken for taken, _ in loads[at]])[np.newaxis]) if seconds else None,
            achieved=float(np.mean([speed for _, speed in loads[at]])) if seconds else 0.0,
        )
        for at, value in enumerate(values)
    ]
    return Probe(
        target=name,
        knob=knob,
        k=k,
        queries=len(listed),
        documents=documents,
        similarity=similarity,
        ties=sum(one.ties for one in exact),
        offered=rate if seconds else 0.0,
        points=points,
        advice=advise(points, knob, k, goal, rate if seconds else 0.0),
        notes=notes,
    )


def advise(points: Sequence[Point], knob: str, k: int, goal: float, rate: float) -> str:
    """Return a recommendation: the smallest value that reaches the recall *goal*."""
    kept_up = [point.value or 0 for point in points if not point.overloaded(rate)]
    steady = [point for point in points if (point.value or 0) <= max(kept_up, default=-1)]  # a larger value takes longer
    if not steady:
        return f"No value keeps up with {rate:,.0f} queries/s: offer less with --load, or add replicas."
    best = max(steady, key=lambda point: (point.recall, -point.alone))
    reached = [point for point in steady if point.recall >= goal]
    if not reached:
        what = f"No value of {knob} finds" if knob else "The index does not find"
        at = f" ({knob}={best.value})" if best.value is not None else ""
        text = f"{what} {goal:.0%} of the exact top {k}: the best is {best.recall:.1%}{at}"
        return f"{text}. Try larger values, or build the index with more neighbours."
    chosen = min(reached, key=lambda point: point.value or 0)  # times may differ by noise alone
    what = f"Set {knob} to {chosen.value}: it finds" if chosen.value is not None else "Keep the index: it finds"
    text = f"{what} {chosen.recall:.1%} of the exact top {k} in {chosen.alone * 1000:.2f} ms"
    if best.recall - chosen.recall >= _WORTH:
        text += f"; {best.value} finds {best.recall:.1%} in {best.alone * 1000:.2f} ms"
    sure = chosen.recall_range[0] >= goal
    return f"{text}." if sure else f"{text}. Its interval reaches below {goal:.0%}: to be sure, type a larger --sample."
