"""One stage of fine-tuning: contrastive learning on mined negatives, and distillation from a teacher if there is one.

Paper, section 3.4 and appendix A, Eqs. 9 to 13. `finetune` trains a stage; `StageData` has its examples and batches,
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
from lexbench.errors import CannotStart
from lexbench.lexmae import provenance
from lexbench.lexmae.card import Data, What
from lexbench.lexmae.data import negatives
from lexbench.lexmae.data.batches import Draws
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.data.training_sets import Example, Examples, Lists, Source, TrainingSet, open_training_set
from lexbench.lexmae.model import heads, losses, start
from lexbench.lexmae.model.encoder import Learner, LexiconEncoder, Texts, in_groups, load_encoder
from lexbench.lexmae.recipe.settings import Hardware, Paths, Recipe, Stage, placeholders
from lexbench.lexmae.training import processes, publishing, resuming, selection, text_head, trainer
from lexbench.models.architectures import is_classifier
from lexbench.models.checkpoint import fetch_model, read_json, transformer_folder
from lexbench.notation import Call
from lexbench.progress import Progress
from lexbench.storage.store import Store
from lexbench.types import Document


def finetune(recipe: Recipe, number: int, progress: Progress) -> Path:
    """Return the folder of the model after stage *number*, trained if it is not finished yet.

    Negatives that are missing, or belong to another recipe, are mined. Raises CannotStart if the model that the stage starts
    from is missing.
    """
    stage = recipe.stage(number)
    assert stage is not None
    return resuming.finished_or_trained(
        recipe, f"stage{number}", stage, lambda state: _trained(recipe, number, stage, state, progress)
    )


def _trained(recipe: Recipe, number: int, stage: Stage, state: Path, progress: Progress) -> Path:
    what = cast("What", f"stage{number}")
    torch.manual_seed(recipe.seed)
    # The models that mine the negatives are only checked here; the stage starts from the first one.
    initial, *_ = [initial_model(recipe, name, progress) for name in (stage.start, *placeholders(stage.negatives))]
    encoder, tokenizer = load_encoder(initial)
    reader, store = TextReader(tokenizer, recipe.encoding), Store(on_wait=progress.note, on_damage=progress.note)
    examples = StageData(recipe, number, reader, store, progress)
    steps, every = trainer.steps(stage, len(examples)), recipe.selection.every
    fit = trainer.Fit(f"{recipe.name} {what}", stage, recipe.hardware, recipe.seed, steps, state, every, ramps=True)
    tuned = FineTuner(encoder, stage, steps)
    draws = Draws(examples.draw, len(examples), fit.draws, recipe.seed)
    candidates = selection.gather(recipe, examples.training_sets, store, progress)
    score = _score(candidates, reader, recipe.hardware.precision, store, progress) if candidates else None
    fitted = trainer.fit(tuned, draws, examples.collate, fit, progress, score)
    if settings := recipe.text_head:
        rows = examples.sample(settings.texts, recipe.seed)
        encoder.text_head = text_head.train(encoder, reader, rows, recipe, progress)
    facts = publishing.facts(fitted, steps, [*publishing.learned_data(initial), *examples.data()], candidates)
    trained = publishing.Trained(encoder, tokenizer)
    return publishing.publish(Paths(recipe).stage(number), recipe, what, trained, fitted.log, facts)


def _score(
    candidates: selection.Candidates, reader: TextReader, precision: str, store: Store, progress: Progress
) -> trainer.Score:
    """Return the function that scores a model in training on *candidates*."""
    corpora = [reader.corpus(candidate_set.corpus, store, progress) for candidate_set in candidates.sets]

    def score(model: Learner) -> Mapping[str, float]:
        assert isinstance(model.encoder, LexiconEncoder)
        reranker = selection.Reranker(model.encoder, reader, precision)
        return candidates.measure([reranker.scores(*pair) for pair in zip(candidates.sets, corpora, strict=True)])

    return score


def initial_model(recipe: Recipe, name: str, progress: Progress) -> Path:
    """Return the folder of a model that a stage starts from or mines its negatives with.

    Raises CannotStart if it is not trained yet, and CommandError if it belongs to another recipe.
    """
    if name == "start":
        with processes.first_goes_first():
            return start.make(recipe, progress)
    folder = Paths(recipe).root / name
    if finished := provenance.finished(folder, recipe, name):
        return finished
    raise CannotStart(f"there is no {folder}, which this stage needs; type: lexbench train all RECIPE")


class StageData:
    """The data of one stage: queries, each with a relevant document and negatives, and a teacher's scores.

    Documents are read from the tokens in the store.
    """

    def __init__(self, recipe: Recipe, number: int, reader: TextReader, store: Store, progress: Progress) -> None:
        """Open the training sets of stage *number*, mine missing negatives, and load the teacher."""
        stage = recipe.stage(number)
        assert stage is not None
        self.stage, self.reader = stage, reader
        with processes.first_goes_first():
            paths = negatives.mine(recipe, number, progress)
        sources, self.taught = list[Source](), list[Lists]()
        for index, name in enumerate(stage.queries):
            training_set = open_training_set(name, store, progress)
            held_out = selection.held_out_ids(training_set, recipe.selection.held_out, recipe.seed)
            # `mine` returns the negatives of all training sets, then the teacher's lists of all training sets.
            lists = [negatives.read(path) for path in paths[index :: len(stage.queries)]]
            self.taught += lists[1:]
            sources.append(Source(training_set, lists[0], held_out))
        self.examples = Examples(sources, stage.depth, stage.pairs)
        self.corpora = [reader.corpus(source.training_set.corpus, store, progress) for source in sources]
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
        return [*heads.sample_texts(self.corpora, seed, share * len(self.corpora)), *self.reader.queries(queries)]

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
        }
        if self.teacher is not None:
            documents = [self.document(example, position) for example in examples for position in example.documents]
            count = len(documents) // len(queries)
            scores = self.teacher([query for query in queries for _ in range(count)], documents)
            batch["teacher"] = scores.view(len(queries), count)
        if self.taught:
            batch["teacher"] = torch.from_numpy(self.system_scores(examples))
        if self.stage.contrast == "in_batch":
            batch["relevant"] = torch.from_numpy(self.relevant(examples))
        return batch

    def system_scores(self, examples: Sequence[Example]) -> NDArray[np.float32]:
        """Return the teaching system's scores, from 0 to 1, of each query's own documents or of all, as `contrast` says.

        A document that is not in the query's list, or belongs to another corpus, has 0.
        """
        own = self.stage.contrast == "own"
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
            # A document of another corpus gets position -1, which no list has.
            asked = docs[row] if own else np.where(sources.ravel() == example.source, docs.ravel(), -1)
            order = np.argsort(listed)
            at = np.minimum(np.searchsorted(listed, asked, sorter=order), len(listed) - 1)
            scores[row] = np.where(listed[order[at]] == asked, normal[order[at]], 0)
        return scores

    def relevant(self, examples: Sequence[Example]) -> NDArray[np.bool_]:
        """Return which documents of the batch are relevant to which query (queries, documents)."""
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
        """Return the document at *position* in the corpus of an example."""
        return next(self.examples.sources[example.source].training_set.corpus.documents(position, position + 1))

    def data(self) -> Iterator[Data]:
        """Yield the collections that the stage learns from, for the model card."""
        for name, source in zip(self.stage.queries, self.examples.sources, strict=True):
            queries = len(source.training_set.queries) - len(source.left_out)
            yield Data(dataset=name, use="training", counts={"queries": queries, "documents": len(source.training_set.corpus)})


def _sources_and_docs(examples: Sequence[Example]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sources and corpus positions of the documents of *examples*, both (examples, documents)."""
    docs = np.array([example.documents for example in examples])
    return np.broadcast_to(np.array([[example.source] for example in examples]), docs.shape), docs


