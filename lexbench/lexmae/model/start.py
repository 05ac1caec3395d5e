"""The initial model that training begins with: an existing one, all or less of it, with or without its weights.

OUTPUT/start              an ordinary folder of transformers
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

from lexbench.checkpoints.files import transformer_folder
from lexbench.checkpoints.hub import fetch_model
from lexbench.checkpoints.pretrained import load_config, load_model, load_tokenizer
from lexbench.errors import CommandError, InvalidFile
from lexbench.lexmae.cards import provenance
from lexbench.lexmae.data.training_sets import open_corpus_of
from lexbench.lexmae.model import folders, vocabulary
from lexbench.lexmae.recipe import Paths, Recipe
from lexbench.progress import Progress
from lexbench.storage import atomic
from lexbench.storage.store import Store

ARCHITECTURES = ("bert", "distilbert", "roberta")
_SETTINGS = "start.json"
_ACTIVE = 150  # terms that a text gets of a head made of embeddings
_TEXTS = (
    "Python is a programming language that lets you work quickly and integrate systems more effectively.",
    "The heart pumps blood through arteries; high cholesterol raises the risk of disease in adults.",
)
_SHORT = 48  # tokens of these texts that are read: more than their words, fewer than any model takes
_LIFT = 10.0  # GELU passes on what is well above 0 as it is; the normalisation after it takes the constant away again


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
        model, tokenizer = _built(recipe, progress)
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    folders.save(model, tokenizer, draft)
    atomic.write_text(draft / _SETTINGS, json.dumps(settings, indent=1) + "\n")
    draft.rename(folder)
    return folder


def _settings(recipe: Recipe) -> dict[str, Any]:
    """Return all settings that decide the model, as JSON values."""
    corpora = {"corpora": list(_corpora(recipe))} if recipe.start.vocabulary else {}
    table: dict[str, Any] = json.loads(
        msgspec.json.encode({"seed": recipe.seed, **msgspec.to_builtins(recipe.start), **corpora})
    )
    return table


def _corpora(recipe: Recipe) -> Sequence[str]:
    """Return the names of the corpora whose words decide the vocabulary; CommandError where the recipe has none."""
    stages = [stage for stage in (recipe.stage1, recipe.stage2, recipe.stage3) if stage]
    of_stages = tuple(dict.fromkeys(name for stage in stages for name in stage.queries))
    names = recipe.pretrain.corpora if recipe.pretrain else of_stages
    if not names:
        raise CommandError(
            "start.vocabulary needs texts, and the recipe has none; give it [pretrain] corpora or a stage's queries"
        )
    return names


def _built(recipe: Recipe, progress: Progress) -> tuple[Any, PreTrainedTokenizerFast]:
    """Return model and tokenizer as the recipe says."""
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
    if 0 < start.vocabulary < len(tokenizer):
        vocabulary.check(tokenizer)
        store = Store(on_wait=progress.note, on_damage=progress.note)
        corpora = [open_corpus_of(name, store, progress) for name in _corpora(recipe)]
        ids = vocabulary.chosen(tokenizer, vocabulary.usage(tokenizer, corpora, progress), start.vocabulary)
        model, tokenizer = vocabulary.pruned_model(model, ids), vocabulary.pruned_tokenizer(tokenizer, ids)
    if start.head == "embeddings":
        project_by_embeddings(model, tokenizer)
    return model, tokenizer


def _model(recipe: Recipe, folder: Path) -> Any:
    """Return the *ForMaskedLM of a folder, or one of the same shape with random weights."""
    start = recipe.start
    kind: Any = AutoModelForMaskedLM
    if start.weights == "fresh":
        if start.head == "embeddings":
            raise CommandError('start.head = "embeddings" is for trained embeddings; with weights = "fresh" leave it out')
        return kind.from_config(load_config(folder), dtype=torch.float32)
    model, missing = load_model(folder, kind)
    head = [name for name in missing if not name.startswith(f"{model.base_model_prefix}.")]
    if head and start.head == "own":
        raise CommandError(
            f'{start.model} has no masked-language-model head ({head[0]} is missing); give start.head = "embeddings"'
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


def project_by_embeddings(model: Any, tokenizer: PreTrainedTokenizerFast) -> None:
    """Make the head of *model*, a *ForMaskedLM, pass states on unchanged, so that the word embeddings project them.

    One bias for all terms is chosen so that a text has about 150 terms.
    """
    dense, norm = _head(model)
    output = model.get_output_embeddings()
    model.config.tie_word_embeddings = True
    model.tie_weights()
    with torch.no_grad():
        dense.weight.copy_(torch.eye(len(dense.weight)))
        dense.bias.fill_(_LIFT)
        norm.weight.fill_(1.0)
        norm.bias.zero_()
        output.bias.zero_()
        tokens = tokenizer(_TEXTS, return_tensors="pt", padding=True, truncation=True, max_length=_SHORT)
        largest = model(**tokens).logits.amax(1)
        output.bias.fill_(-float(largest.topk(min(_ACTIVE, largest.shape[1])).values[:, -1].mean()))


def _head(model: Any) -> tuple[Any, Any]:
    """Return the linear layer and the normalisation of a head."""
    match model.config.model_type:
        case "bert":
            return model.cls.predictions.transform.dense, model.cls.predictions.transform.LayerNorm
        case "distilbert":
            return model.vocab_transform, model.vocab_layer_norm
        case _:
            return model.lm_head.dense, model.lm_head.layer_norm
