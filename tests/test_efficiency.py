"""Timing: a fresh process per system, every duration kept, statistics by hand, and nothing said that was not proved."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from fruit import write
from safetensors.numpy import load_file, save

import lexbench
from lexbench.analysis.stored_results import stored_results
from lexbench.cli import code
from lexbench.errors import LexbenchError
from lexbench.report.run import qps_name, timing_tables
from lexbench.runner import jobs
from lexbench.runner.plan import plan_dataset
from lexbench.runner.systems import system
from lexbench.storage.store import Store
from lexbench.timing import counters, fingerprint, fork_server, statistics
from lexbench.timing.child import chosen_weights, with_threads, with_weights
from lexbench.timing.loop import Work, serve
from lexbench.timing.measure import Timer, differing
from lexbench.timing.protocol import SINGLE, STAGES, Scenario, Settings, Task, sample
from lexbench.timing.stored_timings import read_durations, read_timing
from lexbench.trec.runs import Run
from lexbench.types import Hits


@pytest.fixture(scope="module")
def fruit(tmp_path_factory):
    """Return a folder of tiny data and a store for it."""
    place = tmp_path_factory.mktemp("efficiency")
    return write(place / "fruit"), Store(place / "store")


def timed(fruit, *given, **settings):
    """Run *given* with timing; return the outcomes."""
    folder, store = fruit
    planned = plan_dataset(str(folder), given or ["bm25"], ["nDCG@10"], 10)
    return list(jobs.run(planned, store, timer=Timer(Settings(**{"threads": 2, "seconds": 0.2, "processes": 1, **settings}))))


@pytest.fixture(scope="module")
def bm25(fruit):
    """Time bm25."""
    (outcome,) = timed(fruit)
    assert outcome.untimed is None
    return outcome.result


@pytest.fixture
def alone(monkeypatch):
    """Leave out the scenario with all queries at once, which takes as long again."""
    monkeypatch.setattr("lexbench.timing.measure.scenarios", lambda _: [Scenario(SINGLE, 1)])


def matrix(rows):
    """Return milliseconds as durations."""
    return (np.array(rows) * 1e6).astype(np.int64)


def test_every_duration_is_kept(fruit, bm25):
    """The store has a number for each pass and query, of each stage, and end to end is measured from start to end."""
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


def test_a_timing_says_what_it_is_of(bm25):
    """Scenario, depth, exactness and threads are part of it; the timed passes returned what the untimed run did."""
    single, offline = bm25.timings

    assert (single.scenario, single.threads, single.k, single.exact) == (SINGLE, 1, 10, True)
    assert (offline.scenario, offline.threads, offline.stages) == ("offline-2t", 2, {})
    assert single.checked
    assert offline.checked
    assert qps_name(single) == "e2e QPS, single-stream-1t, k=10, exact"
    assert set(single.qps) == set(offline.qps) == set(STAGES)
    assert single.fingerprint == fingerprint.fingerprint()
    assert 0 < single.overhead < 0.5
    assert set(single.seconds) == {"open", "first_query"}
    assert sum(single.disk.values()) == bm25.sizes["index"]


def test_one_thread_is_proved(bm25):
    """The processor's time over the clock's is that of one thread, and no flag says otherwise."""
    assert 0 < bm25.timings[0].cpu_per_wall <= 1.05
    assert not [flag for flag in bm25.timings[0].flags if flag.startswith(("threads", "differs"))]


def test_memory_is_less_what_importing_takes(bm25):
    """The libraries that a process has imported are not the system's; its peak is of all."""
    memory = bm25.timings[0].memory

    assert memory["baseline"] > 20e6  # numba and numpy alone
    assert memory["pss_anonymous"] + memory["pss_file"] < memory["peak_search"]


