"""Kill, fill, cut, delay and overload servers while lexbench uses them, and count the outcomes.

    python tests/robustness/server_campaign.py --trials 10

Each trial builds an index on a server and searches it. The table counts trials that

    continued     went on through the fault, and all documents and scores are right
    one line      ended with one line; given again with a healthy server, the same work has the right documents and scores
    wrong         had another document or score, a traceback, or no end: must be 0

PostgreSQL with pgvector and Milvus are real servers, started here. OpenSearch and plain HTTP meet servers of our own, which
refuse, drop, cut and delay requests at random.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import postgres
import rank_feature_server
import servers
from scipy import sparse

from lexbench.engines import pgvector
from lexbench.engines.milvus import Milvus
from lexbench.engines.opensearch import OpenSearch
from lexbench.engines.pgvector import Pgvector
from lexbench.errors import LexbenchError
from lexbench.outside import http_client
from lexbench.outside.http_client import HttpClient

_DOCUMENTS, _DIMENSIONS, _QUERIES, _K, _SHARDS = 6000, 32, 100, 10, 6
_PATIENCE = 120  # seconds until a trial counts as a hang
_STEPS = ("load", "build", "search")


def _no_step(_: str) -> None:
    """Do nothing in any step."""


class Fault(NamedTuple):
    """An engine on a server that will fail."""

    engine: Any
    on_step: Callable[[str], None] = _no_step
    heal: Callable[[], None] = lambda: None  # makes the server healthy


Kind = Callable[[random.Random], AbstractContextManager[Fault]]


class Dense:
    """The work of a trial: dense vectors."""

    def __init__(self, chance: random.Random, documents: int = _DOCUMENTS, dimensions: int = _DIMENSIONS) -> None:
        rng = np.random.default_rng(chance.randrange(1 << 30))
        self.documents, self.queries = (
            rng.normal(size=(rows, dimensions)).astype(np.float32) for rows in (documents, _QUERIES)
        )

    def __call__(self, fault: Fault, folder: Path) -> None:
        """Build an index and search it. Raises AssertionError for a wrong document or score."""

        def shards() -> Iterator[Any]:
            size = -(-self.documents.shape[0] // _SHARDS)
            for start in range(0, self.documents.shape[0], size):
                if start == size:
                    fault.on_step("load")
                yield self.documents[start : start + size]
            fault.on_step("build")

        fault.engine.build(shards(), folder)
        index = fault.engine.open(folder)
        fault.on_step("search")
        hits, products = index.search(self.queries, _K), self.products()
        np.testing.assert_allclose(hits.scores, np.take_along_axis(products, hits.docs, axis=1), rtol=1e-4, atol=1e-4)
        best = -np.sort(-products, axis=1)[:, :_K]
        assert np.isclose(hits.scores, best, rtol=1e-4, atol=1e-4).mean() >= (1 if fault.engine.exact else 0.95)

    def products(self) -> Any:
        """Return the right score of every document for every query."""
        return self.queries @ self.documents.T


class Sparse(Dense):
    """Sparse vectors. Weights are whole numbers, which OpenSearch does not round."""

    def __init__(self, chance: random.Random) -> None:
        rng = np.random.default_rng(chance.randrange(1 << 30))
        rows = [rng.integers(0, 9, size=(count, 20)) * (rng.random((count, 20)) < 0.5) for count in (300, 20)]
        rows[0][:, 0] = 1  # every document has a term of every query
        rows[1][:, 0] = 1
        self.documents, self.queries = (sparse.csr_array(one.astype(np.float32)) for one in rows)

    def products(self) -> Any:
        """Return the right score of every document for every query."""
        return super().products().toarray()


class Requests(Dense):
    """Eight threads that send requests, each of which has its own right answer."""

    def __init__(self, _: random.Random) -> None:
        """Need nothing."""

    def __call__(self, fault: Fault, _: Path) -> None:
        """Send the requests. Raises AssertionError for a wrong answer, or the first error of a request."""
        found: dict[int, Any] = {}
        errors: list[Exception] = []

        def ask(first: int) -> None:
            try:
                for number in range(first, 80, 8):
                    found[number] = fault.engine.ask("POST", "/", {"n": number}, read=lambda one: one["n"], form="a number")
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)

        threads = [threading.Thread(target=ask, args=(first,)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(number == answer for number, answer in found.items())
        if errors:
            raise errors[0]
        assert len(found) == 80


# ---- faults ----------------------------------------------------------------------------------------------------------------


def killed(server: Any, engine: Any, moment: str, after: float, away: float) -> AbstractContextManager[Fault]:
    """Kill *server* some seconds *after* the start of a step, and start it again *away* seconds later, or when it is healed."""

    @contextmanager
    def made(_: random.Random) -> Iterator[Fault]:
        healed, threads = threading.Event(), list[threading.Thread]()

        def kill() -> None:
            time.sleep(after)
            server.kill()
            healed.wait(away)
            server.start()

        def on_step(step: str) -> None:
            if step == moment and not threads:
                threads.append(threading.Thread(target=kill))
                threads[0].start()

        def heal() -> None:
            healed.set()
            for thread in threads:
                thread.join()

        yield Fault(engine, on_step, heal)
        heal()

    return made(random.Random())


def kills(server: Any, moment: str, index: str) -> Kind:
    """Kill PostgreSQL in a step. Once in three trials it stays away until the work is given again."""
    settings = {"ef_search": 1000} if index == "hnsw" else {}

    def kind(chance: random.Random) -> AbstractContextManager[Fault]:
        away = chance.choice([0.1, 1.0, _PATIENCE])
        return killed(server, Pgvector(server.url, index=index, **settings), moment, chance.uniform(0, 0.15), away)

    return kind


def milvus_kills(server: "MilvusServer", moment: str) -> Kind:
    """Kill Milvus in a step."""
    return lambda chance: killed(server, Milvus(server.url), moment, chance.uniform(0, 0.3), chance.choice([0.1, 1.0]))


@contextmanager
def full_disk(chance: random.Random) -> Iterator[Fault]:
    """Give PostgreSQL a disk with room for its own files, and for a part of the vectors or none."""
    with postgres.running(disk=f"{chance.randrange(70, 170)}m") as server:

        def heal() -> None:
            server.mount("600m", "remount")
            server.answering()

        yield Fault(Pgvector(server.url), heal=heal)


def cut_network(server: Any) -> Kind:
    """Delay all bytes, and cut the first connections after a number of bytes."""

    @contextmanager
    def kind(chance: random.Random) -> Iterator[Fault]:
        bytes_, times, delay = int(10 ** chance.uniform(2, 6)), chance.randrange(1, 9), chance.choice([0, 0.001])
        healed = threading.Event()
        with postgres.proxy(server.port, bytes_, times, delay, healed) as port:
            yield Fault(Pgvector(server.url.replace(str(server.port), str(port))), heal=healed.set)

    return kind


def killed_client(server: Any) -> Kind:
    """Kill a process that builds the same index, before the work begins."""

    @contextmanager
    def kind(chance: random.Random) -> Iterator[Fault]:
        def on_step(step: str) -> None:
            """Do nothing: the first client died before."""

        yield Fault(_AfterDeath(Pgvector(server.url), chance.uniform(0.02, 0.4)), on_step)

    return kind


class _AfterDeath:
    """An engine whose first build is killed in a process of its own."""

    def __init__(self, engine: Any, after: float) -> None:
        self.engine, self.after, self.exact, self.open = engine, after, engine.exact, engine.open

    def build(self, shards: Any, folder: Path) -> None:
        """Build twice: in a child that is killed, and here."""
        parts = list(shards)
        if not (child := os.fork()):
            with suppress(BaseException):
                self.engine.build(iter(parts), folder)
            os._exit(0)
        time.sleep(self.after)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.engine.build(iter(parts), folder)


def several_clients(server: Any) -> Kind:
    """Let two more clients build the same index at the same time."""

    @contextmanager
    def kind(_: random.Random) -> Iterator[Fault]:
        yield Fault(_Crowd(Pgvector(server.url)))

    return kind


class _Crowd:
    """An engine of which three clients build the same index at once."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.exact, self.open = engine, engine.exact, engine.open

    def build(self, shards: Any, folder: Path) -> None:
        """Build in three threads. Raises the first error."""
        parts, errors = list(shards), list[Exception]()

        def act() -> None:
            try:
                self.engine.build(iter(parts), folder)
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)

        threads = [threading.Thread(target=act) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]


