"""A search server of the user, asked over HTTP: in our own form, or in that of another server, which templates describe.

Without templates a request is `{"queries": [{"qid": "q1", "text": "red fox"}], "k": 10}`, and its answer a list with an entry
per query, `[{"qid": "q1", "docs": [["d7", 1.5], ["d2", 0.5]]}]`, or an object `{"q1": {"d7": 1.5, "d2": 0.5}}`, both as JSON.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

from lexbench.errors import CommandError, LexbenchError
from lexbench.models.served import ServedModel, in_batches
from lexbench.outside.foreign import Ask, ForeignRetriever, answers_by_query
from lexbench.outside.http_client import HttpClient, partial_sign
from lexbench.registry import optional, runtime
from lexbench.trec.columns import parse_score

_TEMPLATES = ("body", "documents", "id", "score")  # settings of templates
_MARKS = ("{query}", "{k}")


@dataclass(frozen=True)
class Url(ServedModel, ForeignRetriever):
    """The server at *url*, which gets *batch* queries per request.

    With {query} in *url*, or in *body* (JSON that is sent by POST), each query is a request of its own, and {query} and {k} are
    filled in. The answer is JSON: *documents* is the path to its list of documents, e.g. "hits.hits", and *id* and *score* are
    paths in each of these, e.g. "_source.id". With score="" documents count in the order of the list.

    *key* names the environment variable with the key of an account, and *header* how it is sent, e.g. "X-API-Key: {key}".
    Requests are sent up to *retries* times again if the server is busy or cannot be reached; *parallel* run at a time. An
    answer may take *timeout* seconds. Name a *revision* to let later processes reuse its runs; without one they ask again.
    """

    batch: int = runtime(32)
    parallel: int = runtime(1)
    revision: str = ""
    body: str = optional("")
    documents: str = optional("")
    id: str = optional("id")
    score: str = optional("score")

    made: ClassVar[str] = "ranked lists"
    whole_address: ClassVar[bool] = True
    counts: ClassVar[tuple[str, ...]] = ("batch", "parallel")

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings, and for settings of templates if there is no template."""
        super().__post_init__()
        if self.body:
            _parsed(self.body)
        if self._templates:
            if self.body and "{query}" not in self.body and "{query}" not in self.url:
                raise CommandError('url: write {query} where the query belongs, in the address or in body="…"')
            if any(mark in f"{urlsplit(self.url).scheme}{urlsplit(self.url).netloc}" for mark in _MARKS):
                raise CommandError("url: {query} and {k} belong behind the host")
            if not self.id:
                raise CommandError('url: id is the path to the id in each document, e.g. id="_source.id"')
            return
        defaults = {item.name: item.default for item in fields(self)}
        if stated := [name for name in _TEMPLATES if getattr(self, name) != defaults[name]]:
            raise CommandError(
                f"url: {', '.join(stated)} describe another server's form; write {{query}} in the address or in body"
            )

    @property
    def _templates(self) -> bool:
        """Whether a template describes requests."""
        return bool(self.body) or "{query}" in self.url

    @property
    def called(self) -> str:
        """The address."""
        return self.url

    def identity(self) -> dict[str, Any]:
        """Return the address with the user's revision, or with a value of this process if none is given."""
        return {**ForeignRetriever.identity(self), "url": self.url}

    def notes(self) -> list[str]:
        """Return a note that the server is unknown."""
        return [f"a server computed the {self.made}; what it runs cannot be pinned"]

    def asker(self) -> Ask:
        """Return a function that sends requests."""
        return self._ask_by_template if self._templates else self._ask_in_our_form

    def _ask_in_our_form(self, queries: Mapping[str, str], k: int) -> dict[str, Any]:
        def ask(part: list[dict[str, str]]) -> dict[str, Any]:
            answer = self.post("", {"queries": part, "k": k})
            return answers_by_query(self.url, answer, {entry["qid"] for entry in part})

        entries = [{"qid": query, "text": text} for query, text in queries.items()]
        parts = in_batches(entries, self.batch, self.parallel, ask)
        return {query: docs for answers in parts for query, docs in answers.items()}

    def _ask_by_template(self, queries: Mapping[str, str], k: int) -> dict[str, Any]:
        parts = urlsplit(self.url)
        base = f"{parts.scheme}://{parts.netloc}"
        client = self.client_of(base)
        found = in_batches(
            list(queries.values()), 1, self.parallel, lambda one: self._one(client, self.url[len(base) :], one[0], k)
        )
        return dict(zip(queries, found, strict=True))

    def _one(self, client: HttpClient, path: str, query: str, k: int) -> list[tuple[str, float]]:
        """Return the ids and scores of one query's documents."""
        path = path.replace("{query}", quote(query, safe="")).replace("{k}", str(k))
        body = _filled(_parsed(self.body), query, k) if self.body else None
        form = f"a list at {self.documents or 'its top'!r} of documents with {self.id!r}" + (
            f" and {self.score!r}" if self.score else ""
        )
        pairs: list[tuple[str, float]] = client.ask("POST" if self.body else "GET", path, body, read=self._pairs, form=form)
        return pairs[:k]

    def _pairs(self, answer: Any) -> list[tuple[str, float]]:
        """Return ids and scores. Raises TypeError, LookupError or ValueError for an answer of another form.

        Raises LexbenchError for an answer that its server calls partial.
        """
        if sign := partial_sign(answer):
            raise LexbenchError(f"{self.url}: the server says that its answer is partial: {sign}")
        listed = _at(answer, self.documents)
        if not isinstance(listed, list):
            raise TypeError
        ids = [_at(one, self.id) for one in listed]
        if any(isinstance(one, bool) or not isinstance(one, str | int) for one in ids):
            raise TypeError
        scores = [parse_score(_at(one, self.score)) if self.score else -float(rank) for rank, one in enumerate(listed)]
        return list(zip(map(str, ids), scores, strict=True))


def _parsed(text: str) -> Any:
    """Return the JSON of a template. Raises CommandError if it is none."""
    try:
        return json.loads(text.replace(": {k}", ': "{k}"').replace(":{k}", ':"{k}"'))
    except (ValueError, RecursionError) as error:
        raise CommandError(
            f'url: body is no JSON ({error}); write it like body=\'{{"q": "{{query}}", "limit": {{k}}}}\''
        ) from None


def _filled(part: Any, query: str, k: int) -> Any:
    """Return a part of a request with the query and k filled in. A text that is {k} alone becomes a number."""
    if isinstance(part, str):
        return k if part == "{k}" else part.replace("{k}", str(k)).replace("{query}", query)
    if isinstance(part, list):
        return [_filled(one, query, k) for one in part]
    return {name: _filled(one, query, k) for name, one in part.items()} if isinstance(part, dict) else part


def _at(value: Any, path: str) -> Any:
    """Return what *path* leads to in JSON, e.g. "hits.hits" or "results.0.list"; *value* itself for an empty path."""
    for name in path.split(".") if path else ():
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value
