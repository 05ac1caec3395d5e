"""Other libraries in place of our own code, so that `lexbench speed --with` compares them with ours.

OpenVINO and ONNX Runtime replace layers: tokens, batches, pooling of dense models and all later steps stay ours. What is
converted, from float32, is the body, and for sparse models also the maxima of the logits. sentence-transformers replaces
everything. Used by `encoding_speed` alone, in the measuring process. Needs torch.
"""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias
from warnings import catch_warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.nn import functional

from lexbench.errors import LexbenchError
from lexbench.models.architectures import LanguageModel, body_files, load_body, load_masked_lm, masked_lm_files
from lexbench.models.checkpoint import fetch
from lexbench.models.token_batches import Batch
from lexbench.types import Document, Kind

_PIECE = 1024  # terms projected at a time; all 30,522 at once take 94 MB for a batch of 768 tokens
_CPU = torch.device("cpu")

# From ids, mask and, for maxima, the positions that pool, each (n, length), to the outputs of a module below.
Network: TypeAlias = "Callable[[Sequence[NDArray[np.int64]]], list[NDArray[np.float32]]]"


class _Body(nn.Module):
    """The last states (n, length, width)."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states: Tensor = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        return states


class _WithMaxima(nn.Module):
    """The last states, and the largest logits (n, vocabulary) over the positions that pool."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.body, self.transform, self.weight = _Body(model.body), model.transform, model.weight
        self.bias = torch.zeros(len(model.weight)) if model.bias is None else model.bias

    def forward(self, ids: Tensor, mask: Tensor, pools: Tensor) -> tuple[Tensor, Tensor]:
        states = self.body(ids, mask)
        pooled = self.transform(states)
        first = pooled.gather(1, pools.argmax(1)[:, None, None].expand(-1, 1, pooled.shape[2]))
        pooled = torch.where(pools[:, :, None] > 0, pooled, first)  # a position that pools, repeated, changes no maximum
        pieces = zip(torch.split(self.weight, _PIECE), torch.split(self.bias, _PIECE), strict=True)
        return states, torch.cat([functional.linear(pooled, *piece).amax(1) for piece in pieces], 1)


def use(encoder: Any, runtime: str, texts: Sequence[str]) -> Any:
    """Return *encoder*, computed by *runtime* in this process, in its dtype and threads, or what has the same methods.

    *texts* are samples of documents. Raises LexbenchError for other models than masked-language models and bodies like BERT.
    """
    if runtime == "sentence-transformers":
        return _SentenceTransformers(encoder, texts)
    model, folder = encoder._document_model(), fetch(encoder.model, encoder.revision)  # noqa: SLF001 - not asked for elsewhere
    if model.device.type != "cpu":
        raise LexbenchError(f"--with {runtime} computes on processors, and the device is {model.device}; type device=cpu")
    ids = torch.randint(5, 100, (2, 7))
    with_maxima = hasattr(model, "outputs")  # a masked-language model
    if getattr(encoder, "position_top_k", 0):
        raise LexbenchError(f"--with {runtime} takes models whose positions keep all terms, and this one has position_top_k")
    if with_maxima and encoder.pooling == "sum":
        raise LexbenchError(f'--with {runtime} takes models with maxima over positions, and this one has pooling="sum"')
    if with_maxima:
        module: nn.Module = _WithMaxima(load_masked_lm(masked_lm_files(folder), dtype=torch.float32, device=_CPU))
        given = [ids, torch.ones_like(ids), torch.ones_like(ids)]
    elif hasattr(model, "states"):
        module = _Body(load_body(body_files(folder), dtype=torch.float32, device=_CPU)[0])
        given = [ids, torch.ones_like(ids)]
    else:
        raise LexbenchError(f"--with {runtime} takes masked-language models and bodies like BERT")
    with torch.no_grad(), catch_warnings(action="ignore", category=FutureWarning):  # torch's exporter deprecates its own parts
        axes = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
        program = torch.export.export(module.eval(), tuple(given), dynamic_shapes=[axes] * len(given))
        network = _NETWORKS[runtime](program, encoder.dtype, encoder.threads or torch.get_num_threads())

    def outputs(batch: Batch) -> list[Tensor]:
        arrays = (batch.ids, batch.real.astype(np.int64), batch.pools.astype(np.int64))[: len(given)]
        return [torch.from_numpy(array) for array in network(arrays)]

    if with_maxima:
        model.outputs = outputs
    else:
        model.states = lambda batch: outputs(batch)[0]
    return encoder


