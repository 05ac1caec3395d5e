"""Hostile inputs for `fault_campaign`: expressions, files and folders that are damaged or malicious."""

import gzip
import json
import os
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
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
    yield from _archives(place)
    yield from _checkpoints(place, good)


def _notation(good: Path) -> Iterator[Hostile]:
    texts = {
        "5,000 transforms": "a" + "|b" * 5000,
        "5,000 dots": "x" + ".y" * 5000,
        "20,000 1+1": "x(" + "1+" * 20_000 + "1)",
        "800 minus signs": "x(" + "-" * 800 + "1)",
        "4,200 digits": "bm25(k1=" + "9" * 4200 + ")",
        "1e999": "bm25(k1=1e999)",
        "4,400 digits": "bm25(k1=" + "9" * 4400 + ")",
        "2,000 not": "x(" + "not " * 2000 + "1)",
        "deep": f"x({_DEEP})",
        "deep calls": "ensemble(" * 3000 + ")" * 3000,
        "path of 5,000": 'run_file(path="' + "a" * 5000 + '")',
        "empty": "",
        "surrogate": "bm25(\udcff)",
        "ESC": "bm\x1b[31m25",
        "lambda": "(lambda: 1)()",
        "walrus": "bm25(k1:=2)",
        "star": "bm25(*a)",
        "nan": "bm25(k1=nan)",
        "negative": "bm25(k1=-1.0)",
        "comprehension": "x([y for y in z])",
        "f-string": "x(f'{1}')",
        "huge int": f"bm25(k1={2**70})",
        "bytes": "bm25(b'x')",
        "dict": "bm25({1: 2})",
        "slice": "bm25[0]",
        "import": "__import__('os')",
        "newline": "bm25\n25",
        "tab": "bm\t25",
        "null list": "lexmae_nano|top_k([])@impact",
        "none": "None",
        "5,000 letters": "a" * 5000,
        "two engines": "lexmae_nano@impact@flat",
        "conditional": "x(" + "1 if 1 else " * 1000 + "1)",
        "await": "await x",
    }
    for name, text in texts.items():
        yield Hostile(f"system: {name}", ["run", "dataset", str(good), "--dry-run", "-r", text])
        yield Hostile(f"measure: {name}", ["run", "dataset", str(good), "--dry-run", "-m", text])
    for name in ("a" * 5000, "\x1b[31m", "\udcff", "../../../../etc/passwd", "/dev/null", "/proc/self/mem", "."):
        yield Hostile(f"dataset: {name[:20]!r}", ["run", "dataset", name])
        yield Hostile(f"suite: {name[:20]!r}", ["run", "suite", name])


def _columns(place: Path) -> Iterator[Hostile]:
    run, qrels = b"q1 Q0 d%b 1 %b x\n", b"q1 0 d%b %b\n"
    good_run, good_qrels = place / "good.run", place / "good.qrels"
    good_run.write_bytes(run % (b"1", b"1"))
    good_qrels.write_bytes(qrels % (b"1", b"1"))
    packed = gzip.compress(b"".join(qrels % (b"%d" % (n * n), b"1") for n in range(2000)))
    numbers = {
        "1_0": b"1_0",
        "full-width": "\uff11".encode(),
        "nan": b"nan",
        "inf": b"-inf",
        "hex": b"0x10",
        "1e400": b"1e400",
        "comma": b"1,0",
        "text": b"one",
        "empty": b"",
        "900 digits": b"9" * 900,
        "2,000 digits": b"9" * 2000,
    }
    for name, number in numbers.items():
        yield Hostile(f"run: score {name}", ["score", _file(place, run % (b"1", number)), "--qrels", str(good_qrels)])
        yield Hostile(f"qrels: grade {name}", ["score", str(good_run), "--qrels", _file(place, qrels % (b"1", number))])
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
    texts = {
        "corpus.jsonl": [
            "",
            "[]\n",
            "{}\n",
            "null\n",
            '{"_id": 7.5, "text": "x"}\n',
            '{"_id": "a"}\n',
            '{"_id": "a", "text": 5}\n',
            '{"_id": "", "text": "x"}\n',
            '{"_id": "a b", "text": "x"}\n',
            '{"_id": "#a", "text": "x"}\n',
            '{"_id": "\\u0000", "text": "x"}\n',
            '{"_id": "\\ud800", "text": "x"}\n',
            '{"_id": "a", "text": "x"}\n' * 2,
            '{"_id": "' + "d" * 100_000 + '", "text": "x"}\n',
            '{"_id": "a", "text": "x", "b": ' + _DEEP + "}\n",
            "{" * 1000 + "\n",
            '{"_id": ["a"], "text": "x"}\n',
            "\x1b[31m\n",
        ],
        "queries.jsonl": [
            "",
            "[]\n",
            '{"_id": "q0", "text": "x"}\n' * 2,
            '{"_id": "q0"}\n',
            '{"_id": "q0", "text": "x"}\n',
            _DEEP + "\n",
        ],
        "qrels/test.tsv": [
            "",
            "query-id\tcorpus-id\tscore\n",
            "q0\td0\t1_0\n",
            "q0\td0\t3000000000\n",
            "q0\td0\n",
            "q0\td0\t1\nq0\td0\t2\n",
            "q0\td\x000\t1\n",
            "q9\td0\t1\n",
        ],
    }
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
    for setting in (
        "=",
        "a",
        "pretrain.steps=" + "9" * 5000,
        f"pretrain.steps={_DEEP[:3000]}",
        "\x1b=1",
        "." * 500,
        "a." * 900 + "b=1",
    ):
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
        "system": "bm25",
        "dataset": "pydoc/test",
        "contract": "pydoc/test@1",
        "depth": 10,
        "means": {"nDCG@10": 0.5},
        "query_ids": ["a", "b"],
        "per_query": {"nDCG@10": [0.5, 0.5]},
        "counts": {"queries": 2},
    }
    changes: dict[str, Any] = {
        "mean .9": {"means": {"nDCG@10": 0.9}},
        "mean 7": {"means": {"nDCG@10": 7.0}, "per_query": {"nDCG@10": [7, 7]}},
        "no values": {"per_query": {}},
        "short": {"per_query": {"nDCG@10": [0.5]}},
        "twice": {"query_ids": ["a", "a"]},
        "schema": {"schema": 99},
        "system": {"system": "x"},
        "contract": {"contract": "`<script>`"},
        "counts": {"counts": {"queries": 9}},
        "text": {"means": {"nDCG@10": "x"}},
        "null": {"means": None},
        "ties": {"ties": {"nDCG@10": {"lowest": 1, "highest": 0, "queries": 0}}},
        "huge": {"means": {"nDCG@10": 1e308}},
        "list": {"counts": []},
    }
    entries = {
        name: {"suite": "pydoc", "system": "bm25", "results": [{**result, **change}]} for name, change in changes.items()
    }
    entries |= {
        "two": {"suite": "pydoc", "system": "bm25", "results": [result, result]},
        "name": {"suite": "pydoc", "system": "x", "results": [result]},
    }
    contents = {name: json.dumps(entry).encode() for name, entry in entries.items()}
    contents |= {
        "deep": _DEEP.encode(),
        "none": b"",
        "cut": contents["two"][:90],
        "binary": bytes(range(256)),
        "mark": b"\xff\xfe",
    }
    for name, content in contents.items():
        file = place / f"board {name}" / "results" / "pydoc" / "bm25.json"
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
        yield Hostile(f"result: {name}", ["leaderboard", "--results", str(place / f"board {name}")])


