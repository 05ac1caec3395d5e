"""Where a checkpoint comes from: a folder, or the Hugging Face hub; its real client talks to a server on this machine."""

import json
import os
import subprocess

import checkpoints
import pytest
from hub import COMMIT, HubFolders
from servers import serving

from lexbench.errors import CommandError, MissingData
from lexbench.models.architectures import masked_lm_files
from lexbench.models.checkpoint import digests, fetch

COPY = 'put a copy of the model into a folder and give model="FOLDER"'
NO_REVISION = "the Hugging Face hub has no such revision; look at its branches and commits"
ASK = """
import json, sys
from lexbench.models.checkpoint import digests, fetch
from lexbench.models.architectures import masked_lm_files
from lexbench.errors import LexbenchError
for name, revision in json.loads(sys.argv[1]):
    try:
        folder = fetch(name, revision)
        print(json.dumps([str(folder), digests(masked_lm_files(folder))]))
    except LexbenchError as error:
        print(json.dumps([type(error).__name__, str(error)]))
"""
FIND = """
import json
from lexbench.models.checkpoint import fetch_model, transformer_folder
folder = fetch_model("org/dense")
print(json.dumps([str(folder), *map(str, sorted(transformer_folder(folder).iterdir()))]))
"""


@pytest.mark.parametrize("name", ["./nowhere", "~/nowhere", "/no/where", "a/b/c"])
def test_a_missing_folder(name):
    """A name that can only be a folder is not looked up on the hub."""
    with pytest.raises(MissingData) as raised:
        fetch(name)
    assert str(raised.value) == f"no folder {name}; {COPY}"


def test_a_folder_needs_no_hub(tmp_path):
    """A folder has no revisions, and a file is no folder."""
    (tmp_path / "file").touch()

    assert fetch(str(tmp_path)) == tmp_path
    with pytest.raises(CommandError, match="revision='main' is for models of the hub"):
        fetch(str(tmp_path), "main")
    with pytest.raises(CommandError, match="is a file; give the folder that it is in"):
        fetch(str(tmp_path / "file"))
    (tmp_path / "model.zip").touch()
    with pytest.raises(CommandError, match="is a file; unpack it, and give the folder that it is in"):
        fetch(str(tmp_path / "model.zip"))


