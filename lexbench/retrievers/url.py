"""A search server of the user, asked over HTTP.

Each request is `{"queries": [{"qid": "q1", "text": "red fox"}], "k": 10}`, and its answer a list with an entry per query,
`[{"qid": "q1", "docs": [["d7", 1.5], ["d2", 0.5]]}]`, or an object `{"q1": {"d7": 1.5, "d2": 0.5}}`, both as JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from lexbench.foreign import Ask, ForeignRetriever, answers_by_query
from lexbench.models.served import ServedModel
from lexbench.registry import runtime


@dataclass(frozen=True)
class Url(ServedModel, ForeignRetriever):
    """The server at *url*, which gets *batch* queries per request.

    *key* names the environment variable with the key of an account. Requests are sent up to *retries* times again if the
    server is busy or cannot be reached; an answer may take *timeout* seconds. Name a *revision* to let later processes reuse
    its runs; without one they ask the server again.
    """

    batch: int = runtime(32)
    revision: str = ""

    made: ClassVar[str] = "ranked lists"

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

        def ask(queries: Mapping[str, str], k: int) -> dict[str, Any]:
            waiting, answers = iter(queries.items()), dict[str, Any]()
            while batch := [{"qid": query, "text": text} for query, text in islice(waiting, self.batch)]:
                answers |= answers_by_query(self.url, self.post("", {"queries": batch, "k": k}))
            return answers

        return ask
