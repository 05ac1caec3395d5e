"""After a kill -9 at any point the same command continues, and the store ends with the same bytes."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
import tiny
from tiny import KILL_AT_FLUSH, sealed, tree

KILLED = -signal.SIGKILL
SYSTEMS = ["-r", "bm25", "-r", "letters@flat"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make a BEIR folder of 9,000 documents, five shards, whose words are numbers."""
    chance = random.Random(7)
    texts = {f"d{i}": " ".join(f"w{int(chance.paretovariate(0.6)) % 5000}" for _ in range(4)) for i in range(9000)}
    queries = {f"q{i}": " ".join(texts[f"d{i * 7}"].split()) for i in range(20)}
    judged = [(f"q{i}", f"d{i * 7}", 1) for i in range(20)]
    return tiny.write(tmp_path_factory.mktemp("words") / "words", texts, queries, judged)


def start(command, environment, store):
    """Start the command in its own process group."""
    environment = {**environment, "LEXBENCH_STORE": str(store)}
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=environment, start_new_session=True, **pipes)


def finish(process):
    """Wait for the process and return its exit code; fail with its stderr unless it succeeded or was killed."""
    _, errors = process.communicate(timeout=300)
    if process.returncode not in (0, KILLED):
        pytest.fail(errors.decode())
    return process.returncode


def test_random_kills(fast, plugin_environment, folder, tmp_path):
    """Two kills at random moments cost no artifact, and the store ends with the same bytes."""
    command = [fast / "lexbench", "run", "dataset", str(folder), *SYSTEMS]
    chance, hurried, known = random.Random(1), tmp_path / "hurried", {}
    begin = time.monotonic()
    assert finish(start(command, plugin_environment, tmp_path / "calm")) == 0
    whole = time.monotonic() - begin
    for kill in (True, True, False):
        process = start(command, plugin_environment, hurried)
        if kill:
            time.sleep(chance.uniform(0.1, whole))
            os.killpg(process.pid, signal.SIGKILL)
        assert finish(process) == 0 or kill
        now = sealed(hurried)
        assert {path: now.get(path) for path in known} == known, "an artifact was made again"
        known = now

    assert tree(hurried) == tree(tmp_path / "calm")
    assert len(known) == 8  # corpus, encoding, and two of each later kind


@pytest.mark.slow
def test_four_parts_at_once_with_one_killed(fast, plugin_environment, folder, tmp_path):
    """Parts encoded at once into one store, one of them killed and repeated, give the bytes of one process."""
    command = [fast / "lexbench", "encode", "dataset", str(folder), "-r", "letters@flat"]
    assert finish(start(command, plugin_environment, tmp_path / "calm")) == 0
    commands = [[*command, "--part", f"{part}/4", "--on", on] for part, on in enumerate(["here"] * 3 + ["processes(1)"])]
    parts = [start(one, plugin_environment, tmp_path / "hurried") for one in commands]
    time.sleep(random.Random(3).uniform(0.5, 2))
    os.killpg(parts[1].pid, signal.SIGKILL)
    codes = [finish(part) for part in parts]
    assert finish(start([*command, "--part", "1/4"], plugin_environment, tmp_path / "hurried")) == 0

    assert [code for at, code in enumerate(codes) if at != 1] == [0, 0, 0]
    assert len(list((tmp_path / "hurried" / "encodings").glob("*-Letters-*/shard-*"))) == 5
    assert tree(tmp_path / "hurried") == tree(tmp_path / "calm")


def test_a_part_that_is_given_twice_is_encoded_once(fast, plugin_environment, folder, tmp_path):
    """Of two processes with the same part, one that has to wait says so and encodes nothing, and both succeed."""
    command = [fast / "lexbench", "encode", "dataset", str(folder), "-r", "letters@flat"]
    assert finish(start([*command, "--part", "1/2"], plugin_environment, tmp_path / "twice")) == 0  # and the corpus
    two = [start([*command, "--part", "0/2"], plugin_environment, tmp_path / "twice") for _ in range(2)]
    said = [process.communicate(timeout=300)[1].decode() for process in two]

    assert [process.returncode for process in two] == [0, 0], said
    assert not [text for text in said if "waiting for it" in text and "encode: 4,904 documents" in text], said


@pytest.mark.slow
def test_a_kill_at_every_flush(plugin_environment, folder, tmp_path):
    """A kill before the first flush to disk, then before the second of the rest, and so on to the end, costs nothing."""
    command = ["run", "dataset", str(folder), *SYSTEMS]
    assert finish(start([sys.executable, "-m", "lexbench", *command], plugin_environment, tmp_path / "calm")) == 0
    program = f"{KILL_AT_FLUSH}from lexbench.cli import main; main()"
    for kills in range(1, 500):
        code = finish(start([sys.executable, "-c", program, str(kills), *command], plugin_environment, tmp_path / "hurried"))
        if code == 0:
            break

    assert kills > 10
    assert tree(tmp_path / "hurried") == tree(tmp_path / "calm")
