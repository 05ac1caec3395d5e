"""lexbench on one GPU next to other tools, in one run of at most eight minutes.

    python benchmarks/gpu.py --json gpu.json
    python benchmarks/gpu.py --rows flat,maxsim --json gpu.json
    python benchmarks/gpu.py --device cpu --tiny          # tries every line on a processor; its figures mean nothing

Each row has a process of its own and a time limit; the most valuable rows come first, and what does not fit into --seconds is
"not measured". The JSON file is written after each row, with what was measured of a row that was cut off. Models have random
weights in the shape of known ones. Rates are by the clock, of the fastest pass; GPUs are waited for. In brackets: times as fast
as the best peer of the same row in the same precision. A peer that is not installed is left out by name. Encoders do what
`lexbench run` does, writing included; their peers get every fourth text, because they take several times as long. Needs: the
extra `neural`, sentence-transformers; faiss with GPUs and PyLate if they are there.
"""

import argparse
import json
import math
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Work = Callable[[], Any]
LIMIT = 480  # seconds
LEAST = 10  # seconds; a row does not begin with less
PASSES = 3  # of each contender, after one that is not timed
ENOUGH = 6  # seconds; a contender that has computed so long begins no other pass
BLOCK = 50_000  # documents in a block of beir's search
PEER_BATCHES = (128, 512, 32)  # the best of them counts
PRELOADED = ["torch", "transformers", "sentence_transformers", "scipy.sparse", "lexbench.encodings.encoding"]
PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12}  # dense products in bfloat16 per second, by the makers (SXM)
MINILM = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
TINY_MODEL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}


class Row(NamedTuple):
    """One row of the table."""

    unit: str
    goal: str
    seconds: int  # the most it may take, start of the process included
    measure: "Callable[[Bench], None]"


# ---- measuring -------------------------------------------------------------------------------------------------------------


