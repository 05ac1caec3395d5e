"""Transformers in memory: loaded once per process, on their device, with packed linear layers where these are faster.

`TransformerModel` is the base of the models that encoders and rerankers run by name. Packed layers have weights that are laid
out once as oneDNN wants them instead of at every call: encoding was 1.08 times as fast in bfloat16 and 1.14 times in float32
(BERT-base, AMD EPYC of 2022). Their operation is one that `torch.compile` uses and that is not public, so `packing_works` tries
it first. Needs torch.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock, local
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from scipy import sparse
from tokenizers import Tokenizer
from torch import Tensor, nn

from lexbench import devices
from lexbench.errors import LexbenchError
from lexbench.models.checkpoint import ADAPTER, check_length, longest_text, transformer_folder
from lexbench.models.lora import base_folder
from lexbench.models.token_batches import Batch, cutter
from lexbench.storage.reading import FileState, file_state

_MODELS = 4  # models in memory: two towers of each of two encoders, or fewer and a reranker
_TOKENS = 768  # the number of tokens that the layout of packed layers is optimised for
_INT8_OUTPUTS = 8  # smaller layers stay in float32: a layer of one output, a score, takes no time and decides everything
_PACKABLE = (torch.float32, torch.bfloat16)
_loading = Lock()  # tokenising and encoding threads load the same model at the same time

V = TypeVar("V")


# ---- packed layers ---------------------------------------------------------------------------------------------------------


class PackedLinear(nn.Module):
    """`states @ weight.T + bias`, the weight laid out for oneDNN."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), _TOKENS)  # noqa: SLF001 - see above
        self.bias = None if bias is None else bias.detach()

    def forward(self, states: Tensor) -> Tensor:
        """Return (..., outputs) for *states* (..., inputs)."""
        result: Tensor = torch.ops.mkldnn._linear_pointwise(states, self.weight, self.bias, "none", [], "")  # noqa: SLF001
        return result


def pack(
    module: nn.Module, packed: Callable[[Tensor, Tensor | None], nn.Module] = PackedLinear, least_outputs: int = 1
) -> None:
    """Replace each linear layer inside *module* that has at least *least_outputs* outputs by packed(weight, bias)."""
    for parent in list(module.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Linear and layer.out_features >= least_outputs:
                setattr(parent, name, packed(layer.weight, layer.bias))


@cache
def packing_works(device: str, dtype: torch.dtype) -> bool:
    """Return whether packed layers work here, and give the results of ordinary ones."""
    if device != "cpu" or dtype not in _PACKABLE:
        return False
    layer = nn.Linear(64, 48).to(dtype)
    states = torch.linspace(-1, 1, 8 * 64).view(8, 64).to(dtype)
    try:
        with torch.inference_mode():
            return torch.allclose(PackedLinear(layer.weight, layer.bias)(states), layer(states), rtol=0.02, atol=0.01)
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):  # this torch or this processor lacks the operation
        return False


# ---- models by name --------------------------------------------------------------------------------------------------------


class ModelSpec(NamedTuple):
    """Which checkpoint to load, and how to run it."""

    name: str  # a folder, or a name on the hub
    revision: str | None
    dtype: str  # "float32", "bfloat16", "float16" or "int8"
    device: str  # "auto", "cpu", "mps", "cuda" or "cuda:1"

    @property
    def torch_dtype(self) -> torch.dtype:
        """The type of weights and states; with int8, of everything but linear layers. Raises CannotStart if impossible."""
        if self.dtype == "int8":
            from lexbench.models.int8 import check_int8

            check_int8(self.torch_device)
            return torch.float32
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    @property
    def torch_device(self) -> torch.device:
        """The device. Raises CannotStart if this machine does not have it."""
        return devices.torch_device(self.device)