def _unreliable(honest: Any, chance: random.Random, share: float, healed: threading.Event) -> Any:
    """Return a handler class that fails a *share* of the requests: refused, dropped, cut short, or late."""

    class Unreliable(honest):  # type: ignore[misc]
        def serve(self) -> None:
            if healed.is_set() or chance.random() > share:
                return super().serve()
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fault = chance.choice(["429", "503", "408", "drop", "cut", "late"])
            if fault == "late":
                time.sleep(0.5)
            self.close_connection = fault in {"drop", "cut", "late"}
            if fault == "drop":
                return None
            self.send_response(int(fault) if fault.isdigit() else 200)
            if fault.isdigit() and chance.random() < 0.7:
                self.send_header("Retry-After", chance.choice(["0", "0.05", "Thu, 01 Jan 1970 00:00:00 GMT"]))
            self.send_header("Content-Length", "0" if fault.isdigit() else "400")
            with suppress(OSError):  # the client may not have waited
                self.end_headers()
                self.wfile.write(b"" if fault.isdigit() else b'{"n": ')
            return None

        do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = serve  # noqa: N815 - the names that http.server calls

    return Unreliable


@contextmanager
def unreliable_opensearch(chance: random.Random) -> Iterator[Fault]:
    """Fail up to half of the requests of the engine `opensearch`."""
    healed = threading.Event()
    with rank_feature_server.running() as server:
        server.RequestHandlerClass = _unreliable(server.RequestHandlerClass, chance, chance.uniform(0.1, 0.5), healed)
        yield Fault(OpenSearch(server.url), heal=healed.set)


