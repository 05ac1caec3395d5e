"""One stage of fine-tuning (paper, section 3.4 and appendix A); what it learns from and how is its kind, of `stages`."""

from collections.abc import Mapping
from pathlib import Path

import torch

from lexbench.errors import CannotStart
from lexbench.lexmae.cards import provenance
from lexbench.lexmae.cards.facts import What
from lexbench.lexmae.data.batches import Draws
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.model import folders, start
from lexbench.lexmae.model.encoder import LexiconEncoder
from lexbench.lexmae.model.learner import Learner
from lexbench.lexmae.recipe import Paths, Recipe, Stage, placeholders
from lexbench.lexmae.training import processes, publishing, resuming, selection, stages, trainer
from lexbench.progress import Progress
from lexbench.storage.store import Store


def finetune(recipe: Recipe, number: int, progress: Progress) -> Path:
    """Return the folder of the model after stage *number*, trained if it is not finished yet.

    CannotStart where the model that it begins with is not there. Negatives that are missing, or of another recipe, are mined.
    """
    stage = recipe.stage(number)
    assert stage is not None
    return resuming.finished_or_trained(
        recipe, f"stage{number}", stage, lambda state: _trained(recipe, number, stage, state, progress)
    )


def _trained(recipe: Recipe, number: int, stage: Stage, state: Path, progress: Progress) -> Path:
    what: What = f"stage{number}"  # type: ignore[assignment] # of a number from 1 to 3
    torch.manual_seed(recipe.seed)
    initial, *_ = [initial_model(recipe, name, progress) for name in (stage.start, *placeholders(stage.negatives))]
    encoder, tokenizer = folders.load_encoder(initial)
    reader, store = TextReader(tokenizer, recipe.encoding), Store(on_wait=progress.note, on_damage=progress.note)
    kind = stages.kind_of(stage)(recipe, number, reader, store, progress)
    steps, every = trainer.steps(stage, len(kind)), recipe.selection.every
    fit = trainer.Fit(f"{recipe.name} {what}", stage, recipe.hardware, recipe.seed, steps, state, every, ramps=True)
    tuned = kind.model(encoder, steps)
    draws = Draws(kind.draw, len(kind), fit.draws, recipe.seed)
    candidates = selection.gather(recipe, kind.training_sets, store, progress)
    score = _score(candidates, reader, recipe.hardware.precision, store, progress) if candidates else None
    fitted = trainer.fit(tuned, draws, kind.collate, fit, progress, score)
    facts = publishing.facts(fitted, steps, [*publishing.data_of(initial), *kind.data()], candidates)
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
    """Return the folder of a model that a stage begins with, or whose negatives it takes.

    CannotStart where it is not trained yet, CommandError where it is of another recipe.
    """
    if name == "start":
        with processes.first_goes_first():
            return start.make(recipe, progress)
    folder = Paths(recipe).root / name
    if finished := provenance.finished(folder, recipe, name):
        return finished
    command = {"pretrained": "pretrain RECIPE", "vectors": "vectors RECIPE"}.get(name, f"finetune RECIPE --stage {name[-1]}")
    raise CannotStart(f"there is no {folder}, which this stage needs; type: lexbench train {command}")
