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
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import astuple, dataclass
from errno import ENOSPC
from functools import partial
from importlib.metadata import EntryPoint
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

import hostile_inputs
from tiny import sealed, tree

from lexbench import cli, registry
from lexbench.encodings import shards
from lexbench.storage import environment
from lexbench.storage.store import Store

ARTIFACTS = ("corpora", "encodings", "indexes", "runs", "results")
_TESTS = Path(__file__).resolve().parents[1]
_PATIENCE = 300  # seconds until a trial counts as a hang
_EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}
_UNCOUNTED = ("locks", "logs", "checked")  # they decide no answer; "checked" has the times of files
_HARMS = ("flip", "cut", "swap", "remove")
_EXCHANGE = "exchange of two folders"
_FORGED = ("link to another file", "link to nothing", _EXCHANGE, "flip with the old time")


@dataclass
class Row:
    """One line of the table."""

    kind: str
    trials: int = 0
    survived: int = 0
    redone: int = 0
    silent: int = 0

    def __str__(self) -> str:
        return f"| {self.kind} | {' | '.join(f'{count:,}' for count in astuple(self)[1:])} |"

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


def at_write(root: Path, artifact: str, number: int, act: Callable[[], None], *, once: bool = True) -> Callable[[], None]:
    """Return a harm: *act* before write *number*, from 0, of that kind of artifact, or from it on; "" is any kind."""
    left = [number]

    def on_write(at: str) -> None:
        if artifact in ("", at):
            left[0] -= 1
            if left[0] == -1 or (left[0] < 0 and not once):
                act()

    return lambda: watch(root, on_write)


def die(after: float) -> Callable[[], None]:
    """Return a function that kills this process, at once or so many seconds later."""

    def act() -> None:
        if not after:
            signal.raise_signal(signal.SIGKILL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, after)

    return act


def _full() -> NoReturn:
    raise OSError(ENOSPC, os.strerror(ENOSPC))


def _kept(expected: int, code: int, text: str) -> bool:
    return code == expected and "finished work is kept" in text


