"""Silence for libraries that print past Python: in lexbench only the command line prints."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Discard everything that is written to the file descriptors 1 and 2, by whatever language."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    copies = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(nowhere, number)
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, copy in zip((1, 2), copies, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)
