"""What retrievers outside lexbench share: `command`, `url`, and functions and objects given to `lexbench.run`.

They answer `{query id: {document id: score}}`. This module checks such answers and turns them into hits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from lexbench.datasets.corpus import StoredCorpus
from lexbench.errors import LexbenchError, echoed
from lexbench.plugins import BuildContext, Retriever, Searcher
from lexbench.storage.artifact_folder import ENGINE_DIR, read_references, write_references
from lexbench.trec.ids import encode as encode_ids
from lexbench.trec.ids import lookup
from lexbench.types import Corpus, Hits, Query

Ask = Callable[[Mapping[str, str], int], Any]  # texts by query id, and how many documents -> answers
PROCESS = uuid4().hex  # identity of a system that another process cannot recognise


class ForeignRetriever(Retriever):
    """Base class of retrievers that search elsewhere. A subclass defines `ask`."""

    revision: str = ""  # of a program or server, named by the user: without one, nothing is reused by another process
    takes_corpus: bool = False  # whether each call takes the corpus, like those of beir, so that one call has all queries

    @property
    def called(self) -> str:
        """The name of the system in errors."""
        raise NotImplementedError

    def asker(self) -> Ask:
        """Return a function that answers queries. Raises LexbenchError if the system cannot be reached."""
        raise NotImplementedError

    def identity(self) -> Mapping[str, Any]:
        """Return the user's revision. Without one, return a random value: the system may change unnoticed."""
        return {"revision": self.revision} if self.revision else {"process": PROCESS}

    def search_inputs(self, context: BuildContext) -> list[Path]:
        """Return the corpus, whose ids searching reads."""
        return [context.corpus_dir()]

    def assemble(self, corpus: Corpus, path: Path, context: BuildContext) -> None:  # noqa: ARG002 - the system has its own index
        """Write the name of the folder of the corpus into *path*."""
        write_references(path, self.search_inputs(context))
        (path / ENGINE_DIR).mkdir()  # empty: the size of the index is unknown

    def open(self, path: Path) -> "ForeignSearcher":
        """Return a searcher that asks the system."""
        (corpus,) = read_references(path)
        return ForeignSearcher(self.called, self.asker(), StoredCorpus(corpus).doc_ids, self.takes_corpus)


@dataclass(frozen=True)
class ForeignSearcher(Searcher):
    """Asks a system outside lexbench and checks its answers."""

    name: str
    ask: Ask
    doc_ids: NDArray[np.bytes_]
    one_call: bool = False

    def encode(self, queries: Sequence[str]) -> list[Query]:
        """Return the queries, with numbers as their ids."""
        return [Query(str(number), text) for number, text in enumerate(queries)]

    def encode_queries(self, queries: Sequence[Query]) -> list[Query]:
        """Return the queries."""
        return list(queries)

    def search(self, encoded: Sequence[Query], k: int) -> Hits:
        """Return the best *k* documents of each query. Raises LexbenchError, with query and document, for a wrong answer."""
        answers = answers_by_query(self.name, self.ask({query.query_id: query.text for query in encoded}, k))
        if unknown := next(iter(answers.keys() - {query.query_id for query in encoded}), None):
            raise LexbenchError(
                f"{self.name}: it answered query {echoed(unknown)}, which was not asked; "
                "an answer is {query id: {document id: score}}"
            )
        rows = [self._best(query.query_id, answers.get(query.query_id, {}), k) for query in encoded]
        docs = np.full((len(rows), max((len(found) for found, _ in rows), default=0)), -1, np.int32)
        scores = np.zeros(docs.shape, np.float32)
        for row, (found, values) in enumerate(rows):
            docs[row, : len(found)], scores[row, : len(found)] = found, values
        return Hits(docs, scores)

    def _best(self, query: str, answer: Any, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the positions and scores of the best *k* documents, of equal scores the lower position first."""
        try:
            pairs = list(answer.items() if isinstance(answer, Mapping) else answer)
            ids, given = [str(doc_id) for doc_id, _ in pairs], [float(score) for _, score in pairs]
        except (TypeError, ValueError, OverflowError):  # float(10**400) overflows
            said = echoed(str(answer))
            raise self._error(
                query, f"it answered {said}; write {{document id: score}} or (document id, score) pairs"
            ) from None
        with np.errstate(over="ignore"):  # infinity is refused below
            scores = np.array(given, np.float32)
        docs = lookup(self.doc_ids, encode_ids(ids)).astype(np.int32) if ids else np.zeros(0, np.int32)
        first = dict(zip(reversed(ids), range(len(ids) - 1, -1, -1), strict=True))
        faults = {
            "is not in the corpus": docs < 0,
            "has a score that is no finite number": ~np.isfinite(scores),
            "comes twice": np.array([first[one] for one in ids], np.int64) < np.arange(len(ids)),
        }
        for fault, wrong in faults.items():
            if wrong.any():
                raise self._error(query, f"document {echoed(ids[int(wrong.argmax())])} {fault}")
        order = np.lexsort((docs, -scores))[:k]
        return docs[order], scores[order]

    def _error(self, query: str, what: str) -> LexbenchError:
        return LexbenchError(f"{self.name}: query {echoed(query)}: {what}")


def answers_by_query(name: str, answers: Any) -> dict[str, Any]:
    """Return the documents of each query in *answers* of the system *name*: a mapping, or a list of {"qid": …, "docs": …}."""
    if isinstance(answers, list) and all(isinstance(one, Mapping) and {"qid", "docs"} <= one.keys() for one in answers):
        return {str(one["qid"]): one["docs"] for one in answers}
    if isinstance(answers, Mapping):
        return {str(query): docs for query, docs in answers.items()}
    raise LexbenchError(f"{name}: it returned {type(answers).__name__}; it must return {{query id: {{document id: score}}}}")
