"""Checkpoints of masked-language models: each form gives the logits of transformers, broken ones an error of one line."""

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import checkpoints
import pytest
import torch
import transformers
from checkpoints import reconfigure, rewrite
from tiny import answer

from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.models.architectures import load_masked_lm, masked_lm_files
from lexbench.models.checkpoint import digests

TEXTS = ["sparse retrieval of a document", "the query", "w7 w8 dense ##x lexical neural search term weight"]


def load(folder, **settings):
    """Return the model in *folder*, by default in float32 on the processor."""
    return load_masked_lm(masked_lm_files(folder), **{"dtype": torch.float32, "device": "cpu", **settings})


def tokens(tokenizer):
    """Return the ids and mask of TEXTS, padded."""
    encoded = tokenizer(TEXTS, padding=True, return_tensors="pt")
    return encoded["input_ids"], encoded["attention_mask"]


def logits(checkpoint):
    """Return the logits (texts, length, vocabulary) of TEXTS by the parts of a checkpoint."""
    states = checkpoint.body(*tokens(checkpoint.tokenizer)).last_hidden_state
    product = checkpoint.transform(states) @ checkpoint.weight.T
    return product if checkpoint.bias is None else product + checkpoint.bias


def reference(folder):
    """Return the logits of TEXTS by transformers, which must have found every key."""
    model, found = transformers.AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not found["missing_keys"]
    ids, mask = tokens(transformers.AutoTokenizer.from_pretrained(folder))
    with torch.no_grad():
        return model.eval()(input_ids=ids, attention_mask=mask).logits


@pytest.mark.parametrize("architecture", checkpoints.ARCHITECTURES)
def test_each_architecture_gives_the_logits_of_transformers(tmp_path, architecture):
    """The parts compute what the *ForMaskedLM of transformers computes."""
    folder = checkpoints.tiny(tmp_path, architecture)
    loaded = load(folder)

    torch.testing.assert_close(logits(loaded), reference(folder), atol=1e-5, rtol=0)
    assert loaded.weight.shape == (loaded.config.vocab_size, 32)
    assert not any(parameter.requires_grad for part in (loaded.body, loaded.transform) for parameter in part.parameters())
    assert not loaded.body.training
    assert architecture == "bert" or loaded.config._attn_implementation == "sdpa"
    assert masked_lm_files(folder).defaults == {}


@pytest.mark.parametrize("form", ["fine_tuned", "pretrained", "sparse_encoder", "sparse_encoder_5"])
@pytest.mark.parametrize("safetensors", [True, False])
def test_each_form_is_the_model_that_transformers_saves(tmp_path, form, safetensors):
    """LexMAE's two forms and SparseEncoder folders give the logits of a BertForMaskedLM with the same weights."""
    plain = checkpoints.tiny_bert(tmp_path / "plain", form="transformers", safetensors=True)
    folder = checkpoints.tiny_bert(tmp_path / "other", form=form, safetensors=safetensors)

    torch.testing.assert_close(logits(load(folder)), reference(plain), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("prefix", "form"), [("_orig_mod.module.", "fine_tuned"), ("module.encoder.", "pretrained")])
def test_what_trainers_put_before_keys_is_dropped(tmp_path, prefix, form):
    """Prefixes of keys by training wrappers are dropped."""
    plain = checkpoints.tiny_bert(tmp_path / "plain", form="transformers", safetensors=True)
    folder = checkpoints.tiny_bert(tmp_path / "other", form=form, safetensors=True)
    rewrite(folder, lambda state: {prefix + key: value for key, value in state.items()})

    torch.testing.assert_close(logits(load(folder)), reference(plain), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("architecture", "absent"),
    [
        ("bert", {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}),
        ("bert", {"bert.embeddings.word_embeddings.weight", "cls.predictions.bias"}),
        ("distilbert", {"vocab_projector.weight"}),
        ("roberta", {"lm_head.decoder.weight", "lm_head.decoder.bias"}),
        ("roberta", {"roberta.embeddings.word_embeddings.weight", "lm_head.bias"}),
        ("modernbert", {"decoder.weight"}),
    ],
)
def test_what_repeats_another_tensor_may_be_absent(tmp_path, architecture, absent):
    """Of two names for one tensor either is enough."""
    folder = checkpoints.tiny(tmp_path, architecture)
    whole = reference(folder)
    rewrite(folder, lambda state: {key: value for key, value in state.items() if key not in absent})

    torch.testing.assert_close(logits(load(folder)), whole, atol=1e-5, rtol=0)


