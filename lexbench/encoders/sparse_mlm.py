"""Learned sparse vectors from a masked-language model, e.g. LexMAE or SPLADE.

A text's weight for a term is log(1 + max(0, the largest logit of the term at any position of the text)). LexMAE (T. Shen et
al., ICLR 2023) and SPLADE (T. Formal et al., 2021) differ in the positions and in the use of titles; see the settings
`positions` and `titles`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from lexbench.arrays.vectors import unit_length
from lexbench.encoders._parts import first_columns, joined, last_columns
from lexbench.encoders._transformer import SparseTransformer, encode, no_progress, no_terms
from lexbench.errors import CommandError, LexbenchError
from lexbench.models.architectures import masked_lm_files
from lexbench.models.checkpoint import CheckpointFiles, fetch
from lexbench.models.token_batches import Batch, Tokens
from lexbench.registry import at_search, optional, optional_at_search, runtime
from lexbench.transforms.top_k import TopK

if TYPE_CHECKING:
    from lexbench.encoders._torch_models import Rules, VocabularyModel

TERMS, MEANS = "terms", "means"  # the parts of vectors with both
_DENSE = 0.5  # share of the vocabulary; vectors with more terms are not sparse


def _width(model: str, revision: str | None) -> int:
    """Return the width of a model's states."""
    config = masked_lm_files(fetch(model, revision), documents_only=True).config
    return int(config.get("hidden_size") or config["dim"])


