"""The HTTP client of engines, probes, served models and judges. Requests and answers are JSON.

A request is repeated while the server is busy. It has a deadline, and its answer has a largest size. No redirect is followed,
so that keys and texts reach no other server. A key is sent to another machine only over TLS, unless the user allows it.
"""

import io
import json
import os
import re
import ssl
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import partial
from http.client import HTTPResponse
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, NewConnectionError, ReadTimeoutError, SSLError

from lexbench.errors import CannotStart, CommandError, LexbenchError, one_line, shortened, visible
from lexbench.storage.rows import unique_keys

T = TypeVar("T")

PLAIN_VARIABLE = "LEXBENCH_PLAIN_HTTP"  # hosts that may get keys over plain http
_BUSY = (408, 425, 429, 500, 502, 503, 504)  # statuses after which the same request may succeed
MISSING = (404, 405)  # statuses of a server that has nothing of that name
_PARTIAL = 206
_DENIED, _MOVED, _OK = (401, 403), range(300, 400), {*range(200, 300)} - {_PARTIAL}
_PARTIAL_SIGNS = (  # what servers write beside hits of which some may be missing, as paths in their answers
    ("timed_out",), ("_shards", "failed"),  # Elasticsearch and OpenSearch
    ("responseHeader", "partialResults"), ("root", "coverage", "degraded"), ("search_cutoff",),  # Solr, Vespa, Typesense
)  # fmt: skip
_LONGEST_WAIT = 60.0  # seconds, even if a server wants a longer wait
_FIRST_WAIT = 0.5  # seconds; it doubles each time
_LARGEST = 1 << 30  # bytes of an answer
_POOL = 64  # connections that are kept
_SHOWN = 200  # characters of an answer in a message
# Names of parameters in an address.
_SECRET = re.compile(r"(?:key|token|secret|password|passwd|pwd|auth|signature)$", re.IGNORECASE)


