"""A stage that ranks: contrastive learning on mined negatives, and the divergence from a teacher's scores if there is one.

Paper, section 3.4 and appendix A, Eqs. 9 to 13.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lexbench.lexmae.cards.facts import Data
from lexbench.lexmae.data import negatives
from lexbench.lexmae.data.examples import Example, Examples, Source
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.data.training_sets import Lists, TrainingSet, open_training_set
from lexbench.lexmae.model import losses
from lexbench.lexmae.model.encoder import LexiconEncoder, Texts, in_groups
from lexbench.lexmae.model.learner import Learner
from lexbench.lexmae.recipe import Hardware, Recipe, Stage
from lexbench.lexmae.training import processes, stages, teachers
from lexbench.lexmae.training.selection import held_out_ids
from lexbench.progress import Progress
from lexbench.storage.store import Store
from lexbench.types import Document


class Ranking(stages.StageKind):
    """Queries with a relevant document and negatives each; documents come from the tokens that the store keeps."""

    section = Stage

    def __init__(self, recipe: Recipe, number: int, reader: TextReader, store: Store, progress: Progress) -> None:
        """Open the training sets of stage *number*, mine the negatives that are missing, and load the teacher."""
        stage, share = recipe.stage(number), recipe.selection.held_out
        assert stage is not None
        self.stage, self.reader = stage, reader
        with processes.first_goes_first():
            paths = negatives.mine(recipe, number, progress)
        sources, self.taught = list[Source](), list[Lists]()
        for index, name in enumerate(stage.queries):
            training_set = open_training_set(name, store, progress).drawn(stage.most, recipe.seed)
            left_out = held_out_ids(training_set, share, recipe.seed) if share else set[str]()
            lists = [negatives.read(path, training_set, store, progress) for path in paths[index :: len(stage.queries)]]
            self.taught += lists[1:]
            if stage.teacher_rank and lists[1:]:
                left_out |= _missed(training_set, lists[1], stage.teacher_rank)
            sources.append(Source(training_set, lists[0], left_out))
        self.examples = Examples(sources, stage.depth, stage.pairs, stage.strata)
        self.corpora = [reader.corpus(source.training_set.corpus, store, progress) for source in sources]
        self.teacher = _teacher(stage.teacher, recipe.hardware) if stage.teacher and not self.taught else None

    @property
    def training_sets(self) -> list[TrainingSet]:
        """The training sets of the stage, with all their queries."""
        return [source.training_set for source in self.examples.sources]

    def __len__(self) -> int:
        """Return the number of examples of an epoch."""
        return len(self.examples)

    def draw(self, example: int, rng: np.random.Generator) -> Example:
        """Return one example, its negatives drawn."""
        return self.examples.draw(example, rng, self.stage.documents - 1)

    def collate(self, examples: Sequence[Example]) -> dict[str, Any]:
        """Return the tensors of queries and of their documents, each query's own together; and a teacher's scores (n, m)."""
        queries = [self.query(example) for example in examples]
        rows = [self.corpora[example.source][position] for example in examples for position in positions(example)]
        batch: dict[str, Any] = {
            "queries": self.reader.tensors(self.reader.queries(queries)),
            "documents": self.reader.tensors(rows),
        }
        if self.teacher is not None:
            documents = [self.document(example, position) for example in examples for position in positions(example)]
            count = len(documents) // len(queries)
            scores = self.teacher.scores([query for query in queries for _ in range(count)], documents)
            batch["teacher"] = scores.view(len(queries), count)
        if self.taught:
            batch["teacher"] = torch.from_numpy(self.system_scores(examples))
        if self.stage.contrast == "in_batch":
            batch["relevant"] = torch.from_numpy(self.relevant(examples))
        return batch

    def system_scores(self, examples: Sequence[Example]) -> NDArray[np.float32]:
        """Return the teaching system's scores, 0 to 1, of each query's own documents, or of the batch's, as contrast says.

        A document that is not in a query's list, or is of another corpus, has 0.
        """
        own = self.stage.contrast == "own" or self.stage.divergence == "margin_mse"
        sources, docs = _sources_and_docs(examples)
        scores = np.zeros((len(examples), docs.shape[1] if own else docs.size), np.float32)
        for row, example in enumerate(examples):
            lists = self.taught[example.source]
            assert lists.scores is not None
            span = slice(*lists.offsets[example.query : example.query + 2].tolist())
            listed, values = lists.docs[span], lists.scores[span]
            if not len(listed):
                continue
            normal = (values - values.min()) / max(float(values.max() - values.min()), np.finfo(np.float32).tiny)
            asked = docs[row] if own else np.where(sources.ravel() == example.source, docs.ravel(), -1)
            order = np.argsort(listed)
            at = np.minimum(np.searchsorted(listed, asked, sorter=order), len(listed) - 1)
            scores[row] = np.where(listed[order[at]] == asked, normal[order[at]], 0)
        return scores

    def relevant(self, examples: Sequence[Example]) -> NDArray[np.bool_]:
        """Return which documents of the batch (queries, documents) are relevant to which query."""
        sources, docs = _sources_and_docs(examples)
        rows = []
        for example in examples:
            positives = self.examples.sources[example.source].training_set.positives[example.query]
            rows.append((sources.ravel() == example.source) & np.isin(docs.ravel(), positives))
        return np.stack(rows)

    def query(self, example: Example) -> str:
        """Return the text of an example's query."""
        return self.examples.sources[example.source].training_set.queries[example.query].text

    def document(self, example: Example, position: int) -> Document:
        """Return the document at a *position* of an example's corpus."""
        return next(self.examples.sources[example.source].training_set.corpus.documents(position, position + 1))

    def model(self, encoder: LexiconEncoder, steps: int) -> Learner:
        """Return the encoder with the loss of the stage."""
        return FineTuner(encoder, self.stage, steps)

    def data(self) -> Iterator[Data]:
        """Yield how many queries of each training set are trained on."""
        for name, source in zip(self.stage.queries, self.examples.sources, strict=True):
            queries = len(source.training_set.queries) - len(source.left_out)
            yield Data(dataset=name, use="training", counts={"queries": queries, "documents": len(source.training_set.corpus)})


