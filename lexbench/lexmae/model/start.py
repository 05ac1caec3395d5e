"""The initial model: an existing masked-language model, whole or reduced, with its weights or with random ones.

Its folder is one of transformers, with exact_terms.safetensors if the recipe has exact terms.
"""

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast

from lexbench.artifacts.graph import Graph
from lexbench.datasets.corpus import StoredCorpus
from lexbench.display.progress import Progress
from lexbench.errors import CommandError, InvalidFile
from lexbench.lexmae import provenance
from lexbench.lexmae.data.tokens import TextReader, TokenisedCorpus
from lexbench.lexmae.data.training_sets import open_corpus, open_texts
from lexbench.lexmae.model import heads
from lexbench.lexmae.model.encoder import LexiconEncoder, save
from lexbench.lexmae.recipe.settings import Recipe
from lexbench.models import added_terms
from lexbench.models.architectures import masked_lm_tensors
from lexbench.models.checkpoint import (
    CONFIG,
    check_length,
    fetch_model,
    read_json,
    stated_longest,
    transformer_files,
    transformer_folder,
)
from lexbench.models.loading import check_token_ids, load_config, load_model, load_tokenizer
from lexbench.models.token_batches import plain_copy
from lexbench.tokenization import stem

ARCHITECTURES = ("bert", "distilbert", "modernbert", "roberta")
_STEMMED = 3  # letters
_SPECIAL = 2  # special tokens of a document, which do not count in its length


def make(recipe: Recipe, graph: Graph) -> Path:
    """Return the folder of the initial model, and make it if it does not exist.

    Raises CommandError if the folder belongs to another recipe or the model cannot be used, and MissingData, InvalidFile or
    CannotStart if the model or the corpora are missing or not valid.
    """
    if folder := provenance.finished(recipe, "start"):
        return folder
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(recipe.seed)
        encoder, tokenizer = _built(recipe, graph)
    with provenance.drafted(recipe.folder("start")) as draft:
        save(encoder, tokenizer, draft)
        provenance.write(draft, recipe, "start")
    return recipe.folder("start")


def _built(recipe: Recipe, graph: Graph) -> tuple[LexiconEncoder, PreTrainedTokenizerFast]:
    """Return the initial encoder and its tokenizer."""
    start = recipe.start
    folder = transformer_folder(fetch_model(start.model, start.revision))
    check_model(recipe, folder)
    tokenizer = load_tokenizer(folder)
    model = _model(recipe, folder)
    check_token_ids(tokenizer.get_vocab(), model.config.vocab_size, folder)
    if 0 < start.vocabulary < len(tokenizer):
        if (kind := _tokenizer_settings(tokenizer)["model"]["type"]) != "WordPiece":
            raise CommandError(f"start.vocabulary is for WordPiece tokenizers, and this model's is {kind}; leave it out")
        corpora = [open_corpus(name, graph) for name in provenance.start_corpora(recipe)]
        ids = most_used(tokenizer, piece_counts(tokenizer, corpora, graph.progress), start.vocabulary)
        model, tokenizer = pruned_model(model, ids), pruned_tokenizer(tokenizer, ids)
    reader = TextReader(tokenizer, recipe.encoding)
    if start.head != "own":
        texts = open_texts(provenance.start_corpora(recipe), recipe.leave_out, reader, graph)
        rows = heads.sample_texts(texts, recipe.seed) if texts else reader.queries(heads.EXAMPLES)
        heads.project_by_embeddings(model, reader, rows)
    exact_terms = _exact_terms(recipe, model, reader, graph) if recipe.exact_terms else None
    return LexiconEncoder(model, exact_terms), tokenizer


