"""Imitation: a model learns the predictions of another sparse model, text by text, and keeps its own mean states.

A small retriever that was distilled on much data (splade-tiny) predicts good words, and a dense retriever (MiniLM) has good
mean states. A model that starts from the second and imitates the first has both, and its text head reads the mean states. No
query, judgement or negative is needed. The paper has nothing like it. See section `[imitation]` of a recipe, and `ranking`,
which adds the ranking of texts.
"""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from lexbench.artifacts.graph import Graph
from lexbench.errors import CommandError
from lexbench.lexmae.card import SeenCollection
from lexbench.lexmae.data.batches import Draws
from lexbench.lexmae.data.tokens import TextReader, TokenisedCorpus
from lexbench.lexmae.data.training_sets import open_corpus, open_texts
from lexbench.lexmae.model import heads, start
from lexbench.lexmae.model.encoder import Learner, LexiconEncoder, Texts, load_encoder, max_pool
from lexbench.lexmae.model.whole_batch import gathered, texts_in_pieces
from lexbench.lexmae.recipe.settings import Imitation, Recipe
from lexbench.lexmae.training import processes, publishing, query_table, ranking, resuming, text_head, trainer
from lexbench.lexmae.training.publishing import TrainedModel
from lexbench.models.added_terms import means
from lexbench.models.checkpoint import fetch_model, transformer_folder

_SCALE = 0.3  # of scores in the softmax, before training
_FITTED = 1_000  # texts that decide the first head
_DISTANCES = 3  # of a text, in the loss
_SLOPE = 0.25  # of a logit below 0, for a word that the imitated model predicts


def train(recipe: Recipe, state: Path, graph: Graph) -> TrainedModel:
    """Return the initial model after it has learned to imitate another one, with checkpoints in *state*.

    It also has the text head of a recipe without stages. Raises CommandError if the two models have different word pieces.
    """
    settings, initial = recipe.imitation, recipe.folder("start")
    assert settings is not None
    torch.manual_seed(recipe.seed)
    encoder, tokenizer = load_encoder(initial)
    imitated = _imitated(settings.model, encoder, tokenizer, recipe.start.model)
    reader, progress = TextReader(tokenizer, recipe.encoding), graph.progress
    with processes.first_goes_first():
        corpora = open_texts(settings.corpora, recipe.leave_out, reader, graph)
        fingerprints = [open_corpus(name, graph).fingerprint for name in settings.corpora]
        models: list[str | Path] = [initial, settings.model, *([recipe.ranking.model] if recipe.ranking else [])]
        resuming.check_data(state, fingerprints, models)
    texts = _Texts(corpora, settings, recipe.seed)
    steps = trainer.steps(settings, len(texts))
    of_states = heads.project_like(encoder, imitated, reader, texts.rows()[:_FITTED]) if settings.states else None
    fit = trainer.Fit(f"{recipe.name} imitation", settings, recipe.hardware, recipe.seed, steps, state)
    imitated = imitated.to(processes.device(recipe.hardware)).eval()
    if recipe.ranking:
        drawn = _Texts(texts.corpora, settings, recipe.seed, recipe.ranking.texts)
        rows = drawn.rows()
        idf = start.inverse_document_frequencies(texts.corpora, len(encoder.embeddings))
        whole = recipe.encoding.query_counts == "whole"
        vectors = ranking.dense_vectors(rows, reader, recipe.ranking.model, recipe.hardware, state, progress)
        given = (rows, drawn.sources, reader, recipe.ranking, vectors)
        if recipe.ranking.queries:
            asking = [number for number, name in enumerate(settings.corpora) if name in recipe.ranking.queries]
            is_query = np.isin(drawn.sources, asking)
            groups: ranking.Groups = query_table.QueryGroups(*given, is_query)
            added = query_table.added_words(imitated, reader, recipe.ranking)
            learner: Learner = query_table.TableRanker(encoder, imitated, settings, idf, added, whole_counts=whole)
        else:
            groups = ranking.Groups(*given)
            learner = Imitator(encoder, imitated, settings, idf**ranking.QUERY_IDF, of_states, whole_counts=whole)
        fitted = trainer.fit(
            learner, Draws(groups.example, groups.seeds, fit.draws, recipe.seed), groups.tensors, fit, progress
        )
        if isinstance(learner, query_table.TableRanker):
            encoder.query_table = learner.table.detach().cpu()
            encoder.query_expansions = learner.expansions(tokenizer)
    else:
        learner = Imitator(encoder, imitated, settings, of_states=of_states)
        fitted = trainer.fit(learner, Draws(texts.example, len(texts), fit.draws, recipe.seed), reader.tensors, fit, progress)
    if settings.start_share:
        average(encoder, load_encoder(initial)[0], settings.start_share)
    if recipe.text_head and not recipe.stage(1):
        rows = _Texts(texts.corpora, settings, recipe.seed, recipe.text_head.texts).rows()
        encoder.text_head = text_head.train(encoder, reader, rows, recipe, progress)
    data = [
        SeenCollection(dataset=name, use="imitation", counts={"texts": len(corpus)})
        for name, corpus in zip(settings.corpora, corpora, strict=True)
    ]
    facts = publishing.facts(recipe.hardware, fitted, steps, [*publishing.learned_data(initial), *data])
    return TrainedModel(encoder, tokenizer, fitted.log, facts)


