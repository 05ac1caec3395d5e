"""What a user without a clone gets."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from this checkout."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """Build the source distribution from this checkout."""
    out = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("*.tar.gz"))


def files(folder):
    """Return the paths of all files in a folder of the checkout, relative to it, but for what Python and numba keep there."""
    found = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT / folder).as_posix() for path in found}


def test_the_wheel_holds_every_module_suite_and_recipe(wheel):
    """The wheel has each file of lexbench/, of suites/ and of recipes/, its license and notices, and nothing else."""
    names = zipfile.ZipFile(wheel).namelist()
    places = {"lexbench": "lexbench", "suites": "lexbench/_suites", "recipes": "lexbench/_recipes"}
    expected = {f"{inside}/{name}" for folder, inside in places.items() for name in files(folder)}

    assert {name for name in names if ".dist-info/" not in name} == expected
    assert any(name.startswith("lexbench/_recipes/") and name.endswith(".toml") for name in expected)
    licenses = {name.partition("/licenses/")[2] for name in names if "/licenses/" in name}
    assert licenses == {"LICENSE", "lexbench/catalog/lexmae_nano/NOTICE"}


def test_the_sdist_can_make_the_wheel(sdist):
    """The source distribution has all that the wheel is made of, and the tests."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    for folder in ("lexbench", "suites", "recipes"):
        assert {f"{folder}/{name}" for name in files(folder)} <= names
    assert {"LICENSE", "pyproject.toml", "constraints.txt", "tests/test_packaging.py"} <= names


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


def test_the_wheel_is_small(wheel):
    """In the package weights take at most twelve megabytes, and the rest less than two."""
    sizes = {item.filename: item.compress_size for item in zipfile.ZipFile(wheel).infolist()}
    weights = sum(size for name, size in sizes.items() if name.endswith(".safetensors"))

    assert weights <= 12_000_000
    assert wheel.stat().st_size - weights < 2_000_000