def checked_address(url: str, called: str) -> str:
    """Return *url* without a slash at its end. Raises CommandError, naming *called*, if it is malformed or has a secret."""
    try:
        parts = urlsplit(url)
        host, names = parts.netloc, [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        usable = usable and url.split() == [url] and "#" not in url
    except ValueError:  # no number as the port, half of an IPv6 address
        host, names, usable = url, [], False
    if "@" in host or any(map(_SECRET.search, names)):
        raise CommandError(
            f"{called}: results show the address, so write no name and no key in it; set an environment variable"
        )
    if not usable:
        raise CommandError(f'{called}: {url!r} is no address; write it like "http://localhost:8080"')
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
        timeout: float = 60.0, retries: int = 5, largest: int = _LARGEST, certificates: str | None = None, known: bool = False,
    ) -> None:  # fmt: skip
        """Check the address; nothing is sent yet. Errors call the server *called*, if anything.

        *secrets* returns headers with keys, read from the environment *variable*. A request may take *timeout* seconds, and is
        repeated up to *retries* times while the server is busy. An answer may have *largest* bytes. *certificates* is a file.
        Answers of *known* software are read without a look for repeated keys, which doubles the time of a long answer.
        Raises CommandError for an address that is malformed or has a password.
        """
        self.url = checked_address(url, called or "a server")
        self._called, self._secrets, self._variable = called, secrets, variable
        self._timeout, self._retries, self._largest = timeout, retries, largest
        self._hook = None if known else unique_keys
        self._answered = False  # whether it ever did
        self.repeated = 0  # requests that were sent again because the server was busy or away
        proxy = _proxy(self.url)
        self._through = f" through the proxy {proxy.netloc.rpartition('@')[2]}" if proxy else ""
        self._pools = _pools(self.url, proxy, certificates, largest)

    def ask(
        self, method: str, path: str, body: Any = None, *, accept: Sequence[int] = (), read: Callable[[Any], T] | None = None,
        form: str = "", headers: Mapping[str, str] | None = None,
    ) -> Any:  # fmt: skip
        """Return the JSON answer, or what *read* makes of it; None if the status is one of *accept*.

        A list as *body* is sent as one line per item. Raises CannotStart if the server does not answer or denies access,
        LexbenchError for any other error, and for an answer that *read* cannot take because it has not the *form*.
        """
        response = self._response(method, path, _content(body), headers or {})
        status, text, address = response.status, response.data, self._place(path)
        if status in accept:
            return None
        try:
            answer = self._parsed(response)
        except (ValueError, RecursionError) as error:
            if status in _OK:
                raise LexbenchError(f"{address}: the answer is no JSON ({shortened(one_line(str(error)), 80)})") from None
            answer = {"error": text[:_SHOWN].decode(errors="replace")}
        if status not in _OK:
            raise _status_error(address, status, _reason(answer), self._variable)
        return answer if read is None else self.understood(answer, read, form, path)

    def _parsed(self, response: urllib3.BaseHTTPResponse) -> Any:
        """Return the JSON in a response. Raises ValueError if there is none, or if it is compressed, which nobody asked for."""
        if (form := response.headers.get("Content-Encoding", "identity")) != "identity":
            raise ValueError(f"it is compressed: {visible(form)}")
        return json.loads(response.data, object_pairs_hook=self._hook) if response.data else {}

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

    def _response(self, method: str, path: str, content: bytes, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        """Return the first answer of a server that is not busy. Raises CannotStart if there is none."""
        kind = {"Content-Type": "application/json"} if content else {}
        everything = {"Accept": "application/json", **kind, **headers, **self._checked_secrets()}
        away = None if self._answered else 0  # a server that never answered is not tried again
        retries = _Retry(self._retries, other=away, allowed_methods=None, status_forcelist=_BUSY, raise_on_status=False)
        try:
            response = self._pools.urlopen(
                method, f"{self.url}{path}", redirect=False, body=content or None, headers=everything, retries=retries,
                timeout=urllib3.Timeout(total=self._timeout), decode_content=False,
            )  # fmt: skip
        except _TooLarge:
            raise LexbenchError(
                f"{self._place(path)}: the answer has more than {self._largest:,} bytes; ask for less"
            ) from None
        except (HTTPError, OSError) as error:
            raise self._unreached(error, path) from None
        self._answered = True
        self.repeated += len(response.retries.history) if response.retries else 0
        if response.status in _BUSY:
            said = ""
            with suppress(ValueError, RecursionError):
                said = f": {_reason(self._parsed(response))}" if response.data else ""
            raise self._gave_up(path, f"status {response.status}", said)
        if response.status in _MOVED:
            goal = shortened(visible(response.headers.get("Location", "")), _SHOWN)
            raise LexbenchError(
                f"{self._place(path)}: status {response.status}: it redirects to {goal!r}; give that address instead"
            )
        return response

    def _checked_secrets(self) -> Mapping[str, str]:
        """Return the headers with keys. Raises CannotStart if they may not be sent."""
        secrets = self._secrets()
        if secrets:
            check_encrypted(self.url, self._variable)
        if not all(value.isascii() and value.isprintable() for value in secrets.values()):
            raise CannotStart(f"the key in {self._variable} has characters that a header cannot have, e.g. the end of a line")
        return secrets

    def _unreached(self, error: Exception, path: str) -> CannotStart:
        """Return the error for no answer, or none in time."""
        found = getattr(error, "reason", None) or error
        cause: Any = found
        while isinstance(cause, HTTPError):
            inner = cause.__cause__ or cause.__context__ or (cause.args or (None,))[-1]
            if not isinstance(inner, HTTPError | OSError):
                break
            cause = inner
        said = shortened(getattr(cause, "strerror", None) or one_line(str(cause)) or type(cause).__name__, _SHOWN)
        if isinstance(found, SSLError):
            return CannotStart(f"{self._place()}: TLS failed: {said}")
        if not self._answered and isinstance(found, NewConnectionError):
            return CannotStart(f"{self._place()} does not answer{self._through} ({said}); is it running?")
        return self._gave_up(
            path, f"no complete answer in {self._timeout:g} s" if isinstance(found, ReadTimeoutError) else said
        )

    def _gave_up(self, path: str, problem: str, said: str = "") -> CannotStart:
        """Return the error for a server that has the same *problem* again and again; *said* is what it says of it."""
        times = f"{self._retries + 1} times"
        return CannotStart(
            f"{self._place(path)}: {problem}{self._through}, {times}{said}; is the server running, and is it overloaded?"
        )


class _Retry(urllib3.Retry):
    """Waits as long as a busy server asks, a minute at most; without a wish, twice as long each time."""

    def sleep(self, response: urllib3.BaseHTTPResponse | None = None) -> None:
        """Wait before the request is sent again."""
        wait = _wanted_wait(response.headers.get("Retry-After", "")) if response else None
        time.sleep(min(_FIRST_WAIT * 2 ** (len(self.history) - 1) if wait is None else wait, _LONGEST_WAIT))


def partial_sign(answer: Any) -> str:
    """Return by what a search server says that its *answer* is not complete, e.g. "timed_out": after a time-out; else ""."""
    for path in _PARTIAL_SIGNS:
        value = answer
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value:
            return f"{'.'.join(path)} is {shortened(visible(json.dumps(value)), _SHOWN)}"
    return ""


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


class _TooLarge(Exception):
    """An answer has more bytes than it may have."""


class _BoundedSocket(io.RawIOBase):
    """What a socket receives until a time. A limit for each read alone would let a server send a byte a minute for ever."""

    def __init__(self, raw: Any, socket: Any, seconds: float, largest: int) -> None:
        super().__init__()
        self._raw, self._socket, self._end, self._left = raw, socket, time.monotonic() + seconds, largest

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> Any:
        """Receive bytes into *buffer* and return their number. Raises TimeoutError when the time is over."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        self._socket.settimeout(seconds)
        count = self._raw.readinto(buffer)
        self._left -= count or 0
        if self._left < 0:
            raise _TooLarge
        return count

    def close(self) -> None:
        """Give the socket up."""
        self._raw.close()
        super().close()


class _Response(HTTPResponse):
    """An answer, headers included, that must be complete in some *seconds*."""

    def __init__(self, seconds: float, largest: int, socket: Any, *arguments: Any, **settings: Any) -> None:
        super().__init__(socket, *arguments, **settings)
        self.fp = io.BufferedReader(_BoundedSocket(self.fp.detach(), socket, seconds, largest))


def _proxy(url: str) -> SplitResult | None:
    """Return the proxy for *url* that the environment names, None for none. Raises CannotStart for one of another kind."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    named = "" if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(parts.scheme, "")
    try:
        proxy = urlsplit(named if "://" in named else f"http://{named}")
        usable = proxy.scheme in ("http", "https") and bool(proxy.hostname) and (proxy.port or 1) > 0
    except ValueError:
        usable = False
    if named and not usable:  # it may have a password
        raise CannotStart(
            f"the environment names a proxy for {host} that is no http://HOST:PORT; mend {parts.scheme}_proxy, or set "
            f"no_proxy={host}"
        )
    return proxy if named else None


def _pools(url: str, proxy: SplitResult | None, certificates: str | None, largest: int) -> urllib3.PoolManager:
    """Return the connections to *url*, through the *proxy*, if any."""

    class Bounded:
        def getresponse(self) -> Any:
            self.response_class = partial(_Response, self.timeout, largest)  # type: ignore[attr-defined]
            return super().getresponse()  # type: ignore[misc]

    settings: dict[str, Any] = {"maxsize": _POOL}
    if certificates or urlsplit(url).scheme == "https":  # those of the system take 30 ms to read
        settings["ssl_context"] = ssl.create_default_context(cafile=certificates)
    if proxy and "@" in proxy.netloc:
        name = unquote(proxy.netloc.rpartition("@")[0])
        settings["proxy_headers"] = urllib3.make_headers(proxy_basic_auth=name)
    pools = urllib3.ProxyManager(proxy.geturl(), **settings) if proxy else urllib3.PoolManager(**settings)
    classes: Mapping[str, Any] = pools.pool_classes_by_scheme
    pools.pool_classes_by_scheme = {
        scheme: type(pool.__name__, (pool,), {"ConnectionCls": type("Connection", (Bounded, pool.ConnectionCls), {})})
        for scheme, pool in classes.items()
    }
    return pools
