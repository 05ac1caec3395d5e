"""Learned sparse vectors from a masked-language model, e.g. LexMAE or SPLADE.

A text's weight for a term is log(1 + max(0, the largest logit of the term at any position of the text)). LexMAE (T. Shen et
al., ICLR 2023) and SPLADE (T. Formal et al., 2021) differ in the positions and in the use of titles; see the settings
`positions` and `titles`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lexbench.encoders._transformer import SparseTransformer, no_progress
from lexbench.errors import CommandError, LexbenchError, listed
from lexbench.models.architectures import masked_lm_files, unknown_settings
from lexbench.models.checkpoint import CheckpointFiles, fetch
from lexbench.models.token_batches import Batch, Tokens, plain_copy, tokenise
from lexbench.registry import at_search, optional, optional_at_search, runtime
from lexbench.transforms.top_k import TopK
from lexbench.types import Document

if TYPE_CHECKING:
    import scipy

    from lexbench.encoders._torch_models import Rules

_LISTED = 5  # unknown settings in one message
_DENSE = 0.5  # share of the vocabulary; vectors with more terms are not sparse


@dataclass(frozen=True)
class SparseMLM(SparseTransformer):
    """The settings of `Transformer`, and the following; folders of LexMAE and sentence-transformers state them.

    *positions*: "all" pools everything but padding (SPLADE), "text" also leaves out the first token and every separator
    (LexMAE). *activation* "relu" has no logarithm, "log1p_log1p_relu" has it twice. *document_terms* keeps only the largest
    weights of a document, like `top_k`; 0 keeps all. *text_terms* and *query_text_terms* are for models with a text head: the
    number of terms that it adds to a document, within *document_terms*, and to a query. *query_counts* is for models with exact
    terms: "saturated" counts the word pieces of a query as in a document, "whole" counts a piece as often as the query has it.
    *query_idf* above 0 puts `collection_idf` with this power before the other transforms. *dense_ok* accepts vectors with most
    terms of the vocabulary, which are refused otherwise. With *titles*, "-" replaces a missing title, as in LexMAE's data.

    *logit_shift* is subtracted from all logits. *position_top_k* keeps the largest terms of each position, before the maximum
    over positions; 0 keeps all. *vocab_fold* "max" or "sum" joins the weights of terms that the checkpoint's table folds onto
    one, e.g. terms that differ in case. Prompts are put before texts, and are cut with them; without *pool_prompts* their
    tokens do not pool. *unknown_ok* accepts a folder with code of its authors and settings that only that code knows; such
    settings are ignored, and the code never runs.
    """

    query_length: int = at_search(256)
    document_length: int = 256
    positions: str = "all"
    activation: str = "log1p_relu"
    document_terms: int = optional(0)
    text_terms: int = optional(0)
    query_text_terms: int = optional_at_search(0)
    query_counts: str = optional_at_search("saturated")
    query_idf: float = optional_at_search(0.0)
    logit_shift: float = optional(0.0)
    position_top_k: int = optional(0)
    vocab_fold: str = optional("none")
    query_prompt: str = optional_at_search("")
    document_prompt: str = optional("")
    pool_prompts: bool = optional(True)
    dense_ok: bool = runtime(False)
    unknown_ok: bool = runtime(False)

    family: ClassVar[str] = "sparse"
    version: ClassVar[int] = 1
    computation: ClassVar[str] = "MaskedLMModel"
    rules: ClassVar[tuple[str, ...]] = ("logit_shift", "position_top_k", "query_prompt", "document_prompt", "pool_prompts")
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **SparseTransformer.choices,
        "positions": ("all", "text"),
        "activation": ("log1p_relu", "log1p_log1p_relu", "relu"),
        "query_counts": ("saturated", "whole"),
        "vocab_fold": ("none", "max", "sum"),
    }

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        super().__post_init__()
        zero = {"document_terms": "all", "position_top_k": "all", "text_terms": "none", "query_text_terms": "none"}
        for name, none in zero.items():
            if getattr(self, name) < 0:
                raise CommandError(f"{self.plugin}({name}={getattr(self, name)}): give a number above 0, or 0 for {none}")
        if not 0 <= self.query_idf < inf:
            raise CommandError(f"{self.plugin}(query_idf={self.query_idf:g}): give a number above 0, or 0 for none")

    def token(self, term: int) -> str:
        """Return the text of a term. A term of the text head is named after a word, for example "text:cat"."""
        model = self._document_model()
        of_head = int(term) - model.vocabulary
        return super().token(term) if of_head < 0 else f"text:{super().token(int(model.text_head.words[of_head]))}"

    def index_identity(self) -> dict[str, Any]:
        """Return the digests of the files that decide document vectors. Raises CommandError for settings that nobody knows."""
        for tower in {} if self.unknown_ok else dict.fromkeys(self.towers()):
            files = self.checkpoint_files(fetch(*tower))
            if unknown := unknown_settings(files.config):
                raise CommandError(
                    f"{files.folder}: config.json has settings of its authors' code (auto_map) that lexbench does not know: "
                    f"{listed(unknown, _LISTED)}; type unknown_ok=True to ignore them"
                )
        return super().index_identity()

    def notes(self) -> list[str]:
        """Return the notes of `Transformer`, and one if the folder brings code that is not run."""
        config = self.checkpoint_files(fetch(self.model, self.revision)).config
        if not config.get("auto_map"):
            return super().notes()
        unknown = f", and ignores {listed(found, _LISTED)}" if (found := unknown_settings(config)) else ""
        return [
            *super().notes(),
            f"{self.model} brings code (auto_map); lexbench runs none of it, and follows config.json{unknown}",
        ]

    @classmethod
    def checkpoint_files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of a masked-language model, and the settings that the folder states."""
        return masked_lm_files(folder)

    def tokenise_documents(self, documents: Sequence[Document]) -> Tokens:
        """Return the tokens of *documents*, with titles as `titles` says, cut to `document_length`."""
        model = self._document_model()
        texts = self._inputs(documents, str(model.tokenizer.sep_token))
        return tokenise(model.cutter(self.document_length, "document_length"), texts)

    def encode_tokens(self, tokens: Tokens, advance: Callable[[int], None] = no_progress) -> "scipy.sparse.csr_array":
        """Return the vectors (documents, vocabulary) of *tokens*, in order: float32, indices sorted."""
        vectors = super().encode_tokens(tokens, advance)
        return TopK(self.document_terms).document(vectors) if self.document_terms else vectors

    def _silent(self, model: Any) -> Sequence[int]:
        return model.specials if self.positions == "text" else ()

    def _vectors(self, model: Any, batch: Batch) -> "scipy.sparse.csr_array":
        """Return the vectors of one batch of documents."""
        batch = self._without_prompt(model, batch, self.document_prompt)
        vectors: scipy.sparse.csr_array = model.vectors(
            batch, self._rules(), text_terms=self.text_terms, most_terms=self.document_terms
        )
        return vectors

    def _query_vectors(self, model: Any, batch: Batch) -> "scipy.sparse.csr_array":
        """Return the vectors of one batch of queries, as `query_counts` and `query_text_terms` say."""
        whole = self.query_counts == "whole"
        batch = self._without_prompt(model, batch, self.query_prompt)
        vectors: scipy.sparse.csr_array = model.vectors(
            batch, self._rules(), whole_counts=whole, text_terms=self.query_text_terms
        )
        return vectors

    def _rules(self) -> "Rules":
        from lexbench.encoders._torch_models import Rules

        return Rules(self.activation, self.logit_shift, self.position_top_k, self.vocab_fold)

    def _without_prompt(self, model: Any, batch: Batch, prompt: str) -> Batch:
        """Return *batch* in which the tokens of *prompt* do not pool, if `pool_prompts` says so.

        Those are the tokens of the prompt alone, as far as each text begins with them.
        """
        if self.pool_prompts or not prompt:
            return batch
        cutter = plain_copy(model.tokenizer)
        own, marked = (tokenise(cutter, [prompt], special=special).ids for special in (False, True))
        first = next((i for i in range(len(marked)) if np.array_equal(marked[i : i + len(own)], own)), 0)
        places = batch.ids[:, first : first + len(own)]
        pools = batch.pools.copy()
        pools[:, first : first + len(own)] &= ~np.logical_and.accumulate(places == own[: places.shape[1]], axis=1)
        return batch._replace(pools=pools)

    def _check(self, model: Any, vectors: "scipy.sparse.csr_array") -> None:
        """Raise LexbenchError if *vectors* contain NaN, or if they have most terms without *dense_ok*."""
        super()._check(model, vectors)
        share = vectors.nnz / (vectors.shape[0] * vectors.shape[1])
        if share > _DENSE and not self.dense_ok:
            raise LexbenchError(
                f"{model.name} gives a text {share:.0%} of all terms, so it was probably not trained for sparse vectors "
                "(is its output layer random or missing?); type dense_ok=True to accept such vectors"
            )
