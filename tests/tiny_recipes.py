"""Makes recipes of LexMAE's training for tests, with defaults for all settings that a recipe must have."""

from lexbench.lexmae.recipe.settings import Pretrain, Recipe, Stage, Start


def pretraining(**settings) -> Pretrain:
    """Return a section [pretrain], by default of one step with one text."""
    return Pretrain(**{"corpora": ("any",), "steps": 1, "batch_size": 1, "learning_rate": 1.0} | settings)


def stage(**settings) -> Stage:
    """Return a section of a stage, by default of two queries per batch and without FLOPS; give its steps or epochs."""
    known = {"queries": ("any",), "batch_size": 2, "learning_rate": 1e-3, "negatives": "bm25", "depth": 3}
    return Stage(**known | {"lambda_d": 0.0, "lambda_q": 0.0} | settings)


def recipe(**sections) -> Recipe:
    """Return a recipe with these sections and settings."""
    return Recipe(**{"schema": 1, "name": "tiny", "output": "out", "start": Start(model="none/such")} | sections)
