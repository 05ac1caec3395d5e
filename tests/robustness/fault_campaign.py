"""Kill, starve, damage and race lexbench, and count the outcomes: `python tests/robustness/fault_campaign.py --trials 1000`.

Each trial is a process that is forked from this one, which has imported everything. Audit events of Python (`open`,
`os.rename`) show its writes, so a trial can aim at a write of one kind of artifact, or at a random moment after it. The table
counts trials that

    survived      the same command, run again without harm, succeeds with the bytes and scores of a calm run
    redone        artifacts that were finished before and were made again
    silent        outputs that differed from the calm run without an error message: must be 0

Hostile files are in `hostile_inputs`; each must be refused in one line or read correctly.
"""

import argparse
import hashlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from errno import ENOSPC
from functools import partial
from importlib.metadata import EntryPoint
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

import hostile_inputs

from lexbench import cli, registry
from lexbench.encodings import shards
from lexbench.storage import environment
from lexbench.storage.artifact_folder import MANIFEST, MEASURED
from lexbench.storage.store import Store

ARTIFACTS = ("corpora", "encodings", "indexes", "runs", "results")
_TESTS = Path(__file__).resolve().parents[1]
_PATIENCE = 300  # seconds until a trial counts as a hang
_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}
_UNCOUNTED = ("locks", "logs", "checked")  # they decide no answer; "checked" has the times of files
_HARMS = ("flip", "cut", "swap", "remove")
_EXCHANGE = "exchange of two folders"
_FORGED = ("link to another file", "link to nothing", _EXCHANGE, "flip with the old time")
_TIMED = ("--time", "--time-queries", "5", "--time-seconds", "0.2", "--time-processes", "2")


@dataclass
class Row:
    """One line of the table."""

    kind: str
    trials: int = 0
    survived: int = 0
    redone: int = 0
    silent: int = 0

    def count(self, *, survived: bool, redone: int = 0, silent: bool = False, why: str = "") -> None:
        """Add one trial; print *why* it did not survive."""
        self.trials += 1
        self.survived += survived and not silent
        self.redone += redone
        self.silent += silent
        if silent or not survived:
            print(f"{self.kind}: {'SILENT' if silent else 'lost'}: {why}", file=sys.stderr, flush=True)


# ---- processes -------------------------------------------------------------------------------------------------------------


def started(words: Sequence[str], root: Path, said: Path, harm: Callable[[], None] = lambda: None) -> int:
    """Fork a process that calls *harm* and then runs the command *words* on the store *root*; return its id."""
    sys.stdout.flush()
    if process := os.fork():
        return process
    code = 70
    try:
        with said.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup would ignore it
        os.environ["LEXBENCH_STORE"] = str(root)
        harm()
        cli.main(list(words))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:  # noqa: BLE001 - a trial must not continue as the campaign
        print(f"Traceback: {error!r}", file=sys.stderr)
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                code = code or 1
        os._exit(code)


def ended(process: int) -> int:
    """Return the exit code of a process, or minus the signal that killed it; -1000 for a hang."""
    start = time.monotonic()
    while time.monotonic() - start < _PATIENCE:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return -1000


def watch(root: Path, on_write: Callable[[str], None]) -> None:
    """Call *on_write* with the kind of artifact before each write below *root*, for the rest of this process."""
    beginning = f"{root}/"

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event not in _EVENTS or not isinstance(args[0], str | bytes | os.PathLike):
            return
        if event == "open" and args[1] is not None and not set("wax+") & set(str(args[1])):
            return  # for reading; without a mode it is os.open, which flushes files to the disk
        path = os.fsdecode(args[0])
        if path.startswith(beginning) and (artifact := path[len(beginning) :].partition("/")[0]) not in _UNCOUNTED:
            on_write(artifact)

    sys.addaudithook(hook)


def at_write(root: Path, artifact: str, number: int, act: Callable[[], None]) -> Callable[[], None]:
    """Return a harm: *act* before write *number*, from 0, of that kind of artifact; "" is any kind."""
    left = [number]

    def on_write(at: str) -> None:
        if artifact in ("", at):
            left[0] -= 1
            if left[0] == -1:
                act()

    return lambda: watch(root, on_write)


