"""A small client of OpenSearch and Elasticsearch: JSON over HTTP with keys from the environment, and errors in one line."""

import base64
import http.client
import json
import os
import ssl
import threading
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from lexbench.errors import CannotStart, CommandError, LexbenchError

VARIABLES = ("OPENSEARCH_API_KEY", "OPENSEARCH_USER", "OPENSEARCH_PASSWORD", "OPENSEARCH_CA_CERTS")
_SECONDS = 600  # for one answer
_OK = range(200, 300)
NOT_FOUND = 404


class _Forgotten:
    """A connection that is closed when nobody knows it any more."""

    def __del__(self) -> None:
        """Close it."""
        self.close()  # type: ignore[attr-defined] # of the connection that it is mixed into


class _Plain(_Forgotten, http.client.HTTPConnection): ...


class _Secured(_Forgotten, http.client.HTTPSConnection): ...


class Client:
    """A connection a thread to one server, opened anew where the server has closed it."""

    def __init__(self, url: str) -> None:
        """Take the *url* of the server, as https://search.example.org:9200, without a name or a key; nothing is sent yet."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise CommandError(f"opensearch(url={url!r}): write it like https://localhost:9200")
        if parts.username or parts.password:
            raise CommandError(f"a url of opensearch has no name and no key in it, for results show it; set {VARIABLES[0]}")
        self.url = url.rstrip("/")
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"} | _authorisation()
        self._host, self._port, self._context = parts.hostname, parts.port, None
        if parts.scheme == "https":
            self._context = ssl.create_default_context(cafile=os.environ.get(VARIABLES[3]) or None)
        self._local = threading.local()

    @property
    def _connection(self) -> http.client.HTTPConnection:
        """The connection of this thread."""
        if not hasattr(self._local, "connection"):
            if self._context:
                self._local.connection = _Secured(self._host, self._port, timeout=_SECONDS, context=self._context)
            else:
                self._local.connection = _Plain(self._host, self._port, timeout=_SECONDS)
        connection: http.client.HTTPConnection = self._local.connection
        return connection

    def ask(self, method: str, path: str, body: Any = None, *, accept: int | None = None) -> Any:
        """Return the JSON answer, None where its status is *accept*. A list as *body* is sent as one line an item.

        CannotStart where no server answers; LexbenchError for an answer that is an error.
        """
        lines: Iterable[Any] = body if isinstance(body, list) else () if body is None else [body]
        content = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
        headers = self._headers | ({"Content-Type": "application/x-ndjson"} if isinstance(body, list) else {})
        status, text = self._exchange(method, f"{self._prefix}{path}", content, headers)
        if status == accept:
            return None
        try:
            answer = json.loads(text) if text else {}
        except ValueError:
            answer = {"error": text[:200].decode(errors="replace")}
        if status not in _OK:
            raise LexbenchError(f"opensearch at {self.url}: {method} {path}: {status}: {_reason(answer)}")
        return answer

    def _exchange(self, method: str, path: str, content: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        for again in (True, False):
            try:
                self._connection.request(method, path, content or None, headers)
                response = self._connection.getresponse()
                return response.status, response.read()
            except (http.client.HTTPException, OSError) as error:
                self._connection.close()
                # A server closes what it has not heard of for long. All that is asked here can be asked twice.
                if not (again and isinstance(error, http.client.RemoteDisconnected | BrokenPipeError | ConnectionResetError)):
                    raise CannotStart(f"opensearch at {self.url} does not answer ({error}); is it running?") from None
        raise AssertionError


def _authorisation() -> dict[str, str]:
    """Return the header that says who asks, as the environment has it."""
    key, user, password = (os.environ.get(variable) for variable in VARIABLES[:3])
    if key:
        return {"Authorization": f"ApiKey {key}"}
    if user:
        return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password or ''}".encode()).decode()}
    return {}


def _reason(answer: Any) -> str:
    """Return what an error of the server says, shortened."""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(error, dict):
        causes = error.get("root_cause") or [error]
        error = causes[0].get("reason", error) if isinstance(causes[0], dict) else error
    return " ".join(str(error).split())[:200]
