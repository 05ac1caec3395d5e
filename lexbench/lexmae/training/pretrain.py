"""Pretraining: the masked autoencoder on corpora that are read from disk (paper, section 3)."""

from pathlib import Path

import torch

from lexbench.display.progress import Progress
from lexbench.lexmae.card import Data
from lexbench.lexmae.data.batches import Draws
from lexbench.lexmae.data.masking import MaskedTexts, Masking, collate
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.data.training_sets import open_texts
from lexbench.lexmae.model import start
from lexbench.lexmae.model.autoencoder import MaskedAutoencoder
from lexbench.lexmae.model.encoder import load_encoder
from lexbench.lexmae.recipe.settings import Paths, Pretrain, Recipe
from lexbench.lexmae.training import processes, publishing, resuming, trainer
from lexbench.storage.store import Store


def pretrain(recipe: Recipe, progress: Progress) -> Path:
    """Return the folder of the pretrained model, trained if it is not finished yet.

    It is an ordinary masked-language model; its decoder is beside it, in decoder.safetensors.
    """
    settings = recipe.pretrain
    assert settings is not None
    return resuming.finished_or_trained(
        recipe, "pretrained", settings, lambda state: _trained(recipe, settings, state, progress)
    )


def _trained(recipe: Recipe, settings: Pretrain, state: Path, progress: Progress) -> Path:
    """Pretrain the recipe's initial model, with checkpoints in *state*, and return the folder of the published model."""
    with processes.first_goes_first():
        initial = start.make(recipe, progress)
    torch.manual_seed(recipe.seed)
    encoder, tokenizer = load_encoder(initial)
    reader, store = TextReader(tokenizer, recipe.encoding), Store(on_wait=progress.note, on_damage=progress.note)
    tokens = open_texts(settings.corpora, recipe.leave_out, reader, store, progress)
    masking = Masking(settings, tokenizer.mask_token_id, len(tokenizer))
    texts = MaskedTexts(tokens, masking, tokenizer.all_special_ids, reader.silent)
    steps = trainer.steps(settings, len(texts))
    fit = trainer.Fit(f"{recipe.name} pretraining", settings, recipe.hardware, recipe.seed, steps, state)
    draws = Draws(texts.example, len(texts), fit.draws, recipe.seed, batch=settings.batch_size, lengths=texts.lengths)
    autoencoder = MaskedAutoencoder(encoder.language_model, settings)
    fitted = trainer.fit(autoencoder, draws, collate(reader.pad), fit, progress)
    data = [
        Data(dataset=name, use="pretraining", counts={"documents": len(corpus)})
        for name, corpus in dict(zip(settings.corpora, tokens, strict=True)).items()
    ]
    trained = publishing.Trained(encoder, tokenizer, autoencoder)
    facts = publishing.facts(fitted, steps, data)
    return publishing.publish(Paths(recipe).pretrained, recipe, "pretrained", trained, fitted.log, facts)