def die(after: float) -> Callable[[], None]:
    """Return a function that kills this process, at once or so many seconds later."""

    def act() -> None:
        if not after:
            os.kill(os.getpid(), signal.SIGKILL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, after)

    return act


# ---- the calm run, and its trials ------------------------------------------------------------------------------------------


def tree(root: Path) -> dict[str, str]:
    """Return the digest of every file of a store, except locks, tracebacks, measurements and timings."""
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != MEASURED
        if not (path.suffix == ".tmp" and path.parent.parent == root)  # left beside remembered names, where nobody reads it
        if (name := path.relative_to(root).as_posix()).partition("/")[0] not in (*_UNCOUNTED, "timings")
    }


def sealed(root: Path) -> dict[Path, int]:
    """Return when each artifact was sealed."""
    return {path.parent.relative_to(root): path.stat().st_mtime_ns for path in root.glob(f"[!l]*/*-*/{MANIFEST}")}


def scores(said: Path) -> Any:
    """Return the scores that a run printed as JSON, or None."""
    text = said.read_text(encoding="utf-8", errors="replace")
    try:
        found = json.loads(text[text.index("{") : text.rindex("}") + 1])
        return [(result["system"], result["means"], result["per_query"]) for result in found["results"]]
    except (ValueError, LookupError):
        return None


