"""What a recipe will take, before any work: operations, time, memory and disk. Pure arithmetic.

Operations are those of matrices: two for a weight and a token, and four more for the gradients (J. Kaplan et al. 2020, "Scaling
Laws for Neural Language Models", section 2.1). With N weights in the body, width h, vocabulary V and texts of T tokens:

    a text that is trained on    6 (N + h^2) T + 2 h V T + 4 h V     its maxima are looked for at every position, and have
                                                                      gradients at one a word
    masked words                 6 h V each
    the decoder's                6 (N_d + h^2) T + its masked words
    a text that is encoded       2 (N + h^2 + h V) T
    a text of a teacher          2 N T                               it is taken to be as large as the model

Every text is taken to be as long as it may be. Attention's products of tokens with tokens are left out: 3 % at 144 tokens.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lexbench import registry
from lexbench.lexmae.recipe import Fitting, Pretrain, Recipe, Stage
from lexbench.lexmae.shapes import Shape
from lexbench.lexmae.sizes import Size
from lexbench.lexmae.work import Part
from lexbench.notation import parse

SLOW, FAST = 0.15, 0.5  # share of the rate of a matrix product; about 0.2 by the paper's 14 hours on eight A100s
_OPTIMISED = 16  # bytes of a parameter: weight, gradient and AdamW's two moments, float32
_SAVED, _RESUMED = 4, 12  # bytes of a parameter in a model's folder; in a state of training, of which two are kept
_STATES = 34  # bytes of a layer's activations for a token and a unit of width, at 16 bits (V. Korthikanti et al. 2022, Eq. 2)
_POOLED = 16  # bytes of a text and a word: the maximum, its place, and the weight with its gradient
_LOGIT = 8  # bytes of a masked word and a word it may be: logit and gradient
_TEXT, _INDEX, _VECTOR = 600, 900, 800  # bytes of a document in the store, as `lexbench run` takes them
_TOKEN = 2  # bytes
_FOUND = 16  # bytes of a document in a compressed run


class Machine(NamedTuple):
    """What trains."""

    name: str
    precision: str
    rate: float  # operations a second of a matrix product, on one device
    memory: int  # bytes, of one device
    devices: int = 1


class Row(NamedTuple):
    """What a part takes; None where it depends on what nobody knows, or is not counted."""

    part: str
    texts: int | None  # drawn in training, or encoded
    steps: int | None
    tokens: int | None
    operations: float | None
    seconds: tuple[float, float] | None
    memory: int | None  # bytes, of one device
    disk: int | None  # bytes


def estimate(
    recipe: Recipe, parts: Sequence[Part], shape: Shape, sizes: Mapping[Part, Mapping[str, Size]], machine: Machine
) -> list[Row]:
    """Return a row for each of *parts* but the start; *sizes* is what each of them reads, by name."""
    rows = []
    for part in parts:
        stage = recipe.stage(part.stage) if part.stage else None
        if part.kind == "pretrain" and recipe.pretrain:
            rows.append(_pretrain(recipe, recipe.pretrain, shape, sizes[part], machine))
        elif stage:
            counted = _mine if part.kind == "mine" else _finetune
            mine = {name: sizes[part][name] for name in stage.queries}
            rows.append(counted(recipe, stage, shape, mine, machine)._replace(part=str(part)))
    return rows


def _pretrain(recipe: Recipe, asked: Pretrain, shape: Shape, sizes: Mapping[str, Size], machine: Machine) -> Row:
    documents = total(size.documents for size in sizes.values())
    steps, texts = _drawn(asked, documents)
    length, width = recipe.encoding.document_length, shape.width
    projected = width * shape.vocabulary
    masked = (asked.encoder_share + asked.decoder_share) * length
    decoder = asked.decoder_layers * shape.layer + width**2
    each = 6 * (shape.body + width**2 + decoder) * length + 6 * projected * masked
    pools = asked.bottleneck in {"softmax", "saturated"}
    each += (2 * length + 4) * projected if pools else 0
    piece = asked.batch_size / machine.devices / recipe.hardware.accumulate
    activations = piece * (_activations(shape, asked.decoder_layers, length, machine) + masked * shape.vocabulary * _LOGIT)
    activations += piece * shape.vocabulary * _POOLED if pools else 0
    weights = shape.parameters + decoder
    disk = None if documents is None else weights * (_SAVED + 2 * _RESUMED) + documents * (_TEXT + length * _TOKEN)
    memory = round(weights * _OPTIMISED + activations)
    return _row("pretrain", (texts, steps, length), each, memory, disk, machine)


def _finetune(recipe: Recipe, stage: Stage, shape: Shape, sizes: Mapping[str, Size], machine: Machine) -> Row:
    pairs = total(size.relevant if stage.pairs == "all" else size.queries for size in sizes.values())
    trained = None if pairs is None else round(pairs * (1 - recipe.selection.held_out))
    steps, queries = _drawn(stage, trained)
    encoding, width = recipe.encoding, shape.width
    length = stage.documents * encoding.document_length + encoding.query_length  # of a query with its documents
    projected = width * shape.vocabulary
    each = 6 * (shape.body + width**2) * length + projected * (2 * length + 4 * (stage.documents + 1))
    if stage.teacher:
        each += 2 * shape.body * stage.documents * (encoding.document_length + encoding.query_length)
    piece = stage.batch_size / machine.devices / recipe.hardware.accumulate
    activations = piece * (_activations(shape, 0, length, machine) + (stage.documents + 1) * shape.vocabulary * _POOLED)
    memory = round(shape.parameters * (_OPTIMISED + (_SAVED if stage.teacher else 0)) + activations)
    row = _row("", (queries, steps, length), each, memory, shape.parameters * (_SAVED + 2 * _RESUMED), machine)
    return row._replace(texts=None if queries is None else queries * (stage.documents + 1))


def _mine(recipe: Recipe, stage: Stage, shape: Shape, sizes: Mapping[str, Size], machine: Machine) -> Row:
    documents, queries = (total(getattr(size, name) for size in sizes.values()) for name in ("documents", "queries"))
    encodes = parse(stage.negatives).head.name not in registry.names("retrievers")
    length = recipe.encoding.document_length
    disk = None
    if documents is not None and queries is not None:
        disk = documents * (_TEXT + _INDEX + (_VECTOR if encodes else 0)) + queries * stage.depth * _FOUND
    if not encodes:
        return Row("", documents, None, None, None, None, None, disk)
    each = 2 * (shape.body + shape.width**2 + shape.width * shape.vocabulary) * length
    return _row("", (documents, None, length), each, None, disk, machine)


def _drawn(fitting: Fitting, examples: int | None) -> tuple[int | None, int | None]:
    """Return the number of steps, and of examples drawn in all."""
    if not fitting.steps and examples is None:
        return None, None
    steps = fitting.steps or math.ceil(fitting.epochs * (examples or 0) / fitting.batch_size)
    return steps, steps * fitting.batch_size


def _activations(shape: Shape, more_layers: int, length: int, machine: Machine) -> float:
    """Return the bytes that the layers keep of *length* tokens for the gradients."""
    wide = 2 if machine.precision == "fp32" else 1
    return wide * _STATES * shape.width * (shape.layers + more_layers) * length


def _row(
    part: str, drawn: tuple[int | None, int | None, int], each: float, memory: int | None, disk: int | None, machine: Machine
) -> Row:
    """Return the row of *drawn*: examples, steps, and tokens an example; each of them takes so many operations."""
    examples, steps, length = drawn
    if examples is None:
        return Row(part, None, steps, None, None, None, memory, disk)
    operations = examples * each
    rate = machine.rate * machine.devices
    seconds = (operations / rate / FAST, operations / rate / SLOW)
    return Row(part, examples, steps, examples * length, operations, seconds, memory, disk)


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum, None where one of *counts* is unknown."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)
