"""What the word pieces of corpora are weighted by: inverse document frequencies and mean lengths."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lexbench.lexmae.data.tokens import TokenisedCorpus


class Statistics(NamedTuple):
    """Of several corpora, cut to the length that is read."""

    idf: Tensor  # (corpora, vocabulary) float32, the mean of a piece's in the corpus and in all of them together
    lengths: Tensor  # (corpora,) float32, the mean number of word pieces of a document

    @classmethod
    def of(cls, corpora: Sequence[TokenisedCorpus], vocabulary: int, special: int) -> "Statistics":
        """Count the documents of each of *corpora* that have a word piece; *special* tokens of each do not count in lengths."""
        frequencies, sizes, lengths = np.zeros((len(corpora), vocabulary)), [], []
        for row, corpus in zip(frequencies, corpora, strict=True):
            for position in range(len(corpus)):
                row[np.unique(corpus[position])] += 1
            sizes.append(len(corpus))
            lengths.append(float(corpus.lengths.mean()) - special)
        own = _idf(frequencies, np.array(sizes)[:, None])
        whole = _idf(frequencies.sum(0), np.array(sum(sizes)))
        return cls(torch.from_numpy((own + whole) / 2).float(), torch.tensor(lengths))


def _idf(frequencies: NDArray[np.float64], documents: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return BM25's inverse document frequency, as Lucene has it."""
    idf: NDArray[np.float64] = np.log1p((documents - frequencies + 0.5) / (frequencies + 0.5))
    return idf
