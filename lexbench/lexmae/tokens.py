"""A corpus as token numbers on disk: cut once, kept in the store, mapped and not read. 8.8 million passages take no memory.

Two files, and what the numbers in the first are:

    ids.bin     uint16, or uint32 where the vocabulary needs it: the tokens of all texts, special ones included
    starts.npy  int64 (texts + 1,): text i, by position in the corpus, is ids[starts[i]:starts[i + 1]]

The rest is what `lexbench.storage.store` keeps of any folder.
"""

import hashlib
import json
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lexbench.datasets.corpus import StoredCorpus
from lexbench.neural.token_batches import Input, cutter, tokenise
from lexbench.progress import Progress
from lexbench.storage import atomic
from lexbench.storage.store import Recipe, Store

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

_FORMAT = 1
_BLOCK = 2048  # texts that are cut at a time
_NO_TITLE = "-"  # as LexMAE's data has it; see `sparse_mlm`


@dataclass(frozen=True, eq=False)
class TokenisedCorpus:
    """The texts of a corpus by position."""

    ids: NDArray[np.unsignedinteger[Any]]  # (tokens,), mapped
    starts: NDArray[np.int64]  # (texts + 1,), mapped

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.starts) - 1

    def __getitem__(self, position: int) -> NDArray[np.int64]:
        """Return the tokens of one text (length,)."""
        start, stop = self.starts[position : position + 2].tolist()
        return self.ids[start:stop].astype(np.int64)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each text (texts,)."""
        return np.diff(self.starts)


def tokenised(
    corpus: StoredCorpus, tokenizer: "PreTrainedTokenizerFast", titles: str, length: int, kept: Store, progress: Progress
) -> TokenisedCorpus:
    """Return *corpus* in tokens, at most *length* a text; titles stand where `sparse_mlm(titles=…)` puts them."""
    cut = cutter(tokenizer, length)  # its own copy: what the tokenizer was last called with is no part of the digest
    told = hashlib.sha256(f"{cut.to_str()}{tokenizer.sep_token}".encode()).hexdigest()
    recipe: Recipe = {"format": _FORMAT, "corpus": corpus.fingerprint, "tokenizer": told, "titles": titles, "length": length}

    def work(draft: Path) -> None:
        progress.start(corpus.path.name, "tokenise", len(corpus), "documents")
        _write(corpus, tokenizer, cut, titles, draft, progress)
        progress.end()

    folder = kept.produce("tokens", corpus.path.name.rpartition("-")[0] or corpus.path.name, recipe, work)
    kind = json.loads((folder / "kind.json").read_bytes())["ids"]
    return TokenisedCorpus(np.memmap(folder / "ids.bin", kind, "r"), np.load(folder / "starts.npy", mmap_mode="r"))


def _write(
    corpus: StoredCorpus, tokenizer: "PreTrainedTokenizerFast", cut: "Tokenizer", titles: str, draft: Path, progress: Progress
) -> None:
    kind = np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32
    starts = array("q", [0])
    with (draft / "ids.bin").open("wb") as file:
        for begin in range(0, len(corpus), _BLOCK):
            texts = [_input(each, titles, tokenizer) for each in corpus.documents(begin, begin + _BLOCK)]
            found = tokenise(cut, texts)
            file.write(found.ids.astype(kind).tobytes())
            starts.extend((found.starts[1:] + starts[-1]).tolist())
            progress.advance(len(texts))
    np.save(draft / "starts.npy", np.frombuffer(starts, np.int64))
    atomic.write_text(draft / "kind.json", json.dumps({"ids": np.dtype(kind).name}) + "\n")


def _input(document: Any, titles: str, tokenizer: "PreTrainedTokenizerFast") -> Input:
    if titles == "off":
        return str(document.text)
    pair = (document.title or _NO_TITLE, document.body)
    return str(tokenizer.sep_token).join(pair) if titles == "string" else pair
