"""Retrieval gates: the rule, the command with its exit codes and files, and the pytest fixture."""

import json
import os
import re
import shutil
import subprocess
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import samples
from tiny import ended

from lexbench.analysis.gate.checks import check, judge, measure
from lexbench.analysis.gate.files import Gate
from lexbench.cli import code
from lexbench.results import Latency
from lexbench.storage.store import Store

WORSE = "bm25(b=0.0, k1=0.01)"  # counts no term twice and ignores lengths


@pytest.mark.parametrize(
    ("queries", "change", "verdict"),
    [
        (50, 0.0, "pass"),
        (50, 0.1, "pass"),
        (400, -0.01, "pass"),  # significant, but within the margin
        (50, -0.1, "fail"),  # 50 of 50 lose .1: p = 2^-50
        (8, -0.1, "cannot tell"),  # 8 of 8 lose: p = 2^-8 = .004, above .05 / 100
        (11, -0.1, "fail"),  # p = 2^-11 = .00049, below .0005
        (10, -0.1, "cannot tell"),  # p = 2^-10 = .00098
    ],
)
def test_verdict(queries, change, verdict):
    """A gate fails if the mean fell by more than .02 and p is at most .0005; one of both is not enough."""
    assert judge(np.full(queries, 0.5), np.full(queries, 0.5 + change)).verdict == verdict


def test_queries_needed_are_enough():
    """With the number of queries that the verdict names, of the same kind, the gate can tell."""
    rng = np.random.default_rng(0)
    fall = np.clip(rng.normal(-0.06, 0.15, 20), -0.5, 0.5)
    small = judge(np.full(20, 0.5), 0.5 + fall)

    assert small.verdict == "cannot tell"
    assert judge(np.full(small.needed, 0.5), 0.5 + np.resize(fall, small.needed)).verdict == "fail"


def test_false_alarms_over_100_commits():
    """Of 200 histories of 100 commits of a system that is only noisy, at most 5 % have a failure.

    A gate that tests each commit at .05 fails in half of them. Baseline and commits differ by the same noise.
    """
    rng = np.random.default_rng(1)
    failed = naive = 0
    for _ in range(200):
        noise = rng.normal(0, 0.1, (101, 30)) * (rng.random((101, 30)) < 0.3)
        baseline, *commits = 0.5 + np.clip(noise, -0.5, 0.5)
        differences = np.array(commits) - baseline
        t = differences.mean(axis=1) / (differences.std(axis=1, ddof=1) / np.sqrt(30))
        naive += bool((t < -1.7).any())  # one-sided .05 at 29 degrees of freedom
        # Only these can have p <= .0005; testing all of them would take minutes.
        failed += any(judge(baseline, commits[at], margin=0.001).verdict == "fail" for at in np.flatnonzero(t < -2.5))

    assert failed <= 0.05 * 200
    assert naive > 0.4 * 200


@pytest.fixture(scope="module")
def made(tmp_path_factory, bread):
    """Make a folder with a gate of bm25 on the bread collection."""
    folder = tmp_path_factory.mktemp("made") / "gate"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("LEXBENCH_STORE", str(folder / "store"))
        assert code(["gate", "init", "-d", str(bread), "-r", "bm25"]) == 0
    return folder


@pytest.fixture
def gate_folder(made, tmp_path, monkeypatch):
    """Return a copy of that folder as the current folder."""
    monkeypatch.chdir(shutil.copytree(made, tmp_path / "gate"))
    monkeypatch.setenv("LEXBENCH_STORE", str(tmp_path / "gate" / "store"))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return tmp_path / "gate"


def set_gate(folder, old, new):
    """Replace *old* in the file of the gate."""
    path = folder / "lexbench-gate.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_unchanged_system_passes(gate_folder, capsys):
    """`gate` after `gate init` exits with 0, and the answer is in the first lines."""
    assert ended(capsys, 0, "gate").out.splitlines() == [
        "pass: 1 of 1 gates pass",
        "bread: pass: nDCG@10 0.8183, equal to the baseline on all 16 queries",
    ]


