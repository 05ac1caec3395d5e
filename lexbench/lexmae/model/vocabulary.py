"""A smaller vocabulary for a WordPiece model: the most used pieces, and the single characters that any word can be cut into."""

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast

from lexbench.datasets.corpus import StoredCorpus
from lexbench.errors import CommandError
from lexbench.models.architectures import MASKED_LMS
from lexbench.models.loading import load_tokenizer
from lexbench.progress import Progress

_BLOCK = 2048  # documents tokenised at a time


def check(tokenizer: PreTrainedTokenizerFast) -> None:
    """Raise CommandError unless *tokenizer* is a WordPiece tokenizer."""
    if (kind := _settings(tokenizer)["model"]["type"]) != "WordPiece":
        raise CommandError(f"start.vocabulary is for WordPiece tokenizers, and this model's is {kind}; leave it out")


def piece_counts(tokenizer: PreTrainedTokenizerFast, corpora: Iterable[StoredCorpus], progress: Progress) -> NDArray[np.int64]:
    """Return how often each piece occurs in *corpora* (vocabulary,)."""
    cut = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())  # a copy, because texts are counted without truncation
    cut.no_padding()
    cut.no_truncation()
    counts = np.zeros(len(tokenizer), np.int64)
    for corpus in corpora:
        progress.start(corpus.path.name, "count word pieces", len(corpus), "documents")
        for start in range(0, len(corpus), _BLOCK):
            texts = [document.text for document in corpus.documents(start, start + _BLOCK)]
            encodings = cut.encode_batch_fast(texts, add_special_tokens=False)
            ids = np.concatenate([np.array(encoding.ids, np.int64) for encoding in encodings])
            counts += np.bincount(ids, minlength=len(counts))
            progress.advance(len(texts))
        progress.end()
    return counts


def most_used(tokenizer: PreTrainedTokenizerFast, counts: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Return the ids of *number* pieces, ascending: the special tokens, all single characters, and the most used of the rest.

    Ties go to the lower id. Raises CommandError if *number* is too small for special tokens and characters.
    """
    pieces = tokenizer.get_vocab()
    prefix = _settings(tokenizer)["model"]["continuing_subword_prefix"]
    always = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    always |= {id_ for piece, id_ in pieces.items() if len(piece.removeprefix(prefix)) == 1}
    if number < len(always):
        raise CommandError(
            f"start.vocabulary = {number} is less than the {len(always)} special tokens and single characters; increase it"
        )
    rest = np.array(sorted(set(pieces.values()) - always), np.int64)
    best = rest[np.argsort(-counts[rest], kind="stable")]
    return np.sort(np.concatenate([sorted(always), best[: number - len(always)]])).astype(np.int64)


def pruned_tokenizer(tokenizer: PreTrainedTokenizerFast, ids: NDArray[np.int64]) -> PreTrainedTokenizerFast:
    """Return *tokenizer* with only the pieces *ids* (n,), numbered in that order.

    A text whose pieces are all kept is tokenised as before, because WordPiece takes the longest piece of its vocabulary.
    """
    new = {old: index for index, old in enumerate(ids.tolist())}
    settings = _settings(tokenizer)
    pieces = settings["model"]["vocab"]
    settings["model"]["vocab"] = {piece: new[old] for piece, old in pieces.items() if old in new}
    settings["added_tokens"] = [token | {"id": new[token["id"]]} for token in settings["added_tokens"]]
    settings["post_processor"] = _renumbered(settings["post_processor"], new)
    with TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer.save_pretrained(folder)
        (folder / "tokenizer.json").write_text(json.dumps(settings), encoding="utf-8")
        return load_tokenizer(folder)


def pruned_model(model: Any, ids: NDArray[np.int64]) -> Any:
    """Return a copy of *model*, a *ForMaskedLM, with embeddings, output projection and bias for *ids* (n,) only."""
    new = {old: index for index, old in enumerate(ids.tolist())}
    config = copy.deepcopy(model.config)
    config.vocab_size = len(ids)
    for role in ("pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id"):
        if (old := getattr(config, role, None)) is not None:
            setattr(config, role, new.get(old))
    names = MASKED_LMS[config.model_type]
    per_piece = {names.embedding, names.weight, names.weight.replace(".weight", ".bias"), *(names.biases or ())}
    rows = torch.from_numpy(ids)
    state = {key: value[rows] if key in per_piece else value for key, value in model.state_dict().items()}
    kind: Any = AutoModelForMaskedLM
    smaller = kind.from_config(config)
    smaller.load_state_dict(state)
    return smaller.train(model.training)


def _settings(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """Return the content of tokenizer.json."""
    settings: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    return settings


def _renumbered(processor: dict[str, Any] | None, new: dict[int, int]) -> dict[str, Any] | None:
    """Return the post-processor, which adds special tokens, with new ids. WordPiece models have two forms of it."""
    if processor is None:
        return None
    if processor["type"] == "TemplateProcessing":
        tokens = processor["special_tokens"].items()
        renumbered = {name: token | {"ids": [new[old] for old in token["ids"]]} for name, token in tokens}
        return processor | {"special_tokens": renumbered}
    return processor | {role: [processor[role][0], new[processor[role][1]]] for role in ("sep", "cls")}
