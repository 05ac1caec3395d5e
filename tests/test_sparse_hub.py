"""From a name in the catalogue to a score: models laid out like the public ones come from a hub on this machine."""

import json

import checkpoints
import fruit
import pytest
from hub import HubFolders
from huggingface_hub import constants
from servers import serving
from sparse_models import gte, slideon, sparseup
from tiny import answer, enter

import lexbench.catalog

NAMES = ("linkup_sparseup_v1", "slideon", "opensearch_doc_v3_gte", "granite_30m_sparse", "splade_code_600m")


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """Make a hub with the models."""
    path = tmp_path_factory.mktemp("hub")
    table = gte(path / "gte", max_position_embeddings=512)
    words = {word: 1.0 for word in checkpoints.VOCABULARY if len(word) == 1}
    (table / "idf.json").write_text(json.dumps(words))
    folders = {
        "linkup_sparseup_v1": sparseup(path / "sparseup", scale=12.0, logit_shift=15, position_top_k=12),
        "slideon": slideon(path / "slideon", model_type="slideon"),
        "opensearch_doc_v3_gte": table,
        "granite_30m_sparse": checkpoints.masked_lm(path / "granite", "roberta", form="sparse_encoder"),
        "splade_code_600m": checkpoints.causal_lm(path / "code", "qwen3", max_position_embeddings=512),
    }
    assert tuple(folders) == NAMES
    return HubFolders({str(lexbench.catalog.model(name).settings["model"]): folder for name, folder in folders.items()})


@pytest.fixture
def _served(hub, tmp_path, monkeypatch):
    """Serve the hub, and let this process use it with an empty cache, as HF_ENDPOINT and HF_HOME do for a new one."""
    enter(tmp_path, monkeypatch)
    monkeypatch.delenv("LEXBENCH_OFFLINE")
    with serving(hub.answer) as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        yield


@pytest.mark.usefixtures("_served")
def test_models_are_run_by_their_names(hub, tmp_path, capsys):
    """Download, vectors, index and score come from a name alone; no code of a model runs, and a note says so."""
    typed = [name if name == "slideon" else f"{name}(dense_ok=True)" for name in NAMES]  # random weights give most terms
    systems = [word for one in typed for word in ("-r", f"{one}@impact")]
    data = fruit.write(tmp_path / "fruit")
    found = answer(capsys, "run", "dataset", data, *systems, "-m", "nDCG@10", "--json")

    results = {one["system"].partition("(")[0].partition("@")[0]: one for one in found["results"]}
    assert set(results) == set(NAMES)
    assert all(one["means"]["nDCG@10"] > 0 for one in results.values())
    with_code = {
        name for name, one in results.items() if any("lexbench runs none of it" in note["text"] for note in one["notes"])
    }
    assert with_code == {"linkup_sparseup_v1", "slideon", "opensearch_doc_v3_gte"}
    assert not [name for name in hub.served if name.endswith(".py")]
