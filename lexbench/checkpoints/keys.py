"""From the keys of a checkpoint's tensors, as this or that trainer wrote them, to those of transformers' *ForMaskedLM."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from lexbench.errors import InvalidFile

T = TypeVar("T")
Shape = tuple[int, ...]

_LISTED = 12  # keys in one message, of each kind of misfit
_WRAPPERS = re.compile(r"^(?:(?:module|_orig_mod|encoder)\.)+")  # DistributedDataParallel, torch.compile, LexMAE's learner
_OLD_NORM = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}  # converted from TensorFlow
# What training needs and encoding does not: LexMAE's decoder and reranker, poolers, next-sentence heads, saved constants.
_UNUSED = re.compile(
    r"^(?:decoder_heads|decoder_cls|decoder_lm_head|reranker|cls\.seq_relationship)\."
    r"|^decoder_vocab_|\.pooler\.|\.embeddings\.(?:position|token_type)_ids$"
)


class Architecture(NamedTuple):
    """What a model_type calls its parts."""

    embedding: str  # (vocabulary, h), which the output projection repeats in most models
    weight: str  # (vocabulary, h) the output projection
    biases: tuple[str, str] | None = None  # (vocabulary,) of the output projection, where that has two names for one tensor


ARCHITECTURES: Mapping[str, Architecture] = {
    "bert": Architecture(
        "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.weight",
        ("cls.predictions.bias", "cls.predictions.decoder.bias"),
    ),
    "distilbert": Architecture("distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"),
    "modernbert": Architecture("model.embeddings.tok_embeddings.weight", "decoder.weight"),
    "roberta": Architecture(
        "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight", ("lm_head.bias", "lm_head.decoder.bias")
    ),
}


def renamed(found: Mapping[str, T], place: str) -> dict[str, T]:
    """Return the tensors of a checkpoint under transformers' names, without those that encoding does not use.

    InvalidFile where two keys are one name.
    """
    kept: dict[str, T] = {}
    origin: dict[str, str] = {}
    for key, tensor in found.items():
        name = of_today(_WRAPPERS.sub("", key))
        if _UNUSED.search(name):
            continue
        if name in kept:
            raise InvalidFile(f"{place}: the keys {origin[name]} and {key} both mean {name}; keep one of them")
        kept[name], origin[name] = tensor, key
    return kept


def of_today(key: str) -> str:
    """Return a key with the names of today."""
    for old, new in _OLD_NORM.items():
        key = key.replace(old, new)
    return key


def tied(
    tensors: Mapping[str, T], architecture: Architecture, *, embeddings: bool, same: Callable[[T, T], bool]
) -> dict[str, T]:
    """Return *tensors* with what is not there because it repeats another; with *embeddings* the projection repeats these.

    Where both are there, they become one if they are the *same*, and stay as they are if not, as transformers has it.
    """
    filled = dict(tensors)
    pairs = [architecture.biases] if architecture.biases else []
    if embeddings:
        pairs.append((architecture.embedding, architecture.weight))
    for one, other in pairs:
        if one not in filled and other in filled:
            filled[one] = filled[other]
        elif one in filled and (other not in filled or same(filled[one], filled[other])):
            filled[other] = filled[one]
    return filled


def check(found: Mapping[str, Shape], expected: Mapping[str, Shape], what: str) -> None:
    """Raise InvalidFile, which says what does not fit, unless the names and shapes that are there are those expected."""
    shared = sorted(found.keys() & expected.keys())
    wrong = [f"{key} {found[key]} for {expected[key]}" for key in shared if found[key] != expected[key]]
    misfits = {
        "missing": sorted(expected.keys() - found.keys()),
        "unexpected": sorted(found.keys() - expected.keys()),
        "of another shape": wrong,
    }
    lists = [f"{len(keys)} {kind} ({_some(keys)})" for kind, keys in misfits.items() if keys]
    if lists:
        raise InvalidFile(f"{what}, and its weights do not fit that: {'; '.join(lists)}")


def _some(keys: Iterable[str]) -> str:
    keys = list(keys)
    more = len(keys) - _LISTED
    return ", ".join(keys[:_LISTED]) + (f" and {more} more" if more > 0 else "")
