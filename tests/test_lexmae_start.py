"""The initial model."""

import json

import checkpoints
import pytest
import torch
import transformers
from torch.nn import functional

from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.lexmae.model import start
from lexbench.lexmae.recipe import Pretrain, Recipe, Stage, Start
from lexbench.progress import Silent

TEXTS = ["sparse retrieval of a document", "the query"]
ARCHITECTURES = ("bert", "distilbert", "roberta")


def recipe(tmp_path, *, seed=42, output="out", pretrain=None, stage1=None, **given):
    """Return a recipe with that start."""
    where = str(tmp_path / output)
    return Recipe(schema=1, name="t", output=where, seed=seed, start=Start(**given), pretrain=pretrain, stage1=stage1)


def made(tmp_path, **given):
    """Return the folder of the start of `recipe`."""
    return start.make(recipe(tmp_path, **given), Silent())


def logits(folder, change=lambda model: model):
    """Return what transformers' own model in *folder*, after a *change*, returns for TEXTS."""
    model, told = transformers.AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not told["missing_keys"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    change(model)
    with torch.no_grad():
        return model.eval()(**tokenizer(TEXTS, padding=True, return_tensors="pt")).logits


@pytest.fixture
def headless(tmp_path):
    """Return a folder with the body of a tiny BERT alone, as MiniLM is saved."""
    model = checkpoints.random_model("bert")
    model.bert.save_pretrained(tmp_path / "headless")
    checkpoints.write_tokenizer(tmp_path / "headless")
    return tmp_path / "headless"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_model_is_taken_as_it_is(tmp_path, architecture):
    """The start gives the logits of the recipe's model, by transformers' own classes."""
    given = checkpoints.tiny(tmp_path / "given", architecture)

    folder = made(tmp_path, model=str(given))
    assert folder == tmp_path / "out" / "start"
    torch.testing.assert_close(logits(folder), logits(given), atol=1e-5, rtol=0)


def test_fresh_weights_have_the_shape_and_are_those_of_the_seed(tmp_path):
    """Fresh weights depend on the seed only, and the global random state is unchanged."""
    given = checkpoints.tiny(tmp_path / "given", "bert")
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    fresh = [
        logits(made(tmp_path, model=str(given), weights="fresh", seed=seed, output=output))
        for output, seed in (("a", 1), ("b", 1), ("c", 2))
    ]

    assert torch.equal(torch.rand(4), expected)
    assert torch.equal(fresh[0], fresh[1])
    assert not torch.allclose(fresh[0], fresh[2], atol=1e-3)
    assert fresh[0].shape == logits(given).shape
    assert fresh[0].std() < logits(given).std() / 3, "initial weights are of 0.02, those of the model of 0.2"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_head_of_embeddings_projects_states_by_them(tmp_path, architecture):
    """Logits are normalised states times word embeddings, which stay tied, plus one bias."""
    given = checkpoints.random_model(architecture)
    given.base_model.save_pretrained(tmp_path / "given")
    checkpoints.write_tokenizer(tmp_path / "given", architecture)
    folder = made(tmp_path, model=str(tmp_path / "given"), head="embeddings")

    body = transformers.AutoModel.from_pretrained(tmp_path / "given").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        states = body(**tokenizer(TEXTS, padding=True, return_tensors="pt")).last_hidden_state
    # GELU passes x + 10 on as it is, but for 1e-5 where a state is as low as -6.
    plain = functional.layer_norm(states, states.shape[-1:]) @ body.get_input_embeddings().weight.detach().T
    found = logits(folder)
    bias = (found - plain).mean()
    torch.testing.assert_close(found, plain + bias, atol=1e-3, rtol=0)

    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_a_model_without_a_head_says_what_to_type(tmp_path, headless):
    """A missing head is an error that names the settings, not random numbers."""
    with pytest.raises(CommandError, match=r'has no masked-language-model head .* give start.head = "words" or "embeddings"'):
        made(tmp_path, model=str(headless))


def test_a_fresh_model_has_a_head(tmp_path, headless):
    """Fresh weights need no head; a head of untrained embeddings is refused."""
    assert made(tmp_path, model=str(headless), weights="fresh").is_dir()
    with pytest.raises(CommandError, match="needs trained embeddings"):
        made(tmp_path, model=str(headless), weights="fresh", head="embeddings", output="other")


def test_models_that_do_not_fit_are_refused(tmp_path):
    """Other architectures, empty folders, missing weights and foreign tokenizers are refused, each in one line."""
    modern = checkpoints.tiny(tmp_path / "modern", "modernbert")
    cut = checkpoints.tiny(tmp_path / "cut", "bert")
    checkpoints.rewrite(cut, lambda state: {key: value for key, value in state.items() if ".layer.1." not in key})
    other = checkpoints.tiny(tmp_path / "other", "bert")
    checkpoints.write_tokenizer(other, vocabulary=[*checkpoints.VOCABULARY, "more"])
    (tmp_path / "empty").mkdir()

    for place, kind, said in (
        (modern, CommandError, "there is: bert, distilbert, roberta"),
        (cut, InvalidFile, "it says 2 layers, and the weights are of 1"),
        (other, InvalidFile, "numbers its tokens up to 200 and the model has 200"),
        (tmp_path / "empty", MissingData, "no config.json"),
    ):
        with pytest.raises(kind, match=said) as error:
            made(tmp_path, model=str(place))
        assert "\n" not in str(error.value)


def test_the_vocabulary_is_what_the_corpora_use(tmp_path, monkeypatch):
    """The start has the requested number of pieces, the used ones among them, with unchanged logits."""
    monkeypatch.setenv("LEXBENCH_STORE", str(tmp_path / "store"))
    given = checkpoints.tiny(tmp_path / "given", "bert")
    folder = tmp_path / "texts"
    folder.mkdir()
    lines = [{"_id": "a", "title": "Query", "text": " ".join(TEXTS)}, {"_id": "b", "title": "", "text": "w7 w8"}]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = {"steps": 1, "batch_size": 1, "learning_rate": 1e-4}
    pretrain = Pretrain(corpora=(str(folder),), **settings)
    stage = Stage(queries=(str(folder),), negatives="bm25", depth=9, lambda_d=0.0, lambda_q=0.0, start="start", **settings)
    number = 5 + 72 + 9  # special tokens, characters, and: sparse retrieval of document the query w7 w8, and one not used

    place = made(tmp_path, model=str(given), vocabulary=number, pretrain=pretrain)
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    assert len(tokenizer) == transformers.AutoConfig.from_pretrained(place).vocab_size == number
    assert {"sparse", "retrieval", "of", "document", "the", "query", "w7", "w8", "and"} <= tokenizer.get_vocab().keys()
    ids = transformers.AutoTokenizer.from_pretrained(given).convert_tokens_to_ids(
        tokenizer.convert_ids_to_tokens(range(number))
    )
    torch.testing.assert_close(logits(place), logits(given)[..., ids], atol=1e-5, rtol=0)
    by_stage = made(tmp_path, model=str(given), vocabulary=number, stage1=stage, output="by_stage")
    assert (by_stage / "tokenizer.json").read_bytes() == (place / "tokenizer.json").read_bytes()
    with pytest.raises(CommandError, match="needs texts, and the recipe has none"):
        made(tmp_path, model=str(given), vocabulary=number, output="neither")


def test_a_finished_start_is_not_made_again(tmp_path):
    """An existing start is returned as it is; a draft of a killed process does not matter."""
    given = checkpoints.tiny(tmp_path / "given", "bert")
    (tmp_path / "out" / "start.draft").mkdir(parents=True)
    (tmp_path / "out" / "start.draft" / "model.safetensors").write_text("cut off")
    place = made(tmp_path, model=str(given))
    (place / "model.safetensors").write_text("mark")

    assert made(tmp_path, model=str(given)) == place
    assert (place / "model.safetensors").read_text() == "mark"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["start"]


def test_a_start_of_another_recipe_is_refused(tmp_path):
    """A start of another recipe, or a foreign folder, is refused with the first difference and a remedy."""
    given = checkpoints.tiny(tmp_path / "given", "bert")
    place = made(tmp_path, model=str(given))

    with pytest.raises(CommandError, match=r"another recipe \(weights: there 'keep', asked 'fresh'\); remove it"):
        made(tmp_path, model=str(given), weights="fresh")
    with pytest.raises(CommandError, match=r"\(seed: there 42, asked 7\)"):
        made(tmp_path, model=str(given), seed=7)
    (place / "start.json").unlink()
    with pytest.raises(CommandError, match="is no start that lexbench made; remove it"):
        made(tmp_path, model=str(given))
