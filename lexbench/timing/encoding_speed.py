"""How fast an encoder is: documents per second, the first answer and memory, each choice of settings in a fresh process."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass, replace
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from lexbench import compiling, devices, notation
from lexbench.encodings.shards import SHARD
from lexbench.errors import CommandError, LexbenchError, UnknownName
from lexbench.models.local_model import DTYPES
from lexbench.notation import Value
from lexbench.retrievers.encoded import Encoded
from lexbench.runner import systems
from lexbench.storage import atomic
from lexbench.timing import machine
from lexbench.timing.protocol import FACTS_FILE, EncodingTask, run_task
from lexbench.types import Document

OWN = "lexbench"  # our own runtime
_ROUNDS = 3  # over all documents; the fastest counts, because disturbances only make a round slower
_WARM_UP = 16  # documents


class Runtime(NamedTuple):
    """A library that can compute the layers of a model, or all of it, in place of ours."""

    packages: tuple[str, ...]
    dtypes: tuple[str, ...]  # without calibration texts


OTHERS = {
    "openvino": Runtime(("openvino",), ("float32", "bfloat16")),
    "onnx": Runtime(("onnx", "onnxscript", "onnxruntime"), ("float32", "int8")),
    "sentence-transformers": Runtime(("sentence_transformers",), ("float32", "bfloat16", "float16")),
}


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """The speed and memory of one encoder in one process."""

    documents_per_second: float  # of the fastest round
    slowest: float  # documents per second of the slowest round
    query_seconds: float  # the median query, encoded alone
    queries_per_second: float  # all queries, encoded together
    first_answer: float  # seconds from opening the model to the vector of the first query
    memory: int  # the most bytes that the process had, libraries included
    gpu_memory: int = 0  # the most bytes of tensors on GPUs
    gpus: list[str] = []  # the names of the GPUs that computed


class Choice(NamedTuple):
    """One row: an expression with its settings, and its speed or why there is none."""

    expression: str
    settings: Mapping[str, Value]  # dtype, device, threads and batch_tokens, as far as the encoder has them
    speed: Speed | None
    refused: str = ""
    runtime: str = OWN  # OWN, or one of OTHERS


def with_settings(expression: str, settings: Mapping[str, Value]) -> str:
    """Return *expression* with *settings* of its encoder added or replaced."""
    parsed = notation.parse(expression)
    named = {**dict(parsed.head.kwargs), **settings}
    return str(replace(parsed, head=replace(parsed.head, kwargs=tuple(sorted(named.items())))))


def choices(expression: str, wanted: Mapping[str, Sequence[Value]]) -> Iterator[dict[str, Value]]:
    """Yield every combination of the *wanted* values of settings that the encoder of *expression* has.

    Raises CommandError if *expression* is not one encoder, and UnknownName for a dtype that the encoder does not have.
    """
    retriever = systems.system(expression).retriever
    if not isinstance(retriever, Encoded):
        raise CommandError(f"{expression} is no encoder, so it encodes nothing; type e.g. lexbench speed lexmae_nano")
    encoder = retriever.encoder
    has: list[str] = [one.name for one in fields(encoder)] if is_dataclass(encoder) else []
    if unknown := [value for value in wanted["dtype"] if "dtype" in has and value not in DTYPES]:
        raise UnknownName("dtype", str(unknown[0]), DTYPES)
    names = [name for name in wanted if name in has]
    yield from (dict(zip(names, values, strict=True)) for values in product(*(wanted[name] for name in names)))


def speeds(
    expression: str,
    wanted: Mapping[str, Sequence[Value]],
    documents: Sequence[Document],
    queries: Sequence[str],
    on_start: Callable[[str], None],
    runtimes: Sequence[str] = (OWN,),
) -> Iterator[Choice]:
    """Measure the encoder of *expression* with every combination of the *wanted* settings, each in a fresh process.

    *on_start* is called with the expression before each measurement. One that fails has the reason instead of a speed.
    """
    for runtime, settings in product(runtimes, list(choices(expression, wanted))):
        if runtime != OWN and settings.get("dtype") not in OTHERS[runtime].dtypes:
            continue
        typed = with_settings(expression, settings)
        on_start(typed if runtime == OWN else f"{typed} by {runtime}")
        with TemporaryDirectory() as folder:
            task = EncodingTask(system=typed, runtime=runtime, documents=list(documents), queries=list(queries), out=folder)
            try:
                run_task(task, int(str(settings.get("threads", 1))))
            except LexbenchError as error:
                yield Choice(typed, settings, None, str(error), runtime)
            else:
                speed = msgspec.json.decode((Path(folder) / FACTS_FILE).read_bytes(), type=Speed)
                yield Choice(typed, settings, speed, runtime=runtime)


def measure(task: EncodingTask) -> None:
    """Measure the encoder of *task* in this process and write its `Speed`."""
    start = compiling.clock()
    encoder = next(systems.encoded_leaves(systems.system(task.system).retriever)).encoder
    if task.runtime != OWN:
        from lexbench.timing import other_runtimes

        encoder = other_runtimes.use(encoder, task.runtime, [document.text for document in task.documents])

    def seconds(work: Callable[[], object]) -> float:
        began = time.perf_counter()
        work()
        devices.wait_for_gpus()
        return time.perf_counter() - began

    def encode(chosen: Sequence[Document]) -> None:
        """Encode documents like `lexbench run`, which tokenises shards while it encodes those before."""
        shards = [chosen[start : start + SHARD] for start in range(0, len(chosen), SHARD)]
        with ThreadPoolExecutor(1) as tokeniser:
            for tokens in tokeniser.map(encoder.tokenise_documents, shards):
                encoder.encode_tokens(tokens, lambda _count: None)

    encoder.encode_query(task.queries[:1])
    devices.wait_for_gpus()
    first_answer = compiling.clock() - start
    encode(task.documents if devices.used_gpus() else task.documents[:_WARM_UP])  # a GPU also prepares each shape of batches
    devices.reset_peak_gpu_memory()
    rounds = [len(task.documents) / seconds(lambda: encode(task.documents)) for _ in range(_ROUNDS)]
    single = median(seconds(lambda query=query: encoder.encode_query([query])) for query in task.queries)  # type: ignore[misc]
    speed = Speed(
        documents_per_second=max(rounds),
        slowest=min(rounds),
        query_seconds=single,
        queries_per_second=len(task.queries) / min(seconds(lambda: encoder.encode_query(task.queries)) for _ in range(_ROUNDS)),
        first_answer=first_answer,
        memory=machine.peak_memory(),
        gpu_memory=devices.peak_gpu_memory(),
        gpus=devices.used_gpu_names(),
    )
    atomic.write_bytes(Path(task.out) / FACTS_FILE, msgspec.json.encode(speed))
