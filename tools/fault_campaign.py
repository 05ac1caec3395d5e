"""Kill, fill, damage, race and starve lexbench, and count what came of it: `python tools/fault_campaign.py --trials 1000`.

Every trial is a process of its own, forked from this one, which has imported everything: it costs its work alone.
Writes are seen by Python's audit events (`open`, `os.rename`, …), so that a trial can aim: a stage is drawn, a write of it, and
whether the process dies there or some random part of the way to the next. A trial is

    survived      the same command, run again without harm, ends well, and every byte and score is that of a calm run
    redone        folders that were finished before, and were made again
    silent        what was read, exported or scored differed from the calm run without a word: must be 0

Hostile files are in `hostile_inputs`: refused in a line, or read right. With `--state FILE` a campaign that was cut off goes
on at the kind of trial that it was at, so that it can be run in pieces; what it has is of one state of the code alone.
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
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass
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
from lexbench.storage.artifacts import MANIFEST, MEASURED
from lexbench.storage.store import Store

STAGES = ("corpora", "encodings", "indexes", "runs", "results")
_TESTS = Path(__file__).resolve().parent.parent / "tests"
_PATIENCE = 300  # seconds until a trial is a hang, and so not survived
_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}
_UNCOUNTED = ("locks", "logs", "checked")  # of no answer: "checked" has the times of files
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
        """Add one trial; say *why* it did not survive."""
        self.trials += 1
        self.survived += survived and not silent
        self.redone += redone
        self.silent += silent
        if silent or not survived:
            print(f"{self.kind}: {'SILENT' if silent else 'lost'}: {why}", file=sys.stderr, flush=True)


# ---- processes -------------------------------------------------------------------------------------------------------------


def started(words: Sequence[str], root: Path, said: Path, harm: Callable[[], None] = lambda: None) -> int:
    """Fork a process that suffers *harm* and then does the command *words* on the store *root*; return its number."""
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
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # what starts with nohup is right to ignore it, and is no trial
        os.environ["LEXBENCH_STORE"] = str(root)
        harm()
        cli.main(list(words))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:  # noqa: BLE001 - a trial must not go on as the campaign
        print(f"Traceback: {error!r}", file=sys.stderr)
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                code = code or 1
        os._exit(code)


def ended(process: int) -> int:
    """Return how a process ended: its exit code, or minus the signal; -1000 for a hang, which is killed."""
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
    """Call *on_write* with the stage before each write below *root* in this process, which can never be undone."""
    beginning = f"{root}/"

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event not in _EVENTS or not isinstance(args[0], str | bytes | os.PathLike):
            return
        if event == "open" and args[1] is not None and not set("wax+") & set(str(args[1])):
            return  # for reading; without a mode it is os.open, by which files are flushed to the disk
        path = os.fsdecode(args[0])
        if path.startswith(beginning) and (stage := path[len(beginning) :].partition("/")[0]) not in _UNCOUNTED:
            on_write(stage)

    sys.addaudithook(hook)


def at_write(root: Path, stage: str, number: int, act: Callable[[], None]) -> Callable[[], None]:
    """Return a harm: *act* before write *number*, from 0, of that stage; "" is any stage."""
    left = [number]

    def on_write(at: str) -> None:
        if stage in ("", at):
            left[0] -= 1
            if left[0] == -1:
                act()

    return lambda: watch(root, on_write)


def die(after: float) -> Callable[[], None]:
    """Return what kills this process: at once, or so many seconds later without a word from Python."""

    def act() -> None:
        if not after:
            os.kill(os.getpid(), signal.SIGKILL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, after)

    return act


# ---- a calm run, and what is compared with it ------------------------------------------------------------------------------


def tree(root: Path) -> dict[str, str]:
    """Return the digest of every file of a store but locks, tracebacks, times and timings."""
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != MEASURED
        if (name := path.relative_to(root).as_posix()).partition("/")[0] not in (*_UNCOUNTED, "timings")
    }


def sealed(root: Path) -> dict[Path, int]:
    """Return when each finished folder was given its manifest."""
    return {path.parent.relative_to(root): path.stat().st_mtime_ns for path in root.glob(f"[!l]*/*-*/{MANIFEST}")}


def scores(said: Path) -> Any:
    """Return the values of queries that a run printed as JSON; None where it printed none."""
    text = said.read_text(encoding="utf-8", errors="replace")
    try:
        found = json.loads(text[text.index("{") : text.rindex("}") + 1])
        return [(result["system"], result["means"], result["per_query"]) for result in found["results"]]
    except (ValueError, LookupError):
        return None


class Campaign:
    """The folder of a campaign, a calm run in it, and a trial of each kind."""

    def __init__(self, place: Path, seed: int) -> None:
        """Write a collection of 300 documents, five shards, and run two systems on it, calmly."""
        self.place, self.seed, self.chance = place, seed, random.Random(seed)
        shards.SHARD = 64  # so that so small a collection has several
        sys.path += [str(_TESTS), str(_TESTS / "plugin")]
        entry = EntryPoint("letters", "lexbench_example.letters:Letters", "lexbench.encoders")
        dict.__setitem__(registry._entries("encoders"), "letters", entry)  # type: ignore[index]  # noqa: SLF001
        self.folder = hostile_inputs.collection(place / "words", 300, 40)
        self.words = ["run", "dataset", str(self.folder), "-r", "bm25", "-r", "letters@flat", "-m", "nDCG@10", "--json"]
        self.said, self.calm = place / "said", place / "calm"
        os.environ["LEXBENCH_STORE"] = str(place / "warm")
        for words in (self.words, ["export", "trec", str(place / "warm")], ["export", "csv", str(place / "warm")]):
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # imports and compiles here what every trial would
                assert cli.code(words) == 0
        self.writes = self._recorded(self.words, self.calm)
        self.known, self.scores = tree(self.calm), scores(self.said)
        assert self.scores, self.said.read_text()
        self.before: dict[str, Path] = {}
        for number, stage in enumerate(STAGES):
            self.before[stage] = self._copy(self.calm, place / f"before {stage}")
            for later in STAGES[number:]:
                shutil.rmtree(self.before[stage] / later, ignore_errors=True)

    def _recorded(self, words: Sequence[str], root: Path) -> list[tuple[str, float]]:
        """Do *words* calmly on the store *root*; return the stage of every write, and the seconds until the next."""
        record, writes = self.place / "record", list[tuple[str, float]]()

        def harm() -> None:
            watch(root, lambda stage: writes.append((stage, time.monotonic())))
            real = os._exit

            def leave(status: int) -> NoReturn:
                record.write_text(json.dumps(writes))
                real(status)

            os._exit = leave

        assert ended(started(words, root, self.said, harm)) == 0, self.said.read_text()
        times = [(stage, float(at)) for stage, at in json.loads(record.read_text())]
        following = [*(at for _, at in times[1:]), times[-1][1]]
        return [(stage, after - at) for (stage, at), after in zip(times, following, strict=True)]

    def _copy(self, source: Path, target: Path) -> Path:
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(source, target))

    def mended(self, row: Row, root: Path, before: dict[Path, int], why: str, words: Sequence[str] = ()) -> None:
        """Run again without harm, and count whether all is as in the calm run."""
        code = ended(started(words or self.words, root, self.said))
        after = sealed(root)
        redone = sum(after.get(folder) != at for folder, at in before.items())
        wrong = code == 0 and (tree(root) != self.known or (not words and scores(self.said) != self.scores))
        row.count(survived=code == 0, redone=redone, silent=wrong, why=f"{why}: {code}: {self.said.read_text()[-300:]}")

    def kills(self, stage: str, trials: int) -> Row:
        """Kill the process in one stage, before a write or on the way to the next."""
        row, root = Row(f"kill -9 in {stage}"), self.place / "store"
        gaps = [gap for at, gap in self.writes if at == stage]
        for _ in range(trials):
            self._copy(self.before[stage], root)
            number, before = self.chance.randrange(len(gaps)), sealed(root)
            after = self.chance.choice([0.0, self.chance.uniform(0, gaps[number])])
            code = ended(started(self.words, root, self.said, at_write(root, stage, number, die(after))))
            known = {folder: at for folder, at in sealed(root).items() if next(Store(root).damage(root / folder), None) is None}
            self.mended(row, root, before | known, f"write {number} + {after:.4f} s, {code}")
        return row

    def full_disks(self, trials: int) -> Row:
        """Let every write from some one on fail, as on a full disk; the first *trials* of all, evenly spaced."""
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
        """Limit the size of files, or the memory, to something random."""
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
        """Send SIGINT, SIGTERM or SIGHUP before a write of some stage."""
        row, root = Row("SIGINT, SIGTERM, SIGHUP"), self.place / "store"
        for trial in range(trials):
            stage, number = STAGES[trial % len(STAGES)], (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[trial % 3]
            self._copy(self.before[stage], root)
            at = self.chance.randrange(sum(of == stage for of, _ in self.writes))
            harm = at_write(root, stage, at, partial(_signalled, number))
            before = sealed(root)
            code = ended(started(self.words, root, self.said, harm))
            text = self.said.read_text()
            if code != 128 + number or "every finished stage is kept" not in text or "Traceback" in text:
                row.count(survived=False, why=f"{number.name} in {stage} at {at}: {code}: {text[-300:]}")
                continue
            self.mended(row, root, before, f"{number.name} in {stage} at {at}")
        return row

    def damages(self, trials: int) -> Row:
        """Flip a byte of a file of a finished store, cut, swap or remove it: then read it, and run again what is made of it."""
        row, root, out = Row("flip, cut, swap, remove of stored files"), self.place / "store", self.place / "out"
        exports = (["export", "csv"], ["export", "trec"])
        files = sorted(
            name for name in (path.relative_to(self.calm) for path in self.calm.rglob("*")) if (self.calm / name).is_file()
        )
        files = [name for name in files if name.parts[0] not in ("locks", "logs")]
        assert all(ended(started([*words, str(out)], self.calm, self.said)) == 0 for words in exports), self.said.read_text()
        known = {path.name: path.read_bytes() for path in out.iterdir()}
        every = [(name, harm) for harm in ("flip", "cut", "swap", "remove") for name in files]
        for number in _spread(len(every), trials):
            name, harm = every[number]
            self._copy(self.calm, root)
            other = self.chance.choice([other for other in files if other != name])
            _damage(root / name, harm, root / other, self.chance)
            shutil.rmtree(out, ignore_errors=True)
            codes = [ended(started([*words, str(out)], root, self.said)) for words in exports]
            wrong = [path.name for path in out.glob("*") if path.read_bytes() != known[path.name]]
            if wrong:
                row.count(survived=False, silent=True, why=f"{harm} of {name}: {wrong}, {codes}")
                continue
            harmed = [file.parts[0] for file in ((name, other) if harm == "swap" else (name,))]
            first = min((STAGES.index(stage) for stage in harmed if stage in STAGES), default=len(STAGES))
            for later in STAGES[first + 1 :]:  # else nobody would read vectors of which everything has been made
                shutil.rmtree(root / later)
            self.mended(row, root, {}, f"{harm} of {name}")
        return row

    def races(self, trials: int) -> Row:
        """Let two to four processes run the same on one store; in every other trial one of them is killed."""
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

    def clocks(self, trials: int) -> Row:
        """Let the clock go back while a run is made, and let every file of a finished store be of another year."""
        row, root = Row("a clock that goes back"), self.place / "store"
        for _ in range(trials):
            self._copy(self.before[self.chance.choice(STAGES)], root)
            for path in root.rglob("*"):
                os.utime(path, (at := self.chance.uniform(0, 2**32), at))
            begin = self.chance.uniform(0, 2**32)

            def harm(begin: float = begin) -> None:
                real = time.monotonic
                time.time = lambda: begin - 1000 * real()

            code = ended(started(self.words, root, self.said, harm))
            wrong = code == 0 and scores(self.said) != self.scores
            if code or wrong:
                row.count(survived=False, silent=wrong, why=f"{code}: {self.said.read_text()[-300:]}")
            else:
                self.mended(row, root, {}, "a clock")
        return row

    def timings(self, trials: int) -> Row:
        """Kill a run that times a system, or the process of its own that measures it: what was timed is not timed again."""
        row, root = Row("kill -9 in timings"), self.place / "store"
        words = ["run", "dataset", str(self.folder), "-r", "bm25", "-m", "nDCG@10", "--json", *_TIMED]
        gaps = [gap for stage, gap in self._recorded(words, self._copy(self.calm, root)) if stage == "timings"]
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
        """Whether the run that was just made found the scores of the calm one, and has timings of both scenarios, checked."""
        text = self.said.read_text()
        found = json.loads(text[text.index("{") : text.rindex("}") + 1])
        timings = [[timing["checked"] for timing in result["timings"]] for result in found["results"]]
        return scores(self.said) == self.scores[:1] and all(len(of) == 2 and all(of) for of in timings)  # noqa: PLR2004 - scenarios

    def trainings(self, trials: int) -> Row:
        """Kill a training; gone on with, its losses and weights are those of the calm one."""
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
        """Give lexbench every hostile input of the list: a line and no traceback, or the right answer."""
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
    """Kill the process that *process* has started to measure, *after* seconds; return how *process* ended, and when it was."""
    time.sleep(after)
    children = Path(f"/proc/{process}/task/{process}/children")
    begin = time.monotonic()
    while time.monotonic() - begin < 1:  # between two of them there is none
        with suppress(OSError, IndexError):  # it has ended, or has no child now
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
    elif harm == "swap":
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
    elif harm == "cut":
        path.write_bytes(content[:at])
    else:
        path.write_bytes(content[:at] + bytes([(content[at] if content else 0) ^ 1 << chance.randrange(8)]) + content[at + 1 :])


def _spread(count: int, most: int) -> list[int]:
    """Return *most* of the numbers below *count*, evenly spaced, or all."""
    return [number * count // min(most, count) for number in range(min(most, count))]


def rows(campaign: Campaign, trials: int, only: str, done: dict[str, Row]) -> Iterator[tuple[str, Row]]:
    """Yield the kinds and rows of the table: of *trials* kills most are of stages, others of training and timing.

    Those of *done* are not done again; the chance of each kind is its own, so that the others do not depend on it.
    """
    slow, slowest = max(1, trials // 20), max(1, trials // 50)
    kills = max(1, (trials - 2 * slow) // len(STAGES))
    kinds: dict[str, Callable[[], Row]] = {
        **{f"kill -9 in {stage}": partial(campaign.kills, stage, kills) for stage in STAGES},
        "full disk": partial(campaign.full_disks, max(1, trials // 2)),
        "limit of file size": partial(campaign.limits, "limit of file size", slow),
        "damage": partial(campaign.damages, max(1, trials // 2)),
        "races": partial(campaign.races, slow),
        "signals": partial(campaign.signals, max(1, trials // 10)),
        "limit of memory": partial(campaign.limits, "limit of memory", slow),
        "clocks": partial(campaign.clocks, slowest),
        "hostile inputs": partial(campaign.hostile, trials * 10),
        "kill -9 in training": partial(campaign.trainings, slow),
        "kill -9 in timings": partial(campaign.timings, slow),
    }
    for name, kind in kinds.items():
        if only in name:
            campaign.chance = random.Random(f"{campaign.seed} {name}")
            yield name, done[name] if name in done else kind()


def read_state(file: Path | None, what: str) -> dict[str, Row]:
    """Return the finished rows of *file*, by kind, where they are of *what*, and leave just these in it."""
    if file is None:
        return {}
    begun, *lines = file.read_text().split("\n") if file.is_file() else [""]
    kept = lines[:-1] if begun == what else []  # what is behind the last newline was cut off
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([what, *kept, ""]))
    return {name: Row(**row) for name, row in map(json.loads, kept)}


def code_digest() -> str:
    """Return a digest of all that a campaign tries, and of what it tries it with."""
    files = (path for folder in ("lexbench", "suites", "tools") for path in (_TESTS.parent / folder).rglob("*.*"))
    content = [path.read_bytes() for path in sorted(files) if path.suffix in (".py", ".toml")]
    return hashlib.sha256(b"".join(content)).hexdigest()[:16]


def main() -> None:
    """Run the campaign and print its table; exit with 1 where a trial was lost, or an error silent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=40, help="random kills over all stages; other kinds in proportion")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="kinds whose names have this in them, as 'hostile'")
    parser.add_argument("--state", type=Path, help="keep finished kinds in this file, and go on from it")
    given = parser.parse_args()
    print(f"{environment.facts()['processor']}, {environment.facts()['cores']} cores, seed {given.seed}\n")
    print("| kind | trials | survived | redone | silent errors |\n|:--|--:|--:|--:|--:|", flush=True)
    total = Row("all")
    with tempfile.TemporaryDirectory() as folder:
        campaign, begin = Campaign(Path(folder), given.seed), time.monotonic()
        done = read_state(given.state, f"trials {given.trials}, seed {given.seed}, code {code_digest()}")
        for name, row in rows(campaign, given.trials, given.only, done):
            if given.state and name not in done:
                with given.state.open("a") as file:
                    file.write(json.dumps([name, asdict(row)]) + "\n")
            used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
            print(
                f"{row.kind}: {time.monotonic() - begin:.0f} s, {used:.0f} s of processor since the beginning", file=sys.stderr
            )
            print(f"| {row.kind} | {row.trials:,} | {row.survived:,} | {row.redone:,} | {row.silent:,} |", flush=True)
            for count in ("trials", "survived", "redone", "silent"):
                setattr(total, count, getattr(total, count) + getattr(row, count))
        os.chdir("/")
    print(f"| {total.kind} | {total.trials:,} | {total.survived:,} | {total.redone:,} | {total.silent:,} |")
    sys.exit(1 if total.silent or total.survived < total.trials else 0)


if __name__ == "__main__":
    main()
