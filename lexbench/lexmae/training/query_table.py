"""Learning documents for queries without a model: a table has the weight of each word piece of a query.

Such queries cost nothing, so the model of documents has to predict the words that queries will ask with, and the table learns
which of them matter. The teacher is that of `ranking`: a sparse model with queries of its own, and a dense model. A batch has
queries, documents near them, and more queries near these documents; each query ranks all documents. No judgement is used.

A query's word can also add words that the sparse teacher predicts for it alone. Documents then learn with them, and their
factors are learned like the table. See `queries` and `expansions` in section `[ranking]` of a recipe. The encoder
`inference_free` searches with the trained folder.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.model.encoder import Learner, LexiconEncoder, Texts, in_groups
from lexbench.lexmae.model.whole_batch import gathered, texts_in_pieces
from lexbench.lexmae.recipe.settings import ASKED, GROUP, Imitation, Ranking
from lexbench.lexmae.training import ranking, text_head

_IDF = 0.75  # power of the idf in the training texts that the table begins as
_SCALE = 0.5  # of scores in the softmax, before training
_REACH = 2.0  # a logit this far below 0 still has a gradient
_SLOPE = 0.25  # of such a logit
_BLOCK = 1024  # words encoded at a time


class QueryGroups(ranking.Groups):
    """Texts in groups: a query, documents near it, and queries near each of these documents."""

    def near(self, vectors: Tensor) -> NDArray[np.int64]:
        """Return the nearest documents of each query, and the nearest queries of each document (texts, neighbours)."""
        queries, documents = (np.flatnonzero(chosen) for chosen in (self.is_query, ~self.is_query))
        most = min(text_head.NEIGHBOURS, len(queries), len(documents))
        near = np.empty((len(vectors), most), np.int64)
        for some, others in ((queries, documents), (documents, queries)):
            near[some] = others[text_head.neighbours(vectors[some], vectors[others])[:, :most]]
        return near

    def example(self, index: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the numbers of query *index* among the queries, of documents near it, and of queries near these."""
        query = np.flatnonzero(self.is_query)[index]
        documents = rng.choice(self.neighbours[query], GROUP - 1)
        queries = [rng.choice(self.neighbours[document], ASKED) for document in documents]
        return np.concatenate([[query], documents, *queries])

    def tensors(self, groups: Sequence[NDArray[np.int64]]) -> dict[str, Tensor]:
        """Return the tensors of `TableRanker.forward` for the different texts of *groups*."""
        tensors = super().tensors(groups)
        return tensors | {"queries": torch.from_numpy(self.is_query)[tensors["numbers"]]}


class AddedWords(NamedTuple):
    """The word pieces that each word piece adds to a query, and the factors of its weight. A factor of 0 adds none."""

    terms: Tensor  # (vocabulary, added)
    factors: Tensor  # (vocabulary, added)


