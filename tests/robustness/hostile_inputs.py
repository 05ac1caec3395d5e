"""Hostile inputs for `fault_campaign`: expressions, files and folders that are damaged or malicious."""

import gzip
import json
import os
import random
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lexbench import contracts

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
    """Write a BEIR folder whose words are numbers."""
    (place / "qrels").mkdir(parents=True)
    chance = random.Random(7)
    texts = [" ".join(f"w{int(chance.paretovariate(0.6)) % 500}" for _ in range(30)) for _ in range(documents)]
    rows = [{"_id": f"d{number}", "title": "", "text": text} for number, text in enumerate(texts)]
    (place / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = [{"_id": f"q{number}", "text": " ".join(texts[number].split()[:5])} for number in range(queries)]
    (place / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    judged = "".join(f"q{number}\td{number}\t1\n" for number in range(queries))
    (place / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return place


def inputs(place: Path) -> Iterator[Hostile]:
    """Yield every hostile input; its files are written below *place*."""
    place.mkdir()
    good = collection(place / "good", 20, 4)
    yield from _notation(good)
    yield from _columns(place)
    yield from _collections(place, good)
    yield from _tables(place)
    yield from _contracts(place, good)
    yield from _results(place)


def _notation(good: Path) -> Iterator[Hostile]:
    texts = (
        "a" + "|b" * 5000, "x" + ".y" * 5000, "x(" + "1+" * 20_000 + "1)", "x(" + "-" * 800 + "1)", "a" * 5000,
        "bm25(k1=" + "9" * 4200 + ")", "bm25(k1=" + "9" * 4400 + ")", "bm25(k1=1e999)", f"bm25(k1={2**70})", "bm25(k1=nan)",
        "bm25(k1=-1.0)", "x(" + "not " * 2000 + "1)", f"x({_DEEP})", "ensemble(" * 3000 + ")" * 3000,
        "x(" + "1 if 1 else " * 1000 + "1)", 'run_file(path="' + "a" * 5000 + '")', "", "None", "bm25(\udcff)", "bm\x1b[31m25",
        "bm25\n25", "bm\t25", "(lambda: 1)()", "bm25(k1:=2)", "bm25(*a)", "x([y for y in z])", "x(f'{1}')", "bm25(b'x')",
        "bm25({1: 2})", "bm25[0]", "__import__('os')", "await x", "lexmae_nano|top_k([])@impact", "lexmae_nano@impact@flat",
    )  # fmt: skip
    for text in texts:
        yield Hostile(f"system: {text[:20]!r}", ["run", "dataset", str(good), "--dry-run", "-r", text])
        yield Hostile(f"measure: {text[:20]!r}", ["run", "dataset", str(good), "--dry-run", "-m", text])
    for name in ("a" * 5000, "\x1b[31m", "\udcff", "../../../../etc/passwd", "/dev/null", "/proc/self/mem", "."):
        yield Hostile(f"dataset: {name[:20]!r}", ["run", "dataset", name])
        yield Hostile(f"suite: {name[:20]!r}", ["run", "suite", name])


def _columns(place: Path) -> Iterator[Hostile]:
    run, qrels = b"q1 Q0 d%b 1 %b x\n", b"q1 0 d%b %b\n"
    good_run, good_qrels = place / "good.run", place / "good.qrels"
    good_run.write_bytes(run % (b"1", b"1"))
    good_qrels.write_bytes(qrels % (b"1", b"1"))
    packed = gzip.compress(b"".join(qrels % (b"%d" % (n * n), b"1") for n in range(2000)))
    numbers = (b"1_0", "\uff11".encode(), b"nan", b"-inf", b"0x10", b"1e400", b"1,0", b"one", b"", b"9" * 900, b"9" * 2000)
    for number in numbers:
        name = number[:20]
        yield Hostile(f"run: score {name!r}", ["score", _file(place, run % (b"1", number)), "--qrels", str(good_qrels)])
        yield Hostile(f"qrels: grade {name!r}", ["score", str(good_run), "--qrels", _file(place, qrels % (b"1", number))])
    ids = {"NUL": b"15\0", "100,000 bytes": b"d" * 100_000}
    for name, ending in ids.items():
        yield Hostile(f"run: id {name}", ["score", _file(place, run % (ending, b"1")), "--qrels", str(good_qrels)])
        yield Hostile(f"qrels: id {name}", ["score", str(good_run), "--qrels", _file(place, qrels % (ending, b"1"))])
    for name, content, readable in (
        ("BOM", _MARK + run % (b"1", b"1"), True),
        ("not UTF-8", run % (b"\xff", b"1"), True),
        ("UTF-16", "q1 Q0 d 1 1 x\n".encode("utf-16"), False),
        ("twice", (run % (b"1", b"1")) * 2, False),
        ("7 columns", b"q 0 d 1 1 x y\n", True),
        ("ragged", b"q Q0 d 1 1 x\nq\n", False),
        ("binary", bytes(range(256)) * 9, False),
        ("CR only", b"q1 Q0 d 1 1 x\rq1 Q0 e 2 0 x\r", False),
        ("ESC", run % (b"\x1b[31m", b"1"), True),
        ("counts down", b"q0 d0 2\nq0 d1 1\n", False),
        ("ranks against scores", b"q0 Q0 d0 1 1 x\nq0 Q0 d1 2 2 y\n", True),
    ):
        yield Hostile(f"run: {name}", ["score", _file(place, content), "--qrels", str(good_qrels)], readable)
    for name, content, end in (
        ("empty", b"", ""),
        ("header alone", b"query-id\tcorpus-id\tscore\n", ""),
        ("grade 2147483648", qrels % (b"1", b"2147483648"), ""),
        ("30 digits", qrels % (b"1", b"9" * 30), ""),
        ("float", qrels % (b"1", b"1.5"), ""),
        ("two grades", qrels % (b"1", b"1") + qrels % (b"1", b"2"), ""),
        ("gzip flipped", packed[:100] + bytes([packed[100] ^ 0x55]) + packed[101:], ".gz"),
        ("gzip cut", packed[:-9], ".gz"),
        ("gzip none", b"none", ".gz"),
        ("gzip tail", packed + b"x", ".gz"),
        ("gzip bomb", gzip.compress(bytes(400_000_000), 1), ".gz"),
    ):
        yield Hostile(f"qrels: {name}", ["score", str(good_run), "--qrels", _file(place, content, end)])
        yield Hostile(f"import qrels: {name}", ["import", "qrels", _file(place, content, end), str(place / "imported")])


def _collections(place: Path, good: Path) -> Iterator[Hostile]:
    head = "query-id\tcorpus-id\tscore\n"
    texts = {
        "corpus.jsonl": (
            "", "[]\n", "{}\n", "null\n", "\x1b[31m\n", "{" * 1000 + "\n", '{"_id": 7.5, "text": "x"}\n', '{"_id": "a"}\n',
            '{"_id": "a", "text": 5}\n', '{"_id": "", "text": "x"}\n', '{"_id": "a b", "text": "x"}\n',
            '{"_id": "#a", "text": "x"}\n', '{"_id": "\\u0000", "text": "x"}\n', '{"_id": "\\ud800", "text": "x"}\n',
            '{"_id": "a", "text": "x"}\n' * 2, '{"_id": "' + "d" * 100_000 + '", "text": "x"}\n',
            '{"_id": "a", "text": "x", "b": ' + _DEEP + "}\n", '{"_id": ["a"], "text": "x"}\n',
        ),
        "queries.jsonl": (
            "", "[]\n", '{"_id": "q0", "text": "x"}\n' * 2, '{"_id": "q0"}\n', '{"_id": "q0", "text": "x"}\n', _DEEP + "\n",
        ),
        "qrels/test.tsv": (
            "", head, "q0\td0\t1_0\n", "q0\td0\t3000000000\n", "q0\td0\n", "q0\td0\t1\nq0\td0\t2\n", "q0\td\x000\t1\n",
            "q9\td0\t1\n",
        ),
    }  # fmt: skip
    for name, contents in texts.items():
        for number, content in enumerate(contents):
            folder = Path(shutil.copytree(good, place / f"{name.replace('/', '-')} {number}"))
            (folder / name).write_text(content)
            yield Hostile(f"{name}: {content[:40]!r}", ["run", "dataset", str(folder)])
    for name, content in (
        ("half a pair in a text", '{"_id": "a", "text": "red \\ud800 car"}\n'),
        ("a number and null", '{"_id": 7, "title": null, "text": null}\n'),
        ("ESC in an id", '{"_id": "\\u001b[31m", "text": "x"}\n'),
        ("a NUL in a text", '{"_id": "a", "text": "x\\u0000y"}\n'),
        ("no words", '{"_id": "a", "text": ""}\n'),
    ):
        folder = Path(shutil.copytree(good, place / name))
        (folder / "corpus.jsonl").write_text(content)
        yield Hostile(f"corpus: {name}", ["run", "dataset", str(folder)], readable=True)
    for name in ("\x1b[31mred", "\u202eturned", "a\nb", "\udcff"):
        yield Hostile(f"folder: {name!r}", ["run", "dataset", str(shutil.copytree(good, place / name))], readable=True)
    (place / "bytes").mkdir()
    bad = Path(shutil.copytree(good, place / "not UTF-8"))
    (bad / "corpus.jsonl").write_bytes(b'{"_id": "a", "text": "\xff"}\n')
    yield Hostile("corpus: not UTF-8", ["run", "dataset", str(bad)])
    yield Hostile("folder: empty", ["run", "dataset", str(place / "bytes")])


def _tables(place: Path) -> Iterator[Hostile]:
    suite = 'schema = 1\nid = "x"\nname = "x"\ndescription = "x"\ndatasets = ["pydoc/test"]\nheadline = "nDCG@10"\n'
    suite += "measures = {}\nretrievers = {}\n"
    texts: dict[str, str | bytes] = {
        "deep": f"a = {_DEEP}",
        "no TOML": "\x00",
        "not UTF-8": b"\xff = 1",
        "another form": "schema = 1",
        "a list": "[[suite]]\n",
        "no measure": suite.format('["' + "x" * 5000 + '"]', '["bm25"]'),
        "a deep system": suite.format('["nDCG@10"]', '["' + "x(" * 900 + '"]'),
        "numbers": suite.format("[1]", "[2]"),
        "huge": "a = " + "9" * 5000,
        "a date": "schema = 1979-05-27",
        "mark": _MARK,
    }
    for name, text in texts.items():
        file = _file(place, text if isinstance(text, bytes) else text.encode(), ".toml")
        yield Hostile(f"suite: {name}", ["run", "suite", file, "--dry-run"])
        yield Hostile(f"recipe: {name}", ["train", "pretrain", file, "--dry-run"])
        models = place / f"models {name}"
        models.mkdir()
        shutil.copy(file, models / "hostile_model.toml")
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
        "outside": facts.replace('corpus = "hostile"', 'corpus = "../../outside"'),
        "split outside": facts + 'split = "../../../../etc/passwd"\n',
        "another loader": facts + 'loader = "nobody"\n',
        "huge version": facts.replace("version = 1", f"version = {'9' * 5000}"),
        "a date": facts.replace("schema = 1", "schema = 1979-05-27"),
        "grades": facts + '[expected]\ngrades = { "x" = 1 }\n',
        "too few documents": facts + "[expected]\ndocuments = -5\n",
        "a key of nobody": facts + "[nobody]\nx = 1\n",
        "threshold": facts + '[relevance]\ndefault = "high"\n',
        "a measure's threshold": facts + f"[relevance.measures]\nRR = {2**70}\n",
        "tuning on itself": facts.replace("[source]", 'tuning = "hostile"\n[source]'),
        "control characters": facts + '[[defects]]\nwhat = "\\u0000\\u001b]0;x"\nsource = "x"\n',
    }
    for name, text in texts.items():
        package = place / f"contracts {name}"
        (package / "datasets").mkdir(parents=True)
        (package / "datasets" / "hostile.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
        shutil.copytree(good, package / "data" / "hostile")
        environment = {"LEXBENCH_DATA": str(package / "data")}
        for words in (["run", "dataset", "hostile"], ["show", "dataset", "hostile"], ["list", "datasets"]):
            yield Hostile(f"contract: {name}: {words[0]}", words, True, environment, package)


def _results(place: Path) -> Iterator[Hostile]:
    result: dict[str, Any] = {
        "system": "bm25", "dataset": "pydoc/test", "contract": "pydoc/test@1", "depth": 10, "means": {"nDCG@10": 0.5},
        "query_ids": ["a", "b"], "per_query": {"nDCG@10": [0.5, 0.5]}, "counts": {"queries": 2},
    }  # fmt: skip
    changes: tuple[dict[str, Any], ...] = (
        {"means": {"nDCG@10": 0.9}}, {"means": {"nDCG@10": 7.0}, "per_query": {"nDCG@10": [7, 7]}}, {"per_query": {}},
        {"per_query": {"nDCG@10": [0.5]}}, {"query_ids": ["a", "a"]}, {"schema": 99}, {"system": "x"},
        {"contract": "`<script>`"}, {"counts": {"queries": 9}}, {"means": {"nDCG@10": "x"}}, {"means": None},
        {"ties": {"nDCG@10": {"lowest": 1, "highest": 0, "queries": 0}}}, {"means": {"nDCG@10": 1e308}}, {"counts": []},
    )  # fmt: skip
    entries = {
        f"{number} {' '.join(change)}": {"suite": "pydoc", "system": "bm25", "results": [{**result, **change}]}
        for number, change in enumerate(changes)
    }
    entries |= {
        "two": {"suite": "pydoc", "system": "bm25", "results": [result, result]},
        "name": {"suite": "pydoc", "system": "x", "results": [result]},
    }
    contents = {name: json.dumps(entry).encode() for name, entry in entries.items()}
    contents |= {
        "deep": _DEEP.encode(), "none": b"", "cut": contents["two"][:90], "binary": bytes(range(256)), "mark": b"\xff\xfe",
    }  # fmt: skip
    for name, content in contents.items():
        file = place / f"board {name}" / "results" / "pydoc" / "bm25.json"
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
        yield Hostile(f"result: {name}", ["leaderboard", "--results", str(place / f"board {name}")])


def _file(place: Path, content: bytes, end: str = "") -> str:
    """Write a new file; return its path."""
    path = place / f"file {len(list(place.iterdir()))}{end}"
    path.write_bytes(content)
    return str(path)
