"""In this process, which needs nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lexbench.encodings.encode import ShardEncoder, encode_shards
from lexbench.encodings.shards import shard_file
from lexbench.plugins import AnyEncoder, RunsOnDevices
from lexbench.progress import Progress
from lexbench.storage import atomic
from lexbench.types import Corpus


@dataclass(frozen=True)
class Here:
    """The encoder runs in this process, on the first of its devices: what kills it ends the command, which then goes on."""

    def encode(self, encoder: AnyEncoder, corpus: Corpus, path: Path, shards: Sequence[range], progress: Progress) -> None:
        """Encode the *shards* in order."""
        left = iter(shards)

        def keep(shard: range, content: bytes) -> None:
            atomic.write_bytes(shard_file(path, shard), content)

        one = encoder.workers()[0] if isinstance(encoder, RunsOnDevices) else encoder
        encode_shards(ShardEncoder(one), corpus, lambda _wait: next(left, None), keep, progress.advance)
