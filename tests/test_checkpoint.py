"""Checkpoints of masked-language models: each form gives the logits of transformers, broken ones an error of one line."""

import hashlib
import json
import pickle
import shutil
from functools import cache
from pathlib import Path

import checkpoints
import pytest
import torch
import transformers
from checkpoints import reconfigure, rewrite
from tiny import answer, loaded_modules, write_files

from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.models.architectures import load_masked_lm, masked_lm_files
from lexbench.models.checkpoint import digests
from lexbench.models.native import NATIVE

TEXTS = ["sparse retrieval of a document", "the query", "w7 w8 dense ##x lexical neural search term weight"]
CLOSE = {"atol": 1e-5, "rtol": 0}


def load(folder, **settings):
    """Return the model in *folder*, by default in float32 on the processor."""
    return load_masked_lm(masked_lm_files(folder), **{"dtype": torch.float32, "device": "cpu", **settings})


def logits(folder, **settings):
    """Return the logits (texts, length, vocabulary) of TEXTS by lexbench, 0 for padding."""
    model = load(folder, **settings)
    tokens = model.tokenizer(TEXTS, padding=True, return_tensors="pt")
    states = model.body(tokens["input_ids"], tokens["attention_mask"]).last_hidden_state
    product = model.transform(states) @ model.weight.T
    return (product if model.bias is None else product + model.bias) * tokens["attention_mask"].unsqueeze(-1)


PRECISIONS = [*((one, dtype) for one in checkpoints.ARCHITECTURES for dtype in (torch.float32, torch.bfloat16))]


@pytest.mark.parametrize(("architecture", "dtype"), [*PRECISIONS, ("bert", torch.float16)])
def test_each_architecture_gives_the_logits_of_transformers(tmp_path, architecture, dtype):
    """The parts compute what the *ForMaskedLM of transformers computes, and have the requested dtype."""
    folder = checkpoints.masked_lm(tmp_path, architecture)
    expected = checkpoints.logits(folder, TEXTS, dtype=dtype, attn_implementation="sdpa")
    tolerance = CLOSE if dtype == torch.float32 else {"atol": 0.08, "rtol": 0.02}
    loaded = load(folder, dtype=dtype)

    torch.testing.assert_close(logits(folder, dtype=dtype), expected, **tolerance)
    assert {one.dtype for one in (loaded.weight, loaded.bias, *loaded.body.parameters())} == {dtype}
    assert loaded.weight.shape == (loaded.config.vocab_size, 32)
    assert not any(parameter.requires_grad for part in (loaded.body, loaded.transform) for parameter in part.parameters())
    assert not loaded.body.training
    assert architecture in NATIVE or loaded.config._attn_implementation == "sdpa"


def prefixed(prefix):
    """Return a change that puts *prefix* before each key, like wrappers of a model in training."""
    return lambda state: {prefix + key: value for key, value in state.items()}


def without(*keys):
    """Return a change that leaves out tensors."""
    return lambda state: {key: value for key, value in state.items() if key not in keys}


def from_tensorflow(state):
    """Return the tensors under the keys of old conversions, with a pooler and a next-sentence head (bert-base-uncased)."""
    for new, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
        state = {key.replace(new, old): value for key, value in state.items()}
    return state | {"bert.pooler.dense.weight": torch.ones(32, 32), "cls.seq_relationship.bias": torch.ones(2)}


