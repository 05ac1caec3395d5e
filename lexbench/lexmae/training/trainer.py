"""Training one model: transformers' Trainer with LexMAE's losses, order of texts, selection and resuming.

A kill at any moment costs the steps since the last complete checkpoint; the losses are the same as without it.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, SequentialSampler
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.models.modernbert.modeling_modernbert import ModernBertAttention
from transformers.trainer import TRAINER_STATE_NAME
from transformers.utils import logging as transformers_logging

from lexbench.display.progress import Progress
from lexbench.errors import LexbenchError
from lexbench.lexmae.data.batches import Draws
from lexbench.lexmae.model.encoder import Learner
from lexbench.lexmae.recipe.settings import Fitting, Hardware
from lexbench.lexmae.training import processes, resuming

_LOGGED = 10  # a log line is a mean over at most this many steps

Score = Callable[[Learner], Mapping[str, float]]


@dataclass(frozen=True)
class Fit:
    """The settings of one training. *steps* is the number of optimiser steps, even if the recipe gives epochs."""

    what: str  # the name in progress and errors
    fitting: Fitting
    hardware: Hardware
    seed: int
    steps: int
    folder: Path  # with the state, see `resuming`
    every: int = 0  # steps between selections
    published: float = 0.0  # what the authors report of the measure of selections, on other queries; 0: nothing
    ramps: bool = False  # pass `step`, the number of optimiser steps so far, to the model's forward

    @property
    def draws(self) -> int:
        """The total number of examples drawn."""
        return self.steps * self.fitting.batch_size

    def arguments(self) -> TrainingArguments:
        """Return the settings of the Trainer."""
        fitting, hardware = self.fitting, self.hardware
        on_cpu = processes.device(hardware) == "cpu"
        arguments = TrainingArguments(
            output_dir=str(self.folder),
            max_steps=self.steps,
            per_device_train_batch_size=processes.examples_per_device(fitting),
            learning_rate=fitting.learning_rate,
            warmup_steps=math.ceil(fitting.warmup * self.steps),
            weight_decay=fitting.weight_decay,
            max_grad_norm=fitting.clip,
            bf16=hardware.precision == "bf16",
            fp16=hardware.precision == "fp16",
            use_cpu=on_cpu,
            dataloader_pin_memory=not on_cpu,
            ddp_find_unused_parameters=False,  # there are none, and searching for them takes time
            logging_steps=math.gcd(_LOGGED, fitting.save_every),
            logging_nan_inf_filter=False,
            save_steps=fitting.save_every,
            save_total_limit=2,
            seed=self.seed,
            remove_unused_columns=False,
            disable_tqdm=True,
            report_to="none",
        )
        arguments._n_gpu = min(1, arguments.n_gpu)  # noqa: SLF001 - never DataParallel: several GPUs need torchrun
        return arguments


class Fitted(NamedTuple):
    """The results of a training besides the weights."""

    log: list[dict[str, float]]  # lines of losses (step, losses, learning rate), then of selections (step, scores)
    seconds: float  # in this process
    resumed: int  # the step that it resumed from, 0 for a new training
    best: dict[str, float] | None  # step and scores of the selected weights; None: the last step's are kept


def steps(fitting: Fitting, examples: int) -> int:
    """Return the number of optimiser steps of a recipe. Raises LexbenchError if there is nothing to train on."""
    if not examples:
        raise LexbenchError("there is nothing to train on: no example is left")
    return fitting.steps or math.ceil(fitting.epochs * examples / fitting.batch_size)


def fit(
    model: Learner,
    draws: Draws[Any],
    collate: Callable[[list[Any]], dict[str, Tensor]],
    settings: Fit,
    progress: Progress,
    score: Score | None = None,
) -> Fitted:
    """Train *model* in place on *draws*, from the last complete checkpoint if there is one.

    *collate* turns a list of draws into keyword arguments of the model's forward; the means of its results beside `loss` are
    logged. *score* returns measures of a model, the deciding one first; with it, *model* ends with the weights of the best step
    (ties: the earlier step). Raises LexbenchError if the loss is not finite.
    """
    transformers_logging.set_verbosity_error()
    prepare(model, settings.fitting, settings.hardware)
    trainer = LexMAETrainer(model=model, args=settings.arguments(), train_dataset=draws, data_collator=collate)
    trainer.score, trainer.settings = score, settings
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(ProgressCallback(settings, progress, select=score is not None))
    with processes.first_goes_first():
        checkpoint = resuming.last_checkpoint(settings.folder)
    resumed = resuming.checkpoint_step(checkpoint) if checkpoint else 0
    if checkpoint:
        with _reading(str(checkpoint)):  # the Trainer would read it outside of the methods below
            TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
    start = time.perf_counter()
    if note := processes.precision_note(settings.hardware):
        progress.note(f"{settings.what}: {note}")
    if score and not checkpoint:
        trainer.evaluate()  # the initial weights are a candidate too (released code)
    progress.start(settings.what, "train", settings.steps - resumed, "steps")
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    progress.end()
    processes.wait()
    best = resuming.load_best(settings.folder, model) if score else None
    log = [*_log(trainer.state), *resuming.selections(settings.folder)]
    return Fitted(log, time.perf_counter() - start, resumed, best)


def prepare(model: Learner, fitting: Fitting, hardware: Hardware) -> None:
    """Change *model* in place to compute as the settings say: its attention, dropout and number of pieces."""
    for module in model.modules():
        if isinstance(module, PreTrainedModel) and processes.device(hardware) == "cpu":
            module.set_attn_implementation("eager")  # on short texts the gradient of torch's own attention takes much longer
        if isinstance(module, nn.Dropout) and fitting.dropout is not None:
            module.p = fitting.dropout  # attention reads it from here too, but for ModernBERT's
        if isinstance(module, ModernBertAttention) and fitting.dropout is not None:
            module.attention_dropout = fitting.dropout
    model.pieces = hardware.accumulate


class LexMAETrainer(Trainer):  # type: ignore[misc] # mypy does not read transformers, see pyproject.toml
    """The Trainer with another order, learning rates per parameter, parts of the loss, own checkpoint files and selection."""

    score: Score | None = None
    settings: Fit
    control: TrainerControl

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._parts: dict[str, Tensor] = {}
        self._counted = 0

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return the batches in the order of the draws, which are shuffled already, each process's share of them."""
        workers, draws = processes.loading_workers(self.settings.hardware), self.train_dataset
        assert isinstance(draws, Draws)
        loader: DataLoader[Any] = DataLoader(
            draws,
            batch_size=self.args.per_device_train_batch_size,
            sampler=SequentialSampler(draws),
            collate_fn=self.data_collator,
            num_workers=workers,
            pin_memory=self.args.dataloader_pin_memory,
            multiprocessing_context="fork" if workers else None,  # workers share the memory of tokens and negatives
            worker_init_fn=_begin_worker,
            persistent_workers=workers > 0,
        )
        prepared: DataLoader[Any] = self.accelerator.prepare(loader)
        return prepared

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Give the parameters named in the model's `rates` their own learning rate. Only matrices decay."""
        is_new = self.optimizer is None  # the Trainer also calls this for an optimizer that exists
        optimizer: torch.optim.Optimizer = super().create_optimizer(model)
        rates = self._unwrapped().rates if is_new else {}
        for name, parameter in self._unwrapped().named_parameters():
            if name in rates:  # move the parameter from its group into a new one
                for group in optimizer.param_groups:
                    group["params"] = [other for other in group["params"] if other is not parameter]
                rate, decay = rates[name] * self.args.learning_rate, self.args.weight_decay if parameter.ndim > 1 else 0.0
                optimizer.add_param_group({"params": [parameter], "lr": rate, "weight_decay": decay})
        return optimizer

    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], *_: Any, **__: Any) -> Tensor:
        """Return the loss of a batch, and add up its parts for the log."""
        step = {"step": self.state.global_step} if self.settings.ramps else {}
        losses = model(**inputs, **step)
        for name, value in losses.items():
            if name != "loss":
                self._parts[name] = self._parts.get(name, torch.zeros_like(value.detach())) + value.detach()
        self._counted += 1
        loss: Tensor = losses["loss"]
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Also log the means of the loss's parts, over all processes. Raises LexbenchError if the loss is not finite."""
        if "loss" in logs:
            if not math.isfinite(logs["loss"]):
                raise LexbenchError(self._diverged(logs["loss"]))
            means = {name: self.accelerator.reduce(value, "mean") for name, value in self._parts.items()}
            logs |= {name: float(value) / self._counted for name, value in means.items()}
            self._parts, self._counted = {}, 0
        super().log(logs, start_time)

    def _diverged(self, loss: float) -> str:
        settings, step = self.settings, self.state.global_step
        other = "" if settings.hardware.precision == "fp32" else "resume with --set hardware.precision=fp32, or "
        rate = f"lower learning_rate, which is {settings.fitting.learning_rate:g}"
        return f"{settings.what}: the loss is {loss} at step {step}; {other}remove {settings.folder} and {rate}"

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        del state_dict
        if self.args.should_save and output_dir:
            Path(output_dir).mkdir(parents=True, exist_ok=True)
            resuming.write_weights(self._unwrapped(), Path(output_dir) / resuming.WEIGHTS)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        with _reading(resume_from_checkpoint):
            resuming.read_weights(model or self._unwrapped(), Path(resume_from_checkpoint) / resuming.WEIGHTS)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        with _reading(checkpoint):
            super()._load_optimizer_and_scheduler(checkpoint)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        with _reading(checkpoint):
            super()._load_rng_state(checkpoint)

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Score the model on the queries for selection, and keep its weights if they are the best so far."""
        assert self.score is not None
        scores = dict(self.score(self._unwrapped()))
        if self.args.should_save:
            resuming.keep_if_best(self.settings.folder, self._unwrapped(), {"step": self.state.global_step, **scores})
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, scores)
        return scores

    def _unwrapped(self) -> Learner:
        model: Learner = self.accelerator.unwrap_model(self.model)
        return model


class ProgressCallback(TrainerCallback):  # type: ignore[misc] # likewise
    """Reports steps, losses and scores, requests selections, and marks complete checkpoints."""

    def __init__(self, settings: Fit, progress: Progress, *, select: bool) -> None:
        self.settings, self.progress, self.select = settings, progress, select

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Count the step. The last step is always logged and scored."""
        del args
        self.progress.advance()
        last = state.global_step == self.settings.steps
        due = self.settings.every and state.global_step % self.settings.every == 0
        control.should_evaluate = bool(self.select and (due or last))
        control.should_log = control.should_log or last

    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, metrics: Any = None, **_: Any) -> None:
        """Report the score."""
        del args, control
        name, value = next(iter(metrics.items()))
        published = f" (published: {self.settings.published:.4f}, on other queries)" if self.settings.published else ""
        self.progress.note(f"{self.settings.what}: {name} {value:.4f} at step {state.global_step:,}{published}")

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Mark the checkpoint as complete when every process has written its part, and report the loss."""
        del control
        processes.wait()
        if args.should_save:
            resuming.mark_complete(self.settings.folder / f"checkpoint-{state.global_step}")
        loss = next(line["loss"] for line in reversed(state.log_history) if "loss" in line)
        self.progress.note(f"{self.settings.what}: loss {loss:.4g} at step {state.global_step:,}")


def _begin_worker(_number: int) -> None:
    """Keep the tokenizer of a worker in its one thread; otherwise it warns that it was forked."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


@contextmanager
def _reading(checkpoint: str | None) -> Iterator[None]:
    """Turn any error of reading *checkpoint* into a LexbenchError that names it."""
    try:
        yield
    except Exception as error:  # from torch, pickle or safetensors; only tensors and numbers are ever unpickled
        remedy = "remove it to resume from the previous one"
        raise LexbenchError(f"cannot read {checkpoint} ({type(error).__name__}); {remedy}") from error


def _log(state: TrainerState) -> list[dict[str, float]]:
    """Return the log lines of losses. Their names are sorted, because a checkpoint sorts them."""
    lines = (line for line in state.log_history if "loss" in line)
    names = ("step", "loss")
    return [{name: line[name] for name in (*names, *sorted(line.keys() - {*names, "epoch"}))} for line in lines]
