"""Encoding a corpus: while the model encodes one shard, a thread tokenises the next and another writes the last.

Several devices are several processes, each with its share of the shards; what is in a shard does not depend on which made it.
Each process is started anew, so that nothing of a GPU is inherited.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Thread
from typing import Any

from lexbench.encodings.shards import missing, shard_file, write_shard
from lexbench.encodings.vectors import stacked
from lexbench.errors import LexbenchError
from lexbench.plugins import BatchEncoder, CountsTruncated, Encoder, EncoderFacts, RunsOnDevices
from lexbench.types import Corpus, Document

Advance = Callable[[int], None]

_BATCH = 256  # texts handed at a time to an encoder that does not cut batches itself
_AHEAD = 2  # shards that are tokenised before they are needed


def encode(encoder: Encoder[Any], corpus: Corpus, path: Path, advance: Advance = lambda _count: None) -> None:
    """Encode the shards of *corpus* that the folder *path* lacks, telling *advance* how many more documents are done.

    An encoder that has several `workers()`, one a device, encodes in as many processes. LexbenchError where one fails.
    """
    shards = missing(len(corpus), path)
    workers: Sequence[Encoder[Any]] = encoder.workers() if isinstance(encoder, RunsOnDevices) else [encoder]
    if len(workers) > 1 and len(shards) > 1:
        shares = [(worker, corpus, path, shards[at :: len(workers)]) for at, worker in enumerate(workers)]
        _in_processes(encode_shards, shares, advance)
    else:
        encode_shards(workers[0], corpus, path, shards, advance)


def encode_shards(encoder: Encoder[Any], corpus: Corpus, path: Path, shards: Iterable[range], advance: Advance) -> None:
    """Encode the documents at the positions *shards*, one file a shard."""
    staged: BatchEncoder[Any, Any] = encoder if isinstance(encoder, BatchEncoder) else _InBatches(encoder)
    storage = EncoderFacts.of(encoder).storage

    def tokenise(shard: range) -> Any:
        return staged.tokenise_documents(list(corpus.documents(shard.start, shard.stop)))

    with ExitStack() as stack:
        writer = stack.enter_context(ThreadPoolExecutor(1))
        tokeniser = ThreadPoolExecutor(1)
        # After a failure, or Ctrl-C, nobody needs the next shards, nor waits until the one at hand is tokenised.
        stack.callback(tokeniser.shutdown, wait=False, cancel_futures=True)
        queue: deque[tuple[range, Future[Any]]] = deque()
        last_write: Future[None] | None = None
        remaining = iter(shards)
        while True:
            while len(queue) < _AHEAD and (shard := next(remaining, None)) is not None:
                queue.append((shard, tokeniser.submit(tokenise, shard)))
            if not queue:
                break
            shard, tokenised = queue.popleft()
            tokens = tokenised.result()
            vectors = staged.encode_tokens(tokens, advance)
            if last_write:
                last_write.result()
            truncated = tokens.truncated if isinstance(tokens, CountsTruncated) else 0
            target = shard_file(path, shard)
            last_write = writer.submit(write_shard, target, vectors, truncated=truncated, storage=storage)
        if last_write:
            last_write.result()


@dataclass(frozen=True)
class _InBatches:
    """An encoder that takes texts, used in the two steps of an encoder that cuts its own batches."""

    encoder: Encoder[Any]

    def tokenise_documents(self, documents: Sequence[Document]) -> list[str]:
        """Return the texts: such an encoder tokenises when it encodes."""
        return [document.text for document in documents]

    def encode_tokens(self, tokens: list[str], advance: Advance) -> Any:
        """Return one vector a text."""
        blocks = []
        for start in range(0, len(tokens), _BATCH):
            batch = tokens[start : start + _BATCH]
            blocks.append(self.encoder.encode_document(batch))
            advance(len(batch))
        return stacked(blocks)


def _in_processes(work: Callable[..., None], shares: Sequence[tuple[Any, ...]], advance: Callable[[int], None]) -> None:
    """Call work(*share, advance) for each of *shares* in a process of its own, passing on what each tells its *advance*.

    LexbenchError, with the line of the first that failed, after the others were stopped.
    """
    context = get_context("spawn")
    processes = []
    try:
        for share in shares:
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_run, args=(work, share, sender), daemon=True)
            process.start()
            sender.close()
            processes.append((process, receiver))
        _listen([receiver for _, receiver in processes], advance)
    finally:
        for process, receiver in processes:
            process.terminate()
            process.join()
            receiver.close()


def _listen(pipes: list[Connection], advance: Callable[[int], None]) -> None:
    """Pass on the numbers that processes send until each has sent None, that it is done; raise the error that one sends."""
    while pipes:
        for pipe in wait(pipes):
            assert isinstance(pipe, Connection)
            try:
                message = pipe.recv()
            except EOFError:
                raise LexbenchError("an encoding process was killed (too little memory?); the same command goes on") from None
            if isinstance(message, int):
                advance(message)
            elif message is None:
                pipes.remove(pipe)
            else:
                raise message


def _run(work: Callable[..., None], share: tuple[Any, ...], pipe: Connection) -> None:
    """Do one share of the work, in its process, and send what `_listen` waits for."""
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        work(*share, pipe.send)
    except LexbenchError as error:
        pipe.send(LexbenchError(str(error)))
    except Exception as error:  # noqa: BLE001 - it goes on in the parent
        pipe.send(LexbenchError(f"an encoding process failed: {type(error).__name__}: {error}"))
    else:
        pipe.send(None)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however it went."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
