"""The judging page: a server on this machine that shows one document of a pool at a time and stores every grade at once.

Other web pages cannot use it: its address has a random token, requests for another host are refused (DNS rebinding), and the
page may load nothing but itself.
"""

import json
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from lexbench.collecting.collect import Collected, published
from lexbench.collecting.collection import GRADES, Collection
from lexbench.collecting.documents import read_documents
from lexbench.errors import CannotStart
from lexbench.runner.judging import grade_agreement
from lexbench.storage.store import keep_traceback
from lexbench.types import Verdict

_LONGEST = 1 << 16  # bytes of a request
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'",
}


class JudgingSession:
    """One person's judging of a collection."""

    def __init__(self, collection: Collection, name: str) -> None:
        """Read the judgements of the person *name* so far."""
        self._collection, self._answers = collection, collection.answers(name)
        self._pairs = [(query, doc) for query, docs in collection.pool.items() for doc in docs]
        wanted = {doc for _, doc in self._pairs}
        corpus = read_documents(collection.path / "corpus.jsonl")
        self._texts = {text.text_id: text._asdict() for text in corpus if text.text_id in wanted}
        if missing := wanted - self._texts.keys():
            what = f"{len(missing):,} documents of the pool, e.g. {min(missing)!r}"
            raise CannotStart(f"the documents of {collection.path} have changed: they lack {what}; collect again")
        self._lock = threading.Lock()

    def state(self) -> dict[str, Any]:
        """Return the progress and the next document without a grade; at the end the agreement with other judges."""
        with self._lock:
            given = {pair: grade for pair, grade in self._answers.grades.items() if grade is not None}
        state: dict[str, Any] = {
            "done": sum(pair in given for pair in self._pairs),
            "total": len(self._pairs),
            "scale": GRADES,
            "judge": self._answers.path.stem,
            "undo": bool(given),
        }
        left = next((pair for pair in self._pairs if pair not in given), None)
        if left is None:
            others = {name: one for name, one in self._collection.judges().items() if name != state["judge"]}
            found = {name: grade_agreement(given, one) for name, one in others.items()}
            return state | {"agreement": {name: one.line() for name, one in found.items() if one}}
        query, doc = left
        documents = self._collection.pool[query]
        place = f"document {documents.index(doc) + 1} of {len(documents)}"
        return state | {"query": query, "text": self._collection.queries[query], "document": self._texts[doc], "place": place}

    def grade(self, query: str, document: str, grade: int) -> None:
        """Store a grade. Raises ValueError for a document that is not in the pool, and for a grade that is not on the scale."""
        if (query, document) not in self._pairs or type(grade) is not int or grade not in GRADES:
            raise ValueError
        with self._lock:
            self._answers.add(query, [document], [Verdict(grade, "")])

    def undo(self) -> None:
        """Take back the last grade, if there is one."""
        with self._lock:
            given = [pair for pair, grade in self._answers.grades.items() if grade is not None]
            if given:
                self._answers.add(given[-1][0], [given[-1][1]], [Verdict(None, "")])


class JudgingPage:
    """The page of one person's judging, which is served until Ctrl-C."""

    def __init__(self, folder: Path, name: str, port: int) -> None:
        """Open the page of the collection in *folder*.

        Raises CannotStart if *port* is taken, or if a page of the same person is open.
        """
        self._collection = Collection(folder)
        self._lock = self._collection.lock(name)
        session = JudgingSession(self._collection, name)
        try:
            self._server = PageServer(session, port)
        except OSError as error:
            what = f"port {port} cannot be used: {error.strerror}"
            raise CannotStart(f"{what}; leave --port out to get a free one") from None
        self.url = self._server.url
        self.state = session.state()

    def serve(self) -> Collected:
        """Serve the page until KeyboardInterrupt. Then write the judgements as qrels, and return the collection's state."""
        with self._server, suppress(KeyboardInterrupt):
            self._server.serve_forever()
        self.close()
        return published(self._collection)

    def close(self) -> None:
        """Free the port, and let another page of the same person begin."""
        self._server.server_close()
        self._lock.release()


class PageServer(ThreadingHTTPServer):
    """Serves the page of *session* on 127.0.0.1."""

    def __init__(self, session: JudgingSession, port: int = 0) -> None:
        """Listen on *port*, 0 for a free one. Raises OSError if it is taken."""
        super().__init__(("127.0.0.1", port), _Handler)
        self.session, self.token = session, token_urlsafe(24)
        self.hosts = {f"{host}:{self.server_port}" for host in ("127.0.0.1", "localhost")}

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep the traceback of an unexpected error in the store. A client that went away is none."""
        del request, client_address
        if not isinstance(sys.exception(), ConnectionError):
            keep_traceback("judge page", traceback.format_exc())


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = 30  # seconds that a client may send nothing

    def do_GET(self) -> None:
        """Send the page, or the state as JSON."""
        if not self._is_ours():
            self._send(403)
        elif self.path == f"/{self.server.token}/":
            self._send(200, files("lexbench.collecting").joinpath("page.html").read_bytes(), "text/html")
        elif self.path == f"/{self.server.token}/state":
            self._send(200, json.dumps(self.server.session.state()).encode())
        else:
            self._send(404)

    def do_POST(self) -> None:
        """Store a grade or take one back, and send the new state as JSON."""
        session, token = self.server.session, self.server.token
        if not self._is_ours():
            self._send(403)
            return
        try:
            # Other pages cannot send JSON without asking first, and this server never allows it.
            is_json = self.headers.get_content_type() == "application/json"
            actions: dict[str, Callable[..., None]] = {f"/{token}/grade": session.grade, f"/{token}/undo": session.undo}
            action, said = actions[self.path if is_json else ""], json.loads(self._body())
        except (ValueError, KeyError, RecursionError):
            self._send(400)
            return
        try:
            action(**said)
        except (ValueError, TypeError):
            self._send(400)
        except OSError as error:  # e.g. the disk is full
            self._send(507, f"{error.strerror}; free some space, and grade this document again".encode(), "text/plain")
        else:
            self._send(200, json.dumps(session.state()).encode())

    def _body(self) -> bytes:
        """Return the body of a request. Raises ValueError if its length is not stated, or too large."""
        stated = self.headers.get("Content-Length", "")
        if not (stated.isascii() and stated.isdecimal() and int(stated) <= _LONGEST):
            raise ValueError
        return self.rfile.read(int(stated))

    def _is_ours(self) -> bool:
        """Return whether the request is for this host and comes from no other page."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        return host in self.server.hosts and origin in (None, f"http://{host}")

    def _send(self, status: int, content: bytes = b"", kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Log nothing: the address has the token."""
