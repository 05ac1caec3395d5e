"""A collection that a tiny model learns in seconds, a recipe for it, and processes to train in that share one import of torch.

Words w0 to w95 belong to 12 topics, 8 words each. A text has 4 words of one topic, three times each, so masked words can be
predicted from the others. A query has the word for its topic (q0 to q11), one word of that topic, and two of another topic,
which mislead BM25.
"""

import io
import json
import os
import pickle
import random
import subprocess
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import tiny
from checkpoints import SPECIAL, cross_encoder, masked_lm
from forking import FORKING

from lexbench.cli import code

TOPICS, WORDS = 12, 8
VOCABULARY = (*SPECIAL, *(f"q{topic}" for topic in range(TOPICS)), *(f"w{word}" for word in range(TOPICS * WORDS)))
_STAGE = """queries = ["topics"]
batch_size = 8
documents = 4
depth = 20
lambda_d = 0.1
lambda_q = 0.1
save_every = 10
"""
RECIPE = """
schema = 1
name = "tiny"
output = "out"

[start]
model = "model"
weights = "fresh"

[encoding]
titles = "off"
query_length = 12
document_length = 16

[pretrain]
corpora = ["topics"]
steps = 60
batch_size = 32
learning_rate = 1e-2
decoder_share = 0.9
dropout = 0.0
save_every = 20

[stage1]
steps = 30
learning_rate = 5e-3
STAGE
[stage2]
negatives = 'sparse_mlm(model="{stage1}", dense_ok=True)@impact'
steps = 30
learning_rate = 5e-3
STAGE
[stage3]
negatives = 'sparse_mlm(model="{stage2}", dense_ok=True)@impact'
start = "stage2"
teacher = "teacher"
steps = 10
learning_rate = 1e-3
STAGE
[selection]
held_out = 0.2
depth = 50
every = 10

[hardware]
device = "cpu"
threads = 1
""".replace("STAGE", _STAGE)
_PATIENCE = 300  # seconds
_CALL = """import pickle, signal, sys, warnings
warnings.simplefilter("error")
signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent process may ignore it, e.g. nohup
function, arguments = pickle.load(sys.stdin.buffer)
sys.exit(function(*arguments))
"""


def write(place: Path, *, documents=10, queries=5) -> Path:
    """Write into *place* the BEIR folder `topics`, the folders `model` and `teacher`, and `tiny.toml`; return *place*."""
    rng = random.Random(0)
    texts, asked, judged = {}, {}, []
    for topic in range(TOPICS):
        for number in range(documents):
            said = 3 * rng.sample(words(topic), 4)
            rng.shuffle(said)
            texts[f"d{topic}.{number}"] = " ".join(said)
        for number in range(queries):
            other = (topic + rng.randrange(1, TOPICS)) % TOPICS
            asked[f"q{topic}.{number}"] = " ".join([f"q{topic}", rng.choice(words(topic)), *rng.sample(words(other), 2)])
            judged += [(f"q{topic}.{number}", f"d{topic}.{document}", 1) for document in range(documents)]
    tiny.write(place / "topics", texts, asked, judged, "train")
    masked_lm(place / "model", vocabulary=VOCABULARY)
    cross_encoder(place / "teacher", vocabulary=VOCABULARY)
    (place / "tiny.toml").write_text(RECIPE)
    return place


def words(topic) -> list[str]:
    """Return the words of a topic."""
    return [f"w{word}" for word in range(topic * WORDS, (topic + 1) * WORDS)]


def losses(folder: Path) -> list[dict[str, float]]:
    """Return the log lines of losses of a trained folder."""
    return [line for line in log(folder) if "loss" in line]


def scores(folder: Path) -> list[dict[str, float]]:
    """Return the log lines of selections of a trained folder."""
    return [line for line in log(folder) if "loss" not in line]


def log(folder: Path) -> list[dict[str, float]]:
    """Return the log of a trained folder."""
    return [json.loads(line) for line in (folder / "losses.jsonl").read_text().splitlines()]


def train(place: Path, *words: str, ends=0) -> str:
    """Run `lexbench train` with *words* in *place*, in this process; return what it prints. *ends*: the exit code."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said):
        patch.chdir(place)
        patch.setenv("LEXBENCH_STORE", str(place / "store"))
        patch.setenv("LEXBENCH_OFFLINE", "1")
        assert code(["train", *words]) == ends, said.getvalue()
    return said.getvalue()


class Process:
    """A process that calls *function* in *place* and prints into a file. Warnings are errors in it."""

    def __init__(self, place: Path, function, *arguments, **environment) -> None:
        python = Path(os.environ[FORKING], "training", "python")
        paths = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
        environment = {"LEXBENCH_STORE": str(place / "store"), "LEXBENCH_OFFLINE": "1", **environment, "PYTHONPATH": paths}
        number, self._output = tempfile.mkstemp(prefix="output-", dir=place)
        with os.fdopen(number, "wb") as output, tempfile.TemporaryFile() as given:
            pickle.dump((function, arguments), given)
            given.seek(0)
            self._process = subprocess.Popen(
                [python, "-c", _CALL], cwd=place, env={**os.environ, **environment}, stdin=given, stdout=output, stderr=output
            )

    def code(self) -> int:
        """Wait for the process and return its exit code; -9 means kill -9."""
        try:
            return self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            pytest.fail(f"still running after {_PATIENCE} s:\n{self.said}")

    @property
    def said(self) -> str:
        """The output so far."""
        return Path(self._output).read_text()