SAME_MODEL = [  # architecture, form, change of the tensors
    *(("bert", form, dict) for form in ("fine_tuned", "pretrained", "sparse_encoder", "sparse_encoder_5")),
    ("bert", "fine_tuned", prefixed("_orig_mod.module.")),
    ("bert", "pretrained", prefixed("module.encoder.")),
    ("bert", "transformers", from_tensorflow),
    # one tensor can have two names, and either is enough
    ("bert", "transformers", without("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")),
    ("bert", "transformers", without("bert.embeddings.word_embeddings.weight", "cls.predictions.bias")),
    ("distilbert", "transformers", without("vocab_projector.weight")),
    ("roberta", "transformers", without("lm_head.decoder.weight", "lm_head.decoder.bias")),
    ("roberta", "transformers", without("roberta.embeddings.word_embeddings.weight", "lm_head.bias")),
    ("modernbert", "transformers", without("decoder.weight")),
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return a function that gives the logits of a plain checkpoint of an architecture."""
    folder = tmp_path_factory.mktemp("plain")
    return cache(lambda architecture: checkpoints.logits(checkpoints.masked_lm(folder / architecture, architecture), TEXTS))


@pytest.mark.parametrize(("architecture", "form", "change"), SAME_MODEL)
def test_every_form_of_a_checkpoint_gives_the_same_logits(tmp_path, plain, architecture, form, change):
    """The same weights give the logits of transformers in every form, with safetensors and with a pickle."""
    expected = plain(architecture)
    folder = rewrite(checkpoints.masked_lm(tmp_path / "other", architecture, form=form), change)

    torch.testing.assert_close(logits(folder), expected, **CLOSE)
    torch.testing.assert_close(logits(rewrite(folder, dict, safetensors=False)), expected, **CLOSE)


def test_an_untied_projection_is_kept(tmp_path):
    """Without tie_word_embeddings the projection is a separate tensor, which must be there."""
    folder = checkpoints.masked_lm(tmp_path, tie_word_embeddings=False)

    torch.testing.assert_close(logits(folder), checkpoints.logits(folder, TEXTS), **CLOSE)
    assert not torch.equal(load(folder).weight, load(folder).body.embeddings.word_embeddings.weight)
    rewrite(folder, without("cls.predictions.decoder.weight"))
    with pytest.raises(InvalidFile, match=r"1 missing \(cls.predictions.decoder.weight\)$"):
        load(folder)


def test_shards_are_one_model(tmp_path):
    """Weights may be in several safetensors files; a missing one is an error."""
    folder = checkpoints.masked_lm(tmp_path)
    whole = checkpoints.logits(folder, TEXTS)
    transformers.AutoModelForMaskedLM.from_pretrained(folder).save_pretrained(folder, max_shard_size="20KB")
    (folder / "model.safetensors").unlink(missing_ok=True)

    assert len(list(folder.glob("model-*.safetensors"))) > 1
    torch.testing.assert_close(logits(folder), whole, **CLOSE)
    next(folder.glob("model-00002*")).unlink()
    with pytest.raises(MissingData, match="model-00002"):
        load(folder)


@pytest.mark.parametrize("length", [None, 9])
def test_texts_are_cut_where_sentence_transformers_cuts_them(tmp_path, length):
    """The stated lengths of a saved SparseEncoder are those that sentence-transformers uses."""
    from sentence_transformers import SparseEncoder

    theirs = SparseEncoder(str(checkpoints.masked_lm(tmp_path / "a", form="sparse_encoder")), device="cpu")
    theirs.max_seq_length = length or theirs.max_seq_length
    theirs.save_pretrained(str(tmp_path / "b"), create_model_card=False)
    for settings, expected in ({}, length or 64), ({"model_max_length": 10**30}, 64), ({"model_max_length": 7}, 7):
        reconfigure(tmp_path / "b", "tokenizer_config.json", **settings)
        said = masked_lm_files(tmp_path / "b").defaults
        assert SparseEncoder(str(tmp_path / "b"), device="cpu").max_seq_length == expected
        assert (said["query_length"], said["document_length"]) == (expected, expected)


def test_a_model_in_a_subfolder(tmp_path):
    """modules.json may say that the model is in a subfolder."""
    folder = checkpoints.masked_lm(tmp_path / "model", form="sparse_encoder_5")
    whole = checkpoints.logits(folder, TEXTS)
    (folder / "0_MLMTransformer").mkdir()
    for name in ("config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json", "sentence_bert_config.json"):
        (folder / name).rename(folder / "0_MLMTransformer" / name)
    listed = (folder / "modules.json").read_text()
    (folder / "modules.json").write_text(listed.replace('"path": ""', '"path": "0_MLMTransformer"'))

    torch.testing.assert_close(logits(folder), whole, **CLOSE)
    assert masked_lm_files(folder).defaults["document_length"] == 64


def test_weights_are_in_memory(tmp_path):
    """Overwriting a file does not change a loaded model."""
    folder = checkpoints.masked_lm(tmp_path)
    loaded = load(folder)
    before = loaded.weight.clone()
    content = (folder / "model.safetensors").read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(header)
        file.write(bytes(len(content) - header))

    assert torch.equal(loaded.weight, before)


def test_digests_change_with_the_vectors(tmp_path):
    """A weight, a token or a setting changes its digest; folder, paths and training_args.bin do not."""
    folder = checkpoints.masked_lm(tmp_path / "a", form="fine_tuned")
    first = digests(masked_lm_files(folder))
    assert first["weights"] == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert set(first) == {"weights", "tokenizer", "config"}
    assert str(tmp_path) not in str(first)

    folder = folder.rename(tmp_path / "b")
    (folder / "training_args.bin").write_bytes(b"anything")
    reconfigure(folder, _name_or_path=str(tmp_path), transformers_version="4.11.3")
    assert digests(masked_lm_files(folder)) == first

    def changed(other):
        after = digests(masked_lm_files(other))
        return {part for part in first if after[part] != first[part]}

    def one_weight(state):
        state["cls.predictions.bias"][7] += 1e-3
        return state

    assert changed(rewrite(Path(shutil.copytree(folder, tmp_path / "c")), one_weight)) == {"weights"}
    assert changed(reconfigure(Path(shutil.copytree(folder, tmp_path / "d")), keep_special_tokens=True)) == {"config"}
    words = Path(shutil.copytree(folder, tmp_path / "e"))
    (words / "vocab.txt").write_text((words / "vocab.txt").read_text().replace("w50\n", "w5000\n"))
    assert changed(words) == {"tokenizer"}


def test_digests_need_no_torch(tmp_path):
    """Digests are computed without importing torch."""
    folder = checkpoints.masked_lm(tmp_path, form="fine_tuned", safetensors=False)
    program = "from pathlib import Path; from lexbench.models import architectures, checkpoint; "
    program += "checkpoint.digests(architectures.masked_lm_files(Path(sys.argv[1])))"

    assert loaded_modules(program, str(folder)).isdisjoint({"torch", "transformers", "safetensors"})


@pytest.mark.parametrize("writer", ["torch", "pickle"])
@pytest.mark.parametrize("nested", [True, False])
def test_a_malicious_pickle_is_never_run(tmp_path, writer, nested):
    """Code in pytorch_model.bin is refused in one line, and not run."""
    folder = checkpoints.masked_lm(tmp_path / "model", safetensors=False)
    bad = checkpoints.Pickled(tmp_path / "written")
    content = {"cls.predictions.bias": bad, "bert.pooler": torch.ones(3)} if nested else bad
    with (folder / "pytorch_model.bin").open("wb") as file:
        torch.save(content, file) if writer == "torch" else pickle.dump(content, file)

    with pytest.raises(InvalidFile, match=r"pytorch_model.bin: this pickle has more than tensors in it"):
        load(folder)
    assert not (tmp_path / "written").exists()


def test_training_arguments_are_never_opened(tmp_path):
    """training_args.bin, a pickle, is not read, and neither is a .bin next to safetensors."""
    folder = checkpoints.masked_lm(tmp_path / "model", form="fine_tuned")
    for name in ("training_args.bin", "pytorch_model.bin"):
        (folder / name).write_bytes(pickle.dumps(checkpoints.Pickled(tmp_path / "written")))
    load(folder)
    digests(masked_lm_files(folder))

    assert not (tmp_path / "written").exists()


def test_code_in_a_folder_is_not_run(tmp_path):
    """Python files named in auto_map are not imported."""
    folder = checkpoints.masked_lm(tmp_path / "model")
    (folder / "evil.py").write_text(f"import os; os.mkdir({str(tmp_path / 'written')!r})\n")
    classes = {"AutoConfig": "evil.C", "AutoModelForMaskedLM": "evil.M", "AutoTokenizer": ["evil.T", None]}
    reconfigure(folder, auto_map=classes)
    whole = checkpoints.logits(checkpoints.masked_lm(tmp_path / "same"), TEXTS)

    torch.testing.assert_close(logits(folder), whole, **CLOSE)
    reconfigure(folder, "tokenizer_config.json", auto_map=classes)
    torch.testing.assert_close(logits(folder), whole, **CLOSE)
    assert not (tmp_path / "written").exists()


LENGTHS = {"query_length": 64, "document_length": 64}
POOLING = "1_SpladePooling/config.json"


@pytest.mark.parametrize(
    ("form", "file", "settings", "expected"),
    [
        ("fine_tuned", "config.json", {}, {"positions": "text"}),
        ("fine_tuned", "config.json", {"keep_special_tokens": True}, {"positions": "all"}),
        ("fine_tuned", "config.json", {"architectures": ["BertForMaskedLM"]}, {"positions": "text"}),
        ("pretrained", "config.json", {}, {"positions": "text"}),
        ("transformers", "config.json", {}, {}),
        ("transformers", "config.json", {"lexbench": {"titles": "string"}, "keep_special_tokens": True}, {"titles": "string"}),
        ("sparse_encoder", POOLING, {}, LENGTHS | {"positions": "all", "activation": "log1p_relu"}),
        # sentence-transformers takes its own logarithm after that of this activation
        (
            "sparse_encoder_5", POOLING, {"activation_function": "log1p_relu"},
            LENGTHS | {"positions": "all", "activation": "log1p_log1p_relu"},
        ),
    ],
)  # fmt: skip
def test_a_folder_states_default_settings(tmp_path, form, file, settings, expected):
    """Our own table wins, then the settings of LexMAE's classes or of a SparseEncoder; a plain folder states nothing."""
    folder = reconfigure(checkpoints.masked_lm(tmp_path, form=form, num_hidden_layers=1), file, **settings)

    assert masked_lm_files(folder).defaults == expected


# --- checkpoints that cannot be loaded


def cut(folder, name="model.safetensors", keep=0.5):
    """Keep the first part of a file."""
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * keep)])


