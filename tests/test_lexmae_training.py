"""Training: interruptions, several processes, and which weights are kept."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("accelerate", reason="training is in the extra train")

import tiny_recipes
import torch
from checkpoints import Pickled
from tiny import enter
from topics import Process, log, losses, write
from torch import nn

from lexbench.cli import code
from lexbench.display.progress import Progress
from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.lexmae import provenance, recipe
from lexbench.lexmae.data.batches import Draws
from lexbench.lexmae.model.encoder import Learner, load_encoder
from lexbench.lexmae.recipe.settings import Fitting, Hardware
from lexbench.lexmae.training import plan, processes, resuming, trainer
from lexbench.testing.executors import RecordedProgress

SHORT = ("--set", "pretrain.steps=12", "--set", "pretrain.save_every=4", "--set", "pretrain.dropout=0.1")
PRETRAIN = ["train", "pretrain", "tiny.toml", *SHORT]
ALONE = [*PRETRAIN, "--set", "pretrain.dropout=0"]
STAGE = ["train", "finetune", "tiny.toml", "--stage", "1", "--set", "stage1.steps=12"]
STAGE += ["--set", "stage1.save_every=4", "--set", "stage1.start=start", "--set", "selection.every=3"]
KILLED = -signal.SIGKILL


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with the collection, the initial model, and the negatives of stage 1."""
    place = write(tmp_path_factory.mktemp("training"))
    process = Process(place, code, ["train", "mine", "tiny.toml", "--stage", "1", "--output", "whole stage1"])
    assert process.code() == 0, process.said
    return place


def killed_at(module, name, call, command, sent=signal.SIGKILL):
    """Run *command*, but send this process a signal before the given call of *name* in *module*."""
    owner = import_module(module)
    *classes, attribute = name.split(".")
    for each in classes:
        owner = getattr(owner, each)
    real, calls = getattr(owner, attribute), iter(range(1, 1000))

    def counted(*arguments, **settings):
        if next(calls) == call:
            if attribute == "save":  # half a file, as a process that is killed while it writes leaves it
                Path(arguments[1]).write_bytes(b"PK\x03\x04")
            os.kill(os.getpid(), sent)
        return real(*arguments, **settings)

    setattr(owner, attribute, counted)
    return code(command)


BEFORE = ("lexbench.lexmae.training.trainer", "ProgressCallback.on_step_end", 3)  # before there is a checkpoint
HALF = ("torch", "save", 2)  # in the first one, its scheduler half written
UNMARKED = ("lexbench.lexmae.training.resuming", "mark_complete", 2)  # in the second one, whole but for the mark
BETWEEN = ("lexbench.lexmae.training.trainer", "ProgressCallback.on_step_end", 7)  # between two
SELECTING = ("lexbench.lexmae.training.resuming", "write_weights", 1)  # before the best weights so far are written
SELECTED = ("lexbench.lexmae.training.resuming", "selections", 1)  # when they are, and their scores are not noted yet
PUBLISHING = ("lexbench.lexmae.card", "finish", 1)
CLEARING = ("lexbench.lexmae.training.resuming", "clear", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "kills", "resumed"),
    [
        (PRETRAIN, [BEFORE, HALF, BETWEEN, PUBLISHING, CLEARING], 12),
        (STAGE, [SELECTING, SELECTED, UNMARKED, SELECTED, PUBLISHING, CLEARING], 12),
    ],
    ids=["pretrain", "finetune"],
)
def test_kills_change_nothing(place, command, kills, resumed):
    """After kill -9 at any moment the resumed training has the log and the weights of an uninterrupted one, byte for byte.

    `test_a_selection_goes_on_where_it_was_stopped` stops a selection at these moments, too, without a process for each.
    """
    name = "pretrained" if command[1] == "pretrain" else "stage1"
    process = Process(place, code, [*command, "--output", f"whole {name}"])
    assert process.code() == 0, process.said
    if name == "stage1":
        shutil.copytree(place / "whole stage1" / "negatives", place / "killed stage1" / "negatives")
    command = [*command, "--output", f"killed {name}"]
    for kill in kills:
        process = Process(place, killed_at, *kill, command)
        assert process.code() == KILLED, f"{kill}: {process.said}"
    process = Process(place, code, command)
    assert process.code() == 0, process.said

    whole, killed = place / f"whole {name}" / name, place / f"killed {name}" / name
    assert (killed / "losses.jsonl").read_bytes() == (whole / "losses.jsonl").read_bytes()
    assert [line["step"] for line in losses(whole)] == [2, 4, 6, 8, 10, 12]
    weights = [path.name for path in whole.glob("*.safetensors")]
    assert len(weights) == (1 if name == "stage1" else 2)
    for file in weights:
        assert (killed / file).read_bytes() == (whole / file).read_bytes()
    facts = json.loads((killed / "training.json").read_text())["facts"]
    assert facts["resumed"] == resumed
    assert not killed.with_name(f"{name}.training").exists()
    assert not list(killed.parent.glob("*.draft"))


