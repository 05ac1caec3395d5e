"""Pretraining a tiny model: the effect of the bottleneck, and options without effect."""

import json
from functools import cache

import pytest

pytest.importorskip("accelerate", reason="training is in the extra train")

import safetensors.torch
import tiny
from topics import TOPICS, losses, train, words, write

from lexbench.cli import code


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with the collection and the initial model."""
    return write(tmp_path_factory.mktemp("pretrain"))


@pytest.fixture(scope="module")
def pretrained(place):
    """Return a function that pretrains with a bottleneck, once, and returns the folder."""

    @cache
    def pretrained(bottleneck):
        settings = ("--set", "pretrain.steps=100", "--set", f"pretrain.bottleneck={bottleneck}", "--output", bottleneck)
        train(place, "pretrain", "tiny.toml", *settings)
        return place / bottleneck / "pretrained"

    return pretrained


@pytest.mark.slow
@pytest.mark.parametrize("bottleneck", ["softmax", "saturated"])
def test_the_decoder_reads_the_bottleneck(pretrained, bottleneck):
    """A decoder that sees a tenth of a text ends lower if it is told the text's words than if it is told nothing.

    The encoder, which is told nothing either way, does not, and all begin at the same loss.
    """
    first, *_, last = losses(pretrained(bottleneck))
    without = losses(pretrained("none"))

    assert last["encoder_loss"] < 0.6 * first["encoder_loss"]
    assert first["decoder_loss"] == pytest.approx(without[0]["decoder_loss"], rel=0.01)
    assert last["decoder_loss"] < without[-1]["decoder_loss"] - 0.3
    assert last["encoder_loss"] == pytest.approx(without[-1]["encoder_loss"], abs=0.3)


def test_the_next_command_repeats_the_options(place, pretrained, monkeypatch, capsys):
    """The next command repeats the options, so that it continues from this model."""
    pretrained("softmax")
    tiny.enter(place, monkeypatch)
    command = ["train", "pretrain", "tiny.toml", "--set", "pretrain.bottleneck=softmax", "--output", "softmax"]
    following = tiny.ended(capsys, 0, *command, "--set", "pretrain.steps=100").out.splitlines()[-1]

    assert following == (
        "next: lexbench train mine tiny.toml --stage 1 --set pretrain.bottleneck=softmax --set pretrain.steps=100 "
        "--output softmax"
    )
    assert code(following.split()[2:]) == 0


def test_the_decoder_is_a_separate_file(pretrained):
    """The decoder is a separate file with its own weights only."""
    decoder = safetensors.torch.load_file(pretrained("softmax") / "decoder.safetensors")
    model = safetensors.torch.load_file(pretrained("softmax") / "model.safetensors")

    assert {name.split(".")[0] for name in decoder} == {"decoder"}
    assert decoder["decoder.bias"].shape == (113,)
    assert decoder.keys().isdisjoint(model)


def test_zero_shot(pretrained, place, monkeypatch, capsys):
    """A pretrained folder is a retriever by itself.

    For two words of a topic it finds all texts about it, and BM25 only those that have one of the two.
    """
    tiny.enter(place, monkeypatch)
    rows = map(json.loads, (place / "topics" / "corpus.jsonl").read_text().splitlines())
    texts = {row["_id"]: row["text"] for row in rows}
    queries = {f"q{topic}": " ".join(words(topic)[:2]) for topic in range(TOPICS)}
    judged = [(f"q{topic}", f"d{topic}.{document}", 1) for topic in range(TOPICS) for document in range(10)]
    tiny.write(place / "themes", texts, queries, judged, "train")
    model = f'sparse_mlm(model="{pretrained("softmax")}", dense_ok=True)@impact'
    found = tiny.answer(capsys, "run", "dataset", "themes", "-r", "bm25", "-r", model, "-m", "R@100", "-m", "nDCG@10", "--json")
    bm25, ours = (each["means"] for each in found["results"])

    assert bm25["R@100"] < 0.9
    assert ours["R@100"] > 0.95
    assert ours["nDCG@10"] > 0.5  # of texts in any order: 0.08


@pytest.mark.slow
def test_bfloat16(place):
    """The first losses in bfloat16 are near those in float32, and not equal."""
    settings = ["--set", "pretrain.steps=4", "--set", "pretrain.save_every=1", "--set", "pretrain.learning_rate=1e-3"]
    found = []
    for precision in ("fp32", "bf16"):
        own = ["--set", f"hardware.precision={precision}", "--output", precision]
        train(place, "pretrain", "tiny.toml", *settings, *own)
        found.append(losses(place / precision / "pretrained"))

    assert [line["step"] for line in found[0]] == [1, 2, 3, 4]
    for line, other in zip(*found, strict=True):
        assert other["loss"] == pytest.approx(line["loss"], rel=0.01)
        assert other["loss"] != line["loss"]