def put(name, content):
    """Return a change that writes a file with *content*; None removes it."""
    return lambda folder: write_files(folder, {name: content})


def config(**settings):
    """Return a change of settings in config.json."""
    return lambda folder: reconfigure(folder, **settings)


def tensors(change):
    """Return a change of the tensors."""
    return lambda folder: rewrite(folder, lambda state: state | change(state))


def pickled(content, keep=1.0):
    """Return a change that replaces the weights by a pickle of *content*, of which it keeps a part."""

    def change(folder):
        (folder / "model.safetensors").unlink()
        torch.save(content, folder / "pytorch_model.bin")
        cut(folder, "pytorch_model.bin", keep)

    return change


def index(content):
    """Return a change that moves the weights out of the folder, and writes an index of their files."""
    moved = {"../elsewhere.safetensors": b"", "model.safetensors": None, "model.safetensors.index.json": content}
    return lambda folder: write_files(folder, moved)


def other_weights(name):
    """Return a change that moves the weights into a file of this name."""

    def change(folder):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / "model.safetensors").rename(folder / name)

    return change


def dangling(folder):
    """Put a link there whose file is gone, e.g. from the cache of a hub."""
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("../blobs/gone")


def no_unknown(folder):
    """Leave out the token for unknown words."""
    tokenizer = '{"tokenizer_class": "BertTokenizer"}'
    write_files(folder, {"vocab.txt": "[PAD]\n[CLS]\n[SEP]\n[MASK]\na\nb\n", "tokenizer_config.json": tokenizer})