def test_exit_codes_and_files(gate_folder, monkeypatch, capsys):
    """A significant fall exits with 1, and one on too few queries with 2. All outputs agree."""
    outputs = ["--markdown", "out.md", "--junit", "out.xml"]
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(gate_folder / "summary.md"))
    set_gate(gate_folder, '"bm25"', f'"{WORSE}"')

    said = " ".join(ended(capsys, 2, "gate", *outputs).out.split())
    assert "more than the margin of 0.02; needs about 115 queries, has 16 (p 0.031" in said
    assert ET.parse("out.xml").find("testcase/skipped") is not None

    set_gate(gate_folder, "commits = 100", "commits = 1")
    failed = "fail: 0 of 1 gates pass\nbread: fail: nDCG@10 fell by 0.0234 (0.8183 → 0.7949)"
    assert ended(capsys, 1, "gate", *outputs).out.startswith(failed)
    markdown = (gate_folder / "out.md").read_text()
    assert "| bread | ❌ fail | nDCG@10 | 0.8183 | 0.7949 | -0.0234 | 0.02 | 16 |" in markdown
    assert (gate_folder / "summary.md").read_text().endswith(markdown)
    case = ET.parse("out.xml").find("testcase")
    assert (case.get("classname"), case.get("name")) == ("lexbench.gate.bread", "quality")
    assert case.find("failure").get("message").startswith("bread: fail: nDCG@10 fell by 0.0234")

    report = json.loads(ended(capsys, 1, "gate", "--json").out)
    assert report["verdict"] == "fail"
    queries = report["gates"][0]["worst_queries"]
    assert [query["query"] for query in queries] == ["q07", "q08", "q13", "q02", "q03"]
    moved = queries[0]["moved"][0]
    assert moved["baseline_rank"] < (moved["rank"] or 1000)
    assert f"↳ {moved['document']} {moved['baseline_rank']} → {moved['rank'] or '—'}: {moved['beginning']}" in markdown


def test_update_prints_the_changes(gate_folder, capsys):
    """`gate update` accepts the new scores and prints the change; then the gate passes."""
    set_gate(gate_folder, '"bm25"', f'"{WORSE}"')

    assert ended(capsys, 0, "gate", "update").out.splitlines() == [
        "bread: nDCG@10 0.8183 → 0.7949; queries: 1 better, 5 worse",
        f"bread: system: bm25 → {WORSE}",
    ]
    assert code(["gate"]) == 0


def test_gates_of_several_systems(gate_folder, bread, capsys):
    """A second `init` adds a gate, also of a Python object; the worst verdict is the exit code."""
    (gate_folder / "mine.py").write_text("from lexbench.retrievers.bm25 import BM25\nsearch = BM25()\n")
    added = ended(capsys, 0, "gate", "init", "-d", bread, "-r", "mine:search", "--file", "a b.toml")
    assert added.out.endswith("test: lexbench gate --file 'a b.toml'\n")
    assert code(["gate", "init", "-d", str(bread), "-r", "mine:search", "--name", "mine"]) == 0
    assert code(["gate"]) == 0
    set_gate(gate_folder, '"bm25"', f'"{WORSE}"')

    assert code(["gate"]) == 2


def test_a_second_gate_needs_another_name(gate_folder, bread, capsys):
    """A gate with a name that is taken is refused and changes no file. 1 and 2 are verdicts, so the exit code is 3."""
    before = (gate_folder / "lexbench-gate.toml").read_text()

    assert "has a gate 'bread'" in ended(capsys, 3, "gate", "init", "-d", bread, "-r", "bm25").err
    assert (gate_folder / "lexbench-gate.toml").read_text() == before


def test_other_data_is_refused(gate_folder, capsys):
    """A gate whose judgements changed since the baseline exits with 3, with the command to type."""
    path = gate_folder / "lexbench-gate.json"
    baseline = json.loads(path.read_text())
    baseline["bread"]["digests"]["qrels"] = "0" * 64
    path.write_text(json.dumps(baseline))

    error = ended(capsys, 3, "gate").err
    assert "gate 'bread': qrels (000000000000" in error
    assert "changed since the baseline; accept the present scores: lexbench gate update" in error
    baseline["bread"]["digests"] = {}
    baseline["bread"]["values"]["no such query"] = baseline["bread"]["values"].pop("q01")
    path.write_text(json.dumps(baseline))
    assert "query 'no such query' is not in both its baseline and its dataset" in ended(capsys, 3, "gate").err
    for wrong in (b"[" * 100_000, b"\xff", path.read_bytes().replace(b'"q02": ', b'"q02": 1')):
        path.write_bytes(wrong)
        assert "lexbench-gate.json: " in ended(capsys, 3, "gate").err


@pytest.mark.parametrize("measure", ["nDCG@10", "RR@10", "Success@5"])
def test_an_edited_baseline_is_refused(gate_folder, capsys, measure):
    """A value that is not that of the ranks beside it has been edited; those that lexbench writes agree."""
    set_gate(gate_folder, 'measure = "nDCG@10"', f'measure = "{measure}"')
    ended(capsys, 0, "gate", "update")
    ended(capsys, 0, "gate")
    path = gate_folder / "lexbench-gate.json"
    baseline = json.loads(path.read_text())
    value = baseline["bread"]["values"]["q02"]
    baseline["bread"]["values"]["q02"] = value / 2
    path.write_text(json.dumps(baseline))

    error = ended(capsys, 3, "gate").err
    assert f"its baseline has {value / 2:g} for query 'q02', and the ranks beside it give {value:.6g}" in error


