"""The HTTP client of engines, probes, served models and judges. Requests and answers are JSON.

A request is repeated while the server is busy. It has a deadline, and its answer has a largest size. No redirect is followed,
so that keys and texts reach no other server. A key is sent to another machine only over TLS, unless the user allows it.
"""

import io
import json
import os
import ssl
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import partial
from http.client import HTTPResponse
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, NewConnectionError, ReadTimeoutError, SSLError

from lexbench.errors import CannotStart, CommandError, LexbenchError, one_line, shortened, visible

T = TypeVar("T")

PLAIN_VARIABLE = "LEXBENCH_PLAIN_HTTP"  # hosts that may get keys over plain http
_BUSY = (408, 425, 429, 500, 502, 503, 504)  # statuses after which the same request may succeed
MISSING = (404, 405)  # statuses of a server that has nothing of that name
_DENIED, _MOVED, _OK = (401, 403), range(300, 400), range(200, 300)
_LONGEST_WAIT = 60.0  # seconds, even if a server wants a longer wait
_FIRST_WAIT = 0.5  # seconds; it doubles each time
_LARGEST = 1 << 30  # bytes of an answer
_PIECE = 1 << 20  # bytes read at a time
_POOL = 64  # connections that are kept
_SHOWN = 200  # characters of an answer in a message


def checked_address(url: str, called: str) -> str:
    """Return *url* without a slash at its end. Raises CommandError, naming *called*, if it is malformed or has a password."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # no number as the port, half of an IPv6 address
        usable = False
    if not usable:
        raise CommandError(f'{called}: {url!r} is no address; write it like "http://localhost:8080"')
    if parts.username or parts.password:
        raise CommandError(
            f"{called}: results show the address, so write no name and no key in it; set an environment variable"
        )
    return url.rstrip("/")


def check_encrypted(url: str, variable: str) -> None:
    """Raise CannotStart if the key in *variable* would travel to another machine without TLS."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https" or _is_here(host) or host in os.environ.get(PLAIN_VARIABLE, "").split(","):
        return
    raise CannotStart(
        f"the key in {variable} would go to {host} without encryption; write https://, or allow it: {PLAIN_VARIABLE}={host}"
    )


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def no_secrets() -> Mapping[str, str]:
    """Return no headers: for servers that want no key."""
    return {}


def key_header(variable: str, form: str = "Authorization: Bearer {key}") -> Callable[[], Mapping[str, str]]:
    """Return a function that reads a key from the environment *variable* and returns its header of that *form*; "": no key."""
    name, _, value = form.partition(":")

    def header() -> Mapping[str, str]:
        if variable not in os.environ:
            raise CannotStart(f'the server wants a key, and the environment has no {variable}; set it, or key=""')
        return {name.strip(): value.strip().replace("{key}", os.environ[variable])}

    return header if variable else no_secrets