class Bench:
    """What a row measures, written after each contender."""

    def __init__(self, given: argparse.Namespace, file: Path, seconds: float) -> None:
        self.device, self.tiny, self.folder = given.device, given.tiny, file.parent  # rows share the models in the folder
        self.dtype = "float32" if given.tiny else "bfloat16"  # of models; many processors take minutes for bfloat16
        self._file, self._end = file, time.monotonic() + seconds
        self.found: dict[str, Any] = {"rates": {}, "left_out": {}, "facts": {}}
        self.write()

    def write(self) -> None:
        """Write what has been found so far."""
        draft = self._file.with_suffix(".draft")  # a row may be killed while it writes
        draft.write_text(json.dumps(self.found), encoding="utf-8")
        draft.replace(self._file)

    def size(self, full: int, tiny: int) -> int:
        """Return a number of texts or the like."""
        return tiny if self.tiny else full

    def batches(self) -> Sequence[int]:
        """Return the batches of peers."""
        return PEER_BATCHES[:1] if self.tiny else PEER_BATCHES

    def fact(self, name: str, value: Any) -> None:
        """Note a figure beside the rates."""
        self.found["facts"][name] = value
        self.write()

    def contend(self, name: str, count: int, prepare: Callable[[], Work]) -> Any:
        """Time what *prepare* returns, which does *count* things; return the answer of its last pass, None without one.

        A contender that fails is left out, with the first line of its error.
        """
        import torch

        from lexbench.devices import wait_for_gpus

        answer, fastest = None, math.inf
        try:
            work = prepare()
            first = time.perf_counter()
            for number in range(PASSES + 1):
                begin = time.perf_counter()
                answer = work()
                wait_for_gpus()
                took = time.perf_counter() - begin
                if number or took > 10:  # the first pass compiles and allocates, but a long one is all there is time for
                    fastest = min(fastest, took)
                    self.found["rates"][name] = count / fastest
                    self.write()
                if time.monotonic() + 2 * took > self._end or (number and time.perf_counter() - first > ENOUGH):
                    break
        except Exception as error:  # noqa: BLE001 - whatever a peer raises
            self.left_out(name, f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return answer

    def left_out(self, name: str, why: str) -> None:
        """Note why there is no figure of a contender."""
        self.found["left_out"][name] = why
        self.write()


# ---- texts and models ------------------------------------------------------------------------------------------------------


def texts(count: int, mean: int) -> list[str]:
    """Return texts of *mean* tokens, special ones included, on average; lengths are log-normal."""
    from encoding import vocabulary

    rng = np.random.default_rng(2026)
    words = np.array(vocabulary()[5:])
    lengths = np.clip(rng.lognormal(np.log(mean) - 0.3**2 / 2, 0.3, count).round(), 3, 500).astype(int) - 2
    drawn = words[np.minimum(rng.zipf(1.3, lengths.sum()) - 1, len(words) - 1)]
    return [" ".join(part) for part in np.split(drawn, np.cumsum(lengths)[:-1])]


class Memory:
    """Documents in memory, as much of a corpus as encoding needs."""

    fingerprint = "benchmark"

    def __init__(self, given: Sequence[str]) -> None:
        from lexbench.types import Document

        self._documents = [Document(str(number), text) for number, text in enumerate(given)]
        self.doc_ids = np.array([document.doc_id.encode() for document in self._documents])

    def __len__(self) -> int:
        return len(self._documents)

    def documents(self, start: int = 0, stop: int | None = None) -> Iterator[Any]:
        """Yield documents."""
        yield from self._documents[start:stop]


def write_dense(place: Path, kind: str, sizes: dict[str, int]) -> str:
    """Return the folder, inside *place*, of a dense model of sentence-transformers with random weights, and write it once."""
    folder = place / f"{kind}-{sizes.get('hidden_size', 768)}"
    if (folder / "model").exists():
        return str(folder / "model")
    import torch
    import transformers
    from encoding import no_progress_bars, vocabulary
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    no_progress_bars()
    torch.manual_seed(2026)
    special: dict[str, Any] = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
    config = {"bert": transformers.BertConfig, "modernbert": transformers.ModernBertConfig}[kind]
    body = {"bert": transformers.BertModel, "modernbert": transformers.ModernBertModel}[kind]
    body(config(**sizes, **(special if kind == "modernbert" else {}))).save_pretrained(folder / "body")
    transformers.BertTokenizer(vocab={token: i for i, token in enumerate(vocabulary())}).save_pretrained(folder / "body")
    modules = [Transformer(str(folder / "body"), max_seq_length=512), Pooling(sizes.get("hidden_size", 768))]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder / "model"))
    return str(folder / "model")


def encoded(encoder: Any, documents: Memory, folder: Path) -> None:
    """Encode *documents* as `lexbench run` does, into a new folder of shards."""
    from lexbench.encodings.encoding import encode_shards
    from lexbench.encodings.shards import missing

    with tempfile.TemporaryDirectory(dir=folder) as place:
        encode_shards(encoder, documents, Path(place), missing(len(documents), Path(place)), lambda _count: None)


# ---- rows ------------------------------------------------------------------------------------------------------------------


