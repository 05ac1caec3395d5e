"""What tests of encoding share: corpora of a few documents are encoded, and what was written and heard is kept."""

from lexbench.encodings.shards import missing
from lexbench.executors.here import Here
from lexbench.testing._letters import Letters
from lexbench.testing.executors import Heard
from lexbench.testing.executors import files_of as contents


def encode(encoder, corpus, path, executor=None):
    """Encode the shards of *corpus* that *path* lacks; return what was heard."""
    heard = Heard()
    (executor or Here()).encode(encoder, corpus, path, missing(len(corpus), path), heard)
    return heard


__all__ = ["Heard", "Letters", "contents", "encode"]
