"""The wheel and the source distribution."""

import os
import subprocess
import sys
import tarfile
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def built(kind, out):
    """Build a "wheel" or an "sdist" from this checkout into the folder *out*, and return its file."""
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (file,) = out.iterdir()
    return file


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel."""
    return built("wheel", tmp_path_factory.mktemp("dist"))


def files(folder):
    """Return the paths of all files in a folder of the checkout, relative to it, without caches of Python and numba."""
    found = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT / folder).as_posix() for path in found}


def test_the_wheel_holds_every_module_suite_and_recipe(wheel):
    """The wheel has each file of lexbench/, of suites/ and of recipes/, its license and notices, and nothing else.

    Weights take at most twelve megabytes, and the rest less than 2.1.
    """
    names = zipfile.ZipFile(wheel).namelist()
    places = {"lexbench": "lexbench", "suites": "lexbench/_suites", "recipes": "lexbench/_recipes"}
    expected = {f"{inside}/{name}" for folder, inside in places.items() for name in files(folder)}

    assert {name for name in names if ".dist-info/" not in name} == expected
    assert any(name.startswith("lexbench/_recipes/") and name.endswith(".toml") for name in expected)
    licenses = {name.partition("/licenses/")[2] for name in names if "/licenses/" in name}
    assert licenses == {"LICENSE", "lexbench/catalog/lexmae_nano/NOTICE", "suites/pydoc/NOTICE"}
    sizes = {item.filename: item.compress_size for item in zipfile.ZipFile(wheel).infolist()}
    weights = sum(size for name, size in sizes.items() if name.endswith(".safetensors"))

    assert weights <= 12_000_000
    assert wheel.stat().st_size - weights < 2_100_000


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Build the source distribution and unpack it outside the checkout; return its folder."""
    place = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(built("sdist", tmp_path_factory.mktemp("sdist"))) as archive:
        archive.extractall(place, filter="data")
    (folder,) = place.iterdir()
    return folder


def pytest_in(folder, *arguments):
    """Run the tests of an unpacked source distribution with its own lexbench; return what is printed. They must pass."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "LEXBENCH_SHARED": str(folder / "no-shared-data")}
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_sdist_carries_what_its_tests_load(unpacked):
    """The source distribution has every file that the wheel or a test needs."""
    for folder in ("tests", "docs", "tools", "leaderboard", "benchmarks", "lexbench", "suites", "recipes"):
        assert all((unpacked / folder / name).is_file() for name in files(folder))
    assert all((unpacked / name).is_file() for name in ("LICENSE", "pyproject.toml", "constraints.txt", "Makefile"))


@pytest.mark.slow
def test_all_tests_pass_in_the_sdist(unpacked):
    """All tests pass in the source distribution and load its lexbench, except those of this file, which would build again."""
    program = f"import lexbench\n\n\ndef test_where():\n    assert lexbench.__file__.startswith({str(unpacked)!r})\n"
    (unpacked / "tests" / "test_where.py").write_text(program)
    assert " passed" in pytest_in(unpacked, "--ignore", "tests/test_packaging.py")


def test_the_wheel_starts_and_finds_its_suites(wheel, tmp_path):
    """Installed from the wheel, away from any checkout, the command line lists the suites."""
    zipfile.ZipFile(wheel).extractall(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    program = "import lexbench, sys; from lexbench.cli import code; print(lexbench.__file__, file=sys.stderr); "
    program += "sys.exit(code(['list', 'suites']))"
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)

    assert done.stderr.startswith(str(tmp_path))
    for name in ("beir", "msmarco_passage", "msmarco_doc", "trec_dl", "pydoc"):
        assert name in done.stdout


def test_an_index_of_torch_that_cannot_be_reached_is_tried_once(tmp_path):
    """`make install` then takes torch from the ordinary index; an index that answers is used."""
    bins = tmp_path / "bin"
    (tmp_path / ".venv").mkdir()
    bins.mkdir()
    (bins / "python").symlink_to(sys.executable)
    (bins / "pip").write_text('#!/bin/sh\necho "pip $@"\n')
    (bins / "pip").chmod(0o755)
    make = ["make", "-C", tmp_path, "-f", ROOT / "Makefile", f"BIN={bins}", "-o", ".venv/.core", ".venv/.neural"]
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    (tmp_path / "torch").mkdir()
    url = f"http://127.0.0.1:{server.server_port}"
    for index in (url, "", "closed"):
        if index == "closed":
            server.shutdown()
            server.server_close()
        (tmp_path / ".venv" / ".neural").unlink(missing_ok=True)
        given = f"TORCH={index and url}"
        done = subprocess.run([*make, given], capture_output=True, text=True, check=True, timeout=20)
        installed = next(line for line in done.stdout.splitlines() if line.endswith(" torch"))
        assert (f"--extra-index-url {url}" in installed) is (index == url)
        assert (f"{url} cannot be reached, so torch comes from the ordinary index" in done.stdout) is (index == "closed")
