"""Recipes: what is trained on what, and how. One TOML file leads from a masked-language model to a retriever.

    settings   the sections and settings of a recipe, and what must go together
    files      a recipe by name or path, with its preset and with settings from the command line
    paths      where its models and negatives are
    presets/   values for settings that a recipe leaves out: `paper` is LexMAE as its paper describes it, `code` as its
               authors' program trains it; they differ in exactly the settings in which those two disagree

Other packages take all of this from here, as `recipe.read(recipe.find("msmarco"))`.
"""

from lexbench.lexmae.recipe.files import find, read
from lexbench.lexmae.recipe.paths import Paths
from lexbench.lexmae.recipe.settings import (
    SECTIONS,
    Encoding,
    ExactTerms,
    Fitting,
    Hardware,
    Pretrain,
    Recipe,
    Selection,
    Stage,
    Start,
    Vectors,
    placeholders,
)

__all__ = [
    "SECTIONS",
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
    "Vectors",
    "find",
    "placeholders",
    "read",
]