# ---- teachers that are models (paper, appendix A, stage 3) -----------------------------------------------------------------

Teacher: TypeAlias = Callable[[Sequence[str], Sequence[Document]], Tensor]  # scores (n,) of pairs, float32

_TEACHER_LENGTH = 192  # tokens that a cross-encoder reads, unless it takes fewer
_COSINES = 20.0  # factor of cosines: the `scale` with which encoders of sentence-transformers are trained


def load_teacher(name: str, hardware: Hardware) -> Teacher:
    """Return the scores of the model *name* as a function: logits of a cross-encoder, or 20 x cosines of a dense encoder.

    *name* is a folder or a name on the hub. Raises the errors of the reranker `cross_encoder` and the encoder `dense`.
    """
    dtype = "float32" if hardware.precision == "fp32" else "bfloat16"
    settings = (("model", name), ("dtype", dtype), ("device", "cuda" if processes.device(hardware) == "cuda" else "cpu"))
    if is_classifier(read_json(transformer_folder(fetch_model(name)) / "config.json")):
        pairs = Call("cross_encoder", kwargs=(*settings, ("length", _TEACHER_LENGTH), ("titles", "string")))
        reranker = registry.create("rerankers", pairs)
        return lambda queries, documents: torch.from_numpy(reranker.score(queries, documents))
    encoder = registry.create("encoders", Call("dense", kwargs=(*settings, ("similarity", "cosine"))))

    def vectors(encode: Callable[[Sequence[str]], NDArray[np.float32]], texts: Sequence[str]) -> NDArray[np.float32]:
        row = {text: index for index, text in enumerate(dict.fromkeys(texts))}  # equal texts are encoded once
        return encode(list(row))[[row[text] for text in texts]]

    def cosines(queries: Sequence[str], documents: Sequence[Document]) -> Tensor:
        texts = [document.text for document in documents]
        products = vectors(encoder.encode_query, queries) * vectors(encoder.encode_document, texts)
        return torch.from_numpy(_COSINES * products.sum(1))

    return cosines


