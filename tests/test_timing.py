"""Timing: fresh processes, stored durations, statistics by hand, and flags for conditions that were not proved."""

import json
import os
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from fruit import write
from safetensors.numpy import load_file, save
from tiny import answer, ended, measure_here

from lexbench import devices
from lexbench.analysis.stored_results import stored_results
from lexbench.errors import LexbenchError
from lexbench.report.timings import qps_name, timing_tables
from lexbench.results import SINGLE, STAGES
from lexbench.runner import jobs
from lexbench.runner.plan import plan_dataset
from lexbench.runner.search import read_run
from lexbench.runner.systems import system
from lexbench.storage import environment
from lexbench.storage.node import Stored
from lexbench.storage.store import Store
from lexbench.timing import machine
from lexbench.timing.protocol import TimingSettings, sample
from lexbench.timing.stored_timings import latency, read_durations, read_timing, unsteady
from lexbench.timing.timer import Timer, devices_of, differing
from lexbench.trec.runs import Run
from lexbench.types import Hits


@pytest.fixture(scope="module")
def fruit(tmp_path_factory):
    """Return a folder of tiny data and a store for it."""
    place = tmp_path_factory.mktemp("timing")
    return write(place / "fruit"), Store(place / "store")


def timed(fruit, *systems, **settings):
    """Run *systems* with timing; return the outcomes."""
    folder, store = fruit
    planned = plan_dataset(str(folder), systems or ["bm25"], ["nDCG@10"], 10)
    settings = {"threads": 2, "seconds": 0.01, "processes": 1, **settings}
    return list(jobs.run(planned, store, timer=Timer(TimingSettings(**settings))))


@pytest.fixture(scope="module")
def bm25(fruit):
    """Time bm25: with one query in flight in a fresh process, and with all at once in this one."""
    timed(fruit, offline=False)
    with pytest.MonkeyPatch.context() as patch:
        measure_here(patch.setattr)
        (outcome,) = timed(fruit)
    assert outcome.untimed is None
    return outcome.result


def milliseconds(rows):
    """Return milliseconds as durations."""
    return (np.array(rows) * 1e6).astype(np.int64)


def test_every_duration_is_kept(fruit, bm25):
    """The store has the duration of each stage for each pass and query; e2e is measured from start to end."""
    single, offline = bm25.timings
    found = read_durations(fruit[1].root / single.folder)
    queries = len(bm25.query_ids)

    assert {found[stage].shape for stage in STAGES} == {(single.passes, queries)}
    assert {found[f"warm_up.{stage}"].shape for stage in STAGES} == {(single.warm_up, queries)}
    assert single.passes >= 5
    assert 2 <= single.warm_up <= 5
    assert (found["e2e"] == found["encode_query"] + found["search"]).all()
    assert (found["encode_query"] > 0).all()
    assert read_durations(fruit[1].root / offline.folder)["e2e"].shape == (offline.passes, 1)


def test_a_timing_states_its_conditions(bm25):
    """Scenario, depth, exactness and threads are part of it; one thread was proved; the passes returned the run's documents."""
    single, offline = bm25.timings

    assert (single.scenario, single.threads, single.k, single.exact) == (SINGLE, 1, 10, True)
    assert (offline.scenario, offline.threads, offline.stages) == ("offline-2t", 2, {})
    assert (single.checked, offline.checked) == (True, True)
    assert qps_name(single) == "e2e QPS, single-stream-1t, k=10, exact"
    assert set(single.qps) == set(offline.qps) == set(STAGES)
    assert single.fingerprint == machine.fingerprint()
    assert 0 < single.overhead < 0.5
    assert set(single.seconds) == {"open", "first_query"}
    assert sum(single.disk.values()) == bm25.sizes["index"]
    assert 0 < single.cpu_per_wall <= 1.05
    assert not [flag for flag in single.flags if flag.startswith(("threads", "differs"))]
    assert single.memory["baseline"] > 20e6  # numba and numpy alone, which do not count as the system's memory
    assert single.memory["pss_anonymous"] + single.memory["pss_file"] < single.memory["peak_search"]


