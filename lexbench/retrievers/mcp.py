"""A search tool for agents: a program that speaks the Model Context Protocol (MCP) on its standard input and output.

The protocol is JSON-RPC, one line per message (https://modelcontextprotocol.io). Tools answer with text for a language model,
so patterns say where the ids of documents stand in it.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lexbench.errors import CommandError, LexbenchError, echoed, listed, shortened, visible
from lexbench.foreign import Ask
from lexbench.outside.programs import Program
from lexbench.registry import runtime
from lexbench.retrievers.command import Command

_VERSION = "2025-06-18"  # of the protocol; the server answers with the one that it speaks
_MESSAGES = 1000  # that a server may send before an answer, e.g. about progress
_SHOWN = 200  # characters of an answer in a message


@dataclass(frozen=True)
class Mcp(Command):
    """The server that *program* starts, e.g. mcp("python server.py", tool="search_docs", query="q", id="Source: (.+)").

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
    timeout: float = runtime(60.0)

    elsewhere: ClassVar[str] = "a program"

    def __post_init__(self) -> None:
        """Raise CommandError for a missing program, tool or pattern, and for a malformed pattern."""
        super().__post_init__()
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

    def asker(self) -> Ask:
        """Start the server; it is stopped when its function is no longer used. Raises LexbenchError if it has no such tool."""
        program = Program(self.called, shlex.split(self.program), self.timeout, " else give more, e.g. timeout=600")
        client = {"name": "lexbench", "version": "1"}
        _call(program, "initialize", {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": client})
        program.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self._check_tool(program)
        return lambda queries, k: {query: self._found(program, text, k) for query, text in queries.items()}

    def _check_tool(self, program: Program) -> None:
        """Raise LexbenchError if the server lists no such tool, or if the tool has no such argument."""
        tools: dict[str, Any] = {}
        cursor: dict[str, Any] = {}
        while True:
            page = _call(program, "tools/list", cursor)
            tools |= {str(one["name"]): one.get("inputSchema", {}).get("properties", {}) for one in page.get("tools", [])}
            if not page.get("nextCursor") or page["nextCursor"] == cursor.get("cursor"):
                break
            cursor = {"cursor": page["nextCursor"]}
        if self.tool not in tools:
            raise program.error("", f"it has no tool {self.tool!r}; there is: {listed(sorted(tools), 12) or 'none'}")
        for name in filter(None, (self.query, self.k)):
            if name not in tools[self.tool]:
                raise program.error(
                    "", f"its tool {self.tool} has no argument {name!r}; there is: {listed(list(tools[self.tool]), 12)}"
                )

    def _found(self, program: Program, query: str, k: int) -> list[tuple[str, float]]:
        """Return ids and scores of the documents for one query."""
        about = f"query {echoed(query)}"
        asked = {self.query: query, **({self.k: k} if self.k else {})}
        answer = _call(program, "tools/call", {"name": self.tool, "arguments": asked}, about)
        parts = [one for one in answer.get("content", []) if isinstance(one, dict)]
        text = "\n".join(str(one.get("text", "")) for one in parts if one.get("type") == "text")
        shown = shortened(visible(text), _SHOWN)
        if answer.get("isError"):
            raise program.error(about, f"the tool failed: {shown}")
        ids = [one.strip() for one in re.findall(self.id, text)]
        if not ids and text.strip() and not (self.nothing and re.search(self.nothing, text)):
            raise program.error(
                about, f"no id like {self.id!r} in {shown!r}; if it says that nothing was found, give nothing=…"
            )
        scores = re.findall(self.score, text) if self.score else ids
        if len(scores) != len(ids):
            raise program.error(about, f"{len(ids)} ids and {len(scores)} scores in {shown!r}")
        pairs: dict[str, float] = {}
        for name, score in zip(ids, scores, strict=True):
            try:
                pairs.setdefault(name, float(score) if self.score else -float(len(pairs)))
            except ValueError:
                raise program.error(about, f"the score {echoed(str(score))} is no number") from None
        return list(pairs.items())[:k]


def _call(program: Program, method: str, params: Mapping[str, Any], about: str = "") -> dict[str, Any]:
    """Return the result of a method of the server. Raises LexbenchError if it answers with an error, or not at all."""
    form = '{"jsonrpc": "2.0", "id": 1, "result": {…}}'
    program.send({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
    for _ in range(_MESSAGES):
        message = program.receive(form, lambda answer: {**answer}, about)
        if message.get("id") == method and ("result" in message or "error" in message):
            break
    else:
        raise program.error(about, f"no answer among {_MESSAGES} messages")
    if not isinstance(message.get("result"), dict):
        said = message.get("error")
        reason = said.get("message", said) if isinstance(said, dict) else said
        raise LexbenchError(f"{program.error(about, f'{method} failed: {shortened(visible(str(reason)), _SHOWN)}')}")
    result: dict[str, Any] = message["result"]
    return result
