"""How a trained model came to be: what its card and training.json say beyond its recipe."""

from typing import Literal

from lexbench.lexmae.recipe import Recipe
from lexbench.storage.reading import Strict

What = Literal["pretrained", "stage1", "stage2", "stage3"]


class Data(Strict, frozen=True):
    """A collection that the weights, or the choice among them, have seen something of."""

    dataset: str
    use: Literal["pretraining", "training", "selection"]
    counts: dict[str, int]  # of what was used, as {documents = 5048}, {queries = 80, pairs = 310}
    note: str = ""  # its licence, or what is special about it


class Loss(Strict, frozen=True):
    """One part of the loss, at the first and last step that were logged."""

    name: str
    first: float
    last: float


class Selected(Strict, frozen=True):
    """What the kept model reached where models were compared."""

    dataset: str
    measure: str
    value: float
    step: int


class Score(Strict, frozen=True):
    """One figure of the kept model, and how to get it again."""

    dataset: str
    measure: str
    value: float
    command: str
    interval: tuple[float, float] | None = None  # at 95 %


class Facts(Strict, frozen=True):
    """How a model came to be, beyond its recipe."""

    data: tuple[Data, ...]  # of this training and of those it goes on from
    steps: int
    seconds: float  # of the steps from *resumed* on
    machine: str
    versions: dict[str, str]  # package -> version
    resumed: int = 0  # the step that training went on from after a stop
    losses: tuple[Loss, ...] = ()
    selection: tuple[Selected, ...] = ()  # none: the weights of the last step were kept
    scores: tuple[Score, ...] = ()
    limits: tuple[str, ...] = ()  # sentences
    language: str = ""  # as the hub writes it: en
    base_model: str = ""  # on the hub, where the recipe starts from a folder


class Training(Strict, frozen=True):
    """The whole of training.json."""

    schema: Literal[1]
    what: What
    recipe: Recipe
    facts: Facts
