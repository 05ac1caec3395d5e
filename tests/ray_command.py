"""Encodes a corpus on Ray, for tests that kill it: ray_command.py ADDRESS CORPUS FOLDER LOG SECONDS."""

import sys
from pathlib import Path

from staged import Letters, encode

from lexbench.datasets.corpus import open_corpus
from lexbench.executors import executor

if __name__ == "__main__":
    address, corpus, folder, log, seconds = sys.argv[1:]
    encoder = Letters(log=log, seconds=float(seconds))
    encode(encoder, open_corpus(Path(corpus)), Path(folder), executor(f'ray("{address}", workers=2, gpus=0)'))
