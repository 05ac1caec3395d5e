"""Timing a system that remembers its answers: it is flagged and not ranked, and no other system is."""

import json
import sys
import time

import numpy as np
import pytest
import tiny
from servers import serving

from lexbench import registry
from lexbench.results import UNRANKED
from lexbench.runner import jobs
from lexbench.runner.plan import plan_dataset
from lexbench.storage.store import Store
from lexbench.timing.measuring import TimedCalls, seen_again
from lexbench.timing.other_queries import OtherQueries
from lexbench.timing.protocol import TimingSettings
from lexbench.timing.timer import Timer
from lexbench.types import Query

SLOW = """
import json
import time
from dataclasses import dataclass

import numpy as np

from lexbench import Hits, Retriever, Searcher


class Opened(Searcher):
    def __init__(self, documents, remembers):
        self.documents, self.remembers, self.seen = documents, remembers, {}

    def encode(self, queries):
        return queries

    def search(self, encoded, k):
        return Hits(np.stack([self.found(query, k) for query in encoded]), np.ones((len(encoded), k), np.float32))

    def found(self, query, k):
        if not (self.remembers and query in self.seen):
            time.sleep(0.005)
            self.seen[query] = np.arange(k, dtype=np.int32)
        return self.seen[query]


@dataclass(frozen=True)
class Slow(Retriever):
    remembers: bool = False

    def build(self, corpus, path):
        (path / "documents.json").write_text(json.dumps(len(corpus)))

    def open(self, path):
        return Opened(json.loads((path / "documents.json").read_text()), self.remembers)
"""
PROGRAM = """
import json, sys, time
remembers, seen = sys.argv[1] == "yes", set()
for line in sys.stdin:
    asked = json.loads(line)
    if not (remembers and asked["text"] in seen):
        time.sleep(0.01)
    seen.add(asked["text"])
    print(json.dumps({"qid": asked["qid"], "docs": []}), flush=True)
"""


@pytest.fixture
def slow_plugin(tmp_path, monkeypatch):
    """Install the retriever `slow`, and let this process find it until the end of the test."""
    tiny.enter(tmp_path, monkeypatch)
    tiny.install(tmp_path / "site", "slow", {"lexbench.retrievers": ["slow = slow:Slow"]}, slow=SLOW)
    monkeypatch.syspath_prepend(tmp_path / "site")
    registry._entries.cache_clear()
    yield
    registry._entries.cache_clear()
    sys.modules.pop("slow", None)


def timed(tmp_path, bread, *systems):
    """Return by system the (scenario, flags, notes) of its timings, of ten queries in this process."""
    timer = Timer(TimingSettings(seconds=0.01, processes=1, queries=10, offline=False))
    outcomes = list(jobs.run(plan_dataset(str(bread), systems, ["nDCG@10"], 10), Store(tmp_path / "store"), timer=timer))
    assert [(outcome.error, outcome.untimed) for outcome in outcomes] == [(None, None)] * len(systems)
    timings = [outcome.result.timings for outcome in outcomes]
    return {
        system: [(one.scenario, one.flags, one.notes) for one in found] for system, found in zip(systems, timings, strict=True)
    }


def flagged(tmp_path, bread, remembering, others):
    """Time systems together, check that only those in *remembering* are flagged as "cached", and return the timings."""
    found = timed(tmp_path, bread, *remembering, *others)
    cached = {system: ["cached" in flags for _, flags, _ in timings] for system, timings in found.items()}

    assert cached == {**{system: [True] for system in remembering}, **{system: [False] for system in others}}
    assert not any("repeated" in flags for timings in found.values() for _, flags, _ in timings)
    return found


@pytest.mark.usefixtures("slow_plugin", "timed_here")
def test_only_systems_that_remember_are_flagged(tmp_path, bread):
    """A plug-in that remembers is "cached", and a note says how fast it is; the same without a memory and bm25 are not."""
    found = flagged(tmp_path, bread, ["slow(remembers=True)"], ["slow", "bm25"])

    (note,) = [note for note in found["slow(remembers=True)"][0][2] if note.startswith("it remembers answers")]
    assert "queries that it has not seen take" in note
    assert "cached" in UNRANKED


@pytest.mark.slow
@pytest.mark.usefixtures("timed_here")
def test_programs_and_servers_that_remember_are_flagged(tmp_path, bread):
    """A program and a server that remember are "cached"; the same without a memory are not."""
    (tmp_path / "program.py").write_text(PROGRAM)
    program = f"{sys.executable} {tmp_path / 'program.py'}"
    seen = set()

    def answered(_method, path, body, _headers):
        asked = json.loads(body)["queries"]
        texts = {one["text"] for one in asked}
        time.sleep(0.0 if path == "/yes" and texts <= seen else 0.01)
        seen.update(texts)
        return 200, {one["qid"]: {} for one in asked}, {}

    with serving(answered) as server:
        remembering = [f'command("{program} yes")', f'url("{server.url}/yes")']
        flagged(tmp_path, bread, remembering, [f'command("{program} no")', f'url("{server.url}/no")'])


def test_other_queries_are_new_and_made_of_the_same_words():
    """No text is made twice or is one of the given; short ones are rotated; where there is no new text, there is no query."""
    queries = [Query("1", "red green blue"), Query("2", "one two"), Query("3", "a")]
    others = OtherQueries(queries)
    first, second = others.numbered(1), others.numbered(2)

    assert [(number, query.text) for number, query in first] == [(0, "red green two"), (1, "one a"), (2, "a green blue")]
    assert [(number, query.text) for number, query in second] == [(0, "red green a"), (1, "one green blue"), (2, "a two")]
    lonely = OtherQueries([Query("1", "alone")])
    assert [query.text for _, query in lonely.numbered(1)] == ["alone alone"]
    assert lonely.numbered(2) == []
    assert [query.text for _, query in OtherQueries([Query("1", "all alone")]).numbered(1)] == ["alone all"]


@pytest.mark.parametrize(("remembers", "least", "most"), [(True, 5, 1e6), (False, 0.5, 1.9)])
def test_what_is_remembered_is_a_ratio(remembers, least, most):
    """Queries that take 2 ms the first time and nothing the second time have a high ratio; those that take 2 ms always, 1."""
    seen = set()

    def search(number, _k):
        if not (remembers and number in seen):
            time.sleep(0.002)
        seen.add(number)
        return np.zeros(1)

    assert least <= seen_again(TimedCalls(lambda number: number, search, range(40), 10)) <= most
    assert seen_again(TimedCalls(lambda number: number, search, [], 10)) == 0.0
