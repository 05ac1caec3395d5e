"""One stage of fine-tuning: contrastive learning on mined negatives, with or without a teacher (paper, appendix A)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lexbench.datasets.corpus import StoredCorpus
from lexbench.errors import CannotStart
from lexbench.lexmae import folders, made_by, negatives, processes, provenance, resuming, selection, start, teacher, training
from lexbench.lexmae._recipe_checks import placeholders
from lexbench.lexmae.batches import Draws
from lexbench.lexmae.collation import Batches, query_cutter
from lexbench.lexmae.examples import Examples, Source
from lexbench.lexmae.facts import Data, What
from lexbench.lexmae.finetuner import FineTuner
from lexbench.lexmae.places import Places
from lexbench.lexmae.pretrain import silent
from lexbench.lexmae.recipe import Recipe, Stage
from lexbench.lexmae.reranking import Reranker
from lexbench.lexmae.tokens import TokenisedCorpus, tokenised
from lexbench.lexmae.training_sets import open_training_set
from lexbench.progress import Progress
from lexbench.storage.store import Store


def finetune(recipe: Recipe, number: int, progress: Progress) -> Path:
    """Return the folder of the model after a stage, made if it is not there yet.

    CannotStart where the model that it begins with is not there. Negatives that are missing, or of another recipe, are mined.
    """
    places, stage = Places(recipe), recipe.stage(number)
    what: What = f"stage{number}"  # type: ignore[assignment] # of a number from 1 to 3
    assert stage is not None
    processes.check(stage, recipe.hardware)
    processes.join(recipe.hardware)
    going_on = places.training(what)
    if not (found := made_by.finished(places.stage(number), recipe, what)):
        with made_by.claimed(going_on, recipe, what):
            found = _finetuned(recipe, number, stage, going_on, progress)
    if processes.first():
        resuming.clear(going_on)
    return found


def _finetuned(recipe: Recipe, number: int, stage: Stage, going_on: Path, progress: Progress) -> Path:
    what: What = f"stage{number}"  # type: ignore[assignment]
    torch.manual_seed(recipe.seed)
    beginning, *_ = [_folder(recipe, name, progress) for name in (stage.start, *placeholders(stage.negatives))]
    model, tokenizer = folders.load(beginning)
    reader = Reader(recipe, tokenizer, Store(on_wait=progress.note, on_damage=progress.note), progress)
    examples = reader.examples(number)
    batches = reader.batches(examples, _teacher(recipe, stage))
    steps = training.steps(stage, len(examples))
    how = training.Fit(f"{recipe.name} {what}", stage, recipe.hardware, recipe.seed, steps, going_on, recipe.selection.every)
    tuner = FineTuner(model, stage, steps)
    draws = Draws(lambda index, rng: examples.draw(index, rng, stage.documents - 1), len(examples), how.draws, recipe.seed)
    candidates = reader.candidates(examples)
    score = reader.score(candidates, batches) if candidates else None
    fitted = training.fit(tuner, draws, batches, how, progress, score)
    data = [*provenance.seen(beginning), *_trained_on(stage, examples)]
    facts = provenance.facts(fitted, steps, data, candidates)
    trained = folders.Trained(tuner.encoder.language_model, tokenizer)
    return folders.publish(Places(recipe).stage(number), recipe, what, trained, fitted.log, facts)


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads what a stage is trained on and chosen by, through the store."""

    recipe: Recipe
    tokenizer: Any
    kept: Store
    progress: Progress

    def examples(self, number: int) -> Examples:
        """Return the examples of a stage, without the queries that are held out."""
        recipe, stage, share = self.recipe, self.recipe.stage(number), self.recipe.selection.held_out
        assert stage is not None
        sources = []
        with processes.first_goes_first():
            paths = negatives.mine(recipe, number, self.progress)
        for name, path in zip(stage.queries, paths, strict=True):
            training_set = open_training_set(name, self.kept, self.progress)
            left_out = selection.held_out_ids(training_set, share, recipe.seed) if share else frozenset()
            sources.append(Source(training_set, negatives.read(path, training_set, self.kept, self.progress), left_out))
        return Examples(sources, stage.depth, stage.pairs)

    def batches(self, examples: Examples, frozen: teacher.Teacher | None) -> Batches:
        """Return what makes batches of *examples*."""
        corpora = [self.tokenised(source.training_set.corpus) for source in examples.sources]
        encoding, tokenizer = self.recipe.encoding, self.tokenizer
        cut = query_cutter(tokenizer, encoding.query_length)
        return Batches(examples, corpora, cut, tokenizer.pad_token_id, silent(tokenizer, encoding), frozen)

    def candidates(self, examples: Examples) -> selection.Candidates | None:
        """Return what a model is chosen by; None where the recipe asks for no choice."""
        if not self.recipe.selection.datasets and not self.recipe.selection.held_out:
            return None
        sets = [source.training_set for source in examples.sources]
        return selection.gather(self.recipe, sets, self.kept, self.progress)

    def score(self, candidates: selection.Candidates, batches: Batches) -> training.Score:
        """Return what scores a model on *candidates*."""
        corpora = [self.tokenised(one.corpus) for one in candidates.sets]

        def score(tuner: nn.Module) -> Mapping[str, float]:
            assert isinstance(tuner, FineTuner)
            reranker = Reranker(tuner.encoder, batches, self.recipe.hardware.precision)
            pairs = zip(candidates.sets, corpora, strict=True)
            return candidates.measure([reranker.scores(one, corpus) for one, corpus in pairs])

        return score

    def tokenised(self, corpus: StoredCorpus) -> TokenisedCorpus:
        """Return a corpus in tokens."""
        encoding = self.recipe.encoding
        return tokenised(corpus, self.tokenizer, encoding.titles, encoding.document_length, self.kept, self.progress)


def _trained_on(stage: Stage, examples: Examples) -> Iterator[Data]:
    for name, source in zip(stage.queries, examples.sources, strict=True):
        queries = len(source.training_set.queries) - len(source.left_out)
        yield Data(dataset=name, use="training", counts={"queries": queries, "documents": len(source.training_set.corpus)})


def _folder(recipe: Recipe, name: str, progress: Progress) -> Path:
    """Return the folder of a model that a stage begins with, or whose negatives it takes; CommandError if of another recipe."""
    if name == "start":
        with processes.first_goes_first():
            return start.make(recipe, progress)
    place = Places(recipe).root / name
    if found := made_by.finished(place, recipe, name):
        return found
    command = "pretrain RECIPE" if name == "pretrained" else f"finetune RECIPE --stage {name[-1]}"
    raise CannotStart(f"there is no {place}, which this stage needs; type: lexbench train {command}")


def _teacher(recipe: Recipe, stage: Stage) -> teacher.Teacher | None:
    if stage.teacher is None:
        return None
    dtype = torch.float32 if recipe.hardware.precision == "fp32" else torch.bfloat16
    return teacher.load(stage.teacher, "cuda" if processes.on_gpu(recipe.hardware) else "cpu", dtype)