@pytest.mark.skipif(not fork_server.can_fork(), reason="processes are forked on Linux alone")
def test_a_fork_takes_as_much_memory_as_a_fresh_process(fruit, bm25, alone, tmp_path, monkeypatch):
    """What is a system's own is the same where its process was forked, and began with all imports, and where it was started."""
    forked = bm25.timings[0]
    monkeypatch.setattr("lexbench.timing.fork_server.can_fork", lambda: False)
    (outcome,) = timed((fruit[0], Store(tmp_path)))
    fresh = outcome.result.timings[0]
    facts = json.loads((fruit[1].root / forked.folder / "facts.json").read_bytes())

    assert sum(facts["imports"].values()) == forked.memory["baseline"]
    assert json.loads((tmp_path / fresh.folder / "facts.json").read_bytes())["imports"] == {}
    assert forked.memory["pss_anonymous"] > 2e6
    assert fresh.memory["pss_anonymous"] == pytest.approx(forked.memory["pss_anonymous"], abs=3e6)  # 2 MiB are a huge page
    assert fresh.memory["baseline"] == pytest.approx(forked.memory["baseline"], rel=0.1)


def test_memory_by_hand(tmp_path):
    """Its own are pages of no file, and copied ones of files; the others of files count in part, but for files with code."""
    places = [
        ("10-20 rw-p 00000000 00:00 0", 100, 50),  # of which half is shared with the process that it was forked from
        ("20-30 r-xp 00000000 fe:00 7 /lib/a b.so", 30, 0),
        ("30-40 r--p 00001000 fe:00 7 /lib/a b.so", 20, 4),
        ("40-50 r--p 00000000 fe:00 8 /store/index", 10, 0),
        ("50-60 rw-p 00000000 fe:00 9 /store/copied", 7, 5),
        ("60-70 rw-p 00000000 00:00 0 [heap]", 1, 2),
    ]
    rows = [f"{place}\nRss: 900 kB\nPss: {part} kB\nAnonymous: {own} kB\nVmFlags: rd mr\n" for place, part, own in places]
    (tmp_path / "smaps").write_text("".join(rows))

    assert counters.memory(tmp_path) == {"pss_anonymous": 61 << 10, "pss_file": 12 << 10}
    assert counters.memory(tmp_path / "nowhere") == {}