def encode(bench: Bench, kind: str, sizes: dict[str, int], tokens: int, count: int) -> None:
    """Measure documents per second of a dense model, and milliseconds for one query."""
    from lexbench.encoders.dense import Dense

    sizes = TINY_MODEL if bench.tiny else sizes
    folder = write_dense(bench.folder, kind, sizes)
    chosen = texts(bench.size(count, 24), tokens)
    documents = Memory(chosen)
    ours = Dense(folder, pooling="mean", dtype=bench.dtype, device=bench.device, document_length=512)
    bench.contend(f"lexbench {bench.dtype}", len(chosen), lambda: partial(encoded, ours, documents, bench.folder))

    @cache
    def model() -> Any:
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(folder, device=bench.device, model_kwargs={"dtype": bench.dtype})

    def later(some: list[str], more: dict[str, Any]) -> Work:
        return partial(model().encode, some, **more)

    one = texts(bench.size(40, 3), 12)
    bench.contend("lexbench, queries alone", len(one), lambda: lambda: [ours.encode_query([text]) for text in one])
    bench.contend("lexbench, queries together", len(one), lambda: lambda: ours.encode_query(one))
    some = chosen[::4]
    for batch in bench.batches():
        more = {"batch_size": batch, "show_progress_bar": False}
        name = f"sentence-transformers {bench.dtype} {batch}"
        bench.contend(name, len(some), partial(later, some, more))
    # Multiplications and additions: of the layers' weights, and of attention.
    shape = {"hidden_size": 768, "num_hidden_layers": 12, "intermediate_size": 3072} | sizes
    width, layers, inner = shape["hidden_size"], shape["num_hidden_layers"], shape["intermediate_size"]
    real = np.diff(ours.tokenise_documents(list(documents.documents())).starts)
    work = float(layers * (2 * real * (4 * width**2 + 2 * width * inner) + 4 * real**2 * width).sum())
    bench.fact("tokens per text", round(float(real.mean()), 1))
    rate = bench.found["rates"].get(f"lexbench {bench.dtype}")
    peak = next((value for name, value in PEAKS.items() if name in card()), None)
    if rate and peak and kind == "bert":
        bench.fact("share of the card's dense bfloat16 peak", round(rate / len(chosen) * work / peak, 3))


def splade(bench: Bench) -> None:
    """Measure documents per second of a BERT-base with its head, pooled to 150 terms or so."""
    from encoding import write_model

    from lexbench.encoders.sparse_mlm import SparseMLM

    folder = bench.folder / "splade"
    write_model("sparse", folder, sizes=TINY_MODEL if bench.tiny else {})
    chosen = texts(bench.size(12_288, 12), 80)
    documents = Memory(chosen)
    ours = SparseMLM(str(folder), dtype=bench.dtype, device=bench.device, document_length=256, dense_ok=True)
    bench.contend(f"lexbench {bench.dtype}", len(chosen), lambda: partial(encoded, ours, documents, bench.folder))

    some = chosen[::4]

    def theirs(batch: int) -> Work:
        from encoding import peer

        return partial(peer("sparse", str(folder), bench.dtype, batch, bench.device), some)

    for batch in bench.batches():
        bench.contend(f"SparseEncoder {bench.dtype} {batch}", len(some), partial(theirs, batch))


