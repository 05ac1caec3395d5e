"""The process that measures: `python -m lexbench.timing TASK.json`. Its parent is in `lexbench.timing.protocol.run_task`.

Without a file it is the process that measuring processes are forked from; its parent is in `lexbench.timing.fork_server`.
"""

import sys
from pathlib import Path

import msgspec

from lexbench.errors import LexbenchError
from lexbench.storage.children import end_with_parent
from lexbench.timing.protocol import DONE, Baseline, Calibrate, Task


def tell() -> None:
    """Say that a pass is done."""
    sys.stdout.write(f"{DONE}\n")
    sys.stdout.flush()


def main(path: Path) -> None:
    """Do the task that a file describes."""
    task = msgspec.json.decode(path.read_bytes(), type=Task | Baseline | Calibrate)
    if isinstance(task, Calibrate):
        from lexbench.timing import calibration

        calibration.write(task.core, Path(task.out))
        return
    from lexbench.timing import child

    if isinstance(task, Baseline):
        child.baseline(task.modules, Path(task.out))
    else:
        child.measure(task, tell)


def server() -> None:
    """Let forks of this process do tasks, as long as the parent has some."""
    from lexbench.timing import calibration, child, counters, fork_server

    def do(path: Path, last: bool) -> list[str]:  # noqa: FBT001 - as `fork_server.serve` calls it
        end_with_parent()
        task = msgspec.json.decode(path.read_bytes(), type=Task | Calibrate)
        if isinstance(task, Task):
            return child.measure(task, tell, child.Start(last=last))
        calibration.write(task.core, Path(task.out))
        return []

    fork_server.serve(do, counters.import_all)


if __name__ == "__main__":
    if not sys.argv[1:]:
        server()
        sys.exit()
    end_with_parent()
    try:
        main(Path(sys.argv[1]))
    except LexbenchError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
