"""Base class of encoders and rerankers that run a transformer on this machine: its checkpoint, and checks of its settings."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from lexbench.errors import CommandError
from lexbench.models.checkpoint import CheckpointFiles, fetch, weight_bytes
from lexbench.models.training_data import training_data
from lexbench.plugins import Model
from lexbench.types import TrainingData

if TYPE_CHECKING:
    from lexbench.models.transformer_model import ModelSpec

DTYPES = ("float32", "bfloat16", "float16", "int8")
_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
_SHORTEST = 8  # tokens: the special ones of a pair, and some of a text


class LocalModel(Model, ABC):
    """A plug-in with the fields model, revision, dtype, device, batch_tokens and threads, which runs one model or several."""

    model: str
    revision: str | None
    dtype: str
    device: str
    batch_tokens: int
    threads: int

    requires: ClassVar[tuple[str, ...]] = ("torch", "transformers")
    extra: ClassVar[str] = "neural"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # settings and their allowed values
    lengths: ClassVar[tuple[str, ...]] = ()  # settings that are numbers of tokens
    several_devices: ClassVar[bool] = False  # whether `device` may list several

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        for name, allowed in self.choices.items():
            if (value := getattr(self, name)) not in allowed:
                raise CommandError(f"{self.plugin}({name}={value!r}): there is {', '.join(allowed)}")
        for name in self.lengths:
            if (value := getattr(self, name)) < _SHORTEST:
                raise CommandError(f"{self.plugin}({name}={value}): give at least {_SHORTEST} tokens; special tokens count")
        for name in ("batch_tokens", "threads"):
            if (value := getattr(self, name)) < 0:
                raise CommandError(f"{self.plugin}({name}={value}): give a number above 0, or 0 for what suits the device")
        devices = self.device.split(",") if self.several_devices else [self.device]
        if not all(map(_DEVICE.fullmatch, devices)) or "auto" in devices[1:]:
            several = "; several as cpu,cpu" if self.several_devices else ""
            raise CommandError(f"{self.plugin}(device={self.device!r}): there is auto, cpu, cuda, cuda:0, mps{several}")

    @property
    def plugin(self) -> str:
        """The name that a user types for the plug-in."""
        return type(self).__module__.rpartition(".")[2]

    @classmethod
    @abstractmethod
    def checkpoint_files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of the checkpoint in *folder* that decide its answers, and the settings that it states."""

    def towers(self) -> list[tuple[str, str | None]]:
        """Return model and revision of each model that it runs."""
        return [(self.model, self.revision)]

    def models(self) -> list[str]:
        """Return the folder or name of each model."""
        return [model for model, _ in self.towers()]

    def training_data(self) -> list[TrainingData | None]:
        """Return the training data that each model's folder states."""
        return [training_data(fetch(*tower)) for tower in self.towers()]

    def weight_files(self) -> dict[str, int]:
        """Return the bytes of each file of weights, by its path."""
        found = (weight_bytes(self.checkpoint_files(fetch(*tower))) for tower in self.towers())
        return {path: size for sizes in found for path, size in sizes.items()}

    def slow_note(self) -> str:
        """Return a note if this machine computes more slowly in `dtype` than in float32, else ""."""
        from lexbench.models.dtype_speed import slow_note

        return slow_note(self.dtype, self.spec(*self.towers()[0]).torch_device, 'type dtype="float32"')

    def spec(self, name: str, revision: str | None) -> "ModelSpec":
        """Return how to load one of its models."""
        from lexbench.models.transformer_model import ModelSpec

        return ModelSpec(name, revision, self.dtype, self.device.split(",")[0])
