"""The initial model that training begins with: an existing one, all or less of it, with or without its weights.

OUTPUT/start              an ordinary folder of transformers, with exact_terms.safetensors where the recipe has exact terms
OUTPUT/start/start.json   the settings that it was made with, so that another recipe does not take it for its own
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn
from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast

from lexbench.errors import CommandError, InvalidFile
from lexbench.lexmae.cards import provenance
from lexbench.lexmae.data.statistics import Statistics
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.data.training_sets import open_corpus_of
from lexbench.lexmae.model import folders, heads, vocabulary
from lexbench.lexmae.model.encoder import LexiconEncoder
from lexbench.lexmae.recipe import ExactTerms, Paths, Recipe
from lexbench.models import exact_terms as terms
from lexbench.models.checkpoint import fetch_model, transformer_folder
from lexbench.models.loading import load_config, load_model, load_tokenizer
from lexbench.progress import Progress
from lexbench.storage import atomic
from lexbench.storage.store import Store

ARCHITECTURES = ("bert", "distilbert", "roberta")
_SETTINGS = "start.json"


def make(recipe: Recipe, progress: Progress) -> Path:
    """Return the folder of the initial model, making it if it does not exist.

    CommandError where the folder has a start of another recipe, or for what the model cannot do; MissingData, InvalidFile and
    CannotStart where the model or the corpora are not there or do not read.
    """
    folder = Paths(recipe).start
    settings = _settings(recipe)
    if folder.exists():
        provenance.compare(folder, provenance.read(folder / _SETTINGS, "no start"), settings)
        return folder
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(recipe.seed)
        encoder, tokenizer = _built(recipe, progress)
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    folders.save(encoder, tokenizer, draft)
    atomic.write_text(draft / _SETTINGS, json.dumps(settings, indent=1) + "\n")
    draft.rename(folder)
    return folder


def _settings(recipe: Recipe) -> dict[str, Any]:
    """Return all settings that decide the model, as JSON values."""
    corpora = {"corpora": list(names)} if (names := _corpora(recipe)) else {}
    exact_terms = {"exact_terms": msgspec.to_builtins(recipe.exact_terms)} if recipe.exact_terms else {}
    settings = {"seed": recipe.seed, **msgspec.to_builtins(recipe.start), **corpora, **exact_terms}
    table: dict[str, Any] = json.loads(msgspec.json.encode(settings))
    return table


def _corpora(recipe: Recipe) -> Sequence[str]:
    """Return the names of the corpora that decide the vocabulary and a head, () where nothing or no text decides them.

    CommandError where texts are needed and the recipe has none.
    """
    start = recipe.start
    if not start.vocabulary and start.head == "own":
        return ()
    stages = [stage for stage in (recipe.stage1, recipe.stage2, recipe.stage3) if stage]
    of_stages = tuple(dict.fromkeys(name for stage in stages for name in stage.queries))
    sections = [section.corpora for section in (recipe.pretrain, recipe.vectors) if section]
    names = next(iter(sections), of_stages)
    if not names and (start.vocabulary or start.head in {"regression", "words"}):
        setting = "start.vocabulary" if start.vocabulary else f'start.head = "{start.head}"'
        raise CommandError(f"{setting} needs texts, and the recipe has none; give it [pretrain] corpora or a stage's queries")
    return names


def _built(recipe: Recipe, progress: Progress) -> tuple[LexiconEncoder, PreTrainedTokenizerFast]:
    """Return the encoder and its tokenizer as the recipe says."""
    start = recipe.start
    folder = transformer_folder(fetch_model(start.model, start.revision))
    if (kind := load_config(folder).model_type) not in ARCHITECTURES:
        raise CommandError(f"{start.model}: model_type {kind!r} cannot be trained; there is: {', '.join(ARCHITECTURES)}")
    tokenizer = load_tokenizer(folder)
    model = _model(recipe, folder)
    if (largest := max(tokenizer.get_vocab().values())) >= model.config.vocab_size:
        raise InvalidFile(
            f"{folder}: the tokenizer numbers its tokens up to {largest} and the model has {model.config.vocab_size}"
        )
    if start.layers:
        keep_layers(model, start.layers)
    store = Store(on_wait=progress.note, on_damage=progress.note)
    if 0 < start.vocabulary < len(tokenizer):
        vocabulary.check(tokenizer)
        corpora = [open_corpus_of(name, store, progress) for name in _corpora(recipe)]
        ids = vocabulary.chosen(tokenizer, vocabulary.usage(tokenizer, corpora, progress), start.vocabulary)
        model, tokenizer = vocabulary.pruned_model(model, ids), vocabulary.pruned_tokenizer(tokenizer, ids)
    reader = TextReader(tokenizer, recipe.encoding)
    if start.head != "own":
        texts = [reader.corpus(open_corpus_of(name, store, progress), store, progress) for name in _corpora(recipe)]
        rows = heads.drawn(texts, recipe.seed) if texts else reader.queries(heads.EXAMPLES)
        heads.PROJECTIONS[start.head](model, reader, rows)
    exact_terms = _exact_terms(recipe.exact_terms, model, reader, store, progress) if recipe.exact_terms else None
    return LexiconEncoder(model, exact_terms), tokenizer


def _exact_terms(settings: ExactTerms, model: Any, reader: TextReader, store: Store, progress: Progress) -> terms.ExactTerms:
    """Return the exact terms that training begins with."""
    corpora = [reader.corpus(open_corpus_of(name, store, progress), store, progress) for name in settings.corpora]
    statistics = Statistics.of(corpora, model.config.vocab_size, special=2)
    idf = statistics.idf.mean(0)
    predicted, exact = settings.scale * idf**settings.predicted_idf, settings.scale * settings.weight * idf**settings.idf
    return terms.ExactTerms(predicted, exact, float(statistics.lengths.mean()))


def _model(recipe: Recipe, folder: Path) -> Any:
    """Return the *ForMaskedLM of a folder, or one of the same shape with random weights."""
    start = recipe.start
    kind: Any = AutoModelForMaskedLM
    if start.weights == "fresh":
        if start.head != "own":
            raise CommandError(f'start.head = "{start.head}" is for trained embeddings; with weights = "fresh" leave it out')
        return kind.from_config(load_config(folder), dtype=torch.float32)
    model, missing = load_model(folder, kind)
    head = [name for name in missing if not name.startswith(f"{model.base_model_prefix}.")]
    if head and start.head == "own":
        raise CommandError(
            f"{start.model} has no masked-language-model head ({head[0]} is missing); "
            'give start.head = "words", "regression" or "embeddings"'
        )
    if others := [name for name in missing if name not in head]:
        raise InvalidFile(f"{folder}: {len(others)} weights are missing ({others[0]}); take the model from its source again")
    return model


def keep_layers(model: Any, layers: Sequence[int]) -> None:
    """Leave *model*, a *ForMaskedLM, only the encoder layers *layers* (from 0), in that order; CommandError for others."""
    body = model.base_model
    stack = body.transformer if model.config.model_type == "distilbert" else body.encoder
    count = len(stack.layer)
    if len(set(layers)) < len(layers) or not set(layers) <= set(range(count)):
        raise CommandError(f"start.layers = {list(layers)}: name layers of 0 to {count - 1}, each once")
    stack.layer = nn.ModuleList([stack.layer[index] for index in layers])
    model.config.num_hidden_layers = len(layers)  # of DistilBERT too, where it stands for n_layers
