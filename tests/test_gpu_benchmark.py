"""`benchmarks/gpu.py` at tiny sizes on the processor: every row, the time limits, and what is written."""

import json
import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("sentence_transformers")

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu.py"
TINY = Namespace(device="cpu", tiny=True)


@pytest.fixture(scope="module")
def gpu():
    """Return the names of the script, with the folder of benchmarks on the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        module = import_module("gpu")
        patch.setattr(module, "PASSES", 1)
        yield vars(module)


def measured(gpu, name, folder):
    """Measure a row in this process; return what it wrote."""
    gpu["ROWS"][name].measure(gpu["Bench"](TINY, folder / "row.json", 60))
    return json.loads((folder / "row.json").read_text())


NEEDS = "is for"  # in the reason why tf32 is left out on a processor
ROWS = {
    "flat": {"lexbench float32", "lexbench bfloat16", "torch float32", "torch float16", "products alone, torch float32"},
    "maxsim": {"lexbench float32", "lexbench bfloat16"},
    "bert-base-60": {"lexbench float32", "sentence-transformers float32 128", "lexbench, queries alone"},
    "splade": {"lexbench float32", "SparseEncoder float32 128"},
    "cross-encoder": {"lexbench float32", "CrossEncoder float32 128"},
    "modernbert-250": {"lexbench float32", "sentence-transformers float32 128"},
}


@pytest.mark.parametrize("row", ["flat", *(pytest.param(row, marks=pytest.mark.slow) for row in ROWS if row != "flat")])
def test_every_row_runs(gpu, row, tmp_path):
    """Each contender has a rate, our rows are ratios to their peers, and what cannot run is left out with a reason."""
    found = measured(gpu, row, tmp_path)

    assert found["rates"].keys() >= ROWS[row]
    assert all(NEEDS in why or "not installed" in why or "no GPUs" in why for why in found["left_out"].values()), found[
        "left_out"
    ]
    assert any(name.startswith("lexbench") for name in gpu["ratios"](found["rates"]))
    shares = [value for fact, value in found["facts"].items() if fact.startswith("share of the first")]
    assert all(share > 0.9 for share in shares)
    assert bool(shares) == (row in {"flat", "maxsim"})


def test_ratios_are_to_the_best_peer_in_the_same_precision(gpu):
    """The fastest batch of a peer counts, and so does float16 beside bfloat16; other precisions do not."""
    rates = {
        "lexbench float32": 6.0, "lexbench bfloat16": 60.0, "lexbench tf32": 9.0, "torch float32": 3.0,
        "products alone, torch float32": 8.0, "peer bfloat16 128": 10.0, "peer float16 512": 20.0, "lexbench, alone": 5.0,
    }  # fmt: skip

    assert gpu["ratios"](rates) == {"lexbench float32": 2.0, "lexbench bfloat16": 3.0}


def test_a_contender_that_fails_is_left_out(gpu, tmp_path):
    """Its error is one line, and the next contender is measured."""
    bench = gpu["Bench"](TINY, tmp_path / "row.json", 60)

    def broken():
        raise RuntimeError("CUDA error: out of memory\nmore lines")

    bench.contend("broken", 1, broken)
    bench.contend("sound", 100, lambda: lambda: "answer")
    found = json.loads((tmp_path / "row.json").read_text())
    assert found["left_out"] == {"broken": "RuntimeError: CUDA error: out of memory"}
    assert found["rates"].keys() == {"sound"}


def test_the_command_writes_after_each_row_and_keeps_its_limit(gpu, tmp_path, monkeypatch, capsys):
    """A row that is cut off says so, a row without time left is not measured, and the JSON file has both."""
    file = tmp_path / "gpu.json"
    command = [str(SCRIPT), "--device", "cpu", "--tiny", "--json", str(file), "--seconds", "60", "--rows", "flat,maxsim"]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setitem(gpu, "PRELOADED", [])  # it computes little
    measured_row = gpu["in_own_process"]

    def too_long(*given):
        """Measure a row; after it no more time is left."""
        row = measured_row(*given)
        monkeypatch.setitem(gpu, "LEAST", 60)
        return row

    monkeypatch.setitem(gpu, "in_own_process", too_long)
    for name in ("HF_HUB_OFFLINE", "TOKENIZERS_PARALLELISM"):  # the command sets them
        monkeypatch.setenv(name, "true")
    gpu["main"]()
    answer = json.loads(file.read_text())

    assert list(answer["rows"]) == ["flat", "maxsim"]
    assert answer["rows"]["maxsim"] == {
        "rates": {}, "incomplete": "not measured: no time was left", "unit": "queries/s", "goal": "2", "ratios": {},
    }  # fmt: skip
    assert "maxsim: queries/s, goal 2 times; not measured: no time was left" in capsys.readouterr().out
    assert answer["machine"]["processor"]
    monkeypatch.setattr(sys, "argv", [*command[:-1], "flat,other"])
    with pytest.raises(SystemExit):
        gpu["main"]()
    assert "no row 'other'; there is flat, bert-base-250" in capsys.readouterr().err


def test_a_row_that_hangs_is_cut_off(gpu, tmp_path, monkeypatch):
    """Its process is killed at the limit."""
    monkeypatch.setitem(gpu, "PRELOADED", [])  # it computes nothing
    found = gpu["in_own_process"]("flat", TINY, 0.01, tmp_path)

    assert found["incomplete"] == "cut off after 0 s"
    assert found["rates"] == {}
