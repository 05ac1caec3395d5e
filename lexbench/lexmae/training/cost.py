"""The time, memory and disk space that a training takes: three steps of each part are timed on the device that will train.

Weights are random, and every text has the full length of the recipe, so the results are upper bounds. What is not measured:
searching, a teacher, selection, and what several GPUs spend on waiting for each other. Used by `plan.costs`.
"""

import resource
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from transformers import AutoModelForMaskedLM

from lexbench.devices import torch_threads
from lexbench.lexmae.data.batches import tensors
from lexbench.lexmae.data.masking import MaskedTexts, Masking, collate
from lexbench.lexmae.data.tokens import TokenisedCorpus
from lexbench.lexmae.model.autoencoder import MaskedAutoencoder
from lexbench.lexmae.model.encoder import Learner, LexiconEncoder, Texts, in_groups
from lexbench.lexmae.recipe.settings import GROUP, Fitting, Imitation, Pretrain, Recipe, Stage
from lexbench.lexmae.training import processes, trainer
from lexbench.lexmae.training.finetune import FineTuner
from lexbench.lexmae.training.imitation import Imitator
from lexbench.lexmae.training.query_table import AddedWords, TableRanker
from lexbench.models.checkpoint import fetch_model, transformer_folder
from lexbench.models.loading import load_config

_STEPS = 3  # the first one warms up
_MINED = 256  # texts encoded at a time when mining is timed
_COPIES = 10  # of the parameters on disk: three checkpoints with both moments of AdamW, and the best weights
_MASK = 1  # any id


class TrainingCost(NamedTuple):
    """The cost of one part of a training on one device, at most."""

    seconds: float  # per step, or per 1,000 texts that are encoded for mining
    hours: float | None  # of all steps, or of encoding the corpora on one device; None if their number is unknown
    memory_gib: float  # the most that was allocated on the GPU, or that this process has had
    disk_gib: float  # of checkpoints; 0 for mining


def of_fitting(recipe: Recipe, fitting: Fitting, examples: int | None) -> TrainingCost:
    """Return the cost of a training with *examples* per epoch (None: unknown), on this device's share of a batch."""
    recipe = processes.resolved(recipe)
    device = torch.device(processes.device(recipe.hardware))
    learner, batch = _learner(recipe, fitting, processes.examples_per_device(fitting))
    trainer.prepare(learner, fitting, recipe.hardware)
    learner.to(device).train()
    batch = _on(device, batch)
    optimizer = torch.optim.AdamW(learner.parameters(), lr=1e-6)

    def step() -> None:
        with processes.autocast(recipe.hardware.precision, device):
            loss = learner(**batch)["loss"]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    seconds, memory = _timed(step, recipe, device)
    steps = fitting.steps or (trainer.steps(fitting, examples) if examples else None)
    parameters = sum(parameter.numel() for parameter in learner.parameters())
    return TrainingCost(seconds, steps * seconds / 3600 if steps else None, memory, 4 * _COPIES * parameters / 2**30)


def of_mining(recipe: Recipe, documents: int | None) -> TrainingCost:
    """Return the cost of encoding corpora of *documents* (None: unknown) to mine the negatives of a stage."""
    recipe = processes.resolved(recipe)
    device = torch.device(processes.device(recipe.hardware))
    encoder = LexiconEncoder(_language_model(recipe, recipe.start.model)).to(device).eval()
    texts = Texts(**_on(device, _texts(recipe, _MINED, recipe.encoding.document_length)))

    @torch.no_grad()
    def step() -> None:
        with processes.autocast(recipe.hardware.precision, device):
            in_groups(encoder, texts)

    seconds, memory = _timed(step, recipe, device)
    seconds *= 1000 / _MINED
    return TrainingCost(seconds, documents * seconds / 3_600_000 if documents else None, memory, 0.0)