class TableRanker(Learner):
    """An encoder of documents and the table of query weights, with the divergence from the ranking of their teachers."""

    idf: Tensor
    terms: Tensor
    first_factors: Tensor

    def __init__(
        self,
        encoder: LexiconEncoder,
        teacher: LexiconEncoder,
        settings: Imitation,
        idf: Tensor,
        added: AddedWords,
        *,
        whole_counts: bool,
    ) -> None:
        """Take the inverse document frequency of each word piece, *idf* (vocabulary,), of which the table begins as a power.

        The factors of *added* are learned, too. With *whole_counts* the exact terms of the teacher's queries are not saturated.
        """
        super().__init__()
        self.encoder, self.settings, self.whole_counts = encoder, settings, whole_counts
        # In a tuple it is no submodule, so that it is neither trained nor saved.
        self._fixed = (teacher.eval().requires_grad_(requires_grad=False),)
        self.register_buffer("idf", idf, persistent=False)
        self.factors = nn.Parameter(torch.zeros_like(idf))  # logarithms
        self.register_buffer("terms", added.terms, persistent=False)
        self.register_buffer("first_factors", added.factors, persistent=False)
        self.added = nn.Parameter(torch.zeros_like(added.factors))  # logarithms, too
        self.scale = nn.Parameter(torch.tensor(_SCALE).log())  # of scores in the softmax

    @property
    def rates(self) -> Mapping[str, float]:
        """Factors of the learning rate, by name of the parameter."""
        of_words = {id(value) for value in (self.factors, self.added, self.scale, *self.encoder.term_parameters)}
        return {name: self.settings.term_rate for name, value in self.named_parameters() if id(value) in of_words}

    @property
    def table(self) -> Tensor:
        """The weight of each word piece in queries (vocabulary,)."""
        return self.idf**_IDF * self.factors.exp()

    def expansions(self, tokenizer: Any) -> dict[str, dict[str, float]]:
        """Return the factors of the word pieces that each one adds to a query, by their names."""
        added: dict[str, dict[str, float]] = {}
        names = tokenizer.convert_ids_to_tokens(list(range(len(self.idf))))
        factors = (self.first_factors * self.added.exp()).tolist()
        for name, terms, shares in zip(names, self.terms.tolist(), factors, strict=True):
            found = {names[term]: round(share, 3) for term, share in zip(terms, shares, strict=True) if share and names[term]}
            added |= {name: found} if found else {}
        return added

    def forward(
        self, ids: Tensor, real: Tensor, pools: Tensor, vectors: Tensor, weights: Tensor, numbers: Tensor, queries: Tensor
    ) -> dict[str, Tensor]:
        """Return the loss and its parts, scalars. The first three arguments are (n, length), see `Texts`.

        *vectors* (n, width), *weights* (n, 2) and *numbers* (n,) are those of `Imitator.forward`; *queries* (n,) is true for
        queries. A document's distance to the teacher's predictions is squared, relative to the square of their length.
        """
        texts = Texts(ids, real, pools)
        asked, documents = (Texts(*(tensor[chosen] for tensor in texts)) for chosen in (queries, ~queries))
        learned = texts_in_pieces(self._predicted, self.pieces, documents)
        with torch.no_grad():
            of_queries, of_documents = (in_groups(self._fixed[0].predicted, part) for part in (asked, documents))
        first, first_document = (ranking.first_of_each(gathered(numbers[chosen])) for chosen in (queries, ~queries))
        with torch.autocast(ids.device.type, enabled=False):
            distance = (learned - of_documents).square().sum(1) / of_documents.square().sum(1).clamp(min=1)
            distance = gathered(distance * weights[~queries, 1])[first_document].mean()
            rows = self._asking(gathered(self._asked(asked))[first])
            columns = gathered(self.encoder.with_exact_terms(learned, documents))[first_document]
            sparse = self._taught(of_queries, asked)
            sparse_documents = self._fixed[0].with_exact_terms(of_documents, documents)
            taught = gathered(sparse)[first] @ gathered(sparse_documents)[first_document].T
            dense = gathered(vectors[queries])[first] @ gathered(vectors[~queries])[first_document].T
            shares, scores = gathered(weights[queries, 0])[first], self.scale.exp() * (rows @ columns.T)
            none = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)  # is a document as well
            divergence = ranking.divergence(scores, taught, dense, shares, none)
        return {"loss": divergence + distance, "ranking": divergence, "predictions": distance}

    def _predicted(self, documents: Texts) -> Tensor:
        """Return the predicted weights of *documents* (n, vocabulary). Logits little below 0 have a gradient, too."""
        logits = self.encoder.largest_logits(documents)
        # ReLU would stop the gradient of a word that queries ask with and that is not predicted yet.
        below = _SLOPE * logits.clamp(-_REACH, 0)
        return torch.log1p(logits.relu()) + below - below.detach()

    def _asked(self, queries: Texts) -> Tensor:
        """Return 1 for each word piece of *queries* that counts, else 0 (n, vocabulary)."""
        shape = (len(queries.ids), len(self.idf))
        return torch.zeros(shape, device=queries.ids.device).scatter_reduce_(1, queries.ids, queries.pools.float(), "amax")

    def _asking(self, asked: Tensor) -> Tensor:
        """Return the vectors of queries (n, vocabulary) from 1 or 0 for each of their word pieces, *asked* (n, vocabulary)."""
        own = asked * self.table
        others = own[:, :, None] * (self.first_factors * self.added.exp())
        return own.index_add(1, self.terms.flatten(), others.flatten(1))

    def _taught(self, predicted: Tensor, queries: Texts) -> Tensor:
        """Return the teacher's weights of *queries* from its *predicted* ones (n, vocabulary)."""
        exact = self._fixed[0].exact_terms
        weights = exact(predicted, queries.ids, queries.pools, whole=self.whole_counts) if exact else predicted
        return weights * self.idf**ranking.QUERY_IDF


@torch.no_grad()
def added_words(model: LexiconEncoder, reader: TextReader, settings: Ranking) -> AddedWords:
    """Return the word pieces that each whole word adds to a query before training.

    They are the largest weights of *model* for a query of that word alone, relative to the word's own.
    """
    shape, tokenizer = (len(model.embeddings), settings.expansions), reader.tokenizer
    added = AddedWords(torch.zeros(shape, dtype=torch.int64), torch.zeros(shape))
    pieces = sorted(filter(str.isalnum, tokenizer.get_vocab())) if settings.expansions else []
    for start in range(0, len(pieces), _BLOCK):
        words = pieces[start : start + _BLOCK]
        numbers = torch.tensor(tokenizer.convert_tokens_to_ids(words), device=model.embeddings.device)[:, None]
        texts = Texts(*(tensor.to(model.embeddings.device) for tensor in reader.tensors(reader.queries(words)).values()))
        weights = in_groups(model, texts)
        own = weights.gather(1, numbers).clamp(min=1e-6)
        largest, terms = weights.scatter(1, numbers, 0).topk(settings.expansions, dim=1)
        rows = numbers[:, 0].cpu()
        added.terms[rows], added.factors[rows] = terms.cpu(), (settings.expansion_weight * largest / own).cpu()
    return added
