"""Ranking in imitation: a model learns to rank texts as a dense model and the imitated model rank them together.

Text by text a model learns the words of another one, but not which texts are near. So a batch has groups: a text and some of
its nearest neighbours by the dense model, because strangers are easy to rank. Each text ranks all others of the batch, as a
query ranks documents. The teacher is the sum of both models' scores. No judgement is used. See section `[ranking]` of a recipe.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from lexbench.display.progress import Progress
from lexbench.errors import CannotStart, CommandError
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.model.encoder import load_encoder
from lexbench.lexmae.recipe.settings import GROUP, Hardware, Ranking
from lexbench.lexmae.training import processes, resuming, text_head
from lexbench.models.checkpoint import fetch_model, transformer_folder

QUERY_IDF = 0.3  # power of the idf in the training texts that multiplies queries
_SPREAD = 2.4  # standard deviation of the teacher's scores in the softmax; that of MiniLM's cosines times 20 is about this


def dense_vectors(
    rows: Sequence[NDArray[np.int64]], reader: TextReader, model: str, hardware: Hardware, state: Path, progress: Progress
) -> Tensor:
    """Return the vectors of texts with the tokens *rows* by the dense *model*, (texts, width), on the device of *hardware*.

    They are kept in the folder *state*, so that a resumed training does not encode again. Raises CommandError if the model has
    other word pieces than *reader*, and CannotStart if there are no neighbours.
    """
    if len(rows) < 2:  # noqa: PLR2004
        raise CannotStart("[ranking] needs at least two texts, and the corpora of [imitation] have one; name larger ones")
    dense, tokenizer = load_encoder(transformer_folder(fetch_model(model)))
    if tokenizer.get_vocab() != reader.tokenizer.get_vocab():
        raise CommandError(f"ranking.model: {model} has other word pieces than the start; name another")
    device = processes.device(hardware)

    def encode() -> Tensor:
        return text_head.encode(dense.to(device), reader, rows, hardware, progress)

    return resuming.kept_vectors(state, encode).to(device)


class Groups:
    """Texts in groups of neighbours."""

    def __init__(
        self,
        rows: Sequence[NDArray[np.int64]],
        corpora: NDArray[np.int64],
        reader: TextReader,
        settings: Ranking,
        vectors: Tensor,
        is_query: NDArray[np.bool_] | None = None,
    ) -> None:
        """Take the tokens of different texts, *rows* (length,) each, and their *vectors* (texts, width).

        *corpora* (texts,) has the number of each text's corpus. *is_query* (texts,) tells queries from documents, if the recipe
        does.
        """
        self._rows, self._reader = rows, reader
        self.is_query = np.zeros(len(rows), bool) if is_query is None else is_query
        self._vectors, self.neighbours = vectors.cpu(), self.near(vectors)
        weights = [
            np.array(given)[corpora] if given else np.ones(len(rows)) for given in (settings.imitated, settings.distance)
        ]
        self._weights = torch.from_numpy(np.stack(weights, 1)).float()  # (texts, 2)

    @property
    def seeds(self) -> int:
        """The number of texts that groups are drawn for: of queries, if there are any."""
        return int(self.is_query.sum()) or len(self._rows)

    def near(self, vectors: Tensor) -> NDArray[np.int64]:
        """Return the nearest neighbours of each text (texts, neighbours)."""
        return text_head.neighbours(vectors)

    def example(self, index: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the numbers of the text *index* and of neighbours drawn from its nearest ones."""
        return np.append(index, rng.choice(self.neighbours[index], GROUP - 1))

    def tensors(self, groups: Sequence[NDArray[np.int64]]) -> dict[str, Tensor]:
        """Return the tensors of `Imitator.forward` for the different texts of *groups*."""
        texts = np.unique(np.concatenate(groups))
        tensors = self._reader.tensors([self._rows[text] for text in texts])
        numbers = torch.from_numpy(texts)
        return tensors | {"vectors": self._vectors[texts], "weights": self._weights[texts], "numbers": numbers}


def first_of_each(numbers: Tensor) -> Tensor | slice:
    """Return the positions in *numbers* (n,) where each different one occurs first; a slice of all if none is repeated."""
    different, which = numbers.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    if len(different) == len(numbers):
        return slice(None)
    places = torch.arange(len(numbers), device=numbers.device)
    return torch.full_like(different, len(numbers)).scatter_reduce(0, which, places, "amin")


def divergence(scores: Tensor, imitated: Tensor, dense: Tensor, weights: Tensor, itself: Tensor) -> Tensor:
    """Return the divergence of the teacher's ranking from *scores* (n, texts); the mean over the n texts that rank others.

    It is KL(softmax(teacher) || softmax(scores)) over the texts where *itself* (n, texts) is false. *imitated* and *dense* are
    the scores of both models (n, texts); *weights* (n,) multiply those of the imitated one.
    """
    sparse, dense = _standard(imitated, itself), _standard(dense, itself)
    teacher = _SPREAD * _standard(dense + weights[:, None] * sparse, itself)
    student, target = (values.masked_fill(itself, -1e4).log_softmax(1) for values in (scores, teacher))
    return functional.kl_div(student, target, log_target=True, reduction="batchmean")


def _standard(scores: Tensor, itself: Tensor) -> Tensor:
    """Return *scores* (n, texts) with mean 0 and standard deviation 1 in each row, and 0 where *itself* is true."""
    others = (~itself).sum(1, keepdim=True)
    centred = (scores - scores.masked_fill(itself, 0).sum(1, keepdim=True) / others).masked_fill(itself, 0)
    return centred / (centred.square().sum(1, keepdim=True) / others).sqrt().clamp(min=1e-4)
