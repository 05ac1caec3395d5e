"""The actors of the executor `ray`: one encodes, the other holds objects. Both check that package versions are the same."""

import os
import resource
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from lexbench.encodings.encoding import ShardEncoder
from lexbench.errors import LexbenchError
from lexbench.executors._workers import Answer, Holder, answered
from lexbench.storage import environment
from lexbench.types import Document

_DECIDING = ("lexbench", "numpy", "scipy", "torch", "transformers", "tokenizers")  # packages that decide the bytes of a shard


class EncodingActor:
    """An actor that encodes. Its calls overlap, so that one tokenises while another encodes."""

    def __init__(self) -> None:
        self._encoder: ShardEncoder | None = None
        self._folder: Any = None  # a temporary folder of models that were sent
        self._documents = 0  # encoded ones
        self._loading, self._encoding = Lock(), Lock()
        self._loading.acquire()  # until `load` is done

    def is_there(self) -> bool:
        """Answer; this call returns as soon as the actor has been placed."""
        return True

    def state(self) -> tuple[int, float]:
        """Return the number of documents that this actor has encoded, and its peak memory in MB."""
        return self._documents, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3

    def load(self, encoder: Any, theirs: Mapping[str, str], identity: Any, folders: Mapping[str, Mapping[str, bytes]]) -> str:
        """Take the encoder; return "", or a line with what differs from the calling process."""
        try:
            if wrong := _differing(theirs):
                return wrong
            self._encoder = ShardEncoder(self._with_files(encoder, identity, folders))
        except LexbenchError as error:
            return f"a machine of the Ray cluster ({os.uname().nodename}): {error}"
        finally:
            self._loading.release()
        return ""

    def _with_files(self, encoder: Any, identity: Any, folders: Mapping[str, Mapping[str, bytes]]) -> Any:
        """Return *encoder* with its files on this machine if they are the same, or else with those that were sent."""
        try:
            if encoder.index_identity() == identity:
                return encoder
        except LexbenchError:  # this machine lacks them
            if not folders:
                raise
        self._folder = TemporaryDirectory(prefix="lexbench-")
        for setting, files in folders.items():
            for name, content in files.items():
                file = Path(self._folder.name, setting, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        if folders:
            encoder = encoder.with_document_folders({setting: Path(self._folder.name, setting) for setting in folders})
        if encoder.index_identity() != identity:
            raise LexbenchError("the files of the encoder differ from those that were sent; copy them there, to the same place")
        return encoder

    def encode(self, documents: Sequence[Document]) -> bytes:
        """Return the bytes of the shard of *documents*."""
        with self._loading:
            encoder = self._encoder
        assert encoder is not None
        tokens = encoder.tokens(documents)
        with self._encoding:
            content = encoder.encoded(tokens, self._count)
        return content()

    def _count(self, documents: int) -> None:
        self._documents += documents


class HoldingActor:
    """An actor that holds objects."""

    def __init__(self) -> None:
        self._holder = Holder()

    def differing(self, theirs: Mapping[str, str]) -> str:
        """Return a line with the versions here that differ from *theirs*; "" if none does."""
        return _differing(theirs)

    def answer(self, method: str, arguments: tuple[Any, ...]) -> Answer:
        """Call a method of the holder."""
        return answered(self._holder, method, arguments)


def _differing(theirs: Mapping[str, str]) -> str:
    here = versions()
    if wrong := [name for name, version in theirs.items() if here.get(name) != version]:
        other = ", ".join(f"{name} {here.get(name, 'missing')} and not {theirs[name]}" for name in wrong)
        return f"a machine of the Ray cluster ({os.uname().nodename}) has {other}: install the same versions there"
    return ""


def versions() -> dict[str, str]:
    """Return the versions of the packages that decide the bytes of a shard."""
    return {name: version for name, version in environment.versions(_DECIDING).items() if name in _DECIDING}
