"""Models behind an address: requests with retries and a rate, for servers like OpenAI's, Text Embeddings Inference and vLLM.

What such a server runs cannot be pinned: it says of itself what it wants, and may change between two requests. So what it says
(`/info` of TEI, `/v1/models` of the others) is asked for once a process and stands, as a digest, in the key of all that was
made with it; where it says nothing, nothing is shared with another process. No torch.

The key of an account is read from an environment variable and sent as a bearer token; it is in no key, result, error or log.
"""

import hashlib
import http.client
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from lexbench.errors import CannotStart, CommandError, LexbenchError, shortened

T = TypeVar("T")

_WAITS = (408, 425, 429, 500, 502, 503, 504)  # answers after which the same request may succeed
_LONGEST_WAIT = 60.0  # seconds, whatever a server asks for
_LONGEST_ANSWER = 1 << 30  # bytes
_SESSION = uuid4().hex


@dataclass(frozen=True)
class Server:
    """Where a model is served, and how it may be asked."""

    url: str
    key_variable: str = ""  # the environment variable with the key; "" for none
    retries: int = 5
    timeout: float = 60.0  # seconds an answer may take
    rate: float = 0.0  # requests a second at most, of all that this process sends to the address; 0 for as many as there are

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return what the server answers to *body* as JSON, asking again where it was busy or out of reach.

        CannotStart where it cannot be reached or does not let us in, LexbenchError where it answers with anything else.
        """
        return self._ask(path, json.dumps(body).encode())

    def get(self, path: str) -> Any:
        """Return what the server answers at *path*; None where it has nothing there."""
        try:
            return self._ask(path, None)
        except _NothingThereError:
            return None

    def _ask(self, path: str, body: bytes | None) -> Any:
        address = f"{self.url.rstrip('/')}{path}"
        for attempt in range(self.retries + 1):
            _turn(self.url).wait(self.rate)
            try:
                return self._once(address, body)
            except _BusyError as busy:
                if attempt == self.retries:
                    raise CannotStart(
                        f"{address}: {busy}, {attempt + 1} times; is the server up, and not overloaded?"
                    ) from None
                time.sleep(min(busy.seconds if busy.seconds is not None else 0.5 * 2**attempt, _LONGEST_WAIT))
        raise AssertionError("the last attempt returns or raises")

    def _once(self, address: str, body: bytes | None) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.key_variable:
            if self.key_variable not in os.environ:
                raise CannotStart(f'{address} wants a key, and the environment has no {self.key_variable}; set it, or key=""')
            headers["Authorization"] = f"Bearer {os.environ[self.key_variable]}"
        request = urllib.request.Request(address, body, headers)  # noqa: S310 - the scheme is checked below
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:  # noqa: S310
                text = answer.read(_LONGEST_ANSWER + 1)
        except urllib.error.HTTPError as error:
            raise _of_status(address, error) from None
        except (OSError, http.client.HTTPException) as error:  # refused, reset, cut short, or silent for too long
            reason = getattr(error, "reason", error)
            raise _BusyError(f"{getattr(reason, 'strerror', None) or reason or type(error).__name__}") from None
        if len(text) > _LONGEST_ANSWER:
            raise LexbenchError(f"{address}: the answer has more than {_LONGEST_ANSWER:,} bytes; ask for less: batch=…")
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise LexbenchError(f"{address}: the answer is no JSON ({shortened(str(error), 80)})") from None


class _BusyError(Exception):
    """The server did not answer this time."""

    def __init__(self, reason: str, seconds: float | None = None) -> None:
        super().__init__(reason)
        self.seconds = seconds  # that it asks to wait


class _NothingThereError(LexbenchError):
    """The server has no such path."""


def _of_status(address: str, error: urllib.error.HTTPError) -> Exception:
    """Return what an answer with an error means: to ask again, or a line that says what the server says."""
    said = shortened(" ".join(error.read(2000).decode(errors="replace").split()), 200)
    if error.code in _WAITS:
        asked = error.headers.get("Retry-After", "")
        return _BusyError(f"status {error.code}", float(asked) if asked.replace(".", "", 1).isdigit() else None)
    if error.code in (401, 403):
        return CannotStart(f'{address}: status {error.code}, it does not let us in; name your key\'s variable: key="VARIABLE"')
    if error.code in (404, 405):
        return _NothingThereError(
            f"{address}: status {error.code}, there is nothing of that name; does the server have this route? {said}"
        )
    return LexbenchError(f"{address}: status {error.code}: {said or 'it says no more'}")


class _Turn:
    """Lets requests begin no faster than a rate, in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0.0

    def wait(self, rate: float) -> None:
        """Wait until the next request may begin."""
        if not rate:
            return
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._next)
            self._next = begin + 1 / rate
        time.sleep(begin - now)


@lru_cache
def _turn(_url: str) -> _Turn:
    """Return the one turn of an address: encoders and rerankers make a `Server` anew for each batch."""
    return _Turn()


def in_batches(texts: Sequence[str], batch: int, parallel: int, request: Callable[[list[str]], T]) -> list[T]:
    """Return what *request* answers to each *batch* of *texts*, in order, *parallel* of them asked at a time."""
    batches = [list(texts[at : at + batch]) for at in range(0, len(texts), batch)]
    with ThreadPoolExecutor(parallel) as pool:
        return list(pool.map(request, batches))


def remark(said: Mapping[str, str], what: str = "vectors") -> str:
    """Return the line in the results of a model whose server says *said* of itself, as `said_of_itself` has it.

    *what* is what the server was asked for: "scores".
    """
    return f"the {what} are those of a server, which cannot be pinned; it says of itself: {said['said']}"


def check_url(url: str, what: str) -> None:
    """Raise CommandError unless *url* is an address that can be asked."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise CommandError(f'{what}(url={url!r}): write url="http://localhost:8080", with no name or password in it')


def check_settings(what: str, counts: Mapping[str, int], server: Server) -> None:
    """Raise CommandError for settings of the plug-in *what* that cannot be; *counts* are those from 1 up, by name."""
    check_url(server.url, what)
    if min(counts.values()) < 1 or min(server.rate, server.retries) < 0 or server.timeout <= 0:
        raise CommandError(f"{what}: {', '.join(counts)} from 1 up, rate and retries from 0 up, timeout above 0")


@lru_cache
def said_of_itself(server: Server, model: str) -> dict[str, str]:
    """Return what *server* says that it runs, and its digest; asked once a process.

    Of OpenAI-like servers what they list of *model*; an address that says nothing gets a digest of its own in every process.
    """
    said: Any = server.get("/info")
    if said is None:
        listed = server.get("/v1/models")
        entries = listed.get("data", []) if isinstance(listed, dict) else []
        said = next((entry for entry in entries if isinstance(entry, dict) and entry.get("id") == model), None)
    if not isinstance(said, dict):
        return {"said": "nothing", "digest": hashlib.sha256(f"{_SESSION} {server.url} {model}".encode()).hexdigest()}
    lasting = {name: value for name, value in said.items() if name not in ("created", "permission")}  # the time of its start
    text = json.dumps(lasting, sort_keys=True)
    return {"said": shortened(text, 300), "digest": hashlib.sha256(text.encode()).hexdigest()}
