"""The contract tests of `lexbench.testing.sources` on each source of datasets, with small data of our own."""

import importlib.util
import shutil
import socket
from pathlib import Path

import msgspec
import pytest
from conftest import DATA
from tiny import contract

from lexbench import registry
from lexbench.contracts import TextPolicy
from lexbench.testing.sources import SourceCase, SourceContract


def files(tmp_path: Path, _home: Path) -> SourceCase:
    """Return our collection about bread as a folder of the user's."""
    plugin = registry.load("sources", "files")
    named, changed = contract("bread/test", "files"), tmp_path / "changed"
    shutil.copytree(DATA / "bread", changed)
    with (changed / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"_id": "new", "title": "", "text": "new"}\n')
    text_only = msgspec.structs.replace(named, text=TextPolicy(document="text"))
    others = [lambda: plugin.locate(named, [changed]), lambda: plugin.locate(text_only, [DATA / "bread"])]
    return SourceCase(plugin, named, [tmp_path / "none", DATA / "bread"], others, named, [tmp_path / "none"])


def ir_datasets(_tmp_path: Path, home: Path) -> SourceCase:
    """Return the same in the library's folder, in the place of FEVER."""
    plugin = registry.load("sources", "ir_datasets")
    named = contract("beir/fever/test", "ir_datasets", archive="source.zip")
    absent = contract("beir/quora/test", "ir_datasets", archive="source.zip", url="https://example.org/quora.zip")
    assert (home / named.corpus / "source.zip").is_file()
    others = [lambda: plugin.locate(msgspec.structs.replace(named, text=TextPolicy(document="text")), [])]
    return SourceCase(plugin, named, [], others, absent)


def hf(tmp_path: Path, _home: Path) -> SourceCase:
    """Return it as the hub has datasets: three tables, in the hub's cache on this machine."""
    constants = pytest.importorskip("huggingface_hub", reason="it is in the extra neural").constants
    plugin, named = registry.load("sources", "hf"), contract("bread/test", "hf", url="hf:me/bread")
    cache = Path(constants.HF_HUB_CACHE) / "datasets--me--bread"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text("0" * 40)
    for table, file in {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "qrels": "qrels/test.tsv"}.items():
        (cache / "snapshots" / ("0" * 40) / table).mkdir(parents=True)
        shutil.copy(DATA / "bread" / file, cache / "snapshots" / ("0" * 40) / table / f"test{Path(file).suffix}")
    others = [lambda: plugin.locate(msgspec.structs.replace(named, text=TextPolicy(document="text")), [])]
    return SourceCase(plugin, named, [], others, contract("rye/test", "hf", url="hf:me/rye"))


CASES = {"files": files, "hf": hf, "ir_datasets": ir_datasets}


class TestSources(SourceContract):
    """Each source, by name."""

    @pytest.fixture(params=registry.names("sources"))
    def case(self, request, tmp_path, monkeypatch, ir_datasets_home) -> SourceCase:
        """Make the case of one source; nothing of it may ask the network."""
        monkeypatch.setenv("IR_DATASETS_HOME", str(ir_datasets_home))
        monkeypatch.setenv("LEXBENCH_OFFLINE", "1")
        if importlib.util.find_spec("huggingface_hub"):
            from huggingface_hub import constants

            monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        if request.param not in CASES:
            pytest.skip(f"of another package, {registry.origin('sources', request.param)}, which has tests of its own")

        def refuse(*_arguments: object) -> None:
            raise AssertionError("it asks the network")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        return CASES[request.param](tmp_path, ir_datasets_home)


def test_every_source_of_ours_has_a_case():
    """A source that is added here is checked here."""
    ours = [name for name in registry.names("sources") if registry.origin("sources", name) == "lexbench"]

    assert set(ours) <= CASES.keys()
