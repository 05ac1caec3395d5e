"""How a trained model came to be, beyond its recipe: what its card and training.json tell."""

from typing import Literal

from lexbench.lexmae.recipe import Recipe
from lexbench.storage.reading import Strict

What = Literal["pretrained", "vectors", "stage1", "stage2", "stage3"]


class Data(Strict, frozen=True):
    """A collection that the weights have learned from, or were chosen by."""

    dataset: str
    use: Literal["pretraining", "vectors", "training", "selection"]
    counts: dict[str, int]  # of what was used, as {documents = 5048}, {queries = 80, pairs = 310}
    note: str = ""  # its licence, or what is special about it


class Loss(Strict, frozen=True):
    """One part of the loss, at the first and last step that were logged."""

    name: str
    first: float
    last: float


class Selected(Strict, frozen=True):
    """The score of the chosen model on what models were chosen by."""

    dataset: str
    measure: str
    value: float
    step: int


class Score(Strict, frozen=True):
    """One figure of the finished model, and the command that gives it again."""

    dataset: str
    measure: str
    value: float
    command: str
    interval: tuple[float, float] | None = None  # at 95 %


class Facts(Strict, frozen=True):
    """How a model came to be, beyond its recipe."""

    data: tuple[Data, ...]  # of this training and of those before it
    steps: int
    seconds: float  # that the steps from *resumed* on took
    machine: str
    versions: dict[str, str]  # package -> version
    resumed: int = 0  # step at which training last went on after a stop; 0: it was never stopped
    losses: tuple[Loss, ...] = ()
    selection: tuple[Selected, ...] = ()  # none: the weights of the last step were kept
    scores: tuple[Score, ...] = ()
    limits: tuple[str, ...] = ()  # sentences
    language: str = ""  # as the hub writes it: en
    base_model: str = ""  # on the hub, where the recipe starts from a folder


class Training(Strict, frozen=True):
    """What training.json holds."""

    schema: Literal[1]
    what: What
    recipe: Recipe
    facts: Facts