def test_a_projection_of_its_own_is_kept(tmp_path):
    """Without tie_word_embeddings the projection is a tensor of its own, and required."""
    folder = checkpoints.tiny_bert(tmp_path, form="transformers", safetensors=True, tie_word_embeddings=False)
    loaded = load(folder)

    torch.testing.assert_close(logits(loaded), reference(folder), atol=1e-5, rtol=0)
    assert not torch.equal(loaded.weight, loaded.body.embeddings.word_embeddings.weight)
    rewrite(folder, lambda state: {key: value for key, value in state.items() if "decoder.weight" not in key})
    with pytest.raises(InvalidFile, match=r"1 missing \(cls.predictions.decoder.weight\)$"):
        load(folder)


def test_keys_of_old_conversions_are_read(tmp_path):
    """Checkpoints converted from TensorFlow load: gamma, beta, a pooler and a next-sentence head (bert-base-uncased)."""
    folder = checkpoints.tiny_bert(tmp_path, form="transformers", safetensors=True)
    whole = reference(folder)

    def old(state):
        names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        state = {key.replace(new, names[new]): value for key, value in state.items() for new in names if new in key} | {
            key: value for key, value in state.items() if "LayerNorm" not in key
        }
        rest = {"bert.pooler.dense.weight": torch.ones(32, 32), "cls.seq_relationship.bias": torch.ones(2)}
        return state | rest

    torch.testing.assert_close(logits(load(rewrite(folder, old))), whole, atol=1e-5, rtol=0)


def test_shards_are_one_model(tmp_path):
    """Weights may be in several safetensors files; a missing one is an error."""
    folder = checkpoints.tiny_bert(tmp_path, form="transformers", safetensors=True)
    whole = reference(folder)
    transformers.AutoModelForMaskedLM.from_pretrained(folder).save_pretrained(folder, max_shard_size="20KB")
    (folder / "model.safetensors").unlink(missing_ok=True)

    assert len(list(folder.glob("model-*.safetensors"))) > 1
    torch.testing.assert_close(logits(load(folder)), whole, atol=1e-5, rtol=0)
    next(folder.glob("model-00002*")).unlink()
    with pytest.raises(MissingData, match="model-00002"):
        load(folder)


