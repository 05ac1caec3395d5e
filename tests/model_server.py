"""A small server of models on this machine: dense, sparse and reranking routes, whose answers follow from the texts alone."""

import hashlib
import json
from contextlib import ExitStack

from servers import serving

WIDTH, VOCABULARY = 8, 64


def numbers(text, seed=0):
    """Return WIDTH numbers from 0 to 1 that depend on *text* and *seed*."""
    digest = hashlib.sha256(f"{seed} {text[:100]}".encode()).digest()
    return [byte / 255 for byte in digest[:WIDTH]]


class ModelServer:
    """Serves until it is closed. *fail*: errors that come first; *mute*: no description; *info*: the description of TEI."""

    def __init__(self, seed=0, *, fail=(), mute=False, info=False, key=""):
        self.requests = []  # (path, headers, body)
        self.fail, self.mute, self.info, self.key, self.seed = list(fail), mute, info, key, seed
        self.broken = None  # what is answered in place of vectors
        self._running = ExitStack()
        self.close = self._running.close
        self.url = self._running.enter_context(serving(self._asked)).url

    def _asked(self, _method, path, body, headers):
        """Note a request and return its answer."""
        self.requests.append((path, headers, json.loads(body) if body else None))
        status, content = self.answer(path, self.requests[-1][2])
        return status, content, {"Retry-After": "0.01"} if status == 429 else {}

    def answer(self, path, body):  # noqa: C901, PLR0911 - one answer per route
        """Return the status and the answer to a request."""
        if self.key and self.requests[-1][1].get("Authorization") != f"Bearer {self.key}":
            return 401, {"error": "who are you?"}
        if body is None:
            if path == "/info" and self.info:
                return 200, {"model_id": f"model-{self.seed}", "model_sha": None}
            if path == "/v1/models" and not self.mute:
                return 200, {"data": [{"id": "m", "created": len(self.requests), "root": f"model-{self.seed}"}]}
            return 404, {"error": "not found"}
        if self.fail:
            return self.fail.pop(0), {"error": "busy"}
        if self.broken is not None:
            return 200, self.broken
        if path == "/v1/embeddings":
            rows = [{"index": at, "embedding": numbers(text, self.seed)} for at, text in enumerate(body["input"])]
            return 200, {"data": rows[::-1]}  # in another order than the texts
        if path == "/embed":
            return 200, [numbers(text, self.seed) for text in body["inputs"]]
        if path == "/embed_sparse":
            return 200, [
                [
                    {"index": (at * 7 + 1) % VOCABULARY, "value": value + 0.1}
                    for at, value in enumerate(numbers(text, self.seed))
                ]
                for text in body["inputs"]
            ]
        if path == "/v1/chat/completions":
            asked = body["messages"][0]["content"]
            query, passage = asked.split("Query: ")[1].split("\n\nPassage: ")
            common = set(query.split()) & set(passage.split("\n\nWhat stands")[0].split())
            said = "I cannot say." if "riddle" in passage else f"##final score: {min(3, len(common))}"
            return 200, {"choices": [{"message": {"role": "assistant", "content": said}}]}
        if path == "/rerank":
            texts = body.get("documents", body.get("texts"))
            scores = [numbers(body["query"] + text, self.seed)[0] for text in texts]
            order = sorted(range(len(texts)), key=lambda at: -scores[at])  # best first, as servers do
            if "texts" in body:
                return 200, [{"index": at, "score": scores[at]} for at in order]
            return 200, {"results": [{"index": at, "relevance_score": scores[at]} for at in order]}
        return 404, {"error": "not found"}
