"""Compare what lexbench computes with recorded digests, so that a refactoring can be shown to change no result.

    python tools/golden.py                       compare with tests/golden/digests.tsv; exit status 1 if a row differs
    python tools/golden.py --dataset pydoc       only the datasets that are named
    python tools/golden.py --write               record this checkout's answers

Each row is a dataset, a system, a file that the store holds for it (corpus, vectors, index, run, scores) or the numbers that a
command prints with --json, and a digest. Rows of neural models depend on the processor: they are compared only on a processor
of the kind that recorded them. Cranfield and SciFact are read from LEXBENCH_SHARED (default: ../shared); without them
only the embedded pydoc is compared. MiniLM is read from build/minilm (`make build/minilm`).
"""

import argparse
import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "tests" / "golden" / "digests.tsv"
SHARED = Path(os.environ.get("LEXBENCH_SHARED", ROOT.parent / "shared"))
BREAD = ROOT / "tests" / "data" / "bread" / "corpus.jsonl"
NANO = "lexmae_nano@impact"
LEXBENCH = (sys.executable, "-m", "lexbench")
STAGES = ("corpora", "encodings", "indexes", "runs", "results")
CHANGING = {"manifest.json", "measured.json", "remarks.json"}  # keys, times and sentences
Rows: TypeAlias = dict[tuple[str, str, str], str]  # digest by dataset, system and file

LEXICAL = ["bm25", "bm25(k1=1.2, b=0.75)", "passages(bm25, words=64, stride=32)"]
SPARSE = [NANO, "lexmae_nano|top_k(32)@impact", "lexmae_nano|top_k(8)|quantize(100)@csr"]
HYBRID = [
    f"ensemble(bm25, {NANO})",
    f"ensemble(bm25, {NANO}, weights=[0.3, 0.7])",
    f"pipeline(bm25, {NANO}, k=100)",
]
WEIGHTS = 'ensemble(bm25, bm25(k1=2.0, b=0.3), weights="tuned")'
PARTS = [  # each of another part of the code
    'ensemble(bm25, bm25(k1=2.0, b=0.3), weights="oracle")',
    'passages(bm25, words=64, stride=32, score="sum")',
    f'ensemble(bm25, {NANO}, missing="rescored")',
    f"ensemble(bm25, pipeline(bm25, {NANO}, k=50))",
    'run_file(path="{run}")',
    'command("{python} {program}", revision="1")',
]
MODELS = [
    'dense(model="{minilm}")@flat',
    'late_interaction(model="{colbert}")@maxsim',
    'rerank(bm25, cross_encoder(model="{reranker}"), k=5)',
]
SYSTEMS = {
    "pydoc": LEXICAL + SPARSE + HYBRID + PARTS,
    "selves": [
        "bm25",
        "passages(bm25, words=8, score='sum')",
        "ensemble(bm25, bm25(k1=2.0, b=0.3))",
        "pipeline(bm25, bm25(k1=2.0, b=0.3), k=3)",
        'ensemble(bm25, bm25(k1=2.0, b=0.3), weights="oracle")',
    ],
    "cranfield": LEXICAL + SPARSE + HYBRID + MODELS,
    "scifact": [*LEXICAL[:2], NANO, HYBRID[0], WEIGHTS],
}
COMMANDS = {  # by dataset: a command whose numbers are recorded; {dataset} is the dataset's name on the command line
    "pydoc": [
        ["compare", "bm25", NANO, HYBRID[0], "-d", "{dataset}"],
        ["score", "bm25", "-d", "{dataset}", "-m", "nDCG@10", "-m", "AP@1000", "-m", "RR@10"],
        ["explain", "qid:sys-46", "-r", NANO, "-d", "{dataset}"],
        ["explain", "qid:sys-46", "-r", "bm25", "-d", "{dataset}"],
        ["compare", "bm25", "--seeds", f"both = {NANO}, lexmae_nano|top_k(32)@impact", "-d", "{dataset}"],
        ["verify", "pydoc", "--results", "leaderboard"],
        ["leaderboard", "--results", "leaderboard", "--check"],
    ],
}


def digest(content: bytes) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of *content*."""
    return hashlib.sha256(content).hexdigest()[:16]


def numbers(value: Any) -> Iterator[str]:
    """Yield the numbers of a JSON value in document order; sentences and names may change, numbers may not."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from [repr(float(len(item)))] if name == "stale" else numbers(item)  # pages that are out of date
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield repr(float(value))


