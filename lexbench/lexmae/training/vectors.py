"""Learning a teacher's vectors of documents and queries; what is learned is `lexbench.lexmae.model.vector_learner`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lexbench.errors import CommandError
from lexbench.lexmae.cards.facts import Data
from lexbench.lexmae.data.batches import Draws
from lexbench.lexmae.data.statistics import Statistics
from lexbench.lexmae.data.tokens import TextReader, TokenisedCorpus
from lexbench.lexmae.data.training_sets import open_corpus_of, open_training_set
from lexbench.lexmae.model import folders
from lexbench.lexmae.model.vector_learner import VectorLearner
from lexbench.lexmae.recipe import Paths, Recipe, Vectors
from lexbench.lexmae.training import publishing, resuming, trainer
from lexbench.lexmae.training.finetune import initial_model
from lexbench.models.checkpoint import fetch_model
from lexbench.models.loading import load_tokenizer
from lexbench.progress import Progress
from lexbench.storage.store import Store


class Text(NamedTuple):
    """A text to learn the vector of."""

    ids: NDArray[np.int64]  # (length,)
    corpus: int  # index of the corpus that it is of, or is asked of
    is_query: bool


@dataclass(frozen=True, eq=False)
class LearnedTexts:
    """The documents of several corpora, then queries: all texts whose vectors are learned."""

    corpora: Sequence[TokenisedCorpus]
    documents: Sequence[NDArray[np.int64]]  # of each corpus the positions that are learned
    queries: Sequence[tuple[int, Sequence[NDArray[np.int64]]]]  # index of a corpus, and the tokens of queries of it

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """Where the texts of each corpus, and then of each list of queries, end."""
        return np.cumsum([*map(len, self.documents), *(len(rows) for _, rows in self.queries)])

    def __len__(self) -> int:
        """Return the number of texts."""
        return int(self._ends[-1])

    def example(self, index: int, rng: np.random.Generator) -> Text:
        """Return one text; nothing is random in it."""
        del rng
        part = int(np.searchsorted(self._ends, index, side="right"))
        within = index - (int(self._ends[part - 1]) if part else 0)
        if part < len(self.documents):
            return Text(self.corpora[part][int(self.documents[part][within])], part, is_query=False)
        corpus, rows = self.queries[part - len(self.documents)]
        return Text(rows[within], corpus, is_query=True)


def collate(reader: TextReader) -> Callable[[Sequence[Text]], dict[str, Tensor]]:
    """Return the function that makes the arguments of `VectorLearner.forward` from texts."""

    def batch(texts: Sequence[Text]) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = reader.tensors([text.ids for text in texts])
        tensors["corpus"] = torch.tensor([text.corpus for text in texts])
        tensors["is_query"] = torch.tensor([text.is_query for text in texts])
        return tensors

    return batch


def learn_vectors(recipe: Recipe, progress: Progress) -> Path:
    """Return the folder of the model that has learned the teacher's vectors, trained if it is not finished yet.

    CannotStart where the model that it begins with is not there; CommandError where the teacher has other word pieces.
    """
    settings = recipe.vectors
    assert settings is not None
    return resuming.finished_or_trained(recipe, "vectors", settings, lambda state: _trained(recipe, settings, state, progress))


def _trained(recipe: Recipe, settings: Vectors, state: Path, progress: Progress) -> Path:
    initial = initial_model(recipe, settings.start, progress)
    torch.manual_seed(recipe.seed)
    encoder, tokenizer = folders.load_encoder(initial)
    teacher, reader = _teacher(settings.teacher, tokenizer), TextReader(tokenizer, recipe.encoding)
    texts, data = _texts(recipe, settings, reader, progress)
    statistics = Statistics.of(texts.corpora, encoder.config.vocab_size, special=2)
    steps = trainer.steps(settings, len(texts))
    fit = trainer.Fit(f"{recipe.name} vectors", settings, recipe.hardware, recipe.seed, steps, state)
    draws = Draws(texts.example, len(texts), fit.draws, recipe.seed)
    learner = VectorLearner(encoder, teacher, statistics, settings)
    fitted = trainer.fit(learner, draws, collate(reader), fit, progress)
    facts = publishing.facts(fitted, steps, [*publishing.data_of(initial), *data])
    trained = publishing.Trained(encoder, tokenizer)
    return publishing.publish(Paths(recipe).vectors, recipe, "vectors", trained, fitted.log, facts)


def _texts(recipe: Recipe, settings: Vectors, reader: TextReader, progress: Progress) -> tuple[LearnedTexts, list[Data]]:
    """Return the texts, and what the model's card says of them."""
    store = Store(on_wait=progress.note, on_damage=progress.note)
    corpora = [reader.corpus(open_corpus_of(name, store, progress), store, progress) for name in settings.corpora]
    documents = [_drawn(len(corpus), settings.most, recipe.seed) for corpus in corpora]
    queries, data = [], []
    for index, name in enumerate(settings.corpora):
        counts = {"documents": len(documents[index])}
        if name in settings.queries:
            known = open_training_set(name, store, progress).queries
            rows = reader.queries([known[position].text for position in _drawn(len(known), settings.most, recipe.seed)])
            queries.append((index, rows))
            counts["queries"] = len(rows)
        data.append(Data(dataset=name, use="vectors", counts=counts))
    return LearnedTexts(corpora, documents, queries), data


def _drawn(number: int, most: int, seed: int) -> NDArray[np.int64]:
    """Return at most *most* of the indices below *number*, 0: all; ascending, and the same for one seed."""
    order = np.random.default_rng((seed, number)).permutation(number)
    return np.sort(order[: most or None])


def _teacher(name: str, tokenizer: Any) -> Any:
    """Return the masked-language model *name*; CommandError where its word pieces are others than those of *tokenizer*."""
    folder = fetch_model(name)
    if load_tokenizer(folder).get_vocab() != tokenizer.get_vocab():
        raise CommandError(f"vectors.teacher: {name} has other word pieces than the model; give a teacher with the same ones")
    model, _ = folders.load(folder)
    return model