class TransformerModel:
    """A model on its device and its tokenizer; its linear layers are packed, or in int8."""

    def __init__(self, spec: ModelSpec, body: nn.Module, tokenizer: Any, config: Any) -> None:
        self.name, self.dtype = spec.name, spec.dtype
        self.device = spec.torch_device
        # glibc returns freed memory to the system if it is larger than the blocks freed before. The system would then clear its
        # pages again for every layer, a tenth of the time in float32. Freeing a block of 30 MiB, never touched, prevents that.
        torch.empty(30 << 20, dtype=torch.uint8)
        self.body = body
        self.tokenizer = tokenizer
        self.pad = int(tokenizer.pad_token_id or 0)
        self.specials = [token for token in (tokenizer.cls_token_id, tokenizer.sep_token_id) if token is not None]
        padding = getattr(config, "pad_token_id", None) or 0  # of the model, from which on it counts positions
        self.longest = longest_text(getattr(config, "max_position_embeddings", None), config.model_type, padding)
        self.int8 = spec.dtype == "int8"
        self.packed = not self.int8 and packing_works(self.device.type, spec.torch_dtype)
        self.pack(body)
        self._cutters: dict[int, Tokenizer] = {}
        self._streams = local()

    def pack(self, module: nn.Module) -> None:
        """Replace the linear layers inside *module* by layers in int8 or packed layers, if the model uses them."""
        if self.int8:
            from lexbench.models.int8 import Int8Linear, replace_layers

            replace_layers(module)
            pack(module, Int8Linear, _INT8_OUTPUTS)
        elif self.packed:
            pack(module)

    def cutter(self, length: int, setting: str) -> Tokenizer:
        """Return the tokenizer that cuts texts to *length* tokens. Raises CommandError like `check_length`."""
        self.check_length(length, setting)
        if length not in self._cutters:
            self._cutters[length] = cutter(self.tokenizer, length)
        return self._cutters[length]

    def check_length(self, length: int, setting: str) -> None:
        """Raise CommandError, which names the *setting*, if the model takes fewer than *length* tokens."""
        check_length(length, setting, self.name, self.longest)

    def finite(self, vectors: V, meaning: str = "weights") -> V:
        """Return *vectors*, dense or sparse. Raises LexbenchError if a value is not finite; *meaning* says what values are."""
        held: Any = vectors
        is_sparse = bool(sparse.issparse(vectors))
        values = held.data if is_sparse else held
        if not np.isfinite(values).all():
            hint = "its weights are damaged" if self.dtype == "float32" else "try dtype=float32"
            raise LexbenchError(f"{self.name} in {self.dtype} gives {meaning} that are not numbers; {hint}")
        return vectors

    def own_stream(self) -> AbstractContextManager[Any]:
        """Return a context in which a GPU computes what this thread gives it beside the work of other threads.

        Then copying vectors back waits for this thread's work only, and meanwhile the GPU computes that of another thread.
        """
        if self.device.type != "cuda":
            return nullcontext()
        if not hasattr(self._streams, "stream"):
            torch.cuda.synchronize(self.device)  # the model was copied by another thread
            self._streams.stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        return torch.cuda.stream(self._streams.stream)

    def out_of_memory(self, tokens: int) -> LexbenchError:
        """Return the error for a batch of that many *tokens*, padding included, that does not fit into memory."""
        return LexbenchError(
            f"{self.name}: a batch of {tokens} tokens does not fit into the memory of {self.device}; "
            f"type batch_tokens={tokens // 2}"
        )


M = TypeVar("M", bound=TransformerModel)


def loaded(model_class: Callable[[ModelSpec], M], spec: ModelSpec) -> M:
    """Return model_class(spec). A model that is in memory is used again, unless its files have changed."""
    folder = Path(spec.name).expanduser()
    adapter = transformer_folder(folder) if folder.is_dir() else folder
    places = [folder, *([base_folder(adapter)] if (adapter / ADAPTER).is_file() else [])]
    paths = {path for place in places for path in place.rglob("*") if path.is_file()}
    files = tuple((str(path), file_state(path)) for path in sorted(paths))
    with _loading:
        model: M = _loaded(model_class, spec, files)
        return model


@lru_cache(maxsize=_MODELS)
def _loaded(model_class: Callable[[ModelSpec], Any], spec: ModelSpec, _files: tuple[tuple[str, FileState], ...]) -> Any:
    return model_class(spec)


@contextmanager
def side_by_side(threads: int) -> Iterator[Callable[[Callable[[Batch], V], Sequence[Batch]], Iterator[V]]]:
    """Context whose value is a `map` that computes *threads* batches at a time, each on one thread.

    Threads that share each small product wait for one another hundreds of times per batch. With other work on the same cores
    that took ten times as long.
    """
    if threads == 1:
        yield map
        return
    pool = ThreadPoolExecutor(threads, initializer=lambda: torch.set_num_threads(1))
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # for threads that start later, which would inherit the pool's number