def content_of(path: Path) -> bytes:
    """Return the content of a stored file without the parts that may change: keys of other artifacts, and notes."""
    if path.name == "result.json":
        result = json.loads(path.read_text(encoding="utf-8"))
        return json.dumps({name: result[name] for name in ("means", "query_ids", "per_query")}, sort_keys=True).encode()
    if path.suffix == ".json":
        return re.sub(r"[-/][0-9a-f]{16}\b", "", path.read_text(encoding="utf-8")).encode()
    return path.read_bytes()


def processor() -> str:
    """Return the name of this machine's kind of processor."""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")  # cloud machines of several generations share a model name
        fields = [re.search(rf"^{name}\s*: (.+)$", text, re.MULTILINE) for name in ("model name", "cpu family", "model")]
        if all(fields):
            return f"{platform.machine()} {', '.join(field[1] for field in fields if field)}"
    return f"{platform.machine()} {platform.processor()}"


def depends_on_processor(row: tuple[str, str, str]) -> bool:
    """Return whether a row is the result of a neural model, which differs between processors."""
    text = " ".join(row)
    return "corpora/" not in text and any(name in text for name in ("lexmae", "model=", "verify"))


class Harness:
    """Runs commands of this checkout with a separate store. *lexbench* is the command, as words."""

    def __init__(self, folder: Path, lexbench: Sequence[str]) -> None:
        self.store, self.lexbench = folder / "store", lexbench
        self.environment = os.environ | {
            "LEXBENCH_STORE": str(self.store),
            "IR_DATASETS_HOME": str(folder / "ir_datasets"),
            "PYTHONPATH": str(ROOT),
            "HF_HUB_OFFLINE": "1",
        }
        if (home := SHARED / "data" / "ir_datasets_home").is_dir():
            shutil.copytree(home, folder / "ir_datasets")

    def __call__(self, *arguments: str) -> str:
        """Return what a command prints. Raises SystemExit with its error message if it fails."""
        done = subprocess.run(
            [*self.lexbench, *arguments],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode and not done.stdout:
            sys.exit(f"lexbench {' '.join(arguments)}\n{done.stderr}")
        return done.stdout

    def files(self) -> set[Path]:
        """Return the files in the store whose content is an answer."""
        stages = [self.store / stage for stage in STAGES]
        return {path for stage in stages for path in stage.rglob("*") if path.is_file() and path.name not in CHANGING}


def write_model(folder: Path, architecture: str, *, projection: int = 0) -> Path:
    """Write a BERT of two layers with random weights and lexmae_nano's words into *folder*, and return *folder*.

    *projection* is the width of a ColBERT's last layer; 0 for none.
    """
    from safetensors.numpy import save_file
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, BertModel

    tokenizer = AutoTokenizer.from_pretrained(ROOT / "lexbench" / "catalog" / "lexmae_nano")
    tokenizer.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, id2label={0: "relevance"}, architectures=[architecture],
    )  # fmt: skip
    config.save_pretrained(folder)
    model = (BertModel if projection else BertForSequenceClassification)(config)
    random = np.random.default_rng(7)
    prefix = "bert." if projection else ""
    weights = {prefix + name: random.normal(0, 0.2, tuple(value.shape)) for name, value in model.state_dict().items()}
    if projection:
        weights["linear.weight"] = random.normal(0, 0.2, (projection, 32))
    save_file(
        {name: value.astype(np.float32) for name, value in weights.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    return folder


PROGRAM = """\
import json, sys
for line in sys.stdin:
    query = json.loads(line)
    docs = [["json.dumps", 2.5], ["http.server.SimpleHTTPRequestHandler.copyfile", 1.5], ["codeop", 1.5]]
    print(json.dumps({"qid": query["qid"], "docs": docs[: query["k"]]}), flush=True)
"""


def write_selves(folder: Path) -> Path:
    """Write a dataset whose queries are the first sentences of some of its documents, and return *folder*.

    Each query has the id of its document, which the contract drops from its list. The next document is relevant.
    """
    documents = [json.loads(line) for line in BREAD.read_text(encoding="utf-8").splitlines()]
    queries = [{"_id": row["_id"], "text": row["text"].partition(".")[0]} for row in documents[:12]]
    judged = [f"{one['_id']}\t{other['_id']}\t1\n" for one, other in pairwise(documents[:13])]
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judged), encoding="utf-8")
    (folder / "contract.toml").write_text(
        'schema = 1\nid = "selves/test"\nversion = 1\nname = "Selves"\ndescription = "-"\ncorpus = "selves"\n'
        '[source]\nloader = "files"\nsplit = "test"\n[text]\ndocument = "title_text"\n[protocol]\nself_match = "drop"\n'
        f"[expected]\ndocuments = {len(documents)}\n",
        encoding="utf-8",
    )
    return folder


