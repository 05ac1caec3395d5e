"""Recipes: one TOML file says how a masked-language model becomes a retriever.

    settings   the sections and settings of a recipe, which of them go together, and the paths of what it makes
    files      finding and reading recipes, with their preset and with settings from the command line
    presets/   defaults: `paper` is LexMAE as its paper describes it, `code` as its authors' program trains it

Other packages import everything from here, e.g. `recipe.read(recipe.find("msmarco"))`.
"""

from lexbench.lexmae.recipe.files import find, read
from lexbench.lexmae.recipe.settings import (
    MODELS,
    STAGES,
    Encoding,
    ExactTerms,
    Fitting,
    Hardware,
    Paths,
    Pretrain,
    Recipe,
    Selection,
    Stage,
    Start,
    TextHead,
    placeholders,
)

__all__ = [
    "MODELS",
    "STAGES",
    "Encoding",
    "ExactTerms",
    "Fitting",
    "Hardware",
    "Paths",
    "Pretrain",
    "Recipe",
    "Selection",
    "Stage",
    "Start",
    "TextHead",
    "find",
    "placeholders",
    "read",
]