def _timed(step: Callable[[], None], recipe: Recipe, device: torch.device) -> tuple[float, float]:
    """Return the mean seconds of a step after the first one, and the peak of memory in GiB."""
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    began = 0.0
    with torch_threads(recipe.hardware.threads):
        for number in range(_STEPS):
            if number == 1:
                began = time.perf_counter()
            step()
            if on_gpu:
                torch.cuda.synchronize()
    seconds = (time.perf_counter() - began) / (_STEPS - 1)
    peak = torch.cuda.max_memory_allocated() if on_gpu else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return seconds, peak / 2**30


def _on(device: torch.device, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _on(device, part) for name, part in value.items()}
    return value.to(device) if isinstance(value, torch.Tensor) else value


def _language_model(recipe: Recipe, name: str) -> Any:
    """Return a *ForMaskedLM of the shape of the model *name*, with random weights and the recipe's vocabulary."""
    config = load_config(transformer_folder(fetch_model(name)))
    if recipe.start.vocabulary:
        config.vocab_size = min(config.vocab_size, recipe.start.vocabulary)
    kind: Any = AutoModelForMaskedLM
    return kind.from_config(config, dtype=torch.float32)


def _rows(count: int, length: int, vocabulary: int) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    return list(np.random.default_rng(0).integers(_MASK, vocabulary, (count, length)))


def _texts(recipe: Recipe, count: int, length: int) -> dict[str, torch.Tensor]:
    vocabulary = recipe.start.vocabulary or load_config(transformer_folder(fetch_model(recipe.start.model))).vocab_size
    return tensors(_rows(count, length, vocabulary), pad=0, silent=())


def _learner(recipe: Recipe, fitting: Fitting, examples: int) -> tuple[Learner, dict[str, Any]]:
    """Return a learner of the recipe's shape, and a batch of *examples*."""
    model, encoding = _language_model(recipe, recipe.start.model), recipe.encoding
    vocabulary, length = model.config.vocab_size, encoding.document_length
    if isinstance(fitting, Pretrain):
        rows = np.concatenate(_rows(examples, length, vocabulary))
        corpus = TokenisedCorpus(rows, np.arange(examples + 1) * length)
        texts = MaskedTexts([corpus], Masking(fitting, _MASK, vocabulary), (), ())
        masked = [texts.example(number, np.random.default_rng(number)) for number in range(examples)]
        return MaskedAutoencoder(model, fitting), collate(0)(masked)
    encoder = LexiconEncoder(model)
    if isinstance(fitting, Stage):
        count = examples * fitting.documents
        keys = {"queries": torch.arange(examples), "documents": torch.arange(count)}
        batch = {"queries": _texts(recipe, examples, encoding.query_length), "documents": _texts(recipe, count, length)}
        relevant = torch.zeros((0, 2), dtype=torch.int64)
        return FineTuner(encoder, fitting, 1), {**batch, "step": 1, "keys": keys, "relevant": relevant}
    assert isinstance(fitting, Imitation)
    imitated = LexiconEncoder(_language_model(recipe, fitting.model)).to(processes.device(recipe.hardware))
    of_states = nn.Linear(model.config.hidden_size, imitated.config.hidden_size) if fitting.states else None
    length = fitting.length or length
    if recipe.ranking is None:
        return Imitator(encoder, imitated, fitting, of_states=of_states), dict(_texts(recipe, examples, length))
    count, idf = examples * recipe.ranking.group, torch.ones(vocabulary)
    ranked = {"vectors": torch.rand(count, 8), "weights": torch.ones(count, 2), "numbers": torch.arange(count)}
    if not recipe.ranking.queries:
        return Imitator(encoder, imitated, fitting, idf, of_states), {**_texts(recipe, count, length), **ranked}
    ranked["queries"] = torch.arange(count) >= examples * (GROUP - 1)
    shape = (vocabulary, recipe.ranking.expansions)
    added = AddedWords(torch.zeros(shape, dtype=torch.int64), torch.ones(shape))
    learner = TableRanker(encoder, imitated, fitting, idf, added, whole_counts=False)
    return learner, {**_texts(recipe, count, length), **ranked}
