"""Encode a corpus and record the progress, for tests."""

from lexbench.encodings.shards import missing
from lexbench.executors.here import Here
from lexbench.testing._letters import Letters
from lexbench.testing.executors import RecordedProgress
from lexbench.testing.executors import files_of as contents


def encode(encoder, corpus, path, executor=None):
    """Encode the shards of *corpus* that *path* lacks; return the progress."""
    progress = RecordedProgress()
    (executor or Here()).encode(encoder, corpus, path, missing(len(corpus), path), progress)
    return progress


__all__ = ["Letters", "RecordedProgress", "contents", "encode"]
