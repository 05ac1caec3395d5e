"""One stage of fine-tuning: contrastive learning on mined negatives, and distillation from a teacher if there is one.

Paper, section 3.4 and appendix A, Eqs. 9 to 13. `train` trains a stage; `StageData` has its examples and batches,
`FineTuner` the loss.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lexbench import registry
from lexbench.artifacts.graph import Graph
from lexbench.display.progress import Progress
from lexbench.errors import CannotStart
from lexbench.lexmae.card import SeenCollection
from lexbench.lexmae.data import negatives
from lexbench.lexmae.data.batches import Draws
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.data.training_sets import (
    DocumentLists,
    Example,
    Examples,
    MinedSet,
    TrainingSet,
    open_training_set,
    trained_queries,
)
from lexbench.lexmae.model import heads, losses
from lexbench.lexmae.model.encoder import Learner, LexiconEncoder, Texts, load_encoder
from lexbench.lexmae.model.whole_batch import gathered, texts_in_pieces
from lexbench.lexmae.recipe.settings import Hardware, Recipe, Stage, from_file
from lexbench.lexmae.training import processes, publishing, resuming, selection, text_head, trainer
from lexbench.lexmae.training.publishing import TrainedModel
from lexbench.models.architectures import is_classifier
from lexbench.models.checkpoint import fetch_model, read_json, transformer_folder
from lexbench.notation import Call
from lexbench.plugins import Encoder, Reranker
from lexbench.types import Document

_KEYS = 1 << 40  # keys of a source, of queries or of documents


def train(recipe: Recipe, number: int, state: Path, graph: Graph) -> TrainedModel:
    """Return the model after stage *number*, with checkpoints in *state*.

    Negatives that are missing, or belong to another recipe, are mined.
    """
    stage = recipe.stage(number)
    assert stage is not None
    initial = recipe.folder(stage.start)
    torch.manual_seed(recipe.seed)
    encoder, tokenizer = load_encoder(initial)
    reader, progress = TextReader(tokenizer, recipe.encoding), graph.progress
    with processes.first_goes_first():  # the others find in the store what it has mined, searched and tokenised
        examples = StageData(recipe, number, reader, graph)
        sets = examples.training_sets
        digests = [digest for one in sets for digest in (one.corpus.fingerprint, *one.dataset.digests.values())]
        resuming.check_data(state, digests, [initial, *([stage.teacher] if stage.teacher and examples.teacher else [])])
        candidates = selection.gather(recipe, sets, graph)
        score = _score(candidates, reader, recipe.hardware.precision, graph) if candidates else None
    steps, every = trainer.steps(stage, len(examples)), recipe.selection.every
    fit = trainer.Fit(
        f"{recipe.name} stage{number}", stage, recipe.hardware, recipe.seed, steps, state, every, stage.published, ramps=True
    )
    tuned = FineTuner(encoder, stage, steps, examples.teacher_scores if examples.teacher else None)
    draws = Draws(examples.draw, len(examples), fit.draws, recipe.seed)
    fitted = trainer.fit(tuned, draws, examples.collate, fit, progress, score)
    if settings := recipe.text_head:
        rows = examples.sample(settings.texts, recipe.seed)
        encoder.text_head = text_head.train(encoder, reader, rows, recipe, progress)
    facts = publishing.facts(recipe.hardware, fitted, steps, [*publishing.learned_data(initial), *examples.data()], candidates)
    return TrainedModel(encoder, tokenizer, fitted.log, facts)


def _score(candidates: selection.Candidates, reader: TextReader, precision: str, graph: Graph) -> trainer.Score:
    """Return the function that scores a model in training on *candidates*."""
    corpora = [reader.corpus(candidate_set.corpus, graph) for candidate_set in candidates.sets]

    def score(model: Learner) -> Mapping[str, float]:
        assert isinstance(model.encoder, LexiconEncoder)
        reranker = selection.CandidateScorer(model.encoder, reader, precision)
        return candidates.measure([reranker.scores(*pair) for pair in zip(candidates.sets, corpora, strict=True)])

    return score


class StageData:
    """The data of one stage: queries, each with a relevant document and negatives, and a teacher's scores.

    Documents are read from the tokens in the store.
    """

    def __init__(self, recipe: Recipe, number: int, reader: TextReader, graph: Graph) -> None:
        """Open the training sets of stage *number*, mine missing negatives, and load the teacher.

        Raises CannotStart if the file of a teacher's scores lacks a query.
        """
        stage = recipe.stage(number)
        assert stage is not None
        self.stage, self.reader = stage, reader
        paths = negatives.mine(recipe, number, graph)
        sources, self.taught = list[MinedSet](), list[DocumentLists]()
        for index, name in enumerate(stage.queries):
            training_set = open_training_set(name, graph, recipe.leave_out)
            held_out = selection.held_out_ids(training_set, recipe.selection.held_out, recipe.seed)
            # `mine` returns the negatives of all training sets, then the teacher's lists of all training sets.
            lists = [negatives.read(path) for path in paths[index :: len(stage.queries)]]
            self.taught += lists[1:]
            sources.append(MinedSet(training_set, lists[0], held_out))
        self.examples = Examples(sources, stage.depth, stage.pairs)
        if from_file(stage):
            for source, taught in zip(sources, self.taught, strict=True):
                _check_scores(source, taught, str(stage.teacher), graph.progress)
        self.corpora = [reader.corpus(source.training_set.corpus, graph) for source in sources]
        self.teacher = load_teacher(stage.teacher, recipe.hardware) if stage.teacher and not self.taught else None

    @property
    def training_sets(self) -> list[TrainingSet]:
        """The training sets of the stage, with all their queries."""
        return [source.training_set for source in self.examples.sources]

    def __len__(self) -> int:
        """Return the number of examples per epoch."""
        return len(self.examples)

    def sample(self, most: int, seed: int) -> list[NDArray[np.int64]]:
        """Return the tokens of at most *most* texts: half documents, half queries, the same number of each training set."""
        share, rng = most // (2 * len(self.corpora)), np.random.default_rng(seed)
        drawn = [(one.queries, rng.permutation(len(one.queries))[:share].tolist()) for one in self.training_sets]
        queries = [queries[index].text for queries, indices in drawn for index in indices]
        texts = [corpus.without(one.left_out) for corpus, one in zip(self.corpora, self.training_sets, strict=True)]
        return [*heads.sample_texts(texts, seed, share * len(texts)), *self.reader.queries(queries)]

    def draw(self, example: int, rng: np.random.Generator) -> Example:
        """Return example number *example* with its negatives drawn."""
        return self.examples.draw(example, rng, self.stage.documents - 1)

    def collate(self, examples: Sequence[Example]) -> dict[str, Any]:
        """Return a batch as the arguments of `FineTuner.forward`."""
        queries = [self.query(example) for example in examples]
        rows = [self.corpora[example.source][position] for example in examples for position in example.documents]
        batch: dict[str, Any] = {
            "queries": self.reader.tensors(self.reader.queries(queries)),
            "documents": self.reader.tensors(rows),
            "keys": {
                "queries": torch.tensor([_key(example.source, example.query) for example in examples]),
                "documents": torch.tensor([_key(one.source, position) for one in examples for position in one.documents]),
            },
        }
        if self.stage.contrast == "in_batch":
            batch["relevant"] = torch.from_numpy(self.relevant(examples))
        if self.taught:
            batch["lists"] = {name: torch.from_numpy(array) for name, array in self.taught_lists(examples).items()}
        return batch

    def relevant(self, examples: Sequence[Example]) -> NDArray[np.int64]:
        """Return the keys of each query and each of its relevant documents (pairs, 2)."""
        return self._pairs(examples, [source.training_set.positives for source in self.examples.sources])

    def taught_lists(self, examples: Sequence[Example]) -> dict[str, NDArray[Any]]:
        """Return the lists of the teaching system: the keys of queries and documents (pairs, 2), and their scores (pairs,).

        The last document of a list has the score 0, and the first one 1, or what it has more in the file (`teacher_scores`).
        """
        scores = [np.zeros(0, np.float32)]
        for example in examples:
            lists = self.taught[example.source]
            assert lists.scores is not None
            values = lists.scores[slice(*lists.offsets[example.query : example.query + 2].tolist())]
            if len(values):
                # Only differences count in the divergence, so a file's scores can begin at 0, like those of missing documents.
                whole = max(float(values.max() - values.min()), float(np.finfo(np.float32).tiny))
                spread = 1.0 if self.stage.teacher_scores == "given" else whole
                scores.append(((values - values.min()) / spread).astype(np.float32))
        return {"pairs": self._pairs(examples, self.taught), "scores": np.concatenate(scores)}

    @staticmethod
    def _pairs(examples: Sequence[Example], lists: Sequence[DocumentLists]) -> NDArray[np.int64]:
        """Return the keys of each query and of each document in its list (pairs, 2); *lists* are by source."""
        pairs = [np.zeros((0, 2), np.int64)]
        for example in examples:
            documents = _key(example.source, 0) + lists[example.source][example.query].astype(np.int64)
            pairs.append(np.stack([np.full_like(documents, _key(example.source, example.query)), documents], axis=1))
        return np.concatenate(pairs)

    def teacher_scores(self, queries: Tensor, documents: Tensor) -> Tensor:
        """Return the teacher's scores (n, m) of the queries with keys (n,) and their documents with keys (n x m,)."""
        assert self.teacher is not None
        count, sources = len(documents) // len(queries), self.examples.sources
        texts = [sources[key // _KEYS].training_set.queries[key % _KEYS].text for key in queries.tolist()]
        read = [self.document(key // _KEYS, key % _KEYS) for key in documents.tolist()]
        return self.teacher([text for text in texts for _ in range(count)], read).view(len(queries), count)

    def query(self, example: Example) -> str:
        """Return the text of an example's query."""
        return self.examples.sources[example.source].training_set.queries[example.query].text

    def document(self, source: int, position: int) -> Document:
        """Return the document at *position* in the corpus of a source."""
        return next(self.examples.sources[source].training_set.corpus.documents(position, position + 1))

    def data(self) -> Iterator[SeenCollection]:
        """Yield the collections that the stage learns from, for the model card."""
        for name, source in zip(self.stage.queries, self.examples.sources, strict=True):
            trained = source.training_set
            counts = {
                "queries": len(trained.queries) - len(source.left_out),
                "documents": len(trained.corpus) - len(trained.left_out),
            }
            yield SeenCollection(dataset=name, use="training", counts=counts)


def _check_scores(source: MinedSet, taught: DocumentLists, teacher: str, progress: Progress) -> None:
    """Say how many relevant documents have no score in the file of a teacher, whose lists are *taught*.

    Raises CannotStart if a query that is trained on has none at all: all its documents would be equally good.
    """
    known, trained = source.training_set, trained_queries(source)
    name = known.contract.id
    if len(without := np.flatnonzero(trained & (taught.lengths == 0))):
        first = known.queries[without[0]].query_id
        raise CannotStart(
            f"{teacher}: {len(without):,} of the {trained.sum():,} queries of {name} that are trained on have no scores, "
            f"e.g. {first}; add their scores, or remove their judgements"
        )
    lacking = sum(int((~np.isin(known.positives[query], taught[query])).sum()) for query in np.flatnonzero(trained).tolist())
    if lacking:
        total = known.positives.lengths[trained].sum()
        progress.note(
            f"{teacher}: {lacking:,} of {total:,} relevant documents of {name} have no score; each counts as the lowest"
        )


def _key(source: int, number: int) -> int:
    """Return a number for the query or document *number* of a source that no other one of the stage has."""
    return source * _KEYS + number


# ---- teachers that are models (paper, appendix A, stage 3) -----------------------------------------------------------------

Teacher: TypeAlias = Callable[[Sequence[str], Sequence[Document]], Tensor]  # scores (n,) of pairs, float32

Teach: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # the same (n, m) from keys, see `StageData.teacher_scores`

_TEACHER_LENGTH = 192  # tokens that a cross-encoder reads, unless it takes fewer
_COSINES = 20.0  # factor of cosines: the `scale` with which encoders of sentence-transformers are trained


def teaching_model(name: str, hardware: Hardware) -> Encoder | Reranker:
    """Return the model *name*, a folder or a name on the hub: the reranker `cross_encoder` or the encoder `dense`.

    Nothing is loaded. Raises their errors.
    """
    dtype = "float32" if hardware.precision == "fp32" else "bfloat16"
    settings = (("model", name), ("dtype", dtype), ("device", "cuda" if processes.device(hardware) == "cuda" else "cpu"))
    if is_classifier(read_json(transformer_folder(fetch_model(name)) / "config.json")):
        pairs = Call("cross_encoder", kwargs=(*settings, ("length", _TEACHER_LENGTH), ("titles", "string")))
        return cast("Reranker", registry.create("rerankers", pairs))
    return cast("Encoder", registry.create("encoders", Call("dense", kwargs=(*settings, ("similarity", "cosine")))))


def load_teacher(name: str, hardware: Hardware) -> Teacher:
    """Return the scores of the model *name* as a function: logits of a cross-encoder, or 20 x cosines of a dense encoder.

    Raises the errors of `teaching_model`.
    """
    model = teaching_model(name, hardware)
    if isinstance(model, Reranker):
        return lambda queries, documents: torch.from_numpy(model.score(queries, documents))

    def vectors(encode: Callable[[Sequence[str]], NDArray[np.float32]], texts: Sequence[str]) -> NDArray[np.float32]:
        row = {text: index for index, text in enumerate(dict.fromkeys(texts))}  # equal texts are encoded once
        return encode(list(row))[[row[text] for text in texts]]

    def cosines(queries: Sequence[str], documents: Sequence[Document]) -> Tensor:
        texts = [document.text for document in documents]
        products = vectors(model.encode_query, queries) * vectors(model.encode_document, texts)
        return torch.from_numpy(_COSINES * products.sum(1))

    return cosines


# ---- the model with its loss (paper, section 3.4 and appendix A, Eqs. 9 to 13) ---------------------------------------------


class FineTuner(Learner):
    """One encoder for queries and documents, with the loss of a stage: paper, Eqs. 11 to 13."""

    def __init__(self, encoder: LexiconEncoder, stage: Stage, steps: int, teach: Teach | None = None) -> None:
        """*teach* returns the teacher's scores (n, m) for the keys of queries (n,) and of their documents (n x m,)."""
        super().__init__()
        self.encoder, self.teach = encoder, teach
        self.stage, self.ramp_steps = stage, stage.ramp_steps or steps

    def forward(
        self,
        queries: dict[str, Tensor],
        documents: dict[str, Tensor],
        step: int,
        keys: dict[str, Tensor],
        relevant: Tensor | None = None,
        lists: dict[str, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """Return the loss and its parts, scalars of the whole batch.

        *queries* and *documents* are *ids*, *real* and *pools* (texts, length) of this process. The documents of a query are
        consecutive, the relevant one first. *keys* has a number for each of both (texts,). *relevant* (pairs, 2) has the keys
        of queries and relevant documents, *lists* those of a teaching system, with their scores.
        """
        stage = self.stage
        query_vectors, predicted_q = self.vectors(Texts(**queries))
        document_vectors, predicted_d = self.vectors(Texts(**documents))
        # FLOPS only counts predicted weights: a long text has more exact terms than any bound, which cannot be removed, so the
        # pressure would silence all predictions.
        flops_d, flops_q = losses.flops(predicted_d), losses.flops(predicted_q)
        of_all = {name: gathered(numbers) for name, numbers in keys.items()}
        known = None
        if relevant is not None:
            known = table_of(of_all, gathered(relevant), torch.ones_like(gathered(relevant[:, 0]), dtype=torch.bool))
        contrast_scores = losses.scores(query_vectors, document_vectors, stage.contrast)
        contrast = losses.contrastive(contrast_scores, stage.contrast, known)
        teacher = self.taught(keys, of_all, lists)
        ramp = losses.ramp(step, stage.ramp, self.ramp_steps)
        loss = contrast * (stage.contrast_weight if teacher is not None else 1.0)
        loss = loss + ramp * (stage.lambda_d * flops_d + stage.lambda_q * flops_q)
        parts = {
            "contrastive": contrast,
            "flops_d": flops_d,
            "flops_q": flops_q,
            "terms_d": (document_vectors > 0).sum(-1).float().mean(),
            "terms_q": (query_vectors > 0).sum(-1).float().mean(),
            "predicted_d": (predicted_d > 0).sum(-1).float().mean(),
            "predicted_q": (predicted_q > 0).sum(-1).float().mean(),
        }
        if teacher is not None:
            own = teacher.shape[1] * len(query_vectors) == len(document_vectors)
            scores = losses.scores(query_vectors, document_vectors, "own" if own else "in_batch")
            student, taught = scores * stage.student_scale, teacher * stage.teacher_scale
            parts["divergence"] = losses.divergence(student, taught, stage.divergence)
            loss = loss + parts["divergence"]
        return {"loss": loss, **parts}

    def taught(self, own: dict[str, Tensor], of_all: dict[str, Tensor], lists: dict[str, Tensor] | None) -> Tensor | None:
        """Return the teacher's scores of each query's own documents (n, m), or of the whole batch's (n, n x m), or None.

        *own* and *of_all* are the keys of this process and of all. Documents that are not in a query's list have 0.
        """
        if self.teach is not None:
            with torch.autocast(own["queries"].device.type, enabled=False):
                return gathered(self.teach(own["queries"], own["documents"]).to(own["queries"].device))
        if lists is None:
            return None
        scores = table_of(of_all, gathered(lists["pairs"]), gathered(lists["scores"]))
        if self.stage.contrast == "in_batch" and self.stage.teacher_scores == "scaled":
            return scores
        queries = len(scores)
        return scores.view(queries, queries, -1)[torch.arange(queries), torch.arange(queries)]

    def vectors(self, texts: Texts) -> tuple[Tensor, Tensor]:
        """Return the weights of the *texts* of all processes (n, vocabulary), and their predicted weights (n, vocabulary).

        The second ones are without exact terms.
        """
        own = texts_in_pieces(self.encoder.predicted, self.pieces, texts)
        predicted = gathered(own)
        if self.encoder.exact_terms is None:
            return predicted, predicted
        return gathered(self.encoder.with_exact_terms(own, texts)), predicted


def table_of(keys: Mapping[str, Tensor], pairs: Tensor, values: Tensor) -> Tensor:
    """Return the *values* (pairs,) of *pairs* of keys (pairs, 2) as a table (queries, documents), 0 for all other pairs.

    *keys* are those of the rows, `queries`, and of the columns, `documents`. A key may occur several times.
    """
    rows, row = keys["queries"].unique(return_inverse=True)  # type: ignore[no-untyped-call]
    columns, column = keys["documents"].unique(return_inverse=True)  # type: ignore[no-untyped-call]
    at = [torch.searchsorted(known, pairs[:, side].contiguous()) for side, known in enumerate((rows, columns))]
    at = [places.clamp(max=len(known) - 1) for places, known in zip(at, (rows, columns), strict=True)]
    here = (rows[at[0]] == pairs[:, 0]) & (columns[at[1]] == pairs[:, 1])
    table = values.new_zeros((len(rows), len(columns)))
    table[at[0][here], at[1][here]] = values[here]
    return table[row][:, column]
