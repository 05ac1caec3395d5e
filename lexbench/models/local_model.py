"""Base class of encoders and rerankers that run a transformer on this machine: its checkpoint, and checks of its settings."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from lexbench import devices
from lexbench.errors import CommandError, NotationError, listed
from lexbench.models.architectures import unknown_settings
from lexbench.models.checkpoint import ADAPTER, CheckpointFiles, digests, fetch, optional_json, transformer_folder
from lexbench.notation import Call, Expression, parse
from lexbench.plugins import Model
from lexbench.types import TrainingData

if TYPE_CHECKING:
    from lexbench.models.transformer_model import ModelSpec

DTYPES = ("float32", "bfloat16", "float16", "int8")
_HALF = ("bfloat16", "float16")
_LISTED = 5  # unknown settings in one message
_SHORTEST = 8  # tokens: the special ones of a pair, and some of a text


class LocalModel(Model, ABC):
    """A plug-in with the fields model, revision, dtype, device, batch_tokens and threads, which runs one model or several."""

    model: str
    revision: str | None
    dtype: str
    device: str
    batch_tokens: int
    threads: int
    unknown_ok: bool

    requires: ClassVar[tuple[str, ...]] = ("torch", "transformers")
    extra: ClassVar[str] = "neural"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # settings and their allowed values
    lengths: ClassVar[tuple[str, ...]] = ()  # settings that are numbers of tokens
    several_devices: ClassVar[bool] = False  # whether `device` may list several

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        self.check_each(vars(self))

    @classmethod
    def check_each(cls, settings: Mapping[str, Any]) -> None:
        """Raise CommandError for an impossible one of *settings*, which may be some of them."""
        plugin = cls.__module__.rpartition(".")[2]
        for name, allowed in cls.choices.items():
            if (value := settings.get(name, allowed[0])) not in allowed:
                raise CommandError(f"{plugin}({name}={value!r}): there is {', '.join(allowed)}")
        for name in cls.lengths:
            if (value := settings.get(name, _SHORTEST)) < _SHORTEST:
                raise CommandError(f"{plugin}({name}={value}): give at least {_SHORTEST} tokens; special tokens count")
        for name in ("batch_tokens", "threads"):
            if (value := settings.get(name, 0)) < 0:
                raise CommandError(f"{plugin}({name}={value}): give a number above 0, or 0 for what suits the device")
        devices.check_names(plugin, settings.get("device", "auto"), several=cls.several_devices)

    @property
    def plugin(self) -> str:
        """The name that a user types for the plug-in."""
        return type(self).__module__.rpartition(".")[2]

    @classmethod
    def checkpoint_defaults(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that the checkpoint named by *settings* (`model`, `revision`) states.

        Raises CommandError for an impossible setting before anything is downloaded.
        """
        cls.check_each(settings)
        return cls.checkpoint_files(fetch(str(settings["model"]), settings.get("revision"))).defaults

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

    def digests(self, model: str, revision: str | None) -> dict[str, str]:
        """Return the digests of the files of one of its models, wherever they are. Raises the errors of `checkpoint_files`."""
        return digests(self.checkpoint_files(fetch(model, revision)))

    def check_settings(self) -> None:
        """Raise CommandError for settings that only code of a model's authors knows, unless `unknown_ok` accepts them."""
        for tower in {} if self.unknown_ok else dict.fromkeys(self.towers()):
            files = self.checkpoint_files(fetch(*tower))
            if unknown := unknown_settings(files.config):
                raise CommandError(
                    f"{files.folder}: config.json has settings of its authors' code (auto_map) that lexbench does not know: "
                    f"{listed(unknown, _LISTED)}; type unknown_ok=True to ignore them"
                )

    def code_notes(self) -> list[str]:
        """Return a note if the folder brings code that is not run."""
        config = self.checkpoint_files(fetch(self.model, self.revision)).config
        if not config.get("auto_map"):
            return []
        unknown = f", and ignores {listed(found, _LISTED)}" if (found := unknown_settings(config)) else ""
        return [f"{self.model} brings code (auto_map); lexbench runs none of it, and follows config.json{unknown}"]

    def notes(self) -> Sequence[str]:
        """Return a note if config.json states half precision and nobody asked for it: transformers then computes in that."""
        config = self.checkpoint_files(fetch(self.model, self.revision)).config
        stated = str(config.get("dtype") or config.get("torch_dtype") or "").removeprefix("torch.")
        if self.dtype != "float32" or stated not in _HALF:
            return []
        return [f'config.json states {stated}, and lexbench computes in float32; for its rounding, type dtype="{stated}"']

    def weight_files(self) -> dict[str, int]:
        """Return the bytes of each file of weights, by its path."""
        paths = [path for tower in self.towers() for path in self.checkpoint_files(fetch(*tower)).all_weights]
        return {str(path): path.stat().st_size for path in paths}

    def slow_note(self) -> str:
        """Return a note if this machine computes more slowly in `dtype` than in float32, else ""."""
        from lexbench.models.dtype_speed import slow_note

        return slow_note(self.dtype, self.spec(*self.towers()[0]).torch_device, 'type dtype="float32"')

    def spec(self, name: str, revision: str | None) -> "ModelSpec":
        """Return how to load one of its models."""
        from lexbench.models.transformer_model import ModelSpec

        return ModelSpec(name, revision, self.dtype, self.device.split(",")[0])


