"""One vector per token, compared token by token by the engine: ColBERT and ColBERTv2 (K. Santhanam et al., NAACL 2022).

A token's vector is its state, projected by a linear layer and normalised to length 1. A marker behind [CLS] distinguishes
queries from documents. Queries are filled with [MASK], which represents additional words. The punctuation of documents has no
vectors. All this follows the code of stanford-futuredata/ColBERT.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.arrays.vectors import offsets_of
from lexbench.encoders._transformer import Transformer, encode, no_progress
from lexbench.errors import CommandError
from lexbench.models.architectures import body_files
from lexbench.models.checkpoint import CheckpointFiles
from lexbench.models.stated_modules import STEPS
from lexbench.models.stated_settings import late_interaction_defaults
from lexbench.models.token_batches import Batch, Tokens, filled
from lexbench.registry import at_search, optional, optional_at_search
from lexbench.types import Document, Kind, MultiVectors

if TYPE_CHECKING:
    from lexbench.encoders._torch_models import LateInteractionModel


@dataclass(frozen=True)
class LateInteraction(Transformer):
    """The settings of `Transformer`, and the following; folders of ColBERT and PyLate state most of them.

    Markers are tokens, "" for none; lengths include them. Queries are filled with [MASK] up to *mask_queries_to* tokens, which
    have vectors; other tokens attend to them only with *attend_to_masks*. With *skip_punctuation* the model reads tokens of
    documents that are one character of ASCII punctuation, but they have no vector; [CLS], marker and [SEP] have one. [UNK] has
    none either if the vocabulary lacks such a character, as in ColBERT and PyLate. *skipped* names other tokens without a
    vector, separated by blanks; with *skip_in_queries* those of queries have none either.

    Prompts are texts behind [CLS]. *mask_token* fills queries instead of [MASK]. *head* has the steps behind the model, as in
    `dense`, e.g. "linear_gelu_linear". Without *unit_length* vectors are not scaled to length 1.
    """

    query_length: int = at_search(32)
    document_length: int = 220
    query_marker: str = at_search("[unused0]")
    document_marker: str = "[unused1]"
    mask_queries_to: int = at_search(32)
    attend_to_masks: bool = at_search(False)
    skip_punctuation: bool = True
    skipped: str = optional("")
    skip_in_queries: bool = optional_at_search(False)
    query_prompt: str = optional_at_search("")
    document_prompt: str = optional("")
    mask_token: str = optional_at_search("")
    head: str = optional("linear")
    unit_length: bool = optional(True)

    kind: ClassVar[Kind] = Kind.MULTI
    version: ClassVar[int] = 2
    family: ClassVar[str] = "late interaction"
    query_lengths: ClassVar[tuple[str, ...]] = ("query_length", "mask_queries_to")

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        super().__post_init__()
        if self.mask_queries_to < 0:
            raise CommandError(f"late_interaction(mask_queries_to={self.mask_queries_to}): a whole number from 0")
        if self.head != "none" and not set(self.head.split("_")) <= set(STEPS):
            raise CommandError(f"late_interaction(head={self.head!r}): there is {', '.join(STEPS)}, joined by _")

    @classmethod
    def checkpoint_files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of a body and its projection, and the settings that the folder states."""
        files = body_files(folder)
        return replace(files, defaults=late_interaction_defaults(folder, files.config))

    @staticmethod
    def _computation() -> "type[LateInteractionModel]":
        from lexbench.encoders._torch_models import LateInteractionModel

        return LateInteractionModel

    def tokenise_documents(self, documents: Sequence[Document]) -> Tokens:
        """Return the tokens of *documents* with titles and marker, cut to `document_length`."""
        model = self._document_model()
        model.check_head(self._steps)
        texts = self._inputs(documents, str(model.tokenizer.sep_token))
        marker = model.token_id(self.document_marker, "document_marker") if self.document_marker else None
        tokens: Tokens = model.marked(texts, self.document_length, "document_length", marker)
        return tokens

    def encode_query(self, texts: Sequence[str]) -> MultiVectors:
        """Return the vectors of all tokens of queries, [MASK] included."""
        model = self._query_model()
        model.check_head(self._steps)
        marker = model.token_id(self.query_marker, "query_marker") if self.query_marker else None
        tokens = model.marked([self.asked_prompt + text for text in texts], self.query_length, "query_length", marker)
        attended = np.diff(tokens.starts)
        if self.mask_queries_to:
            model.check_length(self.mask_queries_to, "mask_queries_to")
            filler = model.token_id(self.mask_token, "mask_token") if self.mask_token else model.mask("mask_queries_to=0")
            tokens = filled(tokens, filler, self.mask_queries_to)
        return self._encoded(model, tokens, query=True, attended=None if self.attend_to_masks else attended)

    def _encoded(
        self,
        model: "LateInteractionModel",
        tokens: Tokens,
        *,
        query: bool,
        advance: Callable[[int], None] = no_progress,
        attended: NDArray[np.int64] | None = None,
    ) -> MultiVectors:
        """Return the vectors of the tokens that are not skipped.

        The first *attended* tokens of each text (texts,) are seen by the others; None: all.
        """

        def compute(batch: Batch) -> MultiVectors:
            if attended is not None:
                batch = batch._replace(real=np.arange(batch.ids.shape[1]) < attended[batch.texts, None])
            vectors = model.vectors(batch, self._steps, unit_length=self.unit_length)
            return MultiVectors(vectors, offsets_of(batch.pools.sum(1)))

        skipped = self._skipped(model) if self.skip_in_queries or not query else ()
        nothing = MultiVectors(np.zeros((0, model.dimensions), np.float32), np.zeros(1, np.int64))
        return encode(self, model, tokens, compute, nothing, silent=skipped, advance=advance)

    @property
    def _steps(self) -> list[str]:
        """The steps of the head."""
        return [] if self.head == "none" else self.head.split("_")

    def _skipped(self, model: "LateInteractionModel") -> Sequence[int]:
        """Return the ids of tokens that have no vectors."""
        return [*(model.punctuation() if self.skip_punctuation else ()), *model.known(self.skipped.split())]
