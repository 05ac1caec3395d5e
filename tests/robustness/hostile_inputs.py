"""Hostile inputs for `fault_campaign`: expressions, names, and files of suites, recipes, models and contracts.

More hostile expressions and contracts are in test_notation and test_contracts; hostile runs, judgements, collections and
results are in test_trec, test_hostile_files, test_own_data and test_soundness.
"""

import os
import random
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lexbench import contracts

sys.path.append(str(Path(__file__).parents[1]))
import tiny

_DEEP = "[" * 100_000 + "]" * 100_000
_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Hostile:
    """One input, in the words of a command."""

    name: str
    words: list[str]
    readable: bool = False  # whether it may be accepted: it is odd, but has one meaning
    environment: Mapping[str, str] = field(default_factory=dict)
    suites: Path | None = None  # a folder of contracts, found like that of another package

    def enter(self) -> None:
        """Set the environment of this process, and add the contracts."""
        os.environ.update(self.environment)
        if self.suites:
            folders = (*contracts.suite_folders(), self.suites)
            contracts.suite_folders = lambda: folders  # type: ignore[assignment]
            contracts.all_contracts.cache_clear()
        os.environ["LEXBENCH_OFFLINE"] = "1"


def collection(place: Path, documents: int, queries: int) -> Path:
    """Write a BEIR folder whose words are numbers; the text of a query is the beginning of its relevant document."""
    chance = random.Random(7)
    texts = [" ".join(f"w{int(chance.paretovariate(0.6)) % 500}" for _ in range(30)) for _ in range(documents)]
    asked = {f"q{number}": " ".join(texts[number].split()[:5]) for number in range(queries)}
    judged = [(f"q{number}", f"d{number}", 1) for number in range(queries)]
    return tiny.write(place, {f"d{number}": text for number, text in enumerate(texts)}, asked, judged)


def inputs(place: Path) -> Iterator[Hostile]:
    """Yield every hostile input; its files are written below *place*."""
    place.mkdir()
    good = collection(place / "good", 20, 4)
    yield from _notation(good)
    yield from _tables(place)
    yield from _contracts(place, good)


def _notation(good: Path) -> Iterator[Hostile]:
    texts = (
        "a" * 5000, f"bm25(k1={2**70})", "bm25(k1=nan)", f"x({_DEEP})", "x(" + "1 if 1 else " * 1000 + "1)",
        'run_file(path="' + "a" * 5000 + '")', "None", "bm25(\udcff)", "bm\x1b[31m25", "bm25\n25", "bm\t25", "(lambda: 1)()",
        "bm25(k1:=2)", "bm25(*a)", "x([y for y in z])", "x(f'{1}')", "bm25(b'x')", "bm25({1: 2})", "bm25[0]",
        "__import__('os')", "await x", "lexmae_nano@impact@flat",
    )  # fmt: skip
    for text in texts:
        yield Hostile(f"system: {text[:20]!r}", ["run", "dataset", str(good), "--dry-run", "-r", text])
        yield Hostile(f"measure: {text[:20]!r}", ["run", "dataset", str(good), "--dry-run", "-m", text])
    for name in ("a" * 5000, "\x1b[31m", "\udcff", "../../../../etc/passwd", "/dev/null", "/proc/self/mem", "."):
        yield Hostile(f"dataset: {name[:20]!r}", ["run", "dataset", name])
        yield Hostile(f"suite: {name[:20]!r}", ["run", "suite", name])


def _tables(place: Path) -> Iterator[Hostile]:
    suite = 'schema = 1\nid = "x"\nname = "x"\ndescription = "x"\ndatasets = ["pydoc/test"]\nheadline = "nDCG@10"\n'
    suite += "measures = {}\nretrievers = {}\n"
    texts: dict[str, str | bytes] = {
        "deep": f"a = {_DEEP}",
        "no TOML": "\x00",
        "not UTF-8": b"\xff = 1",
        "no measure": suite.format('["' + "x" * 5000 + '"]', '["bm25"]'),
        "a deep system": suite.format('["nDCG@10"]', '["' + "x(" * 900 + '"]'),
        "huge": "a = " + "9" * 5000,
        "a date": "schema = 1979-05-27",
        "mark": _MARK,
    }
    for name, text in texts.items():
        models = tiny.write_files(place / f"models {name}", {"hostile_model.toml": text})
        file = str(models / "hostile_model.toml")
        yield Hostile(f"suite: {name}", ["run", "suite", file, "--dry-run"])
        yield Hostile(f"recipe: {name}", ["train", "pretrain", file, "--dry-run"])
        yield Hostile(f"model: {name}", ["show", "model", "hostile_model"], environment={"LEXBENCH_MODELS": str(models)})
    steps = "pretrain.steps="
    for setting in ("=", "a", steps + "9" * 5000, steps + _DEEP[:3000], "\x1b=1", "." * 500, "a." * 900 + "b=1"):
        yield Hostile(f"--set {setting[:20]!r}", ["train", "pretrain", "lexmae_nano", "--dry-run", "--set", setting])


def _contracts(place: Path, good: Path) -> Iterator[Hostile]:
    """Yield contracts of other packages that are damaged or impossible, beside a good collection."""
    facts = 'schema = 1\nid = "hostile"\nversion = 1\nname = "x"\ndescription = "x"\ncorpus = "hostile"\n[source]\n'
    texts: dict[str, str | bytes] = {
        "deep": f"a = {_DEEP}",
        "not UTF-8": b"\xff = 1",
        "empty": "",
        "a list": "[[contract]]\n",
        "an id of two words": facts.replace('id = "hostile"', 'id = "a b"'),
        "ESC in a name": facts.replace('corpus = "hostile"', 'corpus = "\\u001b[31m"'),
        "another loader": facts + 'loader = "nobody"\n',
        "huge version": facts.replace("version = 1", f"version = {'9' * 5000}"),
        "a date": facts.replace("schema = 1", "schema = 1979-05-27"),
        "grades": facts + '[expected]\ngrades = { "x" = 1 }\n',
        "too few documents": facts + "[expected]\ndocuments = -5\n",
        "a measure's threshold": facts + f"[relevance.measures]\nRR = {2**70}\n",
        "control characters": facts + '[[defects]]\nwhat = "\\u0000\\u001b]0;x"\nsource = "x"\n',
    }
    for name, text in texts.items():
        package = tiny.write_files(place / f"contracts {name}", {"datasets/hostile.toml": text})
        shutil.copytree(good, package / "data" / "hostile")
        environment = {"LEXBENCH_DATA": str(package / "data")}
        for words in (["run", "dataset", "hostile"], ["show", "dataset", "hostile"], ["list", "datasets"]):
            yield Hostile(f"contract: {name}: {words[0]}", words, True, environment, package)
