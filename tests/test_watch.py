"""`lexbench.watch`: benchmarks of a training's checkpoints as they are written."""

import shutil

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'lexbench[neural]'")

import checkpoints as models  # noqa: E402
from tiny import answer, ended  # noqa: E402

import lexbench  # noqa: E402
from lexbench.analysis.watch import checkpoints, curve  # noqa: E402
from lexbench.display.progress import Progress  # noqa: E402
from lexbench.errors import CommandError, InvalidFile, UnknownName  # noqa: E402

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
    assert {point["dataset"] for point in answer(capsys, *watch, "--split", "train", "--json")} == {"bread/train"}


def test_a_point_says_how_sure_it_is_and_how_large(store, tmp_path, data, capsys):
    """A point has intervals, terms per document, the paired difference from the best, values per query, and a figure."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; pip install 'lexbench[figures]'")
    run, plot = tmp_path / "run", tmp_path / "curve"
    for step in (1, 2):
        models.sparsified(models.masked_lm(run / f"checkpoint-{step}", "bert", seed=step))
    watch = ["watch", run, "-r", SYSTEM, "-d", data, "--once"]
    said = ended(capsys, 0, *watch, "--plot", plot)
    assert "2 checkpoints, which are folders with config.json or modules.json" in said.err
    assert "each is searched on bread/dev" in said.err
    one, two = answer(capsys, *watch, "--json")
    for point in (one, two):
        values = list(point["per_query"]["nDCG@10"].values())
        assert sum(values) / len(values) == pytest.approx(point["means"]["nDCG@10"])
        low, high = point["intervals"]["nDCG@10"]
        assert low <= point["means"]["nDCG@10"] <= high
    assert f"{two['vectors']['terms']['mean']:.1f} terms/doc." in said.out.splitlines()[1]
    change = two["means"]["nDCG@10"] - one["means"]["nDCG@10"]
    assert f"  {change:+.4f} [" in said.out.splitlines()[1]
    assert "to checkpoint-1 " in said.out.splitlines()[1]
    assert {path.suffix for path in tmp_path.glob("curve.*")} == {".svg", ".png", ".pdf"}


def test_a_watch_waits_for_checkpoints_and_survives_broken_ones(store, tmp_path, data, monkeypatch):
    """The folder may come later; a broken checkpoint is a point with an error; a rewritten one is benchmarked again."""
    monkeypatch.setattr("lexbench.analysis.watch._SETTLED", 0.0)
    said, run = [], tmp_path / "run"

    class Notes(Progress):
        def note(self, line):
            said.append(line)

    points = lexbench.watch(run, SYSTEM, [str(data)], every=0.05, progress=Notes())
    assert "0 checkpoints" in said[0]
    made = models.sparsified(models.masked_lm(tmp_path / "elsewhere", "bert", seed=1))
    shutil.copytree(made, run / "last")
    first = next(points)
    assert (first.error, first.checkpoint.name, first.step) == ("", "last", None)
    shutil.copytree(made, run / "step-5")
    (run / "step-5" / "config.json").write_text("{")
    broken = next(points)
    assert (broken.result, broken.step) == (None, 5)
    assert "config.json" in broken.error
    other = models.sparsified(models.masked_lm(tmp_path / "other", "bert", seed=2))
    shutil.copytree(other, run / "last", dirs_exist_ok=True)
    again = next(points)
    assert (again.checkpoint.name, again.error, len(again.earlier)) == ("last", "", 1)


def test_modules_of_a_model_are_no_checkpoints(tmp_path):
    """A folder of sentence-transformers is one checkpoint, although its modules have files of models; adapters are found."""
    run = tmp_path / "run"
    for name in ("0_Transformer/config.json", "0_Transformer/model.safetensors", "modules.json", "a/adapter_config.json"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).touch()
    (run / "a" / "adapter_model.safetensors").touch()
    (run / "modules.json").write_text('[{"path": "0_Transformer"}]')
    assert checkpoints(run) == [run / "a", run]


def test_mistakes_are_found_before_the_first_checkpoint_is_waited_for(tmp_path, data):
    """A mistyped name, a setting without a place, missing columns and a test split are refused when the watch begins."""
    with pytest.raises(UnknownName, match="sprase_mlm"):
        lexbench.watch(tmp_path, 'sprase_mlm(model="{}")@impact', [str(data)])
    with pytest.raises(CommandError, match="for testing"):
        lexbench.watch(tmp_path, SYSTEM, [str(data)], split="test")
    (data / "queries.jsonl").write_text('{"number": "q1", "words": "rye"}\n')
    with pytest.raises(InvalidFile, match="number, words"):
        lexbench.watch(tmp_path, SYSTEM, [str(data)])


def test_choosing_on_a_test_set_has_to_be_typed(tmp_path, data, capsys):
    """Without a dev split, a test set is refused, with the dataset to choose on if its contract names one."""
    (data / "qrels" / "dev.tsv").unlink()
    watch = ["watch", tmp_path, "-r", SYSTEM, "--once", "-d"]
    assert "bread/test is for testing, not for choosing checkpoints" in ended(capsys, 2, *watch, data).err
    said = ended(capsys, 2, *watch, "beir/nfcorpus/test").err
    assert "name a dev split, e.g. beir/nfcorpus/dev, or add --tests-too" in said


def test_the_curve_has_a_bar_each_and_an_axis_that_noise_does_not_fill():
    """Bars go from the lowest to the highest end of an interval, which stand beside them; without a width they are lowest."""
    assert curve([1.0, 8.0, 4.0], [(1.0, 2.0), (6.0, 8.0), (3.0, 5.0)]) == "1.000 ▁█▄ 8.000"
    assert curve([0.5000, 0.5015], [(0.4, 0.6), (0.4015, 0.6015)]) == "0.400 ▄▅ 0.602"
    assert curve([0.3, 0.3], [(0.3, 0.3), (0.3, 0.3)]) == "0.300 ▁▁ 0.300"
