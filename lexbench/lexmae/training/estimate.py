"""What a recipe will take, before any work: operations, time, memory and disk. Arithmetic, and the measured speed of a machine.

Operations are those of matrices: two for a weight and a token, and four more for the gradients (J. Kaplan et al. 2020, "Scaling
Laws for Neural Language Models", section 2.1). With N weights in the body, width h, vocabulary V and texts of T tokens:

    a text that is trained on    6 (N + h^2) T + 2 h V T + 4 h V     its maxima are looked for at every position, and have
                                                                      gradients at one a word
    masked words                 6 h V each
    the decoder's                6 (N_d + h^2) T + its masked words
    a text that is encoded       2 (N + h^2 + h V) T
    a text of a teacher          2 N T                               it is taken to be as large as the model; of one whose
                                                                      vectors are learned 2 (N + h^2 + h V) T

Every text is taken to be as long as it may be. Attention's products of tokens with tokens are left out: 3 % at 144 tokens.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch

from lexbench import registry
from lexbench.lexmae.data.sizes import Size
from lexbench.lexmae.model import shape as shapes
from lexbench.lexmae.model.shape import Shape
from lexbench.lexmae.recipe import Fitting, Hardware, Pretrain, Recipe, Stage, Vectors
from lexbench.lexmae.training import plan, processes
from lexbench.lexmae.training.plan import Task
from lexbench.notation import parse
from lexbench.storage import environment

SLOW, FAST = 0.15, 0.5  # share of the rate of a matrix product; about 0.2 by the paper's 14 hours on eight A100s
_OPTIMISED = 16  # bytes of a parameter: weight, gradient and AdamW's two moments, float32
_SAVED, _RESUMED = 4, 12  # bytes of a parameter in a model's folder; in a state of training, of which two are kept
_STATES = 34  # bytes of a layer's activations for a token and a unit of width, at 16 bits (V. Korthikanti et al. 2022, Eq. 2)
_POOLED = 16  # bytes of a text and a word: the maximum, its position, and the weight with its gradient
_LOGIT = 8  # bytes of a masked word and a word it may be: logit and gradient
_TEXT, _INDEX, _VECTOR = 600, 900, 800  # bytes of a document in the store, as `lexbench run` takes them
_TOKEN = 2  # bytes
_HIT = 16  # bytes of a document in a compressed run
_SIDE = {"cpu": 1024, "cuda": 8192, "mps": 2048}  # of a matrix that is multiplied: large enough for the device's best
_SECONDS = 1.0  # of multiplying
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Machine(NamedTuple):
    """What trains."""

    name: str
    precision: str
    rate: float  # operations a second of a matrix product, on one device
    memory: int  # bytes, of one device
    devices: int = 1


class Cost(NamedTuple):
    """What a task takes; None where it depends on what nobody knows, or is not counted."""

    part: str  # the task, as the command that does it
    texts: int | None  # drawn in training, or encoded
    steps: int | None
    tokens: int | None
    operations: float | None
    seconds: tuple[float, float] | None
    memory: int | None  # bytes, of one device
    disk: int | None  # bytes


class Estimate(NamedTuple):
    """What the tasks of a recipe take with this model on this machine."""

    shape: Shape
    machine: Machine
    costs: list[Cost]


def estimate(recipe: Recipe, tasks: Sequence[Task]) -> Estimate:
    """Return what *tasks* take on this machine, whose speed is measured now; errors are those of finding the data."""
    shape, machine = shapes.of_recipe(recipe), measured(recipe.hardware)
    return Estimate(shape, machine, costs(recipe, tasks, shape, {task: plan.data(recipe, task) for task in tasks}, machine))


def costs(
    recipe: Recipe, tasks: Sequence[Task], shape: Shape, sizes: Mapping[Task, Mapping[str, Size]], machine: Machine
) -> list[Cost]:
    """Return the cost of each of *tasks* but the start; *sizes* are those of what each of them reads, by name."""
    estimated = []
    for task in tasks:
        stage = recipe.stage(task.stage) if task.stage else None
        if task.kind == "pretrain" and recipe.pretrain:
            estimated.append(_pretrain(recipe, recipe.pretrain, shape, sizes[task], machine))
        elif task.kind == "vectors" and recipe.vectors:
            estimated.append(_vectors(recipe, recipe.vectors, shape, sizes[task], machine))
        elif stage:
            cost = _mine if task.kind == "mine" else _finetune
            queried = {name: sizes[task][name] for name in stage.queries}
            estimated.append(cost(recipe, stage, shape, queried, machine)._replace(part=str(task)))
    return estimated


def measured(hardware: Hardware) -> Machine:
    """Return this machine with what a second of multiplying square matrices, in the recipe's precision, shows of its speed."""
    device = processes.device(hardware)
    side = _SIDE[device]
    matrix = torch.ones(side, side, dtype=_DTYPES[hardware.precision], device=device)
    threads = torch.get_num_threads()
    try:
        if hardware.threads:
            torch.set_num_threads(hardware.threads)
        rate = 2 * side**3 / _seconds(matrix)
    finally:
        torch.set_num_threads(threads)
    if device == "cuda":
        properties = torch.cuda.get_device_properties(torch.device(device))
        return Machine(properties.name, hardware.precision, rate, properties.total_memory, processes.world())
    facts = environment.facts()
    return Machine(facts["processor"], hardware.precision, rate, int(facts["memory_gib"]) * 2**30, processes.world())


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum, None where one of *counts* is unknown."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def _seconds(matrix: torch.Tensor) -> float:
    """Return the time of one product of *matrix* with itself, a mean over about a second."""
    torch.sum(matrix @ matrix).item()  # the first one compiles and allocates
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < _SECONDS:
        (matrix @ matrix)[0, 0].item()  # which waits for a GPU
        count += 1
    return (time.perf_counter() - start) / count