def test_ctrl_c(place):
    """Ctrl-C exits with 130 and one more line; the same command resumes from the last checkpoint."""
    command = [*PRETRAIN, "--output", "interrupted"]
    process = Process(place, killed_at, *BETWEEN, command, signal.SIGINT)
    state = place / "interrupted" / "pretrained.training"

    assert process.code() == 130
    assert "Traceback" not in process.said
    assert process.said.splitlines()[-1].startswith("lexbench: interrupted; ")
    assert not (place / "interrupted" / "pretrained").exists()
    reached = resuming.checkpoint_step(resuming.last_checkpoint(state))
    assert Process(place, code, command).code() == 0
    facts = json.loads((place / "interrupted" / "pretrained" / "training.json").read_text())["facts"]
    assert facts["resumed"] == reached == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "file"),
    [(ALONE, "corpus.jsonl"), (STAGE, "qrels/train.tsv")],
    ids=["texts", "judgements"],
)
def test_a_training_does_not_go_on_with_other_data(tmp_path, command, file):
    """If texts or judgements change after a kill, the training is refused in one line; with the old ones it goes on."""
    write(tmp_path)
    if command is STAGE:
        assert Process(tmp_path, code, ["train", "mine", "tiny.toml", "--stage", "1"]).code() == 0
    assert Process(tmp_path, killed_at, *BETWEEN, command).code() == KILLED
    changed = tmp_path / "topics" / file
    before = changed.read_text()
    changed.write_text("".join(before.splitlines(keepends=True)[:-1]))
    process = Process(tmp_path, code, command)

    assert process.code() == CommandError.exit_code
    assert "training was begun with other texts, judgements or models; bring them back, or remove it" in process.said
    changed.write_text(before)
    assert Process(tmp_path, code, command).code() == 0