class HttpClient:
    """A server. Threads share its connections."""

    def __init__(  # noqa: PLR0913 - settings of a client, by name
        self, url: str, called: str = "", *, secrets: Callable[[], Mapping[str, str]] = no_secrets, variable: str = "",
        timeout: float = 60.0, retries: int = 5, largest: int = _LARGEST, certificates: str | None = None,
    ) -> None:  # fmt: skip
        """Check the address; nothing is sent yet. Errors call the server *called*, if anything.

        *secrets* returns headers with keys, read from the environment *variable*. A request may take *timeout* seconds, and is
        repeated up to *retries* times while the server is busy. An answer may have *largest* bytes. *certificates* is a file.
        Raises CommandError for an address that is malformed or has a password.
        """
        self.url = checked_address(url, called or "a server")
        self._called, self._secrets, self._variable = called, secrets, variable
        self._timeout, self._retries, self._largest = timeout, retries, largest
        self._answered = False  # whether it ever did
        self.repeated = 0  # requests that were sent again because the server was busy or away
        self._pools = _pools(self.url, certificates)

    def ask(
        self, method: str, path: str, body: Any = None, *, accept: Sequence[int] = (), read: Callable[[Any], T] | None = None,
        form: str = "", headers: Mapping[str, str] | None = None,
    ) -> Any:  # fmt: skip
        """Return the JSON answer, or what *read* makes of it; None if the status is one of *accept*.

        A list as *body* is sent as one line per item. Raises CannotStart if the server does not answer or denies access,
        LexbenchError for any other error, and for an answer that *read* cannot take because it has not the *form*.
        """
        status, text = self._repeated(method, path, _content(body), headers or {})
        address = self._place(path)
        if status in accept:
            return None
        try:
            answer = json.loads(text) if text else {}
        except (ValueError, RecursionError) as error:
            if status in _OK:
                raise LexbenchError(f"{address}: the answer is no JSON ({shortened(one_line(str(error)), 80)})") from None
            answer = {"error": text[:_SHOWN].decode(errors="replace")}
        if status not in _OK:
            raise _status_error(address, status, _reason(answer), self._variable)
        return answer if read is None else self.understood(answer, read, form, path)

    def understood(self, answer: Any, read: Callable[[Any], T], form: str, path: str = "") -> T:
        """Return what *read* makes of an *answer*. Raises LexbenchError if the answer has not the *form* that it takes."""
        try:
            return read(answer)
        except (TypeError, LookupError, ValueError, AttributeError, OverflowError, StopIteration):
            shown = shortened(visible(json.dumps(answer, ensure_ascii=False)), 80)
            raise LexbenchError(f"{self._place(path)}: the answer is not {form}: {shown}") from None

    def _place(self, path: str = "") -> str:
        """Return the address, for messages."""
        return f"{self._called} at {self.url}{path}" if self._called else f"{self.url}{path}"

    def _repeated(self, method: str, path: str, content: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Return the status and body of the first answer of a server that is not busy, or of the last attempt."""
        for attempt in range(self._retries + 1):
            wait: float | None = None
            try:
                status, text, wait = self._exchange(method, path, content, headers)
                problem = f"status {status}"
                if status not in _BUSY:
                    return status, text
            except (HTTPError, OSError) as error:
                problem = self._problem(error)
            if attempt < self._retries:
                self.repeated += 1
                time.sleep(min(_FIRST_WAIT * 2**attempt if wait is None else wait, _LONGEST_WAIT))
        raise CannotStart(
            f"{self._place(path)}: {problem}, {self._retries + 1} times; is the server running, and is it overloaded?"
        )

    def _exchange(self, method: str, path: str, content: bytes, headers: Mapping[str, str]) -> tuple[int, bytes, float | None]:
        """Return the status, the body and the wait that the server asks for."""
        secrets = self._secrets()
        if secrets:
            check_encrypted(self.url, self._variable)
        if not all(value.isascii() and value.isprintable() for value in secrets.values()):
            raise CannotStart(f"the key in {self._variable} has characters that a header cannot have, e.g. the end of a line")
        kind = {"Content-Type": "application/json"} if content else {}
        all_headers = {"Accept": "application/json", **kind, **headers, **secrets}
        response = self._pools.urlopen(
            method, f"{self.url}{path}", redirect=False, body=content or None, headers=all_headers, retries=False,
            timeout=urllib3.Timeout(total=self._timeout), preload_content=False,
        )  # fmt: skip
        text = bytearray()
        try:
            pieces = response.stream(_PIECE)
            while len(text) <= self._largest and (piece := next(pieces, None)) is not None:
                text += piece
        finally:
            response.close()  # a no-op after the last piece; a connection with the rest of an answer in it is of no use
        if len(text) > self._largest:
            raise LexbenchError(f"{self._place(path)}: the answer has more than {self._largest:,} bytes; ask for less")
        self._answered = True
        if response.status in _MOVED:
            goal = shortened(visible(response.headers.get("Location", "")), _SHOWN)
            raise LexbenchError(
                f"{self._place(path)}: status {response.status}: it redirects to {goal!r}; give that address instead"
            )
        return response.status, bytes(text), _wanted_wait(response.headers.get("Retry-After", ""))

    def _problem(self, error: Exception) -> str:
        """Return why there is no answer. Raises CannotStart if trying again is of no use."""
        reason: Any = error
        while isinstance(reason, HTTPError) and isinstance(
            inner := reason.__cause__ or reason.__context__, HTTPError | OSError
        ):
            reason = inner
        said = getattr(reason, "strerror", None) or one_line(str(reason)) or type(reason).__name__
        if isinstance(error, ReadTimeoutError):
            said = f"no complete answer in {self._timeout:g} s"
        if isinstance(error, SSLError):
            raise CannotStart(f"{self._place()}: TLS failed: {shortened(said, _SHOWN)}") from None
        if not self._answered and isinstance(error, NewConnectionError):
            raise CannotStart(f"{self._place()} does not answer ({shortened(said, _SHOWN)}); is it running?") from None
        return said


def _content(body: Any) -> bytes:
    """Return a request's body as JSON, a list as lines."""
    if isinstance(body, list):
        return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in body).encode()
    return b"" if body is None else json.dumps(body, separators=(",", ":")).encode()


