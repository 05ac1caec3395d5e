"""Sparse vectors of latent features, which a sparse autoencoder finds in a model's states: SlideOn, and CSR.

SlideOn (LightOn 2026) has W x + b of each token's state x, scaled to length 1, keeps the largest 32 features above 0, and takes
the maximum over tokens. CSR (T. Wen et al. 2025, arXiv 2503.01776; the module SparseAutoEncoder of sentence-transformers) does
this with one pooled state per text. A feature has no word: its name is its number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.encoders._transformer import SparseTransformer, encode, no_progress, no_terms
from lexbench.errors import CommandError
from lexbench.models.architectures import latent_files
from lexbench.models.checkpoint import CheckpointFiles
from lexbench.models.stated_settings import sparse_latent_defaults
from lexbench.models.token_batches import Batch, Tokens
from lexbench.registry import optional_at_search
from lexbench.transforms.top_k import TopK
from lexbench.types import Document

if TYPE_CHECKING:
    import scipy

    from lexbench.encoders._torch_models import LatentModel

_FEATURE = "feature "


class Firing(NamedTuple):
    """A word that gives a text a feature, e.g. for an explanation of a score."""

    word: str  # the token's text
    document: int  # the index of the text
    weight: float


@dataclass(frozen=True)
class SparseLatent(SparseTransformer):
    """The settings of `SparseTransformer`, and the following; folders of sentence-transformers state them.

    *pooling* "max" gives every token features, of which a text has the largest; "mean", "cls" and "last" make one state of a
    text first. *positions* "text" leaves the first token and every separator out of the maximum. *scaling* of states: "length"
    makes it 1, "layer_norm" subtracts the mean and divides by the deviation. A state keeps the *active* largest features.
    *document_features* and *query_features* keep the largest of a text; 0 keeps all. The transform `top_k` prunes documents
    further.
    """

    pooling: str = "max"
    positions: str = "all"
    scaling: str = "length"
    active: int = 32
    document_features: int = 0
    query_features: int = optional_at_search(0)

    family: ClassVar[str] = "sparse"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **SparseTransformer.choices,
        "pooling": ("max", "mean", "cls", "last"),
        "positions": ("all", "text"),
        "scaling": ("none", "length", "layer_norm"),
    }

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        super().__post_init__()
        if self.active < 1:
            raise CommandError(f"sparse_latent(active={self.active}): give a number of features from 1, e.g. 32")
        for name in ("document_features", "query_features"):
            if getattr(self, name) < 0:
                raise CommandError(f"sparse_latent({name}={getattr(self, name)}): give a number above 0, or 0 for all")
        if self.pooling != "max" and (self.positions != "all" or not self.pool_prompts):
            raise CommandError(f'sparse_latent(pooling="{self.pooling}"): positions and pool_prompts are for pooling="max"')

    def token(self, term: int) -> str:
        """Return the name of a feature, e.g. "feature 1234"."""
        return f"{_FEATURE}{int(term)}"

    @classmethod
    def checkpoint_files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of a body and its autoencoder, and the settings that the folder states."""
        files = latent_files(folder)
        return replace(files, defaults=sparse_latent_defaults(folder, files.config))

    @staticmethod
    def _computation() -> "type[LatentModel]":
        from lexbench.encoders._torch_models import LatentModel

        return LatentModel

    def _encoded(
        self, model: "LatentModel", tokens: Tokens, *, query: bool, advance: Callable[[int], None] = no_progress
    ) -> "scipy.sparse.csr_array":
        """Return the vectors (texts, features), float32, indices sorted; of equal weights the first features are kept."""
        prompt, most = (self.asked_prompt, self.query_features) if query else (self.document_prompt, self.document_features)

        def compute(batch: Batch) -> "scipy.sparse.csr_array":
            return model.vectors(self._without_prompt(model, batch, prompt), self.pooling, self.scaling, self.active)

        silent = self._silent(model)
        vectors = encode(self, model, tokens, compute, no_terms(model.dimensions), silent=silent, advance=advance)
        return TopK(most, ties="cut").document(vectors) if most else vectors

    def firing(self, features: Sequence[int], texts: Sequence[str], most: int = 5) -> dict[int, list[Firing]]:
        """Return which tokens give the documents *texts* each of the *features*, the *most* largest weights, largest first.

        A feature that no token gives has an empty list, as have all for other poolings than "max", where features are of whole
        texts.
        """
        found: dict[int, list[Firing]] = {int(feature): [] for feature in features}
        if self.pooling != "max":
            return found
        model: LatentModel = self._document_model()

        def compute(batch: Batch) -> NDArray[np.float32]:
            batch = self._without_prompt(model, batch, self.document_prompt)
            rows, columns = np.nonzero(batch.pools)
            positions, fired, weights = model.features(batch, self.scaling, self.active)
            for place in np.flatnonzero(np.isin(fired, list(found))).tolist():
                row, column = rows[positions[place]], columns[positions[place]]
                word = str(model.tokenizer.convert_ids_to_tokens(int(batch.ids[row, column])))
                found[int(fired[place])].append(Firing(word, int(batch.texts[row]), float(weights[place])))
            return np.zeros((len(batch.texts), 0), np.float32)  # the vectors are not asked for

        tokens = self.tokenise_documents([Document("", text) for text in texts])
        encode(self, model, tokens, compute, np.zeros((0, 0), np.float32), silent=self._silent(model))
        return {feature: sorted(fired, key=lambda one: -one.weight)[:most] for feature, fired in found.items()}

    def _silent(self, model: "LatentModel") -> Sequence[int]:
        """Return the ids of tokens whose positions do not pool."""
        return model.specials if self.positions == "text" else ()
