"""`lexbench.watch`: benchmarks of a training's checkpoints as they are written."""

import shutil

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'lexbench[neural]'")

import checkpoints as models  # noqa: E402
from tiny import answer, ended  # noqa: E402

from lexbench.watch import checkpoints, curve  # noqa: E402

SYSTEM = 'sparse_mlm(model="{}", dense_ok=True, document_length=32, query_length=32, device="cpu")@csr'


@pytest.fixture
def dev(bread, tmp_path):
    """Return the dev queries of our own collection."""
    shutil.copytree(bread, tmp_path / "data" / "bread")
    return str(tmp_path / "data" / "bread" / "qrels" / "dev.tsv")


def test_a_watch_takes_new_checkpoints_in_their_order_and_goes_on(store, tmp_path, dev, capsys):
    """Complete checkpoints come by step, each once; a second watch reads them from the store."""
    run = tmp_path / "run"
    for step in (1000, 900):
        models.sparsified(models.masked_lm(run / f"checkpoint-{step}", "bert", seed=step))
    (run / "checkpoint-1100").mkdir()  # not written yet
    assert [path.name for path in checkpoints(run)] == ["checkpoint-900", "checkpoint-1000"]
    assert checkpoints(run, settled=3600) == []

    watch = ["watch", run, "-r", SYSTEM, "-d", dev, "--once"]
    first, second = ended(capsys, 0, *watch).out.splitlines()
    assert first.startswith("checkpoint-900  ")
    assert second.startswith("checkpoint-1000  ")
    runs = sorted((store.root / "runs").iterdir())
    assert [point["step"] for point in answer(capsys, *watch, "--json")] == [900, 1000]
    assert sorted((store.root / "runs").iterdir()) == runs


def test_the_curve_has_a_bar_each():
    """Bars go from the lowest to the highest value; equal values have equal bars."""
    assert curve([1.0, 3.0, 2.0]) == "▁█▅"
    assert curve([0.3, 0.3]) == "▁▁"
    assert curve([]) == ""