def together(place, function, command, *, watched=None):
    """Run *command* in two processes as torchrun does, and return both.

    *watched*: the second prints what it writes below this folder, which then has the store, too.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    begun = []
    for rank in ("0", "1"):
        environment = {**meeting, "RANK": rank, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
        called = [watching, watched, *function] if watched and rank == "1" else function
        if watched:
            environment["LEXBENCH_STORE"] = str(place / watched / "store")
        begun.append(Process(place, *called, command, **environment))
    return begun


def watching(folder, function, *arguments):
    """Call *function*, and print the paths below *folder* that it opens for writing, makes or removes, but no locks."""
    below = Path(folder).resolve()

    def heard(event, details):
        writes = event in {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}
        writes |= event == "open" and bool(details[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        path = Path(str(details[0])).resolve() if writes else below.parent
        if path.is_relative_to(below) and "locks" not in path.parts:
            sys.stdout.write(f"wrote {path.relative_to(below)}\n")

    sys.addaudithook(heard)
    return function(*arguments)


def test_two_processes_train_together(place):
    """Two processes reach the losses of one; only the first writes models and prints. So does one in pieces, with workers."""
    divided = ["--set", "hardware.accumulate=3", "--set", "hardware.workers=2", "--output", "pieces"]
    for begun in [Process(place, code, [*ALONE, *given]) for given in (["--output", "one"], divided)]:
        assert begun.code() == 0, begun.said
    first, second = together(place, [code], [*ALONE, "--output", "two"], watched="two")

    assert (first.code(), second.code()) == (0, 0), first.said + second.said
    written = [line.split()[-1] for line in second.said.splitlines() if line.startswith("wrote")]
    assert set(written) <= {f"pretrained.training/checkpoint-{step}" for step in (4, 8, 12)}
    assert len(second.said.splitlines()) == len(written), second.said
    assert "two/pretrained\n" in first.said
    one = losses(place / "one/pretrained")
    for other in (losses(place / "two/pretrained"), losses(place / "pieces/pretrained")):
        assert [line["step"] for line in other] == [line["step"] for line in one]
        for name in ("loss", "encoder_loss", "decoder_loss"):
            assert [line[name] for line in other] == pytest.approx([line[name] for line in one], rel=1e-4)
    assert not (place / "two" / "pretrained.training").exists()


WHOLE = [
    "train",
    "all",
    "tiny.toml",
    "--set",
    "pretrain.steps=8",
    "--set",
    "pretrain.save_every=4",
    "--set",
    "stage3.teacher=bm25",
]
WHOLE += [f"--set=stage{stage}.{key}" for stage in (1, 2, 3) for key in ("steps=6", "save_every=2")]
WHOLE += ["--set", "selection.every=3"]
MINING = ("lexbench.lexmae.data.negatives", "_lists", 1)
SCORING = ("lexbench.lexmae.training.selection", "CandidateScorer.scores", 2)  # at step 3


@pytest.mark.slow
def test_two_processes_that_are_killed_in_every_part_resume(place):
    """After kills in pretraining, and in mining, steps and selection of each stage, logs and weights are as without them."""
    first, second = together(place, [code], [*WHOLE, "--output", "calm"])
    assert (first.code(), second.code()) == (0, 0), first.said + second.said
    command = [*WHOLE, "--output", "again"]
    for kill in (BEFORE, *3 * (MINING, SCORING, BEFORE)):
        first, second = together(place, [killed_at, *kill], command)
        assert first.code() == KILLED, f"{kill}: {first.said}"
        assert second.code() != 0, f"{kill}: {second.said}"
    first, second = together(place, [code], command)
    assert (first.code(), second.code()) == (0, 0), first.said + second.said
    for model in ("pretrained", "stage1", "stage2", "stage3"):
        for file in ("losses.jsonl", "model.safetensors"):
            assert (place / "again" / model / file).read_bytes() == (place / "calm" / model / file).read_bytes(), (model, file)


@pytest.mark.slow
def test_two_processes_choose_a_model(place):
    """Mining, tokenising and searches for selection run in the first process only; the second one writes its checkpoints."""
    for each in (["train", "mine", "tiny.toml", "--stage", "1", "--output", "two stage1"], [*STAGE, "--output", "two stage1"]):
        first, second = together(place, [code], each, watched="two stage1")
        assert (first.code(), second.code()) == (0, 0), first.said + second.said
        written = [line.removeprefix("wrote ") for line in second.said.splitlines()]
        assert set(written) <= {f"stage1.training/checkpoint-{step}" for step in (4, 8, 12)}

    assert [line["step"] for line in log(place / "two stage1/stage1") if "loss" not in line] == [0, 3, 6, 9, 12]
    assert sorted(path.name for path in (place / "two stage1").iterdir()) == ["negatives", "stage1", "start", "store"]


def one_killed(rank, kill, command):
    """Run *command*, and kill -9 the process *rank* at *kill*."""
    return killed_at(*kill, command) if os.environ["RANK"] == rank else code(command)


@pytest.mark.slow
@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_process_that_is_left_alone_says_so(place, rank):
    """If one of two processes is killed, the other ends with one line; the same command resumes."""
    command = [*PRETRAIN, "--output", f"without {rank}"]
    both = together(place, [one_killed, rank, BETWEEN], command)
    codes = [process.code() for process in both]
    said = both[1 - int(rank)].said.splitlines()

    assert codes[int(rank)] == KILLED
    assert codes[1 - int(rank)] == CannotStart.exit_code, said
    assert said[-1].startswith("lexbench: another process of this training has ended; ")
    assert sum(not line.startswith("tiny pretraining: ") for line in said) == 1, said
    again = together(place, [code], command)
    assert [process.code() for process in again] == [0, 0], again[0].said
    facts = json.loads((place / f"without {rank}" / "pretrained" / "training.json").read_text())["facts"]
    assert facts["resumed"] == 4


@pytest.mark.slow
def test_torchrun(place):
    """The same with torchrun itself: the second process and all libraries are silent, and an error is said once."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "lexbench"]
    environment = {**os.environ, "LEXBENCH_STORE": str(place / "store"), "LEXBENCH_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [*torchrun, *PRETRAIN, "--output", "torchrun"]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["torchrun/start", "torchrun/pretrained"]
    assert all(line.startswith("tiny pretraining: ") for line in done.stderr.splitlines()), done.stderr
    wrong = [*torchrun, "train", "all", "tiny.toml", "--set", "stage1.negatives=bm26", "--output", "wrong"]
    done = subprocess.run(wrong, cwd=place, env=environment, capture_output=True, text=True, check=False)
    told = [line for line in done.stderr.splitlines() if line.startswith("lexbench: ")]
    assert len(told) == 1, done.stderr
    assert "did you mean 'bm25'" in told[0]


def test_batches_that_cannot_be_shared(place, monkeypatch, capsys):
    """A batch that two devices cannot divide evenly is refused in one line before anything is made."""
    enter(place, monkeypatch)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert code(["train", "all", "tiny.toml", "--output", "odd", "--set", "pretrain.batch_size=31"]) == 2
    assert capsys.readouterr().err == ("lexbench: batch_size=31 cannot be divided evenly by 2 devices; give a multiple of 2\n")
    assert not (place / "odd").exists()


class Point(Learner):
    """A model of one number, whose loss is the mean squared distance to the drawn numbers."""

    def __init__(self):
        super().__init__()
        self.at = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        """Return loss and one part of it."""
        return {"loss": ((self.at - x) ** 2).mean(), "distance": (self.at - x).abs().mean()}


class Rated(Point):
    """The point with ten times the learning rate, next to a matrix with the plain rate and one with a tenth."""

    rates = {"at": 10.0, "slow": 0.1}  # noqa: RUF012 - of this one class

    def __init__(self):
        super().__init__()
        self.plain, self.slow = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(2, 2))


