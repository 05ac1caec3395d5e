"""What a user without a clone gets."""

import os
import subprocess
import sys
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


def test_the_wheel_holds_every_module_and_every_suite(wheel):
    """The wheel has each file of lexbench/ and of suites/, its license, and nothing else."""
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    modules = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "lexbench").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    suites = {
        f"lexbench/_suites/{path.relative_to(ROOT / 'suites').as_posix()}"
        for path in (ROOT / "suites").rglob("*")
        if path.is_file()
    }

    assert inside == modules | suites
    assert any(name.endswith("licenses/LICENSE") for name in zipfile.ZipFile(wheel).namelist())


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
    """The package is under two megabytes."""
    assert wheel.stat().st_size < 2_000_000
