"""A stage that ranks: contrastive learning on mined negatives, and the divergence from a teacher's scores if there is one.

Paper, section 3.4 and appendix A, Eqs. 9 to 13.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lexbench.lexmae.cards.facts import Data
from lexbench.lexmae.data import negatives
from lexbench.lexmae.data.examples import Example, Examples, Source
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.data.training_sets import TrainingSet, open_training_set
from lexbench.lexmae.model import losses
from lexbench.lexmae.model.encoder import LexiconEncoder, Texts, in_groups
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
        sources = []
        for name, path in zip(stage.queries, paths, strict=True):
            training_set = open_training_set(name, store, progress)
            held_out = held_out_ids(training_set, share, recipe.seed) if share else frozenset[str]()
            sources.append(Source(training_set, negatives.read(path, training_set, store, progress), held_out))
        self.examples = Examples(sources, stage.depth, stage.pairs)
        self.corpora = [reader.corpus(source.training_set.corpus, store, progress) for source in sources]
        self.teacher = _teacher(stage.teacher, recipe.hardware) if stage.teacher else None

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
        return batch

    def query(self, example: Example) -> str:
        """Return the text of an example's query."""
        return self.examples.sources[example.source].training_set.queries[example.query].text

    def document(self, example: Example, position: int) -> Document:
        """Return the document at a *position* of an example's corpus."""
        return next(self.examples.sources[example.source].training_set.corpus.documents(position, position + 1))

    def model(self, language_model: Any, steps: int) -> nn.Module:
        """Return the encoder with the loss of the stage."""
        return FineTuner(language_model, self.stage, steps)

    def data(self) -> Iterator[Data]:
        """Yield how many queries of each training set are trained on."""
        for name, source in zip(self.stage.queries, self.examples.sources, strict=True):
            queries = len(source.training_set.queries) - len(source.left_out)
            yield Data(dataset=name, use="training", counts={"queries": queries, "documents": len(source.training_set.corpus)})


class FineTuner(nn.Module):
    """The encoder with the loss of a stage: paper, Eqs. 11 to 13. One encoder serves queries and documents."""

    def __init__(self, language_model: Any, stage: Stage, steps: int) -> None:
        super().__init__()
        self.encoder = LexiconEncoder(language_model)
        self.stage, self.ramp_steps = stage, stage.ramp_steps or steps

    def forward(
        self, queries: dict[str, Tensor], documents: dict[str, Tensor], step: int, teacher: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the loss and its parts. *documents* are each query's own ones together, the relevant one first.

        Both are *ids*, *real* and *pools* (texts, length); *teacher* is the teacher's scores of each query's own (n, m).
        """
        stage = self.stage
        query_vectors, document_vectors = (in_groups(self.encoder, Texts(**texts)) for texts in (queries, documents))
        contrast = losses.contrastive(losses.scores(query_vectors, document_vectors, stage.contrast), stage.contrast)
        flops_d, flops_q = losses.flops(document_vectors), losses.flops(query_vectors)
        ramp = losses.ramp(step, stage.ramp, self.ramp_steps)
        loss = contrast * (stage.contrast_weight if teacher is not None else 1.0)
        loss = loss + ramp * (stage.lambda_d * flops_d + stage.lambda_q * flops_q)
        parts = {
            "contrastive": contrast,
            "flops_d": flops_d,
            "flops_q": flops_q,
            "terms_d": (document_vectors > 0).sum(-1).float().mean(),
            "terms_q": (query_vectors > 0).sum(-1).float().mean(),
        }
        if teacher is not None:
            scores = losses.scores(query_vectors, document_vectors, "own")
            parts["divergence"] = losses.divergence(scores, teacher, stage.divergence, stage.temperature)
            loss = loss + parts["divergence"]
        return {"loss": loss, **parts}


def positions(example: Example) -> list[int]:
    """Return the corpus positions of an example's documents, the relevant one first."""
    return [example.positive, *example.negatives.tolist()]


def _teacher(name: str, hardware: Hardware) -> teachers.Teacher:
    dtype = torch.float32 if hardware.precision == "fp32" else torch.bfloat16
    return teachers.load(name, "cuda" if processes.device(hardware) == "cuda" else "cpu", dtype)
