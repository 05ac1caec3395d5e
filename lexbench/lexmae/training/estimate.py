"""Estimates of a recipe's time and memory before any work, from arithmetic and a measured matrix product.

Time is a number of operations at the measured rate. Operations are those of matrices: two per weight and token, and four more
for the gradients (J. Kaplan et al. 2020, "Scaling Laws for Neural Language Models", section 2.1). With N weights in the body,
width h, vocabulary V and texts of T tokens:

    a text that is trained on    6 (N + h^2) T + 2 h V T + 4 h V     logits at every position, gradients at one per word
    masked words                 6 h V each
    the decoder                  6 (N_d + h^2) T + its masked words
    a text that is encoded       2 (N + h^2 + h V) T
    a text of a teacher          2 N T                               the teacher is assumed to be as large as the model

All texts are assumed to have the maximum length. Products of tokens with tokens in attention are left out (3 % at 144 tokens).
"""

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from lexbench import registry
from lexbench.lexmae.data.collections import Size
from lexbench.lexmae.recipe import Fitting, Hardware, Imitation, Paths, Pretrain, Recipe, Stage, Start
from lexbench.lexmae.training import plan, processes
from lexbench.lexmae.training.plan import Task
from lexbench.notation import parse
from lexbench.storage import environment

SLOW, FAST = 0.15, 0.5  # share of the rate of a matrix product; the paper's 14 hours on eight A100s are about 0.2
_OPTIMISED = 16  # bytes per parameter: weight, gradient and AdamW's two moments, float32
_TEACHER = 4  # bytes per parameter of a teacher
_STATES = 34  # bytes of a layer's activations per token and unit of width, at 16 bits (V. Korthikanti et al. 2022, Eq. 2)
_POOLED = 16  # bytes per text and word: the maximum, its position, the weight and its gradient
_LOGIT = 8  # bytes per masked word and candidate word: logit and gradient
_SIDE = {"cpu": 1024, "cuda": 8192, "mps": 2048}  # side of the measured matrix: large enough for the device's best rate
_SECONDS = 1.0  # of measuring
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_CONFIG = "config.json"


class Shape(NamedTuple):
    """The sizes of a stack of transformer layers with a head over a vocabulary."""

    layers: int
    width: int  # of states
    inner: int  # width of the feed-forward layers
    vocabulary: int
    positions: int
    source: str = ""  # the file with these sizes

    @property
    def layer(self) -> int:
        """Weights of one layer without biases: four matrices of attention, two of the feed-forward layer."""
        return 4 * self.width**2 + 2 * self.width * self.inner

    @property
    def body(self) -> int:
        """Weights that every token passes through."""
        return self.layers * self.layer

    @property
    def parameters(self) -> int:
        """All weights: body, embeddings (which are also the output projection), and the head's dense layer."""
        return self.body + (self.vocabulary + self.positions + self.width) * self.width


BERT_BASE = Shape(12, 768, 3072, 30_522, 512, "BERT-base, because the model's config.json is not on this machine")


class Machine(NamedTuple):
    """The machine that trains."""

    name: str
    precision: str
    rate: float  # operations per second of a matrix product, on one device
    memory: int  # bytes, of one device
    devices: int = 1


class Cost(NamedTuple):
    """The cost of a task; None if unknown or not counted."""

    part: str  # the task, as the command that does it
    texts: int | None  # drawn in training, or encoded
    steps: int | None
    seconds: tuple[float, float] | None
    memory: int | None  # bytes, of one device


def estimate(recipe: Recipe, tasks: Sequence[Task]) -> tuple[Shape, Machine, list[Cost]]:
    """Return the model's shape, this machine, whose speed is measured now, and the costs of *tasks*.

    Raises the errors of finding the data.
    """
    shape, machine = shape_of(recipe), measured(recipe.hardware)
    return shape, machine, costs(recipe, tasks, shape, {task: plan.data(recipe, task) for task in tasks}, machine)


def costs(
    recipe: Recipe, tasks: Sequence[Task], shape: Shape, sizes: Mapping[Task, Mapping[str, Size]], machine: Machine
) -> list[Cost]:
    """Return the cost of each of *tasks* except the start. *sizes* has the sizes of what each task reads, by name."""
    estimated = []
    for task in tasks:
        stage = recipe.stage(task.stage) if task.stage else None
        if task.kind == "pretrain" and recipe.pretrain:
            estimated.append(_pretrain(recipe, recipe.pretrain, shape, sizes[task], machine))
        elif task.kind == "imitate" and recipe.imitation:
            estimated.append(_imitate(recipe, recipe.imitation, shape, sizes[task], machine))
        elif stage:
            cost = _mine if task.kind == "mine" else _finetune
            queried = {name: sizes[task][name] for name in stage.queries}
            estimated.append(cost(recipe, stage, shape, queried, machine)._replace(part=str(task)))
    return estimated


def measured(hardware: Hardware) -> Machine:
    """Return this machine with the rate of multiplying square matrices for a second in the recipe's precision."""
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
        return Machine(properties.name, hardware.precision, rate, properties.total_memory, processes.world_size())
    facts = environment.facts()
    return Machine(facts["processor"], hardware.precision, rate, int(facts["memory_gib"]) * 2**30, processes.world_size())


def shape_of(recipe: Recipe) -> Shape:
    """Return the shape of the initial model, made already or still to be made from a folder or the hub's cache.

    If none of these is on this machine it is BERT-base; its `source` says so.
    """
    initial = Paths(recipe).start / _CONFIG
    if initial.is_file():
        return _read_shape(initial)
    local = Path(recipe.start.model) / _CONFIG
    config = local if local.is_file() else _cached(recipe.start)
    if not config:
        return BERT_BASE
    shape, most = _read_shape(config), recipe.start.vocabulary
    return shape._replace(vocabulary=min(most or shape.vocabulary, shape.vocabulary))


