"""Learned sparse vectors from a masked-language model: LexMAE, SPLADE and their kin.

A text's weight for a term is log(1 + max(0, the largest logit that the model gives the term at any position of the text)).
LexMAE (T. Shen et al., ICLR 2023) and SPLADE (T. Formal et al., 2021) differ in which positions those are, and in what becomes
of titles; see `positions` and `titles`.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from lexbench.encoders._token_batches import Batch, Input, Tokens, batches, tokenise
from lexbench.errors import CommandError, LexbenchError
from lexbench.registry import at_search, runtime
from lexbench.types import Document, Kind

if TYPE_CHECKING:
    from lexbench.encoders._mlm_model import Model

_CHOICES = {
    "positions": ("all", "text"),
    "titles": ("off", "pair", "string"),
    "activation": ("log1p_relu", "log1p_log1p_relu", "relu"),
    "dtype": ("float32", "bfloat16", "float16"),
    "storage": ("float32", "float16"),
}
_DEVICE = re.compile(r"(auto|cpu|mps|cuda(:\d+)?)(,(cpu|mps|cuda(:\d+)?))*")
_SHORTEST = 8  # tokens: the special ones of a pair, and something to cut
_NO_TITLE = "-"  # what LexMAE's data has where there is none
_BATCH_TOKENS = {"cpu": 768, "cuda": 65_536, "mps": 8192}  # a processor wants its cache, a GPU wants work
_BATCH_TEXTS = 1024  # bounds (texts, vocabulary) float32: 125 MB for BERT's
_DENSE = 0.5  # of the vocabulary


def _untold(_count: int) -> None:
    """Hear of progress, where nobody else wants to."""


def _place() -> Any:
    """Return a setting that says where weights are: their digests are in the key, and where they lie is not."""
    return runtime(None)


@dataclass(frozen=True)
class SparseMLM:
    """One object for both towers: *query_model* encodes queries where it is given, else *model* does.

    *model*: a folder, or a name on the Hugging Face hub. *positions*: "all" pools all but padding (SPLADE), "text" leaves out
    the first token and every separator too (LexMAE). *titles*: "off" takes the document's text as it is; "pair" and "string"
    put a separator between title ("-" for none) and body, and cut the longer of the two first, or the end. Lengths count
    special tokens. *activation* "relu" has no logarithm, "log1p_log1p_relu" has it twice. *storage* is how vectors are kept.
    *device*: "auto" is the first GPU or else the processor; several, as "cuda:0,cuda:1", are `workers`.
    """

    model: str = field(metadata={"runtime": True})
    revision: str | None = _place()
    query_model: str | None = _place()
    query_revision: str | None = _place()
    positions: str = "all"
    titles: str = "off"
    query_length: int = at_search(256)
    document_length: int = 256
    activation: str = "log1p_relu"
    dtype: str = "float32"
    storage: str = "float32"
    device: str = runtime("auto")
    batch_tokens: int = runtime(0)
    threads: int = runtime(0)
    dense_ok: bool = runtime(False)

    kind: ClassVar[Kind] = Kind.SPARSE
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = True  # on one machine and device: neither workers nor threads change a bit
    requires: ClassVar[tuple[str, ...]] = ("torch", "transformers")
    extra: ClassVar[str] = "neural"

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if (given := getattr(self, name)) not in known:
                raise CommandError(f"sparse_mlm({name}={given!r}): there is {', '.join(known)}")
        for name in ("query_length", "document_length"):
            if (given := getattr(self, name)) < _SHORTEST:
                raise CommandError(f"sparse_mlm({name}={given}): give at least {_SHORTEST} tokens; special tokens count")
        for name in ("batch_tokens", "threads"):
            if (given := getattr(self, name)) < 0:
                raise CommandError(f"sparse_mlm({name}={given}): give a number above 0, or 0 for what suits the device")
        if not _DEVICE.fullmatch(self.device):
            raise CommandError(f"sparse_mlm(device={self.device!r}): there is auto, cpu, cuda, cuda:0, mps; several as cpu,cpu")
        if self.query_revision and not self.query_model:
            raise CommandError("sparse_mlm(query_revision=…) says which revision of query_model, which is not given")

    @classmethod
    def carried(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that the folder, or hub's model, `model` says of itself: a LexMAE, or a SparseEncoder, does."""
        from lexbench.encoders import _checkpoint

        return _checkpoint.carried(str(given["model"]), given.get("revision"))

    def remarks(self) -> list[str]:
        """Return what a reader of scores must know: where the checkpoint says that it is encoded with in another way."""
        said = self.carried({"model": self.model, "revision": self.revision})
        return [
            f"{name}={getattr(self, name)!r} was asked for, and the checkpoint says {name}={value!r}"
            for name, value in said.items()
            if name in _CHOICES and value != getattr(self, name)
        ]

    def identity(self) -> dict[str, Any]:
        """Return the digests of the weights and tokenizers, wherever they lie; `query_model` is None for one tower."""
        from lexbench.encoders import _checkpoint

        query = _checkpoint.digest(self.query_model, self.query_revision) if self.query_model else None
        return self.index_identity() | {"query_model": query}

    def index_identity(self) -> dict[str, Any]:
        """Return those that document vectors come from."""
        from lexbench.encoders import _checkpoint

        return {"model": _checkpoint.digest(self.model, self.revision)}

    def workers(self) -> list["SparseMLM"]:
        """Return one copy for each device that is named; those on the processor share its cores."""
        devices = self.device.split(",")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        on_cores = devices.count("cpu")
        share = max(1, cores // on_cores) if on_cores > 1 else 0
        return [replace(self, device=one, threads=self.threads or (share if one == "cpu" else 0)) for one in devices]

    @property
    def vocabulary(self) -> int:
        """The width of the vectors."""
        return self._documents().vocabulary

    def token(self, term: int) -> str:
        """Return the entry of the vocabulary whose column is *term*."""
        return str(self._documents().tokenizer.convert_ids_to_tokens(int(term)))

    def tokenise_documents(self, documents: Sequence[Document]) -> Tokens:
        """Return the tokens of *documents*, titles put where `titles` says, cut to `document_length`."""
        model = self._documents()
        texts: list[Input] = [document.text for document in documents]
        if self.titles != "off":
            texts = [(document.title or _NO_TITLE, document.body) for document in documents]
        if self.titles == "string":
            texts = [str(model.tokenizer.sep_token).join(text) for text in texts]
        return tokenise(model.cutter(self.document_length, "document_length"), texts)

    def encode_tokens(self, tokens: Tokens, advance: Callable[[int], None] = _untold) -> sparse.csr_array:
        """Return the vectors (documents, vocabulary) of *tokens*, in order: float32, indices sorted."""
        return self._encode(self._documents(), tokens, advance)

    def encode_document(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the vectors (texts, vocabulary) of documents that have no title."""
        return self.encode_tokens(self.tokenise_documents([Document("", text) for text in texts]))

    def encode_query(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the vectors (texts, vocabulary) of queries."""
        model = self._model(self.query_model, self.query_revision) if self.query_model else self._documents()
        return self._encode(model, tokenise(model.cutter(self.query_length, "query_length"), texts))

    def _documents(self) -> "Model":
        return self._model(self.model, self.revision)

    def _model(self, name: str, revision: str | None) -> "Model":
        from lexbench.encoders._mlm_model import Place, model

        return model(Place(name, revision, self.dtype, self.device.split(",")[0]))

    def _encode(self, model: "Model", tokens: Tokens, advance: Callable[[int], None] = _untold) -> sparse.csr_array:
        import torch

        if self.threads:
            torch.set_num_threads(self.threads)
        most_tokens = self.batch_tokens or _BATCH_TOKENS[model.device.type]
        silent = model.specials if self.positions == "text" else ()
        made, order = [], []
        for batch in batches(tokens, most_tokens, _BATCH_TEXTS, pad=model.pad, silent=silent):
            made.append(self._vectors(model, batch))
            order.append(batch.texts)
            advance(len(batch.texts))
        if not made:
            return sparse.csr_array(np.zeros((0, model.vocabulary), np.float32))
        longest_first: Any = sparse.vstack(made, format="csr")
        vectors = sparse.csr_array(longest_first[np.argsort(np.concatenate(order))])
        vectors.sort_indices()
        return vectors

    def _vectors(self, model: "Model", batch: Batch) -> sparse.csr_array:
        """Return the vectors of one batch; LexbenchError where nobody could want them."""
        import torch

        from lexbench.encoders._mlm_forward import active, maxima

        try:
            vectors = active(maxima(model, batch), self.activation)
        except torch.OutOfMemoryError as error:
            raise LexbenchError(
                f"{model.name}: a batch of {batch.ids.size} tokens does not fit into the memory of {model.device}; "
                f"type batch_tokens={batch.ids.size // 2}"
            ) from error
        if not np.isfinite(vectors.data).all():
            hint = "its weights are damaged" if self.dtype == "float32" else "try dtype=float32"
            raise LexbenchError(f"{model.name} in {self.dtype} gives weights that are not numbers; {hint}")
        share = vectors.nnz / (vectors.shape[0] * vectors.shape[1])
        if share > _DENSE and not self.dense_ok:
            raise LexbenchError(
                f"{model.name} gives a text {share:.0%} of all terms, so it was hardly trained for sparse vectors (an output "
                "layer with random weights, or none of its own?); type dense_ok=True to have them all the same"
            )
        return vectors
