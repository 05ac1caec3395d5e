"""Recipes: presets (LexMAE as in its paper and in its authors' program), files and overrides; and which queries may be used."""

from pathlib import Path

import msgspec
import pytest

from lexbench.errors import CannotStart, CommandError, InvalidFile, UnknownName
from lexbench.lexmae.data.collections import check_selection
from lexbench.lexmae.recipe import read
from lexbench.lexmae.recipe.settings import Recipe, Selection
from lexbench.lexmae.training.plan import Task, single_task, tasks

HEAD = 'schema = 1\nname = "tiny"\noutput = "out"\n'
PRETRAIN = '[pretrain]\ncorpora = ["pydoc/dev"]\n'
IMITATION = "[imitation]\nmodel = 'm'\ncorpora = ['a', 'b']\nsteps = 1\nbatch_size = 1\nlearning_rate = 1.0\n"
TABLE = HEAD + IMITATION + "keep_means = 0.0\n[ranking]\nmodel = 'm'\nqueries = {}\n"
STAGE = '[stage{}]\nqueries = ["pydoc/dev"]\n'
TESTING = ("selection.datasets: pydoc/test is for testing", "type pydoc/dev, or held_out = 0.1 in [selection]")
TESTED = ("stage1.queries: beir/scifact/test is for testing", "type beir/scifact/train")
WHOLE = HEAD + PRETRAIN + "".join(STAGE.format(number) for number in (1, 2, 3))


@pytest.fixture
def recipe(tmp_path):
    """Return a function that reads a recipe from text."""

    def made(text, *overrides) -> Recipe:
        (tmp_path / "mine.toml").write_text(text)
        return read(tmp_path / "mine.toml", overrides)

    return made


def test_a_preset_fills_sections_that_are_there(recipe):
    """A preset fills missing settings of existing sections and of [encoding], which every recipe has, and adds no stage."""
    found = recipe(HEAD + PRETRAIN + "batch_size = 8\n" + STAGE.format(1))

    assert (found.pretrain.batch_size, found.pretrain.learning_rate, found.pretrain.epochs) == (8, 3e-4, 20.0)
    assert (found.stage1.lambda_d, found.stage1.lambda_q, found.stage1.clip) == (0.002, 0.0015, 1.0)
    assert [found.stage(number) for number in (1, 2, 3)] == [found.stage1, None, None]
    paper = recipe('preset = "paper"\n' + HEAD)
    assert (paper.encoding.positions, paper.encoding.titles) == ("all", "off")
    # {dataset} is not a model.
    run_file = 'run_file(path="{dataset}.trec")'
    assert recipe(HEAD + PRETRAIN + STAGE.format(1) + f"negatives = '{run_file}'\n").stage1.negatives == run_file


def test_overrides_come_last(recipe):
    """An override replaces the file's value: TOML, or plain text if it is not TOML; the last one counts."""
    text = WHOLE + "lambda_d = 1.0\n"
    found = recipe(text, "stage3.lambda_d=0.5", "stage3.lambda_d = 0.004", "selection.datasets=['pydoc/dev']")
    other = recipe(text, "stage1.negatives=bm25(k1=0.9)", "preset=paper", "name=other", "stage3.batch_size=2")

    assert (found.stage3.lambda_d, found.selection.datasets) == (0.004, ("pydoc/dev",))
    assert (other.stage1.negatives, other.encoding.titles, other.name) == ("bm25(k1=0.9)", "off", "other")
    assert (other.stage3.batch_size, other.stage3.lambda_d) == (2, 1.0)


def test_a_description_does_not_outlive_what_it_describes(recipe):
    """It names each setting that was changed once, but none that no description is about; an empty description stays empty."""
    text = WHOLE.replace("[pretrain]", "description = 'As its authors did.'\n[pretrain]")
    changes = ("stage1.lambda_d=0.5", "seed=3", "stage1.lambda_d=0.4", "output=there", "hardware.device=cpu")

    assert recipe(text, *changes).description == "As its authors did. Settings changed: stage1.lambda_d, seed."
    assert recipe(text, *changes, "description=Mine").description == "Mine"
    assert recipe(text, "output=there").description == "As its authors did."
    assert recipe(WHOLE, *changes).description == ""