class Campaign:
    """A calm run in a folder, and the trials that are compared with it."""

    def __init__(self, place: Path, seed: int) -> None:
        """Write a collection of 300 documents, five shards, and run two systems on it."""
        self.place, self.seed, self.chance = place, seed, random.Random(seed)
        shards.SHARD = 64  # so that a small collection has several shards
        sys.path += [str(_TESTS), str(_TESTS / "plugin")]
        entry = EntryPoint("letters", "lexbench_example.letters:Letters", "lexbench.encoders")
        dict.__setitem__(registry._entries("encoders"), "letters", entry)  # type: ignore[index]
        self.folder = hostile_inputs.collection(place / "words", 300, 40)
        self.words = ["run", "dataset", str(self.folder), "-r", "bm25", "-r", "letters@flat", "-m", "nDCG@10", "--json"]
        self.said, self.calm = place / "said", place / "calm"
        os.environ["LEXBENCH_STORE"] = str(place / "warm")
        for words in (self.words, ["export", "trec", str(place / "warm")], ["export", "csv", str(place / "warm")]):
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # import and compile once, for every trial
                assert cli.code(words) == 0
        self.writes = self._recorded(self.words, self.calm)
        self.known, self.scores = tree(self.calm), scores(self.said)
        assert self.scores, self.said.read_text()
        self.before: dict[str, Path] = {}
        for number, artifact in enumerate(ARTIFACTS):
            self.before[artifact] = self._copy(self.calm, place / f"before {artifact}")
            for later in ARTIFACTS[number:]:
                shutil.rmtree(self.before[artifact] / later, ignore_errors=True)

    def _recorded(self, words: Sequence[str], root: Path) -> list[tuple[str, float]]:
        """Run *words* on the store *root*; return the kind of artifact of every write, and the seconds until the next write."""
        record, writes = self.place / "record", list[tuple[str, float]]()

        def harm() -> None:
            watch(root, lambda artifact: writes.append((artifact, time.monotonic())))
            real = os._exit

            def leave(status: int) -> NoReturn:
                record.write_text(json.dumps(writes))
                real(status)

            os._exit = leave

        assert ended(started(words, root, self.said, harm)) == 0, self.said.read_text()
        times = [(artifact, float(at)) for artifact, at in json.loads(record.read_text())]
        following = [*(at for _, at in times[1:]), times[-1][1]]
        return [(artifact, after - at) for (artifact, at), after in zip(times, following, strict=True)]

    def _copy(self, source: Path, target: Path) -> Path:
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(source, target))

    def mended(self, row: Row, root: Path, before: dict[Path, int], why: str, words: Sequence[str] = ()) -> None:
        """Run again without harm, and count whether everything is as in the calm run."""
        code = ended(started(words or self.words, root, self.said))
        after = sealed(root)
        redone = sum(after.get(folder) != at for folder, at in before.items())
        differing = [name for name, _ in sorted(tree(root).items() ^ self.known.items())]
        wrong = code == 0 and (bool(differing) or (not words and scores(self.said) != self.scores))
        why = f"{why}: {code}: {differing[:4]}: {self.said.read_text()[-300:]}"
        row.count(survived=code == 0, redone=redone, silent=wrong, why=why)

    def kills(self, artifact: str, trials: int) -> Row:
        """Kill the process at a write of one kind of artifact, or between it and the next write."""
        row, root = Row(f"kill -9 in {artifact}"), self.place / "store"
        gaps = [gap for at, gap in self.writes if at == artifact]
        for _ in range(trials):
            self._copy(self.before[artifact], root)
            number, before = self.chance.randrange(len(gaps)), sealed(root)
            after = self.chance.choice([0.0, self.chance.uniform(0, gaps[number])])
            code = ended(started(self.words, root, self.said, at_write(root, artifact, number, die(after))))
            known = {folder: at for folder, at in sealed(root).items() if next(Store(root).damage(root / folder), None) is None}
            self.mended(row, root, before | known, f"write {number} + {after:.4f} s, {code}")
        return row

    def full_disks(self, trials: int) -> Row:
        """Let every write from some write on fail, like on a full disk."""
        row, root = Row("full disk from a write on"), self.place / "store"

        def full() -> NoReturn:
            raise OSError(ENOSPC, os.strerror(ENOSPC))

        for number in _spread(len(self.writes), trials):
            shutil.rmtree(root, ignore_errors=True)

            def harm(first: int = number) -> None:
                count = [0]

                def on_write(_stage: str) -> None:
                    count[0] += 1
                    if count[0] > first:
                        full()

                watch(root, on_write)

            code = ended(started(self.words, root, self.said, harm))
            text = self.said.read_text()
            if code not in (1, 3) or "Traceback" in text:
                row.count(survived=False, why=f"write {number}: {code}: {text[-300:]}")
                continue
            self.mended(row, root, {}, f"write {number}")
        return row

    def limits(self, kind: str, trials: int) -> Row:
        """Limit the size of files, or the memory, to a random number."""
        row, root = Row(kind), self.place / "store"
        largest = max(path.stat().st_size for path in self.calm.rglob("*") if path.is_file())
        for _ in range(trials):
            shutil.rmtree(root, ignore_errors=True)
            if kind == "limit of file size":
                which, most = resource.RLIMIT_FSIZE, self.chance.randrange(100, largest)
            else:
                taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                which, most = resource.RLIMIT_AS, taken + self.chance.randrange(1 << 20, 1 << 27)
            code = ended(started(self.words, root, self.said, partial(resource.setrlimit, which, (most, most))))
            text = self.said.read_text(errors="replace")
            if code == 0 and scores(self.said) != self.scores:
                row.count(survived=False, silent=True, why=f"{most}")
            elif "Traceback" in text:
                row.count(survived=False, why=f"{most}: {code}: {text[-300:]}")
            else:
                self.mended(row, root, {}, f"{most}: {code}")
        return row

    def signals(self, trials: int) -> Row:
        """Send SIGINT, SIGTERM or SIGHUP before a random write."""
        row, root = Row("SIGINT, SIGTERM, SIGHUP"), self.place / "store"
        for trial in range(trials):
            artifact, number = ARTIFACTS[trial % len(ARTIFACTS)], (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[trial % 3]
            self._copy(self.before[artifact], root)
            at = self.chance.randrange(sum(kind == artifact for kind, _ in self.writes))
            harm = at_write(root, artifact, at, partial(_signalled, number))
            before = sealed(root)
            code = ended(started(self.words, root, self.said, harm))
            text = self.said.read_text()
            if code != 128 + number or "finished work is kept" not in text or "Traceback" in text:
                row.count(survived=False, why=f"{number.name} in {artifact} at {at}: {code}: {text[-300:]}")
                continue
            self.mended(row, root, before, f"{number.name} in {artifact} at {at}")
        return row

    def damages(self, kind: str, harms: Sequence[str], trials: int) -> Row:
        """Damage a file of a finished store; then export everything, and make again what depends on the file."""
        row, root, out = Row(kind), self.place / "store", self.place / "out"
        exports = (["export", "csv"], ["export", "trec"])
        files = sorted(
            name for name in (path.relative_to(self.calm) for path in self.calm.rglob("*")) if (self.calm / name).is_file()
        )
        files = [name for name in files if name.parts[0] not in ("locks", "logs")]
        assert all(ended(started([*words, str(out)], self.calm, self.said)) == 0 for words in exports), self.said.read_text()
        known = {path.name: path.read_bytes() for path in out.iterdir()}
        every = [(name, harm) for harm in harms for name in files if harm != _EXCHANGE or name.parts[0] in ARTIFACTS]
        for number in _spread(len(every), trials):
            name, harm = every[number]
            self._copy(self.calm, root)
            other = self.chance.choice([other for other in files if other != name])
            if harm == "flip with the old time":  # the notes on checked artifacts are fresh
                assert ended(started([*exports[0], str(out)], root, self.said)) == 0
            _damage(root / name, harm, root / other, self.chance)
            shutil.rmtree(out, ignore_errors=True)
            codes = [ended(started([*words, str(out)], root, self.said)) for words in exports]
            wrong = [path.name for path in out.glob("*") if path.read_bytes() != known[path.name]]
            if wrong:
                row.count(survived=False, silent=True, why=f"{harm} of {name}: {wrong}, {codes}")
                continue
            harmed = [file.parts[0] for file in ((name, other) if harm == "swap" else (name,))]
            first = min((ARTIFACTS.index(artifact) for artifact in harmed if artifact in ARTIFACTS), default=len(ARTIFACTS))
            if harm == _EXCHANGE:
                first = ARTIFACTS.index(name.parts[0])
            for later in ARTIFACTS[first + 1 :]:  # otherwise nothing would read vectors whose index is there
                shutil.rmtree(root / later)
            self.mended(row, root, {}, f"{harm} of {name}")
        return row

    def remotes(self, trials: int) -> Row:
        """Pull artifacts and results from damaged folders and archives, or kill the pull; then pull from the whole ones."""
        row, root, there = Row("store push and pull, zip and tar"), self.place / "store", self.place / "there"
        board = self.place / "board"
        assert ended(started([*self.words, "--results", str(board)], self.calm, self.said)) == 0, self.said.read_text()
        for words in (["push", f"{there}/store"], ["push", f"{there}/results", "--results", str(board)]):
            assert ended(started(["store", *words], self.calm, self.said)) == 0, self.said.read_text()
        shutil.make_archive(str(there / "store"), "zip", there / "store")
        with tarfile.open(there / "store.tar", "w") as tar:
            for path in (there / "store").iterdir():
                tar.add(path, path.name)
        urls = ("{}/store", "zip://::{}/store.zip", "tar://::{}/store.tar", "{}/results")
        for trial in range(trials):
            url, harmed = urls[trial % len(urls)], self._copy(there, self.place / "harmed")
            words = ["--results", str(root / "board")] if "results" in url else []
            shutil.rmtree(root, ignore_errors=True)
            place = harmed / url.rpartition("/")[2]
            path = self.chance.choice([one for one in sorted(place.rglob("*")) if one.is_file()] or [place])
            harm = self.chance.choice(["flip", "cut", "remove", "kill"])
            if harm == "kill":
                act = at_write(root, "", self.chance.randrange(20), die(0))
            else:
                _damage(path, harm, path, self.chance)
                act = lambda: None  # noqa: E731
            code = ended(started(["store", "pull", url.format(harmed), *words], root, self.said, act))
            text = self.said.read_text(errors="replace")
            why = f"{harm} of {path.relative_to(harmed)}: {code}: {text[-300:]}"
            if "Traceback" in text or "bug in lexbench" in text or code not in (0, 1, 2, 3, -signal.SIGKILL):
                row.count(survived=False, why=why)
            elif words:
                again = ended(started(["store", "pull", url.format(there), *words], root, self.said))
                row.count(survived=again == 0, silent=again == 0 and _contents(root / "board") != _contents(board), why=why)
            elif ended(started(["store", "pull", url.format(there)], root, self.said)):
                row.count(survived=False, why=f"{why}; then {self.said.read_text()[-300:]}")
            else:
                self.mended(row, root, {}, why)
        return row

    def twins(self, trials: int) -> Row:
        """Run the encoders of two packages, with one name and one version, in turns on one store; and each on its own."""
        row, root = Row("two plug-ins of one name and version"), self.place / "store"
        shutil.rmtree(root, ignore_errors=True)
        for trial in range(trials):
            name = f"twin{trial % 2}"
            site = _package(self.place / f"{name} site", name, "text.lower()" if trial % 2 else "text[::2]")
            words = [sys.executable, "-m", "lexbench", *self.words[:3], "-r", "twin@flat", "-m", "nDCG@10", "--json"]
            paths = os.pathsep.join([str(site), str(_TESTS / "plugin"), *sys.path])
            found = []
            for store in (root, self.place / f"{name} alone"):
                environment = {**os.environ, "LEXBENCH_STORE": str(store), "PYTHONPATH": paths}
                with self.said.open("wb") as said:
                    done = subprocess.run(words, stdout=said, stderr=said, env=environment, check=False)
                found.append((done.returncode, scores(self.said)))
            whole = found[0][0] == 0 and found[0][1] is not None
            row.count(survived=whole, silent=found[0] != found[1], why=self.said.read_text()[-300:])
        return row

    def verified(self, trials: int) -> Row:
        """Damage a committed result, then verify: it is refused, or the scores that are compared are those of the file."""
        row, committed = Row("verify of damaged results"), _TESTS.parent / "leaderboard" / "results" / "beir"
        board = self.place / "verified" / "results" / "beir"

        def compared() -> tuple[int, set[tuple[Any, ...]]]:
            code = ended(
                started(["verify", "beir", "--results", str(board.parents[1]), "--json"], self.place / "store", self.said)
            )
            text = self.said.read_text(errors="replace")
            checks = json.loads(text[text.index("{") :])["checks"] if code in (0, 1) and "{" in text else []
            return code, {(one["system"], one["dataset"], one["measure"], one["measured"]) for one in checks}

        board.mkdir(parents=True)
        for name in ("bm25", "bm25@lucene"):
            shutil.copy(committed / f"{name}.json", board)
        _, known = compared()
        assert known, self.said.read_text()
        for _ in range(trials):
            path = board / self.chance.choice(["bm25.json", "bm25@lucene.json"])
            content = path.read_bytes()
            _damage(path, harm := self.chance.choice(["flip", "cut", "digit"]), path, self.chance)
            code, found = compared()
            broken = "Traceback" in (text := self.said.read_text(errors="replace")) or "bug in lexbench" in text
            row.count(survived=not broken, silent=not found <= known, why=f"{harm} of {path.name}: {code}: {text[-300:]}")
            path.write_bytes(content)
        return row

    def races(self, trials: int) -> Row:
        """Run the same command in two to four processes on one store; in every second trial kill one of them."""
        row, root = Row("2 to 4 processes on one store"), self.place / "store"
        for trial in range(trials):
            shutil.rmtree(root, ignore_errors=True)
            harm = at_write(root, "", self.chance.randrange(len(self.writes)), die(0))
            begun = []
            for number in range(self.chance.randint(2, 4)):
                said = self.place / f"said {number}"
                begun.append((started(self.words, root, said, harm if trial % 2 and not number else lambda: None), said))
            ends = [(ended(process), said) for process, said in begun]
            well = [code == 0 or (trial % 2 == 1 and code == -signal.SIGKILL) for code, _ in ends]
            wrong = [scores(said) != self.scores for code, said in ends if code == 0]
            if any(wrong) or not all(well):
                row.count(survived=all(well), silent=any(wrong), why=f"{[code for code, _ in ends]}")
            else:
                self.mended(row, root, {}, "a race")
        return row

    def timings(self, trials: int) -> Row:
        """Kill a run that times a system, or its measuring process; finished timings must not be measured again."""
        row, root = Row("kill -9 in timings"), self.place / "store"
        words = ["run", "dataset", str(self.folder), "-r", "bm25", "-m", "nDCG@10", "--json", *_TIMED]
        gaps = [gap for artifact, gap in self._recorded(words, self._copy(self.calm, root)) if artifact == "timings"]
        for trial in range(trials):
            self._copy(self.calm, root)
            if trial % 2:
                why = f"the measuring process, {_child_killed(started(words, root, self.said), self.chance.uniform(0, 3))}"
            else:
                number = self.chance.randrange(len(gaps))
                after = self.chance.choice([0.0, self.chance.uniform(0, gaps[number])])
                code = ended(started(words, root, self.said, at_write(root, "timings", number, die(after))))
                why = f"write {number} + {after:.2f} s, {code}"
            survived, before = row.survived, sealed(root)
            self.mended(row, root, before, why, words)
            if row.survived > survived and not self._timed():
                row.survived, row.silent = row.survived - 1, row.silent + 1
        return row

    def _timed(self) -> bool:
        """Whether the last run has the scores of the calm one and checked timings of both scenarios."""
        text = self.said.read_text()
        found = json.loads(text[text.index("{") : text.rindex("}") + 1])
        timings = [[timing["checked"] for timing in result["timings"]] for result in found["results"]]
        return scores(self.said) == self.scores[:1] and all(len(checked) == 2 and all(checked) for checked in timings)

    def trainings(self, trials: int) -> Row:
        """Kill a training; after it was continued, its losses and weights must be those of the calm one."""
        row, place = Row("kill -9 in training"), self.place / "training"
        for module in ("lexbench.lexmae.training.pretrain", "transformers.trainer"):
            importlib.import_module(module)
        importlib.import_module("topics").write(place)
        os.chdir(place)
        short = [f"pretrain.{setting}" for setting in ("steps=12", "save_every=4", "dropout=0.1")]
        words = ["train", "pretrain", "tiny.toml", *(word for setting in short for word in ("--set", setting)), "--output"]

        def made(name: str) -> dict[str, bytes]:
            folder = place / name / "pretrained"
            return {path.name: path.read_bytes() for path in (*folder.glob("*.safetensors"), folder / "losses.jsonl")}

        assert ended(started([*words, "calm"], place / "store", self.said)) == 0, self.said.read_text()
        begin = time.monotonic()
        assert ended(started([*words, "again"], place / "store", self.said)) == 0
        whole, known = time.monotonic() - begin, made("calm")
        assert made("again") == known
        for _ in range(trials):
            shutil.rmtree(place / "killed", ignore_errors=True)
            after = self.chance.uniform(0, whole)
            code = ended(started([*words, "killed"], place / "store", self.said, die(after)))
            again = ended(started([*words, "killed"], place / "store", self.said))
            wrong = again == 0 and made("killed") != known
            row.count(survived=again == 0, silent=wrong, why=f"{after:.2f} s, {code}, {again}: {self.said.read_text()[-300:]}")
        return row

    def hostile(self, trials: int) -> Row:
        """Run every hostile input: it must give an error in one line, or the right answer."""
        row = Row("hostile inputs")
        every = list(hostile_inputs.inputs(self.place / "hostile"))
        for number in _spread(len(every), trials):
            given = every[number]
            code = ended(started(given.words, self.place / "hostile store", self.said, given.enter))
            text = self.said.read_text(errors="replace")
            broken = (
                "Traceback" in text
                or "a mistake of lexbench" in text
                or code not in ((0, 1, 2, 3) if given.readable else (1, 2, 3))
            )
            silent = code == 0 and not given.readable
            row.count(survived=not broken or silent, silent=silent, why=f"{given.name}: {code}: {text[-300:]}")
        return row


def _child_killed(process: int, after: float) -> str:
    """Kill the measuring process of *process* after so many seconds; return when, and the exit code of *process*."""
    time.sleep(after)
    children = Path(f"/proc/{process}/task/{process}/children")
    begin = time.monotonic()
    while time.monotonic() - begin < 1:  # there may be none between two of them
        with suppress(OSError, IndexError):  # it has ended, or has no child at the moment
            os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
            return f"{after:.2f} s, {ended(process)}"
        time.sleep(0.005)
    return f"none there, {ended(process)}"


def _signalled(number: int) -> None:
    os.kill(os.getpid(), number)


def _damage(path: Path, harm: str, other: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    at = chance.randrange(max(1, len(content)))
    if harm == "remove":
        path.unlink()
    elif harm in ("link to another file", "link to nothing"):
        path.unlink()
        path.symlink_to(other if harm == "link to another file" else path.with_name("nothing"))
    elif harm == _EXCHANGE:
        beside = [folder for folder in sorted(path.parents[1].iterdir()) if folder.is_dir() and folder != path.parent]
        if beside:  # of the same kind of artifact
            path.parent.rename(path.parents[1] / "exchanged")
            (to := chance.choice(beside)).rename(path.parent)
            (path.parents[1] / "exchanged").rename(to)
    elif harm == "flip with the old time":
        times = path.stat()
        _damage(path, "flip", other, chance)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    elif harm == "digit":
        at = chance.choice([number for number, byte in enumerate(content) if chr(byte).isdigit()])
        path.write_bytes(content[:at] + str(chance.randrange(10)).encode() + content[at + 1 :])
    elif harm == "swap":
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
    elif harm == "cut":
        path.write_bytes(content[:at])
    else:
        path.write_bytes(content[:at] + bytes([(content[at] if content else 0) ^ 1 << chance.randrange(8)]) + content[at + 1 :])


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.glob("results/*/*.json"))}


