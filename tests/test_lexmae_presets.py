"""The presets: LexMAE as in its paper, and as in its authors' program."""

from pathlib import Path

import msgspec
import pytest

from lexbench.lexmae import recipe as recipes
from lexbench.lexmae.data.collections import check_selection

PRESETS = Path(recipes.__file__).parent / "presets"
OURS = sorted((Path(__file__).parent.parent / "recipes").glob("*.toml"))

DIFFERING = {  # setting: (the paper's, the program's)
    "encoding.positions": ("all", "text"),
    "encoding.titles": ("off", "pair"),
    "pretrain.steps": (80_000, 0),
    "pretrain.epochs": (0.0, 20.0),
    "pretrain.corruption": ("extend", "fresh"),
    "stage1.contrast": ("own", "in_batch"),
    "stage2.contrast": ("own", "in_batch"),
    "stage3.contrast": ("own", "in_batch"),
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


@pytest.fixture
def preset(tmp_path):
    """Return a function that gives all settings of a preset."""

    def made(name):
        stages = "".join(f'[stage{number}]\nqueries = ["q"]\n' for number in (1, 2, 3))
        text = f'schema = 1\nname = "n"\npreset = "{name}"\noutput = "o"\n[pretrain]\ncorpora = ["c"]\n{stages}'
        (tmp_path / "recipe.toml").write_text(text)
        return settings(msgspec.to_builtins(recipes.read(tmp_path / "recipe.toml")))

    return made


def test_the_presets_differ_where_paper_and_program_do(preset):
    """`paper` and `code` differ in exactly the settings in which paper and program do."""
    paper, code = preset("paper"), preset("code")
    differing = {name: (paper[name], code[name]) for name in code if paper[name] != code[name]}

    assert differing == DIFFERING | {"preset": ("paper", "code")}


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


@pytest.mark.parametrize("name", ["paper", "code"])
def test_the_published_training(preset, name):
    """The values that paper and program share: appendix A, and the program's README."""
    assert preset(name).items() >= settings(PUBLISHED).items()


def test_there_is_a_recipe_for_the_whole_of_the_paper():
    """recipes/msmarco.toml has all parts of the paper's training."""
    found = recipes.read(next(path for path in OURS if path.stem == "msmarco"))

    assert found.preset == "paper"
    assert None not in (found.pretrain, found.stage1, found.stage2, found.stage3, found.stage3.teacher)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_our_own_recipes_read_and_keep_off_the_tests(path):
    """Every recipe of lexbench is valid and keeps off test queries."""
    found = recipes.read(path)

    check_selection(found)
    assert found.description