@pytest.mark.parametrize(
    ("text", "overrides", "steps", "epochs"),
    [
        ("", (), 0, 20.0),
        ("steps = 100\n", (), 100, 0.0),
        ("steps = 100\n", ("pretrain.epochs=2",), 0, 2.0),
        ("epochs = 1\n", ("pretrain.steps=7",), 7, 0.0),
    ],
)
def test_steps_and_epochs_take_each_others_place(recipe, text, overrides, steps, epochs):
    """Giving steps removes epochs of the preset or the file, and vice versa."""
    found = recipe(HEAD + PRETRAIN + text, *overrides).pretrain

    assert (found.steps, found.epochs) == (steps, epochs)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "mine.toml: Invalid value"),
        (HEAD + "[pretrian]\n", "no setting 'pretrian'; did you mean 'pretrain'"),
        (WHOLE + "lamda_d = 1\n", "no setting 'stage3.lamda_d'; did you mean 'stage3.lambda_d'"),
        (WHOLE + "lambda_d = 'much'\n", "Expected `float`, got `str` - at `$.stage3.lambda_d`"),
        (WHOLE + "contrast = 'all'\n", "Invalid enum value 'all'; there is: own, in_batch - at `$.stage3.contrast`"),
        (WHOLE + "documents = 1\n", "Expected `int` >= 2 - at `$.stage3.documents`"),
        (WHOLE + "learning_rate = 0\n", "Expected `float` > 0.0 - at `$.stage3.learning_rate`"),
        (WHOLE + "warmup = 1.5\n", "Expected `float` <= 1.0 - at `$.stage3.warmup`"),
        (WHOLE + "[selection]\nheld_out = 1.0\n", "Expected `float` < 1.0 - at `$.selection.held_out`"),
        (WHOLE + "[selection]\nmeasure = 'nDGC@10'\n", "no measure 'nDGC@10'"),
        (HEAD + "preset = 'book'\n", "no preset 'book'; there is: code, paper - at `$.preset`"),
        (HEAD + "[pretrain]\n", "missing required field `corpora` - at `$.pretrain`"),
        (HEAD + "[pretrain]\ncorpora = []\n", "length >= 1 - at `$.pretrain.corpora`"),
        (WHOLE + "steps = 5\nepochs = 1\n", "`steps` or `epochs` above 0, and both are - at `$.stage3`"),
        (WHOLE + "steps = 0\n", "`steps` or `epochs` above 0, and neither is - at `$.stage3`"),
        (HEAD + PRETRAIN + "decoder_share = 0.2\n", "at least the encoder's share, 0.3 - at `$.pretrain.decoder_share`"),
        (HEAD + STAGE.format(1), "no model 'pretrained': it has no [pretrain]; there is: start - at `$.stage1.start`"),
        (HEAD + PRETRAIN + STAGE.format(2), "no model 'stage1': it has no [stage1]"),
        (HEAD + PRETRAIN + STAGE.format(1) + "start = 'stage1'\n", "Stage 1 comes before any model 'stage1'"),
        (HEAD + PRETRAIN + STAGE.format(1) + "negatives = 'x(\"{stage3}\")'\n", "before any model 'stage3'"),
        (HEAD + PRETRAIN + STAGE.format(1) + "negatives = 'bm25('\n", "at `$.stage1.negatives`"),
        (HEAD + "[ranking]\nmodel = 'm'\n", "Needs an [imitation], and the recipe has none - at `$.ranking`"),
        (
            HEAD + IMITATION + "[ranking]\nmodel = 'm'\nimitated = [1]\n",
            "Expected 2 numbers, one for each of `imitation.corpora`",
        ),
        (TABLE.format("['c']"), "Expected some of `imitation.corpora`, and c is none - at `$.ranking.queries`"),
        (TABLE.format("['a', 'b']"), "Names all of `imitation.corpora`, so there are no documents - at `$.ranking.queries`"),
        (HEAD + IMITATION + "[ranking]\nmodel = 'm'\nexpansions = 2\n", "names none - at `$.ranking.expansions`"),
        (TABLE.format("['a']") + "expansion_weight = 0.3\n", "`ranking.expansions` is 0 - at `$.ranking.expansion_weight`"),
        (HEAD + IMITATION + "[ranking]\nmodel = 'm'\nqueries = ['a']\n", "or give 0 - at `$.imitation.keep_means`"),
        (TABLE.format("['a']") + "[text_head]\n", "a table encodes; leave it out, or give 0 - at `$.text_head`"),
    ],
)
def test_a_wrong_recipe_costs_one_line(recipe, tmp_path, text, said):
    """InvalidFile names the file and the setting in one line."""
    with pytest.raises(InvalidFile) as caught:
        recipe(text)

    assert str(caught.value).startswith(f"{tmp_path / 'mine.toml'}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(InvalidFile, match=r"cannot read .*none\.toml: No such file"):
        read(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("override", "kind", "said"),
    [
        *(("selection.datasets=['pydoc/test']", CannotStart, said) for said in TESTING),
        ("selection.datasets=['beir/nq']", CannotStart, "type held_out = 0.1 in [selection]"),
        ("selection.datasets=['msmarco-passage/trec-dl-2019/judged']", CannotStart, "afterwards; type held_out = 0.1"),
        ("selection.datasets=['msmarco-passage-titled/dev/small']", CannotStart, "is for testing"),
        ("selection.datasets=['/data/mine/qrels/test.tsv.gz']", CannotStart, "is for testing"),
        ("selection.datasets=['pydoc/dev']", CannotStart, "selection.datasets: pydoc/dev is trained on"),
        *(("stage1.queries=['beir/scifact/test']", CannotStart, said) for said in TESTED),
        ("stage1.lambda_d", CommandError, "'stage1.lambda_d' is not a setting; type KEY=VALUE"),
        ("stage1.lamda_d=1", UnknownName, "no setting 'stage1.lamda_d'; did you mean 'stage1.lambda_d'"),
        ("stage1=3", UnknownName, "no setting 'stage1'; did you mean"),
        ("stage1.lambda_d=much", CommandError, "stage1.lambda_d=much: Expected `float`, got `str`"),
        ("stage1.start=stage2", CommandError, "stage1.start=stage2: Stage 1 comes before any model 'stage2'"),
        ("stage2.steps=3", CommandError, "has no [stage2]; add the section to the file"),
    ],
)
def test_a_wrong_override_is_named(recipe, override, kind, said):
    """Errors of an override name the override, not the file. Test queries are refused, with an alternative to type."""
    with pytest.raises(kind) as caught:
        check_selection(recipe(HEAD + PRETRAIN + STAGE.format(1), override))

    assert said in str(caught.value)


def test_paths_are_below_the_output(recipe, monkeypatch):
    """Models, negatives and training states have fixed paths; a leading `~` becomes the home folder."""
    whole = recipe(WHOLE)

    assert [whole.folder(name) for name in ("start", "stage3")] == [Path("out/start"), Path("out/stage3")]
    assert whole.negatives(1, "beir/scifact/train") == Path("out/negatives/stage1/beir-scifact-train")
    assert whole.negatives(1, "a/b", taught=True) == Path("out/negatives/stage1/teacher-a-b")
    assert whole.state("stage2") == Path("out/stage2.training")
    monkeypatch.setenv("HOME", "/home/me")
    found = recipe(WHOLE, "output=~/out", "pretrain.corpora=['~/a', 'b/~c']", "start.model=../$NAME")

    assert (found.output, found.pretrain.corpora, found.start.model) == ("/home/me/out", ("/home/me/a", "b/~c"), "../$NAME")


def test_parts_come_in_the_order_of_the_paper(recipe):
    """Tasks are the start, pretraining, and mining before fine-tuning of each stage; one alone may bring the start."""
    found = [str(each) for each in tasks(recipe(HEAD + PRETRAIN + STAGE.format(1)))]

    assert found == ["start", "pretrain", "mine --stage 1", "finetune --stage 1"]
    found = recipe(HEAD + PRETRAIN + STAGE.format(1) + 'start = "start"\n')

    assert single_task(found, "finetune", 1) == [Task("start", "start"), Task("finetune", "stage1")]
    assert single_task(found, "mine", 1) == [Task("mine", "stage1")]


def test_tuning_sets_and_held_out_queries_are_allowed(recipe):
    """Datasets for tuning and held-out training queries can select a model."""
    datasets = ("beir/scifact/train", "beir/nfcorpus/dev")
    found = recipe(WHOLE, f"selection.datasets={list(datasets)}", "selection.held_out=0.1")

    check_selection(found)
    assert found.selection == Selection(datasets=datasets, held_out=0.1)


OURS = sorted((Path(__file__).parent.parent / "recipes").glob("*.toml"))

DIFFERING = {  # setting: (the paper's, the program's)
    "encoding.positions": ("all", "text"),
    "encoding.titles": ("off", "pair"),
    "pretrain.steps": (80_000, 0),
    "pretrain.epochs": (0.0, 20.0),
    "pretrain.corruption": ("extend", "fresh"),
    **{f"stage{number}.contrast": ("own", "in_batch") for number in (1, 2, 3)},
    "stage1.lambda_q": (0.002, 0.0015),
    "stage2.lambda_q": (0.008, 0.006),
    "stage3.lambda_q": (0.008, 0.006),
    "stage3.start": ("pretrained", "start"),
    "stage3.depth": (200, 512),
    "stage3.divergence": ("student_teacher", "teacher_student"),
}


def settings(table, within=""):
    """Return the settings of a recipe by their dotted names."""
    found = {}
    for name, value in table.items():
        found |= settings(value, f"{within}{name}.") if isinstance(value, dict) else {f"{within}{name}": value}
    return found


STAGES = {"epochs": 3.0, "learning_rate": 2e-5, "clip": 1.0, "ramp": "constant"}
PUBLISHED = {
    "seed": 42,
    "start": {"model": "google-bert/bert-base-uncased"},
    "encoding": {"query_length": 32, "document_length": 144},
    "pretrain": {"batch_size": 2048, "learning_rate": 3e-4, "encoder_share": 0.3, "decoder_share": 0.5}
    | {"decoder_layers": 2, "clip": 0.0},
    "stage1": STAGES | {"batch_size": 24, "documents": 16, "depth": 1000, "lambda_d": 0.002, "start": "pretrained"},
    "stage2": STAGES | {"batch_size": 24, "documents": 16, "depth": 200, "lambda_d": 0.008, "start": "pretrained"},
    "stage3": STAGES | {"batch_size": 16, "documents": 24, "lambda_d": 0.008, "contrast_weight": 0.2},
    "selection": {"measure": "RR@10", "every": 10_000},
}


def test_the_presets_are_the_published_training(recipe):
    """`paper` and `code` have the values that appendix A and the program's README share, and differ where these differ."""
    paper, code = (settings(msgspec.to_builtins(recipe(f'preset = "{name}"\n{WHOLE}'))) for name in ("paper", "code"))
    differing = {name: (paper[name], code[name]) for name in code if paper[name] != code[name]}

    assert differing == DIFFERING | {"preset": ("paper", "code")}
    assert paper.items() & code.items() >= settings(PUBLISHED).items()


def test_there_is_a_recipe_for_the_whole_of_the_paper():
    """recipes/msmarco.toml has all parts of the paper's training."""
    found = read(next(path for path in OURS if path.stem == "msmarco"))

    assert found.preset == "paper"
    assert None not in (found.pretrain, found.stage1, found.stage2, found.stage3, found.stage3.teacher)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_our_own_recipes_read_and_keep_off_the_tests(path):
    """Every recipe of lexbench is valid and keeps off test queries."""
    found = read(path)

    check_selection(found)
    assert found.description


def test_the_training_behind_the_papers_figures():
    """recipes/msmarco_titled.toml has the settings of the authors' program, titles, and the paper's values per stage."""
    found = read(next(path for path in OURS if path.stem == "msmarco_titled"))
    stages = (found.stage1, found.stage2, found.stage3)
    names = {*found.pretrain.corpora, *(name for stage in stages for name in stage.queries)}

    assert (found.preset, names, found.encoding.titles) == ("code", {"msmarco-passage-titled/train/judged"}, "pair")
    assert [stage.published for stage in stages] == [0.393, 0.408, 0.426]
    assert [stage.start for stage in stages] == ["pretrained"] * 3
    assert [stage.contrast for stage in stages] == ["in_batch"] * 3
    assert found.stage3.teacher_scores == "given"


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_our_recipes_leave_out_what_trec_dl_judges(path):
    """The next model of each of our recipes has not seen a passage that is judged for TREC DL 2019 or 2020."""
    judged = {f"msmarco-passage/trec-dl-{year}/judged" for year in (2019, 2020)}
    assert judged < set(read(path).leave_out)


def test_given_scores_need_a_file(recipe):
    """Only the scores of a file can be taken as they are."""
    text = WHOLE + 'teacher_scores = "given"\n'
    with pytest.raises(InvalidFile, match=r"Needs the scores of a file.*stage3.teacher_scores"):
        recipe(text, "stage3.teacher=bm25")
    for teacher in ("run_file(path='x')", "run_file (path=x/{dataset}.trec)"):
        assert recipe(text, f"stage3.teacher={teacher}").stage3.teacher_scores == "given"
