"""`lexbench.watch`: benchmarks of a training's checkpoints as they are written."""

import shutil

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'lexbench[neural]'")

import checkpoints as models  # noqa: E402
from tiny import answer, ended  # noqa: E402

from lexbench.analysis.watch import checkpoints, curve  # noqa: E402

SYSTEM = 'sparse_mlm(model="{}", dense_ok=True, document_length=32, query_length=32, device="cpu")@csr'


@pytest.fixture
def data(bread, tmp_path):
    """Return a copy of our own collection, which has the splits train, dev and test."""
    return shutil.copytree(bread, tmp_path / "data" / "bread")


def test_a_watch_takes_new_checkpoints_in_their_order_and_goes_on(store, tmp_path, data, capsys):
    """Complete checkpoints come by step, each once, on the split dev; a second watch reads them from the store."""
    run = tmp_path / "run"
    for step in (1000, 900):
        models.sparsified(models.masked_lm(run / f"checkpoint-{step}", "bert", seed=step))
    (run / "checkpoint-1100").mkdir()  # not written yet
    assert [path.name for path in checkpoints(run)] == ["checkpoint-900", "checkpoint-1000"]
    assert checkpoints(run, settled=3600) == []

    watch = ["watch", run, "-r", SYSTEM, "-d", data, "--once"]
    first, second = ended(capsys, 0, *watch).out.splitlines()
    assert first.startswith("checkpoint-900  bread/dev  nDCG@10 ")
    assert second.startswith("checkpoint-1000  bread/dev  nDCG@10 ")
    runs = sorted((store.root / "runs").iterdir())
    assert [point["step"] for point in answer(capsys, *watch, "--json")] == [900, 1000]
    assert sorted((store.root / "runs").iterdir()) == runs
    assert {point["dataset"] for point in answer(capsys, *watch, "--tests-too", "--json")} == {"bread/test"}


def test_choosing_on_a_test_set_has_to_be_typed(tmp_path, data, capsys):
    """Without a dev split, a test set is refused, with the dataset to choose on if its contract names one."""
    (data / "qrels" / "dev.tsv").unlink()
    watch = ["watch", tmp_path, "-r", SYSTEM, "--once", "-d"]
    assert "bread/test is for testing, not for choosing checkpoints" in ended(capsys, 2, *watch, data).err
    said = ended(capsys, 2, *watch, "beir/nfcorpus/test").err
    assert "name a dev split, e.g. beir/nfcorpus/dev, or add --tests-too" in said


def test_the_curve_has_a_bar_each():
    """Bars go from the lowest to the highest value; equal values have equal bars."""
    assert curve([1.0, 3.0, 2.0]) == "▁█▅"
    assert curve([0.3, 0.3]) == "▁▁"
    assert curve([]) == ""
