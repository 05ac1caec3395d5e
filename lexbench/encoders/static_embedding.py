"""One dense vector per text: the mean of a vector per token, from a table; no model runs (StaticEmbedding, model2vec).

Folders of sentence-transformers are encoded as there: every token counts, also an unknown one. A folder of model2vec without
modules.json is encoded as by model2vec (S. Tulkens and T. van Dongen, 2024), which leaves out unknown tokens and cuts texts.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.arrays.vectors import SIMILARITIES, metric_of, offsets_of, unit_length
from lexbench.encoders._prompts import Prompted
from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.models.checkpoint import (
    CONFIG,
    CheckpointFiles,
    digests,
    fetch,
    first_line,
    modules,
    optional_json,
    tokenizer_files,
    weight_files,
)
from lexbench.models.local_model import training_data
from lexbench.models.stated_settings import static_embedding_defaults
from lexbench.registry import at_search, optional, runtime
from lexbench.storage.reading import FileState, file_state
from lexbench.types import Kind, TrainingData

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_LENGTH = 512  # tokens, of model2vec if its config.json says nothing
_WEIGHT = "embedding.weight"  # of sentence-transformers
_TABLE = ("embeddings", "mapping", "weights")  # of model2vec: rows, the row of each token, the weight of each token


@dataclass(frozen=True)
class StaticEmbedding(Prompted):
    """*model* is a folder, or a name on the Hugging Face hub, where a *revision* can be given. Folders state the settings.

    *similarity* is "dot"; "cosine", which makes vectors of length 1; or "euclidean" or "manhattan", which `flat` has.
    *dimensions* above 0 cuts vectors before. Prompts are put before texts.
    """

    model: str = field(metadata={"runtime": True})  # `identity` has its content
    revision: str | None = runtime(None)
    similarity: str = "cosine"
    dimensions: int = optional(0)
    query_prompt: str = at_search("")
    document_prompt: str = ""
    storage: str = "float32"

    kind: ClassVar[Kind] = Kind.DENSE
    family: ClassVar[str] = "dense"
    deterministic: ClassVar[bool] = True
    requires: ClassVar[tuple[str, ...]] = ("torch", "tokenizers")
    extra: ClassVar[str] = "neural"

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        self.check_prompts()
        if self.similarity not in SIMILARITIES:
            raise CommandError(f"static_embedding(similarity={self.similarity!r}): there is {', '.join(SIMILARITIES)}")
        if self.storage not in ("float32", "float16"):
            raise CommandError(f"static_embedding(storage={self.storage!r}): there is float32, float16")
        if self.dimensions < 0:
            raise CommandError(f"static_embedding(dimensions={self.dimensions}): a number above 0, or 0 for all")

    # ---- the folder --------------------------------------------------------------------------------------------------------

    @classmethod
    def checkpoint_defaults(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that the folder named by *settings* states."""
        return cls.checkpoint_files(fetch(str(settings["model"]), settings.get("revision"))).defaults

    @classmethod
    def checkpoint_files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of the table and its tokenizer, and the settings that the folder states."""
        listed = modules(folder)
        place = folder / listed[0].subfolder if listed else folder
        config = {} if listed else optional_json(folder / CONFIG)
        defaults = static_embedding_defaults(folder, optional_json(folder / CONFIG))
        if not (tokenizer := [path for path in tokenizer_files(place) if path.name == "tokenizer.json"]):
            raise MissingData(f"{place}: no tokenizer.json; copy it from the model's source")
        return CheckpointFiles(place, config, weight_files(place), tokenizer, defaults)

    def identity(self) -> dict[str, Any]:
        """Return the digests of the table and the tokenizer."""
        return {"model": digests(self._files())}

    def models(self) -> list[str]:
        """Return its folder or name."""
        return [self.model]

    def training_data(self) -> list[TrainingData | None]:
        """Return the training data that the folder states."""
        return [training_data(fetch(self.model, self.revision))]

    def notes(self) -> list[str]:
        """Return a note on the prompt of queries if it may depend on the dataset, and notes on prompts without a use."""
        return [*self.prompt_notes(), *self.unused_prompts(fetch(self.model, self.revision))]

    def weight_files(self) -> dict[str, int]:
        """Return the bytes of each file of weights, by its path."""
        return {str(path): path.stat().st_size for path in self._files().weights}

    def _files(self) -> CheckpointFiles:
        return self.checkpoint_files(fetch(self.model, self.revision))

    # ---- encoding ----------------------------------------------------------------------------------------------------------

    @property
    def metric(self) -> str:  # type: ignore[override] # a setting decides it
        """The similarity, if vectors are not multiplied."""
        return metric_of(self.similarity)

    def encode_document(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors (texts, dimensions) of documents."""
        return self._vectors([self.document_prompt + text for text in texts])

    def encode_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors (texts, dimensions) of queries."""
        return self._vectors([self.asked_prompt + text for text in texts])

    def _vectors(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the means (texts, dimensions) of token vectors, cut and scaled; 0 for a text without tokens."""
        files = self._files()
        states = tuple(file_state(path) for path in (*files.weights, *files.tokenizer))
        table = _read(files.folder, bool(files.config), states)
        if self.dimensions > table.vectors.shape[1]:
            raise CommandError(f"static_embedding(dimensions={self.dimensions}): {self.model} has {table.vectors.shape[1]}")
        ids = table.ids(texts)
        counts = np.array([len(row) for row in ids], np.int64)
        shares = np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)
        tokens = np.concatenate([np.array(row, np.int32) for row in ids]) if ids else np.zeros(0, np.int32)
        means = sparse.csr_array((shares, tokens, offsets_of(counts)), shape=(len(texts), len(table.vectors))) @ table.vectors
        means = np.asarray(means, np.float32)[:, : self.dimensions or None]
        found: NDArray[np.float32] = unit_length(means) if self.similarity == "cosine" else means
        return found


