"""Imitation: a model learns the predictions of another sparse model, text by text, and keeps its own mean states.

A small retriever that was distilled on much data (splade-tiny) predicts good words, and a dense retriever (MiniLM) has good
mean states. A model that starts from the second and imitates the first has both, and its text head reads the mean states. No
query, judgement or negative is needed. The paper has nothing like it. See section `[imitation]` of a recipe.
"""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from lexbench.errors import CommandError
from lexbench.lexmae.card import Data
from lexbench.lexmae.data.batches import Draws
from lexbench.lexmae.data.tokens import TextReader, TokenisedCorpus
from lexbench.lexmae.data.training_sets import open_corpus
from lexbench.lexmae.model import start
from lexbench.lexmae.model.encoder import Learner, LexiconEncoder, Texts, in_groups, load_encoder, max_pool
from lexbench.lexmae.recipe.settings import Imitation, Paths, Recipe
from lexbench.lexmae.training import processes, publishing, resuming, text_head, trainer
from lexbench.models.added_terms import means
from lexbench.models.checkpoint import fetch_model, transformer_folder
from lexbench.progress import Progress
from lexbench.storage.store import Store

_SLOPE = 0.25  # of a logit below 0, for a word that the imitated model predicts


def imitate(recipe: Recipe, progress: Progress) -> Path:
    """Return the folder of the model that has learned to imitate another one, trained if it is not finished yet.

    It also has the text head of a recipe without stages. Raises CommandError if the two models have different word pieces.
    """
    settings = recipe.imitation
    assert settings is not None
    return resuming.finished_or_trained(recipe, "imitated", settings, lambda state: _trained(recipe, settings, state, progress))


def _trained(recipe: Recipe, settings: Imitation, state: Path, progress: Progress) -> Path:
    with processes.first_goes_first():
        initial = start.make(recipe, progress)
    torch.manual_seed(recipe.seed)
    encoder, tokenizer = load_encoder(initial)
    imitated, other_tokenizer = load_encoder(transformer_folder(fetch_model(settings.model)))
    if tokenizer.get_vocab() != other_tokenizer.get_vocab():
        raise CommandError(f"imitation.model: {settings.model} has other word pieces than {recipe.start.model}; name another")
    reader, store = TextReader(tokenizer, recipe.encoding), Store(on_wait=progress.note, on_damage=progress.note)
    corpora = [open_corpus(name, store, progress) for name in settings.corpora]
    texts = _Texts([reader.corpus(corpus, store, progress) for corpus in corpora], settings, recipe.seed)
    steps = trainer.steps(settings, len(texts))
    fit = trainer.Fit(f"{recipe.name} imitation", settings, recipe.hardware, recipe.seed, steps, state)
    draws = Draws(texts.example, len(texts), fit.draws, recipe.seed)
    learner = Imitator(encoder, imitated.to(processes.device(recipe.hardware)), settings)
    fitted = trainer.fit(learner, draws, reader.tensors, fit, progress)
    if recipe.text_head and not recipe.stage(1):
        rng = np.random.default_rng(recipe.seed)
        rows = [texts.example(index, rng) for index in rng.permutation(len(texts))[: recipe.text_head.texts].tolist()]
        encoder.text_head = text_head.train(encoder, reader, rows, recipe, progress)
    data = [
        Data(dataset=name, use="imitation", counts={"texts": len(corpus)})
        for name, corpus in zip(settings.corpora, corpora, strict=True)
    ]
    facts = publishing.facts(fitted, steps, [*publishing.learned_data(initial), *data])
    trained = publishing.Trained(encoder, tokenizer)
    return publishing.publish(Paths(recipe).imitated, recipe, "imitated", trained, fitted.log, facts)


class _Texts:
    """The texts of corpora in the shares that a recipe gives them, cut to its length."""

    def __init__(self, corpora: Sequence[TokenisedCorpus], settings: Imitation, seed: int) -> None:
        self.corpora, self.length = corpora, settings.length
        total, rng = sum(map(len, corpora)), np.random.default_rng(seed)
        shares = settings.shares or [len(corpus) / total for corpus in corpora]
        counts = [max(1, round(share / sum(shares) * total)) for share in shares]
        positions = [np.resize(rng.permutation(len(corpus)), count) for corpus, count in zip(corpora, counts, strict=True)]
        self._sources = np.repeat(np.arange(len(corpora)), counts)  # (texts,) index of the corpus
        self._positions = np.concatenate(positions)  # (texts,) in the corpus

    def __len__(self) -> int:
        """Return the number of texts per epoch; texts of a corpus with a large share occur several times."""
        return len(self._positions)

    def example(self, index: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the tokens of text number *index*. A cut text keeps its last token, the separator."""
        del rng
        row = self.corpora[self._sources[index]][int(self._positions[index])]
        return row if not 0 < self.length < len(row) else np.append(row[: self.length - 1], row[-1])


class Imitator(Learner):
    """An encoder with the distances to the predictions of another model and to its own first mean states."""

    def __init__(self, encoder: LexiconEncoder, imitated: LexiconEncoder, settings: Imitation) -> None:
        super().__init__()
        self.encoder, self.settings = encoder, settings
        if encoder.exact_terms is not None:
            encoder.exact_terms.requires_grad_(requires_grad=False)
        first = copy.deepcopy(encoder.language_model).to(next(imitated.parameters()).device)
        # In a tuple they are no submodules, so that they are neither trained nor saved.
        self._fixed = tuple(model.eval().requires_grad_(requires_grad=False) for model in (imitated, LexiconEncoder(first)))

    @property
    def rates(self) -> Mapping[str, float]:
        """Factors of the learning rate, by name of the parameter."""
        terms = {id(value) for value in self.encoder.term_parameters}
        return {name: self.settings.term_rate for name, value in self.named_parameters() if id(value) in terms}

    def forward(self, ids: Tensor, real: Tensor, pools: Tensor) -> dict[str, Tensor]:
        """Return the loss and its two parts, scalars. The arguments are (n, length), see `Texts`."""
        predictions, states = in_groups(self._distances, Texts(ids, real, pools)).mean(0)
        return {"loss": predictions + self.settings.keep_means * states, "predictions": predictions, "means": states}

    def _distances(self, texts: Texts) -> Tensor:
        """Return two distances of each text, (n, 2): of its predicted weights and of its mean state.

        The first is the square of the distance to the imitated weights, relative to the square of their length; the second is
        1 - cosine of the mean state and the one before training.
        """
        imitated, first = self._fixed
        with torch.no_grad():
            target = imitated.predicted(texts)
            mean = means(first.hidden(texts.ids, texts.real), texts.real)
        states = self.encoder.hidden(texts.ids, texts.real)
        logits = max_pool(self.encoder.transformed(states), *self.encoder.projection, texts.pools, few=True)
        # ReLU stops the gradient of a word that should be predicted and is not yet, so its logit counts below 0 too.
        below = _SLOPE * logits.clamp(max=0) * (target > 0)
        error = torch.log1p(functional.relu(logits)) + below - target
        distance = error.square().sum(1) / target.square().sum(1).clamp(min=1)
        return torch.stack([distance, 1 - (means(states, texts.real) * mean).sum(1)], dim=1)
