"""Commands that start fast: one process imports lexbench, and forks itself for each command that the script `lexbench` sends.

A command has its own process, folder, environment, input and output, like one that a shell starts.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from importlib import import_module

SCRIPT = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({place!r})
socket.send_fds(server, [json.dumps([os.getcwd(), dict(os.environ), sys.argv[1:]]).encode()], [0, 1, 2])
sys.exit((server.recv(1) or b"\\x01")[0])
"""


@contextmanager
def commands(folder):
    """Write an executable `lexbench` into *folder* that works until the end of the block."""
    place = str(folder / "socket")
    (folder / "lexbench").write_text(SCRIPT.format(python=sys.executable, place=place), encoding="utf-8")
    (folder / "lexbench").chmod(0o755)
    process = subprocess.Popen([sys.executable, __file__, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()  # it listens
    try:
        yield
    finally:
        process.communicate()  # closes its input


def serve(place):
    """Import what commands need; fork for each command that comes through the socket at *place*, until the input is closed."""
    from lexbench.cli import code

    for module in ("api", "analysis.compare", "report.leaderboard", "retrievers.bm25", "runner.jobs"):
        import_module(f"lexbench.{module}")
    with suppress(ImportError):
        import_module("torch")
    server = socket.socket(socket.AF_UNIX)
    server.bind(place)
    server.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)  # noqa: T201 - for the parent
    while sys.stdin not in select.select([server, sys.stdin], [], [])[0]:
        command, _ = server.accept()
        if os.fork():
            command.close()
            continue
        message, files, *_ = socket.recv_fds(command, 1 << 20, 3)
        folder, environment, words = json.loads(message)
        for number, file in enumerate(files):
            os.dup2(file, number)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[0:1] = ["", *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        ended = code(words)
        sys.stdout.flush()
        sys.stderr.flush()
        command.send(bytes([ended]))
        os._exit(ended)


if __name__ == "__main__":
    serve(sys.argv[1])