# ---- the calm run, and its trials ------------------------------------------------------------------------------------------


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

    def mended(self, row: Row, root: Path, before: dict[Path, int], why: str) -> None:
        """Run again without harm, and count whether everything is as in the calm run."""
        code = ended(started(self.words, root, self.said))
        after = sealed(root)
        redone = sum(after.get(folder) != at for folder, at in before.items())
        differing = [name for name, _ in sorted(tree(root).items() ^ self.known.items())]
        wrong = code == 0 and (bool(differing) or scores(self.said) != self.scores)
        why = f"{why}: {code}: {differing[:4]}: {self.said.read_text()[-300:]}"
        row.count(survived=code == 0, redone=redone, silent=wrong, why=why)

    def trial(
        self,
        row: Row,
        harm: Callable[[], None],
        why: str,
        *,
        start: Path | None = None,
        ends: Callable[[int, str], bool] = lambda _code, _text: True,
    ) -> None:
        """Run once with *harm* on a copy of the store *start*; if it *ends* as it should, run again, and count the result."""
        root = self.place / "store"
        shutil.rmtree(root, ignore_errors=True)
        if start:
            shutil.copytree(start, root)
        before = sealed(root)
        code = ended(started(self.words, root, self.said, harm))
        text = self.said.read_text(errors="replace")
        if code == 0 and scores(self.said) != self.scores:
            row.count(survived=False, silent=True, why=why)
        elif "Traceback" in text or not ends(code, text):
            row.count(survived=False, why=f"{why}: {code}: {text[-300:]}")
        else:
            whole = {folder: at for folder, at in sealed(root).items() if next(Store(root).damage(root / folder), None) is None}
            self.mended(row, root, before | whole, f"{why}: {code}")

    def kills(self, artifact: str, trials: int) -> Row:
        """Kill the process at a write of one kind of artifact, or between it and the next write."""
        row, root = Row(f"kill -9 in {artifact}"), self.place / "store"
        gaps = [gap for at, gap in self.writes if at == artifact]
        for _ in range(trials):
            number = self.chance.randrange(len(gaps))
            after = self.chance.choice([0.0, self.chance.uniform(0, gaps[number])])
            harm = at_write(root, artifact, number, die(after))
            self.trial(row, harm, f"write {number} + {after:.4f} s", start=self.before[artifact])
        return row

    def full_disks(self, trials: int) -> Row:
        """Let every write from some write on fail, like on a full disk."""
        row, root = Row("full disk from a write on"), self.place / "store"
        for number in _spread(len(self.writes), trials):
            harm = at_write(root, "", number, _full, once=False)
            self.trial(row, harm, f"write {number}", ends=lambda code, _text: code in (1, 3))
        return row

    def limits(self, kind: str, trials: int) -> Row:
        """Limit the size of files, or the memory, to a random number."""
        row, largest = Row(kind), max(path.stat().st_size for path in self.calm.rglob("*") if path.is_file())
        for _ in range(trials):
            if kind == "limit of file size":
                which, most = resource.RLIMIT_FSIZE, self.chance.randrange(100, largest)
            else:
                taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                which, most = resource.RLIMIT_AS, taken + self.chance.randrange(1 << 20, 1 << 27)
            self.trial(row, partial(resource.setrlimit, which, (most, most)), f"{most}")
        return row

    def signals(self, trials: int) -> Row:
        """Send SIGINT, SIGTERM or SIGHUP before a random write."""
        row, root = Row("SIGINT, SIGTERM, SIGHUP"), self.place / "store"
        for trial in range(trials):
            artifact, number = ARTIFACTS[trial % len(ARTIFACTS)], (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[trial % 3]
            at = self.chance.randrange(sum(kind == artifact for kind, _ in self.writes))
            harm = at_write(root, artifact, at, partial(signal.raise_signal, number))
            kept = partial(_kept, 128 + number)
            self.trial(row, harm, f"{number.name} in {artifact} at {at}", start=self.before[artifact], ends=kept)
        return row

    def damages(self, kind: str, harms: Sequence[str], trials: int) -> Row:
        """Damage a file of a finished store; then export everything, and make again what depends on the file."""
        row, root, out = Row(kind), self.place / "store", self.place / "out"
        exports = (["export", "csv"], ["export", "trec"])
        files = sorted(path.relative_to(self.calm) for path in self.calm.rglob("*") if path.is_file())
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
            for later in ARTIFACTS[first + 1 :]:  # otherwise nothing would read vectors whose index is there
                shutil.rmtree(root / later)
            self.mended(row, root, {}, f"{harm} of {name}")
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

    def hostile(self, trials: int) -> Row:
        """Run every hostile input: it must give an error in one line, or the right answer."""
        row = Row("hostile inputs")
        every = list(hostile_inputs.inputs(self.place / "hostile"))
        for number in _spread(len(every), trials):
            given = every[number]
            code = ended(started(given.words, self.place / "hostile store", self.said, given.enter))
            text = self.said.read_text(errors="replace")
            right = (0, 1, 2, 3) if given.readable else (1, 2, 3)
            broken = "Traceback" in text or "bug in lexbench" in text or code not in right
            silent = code == 0 and not given.readable
            row.count(survived=not broken or silent, silent=silent, why=f"{given.name}: {code}: {text[-300:]}")
        return row


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


def rows(campaign: Campaign, trials: int, only: str) -> Iterator[Row]:
    """Yield the rows of the table whose kinds contain *only*. Each kind has its own random numbers."""
    slow = max(1, trials // 20)
    kills = max(1, (trials - 2 * slow) // len(ARTIFACTS))
    kinds: dict[str, Callable[[], Row]] = {
        **{f"kill -9 in {artifact}": partial(campaign.kills, artifact, kills) for artifact in ARTIFACTS},
        "full disk": partial(campaign.full_disks, max(1, trials // 2)),
        "limit of file size": partial(campaign.limits, "limit of file size", slow),
        "damage": partial(campaign.damages, "flip, cut, swap, remove of stored files", _HARMS, max(1, trials // 2)),
        "links and folders": partial(campaign.damages, "links, exchanged folders, old times", _FORGED, max(1, trials // 4)),
        "races": partial(campaign.races, slow),
        "signals": partial(campaign.signals, max(1, trials // 10)),
        "limit of memory": partial(campaign.limits, "limit of memory", slow),
        "hostile inputs": partial(campaign.hostile, trials * 10),
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
            print(row, flush=True)
            total = Row("all", *(mine + other for mine, other in zip(astuple(total)[1:], astuple(row)[1:], strict=True)))
        os.chdir("/")
    print(total)
    sys.exit(1 if total.silent or total.survived < total.trials else 0)


if __name__ == "__main__":
    main()