def test_a_sparse_encoder_is_encoded_as_sentence_transformers_does(tmp_path):
    """The logits of a SparseEncoder folder, pooled by its stated settings, are the vectors of sentence-transformers."""
    from sentence_transformers import SparseEncoder

    folder = checkpoints.tiny_bert(tmp_path, form="sparse_encoder", safetensors=True)
    loaded = load(folder)
    masked = torch.where(tokens(loaded.tokenizer)[1][:, :, None].bool(), logits(loaded), -torch.inf)
    expected = SparseEncoder(str(folder), device="cpu").encode(TEXTS, show_progress_bar=False).to_dense()

    assert masked_lm_files(folder).defaults == {
        "positions": "all",
        "activation": "log1p_relu",
        "query_length": 64,
        "document_length": 64,
    }
    torch.testing.assert_close(masked.amax(1).relu().log1p(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("length", [None, 9])
def test_texts_are_cut_where_sentence_transformers_cuts_them(tmp_path, length):
    """The stated lengths of a saved SparseEncoder are those that sentence-transformers uses."""
    from sentence_transformers import SparseEncoder

    theirs = SparseEncoder(str(checkpoints.tiny_bert(tmp_path / "a", form="sparse_encoder", safetensors=True)), device="cpu")
    theirs.max_seq_length = length or theirs.max_seq_length
    theirs.save_pretrained(str(tmp_path / "b"), create_model_card=False)
    for settings, expected in ({}, length or 64), ({"model_max_length": 10**30}, 64), ({"model_max_length": 7}, 7):
        reconfigure(tmp_path / "b", "tokenizer_config.json", **settings)
        said = masked_lm_files(tmp_path / "b").defaults
        assert SparseEncoder(str(tmp_path / "b"), device="cpu").max_seq_length == expected
        assert (said["query_length"], said["document_length"]) == (expected, expected)


def test_a_module_may_lie_in_a_folder_of_its_own(tmp_path):
    """modules.json may say that the model is in a subfolder."""
    folder = checkpoints.tiny_bert(tmp_path / "model", form="sparse_encoder_5", safetensors=True)
    whole = reference(folder)
    (folder / "0_MLMTransformer").mkdir()
    for name in ("config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json", "sentence_bert_config.json"):
        (folder / name).rename(folder / "0_MLMTransformer" / name)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_MLMTransformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    loaded = load(folder)

    torch.testing.assert_close(logits(loaded), whole, atol=1e-5, rtol=0)
    assert masked_lm_files(folder).defaults["document_length"] == 64


HALVES = [*((one, torch.bfloat16) for one in checkpoints.ARCHITECTURES), ("bert", torch.float16)]


@pytest.mark.parametrize(("architecture", "dtype"), HALVES)
def test_half_precision(tmp_path, architecture, dtype):
    """Weights have the requested dtype, and the logits are those of transformers in it."""
    folder = checkpoints.tiny(tmp_path, architecture)
    loaded = load(folder, dtype=dtype)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")
    ids, mask = tokens(loaded.tokenizer)
    with torch.no_grad():
        expected = model.eval()(input_ids=ids, attention_mask=mask).logits

    assert loaded.weight.dtype == loaded.bias.dtype == dtype
    assert {parameter.dtype for parameter in loaded.body.parameters()} == {dtype}
    torch.testing.assert_close(logits(loaded), expected, atol=0.05, rtol=0.02)


def test_weights_are_in_memory(tmp_path):
    """Overwriting a file does not change a loaded model."""
    folder = checkpoints.tiny_bert(tmp_path, form="transformers", safetensors=True)
    loaded = load(folder)
    before = loaded.weight.clone()
    content = (folder / "model.safetensors").read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(header)
        file.write(bytes(len(content) - header))

    assert torch.equal(loaded.weight, before)


def test_digests_are_of_what_determines_the_vectors(tmp_path):
    """A weight, a token or a setting changes its digest; folder, paths and training_args.bin do not."""
    folder = checkpoints.tiny_bert(tmp_path / "a", form="fine_tuned", safetensors=True)
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
    folder = checkpoints.tiny_bert(tmp_path)
    code = (
        "import sys; from pathlib import Path; from lexbench.models import architectures, checkpoint; "
        f"checkpoint.digests(architectures.masked_lm_files(Path({str(folder)!r}))); "
        "print({'torch', 'transformers', 'safetensors'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout

    assert shown == "set()\n"


class Malicious:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("writer", ["torch", "pickle"])
@pytest.mark.parametrize("nested", [True, False])
def test_a_malicious_pickle_is_never_run(tmp_path, writer, nested):
    """Code in pytorch_model.bin is refused in one line, and not run."""
    folder = checkpoints.tiny_bert(tmp_path / "model", form="transformers")
    bad = Malicious(tmp_path / "written")
    content = {"cls.predictions.bias": bad, "bert.pooler": torch.ones(3)} if nested else bad
    with (folder / "pytorch_model.bin").open("wb") as file:
        torch.save(content, file) if writer == "torch" else pickle.dump(content, file)

    with pytest.raises(InvalidFile, match=r"pytorch_model.bin: it holds more than tensors"):
        load(folder)
    assert not (tmp_path / "written").exists()


def test_training_arguments_are_never_opened(tmp_path):
    """training_args.bin, a pickle, is not read; neither is a .bin beside safetensors."""
    folder = checkpoints.tiny_bert(tmp_path / "model", safetensors=True)
    for name in ("training_args.bin", "pytorch_model.bin"):
        (folder / name).write_bytes(pickle.dumps(Malicious(tmp_path / "written")))
    load(folder)
    digests(masked_lm_files(folder))

    assert not (tmp_path / "written").exists()


def test_code_in_a_folder_is_not_run(tmp_path):
    """Python files named in auto_map are not imported."""
    folder = checkpoints.tiny_bert(tmp_path / "model", form="transformers", safetensors=True)
    (folder / "evil.py").write_text(f"import os; os.mkdir({str(tmp_path / 'written')!r})\n")
    classes = {"AutoConfig": "evil.C", "AutoModelForMaskedLM": "evil.M", "AutoTokenizer": ["evil.T", None]}
    reconfigure(folder, auto_map=classes)
    whole = reference(checkpoints.tiny_bert(tmp_path / "same", form="transformers", safetensors=True))

    torch.testing.assert_close(logits(load(folder)), whole, atol=1e-5, rtol=0)
    reconfigure(folder, "tokenizer_config.json", auto_map=classes)
    torch.testing.assert_close(logits(load(folder)), whole, atol=1e-5, rtol=0)
    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize(
    ("form", "settings", "expected"),
    [
        ("fine_tuned", {}, {"positions": "text"}),
        ("fine_tuned", {"keep_special_tokens": True}, {"positions": "all"}),
        ("fine_tuned", {"architectures": ["BertForMaskedLM"]}, {"positions": "text"}),
        ("pretrained", {}, {"positions": "text"}),
        ("transformers", {}, {}),
        ("transformers", {"lexbench": {"titles": "string"}, "keep_special_tokens": True}, {"titles": "string"}),
    ],
)
def test_defaults_are_what_the_folder_says(tmp_path, form, settings, expected):
    """Our own table wins, then the settings of LexMAE's classes; a plain folder states nothing."""
    folder = reconfigure(checkpoints.tiny_bert(tmp_path, form=form, num_hidden_layers=1), **settings)

    assert masked_lm_files(folder).defaults == expected


def test_a_second_logarithm_is_one_of_the_defaults(tmp_path):
    """The activation log1p_relu of sentence-transformers means two logarithms."""
    folder = checkpoints.tiny_bert(tmp_path, form="sparse_encoder_5")
    reconfigure(folder, "1_SpladePooling/config.json", activation_function="log1p_relu")

    lengths = {"query_length": 64, "document_length": 64}
    assert masked_lm_files(folder).defaults == {"positions": "all", "activation": "log1p_log1p_relu", **lengths}


# --- checkpoints that cannot be loaded


def cut(folder, name="model.safetensors", keep=0.5):
    """Keep the first part of a file."""
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * keep)])


