"""What several test files use."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Tests run side by side, a core each: what would take all cores takes one, here and in the processes that tests start.
# It is said before numpy, numba or torch is imported.
for _library in ("OMP", "MKL", "OPENBLAS", "RAYON"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of shared data (LEXBENCH_SHARED, or ../shared beside the repository); tests skip without it."""
    place = Path(os.environ.get("LEXBENCH_SHARED") or Path(__file__).parents[2] / "shared")
    if not (place / "data").is_dir():
        pytest.skip(f"no shared data at {place}; set LEXBENCH_SHARED to have it")
    return place


@pytest.fixture(scope="session")
def ir_datasets_home(shared, tmp_path_factory) -> Path:
    """Return a writable copy of the real SciFact and NFCorpus, as ir_datasets keeps them: it builds its stores there."""
    return Path(
        shutil.copytree(shared / "data" / "ir_datasets_home", tmp_path_factory.mktemp("ir") / "datasets", dirs_exist_ok=True)
    )


@pytest.fixture(scope="session")
def plugin_environment(tmp_path_factory) -> dict[str, str]:
    """Install the third-party package of tests/plugin into a folder of its own; return the environment that finds it."""
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(site)]
    subprocess.run([*pip, str(Path(__file__).parent / "plugin")], check=True, capture_output=True)
    return {**os.environ, "PYTHONPATH": str(site), "LEXBENCH_STORE": str(site / "store")}
