"""One vector per token, compared token by token by the engine: ColBERT and ColBERTv2 (K. Santhanam et al., NAACL 2022).

A token's vector is its state, projected by a linear layer and normalised to length 1. A marker behind [CLS] tells queries from
documents, queries are filled with [MASK], which represents additional words, and the punctuation of documents has no vectors.
All this follows the code of stanford-futuredata/ColBERT.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.encoders._transformer import Transformer, no_progress
from lexbench.errors import CommandError
from lexbench.models.architectures import body_files
from lexbench.models.checkpoint import CheckpointFiles
from lexbench.models.stated_settings import late_interaction_defaults
from lexbench.models.token_batches import Batch, Tokens, filled
from lexbench.registry import at_search
from lexbench.types import Document, Kind, MultiVectors
from lexbench.vectors import offsets_of, rows_of

if TYPE_CHECKING:
    from lexbench.encoders._torch_models import LateInteractionModel


@dataclass(frozen=True)
class LateInteraction(Transformer):
    """The settings of `Transformer`, and the following; folders of ColBERT and PyLate state most of them.

    Markers are tokens, "" for none; lengths include them. Queries are filled with [MASK] up to *mask_queries_to* tokens, which
    have vectors; other tokens attend to them only with *attend_to_masks*. With *skip_punctuation* the model reads tokens of
    documents that are one character of ASCII punctuation, but they have no vector; [CLS], marker and [SEP] have one.
    """

    query_length: int = at_search(32)
    document_length: int = 220
    query_marker: str = at_search("[unused0]")
    document_marker: str = "[unused1]"
    mask_queries_to: int = at_search(32)
    attend_to_masks: bool = at_search(False)
    skip_punctuation: bool = True

    kind: ClassVar[Kind] = Kind.MULTI
    family: ClassVar[str] = "late interaction"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        super().__post_init__()
        if self.mask_queries_to < 0:
            raise CommandError(f"late_interaction(mask_queries_to={self.mask_queries_to}): a whole number from 0")

    @classmethod
    def checkpoint_files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of a body and its projection, and the settings that the folder states."""
        files = body_files(folder)
        return replace(files, defaults=late_interaction_defaults(folder, files.config))

    def tokenise_documents(self, documents: Sequence[Document]) -> Tokens:
        """Return the tokens of *documents* with titles and marker, cut to `document_length`."""
        model = self._document_model()
        texts = self._inputs(documents, str(model.tokenizer.sep_token))
        marker = model.token_id(self.document_marker, "document_marker") if self.document_marker else None
        tokens: Tokens = model.marked(texts, self.document_length, "document_length", marker)
        return tokens

    def encode_tokens(self, tokens: Tokens, advance: Callable[[int], None] = no_progress) -> MultiVectors:
        """Return the vectors of the *tokens* of documents, in order, without punctuation if that is skipped."""
        model = self._document_model()
        skipped = model.punctuation() if self.skip_punctuation else []
        computed = self._in_batches(model, tokens, lambda batch: self._vectors(model, batch), advance, skipped)
        return _in_order(list(computed), model.dimensions)

    def encode_query(self, texts: Sequence[str]) -> MultiVectors:
        """Return the vectors of all tokens of queries, [MASK] included."""
        model = self._query_model()
        marker = model.token_id(self.query_marker, "query_marker") if self.query_marker else None
        tokens = model.marked(list(texts), self.query_length, "query_length", marker)
        attended = np.diff(tokens.starts)
        if self.mask_queries_to:
            model.cutter(self.mask_queries_to, "mask_queries_to")  # raises if the model takes fewer
            tokens = filled(tokens, model.mask_token(), self.mask_queries_to)
        if self.attend_to_masks:
            attended = np.diff(tokens.starts)

        def compute(batch: Batch) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
            real = np.arange(batch.ids.shape[1]) < attended[batch.texts, None]
            return self._vectors(model, batch._replace(real=real))

        return _in_order(list(self._in_batches(model, tokens, compute, no_progress)), model.dimensions)

    def _model_class(self) -> "type[LateInteractionModel]":
        from lexbench.encoders._torch_models import LateInteractionModel

        return LateInteractionModel

    def _vectors(self, model: "LateInteractionModel", batch: Batch) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the vectors (tokens, dimensions) of one batch, and their number per text (n,)."""
        vectors = model.vectors(batch)
        model.check_finite(vectors, "weights")
        return vectors, batch.pools.sum(1)


def _in_order(
    batches: list[tuple[NDArray[np.int64], tuple[NDArray[np.float32], NDArray[np.int64]]]], dimensions: int
) -> MultiVectors:
    """Return the vectors of *batches*, each (indices of its texts, result of `_vectors`), in the order of the texts."""
    if not batches:
        return MultiVectors(np.zeros((0, dimensions), np.float32), np.zeros(1, np.int64))
    counts = np.concatenate([counts for _, (_, counts) in batches])
    longest_first = MultiVectors(np.concatenate([vectors for _, (vectors, _) in batches]), offsets_of(counts))
    return rows_of(longest_first, np.argsort(np.concatenate([texts for texts, _ in batches])))
