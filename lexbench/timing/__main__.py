"""The measuring process: `python -m lexbench.timing TASK.json`. `lexbench.timing.protocol.run_task` starts it."""

import os
import sys
import threading
from functools import partial
from pathlib import Path

import msgspec

from lexbench.errors import LexbenchError
from lexbench.timing import encoding_speed, measuring
from lexbench.timing.protocol import DONE_LINE, EncodingTask, MemoryBaseline, TimingTask


def _end_with_parent() -> None:
    """End this process when its parent ends: nothing is written to its stdin, so reading returns only then."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        task = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=TimingTask | MemoryBaseline | EncodingTask)
        if isinstance(task, MemoryBaseline):
            measuring.measure_imports(task)
        elif isinstance(task, EncodingTask):
            encoding_speed.measure(task)
        else:
            measuring.measure(task, partial(print, DONE_LINE, flush=True))
    except LexbenchError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