def test_rates_and_what_decays(tmp_path):
    """Parameters in `rates` have their own learning rate; only matrices decay."""
    settings = Fitting(batch_size=4, learning_rate=0.1, steps=7, weight_decay=0.01)
    model = Rated()
    how = trainer.Fit("point", settings, Hardware(device="cpu"), 1, 7, tmp_path)
    groups = trainer.LexMAETrainer(model=model, args=how.arguments()).create_optimizer().param_groups
    found = {id(one): (group["lr"], group["weight_decay"]) for group in groups for one in group["params"]}
    expected = {model.at: (1.0, 0.0), model.slow: (0.01, 0.01), model.plain: (0.1, 0.01)}

    assert found == {id(one): pytest.approx(settings) for one, settings in expected.items()}


def fitted(folder, score=None, *, model=None, progress=None, published=0.0, **fitting):
    """Fit a point to the numbers 0 to 7; return it and the results."""
    fitting = {"batch_size": 4, "learning_rate": 0.1, "warmup": 0.0, "clip": 1.0, "steps": 7, "save_every": 2} | fitting
    settings = Fitting(**fitting)
    how = trainer.Fit("point", settings, Hardware(device="cpu"), 1, settings.steps, folder, 2, published)
    draws = Draws(lambda index, rng: float(index), 8, how.draws, 1)
    model = model or Point()
    return model, trainer.fit(model, draws, lambda drawn: {"x": torch.tensor(drawn)}, how, progress or Progress(), score)


def test_the_best_step_is_kept(tmp_path):
    """Steps 0, 2, 4, 6 and the last are scored once each; the best weights are kept, the earlier ones on ties."""
    asked, seen = iter([0.1, 0.2, 0.5, 0.5, 0.3]), []

    def score(model):
        seen.append(model.at.item())
        return {"RR@10": next(asked)}

    model, found = fitted(tmp_path, score)
    assert len(seen) == 5
    assert len(set(seen)) == 5
    assert model.at.item() == seen[2]
    assert found.best == {"step": 4, "RR@10": 0.5}
    assert [line for line in found.log if "loss" not in line] == [
        {"step": step, "RR@10": score} for step, score in zip((0, 2, 4, 6, 7), (0.1, 0.2, 0.5, 0.5, 0.3), strict=True)
    ]


@pytest.mark.parametrize(
    ("name", "call"),
    [(SELECTING[1], 1), (SELECTED[1], 1), (SELECTED[1], 3), (UNMARKED[1], 1), (UNMARKED[1], 2)],
)
def test_a_selection_goes_on_where_it_was_stopped(tmp_path, monkeypatch, name, call):
    """A training that stops before or after the best weights are written, or before a mark, ends as one that never stops."""
    real, calls = getattr(resuming, name), iter(range(1, 1000))

    def counted(*arguments):
        if next(calls) == call:
            raise KeyboardInterrupt
        return real(*arguments)

    def score(model):
        return {"RR@10": 1 - abs(model.at.item() - 0.35)}

    calm, expected = fitted(tmp_path / "calm", score)
    monkeypatch.setattr(resuming, name, counted)
    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "stopped", score)
    monkeypatch.undo()
    model, found = fitted(tmp_path / "stopped", score)

    assert 0 < expected.best["step"] < 7
    assert found.resumed < 7
    assert (found.log, found.best, model.at.item()) == (expected.log, expected.best, calm.at.item())


