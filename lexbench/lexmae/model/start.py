"""The initial model: an existing masked-language model, whole or reduced, with its weights or with random ones.

OUTPUT/start              a folder of transformers, with exact_terms.safetensors if the recipe has exact terms
OUTPUT/start/start.json   the settings that it was made with; a recipe with other settings refuses the folder
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast

from lexbench.errors import CommandError, InvalidFile
from lexbench.lexmae import provenance
from lexbench.lexmae.data.tokens import TextReader, TokenisedCorpus
from lexbench.lexmae.data.training_sets import open_corpus
from lexbench.lexmae.model import heads, vocabulary
from lexbench.lexmae.model.encoder import LexiconEncoder, save
from lexbench.lexmae.recipe import STAGES, ExactTerms, Paths, Recipe
from lexbench.models import exact_terms as terms
from lexbench.models.checkpoint import fetch_model, transformer_folder
from lexbench.models.loading import load_config, load_model, load_tokenizer
from lexbench.progress import Progress
from lexbench.storage import atomic
from lexbench.storage.store import Store

ARCHITECTURES = ("bert", "distilbert", "roberta")
_SETTINGS = "start.json"
_SPECIAL = 2  # special tokens of a document, which do not count in its length


def make(recipe: Recipe, progress: Progress) -> Path:
    """Return the folder of the initial model, and make it if it does not exist.

    Raises CommandError if the folder belongs to another recipe or the model cannot be used, and MissingData, InvalidFile or
    CannotStart if the model or the corpora are missing or not valid.
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
    save(encoder, tokenizer, draft)
    atomic.write_text(draft / _SETTINGS, json.dumps(settings, indent=1) + "\n")
    draft.rename(folder)
    return folder


def _settings(recipe: Recipe) -> dict[str, Any]:
    """Return all settings that decide the initial model, as JSON values."""
    corpora = {"corpora": list(names)} if (names := _corpora(recipe)) else {}
    exact_terms = {"exact_terms": msgspec.to_builtins(recipe.exact_terms)} if recipe.exact_terms else {}
    settings = {"seed": recipe.seed, **msgspec.to_builtins(recipe.start), **corpora, **exact_terms}
    table: dict[str, Any] = json.loads(msgspec.json.encode(settings))
    return table


def _corpora(recipe: Recipe) -> Sequence[str]:
    """Return the names of the corpora that decide the vocabulary and the head, () if no text decides them.

    Raises CommandError if texts are needed and the recipe has none.
    """
    start = recipe.start
    if not start.vocabulary and start.head == "own":
        return ()
    stages = [stage for number in STAGES if (stage := recipe.stage(number))]
    of_stages = tuple(dict.fromkeys(name for stage in stages for name in stage.queries))
    names = recipe.pretrain.corpora if recipe.pretrain else of_stages
    if not names and (start.vocabulary or start.head == "words"):
        setting = "start.vocabulary" if start.vocabulary else f'start.head = "{start.head}"'
        raise CommandError(f"{setting} needs texts, and the recipe has none; give it [pretrain] corpora or a stage's queries")
    return names


def _built(recipe: Recipe, progress: Progress) -> tuple[LexiconEncoder, PreTrainedTokenizerFast]:
    """Return the initial encoder and its tokenizer."""
    start = recipe.start
    folder = transformer_folder(fetch_model(start.model, start.revision))
    if (kind := load_config(folder).model_type) not in ARCHITECTURES:
        raise CommandError(f"{start.model}: model_type {kind!r} cannot be trained; there is: {', '.join(ARCHITECTURES)}")
    tokenizer = load_tokenizer(folder)
    model = _model(recipe, folder)
    if (largest := max(tokenizer.get_vocab().values())) >= model.config.vocab_size:
        raise InvalidFile(
            f"{folder}: the tokenizer has ids up to {largest}, but the model has only {model.config.vocab_size} tokens"
        )
    if start.layers:
        keep_layers(model, start.layers)
    store = Store(on_wait=progress.note, on_damage=progress.note)
    if 0 < start.vocabulary < len(tokenizer):
        vocabulary.check(tokenizer)
        corpora = [open_corpus(name, store, progress) for name in _corpora(recipe)]
        ids = vocabulary.most_used(tokenizer, vocabulary.piece_counts(tokenizer, corpora, progress), start.vocabulary)
        model, tokenizer = vocabulary.pruned_model(model, ids), vocabulary.pruned_tokenizer(tokenizer, ids)
    reader = TextReader(tokenizer, recipe.encoding)
    if start.head != "own":
        texts = [reader.corpus(open_corpus(name, store, progress), store, progress) for name in _corpora(recipe)]
        rows = heads.sample_texts(texts, recipe.seed) if texts else reader.queries(heads.EXAMPLES)
        heads.PROJECTIONS[start.head](model, reader, rows)
    exact_terms = _exact_terms(recipe.exact_terms, model, reader, store, progress) if recipe.exact_terms else None
    return LexiconEncoder(model, exact_terms), tokenizer


