"""Texts as token ids, and the batches that a model computes: decided by texts and settings alone, the same on every worker."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lexbench.plugins import TokenSpans

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

Input: TypeAlias = "str | tuple[str, str]"  # a text, or a pair for longest-first truncation


class Tokens(NamedTuple):
    """Tokenised texts, special tokens included; the ids of text i are ids[starts[i]:starts[i + 1]]."""

    ids: NDArray[np.int32]  # (tokens,)
    starts: NDArray[np.int64]  # (texts + 1,)
    truncated: int  # texts that were longer than the limit
    second: NDArray[np.int32] | None = None  # (texts,) where the second text of a pair starts; None where it does not matter


class Batch(NamedTuple):
    """Texts that are computed together."""

    texts: NDArray[np.int64]  # (n,) their indices in the input
    ids: NDArray[np.int64]  # (n, longest) padded on the right
    real: NDArray[np.bool_]  # (n, longest) False for padding
    pools: NDArray[np.bool_]  # (n, longest) the positions that pooling takes into account
    types: NDArray[np.int64] | None = None  # (n, longest) 1 in the second text of a pair, else 0


def cutter(tokenizer: "PreTrainedTokenizerFast", length: int) -> "Tokenizer":
    """Return a tokenizer that cuts texts to *length* tokens as *tokenizer* would with `truncation=True, max_length=length`.

    It is a copy, because transformers sets its own up anew at every call, which other threads would notice.
    """
    from tokenizers import Tokenizer

    copy = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    copy.no_padding()
    copy.enable_truncation(length, stride=0, strategy="longest_first", direction=tokenizer.truncation_side)
    return copy


def tokenise(tokenizer: "Tokenizer", texts: Sequence[Input], *, special: bool = True, types: bool = False) -> Tokens:
    """Return the tokens of *texts* by a tokenizer of `cutter`, which runs on all cores unless told otherwise.

    *special*: with the special tokens that the tokenizer adds. *types*: with where the second text of a pair starts.
    """
    encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=special)
    starts = np.zeros(len(texts) + 1, np.int64)
    starts[1:] = np.cumsum([len(encoding) for encoding in encodings])
    ids = np.empty(starts[-1], np.int32)
    for encoding, start, stop in zip(encodings, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        ids[start:stop] = encoding.ids
    second = np.array([len(encoding) - sum(encoding.type_ids) for encoding in encodings], np.int32) if types else None
    return Tokens(ids, starts, sum(bool(encoding.overflowing) for encoding in encodings), second)


def token_spans(tokenizer: "PreTrainedTokenizerFast", texts: Sequence[str]) -> list[TokenSpans]:
    """Return where the tokens of each text are in it, however long it is; special tokens are left out."""
    from tokenizers import Tokenizer

    uncut = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    uncut.no_padding()
    uncut.no_truncation()
    encodings = uncut.encode_batch(list(texts), add_special_tokens=False)
    return [
        TokenSpans(
            np.array(encoding.offsets, np.int32).reshape(-1, 2),
            np.array([-1 if word is None else word for word in encoding.word_ids], np.int32),
        )
        for encoding in encodings
    ]


def filled(tokens: Tokens, token: int, length: int) -> Tokens:
    """Return *tokens* with texts that are shorter than *length* filled up to it by *token*, which counts as one of theirs."""
    lengths = np.diff(tokens.starts)
    starts = np.concatenate([[0], np.cumsum(np.maximum(lengths, length))])
    ids = np.full(starts[-1], token, np.int32)
    ids[np.repeat(starts[:-1] - tokens.starts[:-1], lengths) + np.arange(len(tokens.ids))] = tokens.ids
    return tokens._replace(ids=ids, starts=starts)


def ended(tokens: Tokens, token: int) -> Tokens:
    """Return *tokens* with *token* behind each text that does not end with it."""
    last = np.append(tokens.ids, -1)[tokens.starts[1:] - 1]  # of a text without tokens that is another's, or the -1
    without = (last != token) | (np.diff(tokens.starts) == 0)
    starts = tokens.starts + np.concatenate([[0], np.cumsum(without)])
    return tokens._replace(ids=np.insert(tokens.ids, tokens.starts[1:][without], token), starts=starts)


def echoed(first: Tokens, between: NDArray[np.int32], again: Tokens) -> Tokens:
    """Return the tokens of each text of *first*, those *between*, and those of the same text of *again*, which are `second`."""
    lengths = np.diff(first.starts) + len(between)
    starts = np.concatenate([[0], np.cumsum(lengths + np.diff(again.starts))])
    parts = [
        part
        for text in range(len(lengths))
        for part in (
            first.ids[first.starts[text] : first.starts[text + 1]],
            between,
            again.ids[again.starts[text] : again.starts[text + 1]],
        )
    ]
    ids = np.concatenate(parts) if parts else first.ids
    return Tokens(ids, starts, first.truncated, lengths.astype(np.int32))


def batches(tokens: Tokens, most_tokens: int, most_texts: int, *, pad: int, silent: Sequence[int]) -> Iterator[Batch]:
    """Yield batches of all texts, the longest first, equally long ones in their order, so that little is padded.

    A batch has at most *most_tokens* tokens, padding included (more only if one text does), and *most_texts* texts. Positions
    that hold an id of *silent* do not pool, and neither does padding.
    """
    lengths = np.diff(tokens.starts)
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        width = max(int(lengths[order[start]]), 1)
        texts = order[start : start + max(1, min(most_tokens // width, most_texts))]
        real = np.arange(width) < lengths[texts, None]
        ids = np.full(real.shape, pad, np.int64)
        ids[real] = np.concatenate([tokens.ids[tokens.starts[text] : tokens.starts[text + 1]] for text in texts])
        types = None if tokens.second is None else (real & (np.arange(width) >= tokens.second[texts, None])).astype(np.int64)
        yield Batch(texts, ids, real, real & ~np.isin(ids, silent), types)
        start += len(texts)
