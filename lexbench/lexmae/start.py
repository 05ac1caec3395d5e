"""The masked-language model that training begins with: one that there is, all or less of it, with or without its weights.

OUTPUT/start              an ordinary folder of transformers
OUTPUT/start/start.json   what it was made of, so that another recipe does not take it for its own
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
from lexbench.lexmae import folders, given_models, vocabulary
from lexbench.lexmae.places import Places
from lexbench.lexmae.recipe import Recipe
from lexbench.lexmae.training_sets import open_corpus_of
from lexbench.progress import Progress
from lexbench.storage import atomic
from lexbench.storage.store import Store

ARCHITECTURES = ("bert", "distilbert", "roberta")
_MADE_OF = "start.json"
_ACTIVE = 150  # terms a text, of a head that is made of embeddings
_TEXTS = (
    "Python is a programming language that lets you work quickly and integrate systems more effectively.",
    "The heart pumps blood through arteries; high cholesterol raises the risk of disease in adults.",
)
_SHORT = 48  # tokens of them that are read: more than they have in words, fewer than any model takes
_LIFT = 10.0  # GELU passes on what is well above 0 as it is; the normalisation after it takes the constant away again


def make(recipe: Recipe, progress: Progress) -> Path:
    """Return the folder of the initial model, made now if it is not there.

    CommandError where a start of another recipe is in its place, or for what the model cannot do; MissingData, InvalidFile
    and CannotStart where the model or the corpora are not there or do not read.
    """
    place = Places(recipe).start
    made_of = _made_of(recipe)
    if place.exists():
        _refuse_another(place, made_of)
        return place
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(recipe.seed)
        model, tokenizer = _built(recipe, progress)
    draft = place.with_name(f"{place.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    folders.save(model, tokenizer, draft)
    atomic.write_text(draft / _MADE_OF, json.dumps(made_of, indent=1) + "\n")
    draft.rename(place)
    return place


def _made_of(recipe: Recipe) -> dict[str, Any]:
    """Return all that decides the model, as JSON has it."""
    corpora = {"corpora": list(_corpora(recipe))} if recipe.start.vocabulary else {}
    told: dict[str, Any] = json.loads(
        msgspec.json.encode({"seed": recipe.seed, **msgspec.to_builtins(recipe.start), **corpora})
    )
    return told


def _corpora(recipe: Recipe) -> Sequence[str]:
    """Return the names of the corpora whose words decide the vocabulary; CommandError where the recipe has none."""
    stages = [stage for stage in (recipe.stage1, recipe.stage2, recipe.stage3) if stage]
    names = recipe.pretrain.corpora if recipe.pretrain else tuple(dict.fromkeys(name for one in stages for name in one.queries))
    if not names:
        raise CommandError(
            "start.vocabulary needs texts, and the recipe has none; give it [pretrain] corpora or a stage's queries"
        )
    return names


def _refuse_another(place: Path, made_of: dict[str, Any]) -> None:
    remedy = "remove it, or give another --output"
    try:
        there = json.loads((place / _MADE_OF).read_bytes())
    except (OSError, ValueError):
        raise CommandError(f"{place} is no start that lexbench made; {remedy}") from None
    if differing := sorted(name for name in {*there, *made_of} if there.get(name) != made_of.get(name)):
        name = differing[0]
        values = f"{name}: there {there.get(name)!r}, asked {made_of.get(name)!r}"
        raise CommandError(f"{place} was made by another recipe ({values}); {remedy}")


def _built(recipe: Recipe, progress: Progress) -> tuple[Any, PreTrainedTokenizerFast]:
    """Return model and tokenizer as the recipe says."""
    given = recipe.start
    place = given_models.transformer(given_models.find(given.model, given.revision))
    if (kind := given_models.config(place).model_type) not in ARCHITECTURES:
        raise CommandError(f"{given.model}: model_type {kind!r} cannot be trained; there is: {', '.join(ARCHITECTURES)}")
    tokenizer = given_models.tokenizer(place)
    model = _model(recipe, place)
    if (largest := max(tokenizer.get_vocab().values())) >= model.config.vocab_size:
        raise InvalidFile(
            f"{place}: the tokenizer numbers its tokens up to {largest} and the model has {model.config.vocab_size}"
        )
    if given.layers:
        keep_layers(model, given.layers)
    if 0 < given.vocabulary < len(tokenizer):
        vocabulary.check(tokenizer)
        kept = Store(on_wait=progress.note, on_damage=progress.note)
        corpora = [open_corpus_of(name, kept, progress) for name in _corpora(recipe)]
        ids = vocabulary.chosen(tokenizer, vocabulary.usage(tokenizer, corpora, progress), given.vocabulary)
        model, tokenizer = vocabulary.pruned_model(model, ids), vocabulary.pruned_tokenizer(tokenizer, ids)
    if given.head == "embeddings":
        project_by_embeddings(model, tokenizer)
    return model, tokenizer


def _model(recipe: Recipe, place: Path) -> Any:
    """Return the *ForMaskedLM of a folder, or one of the same shape with random weights."""
    given = recipe.start
    kind: Any = AutoModelForMaskedLM
    if given.weights == "fresh":
        if given.head == "embeddings":
            raise CommandError('start.head = "embeddings" is for trained embeddings; with weights = "fresh" leave it out')
        return kind.from_config(given_models.config(place), dtype=torch.float32)
    model, missing = given_models.model(place, kind)
    head = [name for name in missing if not name.startswith(f"{model.base_model_prefix}.")]
    if head and given.head == "own":
        raise CommandError(
            f'{given.model} has no masked-language-model head ({head[0]} is missing); give start.head = "embeddings"'
        )
    if others := [name for name in missing if name not in head]:
        raise InvalidFile(f"{place}: {len(others)} weights are missing ({others[0]}); take the model from its source again")
    return model


def keep_layers(model: Any, layers: Sequence[int]) -> None:
    """Leave *model*, a *ForMaskedLM, the encoder layers *layers* (from 0) in that order; CommandError for those it has not."""
    body = model.base_model
    holder = body.transformer if model.config.model_type == "distilbert" else body.encoder
    there = len(holder.layer)
    if len(set(layers)) < len(layers) or not set(layers) <= set(range(there)):
        raise CommandError(f"start.layers = {list(layers)}: name layers of 0 to {there - 1}, each once")
    holder.layer = nn.ModuleList([holder.layer[index] for index in layers])
    model.config.num_hidden_layers = len(layers)  # of DistilBERT too, where it stands for n_layers


def project_by_embeddings(model: Any, tokenizer: PreTrainedTokenizerFast) -> None:
    """Make the head of *model*, a *ForMaskedLM, pass states on as they are, to be projected by the word embeddings.

    One bias for all terms is chosen so that a text has about 150.
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
        most = model(**tokenizer(_TEXTS, return_tensors="pt", padding=True, truncation=True, max_length=_SHORT)).logits.amax(1)
        output.bias.fill_(-float(most.topk(min(_ACTIVE, most.shape[1])).values[:, -1].mean()))


def _head(model: Any) -> tuple[Any, Any]:
    """Return the linear layer and the normalisation of a head."""
    match model.config.model_type:
        case "bert":
            return model.cls.predictions.transform.dense, model.cls.predictions.transform.LayerNorm
        case "distilbert":
            return model.vocab_transform, model.vocab_layer_norm
        case _:
            return model.lm_head.dense, model.lm_head.layer_norm
