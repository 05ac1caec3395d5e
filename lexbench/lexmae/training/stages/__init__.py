"""The kinds of stages of fine-tuning. One file a kind: a class named as its file, which trains the sections of one type.

    ranking   trains a `Stage`: relevant documents are ranked above negatives, and as a teacher ranks them if there is one

A further kind is a further file, and the type of its section in a recipe.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from lexbench.lexmae.cards.facts import Data
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.data.training_sets import TrainingSet
from lexbench.lexmae.model.encoder import LexiconEncoder
from lexbench.lexmae.model.learner import Learner
from lexbench.lexmae.recipe import Fitting, Recipe
from lexbench.lexmae.training.kinds import kinds
from lexbench.progress import Progress
from lexbench.storage.store import Store


class StageKind(ABC):
    """One stage, its data opened: the examples, how they become a batch, and the model with its loss."""

    section: ClassVar[type[Fitting]]  # of a recipe, which this kind trains

    @abstractmethod
    def __init__(self, recipe: Recipe, number: int, reader: TextReader, store: Store, progress: Progress) -> None:
        """Open what stage *number* learns from, through the *store*; what is missing is made."""

    @property
    @abstractmethod
    def training_sets(self) -> Sequence[TrainingSet]:
        """The training sets, some of whose queries the recipe may hold out to choose models by."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of examples of an epoch."""

    @abstractmethod
    def draw(self, example: int, rng: np.random.Generator) -> Any:
        """Return one example; *rng* decides whatever is random in it."""

    @abstractmethod
    def collate(self, examples: Sequence[Any]) -> dict[str, Any]:
        """Return a batch of examples as the keyword arguments of the model's forward."""

    @abstractmethod
    def model(self, encoder: LexiconEncoder, steps: int) -> Learner:
        """Return the model that is trained for *steps*; its `forward` takes `step` beside a batch."""

    @abstractmethod
    def data(self) -> Iterator[Data]:
        """Yield what the stage learns from, for the model's card."""


def kind_of(section: Fitting) -> type[StageKind]:
    """Return the kind of stage that trains a *section* of a recipe."""
    kind: type[StageKind] = next(kind for kind in kinds(__name__) if isinstance(section, kind.section))
    return kind
