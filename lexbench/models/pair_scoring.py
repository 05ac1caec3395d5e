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
from lexbench.models.bert import with_own_body
from lexbench.models.checkpoint import fetch
from lexbench.models.loading import check_token_ids, load_encoding_tokenizer
from lexbench.models.token_batches import Tokens
from lexbench.models.transformer_model import FrozenModel, ModelSpec, TransformerModel
from lexbench.types import Document

_PAIRS = 4096  # pairs whose tokens are in memory at a time


class CrossEncoderModel(TransformerModel):
    """A sequence classifier in memory, for `transformer_model.loaded`."""

    def __init__(self, spec: ModelSpec) -> None:
        files = classifier_files(fetch(spec.name, spec.revision))
        tokenizer = load_encoding_tokenizer(files.tokenizer_folder)
        model = with_own_body(load_reranker(files)).to(spec.torch_dtype)
        check_token_ids(tokenizer.get_vocab(), model.config.vocab_size, files.folder)
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

    before: NDArray[np.int32]
    between: NDArray[np.int32]
    behind: NDArray[np.int32]
    segments: bool  # whether tokens have type 1 from the document on


class PairScorer:
    """Scores pairs by a `…ForSequenceClassification` with one logit or two."""

    def __init__(self, frozen: FrozenModel, pair_format: PairFormat) -> None:
        self.frozen, self.pair_format = frozen, pair_format
        self._special = _special_tokens(frozen)
        self._room = max(pair_format.length - sum(map(len, self._special[:3])), 0)

    def scores(self, queries: Sequence[str], documents: Sequence[Document], most_tokens: int) -> Tensor:
        """Return the logits (n,) of queries[i] with documents[i], float32, on the model's device.

        With two logits the score is the second (relevant) minus the first. Batches have at most *most_tokens* tokens, padding
        included.
        """
        scores = torch.empty(len(queries), device=self.frozen.device)
        for start in range(0, len(queries), _PAIRS):
            pairs = slice(start, start + _PAIRS)
            block = scores[pairs]
            for batch, output in self.frozen.outputs(self._tokens(queries[pairs], documents[pairs]), most_tokens):
                logits = output.logits.float()
                block[torch.from_numpy(batch.texts)] = logits[:, -1] - (logits[:, 0] if logits.shape[1] > 1 else 0.0)
        return scores

    def _tokens(self, queries: Sequence[str], documents: Sequence[Document]) -> Tokens:
        """Return the tokens of pairs. A text that occurs in many pairs is tokenised once."""
        texts = [self._text(document) for document in documents]
        distinct = list(dict.fromkeys((*queries, *texts)))
        encodings = self.frozen.tokenizer.encode_batch_fast(distinct, add_special_tokens=False)
        ids = {text: np.array(encoding.ids, np.int32) for text, encoding in zip(distinct, encodings, strict=True)}
        before, between, behind, segments = self._special
        rows, seconds = [], []
        for query, text in zip(queries, texts, strict=True):
            first, second = pair_lengths(len(ids[query]), len(ids[text]), self._room, self.pair_format.truncation)
            rows.append(np.concatenate([before, ids[query][:first], between, ids[text][:second], behind]))
            seconds.append(len(before) + first + len(between))
        starts = np.cumsum([0, *map(len, rows)])
        return Tokens(np.concatenate(rows), starts, 0, np.array(seconds, np.int32) if segments else None)

    def _text(self, document: Document) -> str:
        if self.pair_format.titles == "string" and document.title:
            return f"{document.title}{self.frozen.separator}{document.body}"
        return document.text


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
    ids = np.array(pair.ids, np.int32)
    first, second = ([at for at, sequence in enumerate(pair.sequence_ids) if sequence == number] for number in (0, 1))
    segments = bool(pair.type_ids[second[0]])
    return _SpecialTokens(ids[: first[0]], ids[first[-1] + 1 : second[0]], ids[second[-1] + 1 :], segments)
