"""Pretraining: the masked autoencoder on corpora that are read from disk (paper, section 3)."""

from pathlib import Path

import torch

from lexbench.artifacts.graph import Graph
from lexbench.lexmae.card import SeenCollection
from lexbench.lexmae.data.batches import Draws
from lexbench.lexmae.data.masking import MaskedTexts, Masking, collate
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.data.training_sets import open_corpus, open_texts
from lexbench.lexmae.model.autoencoder import MaskedAutoencoder
from lexbench.lexmae.model.encoder import load_encoder
from lexbench.lexmae.recipe.settings import Recipe
from lexbench.lexmae.training import processes, publishing, resuming, trainer
from lexbench.lexmae.training.publishing import TrainedModel


def train(recipe: Recipe, state: Path, graph: Graph) -> TrainedModel:
    """Pretrain the recipe's initial model, with checkpoints in *state*.

    The result is an ordinary masked-language model; its decoder is kept beside it, in decoder.safetensors.
    """
    settings = recipe.pretrain
    assert settings is not None
    torch.manual_seed(recipe.seed)
    encoder, tokenizer = load_encoder(recipe.folder("start"))
    reader = TextReader(tokenizer, recipe.encoding)
    with processes.first_goes_first():
        tokens = open_texts(settings.corpora, recipe.leave_out, reader, graph)
        fingerprints = [open_corpus(name, graph).fingerprint for name in settings.corpora]
        resuming.check_data(state, fingerprints, [recipe.folder("start")])
    masking = Masking(settings, tokenizer.mask_token_id, len(tokenizer))
    texts = MaskedTexts(tokens, masking, tokenizer.all_special_ids, reader.silent)
    steps = trainer.steps(settings, len(texts))
    fit = trainer.Fit(f"{recipe.name} pretraining", settings, recipe.hardware, recipe.seed, steps, state)
    draws = Draws(texts.example, len(texts), fit.draws, recipe.seed, batch=settings.batch_size, lengths=texts.lengths)
    autoencoder = MaskedAutoencoder(encoder.language_model, settings)
    fitted = trainer.fit(autoencoder, draws, collate(reader.pad), fit, graph.progress)
    data = [
        SeenCollection(dataset=name, use="pretraining", counts={"documents": len(corpus)})
        for name, corpus in dict(zip(settings.corpora, tokens, strict=True)).items()
    ]
    return TrainedModel(encoder, tokenizer, fitted.log, publishing.facts(recipe.hardware, fitted, steps, data), autoencoder)