def put(name, content):
    """Return a change that writes a file with *content*; None removes it."""
    return lambda folder: (folder / name).unlink() if content is None else (folder / name).write_text(content)


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


def elsewhere(folder):
    """Move the weights out of the folder, and let an index name them."""
    (folder / "model.safetensors").rename(folder.parent / "elsewhere.safetensors")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../elsewhere.safetensors"}}')


def no_table(folder):
    """Replace the weights by an index without files."""
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text("{}")


def no_unknown(folder):
    """Leave out the word for unknown words."""
    (folder / "vocab.txt").write_text("[PAD]\n[CLS]\n[SEP]\n[MASK]\na\nb\n")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')


BIAS = "cls.predictions.bias"
MORE = "\n".join([*checkpoints.VOCABULARY, "more"])
DEEP = '{"model_type": ' + "[" * 100_000 + "]" * 100_000 + "}"
BROKEN = {  # what is wrong, and what is said; a file that is missing is MissingData
    "no config": (put("config.json", None), "no config.json"),
    "config is no JSON": (put("config.json", "{"), "config.json: does not read as JSON"),
    "config is a list": (put("config.json", "[]"), "config.json: it holds no table"),
    "config does not fit itself": (config(num_attention_heads=5), r"config.json: no model can be made from it \(.*heads"),
    "no tokenizer": (put("vocab.txt", None), "no tokenizer"),
    "tokenizer is no JSON": (put("tokenizer.json", "{}"), "the tokenizer does not load"),
    "no weights": (put("model.safetensors", None), "no weights"),
    "cut weights": (cut, "does not read as safetensors"),
    "empty weights": (lambda folder: cut(folder, keep=0), "does not read as safetensors"),
    "index is no table": (no_table, "`weight_map` is no table"),
    "index leads elsewhere": (elsewhere, "`weight_map` is no table of files beside it"),
    "other model_type": (config(model_type="t5"), "'t5' is not supported; there is: bert, distilbert, modernbert, roberta$"),
    "no model_type": (config(model_type=None), "model_type None is not supported"),
    "more tokens than columns": (put("vocab.txt", MORE), "numbers its tokens up to 200 and the model has 200"),
    "two keys for one": (tensors(lambda state: {f"module.{BIAS}": state[BIAS].clone()}), f"{BIAS} and .*{BIAS}"),
    "quantised": (tensors(lambda _state: {BIAS: torch.ones(200, dtype=torch.int8)}), f"{BIAS} holds torch.int8"),
    "nested tensors": (pickled({"state_dict": {"a": torch.ones(1)}}), "pytorch_model.bin: it is no table of tensors by name"),
    "cut pickle": (pickled({"a": torch.ones(999)}, 0.5), "pytorch_model.bin: does not read"),
    "empty pickle": (pickled({}, 0), "pytorch_model.bin: does not read"),
    "endless layers": (config(num_hidden_layers=10**9), "it says 1,000,000,000 layers"),
    "endless positions": (config(max_position_embeddings=10**13), "max_position_embeddings is 10,000,000,000,000"),
    "nested without end": (put("config.json", DEEP), "config.json: does not read as JSON"),
    "model_type is a list": (config(model_type=["bert"]), "makes no sense"),
    "architectures is a number": (config(architectures=5), "makes no sense"),
    "no word for what is unknown": (no_unknown, "the tokenizer"),
    "a table that is none": (config(lexbench="text"), "`lexbench` in config.json is no table"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_wrong_with_a_folder_is_said_in_one_line(tmp_path, broken):
    """A folder that cannot be loaded gives one line with the file and the fault."""
    change, message = BROKEN[broken]
    missing, refused = broken in {"no config", "no tokenizer", "no weights"}, broken in {"other model_type", "no model_type"}
    error = MissingData if missing else CommandError if refused else InvalidFile
    folder = checkpoints.tiny_bert(tmp_path / "model", form="transformers", safetensors=True)
    change(folder)

    with pytest.raises(error, match=message) as raised:
        load(folder)
    assert str(folder) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_keys_that_do_not_fit_are_listed(tmp_path):
    """The error lists the first dozen keys that are missing, unexpected or of another shape."""
    folder = checkpoints.tiny_bert(tmp_path, form="transformers", safetensors=True)

    def wrong(state):
        others = {key: value for key, value in state.items() if not key.startswith("bert.encoder")}
        return others | {"classifier.bias": torch.ones(2), "cls.predictions.transform.dense.bias": torch.ones(31)}

    with pytest.raises(InvalidFile) as raised:
        load(rewrite(folder, wrong))
    message = str(raised.value)
    start = f"{folder}: config.json says model_type bert (BertForMaskedLM), and its weights do not fit that: 32 missing ("
    end = "; 1 unexpected (classifier.bias); 1 of another shape (cls.predictions.transform.dense.bias (31,) for (32,))"
    assert message.startswith(start)
    assert message.endswith(" and 20 more)" + end)
    assert message.count("bert.encoder.layer.") == 12


@pytest.mark.parametrize("architecture", checkpoints.ARCHITECTURES)
def test_a_model_without_a_head_is_refused(tmp_path, architecture):
    """A body without a head is refused instead of getting a random head."""
    folder = checkpoints.tiny(tmp_path, architecture)
    body = transformers.AutoModel.from_pretrained(folder)
    body.save_pretrained(folder)

    with pytest.raises(InvalidFile, match=r"missing \(.* unexpected \("):
        load(folder)


ROUTER = "sentence_transformers.base.modules.router.Router"
OTHER_PIPELINES = {
    "sum": ("1_SpladePooling/config.json", {"pooling_strategy": "sum"}, "pools by 'sum'; lexbench encodes .* 'max'"),
    "activation": ("1_SpladePooling/config.json", {"activation_function": "gelu"}, "activation is 'gelu'"),
    "prompt": ("config_sentence_transformers.json", {"prompts": {"query": "find: "}}, "puts a prompt before texts"),
    "case": ("sentence_bert_config.json", {"do_lower_case": True}, "lower-cases texts"),
}


@pytest.mark.parametrize("other", OTHER_PIPELINES)
def test_what_lexbench_does_not_do_is_refused(tmp_path, other):
    """A SparseEncoder whose vectors would differ is refused."""
    name, settings, message = OTHER_PIPELINES[other]
    folder = reconfigure(checkpoints.tiny_bert(tmp_path, form="sparse_encoder"), name, **settings)

    with pytest.raises(CommandError, match=message):
        load(folder)


@pytest.mark.parametrize(
    ("modules", "error", "message"),
    [
        ([{"type": ROUTER, "path": ""}], CommandError, r"a model of Router, .*\(inference-free\): .* Transformer and Splade"),
        ([{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": ""}], CommandError, "Transformer and Pooling"),
        ([], CommandError, "a model of no modules"),
        ({"type": 1}, InvalidFile, "no list of modules"),
        (
            [{"type": "a.MLMTransformer", "path": "../other"}, {"type": "a.SpladePooling", "path": ""}],
            InvalidFile,
            "outside the folder",
        ),
    ],
)
def test_other_pipelines_are_refused(tmp_path, modules, error, message):
    """Other pipelines of sentence-transformers than SPLADE are refused."""
    folder = checkpoints.tiny_bert(tmp_path, form="sparse_encoder")
    (folder / "modules.json").write_text(json.dumps(modules))

    with pytest.raises(error, match=message):
        load(folder)


def test_a_tokenizer_must_have_its_special_tokens(tmp_path):
    """A tokenizer without special tokens is refused."""
    folder = checkpoints.tiny(tmp_path, "modernbert")
    reconfigure(folder, "tokenizer_config.json", cls_token=None, pad_token=None)

    with pytest.raises(InvalidFile, match="the tokenizer has no first and no padding token"):
        load(folder)


def test_a_folder_shows_how_it_is_read(tmp_path, capsys):
    """`show model FOLDER` prints the system and the settings that the files state."""
    folder = checkpoints.tiny_bert(tmp_path / "mine", form="sparse_encoder_5", safetensors=True)
    shown = answer(capsys, "show", "model", folder, "--json")

    assert shown["system"] == f'sparse_mlm(model="{folder}")@impact'
    assert shown["run"] == f"lexbench run suite pydoc -r '{shown['system']}'"
    stated = {"document_length": 64, "positions": "all", "activation": "log1p_relu"}
    assert shown["settings"].items() > stated.items()
