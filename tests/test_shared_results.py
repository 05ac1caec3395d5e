"""Folders of results travel to a hub, a folder or a bucket and back, and only what a leaderboard would show."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec

import pytest
import samples

from lexbench.cli import code
from lexbench.errors import CannotStart, CommandError, InvalidFile
from lexbench.interop.sharing import pull_results as pull
from lexbench.interop.sharing import push_results as push
from lexbench.results import files_of, write_results

needs_fsspec = pytest.mark.skipif(not find_spec("fsspec"), reason="needs fsspec: pip install 'lexbench[remote]'")
COMMIT = "c" * 40


def write(folder, *systems, score=0.5):
    """Write results of *systems* on one query into a folder of results."""
    write_results([samples.result(system, [score], documents=2) for system in systems], "pydoc", folder)
    return folder


def contents(folder):
    """Return the files of results by name."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files_of(folder)}


@pytest.fixture(params=["memory", "file", "path"])
def place(request, tmp_path):
    """Name a place that is empty."""
    name = tmp_path / "shared"
    return {"memory": f"memory://{uuid.uuid4().hex}/r", "file": f"file://{name}", "path": str(name)}[request.param]


@needs_fsspec
def test_what_is_pushed_comes_back(place, tmp_path):
    """Results and pages travel; what comes back has the same bytes, and what is there already is not new."""
    mine = write(tmp_path / "mine", "bm25", "flat")
    (mine / "README.md").write_text("page")
    names = push(mine, place)

    assert names == ["results/pydoc/bm25.json", "results/pydoc/flat.json", "README.md"]
    assert pull(place, tmp_path / "theirs") == names[:2]
    assert contents(tmp_path / "theirs") == contents(mine)
    assert pull(place, tmp_path / "theirs") == []


@needs_fsspec
def test_results_of_ones_own_are_never_replaced(tmp_path):
    """Where a folder has other results of a system, nothing is written, and the line says how both are shown."""
    push(write(tmp_path / "mine", "a", "bm25"), str(tmp_path / "shared"))
    theirs = write(tmp_path / "theirs", "bm25", score=0.25)
    before = contents(theirs)

    with pytest.raises(CommandError, match=r"bm25\.json is there already, with other results; .* --merge NAME=FOLDER"):
        pull(str(tmp_path / "shared"), theirs)
    assert contents(theirs) == before