def check_architecture(name: str, folder: Path, *, weights: bool = True) -> None:
    """Raise CommandError if training cannot use the model *name*, whose settings are in *folder*.

    Raises MissingData if its own folder is not complete; of the hub's models the *weights* are not here yet.
    """
    place = transformer_folder(folder)
    whole = weights and Path(name).expanduser().is_dir()
    config = transformer_files(place).config if whole else read_json(place / CONFIG)
    if (kind := config.get("model_type")) not in ARCHITECTURES:
        raise CommandError(f"{name}: training has no model_type {kind!r}; there is: {', '.join(ARCHITECTURES)}")


def check_model(recipe: Recipe, folder: Path) -> None:
    """Raise CommandError if the initial model, whose settings are in *folder*, is of another kind or takes shorter texts."""
    check_architecture(recipe.start.model, folder, weights=recipe.start.weights == "keep")
    longest = stated_longest(read_json(transformer_folder(folder) / CONFIG))
    for setting in ("document_length", "query_length"):
        check_length(getattr(recipe.encoding, setting), f"encoding.{setting}", recipe.start.model, longest)


def _exact_terms(recipe: Recipe, model: Any, reader: TextReader, graph: Graph) -> added_terms.ExactTerms:
    """Return the initial exact terms: powers of each word piece's inverse document frequency."""
    settings = recipe.exact_terms
    assert settings is not None
    corpora = open_texts(settings.corpora, recipe.leave_out, reader, graph)
    counted_as = stems(reader.tokenizer.get_vocab(), model.config.vocab_size) if settings.stems else None
    idf = inverse_document_frequencies(corpora, model.config.vocab_size, counted_as)
    predicted, exact = settings.scale * idf**settings.predicted_idf, settings.scale * settings.weight * idf**settings.idf
    lengths = torch.tensor([float(corpus.lengths.mean()) - _SPECIAL for corpus in corpora])
    return added_terms.ExactTerms(predicted, exact, float(lengths.mean()), counted_as)


def stems(pieces: Mapping[str, int], vocabulary: int) -> torch.Tensor:
    """Return, for each of *pieces*, the piece with the same Porter stem and the lowest id (vocabulary,), int64.

    Only words of at least 3 ASCII letters have stems. Vocabularies of WordPiece have the most common words first.
    """
    counted_as, first = torch.arange(vocabulary), dict[str, int]()
    for piece, number in sorted(pieces.items(), key=lambda item: item[1]):
        if piece.isascii() and piece.isalpha() and len(piece) >= _STEMMED:
            counted_as[number] = first.setdefault(stem(piece), number)
    return counted_as