@pytest.mark.skipif(not fork_server.can_fork(), reason="processes are forked on Linux alone")
def test_what_has_threads_is_not_forked(tmp_path, monkeypatch):
    """A process that has started a thread, as a library may when it is imported, is not forked, and so told."""
    (tmp_path / "starts_a_thread.py").write_text(
        "from threading import Event, Thread\nThread(target=Event().wait, daemon=True).start()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "starts_a_thread", json)
    task = Task(system="bm25", index="", queries=[], k=1, threads=1, single=True, out=str(tmp_path))
    with closing(fork_server.ForkServer()) as server:
        assert not server.run(task, lambda: None, ["starts_a_thread"])


def test_what_was_timed_is_not_timed_again(fruit, bm25, alone):
    """The same command finds the timing; --time-again makes a new one; another depth is another timing."""
    (again,) = timed(fruit)
    (deeper,) = timed(fruit, k=2)
    (anew,) = timed(fruit, k=2, again=True)

    assert again.result.timings == bm25.timings[:1]
    assert {timing.k for timing in deeper.result.timings} == {2}
    assert anew.result.timings[0].folder == deeper.result.timings[0].folder
    assert anew.result.timings[0].stages != deeper.result.timings[0].stages
    (stored,) = stored_results(fruit[1])
    assert sorted(timing.k for timing in stored.result.timings) == [2, 10, 10]


def test_workers_that_search_are_no_disturbance(fruit, bm25, tmp_path):
    """A timing whose index workers hold is not called noisy: it has a flag of its own, and is in no ranking either."""
    folder = shutil.copytree(fruit[1].root / bm25.timings[0].folder, tmp_path / "timings" / "x")
    quiet = np.tile(np.arange(1, 6), (5, 1)) * 1_000_000  # ns: five passes that agree
    arrays = {**load_file(folder / "durations.safetensors"), "e2e": quiet, "null": quiet // 1000}
    (folder / "durations.safetensors").write_bytes(save(arrays))
    facts = json.loads((folder / "facts.json").read_bytes())
    line = "workers search, on processes(2); the way there and back takes 1.10 ms of a search"
    (folder / "facts.json").write_text(json.dumps(facts | {"cpu_per_wall": 0.2, "noise": [], "workers": line}))
    found = read_timing([folder])

    assert (found.flags, found.notes, found.unranked) == (["workers"], [line], "timing with workers")


def test_another_machine_is_timed_itself(fruit, bm25, monkeypatch, alone):
    """A timing of one fingerprint is never that of another; and what returns other documents than the run has a flag."""
    monkeypatch.setattr("lexbench.timing.measure.read_run", reversed_run)
    monkeypatch.setattr("lexbench.timing.measure.fingerprint", lambda: "elsewhere")
    (outcome,) = timed(fruit)

    assert outcome.result.timings[0].fingerprint == "elsewhere"
    assert outcome.result.timings[0].folder != bm25.timings[0].folder
    assert "differs" in outcome.result.timings[0].flags
    assert not outcome.result.timings[0].checked


def test_statistics_come_from_the_durations(fruit, bm25, tmp_path):
    """Median over passes, then over queries; the rate is of the median pass; what differs is said."""
    folder = shutil.copytree(fruit[1].root / bm25.timings[0].folder, tmp_path / "timings" / "x")
    rows = matrix([[1, 2, 3, 4, 5], [2, 3, 4, 5, 6], [90, 2, 3, 4, 4]])
    arrays = {**load_file(folder / "durations.safetensors"), "e2e": rows, "null": rows // 10}
    (folder / "durations.safetensors").write_bytes(save(arrays))
    conditions = json.loads((folder / "conditions.json").read_bytes())
    (folder / "conditions.json").write_text(json.dumps(conditions | {"differing": 1}))
    facts = json.loads((folder / "facts.json").read_bytes())
    (folder / "facts.json").write_text(json.dumps(facts | {"cpu_per_wall": 1.31, "noise": ["the load was 9"]}))
    found = read_timing([folder])

    assert found.stages["e2e"].p50 == pytest.approx(0.003)  # of 2, 2, 3, 4, 5
    assert found.stages["e2e"].mean == pytest.approx(0.0032)
    assert (found.stages["e2e"].p95, found.stages["e2e"].p99) == (None, None)
    assert found.qps["e2e"] == pytest.approx(5 / 0.020)  # passes of 15, 20 and 103 ms
    assert found.overhead == pytest.approx(0.1)
    assert found.flags == ["noisy", "threads≈1.3", "differs", "overhead"]
    assert not found.checked
    assert "1 of 5 queries got other documents than in the untimed run" in found.notes


def test_percentiles_need_queries():
    """Ten queries must lie beyond a percentile: p95 takes 200 and p99 a thousand."""
    told = {n: statistics.latency(matrix([np.arange(n)])) for n in (199, 200, 999, 1000)}

    assert told[199].p95 is None
    assert told[200].p95 == pytest.approx(0.18905)  # between the 190th and 191st of 0 to 199 ms: 199 x .95
    assert told[999].p99 is None
    assert told[1000].p99 == pytest.approx(0.98901)


def test_passes_that_differ_are_noise():
    """Medians of 10, 10 and 13 ms vary by 13 %; of 10, 10 and 10.5 by 2 %."""
    assert statistics.variation(matrix([[10], [10], [13]])) == pytest.approx(np.sqrt(2) / 11)
    assert statistics.unsteady(matrix([[10], [10], [13]])) == "passes differ by 13% (coefficient of variation)"
    assert statistics.unsteady(matrix([[10], [10], [10.5]])) is None


def test_a_slower_system_is_found():
    """Ten percent more on each query is a ratio of 1.1 with an interval around it; beyond a floor of 2 %, not of 15 %."""
    generator = np.random.default_rng(1)
    base = generator.lognormal(0, 0.5, 300) * 1e6
    first, again = (np.stack([base * generator.normal(1, 0.02, 300) for _ in range(5)]).astype(np.int64) for _ in range(2))
    slower, same = statistics.ratio_of_medians(first * 11 // 10, again), statistics.ratio_of_medians(first, again)

    assert slower.ratio == pytest.approx(1.1, abs=0.02)
    assert slower.low < slower.ratio < slower.high
    assert (slower.beyond(0.02), slower.beyond(0.15), same.beyond(0.02)) == (True, False, False)
    with pytest.raises(ValueError, match="no pairs"):
        statistics.ratio_of_medians(first, again[:, 1:])


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
        ([1, 2, 4], [9, 8, 7.004], 3, 0),  # 4 is as good as 3 but for rounding
        ([1, 2, 5], [9, 8, 7], 3, 1),
        ([1, 2, 6], [9, 8, 7.5], 3, 1),  # who is not in the run cannot be better than what is
        ([], [], 3, 1),
    ],
)
def test_timed_and_untimed_must_agree(docs, scores, k, wrong):
    """The same documents with the same scores, but for what rounding changes among equals."""
    untimed = run_of([1, 2, 3, 4, 5], [9, 8, 7, 6.999, 3])

    assert differing(run_of(docs, scores), untimed, k) == wrong


def reversed_run(folder):
    """Read a run with other documents."""
    from lexbench.runner.stored_run import read_run

    found = read_run(folder)
    run = found.run
    return found._replace(run=Run(run.query_ids, run.offsets, run.docs[::-1].copy(), run.scores[::-1].copy(), run.table))


def test_a_system_that_cannot_be_timed_keeps_its_scores(fruit, tmp_path):
    """An object of this process and a finished run have scores, and one line on why they have no timing."""

    class Length:
        def encode_document(self, texts):
            return np.array([[len(text)] for text in texts], np.float32)

        encode_query = encode_document

    (tmp_path / "r.trec").write_text("qa Q0 a4 1 2.0 x\n")
    mine, finished = timed(fruit, Length(), f'run_file(path="{tmp_path / "r.trec"}")')

    assert mine.result.means["nDCG@10"] >= 0
    assert "is an object of this process" in mine.untimed
    assert "is a finished run" in finished.untimed
    assert not mine.result.timings


def test_a_process_that_fails_costs_no_scores(fruit, monkeypatch):
    """What the measuring process died of is one line, and the scores are there."""
    monkeypatch.setattr("lexbench.timing.measure.chosen_weights", lambda *_: 3)  # a task that does not read
    (outcome,) = timed(fruit, "bm25(k1=0.7)")

    assert outcome.result.means
    assert outcome.untimed.startswith("the process that timed it ended with 1: msgspec.ValidationError: Expected `array`")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
def test_a_measuring_process_ends_with_its_parent(fruit, tmp_path):
    """When a run is killed while it times a system, the process that measures does not go on for long."""
    words = ["run", "dataset", str(fruit[0]), "-m", "nDCG@10", "--time", "--time-seconds", "300", "--time-processes", "1"]
    environment = {**os.environ, "LEXBENCH_STORE": str(tmp_path)}
    run = subprocess.Popen([sys.executable, "-m", "lexbench", *words], env=environment, stdout=subprocess.DEVNULL)
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    begin = time.monotonic()
    while not (measuring := [pid for pid in children.read_text().split() if "lexbench.timing" in command_of(pid)]):
        assert time.monotonic() - begin < 60
        time.sleep(0.05)
    forked = Path(f"/proc/{measuring[0]}/task/{measuring[0]}/children")
    while not (below := forked.read_text().split()) and fork_server.can_fork():
        assert time.monotonic() - begin < 60
        time.sleep(0.05)
    time.sleep(0.5)  # it imports, or measures
    run.kill()
    run.wait()
    begin = time.monotonic()
    while any("lexbench.timing" in command_of(pid) for pid in measuring + below):
        assert time.monotonic() - begin < 20
        time.sleep(0.05)


def command_of(pid):
    """Return the command line of a process; "" of none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_systems_take_turns(fruit, alone, tmp_path, monkeypatch):
    """Three processes of two systems are timed A B, B A, A B; a system that fails in a round is left out of those after it."""
    order = []

    def measured(draft, timed, *_):
        order.append(timed.named.label)
        if order.count("bm25(k1=2.0)") == 2 and timed.named.label != "bm25":
            raise LexbenchError("it broke")
        return 0

    monkeypatch.setattr("lexbench.timing.measure._differing", measured)
    first, second = timed((fruit[0], Store(tmp_path)), "bm25", "bm25(k1=2.0)", processes=3, seconds=0.01)

    assert order == ["bm25", "bm25(k1=2.0)", "bm25(k1=2.0)", "bm25", "bm25"]
    assert [timing.processes for timing in first.result.timings] == [3]
    assert (first.untimed, second.untimed, second.result.timings) == (None, "it broke", [])
    assert second.result.means


def test_parts_are_opened_as_they_were_resolved():
    """Weights that were chosen reach the measuring process, inner combinations first, and threads every part of a system."""
    text = 'ensemble(ensemble(bm25, bm25(k1=2.0), weights="oracle"), bm25(k1=3.0), weights="oracle")'
    asked = system(text).retriever
    resolved = with_weights(asked, iter([[1.0, 0.5], [0.25, 1.0]]))

    assert resolved.weights == (0.25, 1.0)
    assert resolved.parts[0].weights == (1.0, 0.5)
    assert chosen_weights(asked, resolved) == [[1.0, 0.5], [0.25, 1.0]]
    assert with_threads(resolved, 3).parts[0].parts[1].threads == 3
    assert with_threads(resolved, 1) == resolved


def test_a_combination_with_chosen_weights_is_timed(fruit, alone):
    """An ensemble whose weights a run chose returns, timed, the documents of that run."""
    (outcome,) = timed(fruit, 'ensemble(bm25, bm25(k1=2.0), weights="oracle")')

    assert outcome.untimed is None
    assert outcome.result.timings[0].checked


def test_queries_are_sampled_evenly():
    """At most so many queries are timed, from first to last; all where there are no more."""
    assert sample(range(10), 4) == [0, 2, 5, 7]
    assert sample("abc", 3) == ["a", "b", "c"]


def test_tables_name_the_conditions(bm25):
    """A rate is told with scenario, depth and exactness, and the machine is below it; a percentile without queries is not."""
    latencies, memory, rates = timing_tables([bm25])

    assert latencies.title == "fruit: latency in ms; e2e QPS, single-stream-1t, k=10, exact"
    assert rates.title == "fruit: QPS, offline-2t, k=10, exact"
    assert latencies.header[1:4] == ("encode\np50", "search\np50", "e2e\np50")
    assert bm25.timings[0].fingerprint in latencies.notes[0]
    assert memory.rows[0][-2] == f"{bm25.sizes['index'] / 6:,.0f}"
    assert any("p95 takes 200 queries" in note for note in latencies.notes)


def test_the_fingerprint_is_of_what_decides_speed(monkeypatch):
    """The same machine has the same fingerprint; another number of cores is another machine."""
    own = fingerprint.fingerprint()
    fingerprint.performance.cache_clear()
    assert fingerprint.fingerprint() == own
    fingerprint.performance.cache_clear()
    monkeypatch.setattr("lexbench.timing.fingerprint.cores", lambda: [0] * 1000)
    assert fingerprint.fingerprint() != own
    fingerprint.performance.cache_clear()


def test_the_command_line_times(fruit, bm25, capsys, monkeypatch):
    """With --time everything is in the one document of --json, and the tables have it; how without --time is an error."""
    monkeypatch.setenv("LEXBENCH_STORE", str(fruit[1].root))
    given = ["run", "dataset", str(fruit[0]), "-m", "nDCG@10", "--depth", "10", "--time-threads", "2"]
    given += ["--time-seconds", ".2", "--time-processes", "1"]
    told = [code([*given, "--time", *more]) for more in ([], ["--json"])], capsys.readouterr().out
    shown, document = told[1].split("{", 1)
    timings = json.loads("{" + document)["results"][0]["timings"]

    assert told[0] == [0, 0]
    assert "single-stream-1t, k=10, exact" in shown
    assert [timing["scenario"] for timing in timings] == [SINGLE, "offline-2t"]
    assert timings[0]["folder"] == bm25.timings[0].folder
    assert code(given) == 2
    assert "type --time, too" in capsys.readouterr().err


def test_one_query_in_flight_can_be_timed_alone(fruit, bm25, capsys, monkeypatch):
    """With --time-single no query is sent with others, and threads, which are of that alone, are an error."""
    monkeypatch.setenv("LEXBENCH_STORE", str(fruit[1].root))
    given = ["run", "dataset", str(fruit[0]), "-m", "nDCG@10", "--depth", "10", "--time-seconds", ".2", "--time-processes", "1"]
    assert code([*given, "--time", "--time-single", "--json"]) == 0
    (timing,) = json.loads(capsys.readouterr().out)["results"][0]["timings"]

    assert (timing["scenario"], timing["folder"]) == (SINGLE, bm25.timings[0].folder)
    assert code([*given, "--time", "--time-single", "--time-threads", "2"]) == 2
    assert "type one of them" in capsys.readouterr().err


@pytest.mark.slow
def test_the_api_times_too(tmp_path):
    """`lexbench.run(..., time=...)` gives results with timings; a mapping's label stays."""
    (result,) = lexbench.run(
        "pydoc", {"mine": "bm25"}, store=tmp_path, time=Settings(queries=20, threads=1, seconds=0.2, processes=1)
    )

    assert [timing.queries for timing in result.timings] == [20, 20]
    assert result.timings[0].checked


def test_processes_depths_and_loads_are_timings_of_their_own(fruit):
    """Two fresh processes are one timing with the range of both; each k is one, and each load, whose waiting counts."""
    (outcome,) = timed(fruit, processes=2, k=(2, 5), loads=(200.0,), threads=1)
    by_name = {(one.scenario, one.k): one for one in outcome.result.timings}
    single, served = by_name[SINGLE, 2], by_name["server-1t-200qps", 5]

    assert {k for _, k in by_name} == {2, 5}
    assert single.processes == 2
    assert single.passes >= 10
    low, high = single.qps_range["e2e"]
    assert low <= high
    assert single.first_pass["e2e"].p50 > 0
    assert (served.processes, served.qps) == (1, {})
    assert served.stages["e2e"].p50 >= served.stages["search"].p50
    tables = [table.title for table in timing_tables([outcome.result])]
    assert any("server-1t-200qps, k=5" in title for title in tables)


def test_queries_that_come_faster_than_they_are_answered_wait():
    """At 1,000 a second, of 5 ms each, the last of fifty waits for those before it; every duration has its own search in it."""

    def search(_encoded, _k):
        time.sleep(0.005)

    work = Work(lambda item: item, search, range(3), 1)
    encoding, searching, busy = serve(work, 1000, 0.05)

    assert len(busy) == 50
    assert busy[-1] >= 50 * 5e6 - 1e8  # fifty searches, less the time until it came: 0.1 s at most
    assert (busy >= encoding + searching).all()
