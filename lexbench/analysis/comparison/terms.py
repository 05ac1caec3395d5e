"""Which vocabulary terms a sparse system's score of a document is made of, from the vectors that the store has."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lexbench.analysis.comparison.model import Term
from lexbench.encodings.shards import read_rows
from lexbench.errors import LexbenchError
from lexbench.retrievers.encoded import Encoded
from lexbench.runner.jobs import Kept
from lexbench.runner.stored_run import read_run
from lexbench.runner.systems import describe, system
from lexbench.storage.store import MANIFEST, Store, recipe_of
from lexbench.trec.ids import encode, lookup
from lexbench.trec.runs import Run
from lexbench.types import Kind, Query

_SHOWN = 6  # terms of a document


class Unavailable(Exception):
    """Why the terms of a system cannot be told."""


@dataclass
class Opener:
    """Opens runs and models of the store, each once."""

    store: Store
    runs: dict[Path, Run] = field(default_factory=dict)
    models: dict[tuple[str, str], "Terms | Unavailable"] = field(default_factory=dict)

    def run(self, kept: Kept) -> Run:
        """Return the run of a result that has one."""
        assert kept.run is not None
        if kept.run not in self.runs:
            self.runs[kept.run] = read_run(kept.run).run
        return self.runs[kept.run]

    def terms(self, kept: Kept) -> "Terms":
        """Return what knows the terms of a result's system, or raise Unavailable."""
        key = (kept.result.system, kept.result.dataset)
        if key not in self.models:
            try:
                self.models[key] = _terms(kept, self)
            except Unavailable as reason:
                self.models[key] = reason
            except LexbenchError as error:  # the model is not here, or its extra
                self.models[key] = Unavailable(str(error))
        found = self.models[key]
        if isinstance(found, Unavailable):
            raise found
        return found


@dataclass(frozen=True)
class Terms:
    """A sparse system with its stored vectors."""

    retriever: Encoded
    vectors: Path
    run: Run

    def of(self, query: Query, document: str) -> dict[str, float]:
        """Return what each term adds to the score of *document*: the product of its two weights, by the term's text."""
        position = lookup(self.run.table, encode([document])).astype(np.int32)
        asked = self.retriever.encode_queries([query]).tocsr()
        found = self.retriever.as_documents(read_rows(self.vectors, position)).tocsr()
        products: Any = asked.multiply(found).tocoo()
        encoder: Any = self.retriever.encoder
        return {
            encoder.token(int(term)): float(value)
            for term, value in zip(products.coords[1], products.data, strict=True)
            if value
        }


def _terms(kept: Kept, opener: Opener) -> Terms:
    retriever = system(kept.result.system).retriever
    if not isinstance(retriever, Encoded) or retriever.engine.kind is not Kind.SPARSE:
        raise Unavailable("has no sparse vectors")
    if not hasattr(retriever.encoder, "token"):
        raise Unavailable("does not say what its terms are")
    if describe(retriever) != kept.result.recipe:
        raise Unavailable("is another one today than when it was run")
    wanted = {"encoder": describe(retriever.encoder, index=True), "corpus": kept.result.digests.get("corpus")}
    for manifest in sorted(opener.store.root.glob(f"encodings/*/{MANIFEST}")):
        if wanted.items() <= recipe_of(manifest.parent).items():
            return Terms(retriever, manifest.parent, opener.run(kept))
    raise Unavailable("has no vectors in the store any more")


def contributions(opener: Opener, pair: tuple[Kept, Kept], query: Query, document: str) -> tuple[list[Term], list[str]]:
    """Return the terms that changed most between the two systems' scores of *document*; then why those of one are not known."""
    known: list[dict[str, float] | None] = []
    unavailable = []
    for kept in pair:
        try:
            known.append(opener.terms(kept).of(query, document))
        except Unavailable as reason:
            known.append(None)
            unavailable.append(f"{kept.result.system}: {reason}")
    before, after = known
    tokens = dict.fromkeys([*(before or ()), *(after or ())])
    terms = [
        Term(
            token=token,
            baseline=None if before is None else before.get(token, 0.0),
            system=None if after is None else after.get(token, 0.0),
        )
        for token in tokens
    ]
    terms.sort(key=lambda term: (-abs((term.system or 0.0) - (term.baseline or 0.0)), term.token))
    return terms[:_SHOWN], unavailable
