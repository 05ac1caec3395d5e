"""A search tool for agents: a server of the Model Context Protocol (MCP), started as a program or asked over HTTP.

The protocol is JSON-RPC (https://modelcontextprotocol.io): a line per message on the standard input and output of a program,
or a POST request per message, which is answered with JSON or with events ("streamable HTTP"). Tools answer with text for a
language model, so patterns say where the ids of documents stand in it.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from urllib3 import BaseHTTPResponse

from lexbench.errors import CommandError, LexbenchError, echoed, listed, shortened, visible
from lexbench.outside.foreign import Ask, ForeignRetriever
from lexbench.outside.http_client import HttpClient, checked_address, key_header
from lexbench.outside.programs import Program
from lexbench.registry import runtime
from lexbench.retrievers.command import Command

_VERSION = "2025-06-18"  # of the protocol; the server answers with the one that it speaks
_MESSAGES = 1000  # that a server may send before an answer, e.g. about progress
_SHOWN = 200  # characters of an answer in a message
_WEB = ("http://", "https://")
_EVENT_END = re.compile(r"\r?\n\r?\n")


@dataclass(frozen=True)
class Mcp(Command):
    """The server that *program* starts, e.g. mcp("python server.py", tool="search_docs", query="q", id="Source: (.+)").

    *program* may also be the address of a running server, e.g. "https://docs.example.org/mcp". *key* then names the environment
    variable with the key of an account, which is sent as a bearer token.

    *tool* is called once per query, with its text as the argument *query*, and with the number of wanted documents as the
    argument *k* if that has a name. *id* is a pattern (a regular expression) whose group is the id of a document; a document
    that comes again, e.g. with another passage, counts once. *score* is a pattern for its score; without one, documents count
    in the order of the text. *nothing* is a pattern for the text that says that nothing was found. The other settings are those
    of `command`.
    """

    tool: str = ""
    query: str = "query"
    k: str = ""
    id: str = ""
    score: str = ""
    nothing: str = ""
    key: str = runtime("")

    elsewhere: ClassVar[str] = "a program or server"

    def __post_init__(self) -> None:
        """Raise CommandError for a missing program, tool or pattern, and for a malformed pattern or address."""
        if self._is_running:
            checked_address(self.program, "mcp")
            if self.timeout <= 0:
                raise CommandError(f"{self.called}: the timeout is a number of seconds above 0")
        else:
            super().__post_init__()
            if self.key:
                raise CommandError(f"{self.called}: key belongs to an address; a program reads its own environment")
        if not self.tool or not self.id:
            raise CommandError(f'{self.called}: name the tool and a pattern of ids, e.g. tool="search_docs", id="Source: (.+)"')
        for name, groups in (("id", 1), ("score", 1), ("nothing", 0)):
            pattern = getattr(self, name)
            try:
                found = re.compile(pattern).groups
            except re.error as error:
                raise CommandError(f"{self.called}: {name}={pattern!r} is no regular expression: {error}") from None
            if pattern and groups and found != groups:
                raise CommandError(f'{self.called}: {name}={pattern!r} needs one group in (), e.g. "Source: (.+)"')

    @property
    def called(self) -> str:
        """The expression without its other settings."""
        return f'mcp("{self.program}")'

    @property
    def _is_running(self) -> bool:
        """Whether the server is asked over HTTP."""
        return self.program.startswith(_WEB)

    def identity(self) -> Mapping[str, Any]:
        """Return the user's revision, with the files of a program; a running server cannot be identified otherwise."""
        return ForeignRetriever.identity(self) if self._is_running else super().identity()

    def asker(self) -> Ask:
        """Start the server; it is stopped when its function is no longer used. Raises LexbenchError if it has no such tool."""
        server: _Server
        if self._is_running:
            server = _Web(self.program, "mcp", secrets=key_header(self.key), variable=self.key, timeout=self.timeout)
        else:
            server = _Started(self.called, shlex.split(self.program), self.timeout, " else give more, e.g. timeout=600")
        client = {"name": "lexbench", "version": "1"}
        _call(server, "initialize", {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": client})
        server.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self._check_tool(server)
        return lambda queries, k: {query: self._found(server, text, k) for query, text in queries.items()}

    def _check_tool(self, server: "_Server") -> None:
        """Raise LexbenchError if the server lists no such tool, or if the tool has no such argument."""
        tools: dict[str, Any] = {}
        cursor: dict[str, Any] = {}
        while True:
            page = _call(server, "tools/list", cursor)
            tools |= {str(one["name"]): one.get("inputSchema", {}).get("properties", {}) for one in page.get("tools", [])}
            if not page.get("nextCursor") or page["nextCursor"] == cursor.get("cursor"):
                break
            cursor = {"cursor": page["nextCursor"]}
        if self.tool not in tools:
            raise server.error("", f"it has no tool {self.tool!r}; there is: {listed(sorted(tools), 12) or 'none'}")
        for name in filter(None, (self.query, self.k)):
            if name not in tools[self.tool]:
                raise server.error(
                    "", f"its tool {self.tool} has no argument {name!r}; there is: {listed(list(tools[self.tool]), 12)}"
                )

    def _found(self, server: "_Server", query: str, k: int) -> list[tuple[str, float]]:
        """Return ids and scores of the documents for one query."""
        about = f"query {echoed(query)}"
        asked = {self.query: query, **({self.k: k} if self.k else {})}
        answer = _call(server, "tools/call", {"name": self.tool, "arguments": asked}, about)
        parts = [one for one in answer.get("content", []) if isinstance(one, dict)]
        text = "\n".join(str(one.get("text", "")) for one in parts if one.get("type") == "text")
        shown = shortened(visible(text), _SHOWN)
        if answer.get("isError"):
            raise server.error(about, f"the tool failed: {shown}")
        ids = [one.strip() for one in re.findall(self.id, text)]
        if not ids and text.strip() and not (self.nothing and re.search(self.nothing, text)):
            raise server.error(about, f"no id like {self.id!r} in {shown!r}; if it says that nothing was found, give nothing=…")
        scores = re.findall(self.score, text) if self.score else ids
        if len(scores) != len(ids):
            raise server.error(about, f"{len(ids)} ids and {len(scores)} scores in {shown!r}")
        pairs: dict[str, float] = {}
        for name, score in zip(ids, scores, strict=True):
            try:
                pairs.setdefault(name, float(score) if self.score else -float(len(pairs)))
            except ValueError:
                raise server.error(about, f"the score {echoed(str(score))} is no number") from None
        return list(pairs.items())[:k]


def _call(server: "_Server", method: str, params: Mapping[str, Any], about: str = "") -> dict[str, Any]:
    """Return the result of a method of the server. Raises LexbenchError if it answers with an error, or not at all."""
    message = server.answer({"jsonrpc": "2.0", "id": method, "method": method, "params": params}, about)
    if not isinstance(message.get("result"), dict):
        said = message.get("error")
        reason = said.get("message", said) if isinstance(said, dict) else said
        raise server.error(about, f"{method} failed: {shortened(visible(str(reason)), _SHOWN)}")
    result: dict[str, Any] = message["result"]
    return result


def _answers(message: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Return whether a message of the server is the answer to *asked*, not e.g. one about progress."""
    return message.get("id") == asked["id"] and ("result" in message or "error" in message)


class _Server(Protocol):
    """What sends messages to a server."""

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message that has no answer."""

    def answer(self, message: Mapping[str, Any], about: str) -> dict[str, Any]:
        """Return the answer to a message. Raises LexbenchError if there is none."""

    def error(self, about: str, what: str) -> LexbenchError:
        """Return an error of the server."""


class _Started(Program):
    """A server that is a program."""

    def tell(self, message: Mapping[str, Any]) -> None:
        self.send(message)

    def answer(self, message: Mapping[str, Any], about: str) -> dict[str, Any]:
        self.send(message)
        for _ in range(_MESSAGES):
            found = self.receive('{"jsonrpc": "2.0", "id": 1, "result": {…}}', lambda answer: {**answer}, about)
            if _answers(found, message):
                return found
        raise self.error(about, f"no answer among {_MESSAGES} messages")


class _Web(HttpClient):
    """A server that is asked over HTTP. It may name a session in its first answer, which later requests belong to."""

    _session: Mapping[str, str] = {}

    def tell(self, message: Mapping[str, Any]) -> None:
        self._messages(message)

    def answer(self, message: Mapping[str, Any], about: str) -> dict[str, Any]:
        for found in self._messages(message):
            if isinstance(found, dict) and _answers(found, message):
                return found
        raise self.error(about, "no answer among its messages")

    def error(self, about: str, what: str) -> LexbenchError:
        return LexbenchError(": ".join(filter(None, (f"mcp at {self.url}", about, what))))

    def _messages(self, message: Mapping[str, Any]) -> list[Any]:
        """Return the messages in the answer to a request."""
        headers = {"Accept": "application/json, text/event-stream", **self._session}
        found = self.ask("POST", "", message, headers=headers)
        return found if isinstance(found, list) else [found]

    def _parsed(self, response: BaseHTTPResponse) -> Any:
        """Return the messages of a response: one of JSON, or one per event, whose lines of data begin with "data:"."""
        if session := response.headers.get("Mcp-Session-Id"):
            self._session = {"Mcp-Session-Id": session, "MCP-Protocol-Version": _VERSION}
        if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
            return super()._parsed(response)
        texts = _EVENT_END.split(response.data.decode())
        events = ([line[5:] for line in event.splitlines() if line.startswith("data:")] for event in texts)
        return [json.loads("\n".join(lines)) for lines in events if any(map(str.strip, lines))]
