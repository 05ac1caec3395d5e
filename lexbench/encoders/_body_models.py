"""Models without a head for words as `dense`, `late_interaction` and `term_weights` run them: a body, and layers behind it.

Needs torch.
"""

from collections.abc import Mapping, Sequence
from string import punctuation
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from lexbench.checkpoints.body import body_files, load_body
from lexbench.checkpoints.causal_lm import CAUSAL_LMS
from lexbench.checkpoints.hub import fetch
from lexbench.errors import CommandError, InvalidFile
from lexbench.neural.token_batches import Batch, Input, Tokens, tokenise
from lexbench.neural.transformer_model import ModelSpec, TransformerModel

_LINEAR = ("embeddingHead", "linear")  # the layer behind the pooling: as ANCE and ADORE call it, and sentence-transformers
_NORM = ("norm",)
_EPSILON = 1e-5  # of torch's LayerNorm, which all of them use as it is
_TERM_WEIGHT = "tok_proj"  # (1, h) and (1,), as COIL's authors call it


class BodyModel(TransformerModel):
    """The body of a checkpoint, and all other tensors of it by name."""

    causal: ClassVar[bool] = False  # whether it may be a causal language model's

    def __init__(self, spec: ModelSpec) -> None:
        files = body_files(fetch(spec.name, spec.revision), causal=self.causal)
        checkpoint = load_body(files, dtype=spec.torch_dtype, device=spec.torch_device)
        super().__init__(spec, checkpoint.body, checkpoint.tokenizer, checkpoint.config)
        self.folder = files.folder
        self._settings = {"use_cache": False} if files.config["model_type"] in CAUSAL_LMS else {}
        self.width = int(checkpoint.config.hidden_size)
        self.others: Mapping[str, Tensor] = checkpoint.others

    def states(self, batch: Batch) -> Tensor:
        """Return the last hidden states (n, longest, width) of *batch*; padding is not attended to."""
        arrays = {"input_ids": batch.ids} | ({} if batch.types is None else {"token_type_ids": batch.types})
        inputs = {name: torch.from_numpy(array).to(self.device) for name, array in arrays.items()}
        mask = None if batch.real.all() else torch.from_numpy(batch.real).to(self.device)
        states: Tensor = self.body(**inputs, attention_mask=mask, **self._settings).last_hidden_state
        return states

    def other(self, *names: str) -> Tensor | None:
        """Return the first tensor behind the body that is called one of *names*, whatever module it is in, as float32."""
        tensors = (tensor for key, tensor in self.others.items() if key.rpartition("/")[2] in names)
        tensor = next(tensors, None)
        return None if tensor is None else tensor.float()

    def end_token(self) -> int:
        """Return the id of the token that ends a text; CommandError where the tokenizer has none."""
        if self.tokenizer.eos_token_id is None:
            raise CommandError(f"{self.name}: its tokenizer has no token that ends a text; leave end_token=True out")
        return int(self.tokenizer.eos_token_id)

    def mask_token(self) -> int:
        """Return the id of [MASK]; CommandError where the tokenizer has none."""
        if self.tokenizer.mask_token_id is None:
            raise CommandError(f"{self.name}: its tokenizer has no [MASK] to fill queries with; type mask_queries_to=0")
        return int(self.tokenizer.mask_token_id)


class DenseHead(nn.Module):
    """A linear layer behind the pooling, with or without layer normalisation: ANCE's and ADORE's `embeddingHead` and `norm`."""

    def __init__(self, model: BodyModel) -> None:
        super().__init__()
        self.weight, self.bias = (model.other(*(f"{name}.{part}" for name in _LINEAR)) for part in ("weight", "bias"))
        self.scale, self.shift = (model.other(*(f"{name}.{part}" for name in _NORM)) for part in ("weight", "bias"))

    @property
    def kind(self) -> str:
        """What it is, as the setting `head` calls it."""
        return "none" if self.weight is None else "linear" if self.scale is None else "linear_layernorm"

    def forward(self, pooled: Tensor) -> Tensor:
        """Return vectors (n, dimensions) for *pooled* states (n, width)."""
        if self.weight is None:
            return pooled
        vectors = functional.linear(pooled, self.weight, self.bias)
        if self.scale is None:
            return vectors
        return functional.layer_norm(vectors, vectors.shape[-1:], self.scale, self.shift, _EPSILON)


class DenseModel(BodyModel):
    """A body with its head, which comes from the same checkpoint."""

    causal = True

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.head = DenseHead(self)
        self.dimensions = self.width if self.head.weight is None else len(self.head.weight)

    def check_head(self, kind: str) -> None:
        """Raise CommandError unless the head is of that *kind*: to leave one out gives other vectors."""
        if (actual := self.head.kind) != kind:
            raise CommandError(f'{self.name}: the head behind its pooling is "{actual}" and not "{kind}"; type head="{actual}"')

    @torch.inference_mode()
    def vectors(self, batch: Batch, pooling: str, skip: int) -> Tensor:
        """Return the vectors (n, dimensions) of *batch*, float32, of whatever length they have.

        The mean is over the positions from *skip* on that are no padding; where there are none it is 0, and so is the last
        state of a text without tokens.
        """
        states = self.states(batch)
        if pooling == "cls":
            pooled = states[:, 0].float()
        elif pooling == "last":
            lengths = torch.from_numpy(batch.real.sum(axis=1)).to(self.device)
            last = states[torch.arange(len(states), device=self.device), lengths.clamp(min=1) - 1].float()
            pooled = last.masked_fill((lengths == 0).unsqueeze(1), 0)
        else:
            counted = torch.from_numpy(batch.real).to(self.device, torch.float32)
            counted[:, :skip] = 0
            summed = torch.bmm(counted.unsqueeze(1), states.float()).squeeze(1)
            pooled = summed / counted.sum(1, keepdim=True).clamp(min=1)
        vectors: Tensor = self.head(pooled)
        return vectors


