"""The initial model, whole or with a smaller vocabulary."""

import json

import checkpoints
import numpy as np
import pytest
import torch
import transformers
from tiny import write_rows
from tiny_recipes import pretraining, recipe, stage
from tokenizers import Tokenizer
from torch.nn import functional

from lexbench.artifacts.graph import Graph
from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.lexmae.model import start
from lexbench.lexmae.recipe.settings import Encoding, Start
from lexbench.models.loading import load_tokenizer
from lexbench.storage.store import Store

TEXTS = ["sparse retrieval of a document", "the query"]
ARCHITECTURES = ("bert", "distilbert", "modernbert", "roberta")


def made(tmp_path, *, output="out", seed=42, pretrain=None, stage1=None, **given):
    """Make the start of a recipe with the settings *given* of [start]; return its folder."""
    sections = {"start": Start(**given), "pretrain": pretrain, "stage1": stage1}
    encoding = Encoding(document_length=48)
    return start.make(recipe(output=str(tmp_path / output), seed=seed, encoding=encoding, **sections), Graph(Store()))


def logits(folder):
    """Return the logits of TEXTS by transformers."""
    return checkpoints.logits(folder, TEXTS)


@pytest.fixture
def headless(tmp_path):
    """Return a folder with the body of a tiny BERT alone, as MiniLM is saved."""
    model = checkpoints.random_model("bert")
    model.bert.save_pretrained(tmp_path / "headless")
    checkpoints.write_tokenizer(tmp_path / "headless")
    return tmp_path / "headless"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_start_is_the_given_model(tmp_path, architecture):
    """The start gives the logits of the recipe's model, computed by transformers."""
    given = checkpoints.masked_lm(tmp_path / "given", architecture)

    folder = made(tmp_path, model=str(given))
    assert folder == tmp_path / "out" / "start"
    torch.testing.assert_close(logits(folder), logits(given), atol=1e-5, rtol=0)


def test_fresh_weights_have_the_shape_and_are_those_of_the_seed(tmp_path):
    """Fresh weights depend on the seed only, and the global random state is unchanged."""
    given = checkpoints.masked_lm(tmp_path / "given", "bert")
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    settings = {"model": str(given), "weights": "fresh"}
    fresh = [logits(made(tmp_path, **settings, seed=seed, output=output)) for output, seed in (("a", 1), ("b", 1), ("c", 2))]

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
    tokens = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = body(**tokens).last_hidden_state[tokens["attention_mask"].bool()]
    # GELU of x + 10 is x + 10, except for 1e-5 where a state is as low as -6.
    plain = functional.layer_norm(states, states.shape[-1:]) @ body.get_input_embeddings().weight.detach().T
    found = logits(folder)[tokens["attention_mask"].bool()]
    bias = (found - plain).mean()
    torch.testing.assert_close(found, plain + bias, atol=1e-3, rtol=0)

    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_a_model_without_a_head_needs_a_setting(tmp_path, headless):
    """A missing head is an error that names the setting; fresh weights need no head, and refuse one of untrained embeddings."""
    with pytest.raises(CommandError, match=r'has no masked-language-model head .* give start.head = "embeddings"'):
        made(tmp_path, model=str(headless))
    assert made(tmp_path, model=str(headless), weights="fresh").is_dir()
    with pytest.raises(CommandError, match="needs trained embeddings"):
        made(tmp_path, model=str(headless), weights="fresh", head="embeddings", output="other")


def test_other_architectures_are_refused(tmp_path):
    """LexMAE trains models of four architectures, and none that is damaged."""
    other, cut = (checkpoints.masked_lm(tmp_path / name) for name in ("electra", "cut"))
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"model_type": "electra"}))
    checkpoints.rewrite(cut, lambda state: {key: value for key, value in state.items() if ".layer.1." not in key})
    with pytest.raises(CommandError, match="no model_type 'electra'; there is: bert, distilbert, modernbert, roberta"):
        made(tmp_path, model=str(other))
    with pytest.raises(InvalidFile, match="it has 2 layers, but the weights have 1"):
        made(tmp_path, model=str(cut))


def test_a_model_without_a_tokenizer_is_refused(tmp_path):
    """The tokenizer that transformers makes for such a folder knows no word, and lexbench makes none."""
    checkpoints.random_model("bert").save_pretrained(tmp_path / "given")
    with pytest.raises(MissingData, match=r"given: no tokenizer \(tokenizer\.json, "):
        made(tmp_path, model=str(tmp_path / "given"))
    with pytest.raises(InvalidFile, match=r"given: there is no tokenizer with words; take the model"):
        load_tokenizer(tmp_path / "given")


def test_a_finished_start_is_not_made_again(tmp_path):
    """An existing start is returned unchanged, unless another recipe made it; the draft of a killed process is replaced."""
    given = str(checkpoints.masked_lm(tmp_path / "given"))
    (tmp_path / "out" / "start.draft").mkdir(parents=True)
    (tmp_path / "out" / "start.draft" / "model.safetensors").write_text("cut off")
    place = made(tmp_path, model=given)
    (place / "model.safetensors").write_text("mark")

    assert made(tmp_path, model=given) == place
    assert (place / "model.safetensors").read_text() == "mark"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["start"]
    for settings, difference in ({"weights": "fresh"}, "weights: 'keep' there, 'fresh'"), ({"seed": 7}, "seed: 42 there, 7"):
        with pytest.raises(CommandError, match=rf"another recipe \({difference} in the recipe\); remove it"):
            made(tmp_path, model=given, **settings)
    (place / "start.json").unlink()
    with pytest.raises(CommandError, match=r"has no valid start\.json, so lexbench did not make it; remove it"):
        made(tmp_path, model=given)