@pytest.mark.parametrize("system", ["bm25", "bm25(k1=2.0)"])
def test_an_edited_baseline_with_ranks_to_match_is_refused_while_its_system_is_known(gate_folder, capsys, system):
    """Who lowers a baseline, ranks included, is found by the system itself, or later by what the store kept of it."""
    ended(capsys, 0, "gate", "update")
    set_gate(gate_folder, 'system = "bm25"', f'system = "{system}"')
    path = gate_folder / "lexbench-gate.json"
    baseline = json.loads(path.read_text())
    baseline["bread"]["values"]["q02"], baseline["bread"]["ranks"]["q02"] = 0.0, {}
    path.write_text(json.dumps(baseline))

    error = ended(capsys, 3, "gate").err
    where = "the same system has" if system == "bm25" else "the same system had, in "
    assert "its baseline has 0 for query 'q02', and " + where in error
    baseline["bread"]["lexbench"] = "0.0.1"  # of another version nothing is known
    path.write_text(json.dumps(baseline))
    assert "same system" not in ended(capsys, 0, "gate").err


def speed(qps, p50, spread):
    """Return a timing whose processes differ by the factor *spread*."""
    between = {"e2e": (qps / spread**0.5, qps * spread**0.5)}
    return samples.timing(qps, stages={"e2e": Latency(p50=p50, mean=p50)}, qps_range=between)


@pytest.mark.parametrize(
    ("limits", "verdict"),
    [
        ({"max_index_bytes": 10**9}, "pass"),
        ({"max_index_bytes": 10}, "fail"),
        ({"reference": "bm25", "min_qps_ratio": 0.4}, "pass"),  # measured: half of the reference, processes differ by 1.21
        ({"reference": "bm25", "min_qps_ratio": 0.55}, "cannot tell"),
        ({"reference": "bm25", "min_qps_ratio": 0.8}, "fail"),
        ({"reference": "bm25", "max_latency_ratio": 2.5}, "pass"),
        ({"reference": "bm25", "max_latency_ratio": 1.8}, "cannot tell"),
        ({"reference": "bm25", "max_latency_ratio": 1.2}, "fail"),
    ],
)
def test_limits(tmp_path, bread, limits, verdict):
    """A speed limit fails only if it is missed by more than processes of the same system differ."""
    gate = Gate(name="bread", dataset=str(bread), system="bm25", **limits)
    timings = [speed(50, 0.02, 1.1), speed(100, 0.01, 1.1)] if gate.reference else []
    measured = measure(gate, tmp_path, Store(tmp_path / "store"), timed=False)._replace(timings=timings)

    assert check(gate, measured, measured.baseline(), Store(tmp_path / "store")).verdict == verdict


TESTS = """
import os
import pytest

@pytest.mark.parametrize("measure", ["nDCG@10", "P@25", "R@100"])
def test_search(lexbench_gate, measure):
    lexbench_gate(os.environ["SYSTEM"], dataset="./retrieval", measure=measure)
"""


def run_pytest(python, folder, system, *arguments):
    """Run pytest in *folder* and return its output."""
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "lexbench.pytest_plugin", *arguments]
    own = {"LEXBENCH_STORE": str(folder / "store"), "SYSTEM": system, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment = {**os.environ, **own}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


def test_pytest_fixture(fast, tmp_path, bread):
    """A worse system fails and shows its worst queries; too few queries are a warning; without a baseline a test fails."""
    (tmp_path / "retrieval").symlink_to(bread)
    (tmp_path / "test_it.py").write_text(TESTS)
    assert "3 passed" in run_pytest(fast / "python", tmp_path, "bm25", "--lexbench-update")
    precision, recall = (tmp_path / "lexbench-gates" / f"test_it.test_search_{name}_.json" for name in ("P_25", "R_100"))
    recall.unlink()
    ((name, baseline),) = json.loads(precision.read_text()).items()
    # Above every P@25 of bm25, and most of all where documents fall. Ranks, which are fewer, cannot contradict it.
    baseline["values"] = dict.fromkeys(baseline["values"], 0.9) | {"q07": 1.0, "q08": 1.0}
    baseline["system_sha256"] = ""  # else the store would contradict it
    precision.write_text(json.dumps({name: baseline}))

    output = run_pytest(fast / "python", tmp_path, WORSE)
    assert "2 failed, 1 passed, 1 warning" in output
    assert "CannotTell: test_it.test_search[nDCG@10]: cannot tell: nDCG@10 fell by 0.0234" in output
    assert "test_it.test_search[P@25]: fail: P@25 fell by " in output
    assert "  0.9000 → 0.0400  q" in output
    assert re.search(r"\n    ↳ \S+ \d+ → (\d+|—): ", output)
    assert "test_it.test_search[R@100] has no baseline; accept the present scores: pytest --lexbench-update" in output