@dataclass(frozen=True)
class SparseMLM(SparseTransformer):
    """The settings of `SparseTransformer`, and the following; folders of LexMAE and sentence-transformers state them.

    *positions*: "all" pools everything but padding (SPLADE), "text" also leaves out the first token and every separator
    (LexMAE). *activation* "relu" has no logarithm, "log1p_log1p_relu" has it twice. *document_terms* keeps only the largest
    weights of a document, like `top_k`; 0 keeps all. *text_terms* and *query_text_terms* are for models with a text head: the
    number of terms that it adds to a document, within *document_terms*, and to a query. *query_counts* is for models with exact
    terms: "saturated" counts the word pieces of a query as in a document, "whole" counts a piece as often as the query has it.
    *query_idf* above 0 puts `collection_idf` with this power before the other transforms. *dense_ok* accepts vectors with most
    terms of the vocabulary, which are refused otherwise. With *titles*, "-" replaces a missing title, as in LexMAE's data.

    *logit_shift* is subtracted from all logits. *position_top_k* keeps the largest terms of each position, before the maximum
    over positions; 0 keeps all. *vocab_fold* "max" or "sum" joins the weights of terms that the checkpoint's table folds onto
    one, e.g. terms that differ in case.
    *means* adds a second output of the same pass behind the terms: the mean of the last states, a dense vector of length 1. The
    retriever `with_means` sets it, and searches both.
    *pooling* "sum" adds up the weights of positions (the first SPLADE). *query_terms* keeps only the largest weights of a
    query. Without *query_expansion* a query has no terms but its own tokens (SPLADE-Lexical). *similarity* "cosine" makes
    vectors of length 1.
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
    means: bool = optional(False)
    pooling: str = optional("max")
    query_terms: int = optional_at_search(0)
    query_expansion: bool = optional_at_search(True)
    similarity: str = optional("dot")
    dense_ok: bool = runtime(False)

    family: ClassVar[str] = "sparse"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **SparseTransformer.choices,
        "positions": ("all", "text"),
        "activation": ("log1p_relu", "log1p_log1p_relu", "relu"),
        "query_counts": ("saturated", "whole"),
        "vocab_fold": ("none", "max", "sum"),
        "pooling": ("max", "sum"),
        "similarity": ("dot", "cosine"),
    }

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        super().__post_init__()
        zero = {"document_terms": "all", "query_terms": "all", "position_top_k": "all", "text_terms": "none"}
        zero["query_text_terms"] = "none"
        for name, none in zero.items():
            if getattr(self, name) < 0:
                raise CommandError(f"{self.plugin}({name}={getattr(self, name)}): give a number above 0, or 0 for {none}")
        rules = self.logit_shift, self.position_top_k, self.vocab_fold, self.means, self.pool_prompts
        if self.pooling == "sum" and rules != (0, 0, "none", False, True):
            raise CommandError(f'{self.plugin}(pooling="sum") goes with an activation and no other rule of logits or prompts')
        if self.means and not self.query_expansion:
            raise CommandError(f"{self.plugin}(means=True, query_expansion=False): means are of no token; leave one out")
        if not 0 <= self.query_idf < inf:
            raise CommandError(f"{self.plugin}(query_idf={self.query_idf:g}): give a number above 0, or 0 for none")

    def token(self, term: int) -> str:
        """Return the text of a term. A term of the text head is named after a word, for example "text:cat"."""
        model = self._document_model()
        of_head = int(term) - model.vocabulary
        return super().token(term) if of_head < 0 else f"text:{super().token(int(model.text_head.words[of_head]))}"

    @classmethod
    def checkpoint_files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of a masked-language model, and the settings that the folder states."""
        return masked_lm_files(folder)

    @staticmethod
    def _computation() -> "type[VocabularyModel]":
        from lexbench.encoders._torch_models import MaskedLMModel

        return MaskedLMModel

    def _encoded(
        self, model: Any, tokens: Tokens, *, query: bool, advance: Callable[[int], None] = no_progress
    ) -> sparse.csr_array:
        """Return the vectors (texts, vocabulary), float32, indices sorted."""

        def compute(batch: Batch) -> sparse.csr_array:
            batch = self._without_prompt(model, batch, self.asked_prompt if query else self.document_prompt)
            vectors = self._weights(model, batch, query=query)
            if query and not self.query_expansion:
                vectors = _own_terms(model, batch, vectors)
            self._check_sparse(model, vectors)
            return vectors

        silent = model.specials if self.positions == "text" else ()
        nothing = no_terms(model.dimensions + (_width(self.model, self.revision) if self.means else 0))
        vectors = encode(self, model, tokens, compute, nothing, silent=silent, advance=advance)
        return self._finished(vectors, self.query_terms if query else self.document_terms)

    def _finished(self, vectors: sparse.csr_array, terms: int) -> sparse.csr_array:
        """Return *vectors* with their largest *terms* (0: all) alone, and of length 1 if they are compared by cosine.

        Means, which have length 1, stay as they are.
        """
        found = self.part(vectors, TERMS) if self.means else vectors
        found = TopK(terms).document(found) if terms else found
        found = unit_length(found) if self.similarity == "cosine" else found
        return joined(found, self.part(vectors, MEANS)) if self.means else found

    def part(self, vectors: sparse.csr_array, name: str) -> Any:
        """Return the terms (n, terms), sparse, or the means (n, width), float32, of vectors with both."""
        width = _width(self.model, self.revision)
        return first_columns(vectors, width) if name == TERMS else last_columns(vectors, width)

    def _weights(self, model: Any, batch: Batch, *, query: bool) -> sparse.csr_array:
        """Return the vectors of one batch, of queries as `query_counts` and `query_text_terms` say."""
        vectors: sparse.csr_array
        if self.pooling == "sum":
            vectors = model.summed_vectors(batch, self.activation)
        elif query:
            whole, added = self.query_counts == "whole", self.query_text_terms
            vectors = model.vectors(batch, self._rules(), whole_counts=whole, text_terms=added, with_means=self.means)
        else:
            added, most = self.text_terms, self.document_terms
            vectors = model.vectors(batch, self._rules(), text_terms=added, most_terms=most, with_means=self.means)
        return vectors

    def _rules(self) -> "Rules":
        from lexbench.encoders._torch_models import Rules

        return Rules(self.activation, self.logit_shift, self.position_top_k, self.vocab_fold)

    def _check_sparse(self, model: Any, vectors: sparse.csr_array) -> None:
        """Raise LexbenchError if *vectors* have most terms without *dense_ok*."""
        share = vectors.nnz / (vectors.shape[0] * vectors.shape[1])
        if share > _DENSE and not self.dense_ok:
            raise LexbenchError(
                f"{model.name} gives a text {share:.0%} of all terms, so it was probably not trained for sparse vectors "
                "(is its output layer random or missing?); type dense_ok=True to accept such vectors"
            )


def _own_terms(model: Any, batch: Batch, vectors: sparse.csr_array) -> sparse.csr_array:
    """Return the *vectors* (n, terms) of queries with terms that are their tokens alone."""
    rows, columns = np.nonzero(batch.pools & ~np.isin(batch.ids, model.specials))
    tokens = sparse.csr_array((np.ones(len(rows), bool), (rows, batch.ids[rows, columns])), shape=vectors.shape)
    return sparse.csr_array(vectors.multiply(tokens))
