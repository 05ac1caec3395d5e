"""A server that answers as OpenSearch does to what lexbench asks of it, weights rounded as Lucene rounds them."""

import json
import struct
from contextlib import contextmanager

from servers import serving


def nine_bits(weight):
    """Return what Lucene's FeatureField keeps of a weight: nine significant bits, the rest cut off."""
    (bits,) = struct.unpack(">I", struct.pack(">f", weight))
    return struct.unpack(">f", struct.pack(">I", bits >> 15 << 15))[0]


class _Answers:
    """The answers of a server; *asked* gets the requests, *indexes* has settings and documents by name."""

    def __init__(self):
        self.asked, self.indexes = [], {}
        self.full = False  # whether there is room only for every third document of a request
        self.refuse = ""  # the error of every document

    def __call__(self, method, path, body, headers):
        """Answer one request."""
        self.asked.append((method, path, headers))
        name, _, action = path.strip("/").partition("/")
        if method == "GET":
            assert action == "_count"
            return (200, {"count": len(self.indexes[name][1])}, {}) if name in self.indexes else (404, {"error": "none"}, {})
        if method == "DELETE":
            return 200 if self.indexes.pop(name, None) else 404, {}, {}
        lines = [json.loads(line) for line in body.splitlines()]
        if method == "PUT" and action != "_settings":
            self.indexes[name] = lines[0]["settings"]["index"], {}
        elif name == "_msearch":
            asked = zip(lines[::2], lines[1::2], strict=True)
            return 200, {"took": 0, "responses": [self._found(head["index"], request) for head, request in asked]}, {}
        elif action == "_bulk":
            return 200, self._stored(name, zip(lines[::2], lines[1::2], strict=True)), {}
        return 200, {"acknowledged": True, "errors": False}, {}

    def _stored(self, name, documents):
        """Keep the documents for which there is room, and say what happened to each."""
        items = []
        for number, (head, one) in enumerate(documents):
            item = {"_id": head["index"]["_id"], "status": 201}
            if self.refuse:
                item |= {"status": 400, "error": {"type": self.refuse}}
            elif self.full and number % 3:
                item |= {"status": 429, "error": {"type": "es_rejected_execution_exception"}}
            else:
                self.indexes[name][1][item["_id"]] = one
            items.append({"index": item})
        return {"errors": any("error" in item["index"] for item in items), "items": items}

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


@contextmanager
def running():
    """Yield a server that runs; its `url` says where, `asked` what it was asked, `indexes` what it has."""
    answers = _Answers()
    with serving(answers) as server:
        server.answers, server.asked, server.indexes = answers, answers.asked, answers.indexes
        yield server