def _exact_terms(settings: ExactTerms, model: Any, reader: TextReader, store: Store, progress: Progress) -> terms.ExactTerms:
    """Return the initial exact terms: powers of each word piece's inverse document frequency."""
    corpora = [reader.corpus(open_corpus(name, store, progress), store, progress) for name in settings.corpora]
    idf = inverse_document_frequencies(corpora, model.config.vocab_size)
    predicted, exact = settings.scale * idf**settings.predicted_idf, settings.scale * settings.weight * idf**settings.idf
    lengths = torch.tensor([float(corpus.lengths.mean()) - _SPECIAL for corpus in corpora])
    return terms.ExactTerms(predicted, exact, float(lengths.mean()))


def inverse_document_frequencies(corpora: Sequence[TokenisedCorpus], vocabulary: int) -> torch.Tensor:
    """Return the inverse document frequency of each word piece (vocabulary,), float32.

    It is averaged over *corpora*; for each corpus it is the mean of that corpus's own and the one of all corpora together.
    """
    frequencies = np.zeros((len(corpora), vocabulary))
    for row, corpus in zip(frequencies, corpora, strict=True):
        for position in range(len(corpus)):
            row[np.unique(corpus[position])] += 1
    sizes = np.array([len(corpus) for corpus in corpora])
    own, whole = _idf(frequencies, sizes[:, None]), _idf(frequencies.sum(0), sizes.sum())
    return torch.from_numpy((own + whole) / 2).float().mean(0)


def _idf(frequencies: NDArray[np.float64], documents: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return BM25's inverse document frequency in Lucene's form."""
    idf: NDArray[np.float64] = np.log1p((documents - frequencies + 0.5) / (frequencies + 0.5))
    return idf


def _model(recipe: Recipe, folder: Path) -> Any:
    """Return the *ForMaskedLM in *folder*, or one of the same shape with random weights."""
    start = recipe.start
    kind: Any = AutoModelForMaskedLM
    if start.weights == "fresh":
        if start.head != "own":
            raise CommandError(f'start.head = "{start.head}" needs trained embeddings; leave it out with weights = "fresh"')
        return kind.from_config(load_config(folder), dtype=torch.float32)
    model, missing = load_model(folder, kind)
    head = [name for name in missing if not name.startswith(f"{model.base_model_prefix}.")]
    if head and start.head == "own":
        raise CommandError(
            f'{start.model} has no masked-language-model head ({head[0]} is missing); give start.head = "words" or "embeddings"'
        )
    if others := [name for name in missing if name not in head]:
        raise InvalidFile(f"{folder}: {len(others)} weights are missing ({others[0]}); take the model from its source again")
    return model


def keep_layers(model: Any, layers: Sequence[int]) -> None:
    """Leave *model*, a *ForMaskedLM, only the encoder layers *layers* (from 0), in that order. Raises CommandError."""
    body = model.base_model
    stack = body.transformer if model.config.model_type == "distilbert" else body.encoder
    count = len(stack.layer)
    if len(set(layers)) < len(layers) or not set(layers) <= set(range(count)):
        raise CommandError(f"start.layers = {list(layers)}: name layers of 0 to {count - 1}, each once")
    stack.layer = nn.ModuleList([stack.layer[index] for index in layers])
    model.config.num_hidden_layers = len(layers)  # DistilBERT maps this name to its n_layers
