"""What encoders that run a transformer have in common: its weights, how texts are cut, where and in which batches it runs."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from lexbench.checkpoints import files
from lexbench.checkpoints.files import Files, fetch
from lexbench.checkpoints.settings import trained_on
from lexbench.errors import CommandError, LexbenchError
from lexbench.neural.token_batches import Batch, Input, Tokens, batches
from lexbench.registry import at_search, runtime
from lexbench.types import Document

_CHOICES = {
    "titles": ("off", "pair", "string"),
    "dtype": ("float32", "bfloat16", "float16"),
    "storage": ("float32", "float16"),
}
_DEVICE = re.compile(r"(auto|cpu|mps|cuda(:\d+)?)(,(cpu|mps|cuda(:\d+)?))*")
_SHORTEST = 8  # tokens: the special ones of a pair, and something to cut
_BATCH_TOKENS = {"cpu": 768, "cuda": 65_536, "mps": 8192}  # a processor wants its cache, a GPU wants work
_BATCH_TEXTS = 1024  # bounds (texts, vocabulary) float32: 125 MB for BERT's

V = TypeVar("V")


def untold(_count: int) -> None:
    """Hear of progress, where nobody else wants to."""


def place() -> Any:
    """Return a setting that says where weights are: their digests are in the key, and where they lie is not."""
    return runtime(None)


@dataclass(frozen=True)
class Transformer(ABC):
    """One object for both towers: *query_model* encodes queries where it is given, else *model* does.

    *model*: a folder, or a name on the Hugging Face hub. *titles*: "off" takes the document's text as it is; "pair" and
    "string" put a separator between title and body, and cut the longer of the two first, or the end. Lengths count special
    tokens. *storage* is how vectors are kept. *device*: "auto" is the first GPU or else the processor; several, as
    "cuda:0,cuda:1", are `workers`.
    """

    model: str = field(metadata={"runtime": True})
    revision: str | None = place()
    query_model: str | None = place()
    query_revision: str | None = place()
    titles: str = "off"
    query_length: int = at_search(512)
    document_length: int = 512
    dtype: str = "float32"
    storage: str = "float32"
    device: str = runtime("auto")
    batch_tokens: int = runtime(0)
    threads: int = runtime(0)

    deterministic: ClassVar[bool] = True  # on one machine and device: neither workers nor threads change a bit
    requires: ClassVar[tuple[str, ...]] = ("torch", "transformers")
    extra: ClassVar[str] = "neural"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # further settings, and what each may be

    def __post_init__(self) -> None:
        """Raise CommandError for settings that cannot be."""
        for name, known in {**self.choices, **_CHOICES}.items():
            if (given := getattr(self, name)) not in known:
                raise CommandError(f"{self.plugin}({name}={given!r}): there is {', '.join(known)}")
        for name in ("query_length", "document_length"):
            if (given := getattr(self, name)) < _SHORTEST:
                raise CommandError(f"{self.plugin}({name}={given}): give at least {_SHORTEST} tokens; special tokens count")
        for name in ("batch_tokens", "threads"):
            if (given := getattr(self, name)) < 0:
                raise CommandError(f"{self.plugin}({name}={given}): give a number above 0, or 0 for what suits the device")
        if not _DEVICE.fullmatch(self.device):
            raise CommandError(
                f"{self.plugin}(device={self.device!r}): there is auto, cpu, cuda, cuda:0, mps; several as cpu,cpu"
            )
        if self.query_revision and not self.query_model:
            raise CommandError(f"{self.plugin}(query_revision=…) says which revision of query_model, which is not given")

    @property
    def plugin(self) -> str:
        """The name that a user types for the encoder."""
        return type(self).__module__.rpartition(".")[2]

    @classmethod
    @abstractmethod
    def files(cls, folder: Any) -> Files:
        """Return the files in a checkpoint's *folder* that decide its vectors, and the settings that it carries."""

    @classmethod
    def checkpoint_defaults(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that the checkpoint named by *settings* (`model`, `revision`) says it is to be run with."""
        return cls.files(fetch(str(settings["model"]), settings.get("revision"))).defaults

    def remarks(self) -> list[str]:
        """Return what a reader of scores must know: where the checkpoint says that it is encoded with in another way."""
        said = self.checkpoint_defaults({"model": self.model, "revision": self.revision})
        return [
            f"{name}={getattr(self, name)!r} was asked for, and the checkpoint says {name}={value!r}"
            for name, value in said.items()
            if name in {**self.choices, **_CHOICES} and value != getattr(self, name)
        ]

    def trained_on(self) -> set[str]:
        """Return the datasets whose queries its towers are known to have learned from."""
        towers = [(self.model, self.revision)] + ([(self.query_model, self.query_revision)] if self.query_model else [])
        return set().union(*(trained_on(fetch(*tower)) for tower in towers))

    def identity(self) -> dict[str, Any]:
        """Return the digests of the weights and tokenizers, wherever they lie; `query_model` is None for one tower."""
        query = self._digest(self.query_model, self.query_revision) if self.query_model else None
        return self.index_identity() | {"query_model": query}

    def index_identity(self) -> dict[str, Any]:
        """Return those that document vectors come from."""
        return {"model": self._digest(self.model, self.revision)}

    def _digest(self, model: str, revision: str | None) -> dict[str, str]:
        return files.digest(self.files(fetch(model, revision)))

    def workers(self) -> list[Self]:
        """Return one copy for each device that is named; those on the processor share its cores."""
        devices = self.device.split(",")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        on_cores = devices.count("cpu")
        share = max(1, cores // on_cores) if on_cores > 1 else 0
        return [replace(self, device=one, threads=self.threads or (share if one == "cpu" else 0)) for one in devices]

    def titled(self, documents: Sequence[Document], separator: str, no_title: str = "-", prompt: str = "") -> list[Input]:
        """Return what the tokenizer takes of *documents*: after *prompt*, the title (*no_title* for none) as `titles` says."""
        if self.titles == "off":
            return [prompt + document.text for document in documents]
        pairs = [(prompt + (document.title or no_title), document.body) for document in documents]
        return [separator.join(pair) for pair in pairs] if self.titles == "string" else list(pairs)

    def _in_batches(
        self,
        tokens: Tokens,
        model: Any,
        compute: Callable[[Batch], V],
        advance: Callable[[int], None],
        silent: Sequence[int] = (),
    ) -> Iterator[tuple[Any, V]]:
        """Yield, batch by batch, the places (n,) of texts among *tokens* and what *compute* returns for them.

        *silent*: ids whose positions do not pool. LexbenchError where a batch does not fit into memory.
        """
        import torch

        if self.threads:
            torch.set_num_threads(self.threads)
        most = self.batch_tokens or _BATCH_TOKENS[model.device.type]
        for batch in batches(tokens, most, _BATCH_TEXTS, pad=model.pad, silent=silent):
            try:
                made = compute(batch)
            except torch.OutOfMemoryError as error:
                raise LexbenchError(
                    f"{model.name}: a batch of {batch.ids.size} tokens does not fit into the memory of {model.device}; "
                    f"type batch_tokens={batch.ids.size // 2}"
                ) from error
            yield batch.texts, made
            advance(len(batch.texts))

    def refuse_what_is_no_number(self, model: Any, values: Any) -> None:
        """Raise LexbenchError unless all of *values*, an array, are finite."""
        if not np.isfinite(values).all():
            hint = "its weights are damaged" if self.dtype == "float32" else "try dtype=float32"
            raise LexbenchError(f"{model.name} in {self.dtype} gives weights that are not numbers; {hint}")
