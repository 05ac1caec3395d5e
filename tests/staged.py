"""An encoder in two steps that can fail, or die, where it is told to."""

import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import sparse

from lexbench.encodings.shards import missing
from lexbench.errors import LexbenchError
from lexbench.executors.here import Here
from lexbench.progress import Silent
from lexbench.storage.atomic import UNFINISHED
from lexbench.types import Document


class Heard(Silent):
    """Progress that keeps what it hears."""

    def __init__(self):
        self.done, self.notes = [], []

    def advance(self, count=1):
        """Keep how many documents are done."""
        self.done.append(count)

    def note(self, line):
        """Keep a line."""
        self.notes.append(line)


def encode(encoder, corpus, path, executor=None):
    """Encode the shards of *corpus* that *path* lacks; return what was heard."""
    heard = Heard()
    (executor or Here()).encode(encoder, corpus, path, missing(len(corpus), path), heard)
    return heard


def contents(path):
    """Return the bytes of every finished file in a folder."""
    return {file.name: file.read_bytes() for file in sorted(Path(path).iterdir()) if file.suffix != UNFINISHED}


@dataclass(frozen=True)
class Tokens:
    """Texts cut to two letters."""

    texts: list[str]
    truncated: int


@dataclass(frozen=True)
class Staged:
    """An encoder in two steps: how often each letter is in the first words of a text."""

    devices: int = 1
    length: int = 2
    storage: str = "float32"
    fails: str = ""
    once: str = ""  # a file: it fails only where that is not there, and writes it

    def tokenise_documents(self, documents):
        """Cut the texts."""
        words = [one.text.split() for one in documents]
        return Tokens([" ".join(some[: self.length]) for some in words], sum(len(some) > self.length for some in words))

    def encode_tokens(self, tokens, advance):
        """Count letters; fail, or die, at a letter if that is asked for."""
        if self.fails and any(self.fails[0] in text for text in tokens.texts) and not (self.once and Path(self.once).exists()):
            if self.once:
                Path(self.once).touch()
            if self.fails.endswith("kill"):
                os.kill(os.getpid(), signal.SIGKILL)
            raise LexbenchError("no such letter")
        advance(len(tokens.texts))
        return sparse.csr_array([[text.count(letter) / 3 for letter in "abcde"] for text in tokens.texts], dtype=np.float32)

    def encode_document(self, texts):
        """Do both steps."""
        return self.encode_tokens(self.tokenise_documents([Document("", text) for text in texts]), lambda _: None)

    encode_query = encode_document

    def workers(self):
        """Return a copy for each device."""
        return [replace(self, devices=1)] * self.devices
