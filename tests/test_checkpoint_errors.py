"""Checkpoints that cannot be loaded: each gives one line that says what is wrong, and none is half loaded."""

import json

import checkpoints
import pytest
import torch
import transformers
from checkpoints import reconfigure, rewrite

from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.models.architectures import load_masked_lm, masked_lm_files


def load(folder):
    """Load *folder* in float32 on the processor."""
    return load_masked_lm(masked_lm_files(folder), dtype=torch.float32, device="cpu")


def cut(folder, name="model.safetensors", keep=0.5):
    """Keep the first part of a file."""
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * keep)])


def put(name, content):
    """Return what writes a file of *content*."""
    return lambda folder: (folder / name).write_text(content)


def without(*names):
    """Return what removes files."""
    return lambda folder: [(folder / name).unlink() for name in names]


def retyped(state):
    """Return the tensors with one of whole numbers."""
    return state | {"cls.predictions.bias": torch.ones(200, dtype=torch.int8)}


def with_pickle(content):
    """Return what replaces the weights by what torch.save makes of *content*."""

    def change(folder):
        (folder / "model.safetensors").unlink()
        torch.save(content, folder / "pytorch_model.bin")

    return change


def both_ways(state):
    """Return the tensors with one of them twice."""
    return state | {"module.cls.predictions.bias": state["cls.predictions.bias"].clone()}


BROKEN = {
    "no config": (without("config.json"), MissingData, "no config.json"),
    "config is no JSON": (put("config.json", "{"), InvalidFile, "config.json: does not read as JSON"),
    "config is a list": (put("config.json", "[]"), InvalidFile, "config.json: it holds no table"),
    "config does not fit itself": (
        lambda folder: reconfigure(folder, num_attention_heads=5),
        InvalidFile,
        r"config.json: no model can be made from it \(.*heads",
    ),
    "no tokenizer": (without("vocab.txt"), MissingData, "no tokenizer"),
    "tokenizer is no JSON": (put("tokenizer.json", "{}"), InvalidFile, "the tokenizer does not load"),
    "no weights": (without("model.safetensors"), MissingData, "no weights"),
    "cut weights": (cut, InvalidFile, "does not read as safetensors"),
    "empty weights": (lambda folder: cut(folder, keep=0), InvalidFile, "does not read as safetensors"),
    "index is no table": (
        lambda folder: [without("model.safetensors")(folder), put("model.safetensors.index.json", "{}")(folder)],
        InvalidFile,
        "`weight_map` is no table",
    ),
    "index leads elsewhere": (
        lambda folder: [
            (folder / "model.safetensors").rename(folder.parent / "elsewhere.safetensors"),
            put("model.safetensors.index.json", '{"weight_map": {"a": "../elsewhere.safetensors"}}')(folder),
        ],
        InvalidFile,
        "`weight_map` is no table of files beside it",
    ),
    "other model_type": (
        lambda folder: reconfigure(folder, model_type="t5"),
        CommandError,
        "model_type 't5' is not supported; there is: bert, distilbert, modernbert, roberta$",
    ),
    "no model_type": (lambda folder: reconfigure(folder, model_type=None), CommandError, "model_type None is not supported"),
    "more tokens than columns": (
        put("vocab.txt", "\n".join([*checkpoints.VOCABULARY, "more"])),
        InvalidFile,
        "numbers its tokens up to 200 and the model has 200",
    ),
    "two keys for one": (
        lambda folder: rewrite(folder, both_ways),
        InvalidFile,
        "cls.predictions.bias and module.cls.predictions.bias|module.cls.predictions.bias and cls.predictions.bias",
    ),
    "quantised": (lambda folder: rewrite(folder, retyped), InvalidFile, "cls.predictions.bias holds torch.int8"),
    "nested tensors": (
        with_pickle({"state_dict": {"a": torch.ones(1)}}),
        InvalidFile,
        "pytorch_model.bin: it is no table of tensors by name",
    ),
    "cut pickle": (
        lambda folder: [with_pickle({"a": torch.ones(999)})(folder), cut(folder, "pytorch_model.bin")],
        InvalidFile,
        "pytorch_model.bin: does not read",
    ),
    "empty pickle": (
        lambda folder: [with_pickle({})(folder), cut(folder, "pytorch_model.bin", 0)],
        InvalidFile,
        "pytorch_model.bin: does not read",
    ),
    "endless layers": (
        lambda folder: reconfigure(folder, num_hidden_layers=10**9),
        InvalidFile,
        "it says 1,000,000,000 layers",
    ),
    "endless positions": (
        lambda folder: reconfigure(folder, max_position_embeddings=10**13),
        InvalidFile,
        "max_position_embeddings is 10,000,000,000,000",
    ),
    "nested without end": (
        put("config.json", '{"model_type": ' + "[" * 100_000 + "]" * 100_000 + "}"),
        InvalidFile,
        "config.json: does not read as JSON",
    ),
    "model_type is a list": (lambda folder: reconfigure(folder, model_type=["bert"]), InvalidFile, "makes no sense"),
    "architectures is a number": (lambda folder: reconfigure(folder, architectures=5), InvalidFile, "makes no sense"),
    "no word for what is unknown": (
        lambda folder: [
            put("vocab.txt", "[PAD]\n[CLS]\n[SEP]\n[MASK]\na\nb\n")(folder),
            put("tokenizer_config.json", '{"tokenizer_class": "BertTokenizer"}')(folder),
        ],
        InvalidFile,
        "the tokenizer",
    ),
    "a table that is none": (
        lambda folder: reconfigure(folder, lexbench="text"),
        InvalidFile,
        "`lexbench` in config.json is no table",
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_wrong_with_a_folder_is_said_in_one_line(tmp_path, broken):
    """A folder that cannot be loaded gives one line that names the file and the fault."""
    change, error, message = BROKEN[broken]
    folder = checkpoints.tiny_bert(tmp_path / "model", form="transformers", safetensors=True)
    change(folder)

    with pytest.raises(error, match=message) as raised:
        load(folder)
    assert str(folder) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_keys_that_do_not_fit_are_listed(tmp_path):
    """Nothing is half initialised: the first dozen keys that are missing, unexpected or of another shape are named."""
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
    """A body alone, as dense retrievers and older keys have it, is not given a head of random weights."""
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
    """A SparseEncoder that would give other vectors than ours is not encoded as if it did not."""
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
    """Inference-free, dense and strange pipelines of sentence-transformers are told apart from SPLADE."""
    folder = checkpoints.tiny_bert(tmp_path, form="sparse_encoder")
    (folder / "modules.json").write_text(json.dumps(modules))

    with pytest.raises(error, match=message):
        load(folder)


def test_a_tokenizer_must_have_its_special_tokens(tmp_path):
    """Positions are told apart by [CLS] and [SEP]: a tokenizer without them is refused."""
    folder = checkpoints.tiny(tmp_path, "modernbert")
    reconfigure(folder, "tokenizer_config.json", cls_token=None, pad_token=None)

    with pytest.raises(InvalidFile, match="the tokenizer has no first and no padding token"):
        load(folder)
