"""Heads for models that have none, and initial exact terms."""

import json

import numpy as np
import pytest

pytest.importorskip("accelerate", reason="training is in the extra train")

import torch
import transformers
from checkpoints import random_model, write_tokenizer
from tiny import ended, enter
from topics import RECIPE, write

from lexbench.artifacts.graph import Graph
from lexbench.lexmae import recipe
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.model import heads, start
from lexbench.lexmae.model.encoder import LexiconEncoder, Texts, load_encoder
from lexbench.lexmae.recipe.settings import Encoding
from lexbench.models import added_terms
from lexbench.storage.store import Store


@pytest.fixture
def recipe_of_exact_terms(tmp_path, monkeypatch):
    """Return a function that writes a recipe whose exact terms are counted in a corpus."""
    place = write(tmp_path)
    enter(place, monkeypatch)

    def written(corpus):
        (place / "exact.toml").write_text(RECIPE + f'[exact_terms]\ncorpora = ["{corpus}"]\n')
        return place

    return written


def reader_of(folder, architecture):
    """Write a tokenizer, and return the reader of texts that uses it."""
    write_tokenizer(folder, architecture)
    return TextReader(transformers.AutoTokenizer.from_pretrained(folder), Encoding())


@pytest.fixture
def rows():
    """Return the tokens of 40 texts of 20 random word pieces."""
    rng = np.random.default_rng(3)
    return [np.array([2, *rng.integers(10, 140, 20), 3]) for _ in range(40)]


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "modernbert", "roberta"])
def test_a_text_has_about_150_terms(architecture, tmp_path, rows):
    """The bias gives the mean text 150 terms."""
    reader = reader_of(tmp_path, architecture)
    model = random_model(architecture)
    heads.project_by_embeddings(model, reader, rows)
    encoder = LexiconEncoder(model.eval())
    with torch.no_grad():
        terms = (encoder(Texts(**reader.tensors(rows))) > 0).sum(1).float()
    vocabulary = model.config.vocab_size
    assert abs(terms.mean() - min(150, vocabulary)) < 0.1 * vocabulary


def test_a_head_like_that_of_another_model(tmp_path, rows):
    """If linear maps can do it, the model predicts what the other one predicts: here both have the same states."""
    reader, other, encoder = reader_of(tmp_path, "bert"), *(LexiconEncoder(random_model("bert", seed=3)) for _ in range(2))
    heads.project_by_embeddings(other.language_model, reader, rows)
    with torch.no_grad():
        encoder.language_model.cls.predictions.transform.dense.weight.normal_()
        of_states = heads.project_like(encoder, other, reader, rows)
        texts = Texts(**reader.tensors(rows))
        found, wanted = (model.largest_logits(texts) for model in (encoder, other))
        mapped = of_states(encoder.hidden(texts.ids, texts.real))[texts.pools]
        projected = other.transformed(other.hidden(texts.ids, texts.real))[texts.pools]
    assert (found - wanted).square().mean() < 0.01 * wanted.var()
    assert (mapped - projected).square().mean() < 0.01 * projected.var()


def test_exact_terms_begin_as_powers_of_idf(recipe_of_exact_terms):
    """Exact terms start as .35 x 2 idf^.5 and .35 idf^.25, and are saved with the model."""
    place = recipe_of_exact_terms("topics")
    asked = recipe.read(place / "exact.toml")
    folder = start.make(asked, Graph(Store()))
    encoder, tokenizer = load_encoder(folder)
    texts = [json.loads(line) for line in (place / "topics" / "corpus.jsonl").read_text().splitlines()]
    pieces = [set(tokenizer(f"{text.get('title', '')} {text['text']}")["input_ids"]) for text in texts]
    words = [tokenizer.get_vocab()[word] for word in ("[MASK]", texts[0]["text"].split()[0])]
    for word in words:
        frequency = sum(word in one for one in pieces)
        idf = np.log1p((len(texts) - frequency + 0.5) / (frequency + 0.5))
        assert encoder.exact_terms.exact[word].item() == pytest.approx(0.7 * idf**0.5, rel=2e-3)
        assert encoder.exact_terms.predicted[word].item() == pytest.approx(0.35 * idf**0.25, rel=2e-3)
    saved = added_terms.read(folder, len(tokenizer), 32).exact_terms
    assert saved.mean_length == pytest.approx(encoder.exact_terms.mean_length)


def test_a_missing_corpus_of_exact_terms_is_found_before_any_work(recipe_of_exact_terms, capsys):
    """Missing corpora are reported in one line before the start is made."""
    place = recipe_of_exact_terms("nowhere")
    (line,) = ended(capsys, 3, "train", "all", "exact.toml").err.splitlines()
    assert "'nowhere'" in line
    assert not (place / "out").exists()