def _archives(place: Path) -> Iterator[Hostile]:
    """Yield archives in the place of FEVER, none of which is the published one."""

    def packed(members: Mapping[str, bytes]) -> Callable[[Path], None]:
        def write(path: Path) -> None:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
                for name, content in members.items():
                    file.writestr(name, content)

        return write

    whole = {
        "fever/corpus.jsonl": b"{}\n",
        "fever/queries.jsonl": b"{}\n",
        "fever/qrels/test.tsv": b"query-id\tcorpus-id\tscore\nq\td\t1\n",
    }
    archives: dict[str, Callable[[Path], object]] = {
        "none": lambda path: path.write_bytes(b"no archive"),
        "empty": packed({}),
        "outside": packed({"../../../outside": b"x", "/outside": b"x", **whole}),
        "bomb": packed({**whole, "fever/corpus.jsonl": bytes(300_000_000)}),
        "faulty": packed(whole),
    }
    for name, write in archives.items():
        home = place / f"archives {name}"
        (home / "beir" / "fever").mkdir(parents=True)
        write(home / "beir" / "fever" / "source.zip")
        yield Hostile(f"archive: {name}", ["run", "dataset", "beir/fever/test"], environment={"IR_DATASETS_HOME": str(home)})


def _checkpoints(place: Path, good: Path) -> Iterator[Hostile]:
    tests = import_module("checkpoints")
    changes: dict[str, Callable[[Path], object]] = {
        "10**9 layers": lambda folder: tests.reconfigure(folder, num_hidden_layers=10**9),
        "10**13 positions": lambda folder: tests.reconfigure(folder, max_position_embeddings=10**13),
        "deep": lambda folder: (folder / "config.json").write_text('{"model_type": ' + _DEEP + "}"),
        "model_type": lambda folder: tests.reconfigure(folder, model_type=["bert"]),
        "architectures": lambda folder: tests.reconfigure(folder, architectures=5),
        "auto_map": lambda folder: tests.reconfigure(folder, model_type="evil", auto_map={"AutoConfig": "evil.Evil"}),
        "no [UNK]": lambda folder: (folder / "vocab.txt").write_text("[PAD]\n[CLS]\n[SEP]\n[MASK]\na\n"),
        "cut weights": lambda folder: (folder / "model.safetensors").write_bytes(
            (folder / "model.safetensors").read_bytes()[:999]
        ),
        "no weights": lambda folder: (folder / "model.safetensors").unlink(),
        "modules outside": lambda folder: (folder / "modules.json").write_text('[{"type": "a.Transformer", "path": "../.."}]'),
        "modules": lambda folder: (folder / "modules.json").write_text('{"a": 5}'),
    }
    for name, change in changes.items():
        folder = tests.tiny_bert(place / f"model {name}", form="transformers", safetensors=True)
        change(folder)
        yield Hostile(
            f"checkpoint: {name}", ["run", "dataset", str(good), "-r", f'sparse_mlm(model="{folder}", dense_ok=True)@impact']
        )


def _file(place: Path, content: bytes, end: str = "") -> str:
    """Write a new file; return its path."""
    path = place / f"file {len(list(place.iterdir()))}{end}"
    path.write_bytes(content)
    return str(path)