def _package(site: Path, name: str, text: str) -> Path:
    """Write a package with the encoder `twin`, version 1: letter counts of *text*, an expression; return the folder."""
    (facts := site / f"{name}-1.dist-info").mkdir(parents=True, exist_ok=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (facts / "entry_points.txt").write_text(f"[lexbench.encoders]\ntwin = {name}:Twin\n")
    (site / f"{name}.py").write_text(
        "from dataclasses import dataclass\nfrom lexbench_example.letters import Letters\n\n@dataclass(frozen=True)\n"
        f"class Twin(Letters):\n    def encode_document(self, texts):\n"
        f"        return Letters.encode_document(self, [{text} for text in texts])\n    encode_query = encode_document\n"
    )
    return site


def _spread(count: int, most: int) -> list[int]:
    """Return *most* of the numbers below *count*, evenly spaced, or all."""
    return [number * count // min(most, count) for number in range(min(most, count))]


def rows(campaign: Campaign, trials: int, only: str) -> Iterator[Row]:
    """Yield the rows of the table whose kinds contain *only*. Each kind has its own random numbers."""
    slow, slowest = max(1, trials // 20), max(1, trials // 50)
    kills = max(1, (trials - 2 * slow) // len(ARTIFACTS))
    kinds: dict[str, Callable[[], Row]] = {
        **{f"kill -9 in {artifact}": partial(campaign.kills, artifact, kills) for artifact in ARTIFACTS},
        "full disk": partial(campaign.full_disks, max(1, trials // 2)),
        "limit of file size": partial(campaign.limits, "limit of file size", slow),
        "damage": partial(campaign.damages, "flip, cut, swap, remove of stored files", _HARMS, max(1, trials // 2)),
        "links and folders": partial(campaign.damages, "links, exchanged folders, old times", _FORGED, max(1, trials // 4)),
        "races": partial(campaign.races, slow),
        "signals": partial(campaign.signals, max(1, trials // 10)),
        "remotes": partial(campaign.remotes, slow * 2),
        "twins": partial(campaign.twins, min(slowest * 2, 10)),
        "verify": partial(campaign.verified, max(1, trials // 4)),
        "limit of memory": partial(campaign.limits, "limit of memory", slow),
        "hostile inputs": partial(campaign.hostile, trials * 10),
        "kill -9 in training": partial(campaign.trainings, slow),
        "kill -9 in timings": partial(campaign.timings, slow),
    }
    for name, kind in kinds.items():
        if only in name:
            campaign.chance = random.Random(f"{campaign.seed} {name}")
            yield kind()


def main() -> None:
    """Run the campaign and print its table; exit with 1 if a trial was lost or an error was silent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=40, help="random kills over all artifacts; other kinds in proportion")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only kinds whose names contain this, e.g. hostile")
    given = parser.parse_args()
    print(f"{environment.facts()['processor']}, {environment.facts()['cores']} cores, seed {given.seed}\n")
    print("| kind | trials | survived | redone | silent errors |\n|:--|--:|--:|--:|--:|", flush=True)
    total = Row("all")
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder), given.seed)
        for row in rows(campaign, given.trials, given.only):
            print(f"| {row.kind} | {row.trials:,} | {row.survived:,} | {row.redone:,} | {row.silent:,} |", flush=True)
            for count in ("trials", "survived", "redone", "silent"):
                setattr(total, count, getattr(total, count) + getattr(row, count))
        os.chdir("/")
    print(f"| {total.kind} | {total.trials:,} | {total.survived:,} | {total.redone:,} | {total.silent:,} |")
    sys.exit(1 if total.silent or total.survived < total.trials else 0)


if __name__ == "__main__":
    main()
