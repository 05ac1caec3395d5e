"""A small campaign of faults loses nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CAMPAIGN = Path(__file__).with_name("fault_campaign.py")


@pytest.mark.slow
def test_a_small_campaign_loses_nothing(tmp_path):
    """A few trials of every kind survive, and no error is silent."""
    command = [sys.executable, str(CAMPAIGN), "--trials", "5"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=3600)

    assert done.returncode == 0, done.stderr
    kinds = [line.split("|")[1:6] for line in done.stdout.splitlines() if line.startswith("| ")][1:]
    assert {kind.strip() for kind, *_ in kinds} >= {"kill -9 in corpora", "hostile inputs", "all"}
    for kind, trials, survived, _redone, silent in kinds:
        assert int(trials.replace(",", "")) > 0, kind
        assert (survived, silent.strip()) == (trials, "0"), kind
