"""Texts as token ids, truncated as the recipe says. A corpus is tokenised once, kept in the store, and memory-mapped.

So 8.8 million passages take no memory. The files of the artifact:

    ids.bin     uint16, or uint32 for a large vocabulary: the tokens of all texts, including special ones
    starts.npy  int64 (texts + 1,): the text at corpus position i is ids[starts[i]:starts[i + 1]]
    kind.json   the type of ids.bin
"""

import hashlib
import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lexbench.artifacts.graph import Graph
from lexbench.datasets.corpus import StoredCorpus
from lexbench.lexmae.data import batches
from lexbench.lexmae.recipe.settings import Encoding
from lexbench.models.token_batches import cutter, document_inputs, tokenise
from lexbench.storage import atomic
from lexbench.storage.artifact_folder import KeyFacts
from lexbench.storage.drafting import Draft
from lexbench.storage.node import Node, Parts, Stored

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

_FORMAT = 1
_BLOCK = 2048  # texts that are tokenised at a time


@dataclass(frozen=True, eq=False)
class TokenisedCorpus:
    """The tokens of a corpus, by position."""

    ids: NDArray[np.unsignedinteger[Any]]  # (tokens,), memory-mapped
    starts: NDArray[np.int64]  # (texts + 1,), memory-mapped
    kept: NDArray[np.int64] | None = None  # (texts,) ascending positions, if some texts of the corpus are left out

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.starts) - 1 if self.kept is None else len(self.kept)

    def __getitem__(self, position: int) -> NDArray[np.int64]:
        """Return the tokens of one text (length,)."""
        if self.kept is not None:
            position = int(self.kept[position])
        start, stop = self.starts[position : position + 2].tolist()
        return self.ids[start:stop].astype(np.int64)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each text (texts,)."""
        lengths = np.diff(self.starts)
        return lengths if self.kept is None else lengths[self.kept]

    def without(self, positions: NDArray[np.int64]) -> "TokenisedCorpus":
        """Return the corpus without the texts at *positions* (n,); those behind them move up."""
        return replace(self, kept=np.setdiff1d(np.arange(len(self.starts) - 1), positions)) if len(positions) else self


@dataclass(frozen=True, eq=False)
class TextReader:
    """Turns queries and corpora into tokens as a recipe says, and tokens into the tensors of a batch."""

    tokenizer: "PreTrainedTokenizerFast"
    encoding: Encoding

    @property
    def pad(self) -> int:
        """The id that pads short texts."""
        return int(self.tokenizer.pad_token_id)

    @property
    def silent(self) -> list[int]:
        """The ids whose positions are not pooled: the first token and separators if positions="text" (released code)."""
        tokens: list[Any] = [self.tokenizer.cls_token_id, self.tokenizer.sep_token_id]
        return tokens if self.encoding.positions == "text" else []

    @cached_property
    def _cut_query(self) -> "Tokenizer":
        return cutter(self.tokenizer, self.encoding.query_length)

    def queries(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Return the tokens of each query, (length,)."""
        tokens = tokenise(self._cut_query, texts)
        return [row.astype(np.int64) for row in np.split(tokens.ids, tokens.starts[1:-1])]

    def corpus(self, corpus: StoredCorpus, graph: Graph) -> TokenisedCorpus:
        """Return the tokens of all documents of *corpus*, tokenised unless they are in the store."""
        return graph.open(CorpusTokens(corpus, self))

    def tensors(self, rows: Sequence[NDArray[np.int64]]) -> dict[str, Any]:
        """Return tokens of texts as tensors *ids*, *real* and *pools* (texts, longest); see `batches.tensors`."""
        return batches.tensors(rows, pad=self.pad, silent=self.silent)


@dataclass(frozen=True, eq=False)
class CorpusTokens(Node[TokenisedCorpus]):
    """The tokens of the documents of a corpus, as *reader* reads them."""

    corpus: StoredCorpus
    reader: TextReader

    kind = "tokens"

    def label(self) -> str:
        """Return the name of the corpus."""
        return self.corpus.path.name.rpartition("-")[0] or self.corpus.path.name

    @property
    def _cut(self) -> "Tokenizer":
        # A copy: the settings of the tokenizer's last call must not enter the digest.
        return cutter(self.reader.tokenizer, self.reader.encoding.document_length)

    def facts(self) -> KeyFacts:
        """Return the documents, the tokenizer, and how it reads them."""
        digest = hashlib.sha256(f"{self._cut.to_str()}{self.reader.tokenizer.sep_token}".encode()).hexdigest()
        facts = {"format": _FORMAT, "corpus": self.corpus.fingerprint, "tokenizer": digest}
        return facts | {"titles": self.reader.encoding.titles, "length": self.reader.encoding.document_length}

    def make(self, draft: Draft, parts: Parts) -> None:
        """Tokenise block by block, so that memory stays small."""
        del parts
        tokenizer, cut, starts = self.reader.tokenizer, self._cut, array("q", [0])
        kind = np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32
        draft.progress.start(self.corpus.path.name, "tokenise", len(self.corpus), "documents")
        with (draft.folder / "ids.bin").open("wb") as file:
            for start in range(0, len(self.corpus), _BLOCK):
                documents = list(self.corpus.documents(start, start + _BLOCK))
                tokens = tokenise(cut, document_inputs(documents, self.reader.encoding.titles, str(tokenizer.sep_token)))
                file.write(tokens.ids.astype(kind).tobytes())
                starts.extend((tokens.starts[1:] + starts[-1]).tolist())
                draft.progress.advance(len(documents))
        np.save(draft.folder / "starts.npy", np.frombuffer(starts, np.int64))
        atomic.write_text(draft.folder / "kind.json", json.dumps({"ids": np.dtype(kind).name}) + "\n")
        draft.progress.end()

    def open(self, stored: Stored | None, parts: Parts) -> TokenisedCorpus:
        """Return the tokens, mapped from disk."""
        del parts
        assert stored is not None
        kind = json.loads((stored.folder / "kind.json").read_bytes())["ids"]
        starts = np.load(stored.folder / "starts.npy", mmap_mode="r")
        return TokenisedCorpus(np.memmap(stored.folder / "ids.bin", kind, "r"), starts)