class EmbeddingTable(NamedTuple):
    """A vector per token, and the tokenizer; *unknown* is the id that is left out, *characters* the most that are read."""

    vectors: NDArray[np.float32]  # (vocabulary, dimensions)
    tokenizer: "Tokenizer"
    unknown: int | None = None
    characters: int | None = None

    def ids(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of the tokens of each text."""
        cut = [text[: self.characters] for text in texts]
        encodings = self.tokenizer.encode_batch_fast(cut, add_special_tokens=False)
        return [[token for token in encoding.ids if token != self.unknown] for encoding in encodings]


@lru_cache(maxsize=4)
def _read(folder: Path, by_model2vec: bool, _states: tuple[FileState, ...]) -> EmbeddingTable:  # noqa: FBT001 - it is part of a cache's key
    """Return the table in *folder*; it is read again if its files have changed. Raises InvalidFile if it has none."""
    from tokenizers import Tokenizer

    from lexbench.models.loading import read_tensors

    tensors = read_tensors(weight_files(folder))
    vectors = tensors.get(_WEIGHT, tensors.get(_TABLE[0]))
    if vectors is None or vectors.dim() != 2:  # noqa: PLR2004 - a matrix
        raise InvalidFile(f"{folder}: no table {_WEIGHT} or {_TABLE[0]} (tokens, dimensions), but {', '.join(tensors)}")
    rows = vectors.float().numpy()
    if (mapping := tensors.get(_TABLE[1])) is not None:
        rows = rows[mapping.long().numpy()]
    if (weights := tensors.get(_TABLE[2])) is not None:
        rows = rows * weights.float().numpy()[:, None]
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # tokenizers raises plain Exception
        raise InvalidFile(f"{folder / 'tokenizer.json'}: the tokenizer does not load ({first_line(error)})") from error
    tokenizer.no_padding()
    vocabulary = tokenizer.get_vocab()
    if max(vocabulary.values(), default=0) >= len(rows):
        raise InvalidFile(f"{folder}: the tokenizer has more tokens than the table of {len(rows):,}; take both from one source")
    table = EmbeddingTable(np.ascontiguousarray(rows, np.float32), tokenizer)
    return _as_in_model2vec(table, folder, vocabulary) if by_model2vec else table


def _as_in_model2vec(table: EmbeddingTable, folder: Path, vocabulary: Mapping[str, int]) -> EmbeddingTable:
    """Return *table* as model2vec uses it: without the unknown token, texts cut to so many tokens, and to characters before."""
    model = json.loads(table.tokenizer.to_str())["model"]
    unknown = vocabulary.get(model["unk_token"]) if model.get("unk_token") else model.get("unk_id")
    length = optional_json(folder / CONFIG).get("max_length", _LENGTH)
    if length is None:
        table.tokenizer.no_truncation()
    else:
        table.tokenizer.enable_truncation(length)
    median = int(np.median([len(token) for token in vocabulary]))
    return table._replace(unknown=unknown, characters=None if length is None else length * median)
