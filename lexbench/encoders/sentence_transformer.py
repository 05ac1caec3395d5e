"""Dense vectors that sentence-transformers computes, for folders with modules that `dense` does not have, e.g. a Router.

Its folder states everything: modules, prompts, lengths, similarity, cut vectors. Only classes of sentence-transformers run, and
no code in the folder.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench import devices
from lexbench.arrays.vectors import metric_of, unit_length
from lexbench.errors import CommandError, InvalidFile, LexbenchError, MissingData, listed, one_line, shortened
from lexbench.models.checkpoint import ABOUT, MODULES, downloaded, fetch, module_kinds, modules, optional_json
from lexbench.models.local_model import training_data
from lexbench.models.stated_modules import about, unused_prompts
from lexbench.models.stated_settings import instead
from lexbench.plugins import Encoder
from lexbench.registry import runtime
from lexbench.storage.reading import cached_file_digest
from lexbench.types import Kind, TrainingData

_TYPE = "SentenceTransformer"
_RENAMED = f"write it as {{side}} into {ABOUT}"  # for `unused_prompts`
_WEIGHTS = (".safetensors", ".bin")
_LISTED = 5  # weights in one message
_SAID = 200  # characters of an error


@dataclass(frozen=True)
class SentenceTransformer(Encoder):
    """*model* is a folder, or a name on the Hugging Face hub, where a *revision* can be given; *batch* texts at a time.

    `dense` computes the usual modules faster, and gives the same bits for a text in any batch.
    """

    model: str = field(metadata={"runtime": True})  # `identity` has its content
    revision: str | None = runtime(None)
    device: str = runtime("auto")
    batch: int = runtime(32)

    kind: ClassVar[Kind] = Kind.DENSE
    family: ClassVar[str] = "dense"
    requires: ClassVar[tuple[str, ...]] = ("sentence_transformers",)
    extra: ClassVar[str] = "sentence-transformers"

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings, and for a folder of another kind of model."""
        devices.check_names("sentence_transformer", self.device, several=False)
        if self.batch < 1:
            raise CommandError(f"sentence_transformer(batch={self.batch}): give a number of texts from 1")
        if not modules(self._folder):
            raise MissingData(f"{self.model}: no {MODULES}, so this is no folder of sentence-transformers")
        if foreign := next((kind for kind in module_kinds(self._folder) if "." in kind), ""):
            raise CommandError(f"{self.model}: a module {foreign}, which is code of its authors; lexbench runs none")
        if (kind := optional_json(self._folder / ABOUT).get("model_type", _TYPE)) != _TYPE:
            raise CommandError(f"{self.model}: a {kind}, and no {_TYPE}{instead(self._folder, 'sentence_transformer')}")

    @property
    def metric(self) -> str:  # type: ignore[override] # the folder decides it
        """The similarity, if vectors are not multiplied."""
        return metric_of(self._similarity)

    def identity(self) -> dict[str, Any]:
        """Return the digest of each file but cards. Raises InvalidFile if Git LFS has not downloaded one."""
        top = self._folder
        files = sorted(path for path in top.rglob("*") if path.is_file() and path.suffix != ".md" and path.name[0] != ".")
        return {"files": {path.relative_to(top).as_posix(): cached_file_digest(downloaded(path)) for path in files}}

    def models(self) -> list[str]:
        """Return its folder or name."""
        return [self.model]

    def training_data(self) -> list[TrainingData | None]:
        """Return the training data that the folder states."""
        return [training_data(self._folder)]

    def weight_files(self) -> dict[str, int]:
        """Return the bytes of each file of weights, by its path."""
        return {str(path): path.stat().st_size for path in sorted(self._folder.rglob("*")) if path.suffix in _WEIGHTS}

    def notes(self) -> list[str]:
        """Return a note on what computes, and notes on prompts that are put before no texts."""
        listed, stated = ", ".join(one.kind for one in modules(self._folder)), optional_json(self._folder / ABOUT)
        unused = unused_prompts(stated.get("prompts") or {}, stated.get("default_prompt_name"), _RENAMED)
        return [f"sentence-transformers computes its modules: {listed}", *unused]

    def encode_document(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors (texts, dimensions) of documents."""
        return self._vectors("encode_document", texts)

    def encode_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors (texts, dimensions) of queries."""
        return self._vectors("encode_query", texts)

    def _vectors(self, method: str, texts: Sequence[str]) -> NDArray[np.float32]:
        loaded = _loaded(self._folder, self.device, tuple(self.identity()["files"].values()))
        asked = list(texts) or [""]  # without texts, one finds out the width
        try:
            vectors = getattr(loaded, method)(asked, batch_size=self.batch, show_progress_bar=False)
        except Exception as error:
            raise _refusal(self.model, "encode", error) from error
        found = np.asarray(vectors, np.float32)[: len(texts)]
        return np.asarray(unit_length(found) if self._similarity == "cosine" else found)

    @property
    def _folder(self) -> Path:
        return fetch(self.model, self.revision)

    @property
    def _similarity(self) -> str:
        return about(self._folder, _TYPE).similarity or "cosine"  # the default of sentence-transformers


@lru_cache(maxsize=2)
def _loaded(folder: Path, device: str, _content: tuple[str, ...]) -> Any:
    """Return the object; it is loaded again if its files have changed.

    Raises LexbenchError if it does not load, or if its files lack a weight.
    """
    import sentence_transformers

    with _missing_weights() as missing:
        try:
            loaded = sentence_transformers.SentenceTransformer(
                str(folder), device=None if device == "auto" else device, local_files_only=True
            )
        except Exception as error:
            raise _refusal(str(folder), "load", error) from error
    if needed := [name for name in missing if "pooler" not in name]:
        raise InvalidFile(
            f"{folder}: {len(needed)} weights are missing ({listed(needed, _LISTED)}) and would be random; take the model from "
            "its source again"
        )
    return loaded


@contextmanager
def _missing_weights() -> Iterator[list[str]]:
    """Context whose value has the names of weights that the files of the models loaded in it lack.

    transformers draws them at random and writes a warning. It returns their names to callers that ask for them, and
    sentence-transformers does not ask.
    """
    from transformers import PreTrainedModel

    missing: list[str] = []
    original = vars(PreTrainedModel)["from_pretrained"]

    def recording(model_class: Any, *given: Any, **settings: Any) -> Any:
        model, loading = original.__func__(model_class, *given, **settings | {"output_loading_info": True})
        missing.extend(sorted(loading["missing_keys"]))
        return model

    PreTrainedModel.from_pretrained = classmethod(recording)
    try:
        yield missing
    finally:
        PreTrainedModel.from_pretrained = original


def _refusal(model: str, what: str, error: Exception) -> LexbenchError:
    said = shortened(one_line(str(error)), _SAID) or "without a message"
    return LexbenchError(f"{model}: sentence-transformers cannot {what} it: {type(error).__name__}: {said}")
