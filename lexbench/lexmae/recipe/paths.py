"""Where the models, negatives and states of a recipe's trainings are."""

from dataclasses import dataclass
from pathlib import Path

from lexbench.lexmae.recipe.settings import Recipe


@dataclass(frozen=True)
class Paths:
    """The paths below `recipe.output`, existing or not. Models are ordinary folders of transformers."""

    recipe: Recipe

    @property
    def root(self) -> Path:
        """The folder of everything."""
        return Path(self.recipe.output)

    @property
    def start(self) -> Path:
        """The model that training begins with."""
        return self.root / "start"

    @property
    def pretrained(self) -> Path:
        """The model after pretraining, with its decoder."""
        return self.root / "pretrained"

    @property
    def vectors(self) -> Path:
        """The model after learning the vectors of a teacher."""
        return self.root / "vectors"

    def stage(self, number: int) -> Path:
        """Return the model after a stage of fine-tuning, 1 to 3."""
        return self.root / f"stage{number}"

    def negatives(self, number: int, dataset: str) -> Path:
        """Return the TREC run of the negatives that a stage uses for the queries of *dataset*, an id or a folder."""
        name = dataset.strip("/").replace("/", "-")
        return self.root / "negatives" / f"stage{number}" / f"{name}.trec.gz"

    def teacher_scores(self, number: int, dataset: str) -> Path:
        """Return the TREC run of the system that teaches a stage, likewise."""
        return self.negatives(number, dataset).with_name(f"teacher-{self.negatives(number, dataset).name}")

    def training(self, model: str) -> Path:
        """Return the state of the training of *model*, `pretrained` or `stage2`, while it goes on."""
        return self.root / f"{model}.training"
