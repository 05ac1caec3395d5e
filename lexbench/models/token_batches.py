"""Texts as token ids, and the batches that a model computes.

Batches are decided by texts and settings alone, so they are the same on every worker. Used by encoders and by LexMAE's
training.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lexbench.plugins import TokenSpans
from lexbench.types import Document

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    from lexbench.models.wordpiece import WordPiece

Input: TypeAlias = "str | tuple[str, str]"  # a text, or a pair for longest-first truncation


_PADDING = 0.1  # share of the tokens of a batch


class Tokens(NamedTuple):
    """Tokenised texts, special tokens included; the ids of text i are ids[starts[i]:starts[i + 1]]."""

    ids: NDArray[np.int32]  # (tokens,)
    starts: NDArray[np.int64]  # (texts + 1,)
    cut: NDArray[np.bool_]  # (texts,) which texts were too long
    second: NDArray[np.int32] | None = None  # (texts,) where the second text of a pair starts; None if it does not matter

    @property
    def truncated(self) -> int:
        """The number of texts that were cut."""
        return int(self.cut.sum())


class Batch(NamedTuple):
    """Texts that are computed together."""

    texts: NDArray[np.int64]  # (n,) their indices in the input
    ids: NDArray[np.int64]  # (n, longest) padded on the right
    real: NDArray[np.bool_]  # (n, longest) False for padding
    pools: NDArray[np.bool_]  # (n, longest) the positions that pooling uses
    types: NDArray[np.int64] | None = None  # (n, longest) 1 in the second text of a pair, else 0


def cutter(tokenizer: "PreTrainedTokenizerFast | WordPiece", length: int) -> "Tokenizer":
    """Return a tokenizer that cuts texts to *length* tokens, like *tokenizer* with `truncation=True, max_length=length`.

    It is a copy, because transformers changes its own at every call, which other threads would notice.
    """
    copy = plain_copy(tokenizer)
    copy.enable_truncation(length, stride=0, strategy="longest_first", direction=tokenizer.truncation_side)
    return copy


def plain_copy(tokenizer: "PreTrainedTokenizerFast | WordPiece") -> "Tokenizer":
    """Return a copy that neither pads nor truncates."""
    from tokenizers import Tokenizer

    copy = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    copy.encode_special_tokens = getattr(tokenizer, "split_special_tokens", False)  # transformers keeps it elsewhere
    copy.no_padding()
    copy.no_truncation()
    return copy


def document_inputs(
    documents: Sequence[Document], titles: str, separator: str, no_title: str = "-", prompt: str = ""
) -> list[Input]:
    """Return the tokenizer's input for *documents*: *prompt*, then title (*no_title* if there is none) and body.

    *titles*: "off" takes the text, "pair" the title and the body, "string" both in one text with *separator* between them.
    """
    if titles == "off":
        return [prompt + document.text for document in documents]
    pairs = [(prompt + (document.title or no_title), document.body) for document in documents]
    return [separator.join(pair) for pair in pairs] if titles == "string" else list(pairs)


def tokenise(tokenizer: "Tokenizer", texts: Sequence[Input], *, special: bool = True, types: bool = False) -> Tokens:
    """Return the tokens of *texts* by a tokenizer from `cutter`.

    *special* adds the tokenizer's special tokens, *types* finds where the second text of a pair starts.
    """
    encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=special)
    starts = np.zeros(len(texts) + 1, np.int64)
    starts[1:] = np.cumsum([len(encoding) for encoding in encodings])
    ids = np.empty(starts[-1], np.int32)
    for encoding, start, stop in zip(encodings, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        ids[start:stop] = encoding.ids
    second = np.array([len(encoding) - sum(encoding.type_ids) for encoding in encodings], np.int32) if types else None
    return Tokens(ids, starts, np.array([bool(encoding.overflowing) for encoding in encodings], bool), second)


def token_spans(tokenizer: "PreTrainedTokenizerFast", texts: Sequence[str]) -> list[TokenSpans]:
    """Return where the tokens of each text are in it, however long it is; special tokens are left out."""
    encodings = plain_copy(tokenizer).encode_batch(list(texts), add_special_tokens=False)
    return [
        TokenSpans(
            np.array(encoding.offsets, np.int32).reshape(-1, 2),
            np.array([-1 if word is None else word for word in encoding.word_ids], np.int32),
        )
        for encoding in encodings
    ]


def filled(tokens: Tokens, token: int, length: int) -> Tokens:
    """Return *tokens* with *token* repeated at the end of texts that are shorter than *length*; it counts as their token."""
    lengths = np.diff(tokens.starts)
    starts = np.concatenate([[0], np.cumsum(np.maximum(lengths, length))])
    ids = np.full(starts[-1], token, np.int32)
    ids[np.repeat(starts[:-1] - tokens.starts[:-1], lengths) + np.arange(len(tokens.ids))] = tokens.ids
    return tokens._replace(ids=ids, starts=starts)


def ended(tokens: Tokens, token: int) -> Tokens:
    """Return *tokens* with *token* added to each text that does not end with it."""
    last = np.append(tokens.ids, -1)[tokens.starts[1:] - 1]  # of an empty text: a token of another text, or the -1
    without = (last != token) | (np.diff(tokens.starts) == 0)
    starts = tokens.starts + np.concatenate([[0], np.cumsum(without)])
    return tokens._replace(ids=np.insert(tokens.ids, tokens.starts[1:][without], token), starts=starts)


def batches(
    tokens: Tokens, most_tokens: int, most_texts: int, *, pad: int, silent: Sequence[int], least_tokens: int | None = None
) -> Iterator[Batch]:
    """Yield batches of all texts, the longest first and equally long ones in their order, so that there is little padding.

    A batch has at most *most_tokens* tokens, padding included (more only if one text does), and *most_texts* texts. With
    *least_tokens* it ends earlier if it has so many tokens and more texts would make a tenth of it padding. Padding is not
    pooled, and neither are the ids in *silent*.
    """
    lengths = np.diff(tokens.starts)
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        width = max(int(lengths[order[start]]), 1)
        texts = order[start : start + max(1, min(most_tokens // width, most_texts))]
        if least_tokens is not None:
            padded = width * np.arange(1, len(texts) + 1)
            wasteful = (padded > least_tokens) & (np.cumsum(lengths[texts]) < (1 - _PADDING) * padded)
            texts = texts[: max(1, int(wasteful.argmax()))] if wasteful.any() else texts
        real = np.arange(width) < lengths[texts, None]
        ids = np.full(real.shape, pad, np.int64)
        ids[real] = np.concatenate([tokens.ids[tokens.starts[text] : tokens.starts[text + 1]] for text in texts])
        types = None if tokens.second is None else (real & (np.arange(width) >= tokens.second[texts, None])).astype(np.int64)
        yield Batch(texts, ids, real, real & ~np.isin(ids, silent), types)
        start += len(texts)


def halves(batch: Batch) -> list[Batch]:
    """Return the first and the second half of the texts of *batch*, which has two or more."""
    middle = len(batch.texts) // 2

    def part(rows: slice) -> Batch:
        types = None if batch.types is None else batch.types[rows]
        return Batch(batch.texts[rows], batch.ids[rows], batch.real[rows], batch.pools[rows], types)

    return [part(slice(middle)), part(slice(middle, None))]
