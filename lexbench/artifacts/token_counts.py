"""The number of tokens of every document of a corpus, by a named tokenizer, as an artifact: measures with a budget read it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench import catalog
from lexbench.artifacts.corpora import StoredTexts
from lexbench.errors import CommandError, require
from lexbench.measures import parse
from lexbench.storage.artifact_folder import KeyFacts
from lexbench.storage.drafting import Draft
from lexbench.storage.node import Node, Parts, Stored
from lexbench.storage.reading import cached_file_digest

_FILE, _COUNTS = "tokenizer.json", "counts.npy"
_AT_ONCE = 1000  # documents


@dataclass(frozen=True)
class TokenCounts(Node[NDArray[np.int64]]):
    """The number of tokens of every document of a corpus (documents,), without special tokens."""

    corpus: StoredTexts
    tokenizer: str  # a model of the catalogue, or a folder
    kind: ClassVar[str] = "tokens"

    def label(self) -> str:
        """Return the corpus and the name of the tokenizer."""
        return f"{self.corpus.label()} {Path(self.tokenizer).name}"

    def parts(self) -> Mapping[str, Node[Any]]:
        """Return the corpus."""
        return {"corpus": self.corpus}

    def facts(self) -> KeyFacts:
        """Return the digest of the tokenizer."""
        return {"tokenizer": tokenizer_digest(self.tokenizer)}

    def make(self, draft: Draft, parts: Parts) -> None:
        """Count the tokens of each document."""
        require(f"counting the tokens of {self.tokenizer}", ["tokenizers"], "neural")
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(_file(self.tokenizer)))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        counts: list[int] = []
        with draft.watch.time("count"):
            texts = (document.text for document in parts["corpus"].documents())
            while block := list(islice(texts, _AT_ONCE)):
                counts += [len(one.ids) for one in tokenizer.encode_batch_fast(block, add_special_tokens=False)]
        np.save(draft.folder / _COUNTS, np.array(counts, np.int64))

    def open(self, stored: Stored | None, parts: Parts) -> NDArray[np.int64]:
        """Return the counts."""
        assert stored is not None
        found: NDArray[np.int64] = np.load(stored.folder / _COUNTS, mmap_mode="r")
        return found


def tokenizers_of(measures: Sequence[str]) -> Iterator[str]:
    """Yield each tokenizer that counts for some of *measures*, once."""
    yield from dict.fromkeys(name for one in map(parse, measures) if (name := getattr(one, "counted_by", "")))


def tokenizer_digest(name: str) -> str:
    """Return the SHA-256 of a tokenizer. Raises CommandError if there is none of that name."""
    return cached_file_digest(_file(name))


def _file(name: str) -> Path:
    folders = [Path(name).expanduser()]
    if name in catalog.names() and (model := catalog.model(name)):
        folders.insert(0, Path(catalog.__file__).parent / str(model.settings.get("model", name)))
    for folder in folders:
        if (folder / _FILE).is_file():
            return folder / _FILE
    raise CommandError(f"no tokenizer {name!r}: it is a model in the package, e.g. lexmae_nano, or a folder with {_FILE}")