@contextmanager
def unreliable_http(chance: random.Random) -> Iterator[Fault]:
    """Fail up to two thirds of the requests of the HTTP client, which models, judges and `url` use as well."""
    healed = threading.Event()
    with servers.serving(lambda _method, _path, body, _headers: (200, json.loads(body), {})) as server:
        server.RequestHandlerClass = _unreliable(server.RequestHandlerClass, chance, chance.uniform(0.1, 0.66), healed)
        yield Fault(HttpClient(server.url, timeout=0.3), heal=healed.set)


class MilvusServer:
    """The server of milvus-lite, which can be killed and started again with its data."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.port = folder, servers.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Start the server and wait until it listens."""
        self._opened = servers.started(servers.milvus_words(self._folder / "data", self.port), self.port, self._folder / "log")
        self._process = self._opened.__enter__()

    def kill(self) -> None:
        """Kill the server."""
        self._process.kill()
        self._opened.__exit__(None, None, None)


# ---- counting --------------------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """One line of the table."""

    kind: str
    trials: int = 0
    continued: int = 0
    one_line: int = 0
    wrong: int = 0

    def __str__(self) -> str:
        return f"| {self.kind} | {self.trials} | {self.continued} | {self.one_line} | {self.wrong} |"


def _outcome(work: Callable[[], None]) -> BaseException | None:
    """Return the error in which *work* ends, if any."""
    said: list[BaseException] = []

    def act() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - counted
            said.append(error)

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return TimeoutError("no end") if thread.is_alive() else said[0] if said else None


def counted(name: str, kind: Kind, trials: int, seed: int, place: Path, made: Any = Dense) -> Row:
    """Return the outcomes of *trials* trials of one kind."""
    row = Row(name)
    for number in range(trials):
        chance = random.Random(f"{seed} {name} {number}")
        work, folder = made(chance), Path(tempfile.mkdtemp(dir=place))
        with kind(chance) as fault:
            error = _outcome(lambda work=work, fault=fault, folder=folder: work(fault, folder))
            why = ""
            if isinstance(error, LexbenchError) and "\n" not in str(error):
                fault.heal()
                calm = fault._replace(on_step=_no_step)
                again = _outcome(lambda work=work, calm=calm, folder=folder: work(calm, folder))
                why = f"again, after {error}: {again!r}" if again else ""
                row.one_line += not why
            else:
                why = repr(error) if error else ""
                row.continued += not why
        row.trials += 1
        row.wrong += bool(why)
        if why:
            print(f"{name}: WRONG: {why}", file=sys.stderr, flush=True)
    return row


def rows(trials: int, seed: int, only: str, place: Path) -> Iterator[Row]:
    """Yield the outcomes of each kind whose name has *only* in it."""

    def row(name: str, kind: Kind, share: float = 1, made: Any = Dense) -> Iterator[Row]:
        if only in name:
            yield counted(name, kind, max(1, round(trials * share)), seed, place, made)

    with postgres.running() as server:
        for moment in _STEPS:
            for index in ("exact", "hnsw"):
                yield from row(f"kill -9 of PostgreSQL, {moment}, {index}", kills(server, moment, index))
        yield from row("connections cut and slow", cut_network(server))
        yield from row("client killed while it builds", killed_client(server))
        yield from row("three clients build one index", several_clients(server), 0.5)
    yield from row("disk of PostgreSQL full", full_disk, 0.3, lambda chance: Dense(chance, 20_000, 800))
    if "Milvus" in only or not only:
        opened = MilvusServer(place)
        for moment in _STEPS:
            yield from row(f"kill -9 of Milvus, {moment}", milvus_kills(opened, moment), 0.5)
        opened.kill()
    yield from row("OpenSearch: 408, 429, 503, dropped, cut, late", unreliable_opensearch, made=Sparse)
    yield from row("HTTP: 408, 429, 503, dropped, cut, late", unreliable_http, made=Requests)


def main() -> None:
    """Print the table; exit with 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10, help="of each kind; fewer of the slow ones")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only kinds whose names contain this, e.g. Milvus")
    given = parser.parse_args()
    print("| kind | trials | continued | one line, then right | wrong |\n|:--|--:|--:|--:|--:|", flush=True)
    total = Row("all")
    pgvector._WAITS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # a fifth of the usual waits
    http_client._FIRST_WAIT = 0.1
    with tempfile.TemporaryDirectory() as place:
        for row in rows(given.trials, given.seed, given.only, Path(place)):
            print(row, flush=True)
            for name in ("trials", "continued", "one_line", "wrong"):
                setattr(total, name, getattr(total, name) + getattr(row, name))
    print(total)
    sys.exit(total.wrong > 0)


if __name__ == "__main__":
    main()