def _pretrain(recipe: Recipe, settings: Pretrain, shape: Shape, sizes: Mapping[str, Size], machine: Machine) -> Cost:
    documents = total(size.documents for size in sizes.values())
    steps, texts = _drawn(settings, documents)
    length, width = recipe.encoding.document_length, shape.width
    projected = width * shape.vocabulary
    masked = (settings.encoder_share + settings.decoder_share) * length
    decoder = settings.decoder_layers * shape.layer + width**2
    per_example = 6 * (shape.body + width**2 + decoder) * length + 6 * projected * masked
    pools = settings.bottleneck in {"softmax", "saturated"}
    per_example += (2 * length + 4) * projected if pools else 0
    piece = settings.batch_size / machine.devices / recipe.hardware.accumulate
    activations = piece * (_activations(shape, settings.decoder_layers, length, machine) + masked * shape.vocabulary * _LOGIT)
    activations += piece * shape.vocabulary * _POOLED if pools else 0
    weights = shape.parameters + decoder
    disk = None if documents is None else weights * (_SAVED + 2 * _RESUMED) + documents * (_TEXT + length * _TOKEN)
    memory = round(weights * _OPTIMISED + activations)
    return _cost("pretrain", (texts, steps, length), per_example, memory, disk, machine)


def _vectors(recipe: Recipe, settings: Vectors, shape: Shape, sizes: Mapping[str, Size], machine: Machine) -> Cost:
    texts = total((size.documents or 0) + (size.queries or 0) for size in sizes.values())
    most = settings.most * (len(settings.corpora) + len(settings.queries))
    steps, drawn = _drawn(settings, min(texts or most, most or texts or 0) or None)
    length, projected = recipe.encoding.document_length, shape.width * shape.vocabulary
    per_text = 6 * (shape.body + shape.width**2) * length + projected * (2 * length + 4)
    per_text += 2 * (shape.body + shape.width**2 + projected) * length  # of the teacher
    piece = settings.batch_size / machine.devices / recipe.hardware.accumulate
    activations = piece * (_activations(shape, 0, length, machine) + 2 * shape.vocabulary * _POOLED)
    memory = round(shape.parameters * (_OPTIMISED + _SAVED) + activations)
    return _cost("vectors", (drawn, steps, length), per_text, memory, shape.parameters * (_SAVED + 2 * _RESUMED), machine)


def _finetune(recipe: Recipe, stage: Stage, shape: Shape, sizes: Mapping[str, Size], machine: Machine) -> Cost:
    pairs = total(size.relevant if stage.pairs == "all" else size.queries for size in sizes.values())
    trained = None if pairs is None else round(pairs * (1 - recipe.selection.held_out))
    steps, queries = _drawn(stage, trained)
    encoding, width = recipe.encoding, shape.width
    length = stage.documents * encoding.document_length + encoding.query_length  # of a query with its documents
    projected = width * shape.vocabulary
    per_example = 6 * (shape.body + width**2) * length + projected * (2 * length + 4 * (stage.documents + 1))
    if stage.teacher:
        per_example += 2 * shape.body * stage.documents * (encoding.document_length + encoding.query_length)
    piece = stage.batch_size / machine.devices / recipe.hardware.accumulate
    activations = piece * (_activations(shape, 0, length, machine) + (stage.documents + 1) * shape.vocabulary * _POOLED)
    memory = round(shape.parameters * (_OPTIMISED + (_SAVED if stage.teacher else 0)) + activations)
    cost = _cost("", (queries, steps, length), per_example, memory, shape.parameters * (_SAVED + 2 * _RESUMED), machine)
    return cost._replace(texts=None if queries is None else queries * (stage.documents + 1))


def _mine(recipe: Recipe, stage: Stage, shape: Shape, sizes: Mapping[str, Size], machine: Machine) -> Cost:
    documents, queries = (total(getattr(size, name) for size in sizes.values()) for name in ("documents", "queries"))
    encodes = parse(stage.negatives).head.name not in registry.names("retrievers")
    length = recipe.encoding.document_length
    disk = None
    if documents is not None and queries is not None:
        disk = documents * (_TEXT + _INDEX + (_VECTOR if encodes else 0)) + queries * stage.depth * _HIT
    if not encodes:
        return Cost("", documents, None, None, None, None, None, disk)
    per_example = 2 * (shape.body + shape.width**2 + shape.width * shape.vocabulary) * length
    return _cost("", (documents, None, length), per_example, None, disk, machine)


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


def _cost(
    part: str,
    drawn: tuple[int | None, int | None, int],
    per_example: float,
    memory: int | None,
    disk: int | None,
    machine: Machine,
) -> Cost:
    """Return the cost of *drawn*: examples, steps, and tokens of an example, which takes *per_example* operations."""
    examples, steps, length = drawn
    if examples is None:
        return Cost(part, None, steps, None, None, None, memory, disk)
    operations = examples * per_example
    rate = machine.rate * machine.devices
    seconds = (operations / rate / FAST, operations / rate / SLOW)
    return Cost(part, examples, steps, examples * length, operations, seconds, memory, disk)
