"""The packages in models/: a wheel each, which lexbench finds by its entry point."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="models are in the extra neural")

MODELS = Path(__file__).parent.parent / "models"
if not MODELS.is_dir():
    pytest.skip("the packages of models are in the repository, and not in the source distribution", allow_module_level=True)
NAMES = sorted(path.parent.name for path in MODELS.glob("*/pyproject.toml"))
MOST = 50e6  # bytes of a wheel
ENCODED = """
from lexbench.cli import code
from lexbench.runner import systems
code(["show", "model", "{name}"])
encoder = systems.system("{name}@impact").retriever.encoder
vectors = encoder.encode_query(["how do I sort a list by a key"])
weights = {{encoder.token(term): weight for term, weight in zip(vectors.indices, vectors.data)}}
print(sorted(weights, key=weights.get)[-8:])
"""


@pytest.fixture(scope="module", params=[NAMES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:])])
def installed(request, tmp_path_factory):
    """Build a package's wheel and unpack it into a folder; return name, wheel and folder."""
    folder = tmp_path_factory.mktemp(request.param)
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=MODELS / request.param, check=True, capture_output=True)
    wheel = next(folder.glob("*.whl"))
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return request.param, wheel, folder / "site"


def test_a_wheel_has_the_model_and_is_small(installed):
    """A wheel has weights, exact terms, tokenizer, card, notice and catalogue entry, in at most 50 MB."""
    name, wheel, _ = installed
    names = set(zipfile.ZipFile(wheel).namelist())
    files = ("config.json", "model.safetensors", "exact_terms.safetensors", "tokenizer.json", "README.md", "training.json")
    assert {f"{name}/{name}.toml", *(f"{name}/{name}/{file}" for file in files)} <= names
    assert any(file.endswith("/licenses/NOTICE") for file in names)
    assert wheel.stat().st_size <= MOST


def test_an_installed_model_runs_by_its_name(installed, fast):
    """An installed model is in the catalogue, with licence and command; a question has its own words and similar ones."""
    name, _, site = installed
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(MODELS.parent)])}
    command = [fast / "python", "-c", ENCODED.format(name=name)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    for said in ("weights: included", f"run: lexbench run suite beir -r {name}@impact", "license: Apache-2.0", "'sort'"):
        assert said in done.stdout
    assert "lexmae_mini" in NAMES