def _wanted_wait(said: str) -> float | None:
    """Return the seconds in a Retry-After header, None if there are none: a number, or a date."""
    if said.isascii() and said.replace(".", "", 1).isdigit():
        return float(said[:9])
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _reason(answer: Any) -> str:
    """Return the message of a server's error, shortened."""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(error, dict):
        causes = error.get("root_cause") or [error]
        first = causes[0] if isinstance(causes, list) and isinstance(causes[0], dict) else error
        error = first.get("reason") or first.get("message") or error
    return shortened(visible(one_line(str(error))), _SHOWN)


def _status_error(address: str, status: int, reason: str, variable: str) -> LexbenchError:
    """Return the error for a status."""
    if status in _DENIED:
        advice = f"is the key in {variable} right?" if variable else 'name the environment variable of your key: key="VARIABLE"'
        return CannotStart(f"{address}: status {status}, access denied; {advice}")
    if status in MISSING:
        return LexbenchError(
            f"{address}: status {status}, there is nothing of that name; does the server have this route? {reason}"
        )
    return LexbenchError(f"{address}: status {status}: {reason or 'no message'}")


# ---- connections with a deadline -------------------------------------------------------------------------------------------


class _BoundedSocket(io.RawIOBase):
    """What a socket receives until a time. A limit for each read alone would let a server send a byte a minute for ever."""

    def __init__(self, raw: Any, socket: Any, seconds: float) -> None:
        super().__init__()
        self._raw, self._socket, self._end = raw, socket, time.monotonic() + seconds

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> Any:
        """Receive bytes into *buffer* and return their number. Raises TimeoutError when the time is over."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Give the socket up."""
        self._raw.close()
        super().close()


class _Response(HTTPResponse):
    """An answer, headers included, that must be complete in some *seconds*."""

    def __init__(self, seconds: float, socket: Any, *arguments: Any, **settings: Any) -> None:
        super().__init__(socket, *arguments, **settings)
        self.fp = io.BufferedReader(_BoundedSocket(self.fp.detach(), socket, seconds))


class _Connection(HTTPConnection):
    def getresponse(self) -> Any:
        self.response_class = partial(_Response, self.timeout)  # type: ignore[assignment, arg-type]
        return super().getresponse()


class _EncryptedConnection(HTTPSConnection):
    def getresponse(self) -> Any:
        self.response_class = partial(_Response, self.timeout)  # type: ignore[assignment, arg-type]
        return super().getresponse()


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _EncryptedPool(HTTPSConnectionPool):
    ConnectionCls = _EncryptedConnection


def _pools(url: str, certificates: str | None) -> urllib3.PoolManager:
    """Return the connections to *url*, through the proxy that the environment names, if any."""
    parts = urlsplit(url)
    proxy = None if urllib.request.proxy_bypass(parts.hostname or "") else urllib.request.getproxies().get(parts.scheme)
    settings: dict[str, Any] = {"maxsize": _POOL, "ssl_context": ssl.create_default_context(cafile=certificates)}
    pools = urllib3.ProxyManager(proxy, **settings) if proxy else urllib3.PoolManager(**settings)
    pools.pool_classes_by_scheme = {"http": _Pool, "https": _EncryptedPool}
    return pools
