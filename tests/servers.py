"""Servers on this machine, for tests: HTTP servers in this process, and programs that listen on a port."""

import json
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@contextmanager
def serving(answer):
    """Serve on a free port what `answer(method, path, body, headers)` returns: status, content and more headers.

    The content is bytes, or anything that is sent as JSON. Yields the server; its `url` is the address.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

        def serve(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, content, headers = answer(self.command, self.path, body, dict(self.headers))
            content = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else content)

        do_DELETE = do_GET = do_HEAD = do_POST = do_PUT = serve  # noqa: N815 - the names that http.server calls

        def log_message(self, *_):
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def free_port():
    """Return a port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def milvus_words(folder, port):
    """Return the command that starts the server of milvus-lite with its data in *folder*."""
    start = "from milvus_lite.cmdline import main; main()"
    return [sys.executable, "-c", start, "server", "--data-dir", folder, "--host", "127.0.0.1", "--port", str(port)]


@contextmanager
def started(words, port, log, seconds=60):
    """Start a program and wait until it listens on *port*; stop it at the end. Its output goes into the file *log*."""
    with log.open("wb") as file, subprocess.Popen(words, cwd=log.parent, stdout=file, stderr=file) as process:
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end and process.poll() is None:
                with socket.socket() as trial:
                    if trial.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            else:
                raise AssertionError(log.read_text(errors="replace")[-1000:])
            yield process
        finally:
            process.terminate()
