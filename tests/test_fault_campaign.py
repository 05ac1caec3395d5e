"""The campaign of faults that anyone can run."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "fault_campaign.py"


def test_a_campaign_that_was_cut_off_goes_on(tmp_path, monkeypatch):
    """Finished kinds are read back, but for a line that was cut; of another campaign, or of other code, nothing is."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    campaign = import_module("fault_campaign")
    file = tmp_path / "build" / "state.jsonl"
    assert campaign.read_state(file, "seed 1") == {}
    row = {"kind": "kill", "trials": 2, "survived": 1, "redone": 3, "silent": 0}
    with file.open("a") as state:
        state.write(json.dumps(["kills", row]) + '\n["clocks", {"kind": "a cl')

    assert campaign.read_state(file, "seed 1") == {"kills": campaign.Row(**row)}
    assert file.read_text() == "seed 1\n" + json.dumps(["kills", row]) + "\n"
    assert campaign.read_state(file, "seed 2") == {}
    assert campaign.read_state(None, "seed 2") == {}


@pytest.mark.slow
def test_a_small_campaign_loses_nothing(tmp_path):
    """A few trials of every kind end well: nothing is lost, and no error is silent."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(TOOL), "--trials", "5"], capture_output=True, text=True, env=environment, check=False, timeout=3600
    )

    assert done.returncode == 0, done.stderr
    kinds = [line.split("|")[1:6] for line in done.stdout.splitlines() if line.startswith("| ")][1:]
    assert {kind.strip() for kind, *_ in kinds} >= {"kill -9 in corpora", "kill -9 in training", "hostile inputs", "all"}
    for kind, trials, survived, _redone, silent in kinds:
        assert int(trials.replace(",", "")) > 0, kind
        assert (survived, silent.strip()) == (trials, "0"), kind
