"""From examples of fine-tuning to tensors: queries cut as they come, documents from the tokens that the store keeps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.lexmae.batches import arrays
from lexbench.lexmae.examples import Example, Examples
from lexbench.lexmae.teacher import Teacher
from lexbench.lexmae.tokens import TokenisedCorpus
from lexbench.neural.token_batches import cutter, tokenise
from lexbench.types import Document, Query


@dataclass(frozen=True, eq=False)
class Batches:
    """Makes what `FineTuner.forward` takes from examples."""

    examples: Examples
    corpora: Sequence[TokenisedCorpus]  # of the sources, in their order
    cut_queries: Callable[[Sequence[str]], list[NDArray[np.int64]]]
    pad: int
    silent: Sequence[int]
    teacher: Teacher | None

    def __call__(self, drawn: Sequence[Example]) -> dict[str, Any]:
        """Return the tensors of a batch; a teacher's scores too, where there is one."""
        texts = [self._query(one).text for one in drawn]
        rows = [self.corpora[one.source][position] for one in drawn for position in self._positions(one)]
        found: dict[str, Any] = {
            "queries": arrays(ids=self.cut_queries(texts), pad=self.pad, silent=self.silent),
            "documents": arrays(ids=rows, pad=self.pad, silent=self.silent),
        }
        if self.teacher is not None:
            documents = [self._document(one, position) for one in drawn for position in self._positions(one)]
            each = len(documents) // len(texts)
            scores = self.teacher.scores([text for text in texts for _ in range(each)], documents)
            found["teacher"] = scores.view(len(texts), each)
        return found

    def _query(self, one: Example) -> Query:
        return self.examples.sources[one.source].training_set.queries[one.query]

    def _document(self, one: Example, position: int) -> Document:
        return next(self.examples.sources[one.source].training_set.corpus.documents(position, position + 1))

    @staticmethod
    def _positions(one: Example) -> list[int]:
        return [one.positive, *one.negatives.tolist()]


def query_cutter(tokenizer: Any, length: int) -> Callable[[Sequence[str]], list[NDArray[np.int64]]]:
    """Return what cuts queries to *length* tokens (length,) each."""
    cut = cutter(tokenizer, length)

    def rows(texts: Sequence[str]) -> list[NDArray[np.int64]]:
        found = tokenise(cut, texts)
        return [row.astype(np.int64) for row in np.split(found.ids, found.starts[1:-1])]

    return rows
