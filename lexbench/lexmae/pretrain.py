"""Pretraining: the masked autoencoder over corpora that are read from disk (paper, section 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lexbench.lexmae import folders, made_by, processes, provenance, resuming, start, training
from lexbench.lexmae.batches import Draws, padded
from lexbench.lexmae.facts import Data
from lexbench.lexmae.masking import IGNORED, Masked, Masking
from lexbench.lexmae.model import MaskedAutoencoder
from lexbench.lexmae.places import Places
from lexbench.lexmae.recipe import Encoding, Pretrain, Recipe
from lexbench.lexmae.tokens import TokenisedCorpus, tokenised
from lexbench.lexmae.training_sets import open_corpus_of
from lexbench.progress import Progress
from lexbench.storage.store import Store


@dataclass(frozen=True, eq=False)
class MaskedTexts:
    """The texts of several corpora, masked anew each time that one is drawn."""

    corpora: Sequence[TokenisedCorpus]
    masking: Masking
    special: Sequence[int]  # ids that are never masked, as the tokenizer puts them in
    silent: Sequence[int]  # ids whose positions are not pooled

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """Where the texts of each corpus end (corpora,)."""
        return np.cumsum([len(corpus) for corpus in self.corpora])

    def __len__(self) -> int:
        """Return the number of texts."""
        return int(self._ends[-1])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each text (texts,)."""
        return np.concatenate([corpus.lengths for corpus in self.corpora])

    def example(self, index: int, rng: np.random.Generator) -> tuple[Masked, NDArray[np.bool_]]:
        """Return one text, masked, and which of its positions are pooled (length,)."""
        which = int(np.searchsorted(self._ends, index, side="right"))
        first = int(self._ends[which - 1]) if which else 0
        ids = self.corpora[which][index - first]
        return self.masking(ids, ~np.isin(ids, self.special), rng), ~np.isin(ids, self.silent)


def collate(pad: int) -> Any:
    """Return what makes a batch for `MaskedAutoencoder.forward` from examples, padded with *pad*."""

    def batch(examples: Sequence[tuple[Masked, NDArray[np.bool_]]]) -> dict[str, torch.Tensor]:
        masked = [one for one, _ in examples]
        fills = {"encoder_ids": pad, "encoder_labels": IGNORED, "decoder_ids": pad, "decoder_labels": IGNORED}
        found = {name: torch.from_numpy(padded([getattr(one, name) for one in masked], fill)) for name, fill in fills.items()}
        lengths = torch.tensor([len(one.encoder_ids) for one in masked])
        found["real"] = torch.arange(found["encoder_ids"].shape[1]) < lengths[:, None]
        found["pools"] = torch.from_numpy(padded([pools.astype(np.int64) for _, pools in examples], 0)).bool()
        return found

    return batch


def silent(tokenizer: Any, encoding: Encoding) -> list[int]:
    """Return the ids whose positions are not pooled: with positions="text" the first token and separators (released code)."""
    return [tokenizer.cls_token_id, tokenizer.sep_token_id] if encoding.positions == "text" else []


def pretrain(recipe: Recipe, progress: Progress) -> Path:
    """Return the folder of the pretrained model, made if it is not there yet: an ordinary masked-language model.

    Its decoder lies beside it, in decoder.safetensors.
    """
    places, asked = Places(recipe), recipe.pretrain
    assert asked is not None
    processes.check(asked, recipe.hardware)
    processes.join(recipe.hardware)
    going_on = places.training("pretrained")
    if not (found := made_by.finished(places.pretrained, recipe, "pretrained")):
        with made_by.claimed(going_on, recipe, "pretrained"):
            found = _pretrained(recipe, asked, going_on, progress)
    if processes.first():
        resuming.clear(going_on)
    return found


def _pretrained(recipe: Recipe, asked: Pretrain, going_on: Path, progress: Progress) -> Path:
    with processes.first_goes_first():
        begin = start.make(recipe, progress)
    torch.manual_seed(recipe.seed)
    model, tokenizer = folders.load(begin)
    kept, encoding = Store(on_wait=progress.note, on_damage=progress.note), recipe.encoding
    corpora = [open_corpus_of(name, kept, progress) for name in asked.corpora]
    cut = [tokenised(corpus, tokenizer, encoding.titles, encoding.document_length, kept, progress) for corpus in corpora]
    masking = Masking.of(asked, tokenizer.mask_token_id, len(tokenizer))
    texts = MaskedTexts(cut, masking, tokenizer.all_special_ids, silent(tokenizer, encoding))
    steps = training.steps(asked, len(texts))
    how = training.Fit(f"{recipe.name} pretraining", asked, recipe.hardware, recipe.seed, steps, going_on)
    draws = Draws(texts.example, len(texts), how.draws, recipe.seed, batch=asked.batch_size, lengths=texts.lengths)
    autoencoder = MaskedAutoencoder(model, asked)
    fitted = training.fit(autoencoder, draws, collate(tokenizer.pad_token_id), how, progress)
    read = {name: {"documents": len(corpus)} for name, corpus in zip(asked.corpora, corpora, strict=True)}
    data = [Data(dataset=name, use="pretraining", counts=counts) for name, counts in read.items()]
    trained = folders.Trained(autoencoder.encoder.language_model, tokenizer, autoencoder)
    facts = provenance.facts(fitted, steps, data)
    return folders.publish(Places(recipe).pretrained, recipe, "pretrained", trained, fitted.log, facts)
