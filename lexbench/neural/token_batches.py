"""Texts as token numbers, and the batches that they are computed in: what the texts and the settings decide, and no worker."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

Input: TypeAlias = "str | tuple[str, str]"  # a text, or a pair for longest-first truncation


class Tokens(NamedTuple):
    """Tokenised texts, special tokens included; the ids of text i are ids[starts[i]:starts[i + 1]]."""

    ids: NDArray[np.int32]  # (tokens,)
    starts: NDArray[np.int64]  # (texts + 1,)
    truncated: int  # texts that were longer than the limit
    second: NDArray[np.int32] | None = None  # (texts,) where the second text of a pair starts; None: nobody asked


class Batch(NamedTuple):
    """Texts that are computed together."""

    texts: NDArray[np.int64]  # (n,) their places in the input
    ids: NDArray[np.int64]  # (n, longest) padded on the right
    real: NDArray[np.bool_]  # (n, longest) False for padding
    pools: NDArray[np.bool_]  # (n, longest) the positions whose logits count
    types: NDArray[np.int64] | None = None  # (n, longest) 1 in the second text of a pair, else 0


def cutter(tokenizer: "PreTrainedTokenizerFast", length: int) -> "Tokenizer":
    """Return what cuts texts to *length* tokens exactly as *tokenizer* would with `truncation=True, max_length=length`.

    It is a copy that nobody sets up differently: transformers changes its own at every call, which threads would notice.
    """
    from tokenizers import Tokenizer

    copy = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    copy.no_padding()
    copy.enable_truncation(length, stride=0, strategy="longest_first", direction=tokenizer.truncation_side)
    return copy


def tokenise(cut: "Tokenizer", texts: Sequence[Input], *, special: bool = True, types: bool = False) -> Tokens:
    """Return the tokens of *texts* (n,), cut by what `cutter` returned; runs on all cores unless told otherwise.

    With *special* tokens as the tokenizer adds them; with *types* where the second text of a pair starts.
    """
    encodings = cut.encode_batch_fast(list(texts), add_special_tokens=special)
    starts = np.zeros(len(texts) + 1, np.int64)
    starts[1:] = np.cumsum([len(encoding) for encoding in encodings])
    ids = np.empty(starts[-1], np.int32)
    for encoding, start, stop in zip(encodings, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        ids[start:stop] = encoding.ids
    second = np.array([len(one) - sum(one.type_ids) for one in encodings], np.int32) if types else None
    return Tokens(ids, starts, sum(bool(encoding.overflowing) for encoding in encodings), second)


def filled(tokens: Tokens, token: int, length: int) -> Tokens:
    """Return *tokens* with *token* behind every text that is shorter than *length*, up to that."""
    lengths = np.diff(tokens.starts)
    starts = np.concatenate([[0], np.cumsum(np.maximum(lengths, length))])
    ids = np.full(starts[-1], token, np.int32)
    ids[np.repeat(starts[:-1] - tokens.starts[:-1], lengths) + np.arange(len(tokens.ids))] = tokens.ids
    return tokens._replace(ids=ids, starts=starts)


def batches(tokens: Tokens, most_tokens: int, most_texts: int, *, pad: int, silent: Sequence[int]) -> Iterator[Batch]:
    """Yield all texts, the longest first, equally long ones in their order, so that little is padded.

    A batch has at most *most_tokens* padded tokens (more only if one text does) and *most_texts* texts. Positions that hold an
    id of *silent* do not pool, and neither does padding.
    """
    lengths = np.diff(tokens.starts)
    order = np.argsort(-lengths, kind="stable")
    at = 0
    while at < len(order):
        width = max(int(lengths[order[at]]), 1)
        texts = order[at : at + max(1, min(most_tokens // width, most_texts))]
        real = np.arange(width) < lengths[texts, None]
        ids = np.full(real.shape, pad, np.int64)
        ids[real] = np.concatenate([tokens.ids[tokens.starts[text] : tokens.starts[text + 1]] for text in texts])
        types = None if tokens.second is None else (real & (np.arange(width) >= tokens.second[texts, None])).astype(np.int64)
        yield Batch(texts, ids, real, real & ~np.isin(ids, silent), types)
        at += len(texts)