@needs_fsspec
def test_what_no_leaderboard_would_show_goes_nowhere(tmp_path):
    """A mean that its values do not give is refused before anything is sent, and before anything that came is kept."""
    mine = write(tmp_path / "mine", "a", "bm25")
    path = mine / "results" / "pydoc" / "bm25.json"
    entry = json.loads(path.read_text())
    entry["results"][0]["means"]["nDCG@10"] = 0.9
    path.write_text(json.dumps(entry))
    with pytest.raises(InvalidFile, match=r"the mean of nDCG@10 is 0\.9"):
        push(mine, str(tmp_path / "shared"))
    assert not (tmp_path / "shared").exists()

    (tmp_path / "shared").mkdir()
    (mine / "results").rename(tmp_path / "shared" / "results")
    with pytest.raises(InvalidFile, match=r"the mean of nDCG@10 is 0\.9"):
        pull(str(tmp_path / "shared"), tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


@needs_fsspec
def test_a_name_that_leads_outside_is_refused(tmp_path):
    """An object called results/../a.json would be written beside the folder `results`: nothing is."""
    import fsspec

    place = f"{uuid.uuid4().hex}/r"
    content = next(iter(contents(write(tmp_path / "mine", "bm25")).values()))
    fsspec.filesystem("memory").pipe(f"/{place}/results/../bm25.json", content)

    with pytest.raises(InvalidFile, match=r"results/\.\./bm25\.json.* would lie outside the folder of results"):
        pull(f"memory://{place}", tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


@needs_fsspec
def test_a_place_without_results_says_so(tmp_path, capsys):
    """Neither an empty folder nor an empty place is pushed or pulled in silence, and a line on the command line tells."""
    with pytest.raises(CannotStart, match="has no results; lexbench run suite NAME --results"):
        push(tmp_path, "memory://nothing")
    with pytest.raises(CannotStart, match=r"memory://nothing has no results: no file matches results/\*/\*\.json"):
        pull("memory://nothing", tmp_path / "theirs")
    with pytest.raises(CommandError, match="results have no splits"):
        push(write(tmp_path / "mine", "bm25"), "hf:org/name#test")
    with pytest.raises(
        CommandError, match=r"^hf:name: it names no dataset of the hub; write hf:ORG/NAME or hf:ORG/NAME@REVISION$"
    ):
        pull("hf:name", tmp_path / "theirs")
    assert code(["store", "push", str(tmp_path / "shared"), "--results", str(tmp_path / "mine"), "--private"]) == 2
    assert "--private is for datasets of the hub" in capsys.readouterr().err
    assert code(["store", "push", str(tmp_path / "shared"), "--results", str(tmp_path / "mine")]) == 0
    assert capsys.readouterr().out.startswith("1 files are at ")


# the hub


class Answers(BaseHTTPRequestHandler):
    """As much of the hub as its client asks for, of one data set."""

    def do_POST(self):
        """Make the data set, say how files are sent, and take a commit."""
        body = self.rfile.read(int(self.headers["Content-Length"])) if "Content-Length" in self.headers else self._chunks()
        if self.path == "/api/repos/create":
            self.server.made.append(json.loads(body))
            self._send({"url": self._page})
        elif "/preupload/" in self.path:
            names = [file["path"] for file in json.loads(body)["files"]]
            self._send({"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]})
        else:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.server.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                else:
                    self.server.commits.append(line["value"]["summary"])
            self._send({"success": True, "commitOid": COMMIT, "commitUrl": f"{self._page}/commit/{COMMIT}"})

    def do_GET(self, *, body=True):
        """Say which files there are, or send one."""
        path = self.path.partition("?")[0]
        if "/resolve/" in path:
            content = self.server.files[path.split(f"/resolve/{COMMIT}/")[1]]
            self._send(content, {"ETag": hashlib.sha256(content).hexdigest(), "X-Repo-Commit": COMMIT}, body=body)
        elif "/tree/" in path:
            files = self.server.files.items()
            self._send([{"type": "file", "path": name, "size": len(content), "oid": "b" * 40} for name, content in files])
        else:
            self._send({"id": "org/name", "sha": COMMIT, "siblings": [{"rfilename": name} for name in self.server.files]})

    def do_HEAD(self):
        """Answer without content."""
        self.do_GET(body=False)

    def log_message(self, *_):
        """Say nothing."""

    @property
    def _page(self):
        return f"http://{self.headers['Host']}/datasets/org/name"

    def _chunks(self):
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        return body

    def _send(self, answer, headers={}, *, body=True):  # noqa: B006 - only read
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(200)
        for header, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(header, value)
        self.end_headers()
        self.wfile.write(content if body else b"")


@pytest.mark.skipif(not find_spec("huggingface_hub"), reason="needs huggingface_hub: pip install 'lexbench[neural]'")
def test_a_data_set_of_the_hub_holds_results(tmp_path):
    """The hub's own client makes the data set, sends all files in one commit, and gets the same bytes back."""
    mine = write(tmp_path / "mine", "bm25", "flat")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.files, server.commits, server.made = {}, [], []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": "hf_x", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    environment |= {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HUB_DISABLE_XET": "1"}

    def lexbench(*words):
        command = [sys.executable, "-m", "lexbench", "store", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert not done.returncode, done.stderr
        return done.stdout

    try:
        said = lexbench("push", "hf:org/name", "--results", str(mine), "--private")
        theirs = lexbench("pull", "hf:org/name", "--results", str(tmp_path / "theirs"))
    finally:
        server.shutdown()
        server.server_close()

    assert said.startswith("2 files are at hf:org/name; to fetch them, type: lexbench store pull hf:org/name")
    assert theirs.startswith("2 new files in ")
    assert server.commits == ["Results of lexbench: 2 files"]
    (made,) = server.made
    assert (made["name"], made["type"]) == ("name", "dataset")
    assert made.get("visibility") == "private" or made.get("private")  # the client's word for it, by its version
    assert contents(tmp_path / "theirs") == contents(mine) == server.files
