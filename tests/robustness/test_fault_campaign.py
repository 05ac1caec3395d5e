"""Small campaigns of faults lose nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CAMPAIGN = Path(__file__).with_name("fault_campaign.py")
SERVERS = Path(__file__).with_name("server_campaign.py")


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


@pytest.mark.slow
def test_a_small_campaign_on_servers_has_no_wrong_number():
    """Two trials of every kind end in continued work, or in one line and then in right lists."""
    command = [sys.executable, str(SERVERS), "--trials", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)

    assert done.returncode == 0, done.stderr
    counts = [line.split("|")[2:6] for line in done.stdout.splitlines() if line.startswith("| ")][1:]
    assert len(counts) == 16
    assert all(int(trials) == int(continued) + int(one_line) for trials, continued, one_line, _wrong in counts)