# ---- the model with its loss (paper, section 3.4 and appendix A, Eqs. 9 to 13) ---------------------------------------------


class FineTuner(Learner):
    """One encoder for queries and documents, with the loss of a stage: paper, Eqs. 11 to 13."""

    def __init__(self, encoder: LexiconEncoder, stage: Stage, steps: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.stage, self.ramp_steps = stage, stage.ramp_steps or steps

    def forward(
        self,
        queries: dict[str, Tensor],
        documents: dict[str, Tensor],
        step: int,
        teacher: Tensor | None = None,
        relevant: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the loss and its parts, scalars.

        *queries* and *documents* are *ids*, *real* and *pools* (texts, length). The documents of a query are consecutive, the
        relevant one first. *teacher* has the teacher's scores of each query's own documents (n, m), or of all documents of the
        batch (n, n x m). *relevant* (n, n x m) says which documents are relevant to which query.
        """
        stage = self.stage
        query_vectors, predicted_q = self.vectors(Texts(**queries))
        document_vectors, predicted_d = self.vectors(Texts(**documents))
        # FLOPS only counts predicted weights: a long text has more exact terms than any bound, which cannot be removed, so the
        # pressure would silence all predictions.
        flops_d, flops_q = losses.flops(predicted_d), losses.flops(predicted_q)
        contrast_scores = losses.scores(query_vectors, document_vectors, stage.contrast)
        contrast = losses.contrastive(contrast_scores, stage.contrast, relevant)
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

    def vectors(self, texts: Texts) -> tuple[Tensor, Tensor]:
        """Return the weights of *texts* (n, vocabulary), and their predicted weights without exact terms (n, vocabulary)."""
        predicted = in_groups(self.encoder.predicted, texts)
        return self.encoder.with_exact_terms(predicted, texts), predicted