class FineTuner(Learner):
    """The encoder with the loss of a stage: paper, Eqs. 11 to 13. One encoder serves queries and documents."""

    def __init__(self, encoder: LexiconEncoder, stage: Stage, steps: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.stage, self.ramp_steps = stage, stage.ramp_steps or steps

    @property
    def rates(self) -> dict[str, float]:
        """What the learning rate of a parameter is multiplied with, by its name."""
        terms = {id(value) for value in self.encoder.term_parameters} if self.stage.term_rate != 1 else set()
        return {name: self.stage.term_rate for name, value in self.named_parameters() if id(value) in terms}

    def forward(
        self,
        queries: dict[str, Tensor],
        documents: dict[str, Tensor],
        step: int,
        teacher: Tensor | None = None,
        relevant: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the loss and its parts. *documents* are each query's own ones together, the relevant one first.

        Both are *ids*, *real* and *pools* (texts, length); *teacher* is the teacher's scores of each query's own (n, m), or of
        all documents of the batch (n, n x m); *relevant* (n, n x m) says which of these are.
        """
        stage = self.stage
        query_vectors, predicted_q = self.vectors(Texts(**queries))
        document_vectors, predicted_d = self.vectors(Texts(**documents))
        # Of predictions alone: a long text has more exact terms than any bound, and all its predictions would be silenced.
        flops_d, flops_q = losses.flops(predicted_d, stage.free_terms_d), losses.flops(predicted_q, stage.free_terms_q)
        terms_d = (document_vectors > 0).sum(-1).float().mean()
        if stage.top_k and (number := stage.top_k[step % len(stage.top_k)]):
            document_vectors = losses.largest(document_vectors, number)
        contrast_scores = losses.scores(query_vectors, document_vectors, stage.contrast)
        contrast = losses.contrastive(contrast_scores, stage.contrast, relevant)
        ramp = losses.ramp(step, stage.ramp, self.ramp_steps)
        loss = contrast * (stage.contrast_weight if teacher is not None else 1.0)
        loss = loss + ramp * (stage.lambda_d * flops_d + stage.lambda_q * flops_q)
        parts = {
            "contrastive": contrast,
            "flops_d": flops_d,
            "flops_q": flops_q,
            "terms_d": terms_d,
            "terms_q": (query_vectors > 0).sum(-1).float().mean(),
            "predicted_d": (predicted_d > 0).sum(-1).float().mean(),
            "predicted_q": (predicted_q > 0).sum(-1).float().mean(),
        }
        if teacher is not None:
            own = teacher.shape[1] * len(query_vectors) == len(document_vectors)
            scores = losses.scores(query_vectors, document_vectors, "own" if own else "in_batch")
            parts["divergence"] = self.divergence(scores * stage.student_scale, teacher * stage.teacher_scale)
            loss = loss + parts["divergence"]
        return {"loss": loss, **parts}

    def vectors(self, texts: Texts) -> tuple[Tensor, Tensor]:
        """Return the weights of *texts* (n, vocabulary), and those of them that are predicted, likewise."""
        predicted = in_groups(self.encoder.predicted, texts)
        return self.encoder.with_exact_terms(predicted, texts), predicted

    def divergence(self, scores: Tensor, teacher: Tensor) -> Tensor:
        """Return how far the *scores* are from the *teacher*'s, as the stage measures it, a scalar."""
        if self.stage.divergence == "margin_mse":
            return losses.margin_mse(scores, teacher)
        return losses.divergence(scores, teacher, self.stage.divergence, self.stage.temperature)


def positions(example: Example) -> list[int]:
    """Return the corpus positions of an example's documents, the relevant one first."""
    return [example.positive, *example.negatives.tolist()]


def _sources_and_docs(examples: Sequence[Example]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sources and corpus positions of the documents of *examples* (examples, documents)."""
    docs = np.array([positions(example) for example in examples])
    return np.broadcast_to(np.array([[example.source] for example in examples]), docs.shape), docs


def _missed(training_set: TrainingSet, lists: Lists, rank: int) -> set[str]:
    """Return the ids of the queries that have no relevant document among the best *rank* of their lists."""
    found = [np.isin(lists[index][:rank], training_set.positives[index]).any() for index in range(len(lists))]
    return {query.query_id for query, has_one in zip(training_set.queries, found, strict=True) if not has_one}


def _teacher(name: str, hardware: Hardware) -> teachers.Teacher:
    dtype = torch.float32 if hardware.precision == "fp32" else torch.bfloat16
    return teachers.load(name, "cuda" if processes.device(hardware) == "cuda" else "cpu", dtype)