def inverse_document_frequencies(
    corpora: Sequence[TokenisedCorpus], vocabulary: int, counted_as: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the inverse document frequency of each word piece (vocabulary,), float32, counted as `ExactTerms` does.

    It is averaged over *corpora*; for each corpus it is the mean of that corpus's own and the one of all corpora together.
    """
    pieces = np.arange(vocabulary) if counted_as is None else counted_as.numpy()
    frequencies = np.zeros((len(corpora), vocabulary))
    for row, corpus in zip(frequencies, corpora, strict=True):
        for position in range(len(corpus)):
            row[np.unique(pieces[corpus[position]])] += 1
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
            f'{start.model} has no masked-language-model head ({head[0]} is missing); give start.head = "embeddings"'
        )
    if others := [name for name in missing if name not in head]:
        raise InvalidFile(f"{folder}: {len(others)} weights are missing ({others[0]}); take the model from its source again")
    return model


# ---- a smaller vocabulary: the most used pieces, and the single characters that any word can be cut into -------------------

_BLOCK = 2048  # documents tokenised at a time


def piece_counts(tokenizer: PreTrainedTokenizerFast, corpora: Iterable[StoredCorpus], progress: Progress) -> NDArray[np.int64]:
    """Return how often each piece occurs in *corpora* (vocabulary,)."""
    cut = plain_copy(tokenizer)  # texts are counted without truncation
    counts = np.zeros(len(tokenizer), np.int64)
    for corpus in corpora:
        progress.start(corpus.path.name, "count word pieces", len(corpus), "documents")
        for start in range(0, len(corpus), _BLOCK):
            texts = [document.text for document in corpus.documents(start, start + _BLOCK)]
            encodings = cut.encode_batch_fast(texts, add_special_tokens=False)
            ids = np.concatenate([np.array(encoding.ids, np.int64) for encoding in encodings])
            counts += np.bincount(ids, minlength=len(counts))
            progress.advance(len(texts))
        progress.end()
    return counts


def most_used(tokenizer: PreTrainedTokenizerFast, counts: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Return the ids of *number* pieces, ascending: the special tokens, all single characters, and the most used of the rest.

    Ties go to the lower id. Raises CommandError if *number* is too small for special tokens and characters.
    """
    pieces = tokenizer.get_vocab()
    prefix = _tokenizer_settings(tokenizer)["model"]["continuing_subword_prefix"]
    always = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    always |= {id_ for piece, id_ in pieces.items() if len(piece.removeprefix(prefix)) == 1}
    if number < len(always):
        raise CommandError(
            f"start.vocabulary = {number} is less than the {len(always)} special tokens and single characters; increase it"
        )
    rest = np.array(sorted(set(pieces.values()) - always), np.int64)
    best = rest[np.argsort(-counts[rest], kind="stable")]
    return np.sort(np.concatenate([sorted(always), best[: number - len(always)]])).astype(np.int64)


def pruned_tokenizer(tokenizer: PreTrainedTokenizerFast, ids: NDArray[np.int64]) -> PreTrainedTokenizerFast:
    """Return *tokenizer* with only the pieces *ids* (n,), numbered in that order.

    A text whose pieces are all kept is tokenised as before, because WordPiece takes the longest piece of its vocabulary.
    """
    new = {old: index for index, old in enumerate(ids.tolist())}
    settings = _tokenizer_settings(tokenizer)
    pieces = settings["model"]["vocab"]
    settings["model"]["vocab"] = {piece: new[old] for piece, old in pieces.items() if old in new}
    settings["added_tokens"] = [token | {"id": new[token["id"]]} for token in settings["added_tokens"]]
    settings["post_processor"] = _renumbered(settings["post_processor"], new)
    with TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer.save_pretrained(folder)
        (folder / "tokenizer.json").write_text(json.dumps(settings), encoding="utf-8")
        return load_tokenizer(folder)


def pruned_model(model: Any, ids: NDArray[np.int64]) -> Any:
    """Return a copy of *model*, a *ForMaskedLM, with embeddings, output projection and bias for *ids* (n,) only."""
    new = {old: index for index, old in enumerate(ids.tolist())}
    config = copy.deepcopy(model.config)
    config.vocab_size = len(ids)
    for role in ("pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id"):
        if (old := getattr(config, role, None)) is not None:
            setattr(config, role, new.get(old))
    names = masked_lm_tensors(config.model_type)
    per_piece = {names.embedding, names.weight, names.weight.replace(".weight", ".bias"), *(names.biases or ())}
    rows = torch.from_numpy(ids)
    state = {key: value[rows] if key in per_piece else value for key, value in model.state_dict().items()}
    kind: Any = AutoModelForMaskedLM
    smaller = kind.from_config(config)
    smaller.load_state_dict(state)
    return smaller.train(model.training)


def _tokenizer_settings(tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """Return the content of tokenizer.json."""
    settings: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    return settings


def _renumbered(processor: dict[str, Any] | None, new: dict[int, int]) -> dict[str, Any] | None:
    """Return the post-processor, which adds special tokens, with new ids. WordPiece models have two forms of it."""
    if processor is None:
        return None
    if processor["type"] == "TemplateProcessing":
        tokens = processor["special_tokens"].items()
        renumbered = {name: token | {"ids": [new[old] for old in token["ids"]]} for name, token in tokens}
        return processor | {"special_tokens": renumbered}
    return processor | {role: [processor[role][0], new[processor[role][1]]] for role in ("sep", "cls")}
