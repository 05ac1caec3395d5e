"""The initial model, whole or with a smaller vocabulary."""

import json

import checkpoints
import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer
from torch.nn import functional

from lexbench.datasets.corpus import write_corpus
from lexbench.errors import CommandError, InvalidFile
from lexbench.lexmae.model import start
from lexbench.lexmae.recipe import Start
from lexbench.models.loading import load_tokenizer
from lexbench.progress import Silent
from lexbench.types import Document
from recipes import pretraining, recipe, stage

TEXTS = ["sparse retrieval of a document", "the query"]
ARCHITECTURES = ("bert", "distilbert", "roberta")


def made(tmp_path, *, output="out", seed=42, pretrain=None, stage1=None, **given):
    """Make the start of a recipe with the settings *given* of [start]; return its folder."""
    sections = {"start": Start(**given), "pretrain": pretrain, "stage1": stage1}
    return start.make(recipe(output=str(tmp_path / output), seed=seed, **sections), Silent())


def logits(folder):
    """Return the logits of TEXTS by the model of transformers in *folder*."""
    model, found = transformers.AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not found["missing_keys"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
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
    with torch.no_grad():
        states = body(**tokenizer(TEXTS, padding=True, return_tensors="pt")).last_hidden_state
    # GELU passes x + 10 on as it is, but for 1e-5 where a state is as low as -6.
    plain = functional.layer_norm(states, states.shape[-1:]) @ body.get_input_embeddings().weight.detach().T
    found = logits(folder)
    bias = (found - plain).mean()
    torch.testing.assert_close(found, plain + bias, atol=1e-3, rtol=0)

    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


def test_a_model_without_a_head_needs_a_setting(tmp_path, headless):
    """A missing head is an error that names the setting; fresh weights need no head, and refuse one of untrained embeddings."""
    with pytest.raises(CommandError, match=r'has no masked-language-model head .* give start.head = "words" or "embeddings"'):
        made(tmp_path, model=str(headless))
    assert made(tmp_path, model=str(headless), weights="fresh").is_dir()
    with pytest.raises(CommandError, match="needs trained embeddings"):
        made(tmp_path, model=str(headless), weights="fresh", head="embeddings", output="other")


def test_other_architectures_are_refused(tmp_path):
    """LexMAE trains models of three architectures, and none that is damaged."""
    modern, cut = (checkpoints.masked_lm(tmp_path / name, name) for name in ("modernbert", "bert"))
    checkpoints.rewrite(cut, lambda state: {key: value for key, value in state.items() if ".layer.1." not in key})
    with pytest.raises(CommandError, match="there is: bert, distilbert, roberta"):
        made(tmp_path, model=str(modern))
    with pytest.raises(InvalidFile, match="it says 2 layers, and the weights are of 1"):
        made(tmp_path, model=str(cut))


def test_the_vocabulary_is_what_the_corpora_use(tmp_path, monkeypatch):
    """The start has the requested number of pieces, the used ones among them, with unchanged logits."""
    monkeypatch.setenv("LEXBENCH_STORE", str(tmp_path / "store"))
    given = checkpoints.masked_lm(tmp_path / "given", "bert")
    folder = tmp_path / "texts"
    folder.mkdir()
    lines = [{"_id": "a", "title": "Query", "text": " ".join(TEXTS)}, {"_id": "b", "title": "", "text": "w7 w8"}]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    number = 5 + 72 + 9  # special tokens, characters, and: sparse retrieval of document the query w7 w8, and one not used

    place = made(tmp_path, model=str(given), vocabulary=number, pretrain=pretraining(corpora=(str(folder),)))
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    assert len(tokenizer) == transformers.AutoConfig.from_pretrained(place).vocab_size == number
    assert {"sparse", "retrieval", "of", "document", "the", "query", "w7", "w8", "and"} <= tokenizer.get_vocab().keys()
    ids = transformers.AutoTokenizer.from_pretrained(given).convert_tokens_to_ids(
        tokenizer.convert_ids_to_tokens(range(number))
    )
    torch.testing.assert_close(logits(place), logits(given)[..., ids], atol=1e-5, rtol=0)
    only_stage = stage(steps=1, queries=(str(folder),), start="start")
    by_stage = made(tmp_path, model=str(given), vocabulary=number, stage1=only_stage, output="by_stage")
    assert (by_stage / "tokenizer.json").read_bytes() == (place / "tokenizer.json").read_bytes()
    with pytest.raises(CommandError, match="needs texts, and the recipe has none"):
        made(tmp_path, model=str(given), vocabulary=number, output="neither")


def test_a_finished_start_is_not_made_again(tmp_path):
    """An existing start is returned as it is; a draft of a killed process does not matter."""
    given = checkpoints.masked_lm(tmp_path / "given", "bert")
    (tmp_path / "out" / "start.draft").mkdir(parents=True)
    (tmp_path / "out" / "start.draft" / "model.safetensors").write_text("cut off")
    place = made(tmp_path, model=str(given))
    (place / "model.safetensors").write_text("mark")

    assert made(tmp_path, model=str(given)) == place
    assert (place / "model.safetensors").read_text() == "mark"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["start"]


def test_a_start_of_another_recipe_is_refused(tmp_path):
    """A start of another recipe, or a foreign folder, is refused with the first difference and a remedy."""
    given = checkpoints.masked_lm(tmp_path / "given", "bert")
    place = made(tmp_path, model=str(given))

    with pytest.raises(CommandError, match=r"another recipe \(weights: there 'keep', asked 'fresh'\); remove it"):
        made(tmp_path, model=str(given), weights="fresh")
    with pytest.raises(CommandError, match=r"\(seed: there 42, asked 7\)"):
        made(tmp_path, model=str(given), seed=7)
    (place / "start.json").unlink()
    with pytest.raises(CommandError, match="is no start that lexbench made; remove it"):
        made(tmp_path, model=str(given))


ALWAYS = len(checkpoints.SPECIAL) + 2 * len(checkpoints.LETTERS)  # special tokens, and characters with and without ##
WORDS = ["sparse", "query", "document"]  # "w7" and the rest are not kept


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a tiny BERT."""
    return checkpoints.masked_lm(tmp_path_factory.mktemp("bert"), "bert")


@pytest.fixture
def tokenizer(folder):
    """Return its tokenizer."""
    return load_tokenizer(folder)


def kept(tokenizer):
    """Return the kept ids if WORDS are used most."""
    counts = np.zeros(len(tokenizer), np.int64)
    counts[tokenizer.convert_tokens_to_ids(WORDS)] = 9
    return start.most_used(tokenizer, counts, ALWAYS + len(WORDS))


def test_usage_counts_the_pieces_of_whole_texts(tmp_path, tokenizer):
    """All pieces of all documents count, including titles and text that a model would cut, but no special token."""
    settings = tokenizer.backend_tokenizer
    settings.enable_truncation(4)  # as the tokenizer.json of many models has it
    settings.enable_padding(length=16)
    long = Document("a", "Query sparse " + "query " * 5000, body_at=6)
    corpora = []
    for name, documents in (("one", [long, Document("b", "")]), ("two", [Document("c", "sparse w7")])):
        (tmp_path / name).mkdir()
        corpora.append(write_corpus(documents, tmp_path / name))
    counts = start.piece_counts(tokenizer, corpora, Silent())

    used = {"query": 5001, "sparse": 2, "w7": 1}
    assert {tokenizer.convert_ids_to_tokens(int(place)): counts[place] for place in np.flatnonzero(counts)} == used


def test_the_most_used_pieces_are_chosen(tokenizer):
    """Special tokens and single characters are always kept, then the most used pieces; ties go to the lower id."""
    counts = np.ones(len(tokenizer), np.int64)
    counts[tokenizer.convert_tokens_to_ids(["w7", "query"])] = 5
    counts[tokenizer.convert_tokens_to_ids("w9")] = 3
    ids = start.most_used(tokenizer, counts, ALWAYS + 4)

    pieces = tokenizer.convert_ids_to_tokens(ids.tolist())
    letters = [*checkpoints.LETTERS, *(f"##{letter}" for letter in checkpoints.LETTERS)]
    assert sorted(pieces) == sorted([*checkpoints.SPECIAL, *letters, "w7", "query", "w9", "the"])
    assert ids.tolist() == sorted(ids.tolist())


def test_texts_of_kept_pieces_are_cut_as_before(tokenizer):
    """Texts of kept pieces are tokenised as before; other words become characters or [UNK]."""
    fewer = start.pruned_tokenizer(tokenizer, kept(tokenizer))
    pair = ("Sparse  QUÉRY 7", "documents[SEP]query")
    before, after = tokenizer(*pair), fewer(*pair)

    assert len(fewer) == ALWAYS + len(WORDS)
    assert sorted(fewer.get_vocab().values()) == list(range(len(fewer)))
    assert fewer.convert_ids_to_tokens(after["input_ids"]) == tokenizer.convert_ids_to_tokens(before["input_ids"])
    assert after["token_type_ids"] == before["token_type_ids"]
    assert fewer.tokenize("w7 the é") == ["w", "##7", "t", "##h", "##e", "e"]
    assert fewer.tokenize("œ") == tokenizer.tokenize("œ") == ["[UNK]"]
    assert fewer.all_special_tokens == tokenizer.all_special_tokens


def test_an_older_post_processor_is_renumbered(tmp_path, tokenizer):
    """A BertProcessing post-processor is renumbered like a template."""
    settings = json.loads(tokenizer.backend_tokenizer.to_str())
    ids = tokenizer.get_vocab()
    settings["post_processor"] = {"type": "BertProcessing", "sep": ["[SEP]", ids["[SEP]"]], "cls": ["[CLS]", ids["[CLS]"]]}
    old = Tokenizer.from_str(json.dumps(settings))
    roles = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
    plain = transformers.PreTrainedTokenizerFast(tokenizer_object=old, **roles)
    ids = np.array([*range(1, 5), *kept(tokenizer)[5:], 0])  # in another order, so that the old numbers would be seen
    fewer = start.pruned_tokenizer(plain, ids)

    assert fewer.convert_ids_to_tokens(fewer("query", "sparse")["input_ids"]) == ["[CLS]", "query", "[SEP]", "sparse", "[SEP]"]


@pytest.mark.parametrize("architecture", ["bert", "distilbert"])
@pytest.mark.parametrize("tied", [True, False])
def test_logits_of_kept_pieces_are_the_same(tmp_path, architecture, tied):
    """A text of kept pieces has the same logits for these pieces."""
    place = checkpoints.masked_lm(tmp_path / "m", architecture, tie_word_embeddings=tied)
    tokenizer = load_tokenizer(place)
    model = transformers.AutoModelForMaskedLM.from_pretrained(place).eval()
    ids = kept(tokenizer)
    fewer, smaller = start.pruned_tokenizer(tokenizer, ids), start.pruned_model(model, ids)
    text = ["sparse query 7", "document"]
    with torch.no_grad():
        before = model(**tokenizer(text, return_tensors="pt", padding=True)).logits
        after = smaller(**fewer(text, return_tensors="pt", padding=True)).logits

    torch.testing.assert_close(after, before[..., ids], atol=1e-5, rtol=0)
    assert smaller.config.vocab_size == len(ids) == after.shape[-1]
    assert smaller.config.pad_token_id == fewer.pad_token_id
    smaller.save_pretrained(tmp_path / "saved")
    again = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "saved").eval()
    with torch.no_grad():
        saved = again(**fewer(text, return_tensors="pt", padding=True)).logits
    torch.testing.assert_close(saved, after, atol=1e-6, rtol=0)


def test_vocabularies_that_cannot_be_made_are_refused(tmp_path, tokenizer):
    """The smallest possible number is in the message; other tokenizers than WordPiece are refused."""
    with pytest.raises(CommandError, match=rf"start.vocabulary = {ALWAYS - 1} is less than the {ALWAYS} special"):
        start.most_used(tokenizer, np.zeros(len(tokenizer), np.int64), ALWAYS - 1)
    with pytest.raises(CommandError, match=r"start.vocabulary is for WordPiece tokenizers, and this model's is BPE"):
        start.check_wordpiece(load_tokenizer(checkpoints.masked_lm(tmp_path, "roberta")))