@pytest.mark.parametrize("damaged", [b"", b"\xff" * 100, b"\x02\0\0\0\0\0\0\0{}"])
def test_damaged_weights_of_a_selection_are_one_line(tmp_path, damaged):
    """Bytes that are no weights, and weights without their scores, are refused with what to do."""
    resuming.keep_if_best(tmp_path, Point(), {"step": 1, "RR@10": 0.5})
    (tmp_path / "best.safetensors").write_bytes(damaged)
    with pytest.raises(CannotStart, match=rf"best\.safetensors is damaged .*; remove {tmp_path} to begin again"):
        resuming.keep_if_best(tmp_path, Point(), {"step": 2, "RR@10": 0.5})
    with pytest.raises(CannotStart, match=r"best\.safetensors is damaged"):
        resuming.load_best(tmp_path, Point())
    (tmp_path / "scores.json").write_bytes(damaged)
    with pytest.raises(CannotStart, match=rf"scores\.json is damaged; remove {tmp_path} to begin again"):
        resuming.selections(tmp_path)


def test_a_selection_is_shown_beside_the_published_value(tmp_path):
    """The note about a selection repeats what the authors report, if the recipe says it."""
    told = []
    for published in (0.0, 0.393):
        progress = RecordedProgress()
        fitted(tmp_path / str(published), lambda _model: {"RR@10": 0.25}, progress=progress, published=published, steps=2)
        told.append([note for note in progress.notes if "RR@10" in note][-1])
    assert told[0] == "point: RR@10 0.2500 at step 2"
    assert told[1] == "point: RR@10 0.2500 at step 2 (published: 0.3930, on other queries)"


@pytest.mark.parametrize(("fastest", "precision"), [("bfloat16", "bf16"), ("int8", "fp32"), ("float32", "fp32")])
def test_precision_auto_is_what_the_processor_has(monkeypatch, fastest, precision):
    """On a processor "auto" is bf16 where it is faster, else fp32; a stated precision stays."""
    monkeypatch.setattr(processes, "fastest", lambda: fastest)
    asked = tiny_recipes.recipe(hardware=Hardware(device="cpu", precision="auto"))
    assert processes.resolved(asked).hardware == Hardware(device="cpu", precision=precision)
    stated = tiny_recipes.recipe(hardware=Hardware(device="cpu", precision="bf16"))
    assert processes.resolved(stated) is stated


def test_a_damaged_record_of_the_data_is_one_line(tmp_path):
    """It is refused like one of other texts."""
    for _ in range(2):
        resuming.check_data(tmp_path, ["texts"])
    (tmp_path / "data.json").write_bytes(b"\xff[")
    with pytest.raises(CommandError, match="begun with other texts, judgements or models; bring them back, or remove it"):
        resuming.check_data(tmp_path, ["texts"])


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_a_training_does_not_go_on_with_another_model(tmp_path, file):
    """A teacher, or the model that it starts from, may have been overwritten since; notes beside it do not count."""
    (tmp_path / "teacher").mkdir()
    for name in ("model.safetensors", "config.json", "README.md"):
        (tmp_path / "teacher" / name).write_text("1")
    resuming.check_data(tmp_path, ["texts"], [tmp_path / "teacher"])
    (tmp_path / "teacher" / "README.md").write_text("2")
    resuming.check_data(tmp_path, ["texts"], [tmp_path / "teacher"])
    (tmp_path / "teacher" / file).write_text("2")
    with pytest.raises(CommandError, match="begun with other texts, judgements or models"):
        resuming.check_data(tmp_path, ["texts"], [tmp_path / "teacher"])


def test_a_recipe_states_the_threads_of_all_work():
    """Every part of a training takes them while its processes are connected; 0 leaves torch's own."""
    before = torch.get_num_threads()
    with processes.joined(Hardware(device="cpu", threads=before + 1)):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before
    with processes.joined(Hardware(device="cpu")):
        assert torch.get_num_threads() == before