ALWAYS = (*checkpoints.SPECIAL, *checkpoints.LETTERS, *checkpoints.ENDINGS)
USED = ("sparse", "retrieval", "of", "document", "the", "query", "w7", "w9")  # "w8" is as frequent as "w7", with a higher id


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """Return folders of two corpora: w9 is in a title alone, and w7 and w8 are behind the maximum length of models."""
    monkeypatch.setenv("LEXBENCH_STORE", str(tmp_path / "store"))
    write_rows(tmp_path / "one" / "corpus.jsonl", [{"_id": "a", "title": "W9 w9", "text": "sparse " * 100 + "w7 w8"}])
    write_rows(tmp_path / "two" / "corpus.jsonl", [{"_id": "b", "title": "", "text": " ".join(TEXTS * 2)}])
    return str(tmp_path / "one"), str(tmp_path / "two")


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "modernbert"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_smaller_vocabulary_keeps_what_the_corpora_use(tmp_path, texts, architecture, tied):
    """Special tokens, characters and the most used pieces are kept; texts of them have the same tokens and logits.

    Titles and text behind a model's maximum length count, and of equally frequent pieces the lower ids are kept.
    """
    given = checkpoints.masked_lm(tmp_path / "given", architecture, tie_word_embeddings=tied)
    before = load_tokenizer(given)
    before.backend_tokenizer.enable_truncation(4)  # as the tokenizer.json of many models has it
    before.backend_tokenizer.enable_padding(length=16)
    before.save_pretrained(given)
    number = len(ALWAYS) + len(USED)
    folder = made(tmp_path, model=str(given), vocabulary=number, pretrain=pretraining(corpora=texts))
    after, config = transformers.AutoTokenizer.from_pretrained(folder), transformers.AutoConfig.from_pretrained(folder)
    pieces = after.convert_ids_to_tokens(range(number))

    assert pieces == [piece for piece in checkpoints.VOCABULARY if piece in {*ALWAYS, *USED}]
    assert (config.vocab_size, config.pad_token_id) == (len(after), after.pad_token_id)
    torch.testing.assert_close(logits(folder), logits(given)[..., before.convert_tokens_to_ids(pieces)], atol=1e-5, rtol=0)
    pair = ("Sparse  QUÉRY 7", "documents[SEP]query")
    assert after(*pair).tokens() == before(*pair).tokens()
    assert after(*pair).get("token_type_ids") == before(*pair).get("token_type_ids")
    assert after.tokenize("w8 in é œ") == ["w", "##8", "i", "##n", "e", "[UNK]"]
    assert after.all_special_tokens == before.all_special_tokens


def test_a_smaller_vocabulary_needs_texts_and_room(tmp_path, texts):
    """The texts can be those of a stage. Without texts, with too small a number or another tokenizer it is refused."""
    bert, roberta = (str(checkpoints.masked_lm(tmp_path / name, name)) for name in ("bert", "roberta"))
    sections = {"pretrain": pretraining(corpora=texts), "stage1": stage(steps=1, queries=texts, start="start")}
    given = {"model": bert, "vocabulary": 90}
    by_corpus, by_stage = (made(tmp_path, output=name, **given, **{name: one}) for name, one in sections.items())
    assert (by_stage / "tokenizer.json").read_bytes() == (by_corpus / "tokenizer.json").read_bytes()
    for model, number, given, message in (
        (bert, 90, {}, "needs texts, and the recipe has none"),
        (bert, 76, sections, r"start.vocabulary = 76 is less than the 77 special"),
        (roberta, 90, sections, "start.vocabulary is for WordPiece tokenizers, and this model's is BPE"),
    ):
        with pytest.raises(CommandError, match=message):
            made(tmp_path, model=model, vocabulary=number, output="refused", **given)


def test_an_older_post_processor_is_renumbered(tmp_path):
    """A BertProcessing post-processor is renumbered like a template."""
    tokenizer = load_tokenizer(checkpoints.masked_lm(tmp_path))
    settings, ids = json.loads(tokenizer.backend_tokenizer.to_str()), tokenizer.get_vocab()
    settings["post_processor"] = {"type": "BertProcessing", "sep": ["[SEP]", ids["[SEP]"]], "cls": ["[CLS]", ids["[CLS]"]]}
    old = Tokenizer.from_str(json.dumps(settings))
    roles = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
    plain = transformers.PreTrainedTokenizerFast(tokenizer_object=old, **roles)
    kept = np.array([*range(1, 5), ids["sparse"], ids["query"], 0])  # in another order, so that the old numbers would be seen
    fewer = start.pruned_tokenizer(plain, kept)

    assert fewer("query", "sparse").tokens() == ["[CLS]", "query", "[SEP]", "sparse", "[SEP]"]


def test_words_of_a_stem_count_as_the_first_of_them():
    """The words run and running count as runs, which comes first; parts of words and short words count as themselves."""
    pieces = {"[PAD]": 0, "runs": 1, "run": 2, "##run": 3, "running": 4, "us": 5, "use": 6, "7": 7}
    assert start.stems(pieces, 9).tolist() == [0, 1, 1, 3, 1, 5, 6, 7, 8]
