"""The executor `here`: this process encodes, searches and reranks."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lexbench.display.progress import Progress
from lexbench.encodings.encoding import encode_shards
from lexbench.plugins import Encoder, Executor
from lexbench.types import Corpus


@dataclass(frozen=True)
class Here(Executor):
    """The encoder runs in this process, on the first of its devices."""

    def encode(self, encoder: Encoder, corpus: Corpus, path: Path, shards: Sequence[range], progress: Progress) -> None:
        """Encode the *shards* in order."""
        encode_shards(encoder.workers()[0], corpus, path, shards, progress.advance)