def data_sets(folder: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the name of each dataset that is here, what the command line calls it, and how a run of it begins.

    Datasets that are made for the comparison are written into *folder*.
    """
    yield "pydoc", "pydoc/test", ["run", "suite", "pydoc"]
    selves = str(write_selves(folder / "selves"))
    yield "selves", selves, ["run", "dataset", selves, "--depth", "5", "-m", "nDCG@5", "-m", "R@5"]
    cranfield = SHARED / "data" / "classic" / "cranfield"
    if cranfield.is_dir():
        yield "cranfield", str(cranfield.resolve()), ["run", "dataset", str(cranfield.resolve())]
    if (SHARED / "data" / "ir_datasets_home" / "beir" / "scifact").is_dir():
        yield "scifact", "beir/scifact/test", ["run", "dataset", "beir/scifact/test"]


def answers(wanted: Iterable[str], text: str = "", *, neural: bool = True, lexbench: Sequence[str] = LEXBENCH) -> Rows:
    """Return this checkout's rows for the datasets *wanted* and the systems whose expression contains *text*.

    Without *neural* the systems with a model are left out. *lexbench* is the command, as words.
    """
    rows: Rows = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = Harness(folder, lexbench)
        models: dict[str, Any] = {"minilm": ROOT / "build" / "minilm", "run": folder / "a.run", "python": sys.executable}
        models["program"] = folder / "program.py"
        models["program"].write_text(PROGRAM, encoding="utf-8")
        judged = (ROOT / "suites" / "pydoc" / "added-depth10.tsv").read_text(encoding="utf-8").splitlines()[1:]
        lines = [f"{query} Q0 {doc} 1 {-at % 7} a\n" for at, (query, doc, _) in enumerate(map(str.split, judged))]
        models["run"].write_text("".join(lines), encoding="utf-8")
        if "cranfield" in wanted:
            models |= {
                "colbert": write_model(folder / "colbert", "HF_ColBERT", projection=8),
                "reranker": write_model(folder / "reranker", "BertForSequenceClassification"),
            }
        for data_set, typed, command in data_sets(folder):
            if data_set not in wanted:
                continue
            for system in SYSTEMS[data_set]:
                has_model = "lexmae" in system or "model=" in system
                if text not in system or (has_model and not neural) or ("{minilm}" in system and not models["minilm"].is_dir()):
                    continue
                before = run.files()
                run(*command, "-r", system.format(**models) if "{" in system else system)
                for path in sorted(run.files() - before):
                    stage, _, *inner = path.relative_to(run.store).parts
                    rows[data_set, system, "/".join([stage, *inner])] = digest(content_of(path))
            if neural and not text:
                for arguments in COMMANDS.get(data_set, []):
                    printed = json.loads(run(*(word.format(dataset=typed) for word in arguments), "--json"))
                    rows[data_set, "--json", " ".join(arguments)] = digest("\n".join(numbers(printed)).encode())
    return rows


def recorded() -> tuple[str, Rows]:
    """Return the processor that recorded the table, and its rows."""
    first, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    cells = (line.split("\t") for line in lines)
    return first.removeprefix("# "), {(data_set, system, file): value for data_set, system, file, value in cells}


def main() -> None:
    """Compare or record, and say which rows differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="record this checkout's answers")
    parser.add_argument("--dataset", choices=list(SYSTEMS), action="append", help="only this dataset; repeatable")
    parser.add_argument("--system", default="", help="only systems whose expression contains this text")
    options = parser.parse_args()
    here = answers(options.dataset or list(SYSTEMS), options.system)
    if options.write:
        _, old = recorded() if TABLE.exists() else ("", {})
        lines = ["\t".join((*row, value)) for row, value in (old | here).items()]
        TABLE.write_text("\n".join([f"# {processor()}", *lines]) + "\n", encoding="utf-8")
        return
    where, rows = recorded()
    comparable = {row: value for row, value in here.items() if where == processor() or not depends_on_processor(row)}
    different = [row for row, value in comparable.items() if rows.get(row) != value]
    for row in different:
        print("differs" if row in rows else "is new", *row, sep="\t")
    gone = [row for row in rows if row[:2] in {found[:2] for found in here} and row not in here]
    for row in gone:
        print("is gone", *row, sep="\t")
    print(f"{len(comparable) - len(different)} of {len(comparable)} rows equal the recorded ones")
    if where != processor():
        print(f"{len(here) - len(comparable)} rows of neural models were recorded on another processor ({where}): not compared")
    sys.exit(bool(different or gone))


if __name__ == "__main__":
    main()
