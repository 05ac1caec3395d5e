"""A server that answers as OpenSearch does to what lexbench asks of it, weights rounded as Lucene rounds them."""

import json
import struct
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


def nine_bits(weight):
    """Return what Lucene's FeatureField keeps of a weight: nine significant bits, the rest cut off."""
    (bits,) = struct.unpack(">I", struct.pack(">f", weight))
    return struct.unpack(">f", struct.pack(">I", bits >> 15 << 15))[0]


class _Answers(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    indexes: dict  # by name: settings, and documents by id

    def do_GET(self):
        """Count documents."""
        name, action = self.path.strip("/").split("/")
        assert action == "_count"
        self._json(200, {"count": len(self.indexes[name][1])}) if name in self.indexes else self._json(404, {"error": "none"})

    def do_DELETE(self):
        """Remove an index."""
        gone = self.indexes.pop(self.path.strip("/"), None)
        self._json(200 if gone else 404, {})

    def do_PUT(self):
        """Make an index, or change its settings."""
        body = json.loads(self._body())
        if not self.path.endswith("/_settings"):
            self.indexes[self.path.strip("/")] = body["settings"]["index"], {}
        self._json(200, {"acknowledged": True})

    def do_POST(self):
        """Take documents, or search them."""
        content = self._body()
        lines = [json.loads(line) for line in content.splitlines()]
        if self.path == "/_msearch":
            asked = zip(lines[::2], lines[1::2], strict=True)
            return self._json(200, {"took": 0, "responses": [self._found(head["index"], request) for head, request in asked]})
        name, action = self.path.strip("/").split("/")
        if action == "_bulk":
            self.indexes[name][1].update((head["index"]["_id"], one) for head, one in zip(lines[::2], lines[1::2], strict=True))
        return self._json(200, {"errors": False})

    def _found(self, name, request):
        settings, documents = self.indexes[name]
        assert request["size"] <= settings["max_result_window"]
        assert request["sort"] == [{"_score": "desc"}, {"p": "asc"}]
        clauses = [clause["rank_feature"] for clause in request["query"]["bool"]["should"]]
        hits = []
        for one in documents.values():
            kept = {f"v.{term}": nine_bits(weight) for term, weight in one["v"].items()}
            matching = [kept[clause["field"]] * clause["boost"] for clause in clauses if clause["field"] in kept]
            if matching:
                hits.append({"sort": [sum(matching), one["p"]]})
        hits.sort(key=lambda hit: (-hit["sort"][0], hit["sort"][1]))
        return {"hits": {"hits": hits[: request["size"]]}}

    def _body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _json(self, status, value):
        content = json.dumps(value).encode()
        self.server.asked.append((self.command, self.path, dict(self.headers)))
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def running():
    """Yield a server that runs; its `url` says where, `asked` what it was asked, `indexes` what it has."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Answers", (_Answers,), {"indexes": {}}))
    server.asked, server.indexes = [], server.RequestHandlerClass.indexes
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
