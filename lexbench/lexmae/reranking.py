"""What a model in training gives the candidates that it is chosen by: their scores, and no index.

Documents are encoded some at a time and their vectors kept no longer than their scores take: MS MARCO's dev queries have
millions of candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from lexbench.lexmae.batches import arrays
from lexbench.lexmae.collation import Batches
from lexbench.lexmae.finetuner import in_groups
from lexbench.lexmae.model import LexiconEncoder, Texts
from lexbench.lexmae.selection import CandidateSet
from lexbench.lexmae.tokens import TokenisedCorpus

_BLOCK = 2048  # documents whose vectors are held
_DENSE = 256  # texts whose vectors are held with all their zeros


@dataclass(frozen=True, eq=False)
class Reranker:
    """An encoder as it is now, in training."""

    encoder: LexiconEncoder
    batches: Batches  # how texts are cut and padded
    precision: str

    def scores(self, candidates: CandidateSet, corpus: TokenisedCorpus) -> NDArray[np.float32]:
        """Return the score of each of the candidates' pairs (pairs,); the encoder is left in the mode that it was in."""
        was_training = self.encoder.training
        self.encoder.eval()
        queries = self.encoded(self.batches.cut_queries([query.text for query in candidates.queries]))
        pairs, positions = candidates.pairs, candidates.positions.tolist()
        found = np.zeros(len(pairs.queries), np.float32)
        by_document = np.argsort(pairs.documents, kind="stable")
        for start in range(0, len(positions), _BLOCK):
            documents = self.encoded([corpus[position] for position in positions[start : start + _BLOCK]])
            first, last = np.searchsorted(pairs.documents[by_document], (start, start + _BLOCK))
            which = by_document[first:last]
            products = queries[pairs.queries[which]].multiply(documents[pairs.documents[which] - start])
            found[which] = np.asarray(products.sum(axis=1)).ravel()
        self.encoder.train(was_training)
        return found

    @torch.no_grad()
    def encoded(self, rows: Sequence[NDArray[np.int64]]) -> sparse.csr_array:
        """Return the vectors (texts, vocabulary) of texts that are cut already."""
        device = next(self.encoder.parameters()).device
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        made = []
        for start in range(0, len(rows), _DENSE):
            tensors = arrays(ids=rows[start : start + _DENSE], pad=self.batches.pad, silent=self.batches.silent)
            texts = Texts(**{name: value.to(device) for name, value in tensors.items()})
            with torch.autocast(device.type, kinds.get(self.precision), enabled=self.precision in kinds):
                made.append(sparse.csr_array(in_groups(self.encoder, texts).float().cpu().numpy()))
        return sparse.csr_array(sparse.vstack(made, format="csr"))
