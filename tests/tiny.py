"""Write small BEIR folders and other files, install packages with plug-ins, run commands and compare stores, for tests."""

import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from lexbench.cli import code
from lexbench.contracts import Contract, SourceFacts, TextPolicy
from lexbench.datasets.corpus import write_corpus
from lexbench.storage.artifact_folder import MANIFEST, MEASURED
from lexbench.storage.atomic import UNFINISHED
from lexbench.types import Document

DOCUMENTS = {"d1": "the red fox", "d2": "a red red car", "d3": "blue sky"}
QUERIES = {"q1": "red car", "q2": "green"}
# The start of a program that kills itself before a flush to the disk; its first argument is the number of the flush.
KILL_AT_FLUSH = """
import os, signal, sys
from lexbench.storage import atomic
left, sync = int(sys.argv.pop(1)), atomic.sync
def crash(path):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    sync(path)
atomic.sync = crash
"""


def enter(tmp_path, monkeypatch):
    """Make *tmp_path* the current folder, with a store in it, and forbid downloads."""
    monkeypatch.setenv("LEXBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("LEXBENCH_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)


def write(place, documents, queries, judged, split="test"):
    """Write a folder of *documents* and *queries*, texts by id, and of judgements (query, document, grade); return its path."""
    for name, texts in (("corpus", documents), ("queries", queries)):
        write_rows(place / f"{name}.jsonl", ({"_id": text_id, "text": text} for text_id, text in texts.items()))
    rows = "".join(f"{query}\t{document}\t{grade}\n" for query, document, grade in judged)
    (place / "qrels").mkdir(exist_ok=True)
    (place / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return place


def lines(rows):
    """Return *rows* as JSON lines."""
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def write_rows(path, rows):
    """Write *rows* as JSON lines, compressed or not, or as Parquet, by the ending of *path*."""
    if path.suffix != ".parquet":
        write_files(path.parent, {path.name: lines(rows)})
        return
    import pyarrow as pa
    from pyarrow.parquet import write_table

    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(pa.Table.from_pylist(rows), path)


def write_files(folder, files):
    """Write *files* into *folder* and return it: text, compressed if the name ends in .gz, or bytes by name; None removes."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink(missing_ok=True)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return folder


def install(site, name, entry_points, **modules):
    """Install a package into the folder *site*: its version 1, its entry points by group, and its modules, text by name."""
    groups = "".join(f"[{group}]\n{chr(10).join(lines)}\n" for group, lines in entry_points.items())
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"
    info = {f"{name}-1.dist-info/METADATA": metadata, f"{name}-1.dist-info/entry_points.txt": groups}
    write_files(site, info | {f"{module}.py": text for module, text in modules.items()})


def contract(dataset_id, loader, document="title_text", corpus="", **facts):
    """Return a contract for *loader*; *facts* are others about its source, *corpus* is by default the id without the split."""
    source, corpus = SourceFacts(loader=loader, **facts), corpus or dataset_id.rpartition("/")[0]
    named = {"schema": 1, "id": dataset_id, "version": 1, "name": "", "description": "", "corpus": corpus}
    return Contract(**named, source=source, text=TextPolicy(document=document))


def corpus(path, texts):
    """Write a stored corpus of *texts* by id into the new folder *path*, and open it."""
    path.mkdir()
    return write_corpus((Document(*item) for item in texts.items()), path)


def measure_here(patch):
    """Let this process do the tasks of measuring processes; *patch* is `setattr`, or pytest's, which takes it back."""
    from lexbench.timing import encoding_speed, machine, measuring, protocol

    def run_task(task, _threads, on_pass=None):
        task = msgspec.json.decode(msgspec.json.encode(task), type=type(task))
        if isinstance(task, protocol.MemoryBaseline):  # the memory of imports, which no test reads here
            Path(task.out, protocol.FACTS_FILE).write_text('{"pss_anonymous": 1, "pss_file": 1}')
        elif isinstance(task, protocol.EncodingTask):
            encoding_speed.measure(task)
        else:
            measuring.measure(msgspec.structs.replace(task, core=None), on_pass)

    for module in (protocol, encoding_speed):
        patch(module, "run_task", run_task)
    patch(machine, "model_bytes", lambda: 0)  # it looks at all objects, and some of torch's warn


def loaded_modules(program, *arguments, **environment):
    """Run a Python program in a new process; return the names of the modules that it imports."""
    command = [sys.executable, "-c", f"import sys\n{program}\nprint(*sys.modules, file=sys.stderr)", *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def run(capsys, *arguments):
    """Run the command line; return its exit code, stdout and stderr."""
    exit_code = code([str(word) for word in arguments])
    return exit_code, *capsys.readouterr()


def ended(capsys, ends, *arguments):
    """Run the command line, which must end with the exit code *ends*; return what it alone printed, with `out` and `err`."""
    capsys.readouterr()
    found = code([str(word) for word in arguments])
    printed = capsys.readouterr()
    assert found == ends, printed.err
    return printed


def answer(capsys, *arguments):
    """Run the command line, which must succeed; return its answer in JSON."""
    return json.loads(ended(capsys, 0, *arguments).out)


def tree(root):
    """Return the digest of every file of a store, except locks, logs, notes of checks, measurements and timings.

    A kill while a name is remembered leaves an unfinished file beside it, which nothing reads.
    """
    unread = set(root.glob(f"*/*{UNFINISHED}"))
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != MEASURED and path not in unread
        if (name := path.relative_to(root).as_posix()).partition("/")[0] not in ("locks", "logs", "checked", "timings")
    }


def sealed(root):
    """Return when each artifact was finished, by its folder in the store *root*."""
    return {path.parent.relative_to(root): path.stat().st_mtime_ns for path in root.glob(f"[!l]*/*-*/{MANIFEST}")}


def produced(store, kind, label, facts, work):
    """Return the artifact with these facts; *work* is called with the folder to fill if it is not there yet."""
    with store.draft(kind, label, facts) as slot:
        if slot.unfinished:
            work(slot.unfinished)
    return slot.folder