def no_special_tokens(folder):
    """Put a ModernBERT there whose tokenizer names no special tokens."""
    (folder / "vocab.txt").unlink()
    reconfigure(checkpoints.masked_lm(folder, "modernbert"), "tokenizer_config.json", cls_token=None, pad_token=None)


def random_pieces(folder):
    """Put a RoBERTa there whose tokenizer leaves out pieces at random."""
    (folder / "vocab.txt").unlink()
    reconfigure(checkpoints.masked_lm(folder, "roberta"), "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    content = json.loads((folder / "tokenizer.json").read_bytes())
    (folder / "tokenizer.json").write_text(json.dumps(content | {"model": content["model"] | {"dropout": 0.1}}))


def sparse_encoder(name, **settings):
    """Return a change that makes the folder a SparseEncoder, and changes settings in its file *name*."""
    return lambda folder: reconfigure(checkpoints.masked_lm(folder, form="sparse_encoder"), name, **settings)


def modules(content):
    """Return a change that makes the folder a SparseEncoder whose modules.json has this content."""
    files = {"modules.json": json.dumps(content)}
    return lambda folder: write_files(checkpoints.masked_lm(folder, form="sparse_encoder"), files)


def pipeline(*kinds):
    """Return the modules of these classes in modules.json."""
    return [{"type": kind, "path": ""} for kind in kinds]


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
BIAS = "cls.predictions.bias"
MORE = "\n".join([*checkpoints.VOCABULARY, "more"])
DEEP = '{"model_type": ' + "[" * 100_000 + "]" * 100_000 + "}"
ROUTER = "sentence_transformers.base.modules.router.Router"
OUTSIDE = [{"type": "a.MLMTransformer", "path": "../other"}, *pipeline("a.SpladePooling")]
ABOUT, BODY = "config_sentence_transformers.json", "sentence_bert_config.json"
ELSEWHERE = index('{"weight_map": {"a": "../elsewhere.safetensors"}}')
BROKEN = {  # by error and fault: the change that makes a folder wrong, and the message
    MissingData: {
        "no config": (put("config.json", None), "no config.json"),
        "no tokenizer": (put("vocab.txt", None), "no tokenizer"),
        "no weights": (put("model.safetensors", None), "no weights"),
        "weights of ONNX": (other_weights("onnx/model.onnx"), r'but onnx/model.onnx; .*or give an object, .*backend="onnx"'),
        "a variant": (other_weights("model.fp16.safetensors"), "but model.fp16.safetensors; one file must be called"),
        "pickled shards": (
            other_weights("pytorch_model-00001-of-2.bin"),
            "but .*bin; copy model.safetensors .*save_pretrained",
        ),
        "a link to nothing": (dangling, "model.safetensors: a link to a file that is gone"),
    },
    CommandError: {
        "other model_type": (config(model_type="t5"), "'t5' is not supported; there is: bert, distilbert, modernbert, new"),
        "no model_type": (config(model_type=None), "model_type None is not supported"),
        "a router": (modules(pipeline(ROUTER)), r"a model of Router, .*type inference_free\(model=…\)"),
        "a dense model": (modules(pipeline("pylate.Transformer", "pylate.Pooling")), "Transformer and Pooling"),
        "its authors' code": (modules(pipeline("a.Transformer", "a.Pooling")), r"a\.Transformer and a\.Pooling"),
        "no modules": (modules([]), "a model of no modules"),
        "pools otherwise": (
            sparse_encoder(POOLING, pooling_strategy="mean"),
            "pooling_strategy is 'mean', which lexbench does not do",
        ),
        "another activation": (sparse_encoder(POOLING, activation_function="gelu"), "activation is 'gelu'"),
        "lower case": (sparse_encoder(BODY, do_lower_case=True), "lower-cases texts"),
        "quantised": (
            config(quantization_config={"quant_method": "fp8"}),
            r"its weights are quantised \(quantization_config fp8\); take",
        ),
    },
    InvalidFile: {
        "config is no JSON": (put("config.json", "{"), "config.json: not valid JSON"),
        "config is a list": (put("config.json", "[]"), "config.json: expected a JSON object"),
        "config does not fit itself": (config(num_attention_heads=5), r"config.json: no model can be made from it \(.*heads"),
        "tokenizer is no JSON": (put("tokenizer.json", "{}"), "the tokenizer does not load"),
        "cut weights": (cut, "not a valid safetensors file"),
        "empty weights": (lambda folder: cut(folder, keep=0), "not a valid safetensors file"),
        "index is no table": (index("{}"), "`weight_map` is no table"),
        "index leads elsewhere": (ELSEWHERE, "`weight_map` is no table of files beside it"),
        "more tokens than columns": (put("vocab.txt", MORE), "numbers its tokens up to 200 and the model has 200"),
        "two keys for one": (tensors(lambda state: {f"module.{BIAS}": state[BIAS].clone()}), f"{BIAS} and .*{BIAS}"),
        "whole numbers": (tensors(lambda _state: {BIAS: torch.ones(200, dtype=torch.int8)}), f"{BIAS} has the type torch.int8"),
        "nested tensors": (pickled({"state_dict": {"a": torch.ones(1)}}), "model.bin: expected a table of tensors by name"),
        "cut pickle": (pickled({"a": torch.ones(999)}, 0.5), "pytorch_model.bin: torch cannot read it"),
        "empty pickle": (pickled({}, 0), "pytorch_model.bin: torch cannot read it"),
        "endless layers": (config(num_hidden_layers=10**9), "it has 1,000,000,000 layers"),
        "endless positions": (config(max_position_embeddings=10**13), "max_position_embeddings is 10,000,000,000,000"),
        "nested without end": (put("config.json", DEEP), "config.json: not valid JSON"),
        "model_type is a list": (config(model_type=["bert"]), "makes no sense"),
        "architectures is a number": (config(architectures=5), "makes no sense"),
        "no word for what is unknown": (no_unknown, "the tokenizer"),
        "a table that is none": (config(lexbench="text"), "`lexbench` in config.json is no table"),
        "random pieces": (random_pieces, "its tokenizer leaves out pieces at random"),
        "no special tokens": (no_special_tokens, "the tokenizer has no first and no padding token"),
        "no list of modules": (modules({"type": 1}), "no list of modules"),
        "a pointer": (put("model.safetensors", POINTER), "Git LFS has not downloaded this file; type: git -C"),
        "a pointer for words": (put("vocab.txt", POINTER), "vocab.txt: Git LFS has not downloaded this file"),
        "a module outside the folder": (modules(OUTSIDE), "outside the folder"),
    },
}
CASES = {name: (error, *case) for error, cases in BROKEN.items() for name, case in cases.items()}


@pytest.mark.parametrize("broken", CASES)
def test_a_broken_folder_gives_one_line(tmp_path, broken):
    """A folder that cannot be loaded, or whose vectors would differ, gives one line with the file and the fault."""
    error, change, message = CASES[broken]
    folder = checkpoints.masked_lm(tmp_path / "model")
    change(folder)

    with pytest.raises(error, match=message) as raised:
        load(folder)
    assert str(folder) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_keys_that_do_not_fit_are_listed(tmp_path):
    """The error lists the first dozen keys that are missing, unexpected or of another shape."""
    folder = checkpoints.masked_lm(tmp_path)

    def wrong(state):
        others = {key: value for key, value in state.items() if not key.startswith("bert.encoder")}
        return others | {"classifier.bias": torch.ones(2), "cls.predictions.transform.dense.bias": torch.ones(31)}

    with pytest.raises(InvalidFile) as raised:
        load(rewrite(folder, wrong))
    message = str(raised.value)
    start = f"{folder}: config.json says model_type bert (BertForMaskedLM), but its weights do not fit: 32 missing ("
    end = "; 1 unexpected (classifier.bias); 1 of another shape (cls.predictions.transform.dense.bias (31,) for (32,))"
    assert message.startswith(start)
    assert message.endswith(" and 20 more)" + end)
    assert message.count("bert.encoder.layer.") == 12


@pytest.mark.parametrize("architecture", checkpoints.ARCHITECTURES)
def test_a_model_without_a_head_is_refused(tmp_path, architecture):
    """A body without a head is refused instead of getting a random head."""
    folder = checkpoints.masked_lm(tmp_path, architecture)
    body = transformers.AutoModel.from_pretrained(folder)
    body.save_pretrained(folder)

    with pytest.raises(InvalidFile, match=r"missing \(.* unexpected \("):
        load(folder)


def test_a_folder_shows_how_it_is_read(tmp_path, capsys):
    """`show model FOLDER` prints the system and the settings that the files state."""
    folder = checkpoints.masked_lm(tmp_path / "mine", form="sparse_encoder_5")
    shown = answer(capsys, "show", "model", folder, "--json")

    assert shown["system"] == f'sparse_mlm(model="{folder}")@impact'
    assert shown["run"] == f"lexbench run suite pydoc -r '{shown['system']}'"
    stated = {"document_length": 64, "positions": "all", "activation": "log1p_relu"}
    assert shown["settings"].items() > stated.items()
