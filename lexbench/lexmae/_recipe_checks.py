"""What a recipe must be besides well-typed: settings that have to go together."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lexbench.errors import LexbenchError
from lexbench.measures import parse as parse_measure
from lexbench.notation import parse

if TYPE_CHECKING:
    from lexbench.lexmae.recipe import Fitting, Pretrain, Recipe, Stage

_MODELS = ("start", "pretrained", "stage1", "stage2")  # in the order in which they are made
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_OF_RUN_FILE = "dataset"  # what a run_file(...) puts in by itself
_WHOLE = 1.0 + 1e-9  # shares such as 0.3 and 0.7 add up to this, or less


def complaints(recipe: "Recipe") -> Iterator[str]:
    """Yield what is wrong, as msgspec words it: the place last, as `$.stage1.start`."""
    if recipe.pretrain:
        yield from _fitting(recipe.pretrain, "pretrain", recipe.hardware.accumulate)
        yield from _masking(recipe.pretrain)
    for number in (1, 2, 3):
        if stage := recipe.stage(number):
            yield from _fitting(stage, f"stage{number}", recipe.hardware.accumulate)
            yield from _stage(stage, number, recipe)
    try:
        parse_measure(recipe.selection.measure)
    except LexbenchError as error:
        yield f"{error} - at `$.selection.measure`"


def placeholders(text: str) -> list[str]:
    """Return the models that *text*, a stage's `negatives`, names in braces."""
    return [name for name in _PLACEHOLDER.findall(text) if name != _OF_RUN_FILE]


def _fitting(fitting: "Fitting", place: str, pieces: int) -> Iterator[str]:
    if bool(fitting.steps) == bool(fitting.epochs):
        given = "both are" if fitting.steps else "neither is"
        yield f"Expected `steps` or `epochs` above 0, and {given} - at `$.{place}`"
    if fitting.batch_size % pieces:
        yield f"Expected a multiple of `hardware.accumulate`, {pieces} - at `$.{place}.batch_size`"


def _masking(pretrain: "Pretrain") -> Iterator[str]:
    encoder, decoder = pretrain.encoder_share, pretrain.decoder_share
    if pretrain.masking == "inclusive" and decoder < encoder:
        yield f"Inclusive masking needs at least the encoder's share, {encoder:g} - at `$.pretrain.decoder_share`"
    if pretrain.masking == "exclusive" and encoder + decoder > _WHOLE:
        most = f"{1 - encoder:g}"
        yield f"Exclusive masking leaves at most {most} - at `$.pretrain.decoder_share`"


def _stage(stage: "Stage", number: int, recipe: "Recipe") -> Iterator[str]:
    place = f"`$.stage{number}"
    earlier = _MODELS[: number + 1]
    made = [name for name in earlier if _makes(recipe, name)]
    asked = [(stage.start, "start"), *((name, "negatives") for name in placeholders(stage.negatives))]
    for name, key in asked:
        if name not in earlier:
            yield f"Stage {number} comes before any model {name!r}; there is: {', '.join(made)} - at {place}.{key}`"
        elif name not in made:
            section = "pretrain" if name == "pretrained" else name
            yield f"The recipe makes no model {name!r}: it has no [{section}]; there is: {', '.join(made)} - at {place}.{key}`"
    try:
        parse(_PLACEHOLDER.sub("x", stage.negatives))
    except LexbenchError as error:
        yield f"{error} - at {place}.negatives`"


def _makes(recipe: "Recipe", model: str) -> bool:
    sections = {"start": recipe.start, "pretrained": recipe.pretrain, "stage1": recipe.stage1, "stage2": recipe.stage2}
    return sections[model] is not None