class _SentenceTransformers:
    """The encoder of the same folder by sentence-transformers, with the methods that are timed.

    Its batches have 32 texts, its default; on a GPU they have as many of 32, 128 and 512 as are fastest on *texts*.
    """

    def __init__(self, encoder: Any, texts: Sequence[str]) -> None:
        import sentence_transformers

        if encoder.query_model:
            raise LexbenchError("--with sentence-transformers takes encoders with one model for documents and queries")
        family = "SparseEncoder" if encoder.kind is Kind.SPARSE else "SentenceTransformer"
        spec = encoder.spec(encoder.model, encoder.revision)
        torch.set_num_threads(encoder.threads or torch.get_num_threads())
        self._model: Any = getattr(sentence_transformers, family)(
            str(fetch(encoder.model, encoder.revision)),
            device=str(spec.torch_device),
            model_kwargs={"dtype": spec.torch_dtype},
            local_files_only=True,
        )
        self._model.max_seq_length = encoder.document_length
        self._batch = 32
        if spec.torch_device.type == "cuda":
            self._batch = min((32, 128, 512), key=lambda batch: self._seconds(texts, batch))

    def _seconds(self, texts: Sequence[str], batch: int) -> float:
        """Return how long the second pass over *texts* takes; infinity if a batch does not fit into memory."""
        self._batch = batch
        try:
            self.encode_tokens(texts)
            begin = time.perf_counter()
            self.encode_tokens(texts)
        except torch.OutOfMemoryError:
            return float("inf")
        return time.perf_counter() - begin

    def tokenise_documents(self, documents: Sequence[Document]) -> list[str]:
        """Return the texts: this library tokenises while it encodes."""
        return [document.text for document in documents]

    def encode_tokens(self, texts: Sequence[str], _advance: Callable[[int], None] | None = None) -> Any:
        """Return the vectors of documents, on the processor."""
        return self._on_cpu(self._model.encode_document(list(texts), batch_size=self._batch, show_progress_bar=False))

    def encode_query(self, texts: Sequence[str]) -> Any:
        """Return the vectors of queries, on the processor."""
        return self._on_cpu(self._model.encode_query(list(texts), batch_size=self._batch, show_progress_bar=False))

    def _on_cpu(self, vectors: Any) -> Any:
        return vectors.cpu() if isinstance(vectors, Tensor) else vectors


def _openvino(program: ExportedProgram, dtype: str, threads: int) -> Network:
    import openvino

    precision = {"float32": "f32", "bfloat16": "bf16"}[dtype]
    hints = {"INFERENCE_PRECISION_HINT": precision, "NUM_STREAMS": threads, "INFERENCE_NUM_THREADS": threads}
    compiled = openvino.Core().compile_model(openvino.convert_model(program), "CPU", hints)
    local = threading.local()  # a request serves one thread

    def run(arrays: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        if not hasattr(local, "request"):
            local.request = compiled.create_infer_request()
        found = local.request.infer(list(arrays), share_inputs=True)
        return [array.copy() for array in found.to_tuple()]  # the request's memory is used again

    return run


def _onnx(program: ExportedProgram, dtype: str, threads: int) -> Network:
    import onnxruntime
    from onnxruntime.quantization import quantize_dynamic

    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        torch.onnx.export(program, f=file, verbose=False)
        if dtype == "int8":
            quantize_dynamic(file, file)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(str(file), options)
    names = [one.name for one in session.get_inputs()]

    def run(arrays: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        found: list[NDArray[np.float32]] = session.run(None, dict(zip(names, arrays, strict=True)))
        return found

    return run


_NETWORKS = {"openvino": _openvino, "onnx": _onnx}