class Hub(HubFolders):
    """A hub with models that have more files than needed."""

    def __init__(self, path, python):
        super().__init__()
        self.python = python
        self.refused = {"org/gated": (403, b"", {"X-Error-Code": "GatedRepo"}), "org/shut": (403, b"", {})}
        forms = {"safe": (True, "fine_tuned"), "old": (False, "fine_tuned"), "st": (True, "sparse_encoder")}
        forms["pieces"] = forms["safe"]
        for name, (safetensors, form) in forms.items():
            folder = checkpoints.masked_lm(path / name, form=form, safetensors=safetensors)
            for other in ("training_args.bin", "flax_model.msgpack", "README.md", "run.py", "checkpoint-1/model.safetensors"):
                (folder / other).parent.mkdir(exist_ok=True)
                (folder / other).write_bytes(b"x")
            self.folders[f"org/{name}"] = folder
        (self.folders["org/safe"] / "pytorch_model.bin").write_bytes(b"x")
        (self.folders["org/safe"] / "tokenizer.model").write_bytes(b"x")
        (self.folders["org/pieces"] / "vocab.txt").rename(self.folders["org/pieces"] / "tokenizer.model")
        self.folders["org/dense"] = dense(path / "dense")
        for name, base in (("lora", "org/safe"), ("gated-lora", "org/gated"), ("pickled-lora", "org/safe")):
            self.folders[f"org/{name}"] = adapter(path / name, base, pickled=name == "pickled-lora")
        self.environment = {**os.environ, "HF_HOME": str(path / "cache")}

    def ask(self, *names, **environment):
        """Return the answers of a new process for each name and revision; it may print nothing else."""
        return self.run(ASK, json.dumps(names), **environment)

    def run(self, code, *arguments, **environment):
        """Return the lines of JSON that *code* prints in a new process; it may print nothing else."""
        command = [self.python, "-c", code, *arguments]
        environment = {**self.environment, **environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
        assert not done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


def dense(path):
    """Write a dense model of sentence-transformers into *path*, the transformer in a subfolder."""
    body = checkpoints.masked_lm(path / "0_Transformer")
    modules = [("pylate.Transformer", body.name), ("pylate.Pooling", "1_Pooling")]
    (path / "modules.json").write_text(json.dumps([{"type": kind, "path": place} for kind, place in modules]))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling" / "config.json").write_text("{}")
    (path / "1_Pooling" / "model.safetensors").write_bytes(b"x")
    return path


def adapter(path, base, *, pickled):
    """Write an adapter of a model on the hub into *path*, as safetensors or as a pickle; return the path."""
    path.mkdir()
    settings = {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "base_model_name_or_path": base, "revision": COMMIT}
    (path / "adapter_config.json").write_text(json.dumps(settings))
    (path / ("adapter_model.bin" if pickled else "adapter_model.safetensors")).write_bytes(b"x")
    (path / "README.md").write_text("x")
    return path


@pytest.fixture(scope="module")
def hub(fast, tmp_path_factory):
    """Run a hub."""
    running = Hub(tmp_path_factory.mktemp("hub"), fast / "python")
    with serving(running.answer) as server:
        running.environment["HF_ENDPOINT"] = server.url
        yield running


def test_only_needed_files_are_downloaded(hub):
    """Settings, tokenizer and one form of weights are downloaded once, safetensors rather than pickles."""
    hub.served.clear()
    names = ["org/safe", "org/old", "org/st", "org/pieces"]
    answers = hub.ask(*((name, None) for name in names))

    assert [parts for _, parts in answers] == [digests(masked_lm_files(hub.folders[name])) for name in names]
    assert all(folder.endswith(COMMIT) for folder, _ in answers)
    modules = ["modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", "1_SpladePooling/config.json"]
    each = ["config.json", "vocab.txt", "tokenizer_config.json"]
    expected = [*each, "model.safetensors", *each, "pytorch_model.bin", *each, *modules, "model.safetensors"]
    expected += ["config.json", "tokenizer.model", "tokenizer_config.json", "model.safetensors"]
    assert sorted(hub.served) == sorted(expected)
    hub.served.clear()
    assert hub.ask(*((name, None) for name in names)) == answers
    assert hub.ask(*((name, None) for name in names), HF_HUB_OFFLINE="1", HF_ENDPOINT="http://127.0.0.1:9") == answers
    assert not hub.served


def test_an_adapter_comes_with_its_model(hub):
    """An adapter is downloaded with its model in the right revision; a gated model and a pickle are errors."""
    hub.served.clear()
    names = ("org/lora", "org/gated-lora", "org/pickled-lora")
    answers = hub.ask(*((name, None) for name in names), HF_HOME=f"{hub.environment['HF_HOME']}2")

    here = hub.folders["org/lora"]
    (here / "base").symlink_to(hub.folders["org/safe"])
    assert answers[0][1] == digests(masked_lm_files(here))
    assert {"adapter_config.json", "adapter_model.safetensors", "model.safetensors", "vocab.txt"} <= set(hub.served)
    assert not {"adapter_model.bin", "pytorch_model.bin", "README.md"} & set(hub.served)
    kinds, messages = zip(*answers[1:], strict=True)
    assert kinds == ("MissingData", "MissingData")
    assert "its model cannot be found (org/gated: accept its terms at https://huggingface.co/org/gated, then" in messages[0]
    assert "no adapter_model.safetensors (an adapter_model.bin is a pickle, which lexbench does not read)" in messages[1]


def test_any_pipeline_of_sentence_transformers_can_be_a_teacher(hub):
    """Any pipeline can be downloaded, e.g. as a teacher; only encoding with it is refused."""
    hub.served.clear()
    ((place, *files),) = hub.run(FIND)

    weights = [name for name in hub.served if "model." in name]
    assert weights == ["0_Transformer/model.safetensors"]
    assert f"{place}/{weights[0]}" in files
    ((kind, message),) = hub.ask(("org/dense", None))
    assert kind == "CommandError"
    assert "a model of Transformer and Pooling; lexbench takes sentence-transformers models of" in message


def test_errors_of_the_hub_say_what_to_do(hub):
    """The error for a missing name, revision, permission or connection says what to do."""
    messages = {
        ("org/none", None): f"no folder org/none, and no model of that name on the Hugging Face hub; {COPY}",
        ("no such", None): f"no folder no such, and the Hugging Face hub has no such names; {COPY}",
        ("org/safe", "v9"): f"org/safe at revision v9: {NO_REVISION}",
        ("org/gated", None): "org/gated: accept its terms at https://huggingface.co/org/gated, then type: hf auth login",
    }
    *answers, (kind, shut) = hub.ask(*messages, ("org/shut", None))
    ((offline_kind, offline),) = hub.ask(("org/far", None), HF_HUB_OFFLINE="1")

    assert answers == [["MissingData", message] for message in messages.values()]
    assert kind == offline_kind == "MissingData"
    assert shut.startswith("org/shut is not on this machine, and the Hugging Face hub cannot be reached (")
    assert shut.endswith(f"); {COPY}")
    assert offline.startswith("org/far is not on")
    assert "\n" not in shut + offline


def test_a_download_that_cannot_be_written_is_one_line(hub, tmp_path):
    """A cache that cannot be written is an error of one line."""
    (tmp_path / "file").touch()
    ((kind, message),) = hub.ask(("org/safe", None), HF_HOME=str(tmp_path / "file"))

    assert kind == "CannotStart"
    assert message.startswith("org/safe cannot be downloaded (")
    assert message.endswith(f"); {COPY}")
    assert "\n" not in message