def _cached(start: Start) -> Path | None:
    """Return the config.json of the model in the hub's cache, or None."""
    from huggingface_hub import errors, try_to_load_from_cache

    try:
        path = try_to_load_from_cache(start.model, _CONFIG, revision=start.revision)
    except errors.HFValidationError:  # a folder that does not exist, which `plan.check` refuses
        return None
    return Path(path) if isinstance(path, str) else None


def _read_shape(path: Path) -> Shape:
    """Return the shape in a config.json of BERT or RoBERTa, or of DistilBERT, which has other names."""
    config = json.loads(path.read_bytes())

    def size(*names: str) -> Any:
        return next(config[name] for name in names if name in config)

    return Shape(
        size("num_hidden_layers", "n_layers"),
        size("hidden_size", "dim"),
        size("intermediate_size", "hidden_dim"),
        size("vocab_size"),
        size("max_position_embeddings"),
        str(path),
    )


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum, or None if one of *counts* is unknown."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def _seconds(matrix: torch.Tensor) -> float:
    """Return the mean time of one product of *matrix* with itself, measured for about a second."""
    torch.sum(matrix @ matrix).item()  # the first product compiles and allocates
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < _SECONDS:
        (matrix @ matrix)[0, 0].item()  # item() waits for a GPU
        count += 1
    return (time.perf_counter() - start) / count


def _pretrain(recipe: Recipe, settings: Pretrain, shape: Shape, sizes: Mapping[str, Size], machine: Machine) -> Cost:
    """Return the cost of pretraining: the encoder, the decoder, and max-pooling for a lexical bottleneck."""
    steps, texts = _drawn(settings, total(size.documents for size in sizes.values()))
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
    memory = round((shape.parameters + decoder) * _OPTIMISED + activations)
    return Cost("pretrain", texts, steps, _time(texts, per_example, machine), memory)


def _imitate(recipe: Recipe, settings: Imitation, shape: Shape, sizes: Mapping[str, Size], machine: Machine) -> Cost:
    """Return the cost of imitation, which also encodes texts by two other models, assumed to be as large."""
    steps, texts = _drawn(settings, total(size.documents for size in sizes.values()))
    length, projected = settings.length or recipe.encoding.document_length, shape.width * shape.vocabulary
    per_example = 10 * (shape.body + shape.width**2) * length + projected * (4 * length + 4)
    piece = settings.batch_size / machine.devices / recipe.hardware.accumulate
    memory = round(shape.parameters * (_OPTIMISED + 2 * _TEACHER))
    memory += round(piece * (_activations(shape, 0, length, machine) + 2 * shape.vocabulary * _POOLED))
    return Cost("imitate", texts, steps, _time(texts, per_example, machine), memory)


def _finetune(recipe: Recipe, stage: Stage, shape: Shape, sizes: Mapping[str, Size], machine: Machine) -> Cost:
    """Return the cost of training a stage: a query with its documents is one example."""
    pairs = total(size.relevant if stage.pairs == "all" else size.queries for size in sizes.values())
    steps, queries = _drawn(stage, None if pairs is None else round(pairs * (1 - recipe.selection.held_out)))
    encoding, width = recipe.encoding, shape.width
    length = stage.documents * encoding.document_length + encoding.query_length  # of a query with its documents
    projected = width * shape.vocabulary
    texts = stage.documents + 1
    per_example = 6 * (shape.body + width**2) * length + projected * (2 * length + 4 * texts)
    if stage.teacher:
        per_example += 2 * shape.body * stage.documents * (encoding.document_length + encoding.query_length)
    piece = stage.batch_size / machine.devices / recipe.hardware.accumulate
    activations = piece * (_activations(shape, 0, length, machine) + texts * shape.vocabulary * _POOLED)
    memory = round(shape.parameters * (_OPTIMISED + (_TEACHER if stage.teacher else 0)) + activations)
    drawn = None if queries is None else queries * texts
    return Cost("", drawn, steps, _time(queries, per_example, machine), memory)


def _mine(recipe: Recipe, stage: Stage, shape: Shape, sizes: Mapping[str, Size], machine: Machine) -> Cost:
    """Return the cost of mining a stage's negatives: encoding the corpora, unless the retriever has no model."""
    documents = total(size.documents for size in sizes.values())
    if parse(stage.negatives).head.name in registry.names("retrievers"):
        return Cost("", documents, None, None, None)
    per_example = 2 * (shape.body + shape.width**2 + shape.width * shape.vocabulary) * recipe.encoding.document_length
    return Cost("", documents, None, _time(documents, per_example, machine), None)


def _drawn(fitting: Fitting, examples: int | None) -> tuple[int | None, int | None]:
    """Return the number of steps, and the total number of examples drawn."""
    if not fitting.steps and examples is None:
        return None, None
    steps = fitting.steps or math.ceil(fitting.epochs * (examples or 0) / fitting.batch_size)
    return steps, steps * fitting.batch_size


def _activations(shape: Shape, more_layers: int, length: int, machine: Machine) -> float:
    """Return the bytes that the layers keep of *length* tokens for the gradients."""
    wide = 2 if machine.precision == "fp32" else 1
    return wide * _STATES * shape.width * (shape.layers + more_layers) * length


def _time(examples: int | None, per_example: float, machine: Machine) -> tuple[float, float] | None:
    """Return the shortest and longest time in seconds for *examples* of *per_example* operations; None if unknown."""
    if examples is None:
        return None
    ideal = examples * per_example / (machine.rate * machine.devices)
    return ideal / FAST, ideal / SLOW