class LateInteractionModel(BodyModel):
    """A body with a projection of each token's state: `linear` of ColBERT, a Dense module of PyLate."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        weight = self.other("linear.weight")
        if weight is None or weight.shape[1:] != (self.width,):
            actual = "none" if weight is None else f"one of {tuple(weight.shape)}"
            raise InvalidFile(
                f"{self.name}: late interaction has a tensor linear.weight (dimensions, {self.width}) behind the model, and "
                f"here is {actual}; give a ColBERT"
            )
        self.weight, self.bias = weight, self.other("linear.bias")
        self.dimensions = len(weight)

    def token_id(self, token: str, setting: str) -> int:
        """Return the id of *token*; CommandError, naming the *setting* that asks for it, where the tokenizer lacks it."""
        token_id = self.tokenizer.convert_tokens_to_ids(token)
        if token_id is None or token_id == self.tokenizer.unk_token_id:
            raise CommandError(f"{self.name}: its tokenizer has no token {token!r}; type {setting}=… as its authors do")
        return int(token_id)

    def punctuation(self) -> list[int]:
        """Return the ids of the tokens that are one character of ASCII punctuation."""
        token_ids = self.tokenizer.convert_tokens_to_ids(list(punctuation))
        return [token_id for token_id in token_ids if token_id not in (None, self.tokenizer.unk_token_id)]

    def marked(self, texts: Sequence[Input], length: int, setting: str, marker: int | None) -> Tokens:
        """Return the tokens of *texts* with *marker* behind the first ([CLS]), cut so that all are at most *length*.

        CommandError, naming *setting*, where the model takes fewer.
        """
        cutter = self.cutter(length, setting)
        if marker is None:
            return tokenise(cutter, texts)
        tokens = tokenise(self.cutter(length - 1, setting), texts)
        starts = tokens.starts + np.arange(len(tokens.starts))
        return tokens._replace(ids=np.insert(tokens.ids, tokens.starts[:-1] + 1, marker), starts=starts)

    @torch.inference_mode()
    def vectors(self, batch: Batch) -> NDArray[np.float32]:
        """Return the vectors (tokens, dimensions) of length 1 of the positions that pool, text after text."""
        pools = torch.from_numpy(batch.pools).to(self.device)
        projected = functional.linear(self.states(batch)[pools].float(), self.weight, self.bias)
        vectors: NDArray[np.float32] = functional.normalize(projected, dim=1).cpu().numpy()
        return vectors


class TermWeightsModel(BodyModel):
    """A body with a projection of each token's state onto one number."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        head = {name.rpartition(".")[2]: tensor for name, tensor in self.others.items() if f"{_TERM_WEIGHT}." in name}
        if {name: tuple(tensor.shape) for name, tensor in head.items()} != {"weight": (1, self.width), "bias": (1,)}:
            shapes = [f"{name} {tuple(tensor.shape)}" for name, tensor in self.others.items() if _TERM_WEIGHT in name]
            raise InvalidFile(
                f"{self.folder}: a model that weighs terms has {_TERM_WEIGHT}.weight (1, {self.width}) and {_TERM_WEIGHT}.bias "
                f"(1,), and here is {', '.join(shapes) or 'neither'}; give a uniCOIL"
            )
        self.weight, self.bias = head["weight"], head["bias"]
        self.first = int(self.tokenizer.cls_token_id)
        self.vocabulary = int(self.body.get_input_embeddings().num_embeddings)  # type: ignore[operator]

    @torch.inference_mode()
    def vectors(self, batch: Batch) -> sparse.csr_array:
        """Return the vectors (n, vocabulary), float32, indices sorted: of a token's repeats the largest weight, if above 0.

        NaN stays, so that it can be found.
        """
        weights = functional.linear(self.states(batch), self.weight, self.bias).relu().squeeze(-1).float().cpu().numpy()
        rows, columns = np.nonzero(batch.pools & ~(weights <= 0))
        keys = rows * self.vocabulary + batch.ids[rows, columns]
        order = np.argsort(keys, kind="stable")
        starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
        largest = np.maximum.reduceat(weights[rows, columns][order], starts) if len(starts) else np.zeros(0, np.float32)
        rows, terms = np.divmod(keys[order][starts], self.vocabulary)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(batch.ids)))])
        return sparse.csr_array((largest, terms, offsets), shape=(len(batch.ids), self.vocabulary))
