"""Learned sparse vectors of documents, and queries without a model: a table has the weight of each query token.

"Inference-free" SPLADE (Geng et al. 2024, arXiv 2411.04403; the document models of OpenSearch, and sentence-transformers'
Router with a SparseStaticEmbedding): a query's vector has the weight of each of its tokens once. Encoding a query is only
tokenising it, so a system is as fast as its search. Documents are encoded as by `sparse_mlm`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.encoders.sparse_mlm import SparseMLM
from lexbench.errors import CommandError
from lexbench.models.architectures import masked_lm_files
from lexbench.models.checkpoint import CheckpointFiles, fetch
from lexbench.models.query_weights import load_tokenizer, read_table, table_file, tokenizer_file
from lexbench.registry import runtime
from lexbench.storage.reading import cached_file_digest

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class InferenceFree(SparseMLM):
    """The settings of `SparseMLM`, and *query_weights*: a JSON file {"token": weight} that replaces the table in the folder.

    Special tokens are not added to queries. A repeated token counts once.
    """

    query_weights: str | None = runtime(None)  # its digest is in `identity`

    family: ClassVar[str] = "sparse"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        super().__post_init__()
        if self.query_model:
            raise CommandError(
                'inference_free(query_model=…): queries go through no model; type sparse_mlm, or query_weights="FILE"'
            )

    @classmethod
    def checkpoint_files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of the model of documents, and the settings that the folder states."""
        return masked_lm_files(folder, documents_only=True)

    @classmethod
    def checkpoint_defaults(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that the checkpoint states. Raises MissingData if there is no table of query weights."""
        folder = fetch(str(settings["model"]), settings.get("revision"))
        if not settings.get("query_weights"):
            table_file(folder)
        return cls.checkpoint_files(folder).defaults

    def identity(self) -> dict[str, Any]:
        """Return the digests of the documents' model, and of the table and tokenizer of queries."""
        table, tokenizer = self._files()
        files = {"query_weights": table, "query_tokenizer": tokenizer}
        return self.index_identity() | {name: cached_file_digest(path) for name, path in files.items()}

    def remarks(self) -> list[str]:
        """Return the notes of `Transformer`, and one that no model runs for queries."""
        known = int(np.count_nonzero(self._table()))
        return [*super().remarks(), f"queries are looked up in a table of {known:,} weighted tokens; no model runs for them"]

    def encode_query(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the vectors (texts, vocabulary) of queries: the weight of each of their tokens, once."""
        weights = self._table()
        width = max(len(weights), int(self.checkpoint_files(fetch(self.model, self.revision)).config["vocab_size"]))
        encodings = _tokenizer(self._files()[1], self.query_length).encode_batch_fast(list(texts), add_special_tokens=False)
        rows = [np.unique(np.array(encoding.ids, np.int32)) for encoding in encodings]
        kept = [ids[weights[ids] > 0] for ids in rows]
        offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in kept])]).astype(np.int32)
        terms = np.concatenate(kept) if kept else np.zeros(0, np.int32)
        return sparse.csr_array((weights[terms], terms, offsets), shape=(len(kept), width))

    def _files(self) -> tuple[Path, Path]:
        """Return the files of the table and of the tokenizer of queries."""
        folder = fetch(self.model, self.revision)
        return Path(self.query_weights).expanduser() if self.query_weights else table_file(folder), tokenizer_file(folder)

    def _table(self) -> NDArray[np.float32]:
        return read_table(*self._files())


@lru_cache(maxsize=4)
def _tokenizer(path: Path, length: int) -> "Tokenizer":
    tokenizer = load_tokenizer(path)
    tokenizer.enable_truncation(length)
    return tokenizer
