"""Scores of query-document pairs by a sequence classifier, which reads [CLS] query [SEP] document [SEP].

Used by the reranker `cross_encoder` and by LexMAE's teachers. Needs torch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lexbench.models.architectures import classifier_files, load_reranker
from lexbench.models.checkpoint import fetch
from lexbench.models.loading import check_token_ids, load_encoding_tokenizer
from lexbench.models.transformer_model import FrozenModel, ModelSpec, TokenRow, TransformerModel
from lexbench.types import Document

_PAIRS = 4096  # pairs whose tokens are in memory at a time


class CrossEncoderModel(TransformerModel):
    """A sequence classifier in memory, for `transformer_model.loaded`."""

    def __init__(self, spec: ModelSpec) -> None:
        files = classifier_files(fetch(spec.name, spec.revision))
        tokenizer = load_encoding_tokenizer(files.tokenizer_folder)
        model = load_reranker(files).to(spec.torch_dtype)
        check_token_ids(tokenizer.get_vocab(), model.get_input_embeddings().num_embeddings, files.folder)
        super().__init__(spec, model, tokenizer, model.config)
        self.longest = min(tokenizer.model_max_length, self.longest or tokenizer.model_max_length)
        self.frozen = FrozenModel(model, tokenizer, self.device, spec.torch_dtype)


class PairFormat(NamedTuple):
    """How query and document become one input. *titles* and *truncation* as in the reranker `cross_encoder`."""

    length: int  # tokens of a pair, special ones included
    titles: str  # "off" or "string"
    truncation: str  # "longest_first" or "only_second"


class _SpecialTokens(NamedTuple):
    """The special tokens around the two texts of a pair."""

    before: TokenRow
    between: TokenRow
    behind: TokenRow
    types: NDArray[np.int64]  # (2,) the segments of query and document


class PairScorer:
    """Scores pairs by a `…ForSequenceClassification` with one logit or two."""

    def __init__(self, frozen: FrozenModel, pair_format: PairFormat) -> None:
        self.frozen, self.pair_format = frozen, pair_format
        self._special = _special_tokens(frozen)
        self._room = max(pair_format.length - sum(len(row.ids) for row in self._special[:3]), 0)

    def scores(self, queries: Sequence[str], documents: Sequence[Document], most_tokens: int) -> Tensor:
        """Return the logits (n,) of queries[i] with documents[i], float32, on the model's device.

        With two logits the score is the second (relevant) minus the first. Batches have at most *most_tokens* tokens, padding
        included.
        """
        scores = torch.empty(len(queries), device=self.frozen.device)
        for start in range(0, len(queries), _PAIRS):
            pairs = slice(start, start + _PAIRS)
            block = scores[pairs]
            for batch in self.frozen.outputs(self._rows(queries[pairs], documents[pairs]), most_tokens):
                logits = batch.output.logits.float()
                block[batch.rows] = logits[:, -1] - (logits[:, 0] if logits.shape[1] > 1 else 0.0)
        return scores

    def _rows(self, queries: Sequence[str], documents: Sequence[Document]) -> list[TokenRow]:
        """Return the tokens of pairs. A text that occurs in many pairs is tokenised once."""
        texts = [self._text(document) for document in documents]
        distinct = list(dict.fromkeys((*queries, *texts)))
        encodings = self.frozen.tokenizer.encode_batch_fast(distinct, add_special_tokens=False)
        ids = {text: np.array(encoding.ids, np.int64) for text, encoding in zip(distinct, encodings, strict=True)}
        return [self._joined(ids[query], ids[text]) for query, text in zip(queries, texts, strict=True)]

    def _text(self, document: Document) -> str:
        if self.pair_format.titles == "string" and document.title:
            return f"{document.title}{self.frozen.separator}{document.body}"
        return document.text

    def _joined(self, query: NDArray[np.int64], document: NDArray[np.int64]) -> TokenRow:
        """Return both with the special tokens around them, each cut to the available room."""
        before, between, behind, (query_type, document_type) = self._special
        first, second = pair_lengths(len(query), len(document), self._room, self.pair_format.truncation)
        query_types, document_types = np.repeat(query_type, first), np.repeat(document_type, second)
        ids = np.concatenate([before.ids, query[:first], between.ids, document[:second], behind.ids])
        return TokenRow(ids, np.concatenate([before.types, query_types, between.types, document_types, behind.types]))


def pair_lengths(first: int, second: int, room: int, truncation: str) -> tuple[int, int]:
    """Return how many tokens of each text of a pair stay, given their numbers *first* and *second* and the *room* for both.

    "only_second" cuts the query only if the query alone does not fit. "longest_first" follows the package tokenizers.
    """
    if truncation == "only_second":
        first = min(first, room)
        return first, min(second, room - first)
    if first + second <= room:
        return first, second
    shorter = min(first, second, room // 2)
    return (shorter, room - shorter) if first <= second else (room - shorter, shorter)


def _special_tokens(frozen: FrozenModel) -> _SpecialTokens:
    """Return the special tokens that the tokenizer puts around two texts, found by two letters."""
    pair = frozen.tokenizer.encode("a", "b")
    ids, types = np.array(pair.ids, np.int64), np.array(pair.type_ids, np.int64)
    first, second = ([at for at, sequence in enumerate(pair.sequence_ids) if sequence == number] for number in (0, 1))
    gaps = slice(0, first[0]), slice(first[-1] + 1, second[0]), slice(second[-1] + 1, None)
    before, between, behind = (TokenRow(ids[gap], types[gap]) for gap in gaps)
    return _SpecialTokens(before, between, behind, types[[first[0], second[0]]])