def cross_encoder(bench: Bench) -> None:
    """Measure pairs per second of the shape of MiniLM's cross-encoders."""
    import torch
    import transformers
    from encoding import vocabulary

    from lexbench.rerankers.cross_encoder import CrossEncoder
    from lexbench.types import Document

    folder = bench.folder / "pairs"
    torch.manual_seed(2026)
    sizes: dict[str, Any] = {"num_labels": 1, **(TINY_MODEL if bench.tiny else MINILM)}
    transformers.BertForSequenceClassification(transformers.BertConfig(**sizes)).save_pretrained(folder)
    transformers.BertTokenizer(vocab={token: i for i, token in enumerate(vocabulary())}).save_pretrained(folder)
    chosen = texts(bench.size(16_384, 12), 80)
    queries = np.repeat(texts(len(chosen) // 4, 9), 4).tolist()
    ours = CrossEncoder(str(folder), length=512, dtype=bench.dtype, device=bench.device)
    documents = [Document("", text) for text in chosen]
    bench.contend(f"lexbench {bench.dtype}", len(chosen), lambda: lambda: ours.score(queries, documents))

    @cache
    def model() -> Any:
        import sentence_transformers

        settings = {"device": bench.device, "max_length": 512, "model_kwargs": {"dtype": bench.dtype}}
        return sentence_transformers.CrossEncoder(str(folder), **settings)

    def later(some: list[tuple[str, str]], more: dict[str, Any]) -> Work:
        return partial(model().predict, some, **more)

    some = list(zip(queries, chosen, strict=True))[::4]
    for batch in bench.batches():
        more = {"batch_size": batch, "activation_fn": torch.nn.Identity(), "show_progress_bar": False}
        bench.contend(f"CrossEncoder {bench.dtype} {batch}", len(some), partial(later, some, more))


def flat(bench: Bench) -> None:
    """Measure queries per second of exact search for 1,000 of 8.84 million vectors."""
    import torch

    from lexbench.engines.kernels.on_devices import DeviceVectors, places

    count, width = bench.size(8_841_823, 3000), bench.size(768, 32)
    asked, k = bench.size(6980, 40), bench.size(1000, 20)
    torch.manual_seed(1)
    stored = torch.empty((count, width), dtype=torch.float16)
    for start in range(0, count, 1 << 19):
        part = stored[start : start + (1 << 19)]
        part.copy_(torch.randn(part.shape, device=bench.device).half())
    queries = torch.randn((asked, width)).numpy()
    lists: dict[str, Any] = {}

    def ours(precision: str, asking: NDArray[np.float32] = queries) -> Work:
        found = places(bench.device, precision, stored.nbytes) or [torch.device(bench.device)]
        index = DeviceVectors(stored.numpy(), None, found, precision)
        return lambda: index.search(asking, None, k)

    documents = stored.to(bench.device)
    for precision, peer in (("float32", "float32"), ("bfloat16", "float16"), ("tf32", "tf32")):
        lists[precision] = bench.contend(f"lexbench {precision}", asked, partial(ours, precision))
        found = bench.contend(f"torch {peer}", asked, partial(beir, documents, queries, k, peer))
        lists[f"torch {peer}"] = found
    bench.contend("lexbench float32, one query", 1, partial(ours, "float32", queries[:1]))
    bench.contend("products alone, torch float32", asked, partial(beir, documents, queries, 0, "float32"))
    del documents
    for name in ("bfloat16", "tf32", "torch float32", "torch float16"):
        if lists.get(name) is not None and lists["float32"] is not None:
            found = getattr(lists[name], "docs", lists[name])
            bench.fact(f"share of the first {k} that {name} has too", shared(lists["float32"].docs, found))
    if find_spec("faiss") is None:
        bench.left_out("faiss", "it is not installed")
        return
    import faiss

    if not getattr(faiss, "get_num_gpus", lambda: 0)():
        bench.left_out("faiss", "the installed faiss has no GPUs")
        return
    bench.contend("faiss float16", asked, partial(on_faiss, faiss, stored.numpy(), queries, k))


def beir(documents: Any, queries: NDArray[np.float32], k: int, precision: str) -> Work:
    """Return a search by torch in blocks, like beir's, but with lists merged on the device; if k is 0, only the products."""
    import torch

    if precision == "tf32" and documents.device.type != "cuda":
        raise ValueError("tf32 is for GPUs")
    kind = torch.float16 if precision == "float16" else torch.float32

    def search() -> Any:
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        asking = torch.tensor(queries, device=documents.device, dtype=kind)
        best: Any = None
        places: Any = None
        for start in range(0, len(documents), BLOCK):
            scores = asking @ documents[start : start + BLOCK].to(kind).T
            if not k:
                continue
            values, found = scores.topk(min(k, scores.shape[1]))
            found += start
            if best is not None:
                values, found = torch.cat([best, values], 1), torch.cat([places, found], 1)
                values, chosen = values.topk(k)
                found = found.gather(1, chosen)
            best, places = values, found
        return None if places is None else places.cpu().numpy()

    return search


def on_faiss(faiss: Any, documents: NDArray[np.float16], queries: NDArray[np.float32], k: int) -> Work:
    """Return the search by an index of faiss on the GPU, which keeps float16."""
    config = faiss.GpuIndexFlatConfig()
    config.useFloat16 = True
    index = faiss.GpuIndexFlatIP(faiss.StandardGpuResources(), documents.shape[1], config)
    for start in range(0, len(documents), 1 << 19):
        index.add(documents[start : start + (1 << 19)].astype(np.float32))
    return lambda: index.search(queries, k)


def maxsim(bench: Bench) -> None:
    """Measure queries per second of late interaction with 100,000 documents of 100 tokens."""
    import torch
    from torch.nn.functional import normalize

    from lexbench.engines.kernels.on_devices import DeviceVectors, places

    count, tokens, asked, k = bench.size(100_000, 300), 100, bench.size(256, 5), bench.size(1000, 20)
    width = bench.size(128, 16)
    torch.manual_seed(1)
    stored = normalize(torch.randn((count * tokens, width), device=bench.device), dim=1).half().cpu()
    queries = normalize(torch.randn((asked * 32, width)), dim=1)
    offsets = np.arange(0, (count + 1) * tokens, tokens)

    def ours(precision: str) -> Work:
        found = places(bench.device, precision, stored.nbytes) or [torch.device(bench.device)]
        index = DeviceVectors(stored.numpy(), offsets, found, precision)
        return lambda: index.search(queries.numpy(), np.arange(0, (asked + 1) * 32, 32), k)

    def theirs(precision: str) -> Work:
        kind = {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]
        documents = stored.to(bench.device, kind).view(count, tokens, width)
        asking = queries.to(bench.device, kind).view(asked, 32, width)
        block = 1000  # the products of 256 queries take 3.3 GB

        def search() -> Any:
            torch.set_float32_matmul_precision("highest")
            parts = [scores(asking, documents[start : start + block]) for start in range(0, count, block)]
            return torch.cat(parts, 1).topk(k).indices.cpu().numpy()

        return search

    def in_torch(asking: Any, documents: Any) -> Any:
        return torch.einsum("ash,bth->abst", asking, documents).amax(3).sum(2)

    scores: Callable[[Any, Any], Any] = in_torch
    try:
        from pylate.scores import colbert_scores

        peer, scores = "PyLate", colbert_scores
    except ImportError as error:
        peer = "torch as PyLate scores"
        bench.left_out("PyLate", f"it is not installed, so torch computes its formula: {error}")
    kinds = ("float32", "bfloat16")
    lists = {kind: bench.contend(f"lexbench {kind}", asked, partial(ours, kind)) for kind in kinds}
    other = {kind: bench.contend(f"{peer} {kind}", asked, partial(theirs, kind)) for kind in kinds}
    if lists["float32"] is not None and other["float32"] is not None:
        bench.fact(f"share of the first {k} that {peer} float32 has too", shared(lists["float32"].docs, other["float32"]))


def shared(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return the mean share of the documents of each list in *one* that the list in *other* has too."""
    lists = zip(one[:200].tolist(), other[:200].tolist(), strict=True)
    return round(float(np.mean([len(set(first) & set(second)) / len(first) for first, second in lists])), 5)


ROWS: dict[str, Row] = {
    "flat": Row("queries/s", "1.5", 110, flat),
    "bert-base-250": Row("documents/s", "1.3", 45, lambda one: encode(one, "bert", {}, 250, 8192)),
    "bert-base-60": Row("documents/s", "2", 45, lambda one: encode(one, "bert", {}, 60, 16_384)),
    "splade": Row("documents/s", "3", 60, splade),
    "maxsim": Row("queries/s", "2", 45, maxsim),
    "cross-encoder": Row("pairs/s", "1.5", 45, cross_encoder),
    "minilm-60": Row("documents/s", "2", 45, lambda one: encode(one, "bert", MINILM, 60, 32_768)),
    "modernbert-250": Row("documents/s", "1.3", 60, lambda one: encode(one, "modernbert", {}, 250, 4096)),
}


# ---- all rows --------------------------------------------------------------------------------------------------------------


def card() -> str:
    """Return the name of the GPU; "" without one."""
    import torch

    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else ""


def measure(name: str, given: argparse.Namespace, file: Path, seconds: float) -> None:
    """Measure a row for so many *seconds*, and write it into *file*; what goes to stderr is written beside it."""
    with file.with_suffix(".err").open("w", encoding="utf-8") as errors:
        os.dup2(errors.fileno(), sys.stderr.fileno())
        bench = Bench(given, file, seconds)
        ROWS[name].measure(bench)
        from lexbench.devices import peak_gpu_memory

        bench.fact("most memory of the GPU in tensors, MiB", peak_gpu_memory() >> 20)


def in_own_process(name: str, given: argparse.Namespace, seconds: float, folder: Path) -> dict[str, Any]:
    """Measure a row in a new process, which ends after *seconds* at the latest; return what it found until then."""
    file = folder / f"{name}.json"
    # Its parent has imported what takes seconds, but has used no GPU.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=measure, args=(name, given, file, seconds - 2))
    process.start()
    process.join(seconds)
    why = ""
    if process.is_alive():
        process.kill()
        process.join()
        why = f"cut off after {seconds:.0f} s"
    elif process.exitcode:
        lines = file.with_suffix(".err").read_text(encoding="utf-8").strip().splitlines()
        why = f"the process ended with {process.exitcode}: {(lines or [''])[-1]}"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"rates": {}}
    return found | ({"incomplete": why} if why else {})


def ratios(rates: dict[str, float]) -> dict[str, float]:
    """Return, for each of our rates, how many times as fast it is as the fastest peer in the same precision."""
    found = {}
    for name, rate in rates.items():
        tool, _, precision = name.partition(" ")
        same = {"bfloat16": ("bfloat16", "float16")}.get(precision, (precision,))
        peers = [
            other
            for peer, other in rates.items()
            if not peer.startswith(("lexbench", "products")) and set(peer.split()) & set(same)
        ]
        if tool == "lexbench" and peers:
            found[name] = rate / max(peers)
    return found


def shown(name: str, row: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a row."""
    times = row.get("ratios", {})
    yield f"{name}: {ROWS[name].unit}, goal {ROWS[name].goal} times" + (f"; {row['incomplete']}" if "incomplete" in row else "")
    for contender, rate in row["rates"].items():
        yield f"    {contender:44}{rate:14,.1f}" + (f"  ({times[contender]:.2f})" if contender in times else "")
    yield from (f"    {fact}: {value}" for fact, value in row.get("facts", {}).items())
    yield from (f"    left out: {contender}: {why}" for contender, why in row.get("left_out", {}).items())


def main() -> None:
    """Measure the rows, print each when it is done, and write all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(ROWS), help=f"of {','.join(ROWS)}")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=LIMIT, help="the most for all rows together")
    parser.add_argument("--tiny", action="store_true", help="sizes that take a processor seconds")
    parser.add_argument("--json", type=Path, help="write the figures here too, after each row")
    given = parser.parse_args()
    names = given.rows.split(",")
    if unknown := [name for name in names if name not in ROWS]:
        parser.error(f"no row {unknown[0]!r}; there is {', '.join(ROWS)}")
    end = time.monotonic() + given.seconds
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"}
    from lexbench.timing.machine import performance

    answer: dict[str, Any] = {"device": given.device, "tiny": given.tiny, "machine": performance(), "rows": {}}
    print(f"machine: {', '.join(performance().get('gpus', [])) or performance()['processor']}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            left = end - time.monotonic()
            row: dict[str, Any] = {"rates": {}, "incomplete": "not measured: no time was left"}
            if left > LEAST:
                row = in_own_process(name, given, min(ROWS[name].seconds, left), Path(folder))
            answer["rows"][name] = row | {"unit": ROWS[name].unit, "goal": ROWS[name].goal, "ratios": ratios(row["rates"])}
            print("\n".join(shown(name, answer["rows"][name])), flush=True)
            if given.json:
                given.json.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