# ---- what a model has learned from -----------------------------------------------------------------------------------------

_CARD = "README.md"
_HEADER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_NAMES = {  # the name of a collection on the hub: its name in contracts
    "ms_marco": "msmarco",
    "microsoft/ms_marco": "msmarco",
    "natural_questions": "natural-questions",
    "google-research-datasets/natural_questions": "natural-questions",
    "hotpot_qa": "hotpotqa",
    "hotpotqa/hotpot_qa": "hotpotqa",
    "embedding-data/specter": "specter",
    "embedding-data/paq_pairs": "wikipedia",
    "embedding-data/qqp": "quora",
}


def training_data(folder: Path) -> TrainingData | None:
    """Return the training data of the model in *folder*, with an adapter's base model; None if the folder states none."""
    data = _stated(folder)
    base = optional_json(transformer_folder(folder) / ADAPTER).get("base_model_name_or_path")
    return data._replace(models=(*data.models, str(base))) if data and base else data


def _stated(folder: Path) -> TrainingData | None:
    training = optional_json(folder / "training.json")
    if isinstance(recipe := training.get("recipe"), dict):
        facts = training.get("facts")
        return _from_training(recipe, str(training.get("what", "")), facts if isinstance(facts, dict) else {})
    if datasets := _card_datasets(folder / _CARD):
        return TrainingData(tuple(_NAMES.get(name.lower(), name.lower()) for name in datasets), (), (), "its card")
    return None


def _from_training(recipe: dict[str, Any], what: str, facts: dict[str, Any]) -> TrainingData:
    """Return the collections, the initial model and the teachers that training.json records.

    *what* is the model, such as stage1; the recipe's other stages count only if its weights come from them.
    """
    uses = [(str(data.get("dataset")), data.get("use")) for data in facts.get("data") or () if isinstance(data, dict)]
    sections = {name: section for name, section in recipe.items() if isinstance(section, dict)}
    stages = []
    while what.startswith("stage") and what in sections:
        stages.append(sections.pop(what))
        what = str(stages[-1].get("start"))
    teachers = [name for stage in stages for name in _teacher_models(stage.get("teacher"))]
    others = ("start", "imitation", "ranking") if what == "imitated" else ("start",)
    named = [sections.get(section, {}).get("model") for section in others]
    known = facts.get("hub_names")
    hub_names = known if isinstance(known, dict) else {}
    models = [hub_names.get(model, model) for model in (*named, *teachers) if isinstance(model, str)]
    lists = [stage["queries"] for stage in stages if isinstance(stage.get("queries"), list)]
    queries = [str(name) for names in lists for name in names]
    return TrainingData(
        queries=tuple(dict.fromkeys([*queries, *(name for name, use in uses if use == "training")])),
        texts=tuple(dict.fromkeys(name for name, use in uses if use not in ("training", "selection"))),
        models=tuple(dict.fromkeys(models)),
        source="its training.json",
        chosen=tuple(dict.fromkeys(name for name, use in uses if use == "selection")),
    )


def _teacher_models(teacher: Any) -> Iterator[str]:
    """Yield the models of a *teacher*, which is a model or a system in the notation; BM25 is not trained."""
    if not isinstance(teacher, str) or "(" not in teacher:
        yield from [teacher] if isinstance(teacher, str) and teacher != "bm25" else []
        return
    try:
        waiting: list[Any] = [parse(teacher)]
    except NotationError:
        yield teacher
        return
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, Expression):
            waiting.insert(0, value.head)
        elif isinstance(value, Call):
            inner = [argument for argument in value.args if isinstance(argument, Expression | Call)]
            waiting += inner
            if not inner and value.name != "bm25":
                yield str(value) if value.name == "run_file" else value.name  # nothing else says which file it is


def _card_datasets(card: Path) -> list[str]:
    """Return the entries of `datasets:` in the header of a model card, which is YAML between two lines of `---`."""
    try:
        header = _HEADER.match(card.read_text(encoding="utf-8", errors="replace"))
        stated = msgspec.yaml.decode(header[1], type=dict[str, Any]).get("datasets") if header else None
    except (OSError, msgspec.MsgspecError):
        return []
    return [str(name) for name in (stated if isinstance(stated, list) else [stated] if stated else [])]
