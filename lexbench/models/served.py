"""Models that a server runs: the base class of plug-ins that send requests to one, with retries.

What a server runs cannot be pinned, and may change between two requests. So its description of itself (`/info` of Text
Embeddings Inference, `/v1/models` of other servers) is read once per plug-in and process, and its digest is in the key of
everything made with it. If it describes nothing, nothing is shared with another process. The key of an account is read from an
environment variable and sent as a bearer token; it is in no key, result, error or log. Loads no torch.
"""

import hashlib
import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from lexbench.errors import CannotStart, CommandError, LexbenchError, shortened
from lexbench.plugins import Model
from lexbench.registry import runtime

T = TypeVar("T")

_RETRIED = (408, 425, 429, 500, 502, 503, 504)  # statuses after which the same request may succeed
_LONGEST_WAIT = 60.0  # seconds, even if a server wants a longer wait
_LONGEST_ANSWER = 1 << 30  # bytes
_SESSION = uuid4().hex


@dataclass(frozen=True)
class ServedModel(Model):
    """Base class of plug-ins whose model a server at *url* runs.

    *key* names the environment variable with the key of an account. Requests are sent up to *retries* times again if the server
    is busy or cannot be reached; an answer may take *timeout* seconds.
    """

    url: str = field(metadata={"runtime": True})  # `identity` describes what runs there
    _: KW_ONLY
    key: str = runtime("")
    retries: int = runtime(5)
    timeout: float = runtime(60.0)

    remote: ClassVar[bool] = True
    elsewhere: ClassVar[str] = "a server"
    version: ClassVar[int] = 1
    counts: ClassVar[tuple[str, ...]] = ("batch",)  # settings of a subclass that are whole numbers from 1 up
    made: ClassVar[str] = "vectors"  # what the server computes, in notes
    servers: ClassVar[tuple[str, ...]] = ()  # allowed values of the setting `server` of a subclass

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        name = type(self).__module__.rpartition(".")[2]
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise CommandError(f'{name}(url={self.url!r}): write url="http://localhost:8080", with no name or password in it')
        if min(getattr(self, count) for count in self.counts) < 1 or self.retries < 0 or self.timeout <= 0:
            raise CommandError(f"{name}: {', '.join(self.counts)} from 1 up, retries from 0 up, timeout above 0")
        if self.servers and (server := getattr(self, "server", "")) not in self.servers:
            raise CommandError(f"{name}(server={server!r}): there is {', '.join(self.servers)}")

    def identity(self) -> dict[str, Any]:
        """Return the server's description of itself, and its digest."""
        return dict(server_identity(self))

    def notes(self) -> list[str]:
        """Return a note with the server's description of itself."""
        said = self.identity()["said"]
        return [f"a server computed the {self.made}, and its model cannot be pinned; it describes itself as: {said}"]

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the server's answer to *body*, both as JSON. If the server is busy, the request is repeated.

        Raises CannotStart if the server cannot be reached or denies access, LexbenchError for any other answer.
        """
        return self._ask(path, json.dumps(body).encode())

    def chat(self, model: str, prompt: str, tokens: int) -> str:
        """Return the answer of a chat *model* to *prompt*, at temperature 0. Raises LexbenchError if there is none."""
        messages = [{"role": "user", "content": prompt}]
        body = {"model": model, "messages": messages, "temperature": 0, "max_tokens": tokens, "seed": 0}
        answer = self.post("/v1/chat/completions", body)
        try:
            said = answer["choices"][0]["message"]["content"]
        except (TypeError, KeyError, IndexError):
            said = None
        if not isinstance(said, str):
            raise LexbenchError(f"{self.url}: expected a chat completion, but the answer is something else")
        return said

    def get(self, path: str) -> Any:
        """Return the server's answer at *path*, None if it has nothing there. Raises the errors of `post`."""
        try:
            return self._ask(path, None)
        except _NotFoundError:
            return None

    def _ask(self, path: str, body: bytes | None) -> Any:
        address = f"{self.url.rstrip('/')}{path}"
        for attempt in range(self.retries + 1):
            try:
                return self._ask_once(address, body)
            except _BusyError as busy:
                if attempt == self.retries:
                    raise CannotStart(
                        f"{address}: {busy}, {attempt + 1} times; is the server running, and is it overloaded?"
                    ) from None
                time.sleep(min(busy.seconds if busy.seconds is not None else 0.5 * 2**attempt, _LONGEST_WAIT))
        raise AssertionError("the last attempt returns or raises")

    def _ask_once(self, address: str, body: bytes | None) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.key:
            if self.key not in os.environ:
                raise CannotStart(f'{address} wants a key, and the environment has no {self.key}; set it, or key=""')
            headers["Authorization"] = f"Bearer {os.environ[self.key]}"
        request = urllib.request.Request(address, body, headers)  # noqa: S310 - the scheme is checked above
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:  # noqa: S310
                text = answer.read(_LONGEST_ANSWER + 1)
        except urllib.error.HTTPError as error:
            raise _status_error(address, error) from None
        except (OSError, http.client.HTTPException) as error:  # refused, reset, cut short, or no answer in time
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
        self.seconds = seconds  # the wait that it requests


class _NotFoundError(LexbenchError):
    """The server has no such path."""


def _status_error(address: str, error: urllib.error.HTTPError) -> Exception:
    """Return the error for a status: _BusyError if the same request may succeed later."""
    said = shortened(" ".join(error.read(2000).decode(errors="replace").split()), 200)
    if error.code in _RETRIED:
        asked = error.headers.get("Retry-After", "")
        return _BusyError(f"status {error.code}", float(asked) if asked.replace(".", "", 1).isdigit() else None)
    if error.code in (401, 403):
        return CannotStart(f'{address}: status {error.code}, access denied; name the variable of your key: key="VARIABLE"')
    if error.code in (404, 405):
        return _NotFoundError(
            f"{address}: status {error.code}, there is nothing of that name; does the server have this route? {said}"
        )
    return LexbenchError(f"{address}: status {error.code}: {said or 'no message'}")


def in_batches(texts: Sequence[str], batch: int, parallel: int, request: Callable[[list[str]], T]) -> list[T]:
    """Return the answers of *request* to *texts* in batches of *batch*, in order; *parallel* requests run at a time."""
    batches = [list(texts[at : at + batch]) for at in range(0, len(texts), batch)]
    with ThreadPoolExecutor(parallel) as pool:
        return list(pool.map(request, batches))


@lru_cache  # once per process
def server_identity(served: ServedModel) -> Mapping[str, str]:
    """Return how the server describes itself ("said"), and the digest of that.

    For OpenAI-like servers it is their entry for the model. Without a description the digest differs in every process.
    """
    model = getattr(served, "model", "")
    said: Any = served.get("/info")
    if said is None:
        listed = served.get("/v1/models")
        entries = listed.get("data", []) if isinstance(listed, dict) else []
        said = next((entry for entry in entries if isinstance(entry, dict) and entry.get("id") == model), None)
    if not isinstance(said, dict):
        return {"said": "nothing", "digest": hashlib.sha256(f"{_SESSION} {served.url} {model}".encode()).hexdigest()}
    lasting = {name: value for name, value in said.items() if name not in ("created", "permission")}  # they change at its start
    text = json.dumps(lasting, sort_keys=True)
    return {"said": shortened(text, 300), "digest": hashlib.sha256(text.encode()).hexdigest()}