def test_memory_by_hand(tmp_path):
    """Anonymous pages count in full and other pages of files in proportion, except files with code."""
    places = [
        ("10-20 rw-p 00000000 00:00 0", 100, 50),
        ("20-30 r-xp 00000000 fe:00 7 /lib/a b.so", 30, 0),
        ("30-40 r--p 00001000 fe:00 7 /lib/a b.so", 20, 4),
        ("40-50 r--p 00000000 fe:00 8 /store/index", 10, 0),
        ("50-60 rw-p 00000000 fe:00 9 /store/copied", 7, 5),
        ("60-70 rw-p 00000000 00:00 0 [heap]", 1, 2),
    ]
    rows = [f"{place}\nRss: 900 kB\nPss: {part} kB\nAnonymous: {own} kB\nVmFlags: rd mr\n" for place, part, own in places]
    (tmp_path / "smaps").write_text("".join(rows))

    assert machine.memory(tmp_path) == {"pss_anonymous": 61 << 10, "pss_file": 12 << 10}
    assert machine.memory(tmp_path / "nowhere") == {}


def test_a_timing_is_not_repeated(fruit, bm25, timed_here, monkeypatch):
    """The same command finds the timing; `again` makes a new one; each depth is a separate timing.

    If `again` is interrupted, the store still has the timing before.
    """
    with monkeypatch.context() as patch:
        patch.setattr("lexbench.timing.timer.TimedRun.make", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            timed(fruit, offline=False, again=True)
    (again,) = timed(fruit, offline=False)
    (deeper,) = timed(fruit, offline=False, k=(2, 5))
    (anew,) = timed(fruit, offline=False, k=2, again=True)

    assert again.result.timings == bm25.timings[:1]
    assert [timing.k for timing in deeper.result.timings] == [2, 5]
    assert anew.result.timings[0].folder == deeper.result.timings[0].folder
    assert anew.result.timings[0].stages != deeper.result.timings[0].stages
    (stored,) = stored_results(fruit[1]).entries
    assert sorted(timing.k for timing in stored.result.timings) == [2, 5, 10, 10]


def test_other_code_is_timed_again(fruit, timed_here, monkeypatch):
    """Code and packages that change no answer change durations: each has its own timing, and the newest is shown."""
    (before,) = timed(fruit, "bm25(b=0.3)", offline=False)
    monkeypatch.setattr("lexbench.timing.timer.source_digest", lambda modules: "+".join(sorted(modules)))
    (edited,) = timed(fruit, "bm25(b=0.3)", offline=False)
    facts = Stored(fruit[1].root / edited.result.timings[0].folder).facts
    monkeypatch.setattr(environment, "versions", lambda _packages: {"numpy": "9"})
    (upgraded,) = timed(fruit, "bm25(b=0.3)", offline=False)

    assert {"lexbench.retrievers.bm25", "lexbench.timing.measuring"} <= set(facts["code"].split("+"))
    folders = [one.result.timings[0].folder for one in (before, edited, upgraded)]
    assert len(set(folders)) == 3
    (shown,) = [one.result.timings for one in stored_results(fruit[1]).entries if one.result.system == "bm25(b=0.3)"]
    assert len(shown) == 1


def test_another_machine_is_timed_itself(fruit, bm25, timed_here, monkeypatch):
    """Each fingerprint has its own timing, and a timing with other documents than the run has a flag."""
    monkeypatch.setattr("lexbench.runner.search.SystemRun.open", reversed_run)
    monkeypatch.setattr("lexbench.timing.timer.fingerprint", lambda *_: "elsewhere")
    (outcome,) = timed(fruit, offline=False)

    timing = outcome.result.timings[0]
    assert (timing.fingerprint, timing.checked, "differs" in timing.flags) == ("elsewhere", False, True)
    assert timing.folder != bm25.timings[0].folder


def reversed_run(_node, stored, _parts):
    """Read a run with other documents."""
    found = read_run(stored.folder)
    run = found.run
    return found._replace(run=Run(run.query_ids, run.offsets, run.docs[::-1].copy(), run.scores[::-1].copy(), run.table))


def changed_timing(fruit, bm25, place, facts, conditions=(), **arrays):
    """Read the first timing of *bm25* with other *facts*, *conditions* and *arrays* of durations."""
    folder = shutil.copytree(fruit[1].root / bm25.timings[0].folder, place / "timings" / "x")
    stored = load_file(folder / "durations.safetensors")
    (folder / "durations.safetensors").write_bytes(save({**stored, **arrays}))
    for name, changes in (("facts.json", facts), ("conditions.json", dict(conditions))):
        (folder / name).write_text(json.dumps(json.loads((folder / name).read_bytes()) | changes))
    return read_timing([folder])


def test_workers_have_their_own_flag(fruit, bm25, tmp_path):
    """A timing whose index is searched by workers is not called noisy, and is in no ranking either."""
    line = "workers search, on processes(2); the way there and back takes 1.10 ms of a search"
    quiet = milliseconds(np.tile(np.arange(1, 6), (5, 1)))  # five passes that agree
    facts = {"cpu_per_wall": 0.2, "noise": [], "workers": line}
    found = changed_timing(fruit, bm25, tmp_path, facts, e2e=quiet, null=quiet // 1000)

    assert (found.flags, found.notes, found.unranked) == (["workers"], [line], "timing with workers")


def test_statistics_come_from_the_durations(fruit, bm25, tmp_path):
    """Latencies are medians over passes, then over queries; the rate is of the median pass; flags have reasons."""
    rows = milliseconds([[1, 2, 3, 4, 5], [2, 3, 4, 5, 6], [90, 2, 3, 4, 4]])
    facts = {"cpu_per_wall": 1.31, "noise": ["the load was 9"]}
    found = changed_timing(fruit, bm25, tmp_path, facts, {"differing": 1}, e2e=rows, null=rows // 10)

    assert found.stages["e2e"].p50 == pytest.approx(0.003)  # of 2, 2, 3, 4, 5
    assert found.stages["e2e"].mean == pytest.approx(0.0032)
    assert (found.stages["e2e"].p95, found.stages["e2e"].p99) == (None, None)
    assert found.qps["e2e"] == pytest.approx(5 / 0.020)  # passes of 15, 20 and 103 ms
    assert found.overhead == pytest.approx(0.1)
    assert found.flags == ["noisy", "threads≈1.3", "differs", "overhead"]
    assert not found.checked
    assert "1 of 5 queries got other documents than in the untimed run" in found.notes


def test_percentiles_noise_and_samples_by_hand():
    """Ten queries must lie beyond a percentile: p95 takes 200 and p99 a thousand.

    Medians of 10, 10 and 13 ms vary by 13 %, which is noise; of 10, 10 and 10.5 by 2 %. Queries are sampled evenly.
    """
    found = {n: latency(milliseconds([np.arange(n)])) for n in (199, 200, 999, 1000)}

    assert found[199].p95 is None
    assert found[200].p95 == pytest.approx(0.18905)  # between the 190th and 191st of 0 to 199 ms: 199 x .95
    assert found[999].p99 is None
    assert found[1000].p99 == pytest.approx(0.98901)
    assert unsteady(milliseconds([[10], [10], [13]])) == "passes differ by 13% (coefficient of variation)"
    assert unsteady(milliseconds([[10], [10], [10.5]])) is None
    assert sample(range(10), 4) == [0, 2, 5, 7]
    assert sample("abc", 3) == ["a", "b", "c"]


def test_disturbances_by_hand():
    """Load, stolen time, throttling and heat are each a line; quiet counters are none."""
    quiet = machine.Counters(load=1.0, stolen=0, ticks=0, throttled=2, hot=0)

    assert not list(machine.disturbances(quiet, quiet._replace(ticks=1000, stolen=10), 2))
    lines = list(machine.disturbances(quiet._replace(load=2.5), machine.Counters(9.0, 50, 1000, 4, 1), 2))
    assert lines == [
        "the load was 2.5 on 2 cores before it",
        "other machines on the same host took 5% of the time",
        "the control group was held back 2 times",
        "a core was slowed down because of its heat 1 times",
    ]
    assert machine.crowded(0.95) is None
    assert machine.crowded(0.5) == "it had its core for 50% of the time, or waited for the disk"


def test_a_slower_system_is_found(monkeypatch):
    """Ten percent more on each query is a ratio of 1.1 with an interval around it; beyond a floor of 2 %, not of 15 %."""
    generator = np.random.default_rng(1)
    base = generator.lognormal(0, 0.5, 300) * 1e6
    first, again = (np.stack([base * generator.normal(1, 0.02, 300) for _ in range(5)]).astype(np.int64) for _ in range(2))
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    ratio = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "timing.py"))["ratio_of_medians"]
    slower, same = ratio(first * 11 // 10, again), ratio(first, again)

    assert slower.ratio == pytest.approx(1.1, abs=0.02)
    assert slower.low < slower.ratio < slower.high
    assert (slower.beyond(0.02), slower.beyond(0.15), same.beyond(0.02)) == (True, False, False)
    with pytest.raises(ValueError, match="no pairs"):
        ratio(first, again[:, 1:])


def run_of(docs, scores):
    """Make a run of one query over ten documents."""
    table = np.array([f"d{9 - number}" for number in range(10)], "S2")
    return Run.from_hits(["q"], Hits(np.array([docs], np.int32), np.array([scores], np.float32)), table)


@pytest.mark.parametrize(
    ("docs", "scores", "k", "wrong"),
    [
        ([1, 2, 3], [9, 8, 7], 3, 0),
        ([1, 2], [9, 8], 2, 0),  # fewer were asked for
        ([1, 2], [9, 8], 3, 1),  # one is missing
        ([2, 1, 3], [9, 8, 7], 3, 1),
        ([1, 2, 4], [9, 8, 7.004], 3, 0),  # 4 is as good as 3 except for rounding
        ([1, 2, 5], [9, 8, 7], 3, 1),
        ([1, 2, 6], [9, 8, 7.5], 3, 1),  # a document that the run lacks cannot be better than its last one
        ([], [], 3, 1),
    ],
)
def test_timed_and_untimed_must_agree(docs, scores, k, wrong):
    """Timed and untimed searches have the same documents and scores, except that rounding may swap near ties."""
    untimed = run_of([1, 2, 3, 4, 5], [9, 8, 7, 6.999, 3])

    assert differing(run_of(docs, scores), untimed, k) == wrong


def test_a_system_without_timing_keeps_its_scores(fruit, tmp_path, monkeypatch):
    """A finished run, and a system whose measuring process fails, have scores and one line about the missing timing."""
    monkeypatch.setattr("lexbench.timing.timer.chosen_weights", lambda *_: 3)  # makes a task that cannot be read
    (tmp_path / "r.trec").write_text("qa Q0 a4 1 2.0 x\n")
    finished, failed = timed(fruit, f'run_file(path="{tmp_path / "r.trec"}")', "bm25(k1=0.7)")

    assert finished.result.means["nDCG@10"] >= 0
    assert "is a finished run" in finished.untimed
    assert failed.result.means
    assert failed.untimed.startswith("the process that timed it ended with 1: msgspec.ValidationError: Expected `array`")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="child processes are found in /proc")
def test_a_measuring_process_ends_with_its_parent(tmp_path):
    """When a run is killed while it times a system, here by a module that never ends, the measuring process ends soon."""
    (tmp_path / "endless.py").write_text(f"import time\nopen({str(tmp_path / 'begun')!r}, 'w').close()\ntime.sleep(300)\n")
    program = "import sys; from lexbench.timing.protocol import MemoryBaseline, run_task; sys.path.append(sys.argv[1])\n"
    program += "run_task(MemoryBaseline(modules=['endless'], out=''), 1)"
    run = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    begin = time.monotonic()
    while not (tmp_path / "begun").exists():
        assert time.monotonic() - begin < 60
        time.sleep(0.05)
    (measuring,) = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    assert "lexbench.timing" in command_of(measuring)
    run.kill()
    run.wait()
    begin = time.monotonic()
    while "lexbench.timing" in command_of(measuring):
        assert time.monotonic() - begin < 20
        time.sleep(0.05)


def command_of(pid):
    """Return the command line of a process; "" if there is no such process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_systems_take_turns(fruit, timed_here, tmp_path, monkeypatch):
    """Three processes of two systems are timed A B, B A, A B; a system that fails is left out of later rounds.

    The processes of a system are one timing, with the range of their rates.
    """
    order = []

    def measured(measurement, *_):
        order.append(measurement.asked.job.system.name)
        if order.count("bm25(k1=2.0)") == 2 and order[-1] != "bm25":
            raise LexbenchError("it broke")
        return 0

    monkeypatch.setattr("lexbench.timing.timer.TimedRun._differing", measured)
    settings = {"processes": 3, "offline": False}
    first, second = timed((fruit[0], Store(tmp_path)), "bm25", "bm25(k1=2.0)", **settings)

    assert order == ["bm25", "bm25(k1=2.0)", "bm25(k1=2.0)", "bm25", "bm25"]
    (timing,) = first.result.timings
    low, high = timing.qps_range["e2e"]
    assert (timing.processes, timing.passes >= 15, low <= high, timing.first_pass["e2e"].p50 > 0) == (3, True, True, True)
    assert (first.untimed, second.untimed, second.result.timings) == (None, "it broke", [])
    assert second.result.means


def test_a_fusion_with_chosen_weights_is_timed(fruit, timed_here):
    """An ensemble whose weights a run chose returns, timed, the documents of that run."""
    (outcome,) = timed(fruit, 'ensemble(bm25, bm25(k1=2.0), weights="oracle")', offline=False)

    assert outcome.untimed is None
    assert outcome.result.timings[0].checked


def test_tables_name_the_conditions(bm25):
    """A rate is shown with scenario, depth, exactness and machine; a percentile without enough queries is not shown."""
    latencies, memory, rates = timing_tables([bm25])

    assert latencies.title == "fruit: latency in ms; e2e QPS, single-stream-1t, k=10, exact"
    assert rates.title == "fruit: QPS, offline-2t, k=10, exact"
    assert latencies.header[1:4] == ("encode\np50", "search\np50", "e2e\np50")
    assert bm25.timings[0].fingerprint in latencies.notes[0]
    assert memory.rows[0][-2] == f"{bm25.sizes['index'] / 6:,.0f}"
    assert any("p95 takes 200 queries" in note for note in latencies.notes)


def test_the_command_line_times(fruit, bm25, capsys, monkeypatch):
    """--time prints tables, or one document with --json; --time-single leaves out the offline scenario and its threads."""
    monkeypatch.setenv("LEXBENCH_STORE", str(fruit[1].root))
    words = [
        "run",
        "dataset",
        str(fruit[0]),
        "-m",
        "nDCG@10",
        "--depth",
        "10",
        "--time-seconds",
        ".01",
        "--time-processes",
        "1",
    ]

    assert "single-stream-1t, k=10, exact" in ended(capsys, 0, *words, "--time", "--time-threads", "2").out
    for scenarios, more in (([SINGLE, "offline-2t"], ["--time-threads", "2"]), ([SINGLE], ["--time-single"])):
        timings = answer(capsys, *words, "--time", "--json", *more)["results"][0]["timings"]
        assert [timing["scenario"] for timing in timings] == scenarios
        assert timings[0]["folder"] == bm25.timings[0].folder


@pytest.mark.slow
def test_each_device_is_timed_itself(fruit, timed_here):
    """Systems that differ only in a device have one run, and a timing for each device."""
    pytest.importorskip("torch")
    systems = "lexmae_nano@impact", 'lexmae_nano(device="cpu")@impact'
    one, other = timed(fruit, *systems, offline=False)

    assert one.kept == other.kept
    assert one.result.timings[0].folder != other.result.timings[0].folder
    assert devices_of(system("lexmae_nano@impact").retriever) == []
    assert devices_of(system('lexmae_nano(device="cpu,cpu")@impact').retriever) == ["cpu,cpu"]


def test_what_a_gpu_computes_is_timed_to_its_end(fruit, timed_here, monkeypatch):
    """Each step waits for the GPU that it used; the timing names it, has its peak memory, and is compared within it only.

    The GPU is imitated: a call returns at once, and waiting for it takes 4 milliseconds.
    """
    card = "NVIDIA H100 80GB HBM3"
    imitated = {"used_gpus": lambda: [0], "used_gpu_names": lambda: [card], "peak_gpu_memory": lambda: 1 << 30}
    imitated |= {"wait_for_gpus": lambda: time.sleep(0.004), "reset_peak_gpu_memory": lambda: None}
    for name, value in imitated.items():
        monkeypatch.setattr(devices, name, value)

    (outcome,) = timed(fruit, "bm25(k1=1.1)", offline=False)
    assert outcome.untimed is None
    (single,) = outcome.result.timings

    assert all(single.stages[stage].p50 >= 0.004 for stage in ("encode_query", "search"))
    assert single.memory["peak_gpu"] == 1 << 30
    assert single.machine["computed_on"] == [card]
    assert single.fingerprint == machine.fingerprint([card]) != machine.fingerprint()
    assert "gpu" in single.flags
    assert f"{card} computed: it is compared only with what the same GPU computed" in single.notes
    assert "noisy" not in single.flags or not any("had its core" in note for note in single.notes)


def test_a_card_is_stated_with_memory_clock_power_and_driver(tmp_path, monkeypatch):
    """The facts of the machine have a line per card, from nvidia-smi; without it, or where it fails, what the kernel tells."""
    smi = tmp_path / "nvidia-smi"
    line = "NVIDIA H100 80GB HBM3, 81559 MiB, 1980 MHz, 700.00 W, 570.86.15"
    smi.write_text(f"#!/bin/sh\ntest \"$2\" = --format=csv,noheader || exit 1\necho '{line}'\n", encoding="utf-8")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert machine._gpus() == [line]
    smi.write_text("#!/bin/sh\nexit 9\n", encoding="utf-8")
    assert machine._gpus() == [] or Path("/proc/driver/nvidia").exists()
