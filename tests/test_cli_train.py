"""The command `lexbench train`: recipes, options, dry runs, and errors before any work."""

import json

import pytest
from tiny import answer, ended, run, write

pytest.importorskip("accelerate", reason="training is in the extra train")


RECIPE = """
schema = 1
name = "tiny"
output = "out"
[start]
model = "model"
[pretrain]
corpora = ["mine"]
epochs = 2
batch_size = 4
[stage1]
queries = ["mine"]
steps = 5
batch_size = 2
[stage2]
queries = ["mine"]
[hardware]
device = "cpu"
"""
NEGATIVES = "needs out/negatives/stage1/mine, which does not exist yet; type: lexbench train mine --stage 1"
IMPOSSIBLE = ["9" * 5000, "[" * 5000, "\x1b", ""]
CONFIG = {"num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 16, "vocab_size": 9, "max_position_embeddings": 200}


@pytest.fixture
def place(store, tmp_path, monkeypatch):
    """Make a folder with a recipe, a BEIR folder of three documents, and a model's config, and return it."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "nothing"))
    monkeypatch.delenv("LEXBENCH_DATA", raising=False)
    for name, kind in {"model": "bert", "t5": "t5"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(CONFIG | {"model_type": kind}))
        (tmp_path / name / "vocab.txt").write_text("x\n")
    (tmp_path / "model" / "model.safetensors").touch()
    write(tmp_path / "mine", dict.fromkeys("012", "x"), {"q": "x"}, [("q", "1", 1)], "train")
    (tmp_path / "mine.toml").write_text(RECIPE)
    return tmp_path


def planned(capsys, *arguments):
    """Return the parts of a dry run by name, each as (texts, steps, epochs)."""
    parts = answer(capsys, "train", *arguments, "--dry-run", "--json")["parts"]
    return {part: amounts for part, *amounts in map(dict.values, parts)}


def test_a_dry_run_lists_every_part_and_does_nothing(place, capsys):
    """A dry run lists pretraining, mining and fine-tuning of each stage, and makes neither output nor store."""
    out, err = ended(capsys, 0, "train", "all", "mine.toml", "--dry-run")
    lines = [line.split() for line in out.splitlines() if line.strip()]

    assert err == ""
    assert lines[2] == ["pretrain", "—", "—", "2.0"]
    assert lines[4] == ["finetune", "--stage", "1", "170", "5", "—"]
    assert lines[-1] == ["Everything", "was", "checked.", "Nothing", "was", "trained."]
    assert not (place / "out").exists()
    assert not (place / "store").exists()


def test_a_dry_run_states_the_settings_of_the_recipe(place, capsys):
    """A step of fine-tuning has 17 texts per query; --set replaces any setting; epochs take the place of steps."""
    plain = planned(capsys, "all", "mine.toml")
    (place / "out" / "negatives" / "stage1" / "mine").mkdir(parents=True)
    settings = ("--set=pretrain.steps=7", "--set=pretrain.batch_size=3")

    assert list(plain) == ["pretrain", "mine --stage 1", "finetune --stage 1", "mine --stage 2", "finetune --stage 2"]
    assert plain["pretrain"] == [None, None, 2]
    assert plain["mine --stage 1"] == [None, None, None]
    assert plain["finetune --stage 1"] == [5 * 2 * 17, 5, None]
    assert planned(capsys, "pretrain", "mine.toml", *settings) == {"pretrain": [21, 7, None]}
    epochs = planned(capsys, "finetune", "mine.toml", "--stage", 1, "--set", "stage1.epochs=6", "--set=stage1.start=start")
    assert epochs == {"finetune --stage 1": [None, None, 6]}


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (["mine", "mine.toml"], 2, "Missing option '--stage'"),
        (["mine", "mine.toml", "--stage", 4], 2, "4 is not in the range 1<=x<=3"),
        (["mine", "mine.toml", "--stage", 3], 2, "recipe tiny has no mine --stage 3; it has: pretrain, mine --stage 1"),
        (["pretrain", "mine.toml", "--set", "seed=-1"], 2, "lexbench: seed=-1: Expected `int` >= 0\n"),
        *((["pretrain", "mine.toml", "--set", f"pretrain.steps={value}"], 2, "steps") for value in IMPOSSIBLE),
        (["all", "mine.toml", "--set", "stage1.negatives=bm26"], 3, "no retriever, encoder or model 'bm26'; did you mean"),
        (["all", "mine.toml", "--set", 'stage2.negatives=sparse_mlm(model="{stage1}")@impct'], 3, "no engine 'impct'"),
        (["all", "mine.toml", "--set", "stage1.queries=['mine', 'mine']"], 2, "Names a training set twice; name each once"),
        (["all", "mine.toml", "--set", "encoding.document_length=201"], 2, "model takes at most 200 tokens; type encoding."),
        (["all", "msmarko"], 3, "no recipe or file 'msmarko'; did you mean 'msmarco'"),
        (["all", "msmarco", "--set", "start.model=model"], 3, "msmarco-passage/train/judged is not here"),
        (["all", "none.toml"], 3, "no recipe or file 'none.toml'"),
        (["all", "mine.toml", "--set", "hardware.precision=fp8"], 2, "'fp8'; there is: fp32, bf16, fp16, auto"),
        (["all", "mine.toml", "--set", "selection.datasets=['pydoc/test']"], 3, "pydoc/test is for testing"),
        (["all", "mine.toml", "--set", "hardware.precision=fp16"], 2, "precision fp16 is for GPUs; on the processor type"),
        (["all", "mine.toml", "--set", "stage1.queries=['pydoc/deb']"], 3, "did you mean 'pydoc/dev' or"),
        (["all", "mine.toml", "--set", "pretrain.corpora=['none']"], 3, "no dataset or folder 'none'"),
        (["all", "mine.toml", "--set", "pretrain.corpora=['beir/nq']"], 3, "beir/nq is not here"),
        (["all", "mine.toml", "--set", "start.model=./none"], 3, "no folder ./none"),
        (["all", "mine.toml", "--set", "start.model=mine"], 3, "mine: no config.json"),
        (["all", "mine.toml", "--set", "start.model=t5"], 3, "t5: no weights (model.safetensors, "),
        (["all", "mine.toml", "--set", "start.model=t5", "--set", "start.weights=fresh"], 2, "training has no model_type 't5'"),
        (["all", "mine.toml", "--set", "start.model=org/none"], 3, "Hugging Face hub"),
        (["all", "mine.toml", "--set", "stage2.teacher=/none/such"], 3, "no folder /none/such"),
        (["all", "mine.toml", "--set", "stage2.teacher=model"], 2, "model does not say how it pools"),
        (["all", "mine.toml", "--set", "stage2.teacher=org/none"], 3, "Hugging Face hub"),
        (["finetune", "mine.toml", "--stage", 1], 3, "out/pretrained, which does not exist yet; type: lexbench train pretrain"),
        (["finetune", "mine.toml", "--stage", 1, "--set", "stage1.start=start"], 3, NEGATIVES),
        (["mine", "mine.toml", "--stage", 2], 3, "out/stage1, which does not exist yet; type: lexbench train finetune --stage"),
    ],
)
def test_a_mistake_costs_one_line_and_the_right_code(place, capsys, arguments, exit_code, said):
    """An error is one line on stderr before any work, with and without --dry-run, and nothing is made."""
    found, out, err = run(capsys, "train", *arguments)

    assert (found, out) == (exit_code, "")
    assert said in err
    assert err.count("\n") == 1
    assert not (place / "out").exists()
    dry = run(capsys, "train", *arguments, "--dry-run")
    assert (dry[0], dry[2].replace(" --dry-run", "")) == (exit_code, err)  # the same command is suggested, with the option


def test_judgements_of_another_corpus_are_refused_before_pretraining(place, capsys):
    """The training sets of all stages are opened first, so a wrong file of the last one does not cost hours of pretraining."""
    write(place / "apart", {"0": "x"}, {"q": "x"}, [("q", "gone", 1)], "train")
    err = ended(capsys, 3, "train", "all", "mine.toml", "--set", "stage2.queries=['apart']").err
    assert "apart: none of the 1 judged documents is in the corpus: the judgements have ids like 'gone'" in err
    assert not (place / "out").exists()


def test_mining_prints_its_folder_and_the_next_command(place, capsys, monkeypatch):
    """Mining prints its folder and the next command with the same options, or JSON; a second process of torchrun nothing."""
    options = ("--stage", 1, "--output", "other out", "--set", "stage1.depth=2")
    out = ended(capsys, 0, "train", "mine", "mine.toml", *options).out
    again = answer(capsys, "train", "mine", "mine.toml", *options, "--json")

    made = "other out/negatives/stage1/mine"
    following = "next: lexbench train finetune mine.toml --stage 1 --set stage1.depth=2 --output 'other out'"
    assert out.splitlines() == [made, following]
    assert (place / made).is_dir()
    assert again == {"recipe": "tiny", "made": [made]}
    monkeypatch.setenv("RANK", "1")
    assert run(capsys, "train", "mine", "mine.toml", "--stage", 1) == (0, "", "")
    assert run(capsys, "train", "all", "mine.toml", "--dry-run") == (0, "", "")


def test_a_missing_package_is_named_with_its_extra(place, capsys, monkeypatch):
    """Without accelerate the error names the extra `train`."""
    monkeypatch.setattr("lexbench.errors.find_spec", lambda module: None if module == "accelerate" else module)
    line = (
        "lexbench: lexbench train needs the package 'accelerate', which is not installed; type: pip install 'lexbench[train]'"
    )

    assert run(capsys, "train", "all", "mine.toml") == (3, "", line + "\n")
