"""Learned weights of a text's own tokens: uniCOIL, and COIL-tok with one number per token.

A token's weight is max(0, its state projected onto one number), the largest if it repeats (J. Lin and X. Ma, "A few brief notes
on DeepImpact, COIL, and a conceptual framework …", 2021, as in pyserini's UniCoil encoders). Only [CLS] and padding have no
weight. A text gets no other terms, so documents are expanded first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from lexbench.datasets.expansion import expansions
from lexbench.encoders._transformer import Transformer, encode, no_progress, no_terms, term_text
from lexbench.errors import CommandError, LexbenchError, MissingData, listed
from lexbench.models.architectures import body_files
from lexbench.models.checkpoint import CheckpointFiles
from lexbench.models.token_batches import Tokens, tokenise
from lexbench.registry import at_search, runtime
from lexbench.storage.reading import cached_file_digest
from lexbench.types import Document, Kind

if TYPE_CHECKING:
    from lexbench.encoders._torch_models import TermWeightsModel

_SPECIAL = 3  # tokens of an expanded document: [CLS] text [SEP] expansion [SEP]
_NAMED = 3  # ids in an error message


@dataclass(frozen=True)
class TermWeights(Transformer):
    """The settings of `Transformer`, and the following.

    *expansions* is a file that `lexbench.datasets.expansion` reads; it must have every document. The first *expansion_length*
    tokens of an expansion are added to the document, each once, without those that the text has. The text is cut to the rest
    of *document_length*; 503 leaves 400 tokens, as in pyserini. Each worker has a temporary file of the expansions.
    """

    query_length: int = at_search(128)
    document_length: int = 512
    expansions: str | None = runtime(None)  # its digest is in the key instead
    expansion_length: int = 100

    kind: ClassVar[Kind] = Kind.SPARSE
    names_terms: ClassVar[bool] = True
    family: ClassVar[str] = "term weights"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.expansion_length < self.document_length - _SPECIAL:
            raise CommandError(
                f"term_weights(expansion_length={self.expansion_length}): give 1 to {self.document_length - _SPECIAL - 1} "
                f"tokens, so that document_length={self.document_length} leaves some for the text"
            )
        if self.expansions and self.titles != "off":
            raise CommandError("term_weights(expansions=…) is for titles=off: the expansion is what follows the separator")
        if self.expansions and not Path(self.expansions).is_file():
            raise MissingData(f"term_weights(expansions={self.expansions!r}): there is no such file")

    @classmethod
    def checkpoint_files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of a body and its projection."""
        return body_files(folder)

    def index_identity(self) -> dict[str, Any]:
        """Return the digests of the files that decide document vectors."""
        return super().index_identity() | ({"expansions": cached_file_digest(Path(self.expansions))} if self.expansions else {})

    @staticmethod
    def _computation() -> "type[TermWeightsModel]":
        from lexbench.encoders._torch_models import TermWeightsModel

        return TermWeightsModel

    def token(self, term: int) -> str:
        """Return the text of a term, or its number in brackets if the tokenizer has none."""
        return term_text(self._document_model(), term)

    def tokenise_documents(self, documents: Sequence[Document]) -> Tokens:
        """Return the tokens of *documents*, expanded if there is a file. Raises LexbenchError if the file lacks a document."""
        if not self.expansions:
            return super().tokenise_documents(documents)
        added = expansions(self.expansions).find([document.doc_id for document in documents])
        if missing := [document.doc_id for document, text in zip(documents, added, strict=True) if text is None]:
            raise LexbenchError(
                f"{self.expansions} has no expansion of document {listed(list(map(repr, missing)), _NAMED)}; "
                "give each document a line, even with an empty text"
            )
        return self._expanded(self._document_model(), [document.text for document in documents], [text or "" for text in added])

    def own_tokens(self) -> int:
        """Return how many tokens of a document are not its text's: those of the expansion count in full."""
        return self.expansion_length + _SPECIAL if self.expansions else super().own_tokens()

    def _expanded(self, model: "TermWeightsModel", texts: Sequence[str], added: Sequence[str]) -> Tokens:
        """Return [CLS] text [SEP] expansion [SEP] for each text."""
        first, last = model.first, int(model.tokenizer.sep_token_id)
        left = self.document_length - self.expansion_length - _SPECIAL
        pairs = zip(
            model.cutter(left, "document_length").encode_batch_fast(list(texts), add_special_tokens=False),
            model.cutter(self.expansion_length, "expansion_length").encode_batch_fast(list(added), add_special_tokens=False),
            strict=True,
        )
        rows, cut = [], []
        for text, expansion in pairs:
            known = set(text.ids)
            new = {token for token in expansion.ids if token not in known}  # ordered like in pyserini
            rows.append([first, *text.ids, last, *new, last])
            cut.append(bool(text.overflowing or expansion.overflowing))
        starts = np.cumsum([0, *map(len, rows)])
        ids = np.concatenate([np.zeros(0, np.int32), *(np.array(one, np.int32) for one in rows)])
        return Tokens(ids, starts, np.array(cut, bool))

    def encode_document(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the vectors (texts, vocabulary) of documents without id, which have no expansion."""
        model = self._document_model()
        tokens = tokenise(model.cutter(self.document_length, "document_length"), texts)
        return self._encoded(model, tokens, query=False)

    def _encoded(
        self,
        model: "TermWeightsModel",
        tokens: Tokens,
        *,
        query: bool,  # noqa: ARG002 - both are the same
        advance: Callable[[int], None] = no_progress,
    ) -> sparse.csr_array:
        return encode(self, model, tokens, model.vectors, no_terms(model.dimensions), silent=[model.first], advance=advance)