def test_the_cost_of_each_part(place, monkeypatch):
    """Three steps are timed: hours are those of all steps by the contract or the recipe, and nothing is written."""
    enter(place, monkeypatch)
    before = sorted(place.rglob("*"))
    asked = recipe.read(place / "tiny.toml", ["stage2.steps=7200", "stage3.epochs=2"])
    found = plan.costs(asked, plan.tasks(asked))

    stages = ("finetune --stage 1", "mine --stage 2", "finetune --stage 2", "mine --stage 3", "finetune --stage 3")
    assert tuple(found) == ("pretrain", *stages)
    assert all(cost.seconds > 0 and cost.memory_gib > 0 for cost in found.values())
    assert found["finetune --stage 2"].hours == pytest.approx(2 * found["finetune --stage 2"].seconds)
    assert found["finetune --stage 3"].hours is None, "the contract of a folder does not say how many examples it has"
    parameters = sum(one.numel() for one in load_encoder(place / "model")[0].parameters())
    assert found["finetune --stage 1"].disk_gib == pytest.approx(40 * parameters / 2**30, rel=0.1)
    assert sorted(place.rglob("*")) == before


def test_the_log_has_every_step_and_every_part(tmp_path):
    """Log lines are at checkpoints and at the last step, with means over the steps since the last line."""
    _, found = fitted(tmp_path, learning_rate=1e-9, steps=7, save_every=5)

    assert [line["step"] for line in found.log] == [5, 7]
    drawn = Draws(lambda index, rng: float(index), 8, 28, 1)
    numbers = np.array([drawn[draw] for draw in range(28)])
    for name, parts in (("distance", numbers), ("loss", numbers**2)):
        assert [line[name] for line in found.log] == pytest.approx([parts[:20].mean(), parts[20:].mean()], rel=1e-5)


class Diverging(Point):
    """A model whose loss is NaN from the fifth step on."""

    def forward(self, x):
        """Return the loss."""
        self.steps = getattr(self, "steps", 0) + 1
        found = super().forward(x)
        return found | {"loss": found["loss"] * (float("nan") if self.steps > 4 else 1.0)}


def test_nan_ends_training(tmp_path):
    """A NaN loss ends training with advice, without a checkpoint of such weights."""
    message = r"^point: the loss is nan at step 6; remove .* and lower learning_rate, which is 0.1$"
    with pytest.raises(LexbenchError, match=message):
        fitted(tmp_path, model=Diverging())
    assert resuming.last_checkpoint(tmp_path).name == "checkpoint-4"


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_nothing_is_unpickled_but_tensors(tmp_path, name):
    """A checkpoint with a pickled program is an error in one line, and the program does not run."""
    with pytest.raises(LexbenchError):
        fitted(tmp_path, model=Diverging())
    torch.save(Pickled(tmp_path / "run"), tmp_path / "checkpoint-4" / name)

    with pytest.raises(LexbenchError, match=r"cannot read .*checkpoint-4 \(UnpicklingError\); remove it to resume"):
        fitted(tmp_path)
    assert not (tmp_path / "run").exists()
    (tmp_path / "checkpoint-4" / "trainer_state.json").write_text("{")
    with pytest.raises(LexbenchError, match=r"cannot read .*checkpoint-4 \(JSONDecodeError\); remove it to resume"):
        fitted(tmp_path)
    (tmp_path / "checkpoint-4" / "complete").unlink()
    assert fitted(tmp_path)[1].resumed == 2


def test_a_folder_that_another_process_has_made_is_kept(tmp_path):
    """A process that finishes a folder after another one is refused, and does not change the folder."""
    folder = tmp_path / "start"

    def write_late():
        with provenance.drafted(folder) as draft:
            (draft / "weights").write_text("second")
            folder.mkdir()
            (folder / "weights").write_text("first")

    with pytest.raises(CannotStart, match=r"another process has made .*start in the meantime; type the command again"):
        write_late()
    assert (folder / "weights").read_text() == "first"


def test_one_training_per_folder(place, monkeypatch):
    """A second process in the same folder, or another recipe, is refused."""
    enter(place, monkeypatch)
    asked, other = (
        recipe.read(place / "tiny.toml", ["output=claimed", *given]) for given in ([], ["pretrain.decoder_share=0.5"])
    )
    with resuming.locked(asked, "pretrained"):
        locked = resuming.locked(asked, "pretrained")
        with pytest.raises(CannotStart, match=r"another process trains in claimed/pretrained.training; wait for it"):
            locked.__enter__()
    said = r"pretrained.training was made by another recipe \(pretrain.decoder_share: 0.9 there, 0.5 in the recipe\)"
    with pytest.raises(CommandError, match=said), resuming.locked(other, "pretrained"):
        pass
    with resuming.locked(asked, "pretrained"):
        pass