def _imitated(name: str, encoder: LexiconEncoder, tokenizer: Any, start: str) -> LexiconEncoder:
    """Return the model *name*. Raises CommandError if its words are not those of *encoder*, which starts from *start*."""
    imitated, other = load_encoder(transformer_folder(fetch_model(name)))
    if tokenizer.get_vocab() != other.get_vocab():
        raise CommandError(f"imitation.model: {name} has other word pieces than {start}; name another")
    if len(encoder.embeddings) != len(imitated.embeddings):  # e.g. one of them is padded to a multiple of 64
        sizes = f"{len(imitated.embeddings):,} logits, and {start} {len(encoder.embeddings):,}"
        raise CommandError(f"imitation.model: {name} has {sizes}; name one with the same vocab_size")
    return imitated


@torch.no_grad()
def average(encoder: LexiconEncoder, initial: LexiconEncoder, share: float) -> None:
    """Move the masked-language model of *encoder* in place towards that of *initial*, by this *share* of the way."""
    weights = dict(initial.language_model.named_parameters())
    for name, trained in encoder.language_model.named_parameters():
        trained.lerp_(weights[name].to(trained.device), share)


class _Texts:
    """The texts of corpora in the shares that a recipe gives them, cut to its length."""

    def __init__(self, corpora: Sequence[TokenisedCorpus], settings: Imitation, seed: int, most: int = 0) -> None:
        """Take an epoch's texts, of which those of a corpus with a large share occur several times.

        With *most* take about that many, or fewer if corpora are small: each occurs once.
        """
        self.corpora, self.length = corpora, settings.length
        total, rng = sum(map(len, corpora)), np.random.default_rng(seed)
        shares = settings.shares or [len(corpus) / total for corpus in corpora]
        counts = [max(1, round(share / sum(shares) * (most or total))) for share in shares]
        if most:
            counts = [min(count, len(corpus)) for count, corpus in zip(counts, corpora, strict=True)]
        positions = [np.resize(rng.permutation(len(corpus)), count) for corpus, count in zip(corpora, counts, strict=True)]
        order = rng.permutation(sum(counts))
        self.sources = np.repeat(np.arange(len(corpora)), counts)[order]  # (texts,) index of the corpus
        self._positions = np.concatenate(positions)[order]  # (texts,) in the corpus

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._positions)

    def rows(self) -> list[NDArray[np.int64]]:
        """Return the tokens of all texts."""
        return [self.row(index) for index in range(len(self))]

    def example(self, index: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the tokens of text number *index*, of which nothing is drawn."""
        del rng
        return self.row(index)

    def row(self, index: int) -> NDArray[np.int64]:
        """Return the tokens of text number *index*. A cut text keeps its last token, the separator."""
        row = self.corpora[self.sources[index]][int(self._positions[index])]
        return row if not 0 < self.length < len(row) else np.append(row[: self.length - 1], row[-1])


class Imitator(Learner):
    """An encoder with the distances to the predictions of another model and to its own first mean states.

    For batches to rank it needs *idf* (vocabulary,), which multiplies queries; with *whole_counts* the exact terms of queries
    are not saturated.
    """

    idf: Tensor

    def __init__(
        self,
        encoder: LexiconEncoder,
        imitated: LexiconEncoder,
        settings: Imitation,
        idf: Tensor | None = None,
        of_states: nn.Linear | None = None,
        *,
        whole_counts: bool = False,
    ) -> None:
        super().__init__()
        self.encoder, self.settings = encoder, settings
        if encoder.exact_terms is not None:
            encoder.exact_terms.requires_grad_(requires_grad=False)
        first = copy.deepcopy(encoder.language_model).to(next(imitated.parameters()).device)
        # In a tuple they are no submodules, so that they are neither trained nor saved.
        self._fixed = tuple(model.eval().requires_grad_(requires_grad=False) for model in (imitated, LexiconEncoder(first)))
        self.of_states = of_states
        if idf is not None:
            self.register_buffer("idf", idf, persistent=False)
            self.whole_counts = whole_counts
            self.scale = nn.Parameter(torch.tensor(_SCALE).log())  # of scores in the softmax

    @property
    def rates(self) -> Mapping[str, float]:
        """Factors of the learning rate, by name of the parameter."""
        terms = {id(value) for value in self.encoder.term_parameters}
        own = ("scale", "of_states.weight", "of_states.bias")
        return {name: self.settings.term_rate for name, value in self.named_parameters() if id(value) in terms or name in own}

    def forward(
        self,
        ids: Tensor,
        real: Tensor,
        pools: Tensor,
        vectors: Tensor | None = None,
        weights: Tensor | None = None,
        numbers: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the loss and its parts, scalars. The first three arguments are (n, length), see `Texts`.

        *vectors* (n, width), *weights* (n, 2) and *numbers* (n,) are those of texts to rank, see `ranking.divergence`; the
        second weight of a text multiplies its distance to the imitated predictions. A number that several processes have is one
        text, and counts once.
        """
        texts = Texts(ids, real, pools)
        if vectors is None or weights is None or numbers is None:
            return self._losses(gathered(texts_in_pieces(self._distances, self.pieces, texts)))
        compared = texts_in_pieces(self._compared, self.pieces, texts)
        predicted, imitated = compared[:, _DISTANCES:].chunk(2, dim=1)
        distances = compared[:, :_DISTANCES] * functional.pad(weights[:, 1:], (0, _DISTANCES - 1), value=1.0)
        first = ranking.first_of_each(gathered(numbers))
        with torch.autocast(ids.device.type, enabled=False):
            queries, documents = self._both_roles(predicted, texts)
            losses = self._losses(gathered(distances)[first])
            scores = self.scale.exp() * (gathered(queries)[first] @ gathered(documents)[first].T)
            taught, dense, shares = (gathered(rows)[first] for rows in (imitated, vectors, weights[:, 0]))
            itself = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
            divergence = ranking.divergence(scores, taught @ taught.T, dense @ dense.T, shares, itself)
        return {**losses, "loss": divergence + losses["loss"], "ranking": divergence}

    def _losses(self, distances: Tensor) -> dict[str, Tensor]:
        """Return the loss and its parts from the *distances* of texts (n, 3)."""
        predictions, means, states = distances.mean(0)
        loss = predictions + self.settings.keep_means * means + self.settings.states * states
        return {"loss": loss, "predictions": predictions, "means": means} | ({"states": states} if self.of_states else {})

    def _both_roles(self, predicted: Tensor, texts: Texts) -> tuple[Tensor, Tensor]:
        """Return the weights of *texts* as queries and as documents, each (n, vocabulary) like their *predicted* weights."""
        exact = self.encoder.exact_terms
        queries = exact(predicted, texts.ids, texts.pools, whole=self.whole_counts) if exact else predicted
        return queries * self.idf, self.encoder.with_exact_terms(predicted, texts)

    def _distances(self, texts: Texts) -> Tensor:
        """Return three distances of each text (n, 3), see `_compared`."""
        return self._compared(texts)[:, :_DISTANCES]

    def _compared(self, texts: Texts) -> Tensor:
        """Return three distances of each text, its predicted weights and the imitated ones, (n, 3 + 2 vocabulary).

        The first distance is that of predicted weights, squared, relative to the square of their length; the second is
        1 - cosine of the mean state and the one before training; the third is that of the states that a linear map makes of its
        own to the states that the imitated model projects, squared, relative to the square of their length.
        """
        imitated, first = self._fixed
        states = self.encoder.hidden(texts.ids, texts.real)
        with torch.no_grad():
            imitated_states = imitated.transformed(imitated.hidden(texts.ids, texts.real))
            target = torch.log1p(functional.relu(max_pool(imitated_states, *imitated.projection, texts.pools, few=True)))
            mean = means(first.hidden(texts.ids, texts.real), texts.real)
        apart = 1 - (means(states, texts.real) * mean).sum(1)
        logits = max_pool(self.encoder.transformed(states), *self.encoder.projection, texts.pools, few=True)
        # ReLU stops the gradient of a word that should be predicted and is not yet, so its logit counts below 0 too.
        below = _SLOPE * logits.clamp(max=0) * (target > 0)
        predicted = torch.log1p(functional.relu(logits))
        distance = (predicted + below - target).square().sum(1) / target.square().sum(1).clamp(min=1)
        far = torch.zeros_like(distance)
        if self.of_states:
            counts = texts.pools[:, :, None]
            difference = (self.of_states(states) - imitated_states).float() * counts
            far = difference.square().sum((1, 2)) / (imitated_states.float() * counts).square().sum((1, 2)).clamp(min=1)
        return torch.cat([torch.stack([distance, apart, far], dim=1), predicted, target], dim=1)
