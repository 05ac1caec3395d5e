"""`lexbench train all` on a tiny collection: pretraining, three stages, and the use of the folders."""

import json
import stat

import pytest

pytest.importorskip("accelerate", reason="training is in the extra train")

import transformers
from checkpoints import cross_encoder
from tiny import enter
from topics import VOCABULARY, log, losses, scores, train, write

from lexbench.artifacts.graph import Graph
from lexbench.cli import code
from lexbench.errors import CommandError
from lexbench.lexmae import provenance, recipe
from lexbench.lexmae.data.training_sets import open_training_set
from lexbench.lexmae.training import selection
from lexbench.storage.store import Store

MODELS = ("pretrained", "stage1", "stage2", "stage3")
PICKLES = {".bin", ".pt", ".pth", ".pkl", ".ckpt"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train everything, and return the folder and the output."""
    place = write(tmp_path_factory.mktemp("trained"))
    cross_encoder(place / "another", vocabulary=VOCABULARY)
    return place, train(place, "all", "tiny.toml")


@pytest.fixture
def place(trained, monkeypatch):
    """Return the folder of the training as current folder."""
    enter(trained[0], monkeypatch)
    return trained[0]


def test_all_parts_are_made_and_named(trained):
    """The output names every folder and file in order, and the next command.

    Every other line is lexbench's progress: no warnings, bars or banners of libraries. No pickle and no training state is left.
    """
    place, said = trained
    answer = [line for line in said.splitlines() if line.startswith(("out/", "next:"))]
    made = ["out/start", "out/pretrained"]
    made += [path for stage in (1, 2, 3) for path in (f"out/negatives/stage{stage}/topics", f"out/stage{stage}")]

    assert answer == [*made, "next: lexbench run suite pydoc -r 'sparse_mlm(model=\"out/stage3\")@impact'"]
    assert all((place / path).exists() for path in made)
    told = [line for line in said.splitlines() if not line.startswith(("out/", "next:"))]

    # All but the first two where they took half a second.
    ours = ("tiny ", "topics: ", "sparse_mlm on topics: ", 'sparse_mlm(model="{stage', "bm25 on topics: ")
    assert all(line.startswith(ours) for line in told), said
    assert sum(line.startswith("tiny pretraining: loss ") for line in told) == 3
    assert sum(line.startswith("tiny stage1: RR@10 ") for line in told) == 4
    out = place / "out"
    assert {path.suffix for path in out.rglob("*") if path.is_file()}.isdisjoint(PICKLES)
    assert sorted(path.name for path in out.iterdir()) == ["negatives", "pretrained", "stage1", "stage2", "stage3", "start"]


@pytest.mark.parametrize("name", MODELS)
def test_losses_fall(trained, name):
    """The log ends at the last step with a lower loss than at first; so do both halves of pretraining."""
    lines = losses(trained[0] / "out" / name)

    assert lines[-1]["step"] == {"pretrained": 60, "stage3": 10}.get(name, 30)
    if name == "stage3":
        assert {"contrastive", "divergence", "flops_d", "flops_q", "terms_d", "terms_q"} < lines[0].keys()
        return
    assert lines[-1]["loss"] < 0.95 * lines[0]["loss"]
    if name == "pretrained":
        assert lines[-1]["encoder_loss"] < 0.95 * lines[0]["encoder_loss"]
        assert lines[-1]["decoder_loss"] < 0.95 * lines[0]["decoder_loss"]


@pytest.mark.parametrize("name", MODELS)
def test_plain_transformers_loads_the_folder(trained, name):
    """Transformers alone loads the folder without missing or unexpected weights, and others can read all files."""
    folder = trained[0] / "out" / name
    _, told = transformers.AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)

    assert not any(told.values()), told
    assert transformers.AutoTokenizer.from_pretrained(folder)("w7 q3")["input_ids"] == [2, 24, 8, 3]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o644}


def test_the_card_counts_what_was_seen(place):
    """The card of stage 3 lists all collections of earlier stages once, and held-out queries only for selection."""
    asked = recipe.read(place / "tiny.toml")
    train = open_training_set("topics", Graph(Store()))
    held = len(selection.held_out_ids(train, 0.2, 42))
    facts = json.loads((place / "out/stage3/training.json").read_text())["facts"]
    told = [(one["dataset"], one["use"], one["counts"]) for one in facts["data"]]

    assert told == [
        ("topics", "pretraining", {"documents": 120}),
        ("topics", "training", {"queries": 60 - held, "documents": 120}),
        ("topics", "selection", {"queries": held}),
    ]
    assert asked.selection.held_out == 0.2


def test_finished_parts_are_not_made_again(trained, place, capfd):
    """The same command gives the same output and leaves every file unchanged."""
    before = {path: path.stat().st_mtime_ns for path in (place / "out").rglob("*")}
    exit_code = code(["train", "all", "tiny.toml"])
    out, err = capfd.readouterr()

    assert (exit_code, err) == (0, "")
    assert out.splitlines() == [line for line in trained[1].splitlines() if line.startswith(("out/", "next:"))]
    assert {path: path.stat().st_mtime_ns for path in (place / "out").rglob("*")} == before


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("pretrain.learning_rate=0.5", ("pretrained", "pretrain.learning_rate: 0.01 there, 0.5 in the recipe")),
        ("encoding.query_length=8", ("pretrained", "encoding.query_length: 12 there, 8 in the recipe")),
        ("stage1.depth=9", ("stage1", "stage1.depth: 20 there, 9 in the recipe")),
        ("selection.every=7", ("stage1", "selection.every: 10 there, 7 in the recipe")),
        ("stage3.teacher=another", ("stage3", "stage3.teacher: 'teacher' there, 'another' in the recipe")),
        ("seed=1", ("start", "seed: 42 there, 1 in the recipe")),
    ],
)
def test_a_folder_of_another_recipe_is_refused(place, capfd, setting, said):
    """The first different setting is named with both values and a remedy, and nothing is trained."""
    exit_code = code(["train", "all", "tiny.toml", "--set", setting])
    out, err = capfd.readouterr()

    assert (exit_code, out) == (2, "")
    assert err.startswith("lexbench: out/{} was made by another recipe ({}".format(*said))
    assert err.endswith("remove it, or give another --output\n")
    assert not list((place / "out").glob("*.training"))


def test_settings_of_later_parts_and_hardware_can_change(place):
    """Settings of later stages, later selection, hardware and names do not invalidate a finished model."""
    asked = recipe.read(place / "tiny.toml", ["stage3.steps=5", "hardware.precision=bf16", "name=other", "selection.every=7"])

    assert provenance.finished(asked, "pretrained") == asked.folder("pretrained")
    with pytest.raises(CommandError, match=r"selection\.every"):
        provenance.finished(asked, "stage1")


def test_a_chosen_model_is_the_best_one(place, trained):
    """A stage keeps the weights of its best step, and the card says so. Stages 1 and 2 improve queries that BM25 gets wrong.

    Stage 2 uses negatives of stage 1's model, stage 1 those of BM25.
    """
    lines, best = scores(place / "out/stage1"), max(line["RR@10"] for line in scores(place / "out/stage1"))
    (told,) = json.loads((place / "out/stage1/training.json").read_text())["facts"]["selection"]

    assert told["value"] == best
    assert told["step"] == next(line["step"] for line in lines if line["RR@10"] == best)
    assert [line["step"] for line in log(place / "out/stage1") if "loss" not in line] == [0, 10, 20, 30]
    for name in ("stage1", "stage2"):
        first, *others = [line["RR@10"] for line in scores(trained[0] / "out" / name)]
        assert max(others) > first + 0.1
    facts = [(place / f"out/negatives/stage{stage}/topics/facts.json").read_text() for stage in (1, 2, 3)]
    mined = [json.loads(text)["retriever"] for text in facts]

    assert mined[0] == "bm25"
    assert mined[1:] == [f'sparse_mlm(model="{{stage{stage}}}", dense_ok=True)@impact' for stage in (1, 2)]
