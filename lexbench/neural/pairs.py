"""Scores of pairs by a sequence classifier that reads [CLS] query [SEP] document [SEP], the query as first segment."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lexbench.neural.frozen import Frozen, Row
from lexbench.types import Document

_PIECE = 4096  # pairs whose tokens are in memory at a time


class Reading(NamedTuple):
    """How pairs are read. *titles* and *truncation* as in `lexbench.rerankers.cross_encoder.CrossEncoder`."""

    length: int  # tokens of a pair, special ones included
    titles: str  # "off" or "string"
    truncation: str  # "longest_first" or "only_second"


class Surroundings(NamedTuple):
    """The special tokens of a pair."""

    before: Row
    between: Row
    behind: Row
    types: NDArray[np.int64]  # (2,) those of the query and of the document


class PairScorer:
    """A *ForSequenceClassification with one logit, or with two."""

    def __init__(self, frozen: Frozen, reading: Reading) -> None:
        self.frozen, self.reading = frozen, reading
        self._around = _surroundings(frozen)
        self._room = max(reading.length - sum(len(special.ids) for special in self._around[:3]), 0)

    def scores(self, queries: Sequence[str], documents: Sequence[Document], most_tokens: int) -> Tensor:
        """Return the logits (n,) of queries[i] with documents[i], float32, on the model's device.

        Of two logits it is the second, relevant, less the first. Batches have at most *most_tokens*, padding included.
        """
        found = torch.empty(len(queries), device=self.frozen.device)
        for start in range(0, len(queries), _PIECE):
            piece = slice(start, start + _PIECE)
            self._score(self._rows(queries[piece], documents[piece]), most_tokens, found[piece])
        return found

    def _score(self, rows: Sequence[Row], most_tokens: int, found: Tensor) -> None:
        """Fill *found* (n,) with the scores of *rows*."""
        for batch in self.frozen.computed(rows, most_tokens):
            logits = batch.output.logits.float()
            found[batch.rows] = logits[:, -1] - (logits[:, 0] if logits.shape[1] > 1 else 0.0)

    def _rows(self, queries: Sequence[str], documents: Sequence[Document]) -> list[Row]:
        """Return the tokens of pairs; a text that occurs in many of them is tokenised once."""
        seconds = [self._second(document) for document in documents]
        tokens = self._tokens(dict.fromkeys((*queries, *seconds)))
        return [self._joined(tokens[query], tokens[second]) for query, second in zip(queries, seconds, strict=True)]

    def _second(self, document: Document) -> str:
        if self.reading.titles == "string" and document.title:
            return f"{document.title}{self.frozen.separator}{document.body}"
        return document.text

    def _tokens(self, texts: dict[str, None]) -> dict[str, NDArray[np.int64]]:
        encodings = self.frozen.cut.encode_batch_fast(list(texts), add_special_tokens=False)
        return {text: np.array(encoding.ids, np.int64) for text, encoding in zip(texts, encodings, strict=True)}

    def _joined(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> Row:
        """Return both with the special tokens around them, as much of each as there is room for."""
        before, between, behind, (of_query, of_document) = self._around
        query, document = kept(len(first), len(second), self._room, self.reading.truncation)
        types = before.types, np.repeat(of_query, query), between.types, np.repeat(of_document, document), behind.types
        ids = np.concatenate([before.ids, first[:query], between.ids, second[:document], behind.ids])
        return Row(ids, np.concatenate(types))


def kept(first: int, second: int, room: int, truncation: str) -> tuple[int, int]:
    """Return how many tokens stay of a pair of *first* and *second* tokens where there is *room* for so many.

    "only_second" cuts the query only where it leaves no room by itself. "longest_first" is as in the package tokenizers.
    """
    if truncation == "only_second":
        first = min(first, room)
        return first, min(second, room - first)
    if first + second <= room:
        return first, second
    shorter = min(first, second, room // 2)
    return (shorter, room - shorter) if first <= second else (room - shorter, shorter)


def _surroundings(frozen: Frozen) -> Surroundings:
    """Return what the tokenizer puts around two texts, as it does it to two letters."""
    both = frozen.cut.encode("a", "b")
    ids, types = np.array(both.ids, np.int64), np.array(both.type_ids, np.int64)
    sequences = both.sequence_ids
    first, second = ([place for place, sequence in enumerate(sequences) if sequence == one] for one in (0, 1))
    gaps = slice(0, first[0]), slice(first[-1] + 1, second[0]), slice(second[-1] + 1, None)
    before, between, behind = (Row(ids[gap], types[gap]) for gap in gaps)
    return Surroundings(before, between, behind, types[[first[0], second[0]]])
