"""Commands that start fast: one process imports lexbench, and forks itself for each command of the scripts in a folder.

The scripts are `lexbench` and `python`. A command has its own process, folder, environment, input and output, like one that a
shell starts, and is killed with its script. The process imports at the first command, so it costs little until it is used.
"""

import gc
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from runpy import run_module
from types import ModuleType

FORKING = "LEXBENCH_TEST_FORKING"  # the environment variable that names the parent of the folders
SCRIPT = """#!{python} -IS
import _socket, marshal, os, sys  # not socket and json, which take longer than all else here
server = _socket.socket(_socket.AF_UNIX)
server.connect({place!r})
files = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
message = marshal.dumps([os.getcwd(), dict(os.environ), sys.argv])
server.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
answer = server.recv(1)
answer or os.kill(os.getpid(), 9)  # as its process was
sys.exit(answer[0])
"""

COMMANDS = ["analysis.audit", "analysis.compare", "analysis.gate", "api", "collecting.collect", "devices", "models.local_model"]
COMMANDS += ["probing", "report.leaderboard", "report.listings", "runner.jobs", "timing.measuring"]
COMMANDS += ["encoders.sparse_mlm", "engines.impact", "measures.rr", "retrievers._bm25_index", "retrievers.bm25"]
LIBRARIES = ["scipy.stats", "pandas", "matplotlib.pyplot", "IPython.core.interactiveshell", "nbformat", "pytest", "torch"]
LIBRARIES += ["rich.console", "rich.table", "safetensors.torch", "tokenizers", "tomllib"]
TRAINING = [f"lexbench.lexmae.training.{name}" for name in ("pretrain", "finetune", "imitation", "query_table", "ranking")]
TRAINING += ["lexbench.lexmae.training.command", "lexbench.cli.train", "lexbench.models.native.bert", "rich.console"]
PRELOADED = {
    "commands": [*(f"lexbench.{module}" for module in COMMANDS), *LIBRARIES],
    "training": [*TRAINING, "transformers.trainer", "torch.distributed"],
}


@contextmanager
def commands(folder):
    """Write executables `lexbench` and `python` into *folder*, which is called like one of `PRELOADED`, until the block ends.

    A script ends as its process does: with its exit code, or killed.
    """
    folder.mkdir()
    place = str(folder / "socket")
    for name in ("lexbench", "python"):
        (folder / name).write_text(SCRIPT.format(python=sys.executable, place=place), encoding="utf-8")
        (folder / name).chmod(0o755)
    process = subprocess.Popen([sys.executable, __file__, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()  # it listens
    try:
        yield
    finally:
        process.communicate()  # closes its input


def python(words):
    """Do what Python does with *words*, which begin with -c PROGRAM, -m MODULE or FILE; return its exit code."""
    how, *rest = words
    main = sys.modules["__main__"] = ModuleType("__main__")
    try:
        if how == "-m":
            sys.argv = rest
            run_module(rest[0], run_name="__main__", alter_sys=True)
        elif how == "-c":
            sys.argv = [how, *rest[1:]]
            exec(compile(rest[0], "<string>", "exec"), main.__dict__)
        else:
            sys.argv, main.__file__ = words, how
            sys.path[0] = str(Path(how).parent.resolve())
            exec(compile(Path(how).read_bytes(), how, "exec"), main.__dict__)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as Python ends
        traceback.print_exc()
        return 1
    return 0


def die_with(script):
    """Kill this process when the connection to its *script* ends."""
    if not script.recv(1):
        os.kill(os.getpid(), signal.SIGKILL)


def serve(place):
    """Fork for each command that comes through the socket at *place*, until the input is closed."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(place)
    server.listen(100)
    print("ready", flush=True)  # noqa: T201 - for the parent
    code = None
    while sys.stdin not in select.select([server, sys.stdin], [], [])[0]:
        code = code or preloaded(Path(place).parent.name)
        command, _ = server.accept()
        reap(os.WNOHANG)
        if os.fork():
            command.close()
            continue
        message, files, *_ = socket.recv_fds(command, 1 << 20, 3)
        threading.Thread(target=die_with, args=(command,), daemon=True).start()
        folder, environment, (script, *words) = marshal.loads(message)
        for number, file in enumerate(files):
            os.dup2(file, number)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
        sys.path[0:1] = ["", *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        ended = code(words) if Path(script).name == "lexbench" else python(words)
        sys.stdout.flush()
        sys.stderr.flush()
        command.send(bytes([ended]))
        os._exit(ended)
    reap(0)


def preloaded(name):
    """Import what the commands of the folder *name* need, and return `lexbench.cli.code`."""
    from numba.core.registry import cpu_target

    from lexbench.cli import code
    from lexbench.storage.code import _unreleased

    for module in PRELOADED[name]:
        with suppress(ImportError):
            import_module(module)
    cpu_target.typing_context.refresh()  # what numba otherwise does in each command, before its first compiled loop
    cpu_target.target_context.refresh()
    os.fsync = lambda _handle: None  # as in conftest
    _unreleased()  # the files of what is imported here, which other commands digest after their start
    gc.freeze()
    return code


def reap(options):
    """Wait for the commands that have ended, or with no *options* for all, so that their time is part of this process's."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


if __name__ == "__main__":
    serve(sys.argv[1])
