"""The computation of encoders in torch: from batches of tokens to vectors, one class per encoder.

`VocabularyModel` is for models whose output has a weight per term of the vocabulary (`sparse_mlm`, `sparse_clm`), `BodyModel`
for bodies without such a head (`dense`, `late_interaction`, `term_weights`). The encoders import this module when they compute.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from string import punctuation
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from lexbench.arrays.vectors import csr_of
from lexbench.encoders._parts import joined
from lexbench.errors import CommandError, InvalidFile
from lexbench.models.added_terms import means
from lexbench.models.architectures import (
    LanguageModel,
    body_files,
    latent_files,
    load_body,
    load_causal_lm,
    load_masked_lm,
    masked_lm_files,
)
from lexbench.models.body_types import CAUSAL_LMS
from lexbench.models.checkpoint import AGAIN, CheckpointFiles, fetch
from lexbench.models.lora import model_files
from lexbench.models.native.bert import Bert
from lexbench.models.native.modernbert import ModernBert
from lexbench.models.native.new import New
from lexbench.models.stated_modules import ACTIVATIONS, LAYERS
from lexbench.models.stated_settings import TEXT_HEAD_FILE
from lexbench.models.token_batches import Batch, Input, Tokens, plain_copy, tokenise
from lexbench.models.transformer_model import ModelSpec, PackedLinear, TransformerModel


def _last_states(body: Any, batch: Batch, ids: Tensor, mask: Tensor | None, **more: Any) -> Tensor:
    """Return the last states (n, longest, width) that *body* has for *batch*."""
    if isinstance(body, Bert | ModernBert | New):  # their states of padding take time; unseen [MASK]s of queries pool them
        more["padding"] = bool((batch.pools & ~batch.real).any())
    states: Tensor = body(input_ids=ids, attention_mask=mask, **more).last_hidden_state
    return states


def _on_device(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Return the ids of *batch*, and the mask of its padding; the mask is None if nothing is padded."""
    ids = torch.from_numpy(batch.ids).to(device)
    return ids, None if batch.real.all() else torch.from_numpy(batch.real).to(device)


# ---- models with a weight per term of the vocabulary -----------------------------------------------------------------------
# A naive encoder spends much of its time, and nearly all of its memory, on logits (batch, length, vocabulary), each of which
# goes through relu and log1p. Both are monotonic, so here the maximum comes first, and they see one value per text and term.
# Positions that do not pool never reach the head, and the vocabulary is projected in pieces: at most `tokens x 2,048` logits
# and `texts x vocabulary` maxima are in memory.

_PIECE = 2048  # terms projected at a time
_NARROW = 256  # up to this width of states, taking the maxima costs about as much as the projection
_NARROW_PIECE = 1024  # bytes of a row of logits then, on a processor: the rows of 768 tokens stay in its second-level cache
_FEW = 64  # up to so many tokens, e.g. of a query, a call per small piece costs more than the cache saves
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {  # of positive values; others are no terms
    "log1p_relu": torch.log1p,
    "log1p_log1p_relu": lambda values: values.log1p().log1p(),
    "relu": lambda values: values,
}
_RULES = 'type logit_shift=0, position_top_k=0, vocab_fold="none"'
_FOLDS: dict[str, Any] = {"max": np.maximum, "sum": np.add}  # how weights of folded terms become one
_Projections: TypeAlias = list[Any]  # each (tokens, width) -> (tokens, terms); in int8 they are Int8Linear


class Rules(NamedTuple):
    """How logits become weights: the settings of `sparse_mlm` with these names."""

    activation: str
    logit_shift: float = 0.0
    position_top_k: int = 0
    vocab_fold: str = "none"


class VocabularyModel(TransformerModel):
    """A language model in three steps: body, transform, projection onto the vocabulary in pieces."""

    def __init__(self, spec: ModelSpec, checkpoint: LanguageModel) -> None:
        super().__init__(spec, checkpoint.body, checkpoint.tokenizer, checkpoint.config)
        self.transform = checkpoint.transform
        self.pack(self.transform)
        self.vocabulary = self.dimensions = len(checkpoint.weight)
        self.fold = checkpoint.fold
        narrow = self.device.type == "cpu" and checkpoint.weight.shape[1] <= _NARROW
        self._of_few = _projections(self, checkpoint.weight, checkpoint.bias, _PIECE)
        terms = _NARROW_PIECE // checkpoint.weight.element_size()
        self._of_many = _projections(self, checkpoint.weight, checkpoint.bias, terms) if narrow else self._of_few

    def of_maxima(self, maxima: Tensor, rules: Rules, factor: float = 1.0) -> sparse.csr_array:
        """Return the weights of terms (n, vocabulary) for the largest logits *maxima* of each text and term (n, vocabulary).

        They are float32, and NaN stays, so that it can be found. Logits are multiplied by *factor*, which is above 0. Raises
        CommandError if terms shall be folded and the model has no table for it.
        """
        if factor != 1 or rules.logit_shift:
            maxima = maxima * factor - rules.logit_shift
        return self._folded(_sparse(maxima, _ACTIVATIONS[rules.activation]), rules)

    def of_positions(self, batch: Batch, states: Tensor, rules: Rules, factor: float = 1.0) -> sparse.csr_array:
        """Return the weights of terms like `of_maxima` if each position has its `position_top_k` largest terms alone.

        *states* (n, longest, width) are the body's output for *batch*.
        """
        best, terms = _largest_of_rows(self._of_few, self._pooling_states(batch, states), rules.position_top_k)
        values = best * factor - rules.logit_shift
        kept = torch.logical_not(values <= 0)
        texts = np.repeat(np.arange(len(batch.ids)), batch.pools.sum(axis=1))[kept.nonzero()[:, 0].cpu().numpy()]
        activated = _ACTIVATIONS[rules.activation](values[kept]).cpu().numpy()
        shape = len(batch.ids), self.vocabulary
        return self._folded(_joined(texts, terms[kept].cpu().numpy(), activated, shape, np.maximum), rules)

    def _folded(self, weights: sparse.csr_array, rules: Rules) -> sparse.csr_array:
        """Return *weights* (n, vocabulary) with those of folded terms as one, as `vocab_fold` says."""
        if rules.vocab_fold == "none":
            return weights
        if self.fold is None:
            raise CommandError(f'{self.name}: the model has no table of folded terms; type vocab_fold="none"')
        rows = np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
        return _joined(rows, self.fold[weights.indices], weights.data, weights.shape, _FOLDS[rules.vocab_fold])

    def _pooling_states(self, batch: Batch, states: Tensor) -> Tensor:
        """Return the head's states (positions, width) of the positions that pool, text after text."""
        pooled = torch.from_numpy(np.flatnonzero(batch.pools)).to(self.device)
        transformed: Tensor = self.transform(states.flatten(0, 1).index_select(0, pooled))
        return transformed

    def _maxima(self, batch: Batch, states: Tensor, pool: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Return the largest logit of each text and term (n, vocabulary), float32; -inf for texts without a pooling position.

        *states* (n, longest, width) are the body's output for *batch*. If no logit is above 0, the result may be any of them.
        *pool* joins logits (texts, length, terms) in another way.
        """
        states = self._pooling_states(batch, states)
        lengths = batch.pools.sum(axis=1).tolist()
        maxima = torch.full((len(lengths), self.vocabulary), -torch.inf, device=self.device)
        pieces = self._of_few if len(states) <= _FEW else self._of_many
        if self.int8 and not pool:
            from lexbench.models.int8 import write_largest

            write_largest(pieces, states, lengths, maxima)
        else:
            _write_pooled(pieces, states, lengths, maxima, pool or _largest)
        return maxima


def _projections(model: TransformerModel, weight: Tensor, bias: Tensor | None, outputs: int) -> _Projections:
    """Return the projections of states (tokens, width) by *weight* and *bias*, each onto *outputs* of their outputs."""
    pieces = (slice(start, start + outputs) for start in range(0, len(weight), outputs))
    parts = [(weight[piece], None if bias is None else bias[piece]) for piece in pieces]
    if model.int8:
        from lexbench.models.int8 import Int8Linear

        return [Int8Linear(*part) for part in parts]
    if model.packed:
        return [PackedLinear(*part) for part in parts]
    return [partial(functional.linear, weight=rows, bias=added) for rows, added in parts]


def _largest_of_rows(pieces: _Projections, states: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the *most* largest outputs of each row of *states* (rows, width), float32, and which outputs they are.

    The largest outputs of the pieces so far compete with those of the next piece, so that no row has all outputs in memory.
    """
    best = torch.empty((len(states), 0), device=states.device)
    outputs = torch.empty((len(states), 0), dtype=torch.long, device=states.device)
    first = 0
    for project in pieces:
        found = project(states).float()
        values, places = found.topk(min(most, found.shape[1]), dim=1)
        best, outputs = torch.cat([best, values], 1), torch.cat([outputs, places + first], 1)
        if best.shape[1] > most:
            best, places = best.topk(most, dim=1)
            outputs = outputs.gather(1, places)
        first += found.shape[1]
    return best, outputs


def _write_pooled(
    pieces: _Projections, states: Tensor, lengths: list[int], pooled: Tensor, pool: Callable[[Tensor], Tensor]
) -> None:
    """Write the logits of each text, as *pool* joins those of its tokens, into *pooled* (texts, vocabulary).

    *states* (tokens, width) belong to texts of *lengths* tokens, one text after the other.
    """
    first = 0
    counts = torch.tensor(lengths, device=states.device) if states.device.type == "cuda" else None
    for project in pieces:
        logits = project(states)
        terms = slice(first, first + logits.shape[1])
        if counts is not None and pool is _largest:
            pooled[:, terms] = _largest_of_each(logits, counts)
            first = terms.stop
            continue
        for rows, positions, shape in _equally_long(lengths):
            pooled[rows, terms] = pool(logits[positions].view(*shape, -1))
        first = terms.stop


def _largest_of_each(logits: Tensor, lengths: Tensor) -> Tensor:
    """Return the largest logit of each text and term (texts, terms) in one step, which on a GPU is faster than many.

    *logits* (tokens, terms) belong to texts of *lengths* tokens (texts,), one text after the other.
    """
    return torch.segment_reduce(logits, "max", lengths=lengths, axis=0, unsafe=True).float()


def _equally_long(lengths: list[int]) -> Iterator[tuple[slice, slice, tuple[int, int]]]:
    """Yield runs of neighbouring texts of one length: their rows, their positions, and their shape (texts, length)."""
    row = position = 0
    for length, run in groupby(lengths):
        count = sum(1 for _ in run)
        if length:
            yield slice(row, row + count), slice(position, position + count * length), (count, length)
        row, position = row + count, position + count * length


def _largest(logits: Tensor) -> Tensor:
    """Return the largest logit of each text and term (texts, terms) in *logits* (texts, length, terms), float32.

    If none is above 0, the result is any of them. Positive numbers have the same order if their bits are read as whole numbers,
    and negative ones are then below 0; processors compare whole numbers of 16 bits nine times as fast as bfloat16. A NaN may
    lose to a positive logit of the same text and term only.
    """
    if logits.dtype == torch.bfloat16 and logits.device.type == "cpu":
        return logits.view(torch.int16).amax(1).view(torch.bfloat16).float()
    return logits.amax(1).float()


def _sparse(weights: Tensor, activation: Callable[[Tensor], Tensor] = lambda values: values) -> sparse.csr_array:
    """Return *activation* of the *weights* (n, vocabulary) above 0, indices sorted; NaN stays, so that it can be found."""
    rows, terms = torch.logical_not(weights <= 0).nonzero(as_tuple=True)
    starts = np.zeros(len(weights) + 1, np.int32)
    starts[1:] = torch.bincount(rows, minlength=len(weights)).cumsum(0).cpu().numpy()
    values, indices = activation(weights[rows, terms]).cpu().numpy(), terms.to(torch.int32).cpu().numpy()
    return csr_of(values, indices, starts, weights.shape[1])


def _joined(
    rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], shape: tuple[int, int], join: Any
) -> sparse.csr_array:
    """Return the matrix of *values* at *rows* and *columns*, indices sorted; *join* makes one number of those at one place.

    *join* is a function of numpy with the method reduceat, e.g. np.maximum.
    """
    keys = rows.astype(np.int64) * shape[1] + columns  # one number per place
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    numbers = join.reduceat(values[order], starts) if len(starts) else np.zeros(0, np.float32)
    rows, columns = np.divmod(keys[order][starts], shape[1])
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
    return sparse.csr_array((numbers, columns, offsets), shape=shape)


class MaskedLMModel(VocabularyModel):
    """A masked-language model, with exact terms and a text head if its folder has them."""

    def __init__(self, spec: ModelSpec) -> None:
        files = masked_lm_files(fetch(spec.name, spec.revision), documents_only=True)
        checkpoint = load_masked_lm(files, dtype=spec.torch_dtype, device=spec.torch_device)
        super().__init__(spec, checkpoint)
        assert checkpoint.added is not None
        self.exact_terms, self.text_head = checkpoint.added
        if self.text_head is not None:
            self.dimensions += len(self.text_head.words)

    def outputs(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the last states (n, longest, width) of *batch*, and the largest logits (n, vocabulary)."""
        states = self._states(batch)
        return states, self._maxima(batch, states)

    def _states(self, batch: Batch) -> Tensor:
        ids, mask = _on_device(batch, self.device)
        return _last_states(self.body, batch, ids, mask)

    @torch.inference_mode()
    def vectors(
        self,
        batch: Batch,
        rules: Rules,
        *,
        whole_counts: bool = False,
        text_terms: int = 0,
        most_terms: int = 0,
        with_means: bool = False,
    ) -> sparse.csr_array:
        """Return the vectors (n, dimensions) by *rules*, float32. Raises LexbenchError for NaN.

        With *whole_counts*, exact terms count a piece as often as the text has it. The text head adds *text_terms* weights,
        within *most_terms* (0: any number), behind those of the vocabulary. Raises CommandError if there is no text head, or if
        a model with exact terms or a text head has other rules than an activation. *with_means* puts the mean of the last
        states, with length 1, behind all of them (n, dimensions + width).
        """
        terms, states = self._terms(batch, rules, whole_counts, text_terms, most_terms)
        if with_means:
            terms = joined(terms, means(states, torch.from_numpy(batch.real).to(self.device)).cpu().numpy())
        return self.finite(terms)

    def _terms(
        self,
        batch: Batch,
        rules: Rules,
        whole_counts: bool,  # noqa: FBT001 - as in `vectors`
        text_terms: int,
        most_terms: int,
    ) -> tuple[sparse.csr_array, Tensor]:
        """Return the weights of terms (n, dimensions), see `vectors`, and the last states (n, longest, width)."""
        is_plain = self.exact_terms is None and self.text_head is None and not text_terms
        if not is_plain and rules != Rules(rules.activation):
            raise CommandError(f"{self.name} has exact terms or a text head, which go with activation alone: {_RULES}")
        if rules.position_top_k:
            states = self._states(batch)
            return self.of_positions(batch, states, rules), states
        states, maxima = self.outputs(batch)  # a method, because `lexbench speed` lets another library compute them
        if is_plain:
            return self.of_maxima(maxima, rules), states
        weights = _ACTIVATIONS[rules.activation](maxima.clamp(min=0))
        if self.exact_terms is not None:
            ids, pools = (torch.from_numpy(array).to(self.device) for array in (batch.ids, batch.pools))
            weights = self.exact_terms(weights, ids, pools, whole=whole_counts)
        if text_terms and self.text_head is None:
            raise CommandError(f"{self.name} has no text head ({TEXT_HEAD_FILE}); type text_terms=0, query_text_terms=0")
        if self.text_head is not None:
            real = torch.from_numpy(batch.real).to(self.device)
            kept = max(most_terms - text_terms, 0)
            weights = self.text_head.added(weights, means(states, real), text_terms, kept)
        return _sparse(weights), states

    @torch.inference_mode()
    def summed_vectors(self, batch: Batch, activation: str) -> sparse.csr_array:
        """Return the vectors (n, vocabulary) whose weights are sums over positions, as in the first SPLADE, and not maxima."""
        if self.exact_terms is not None or self.text_head is not None:
            raise CommandError(f'{self.name} has exact terms or a text head, whose weights are maxima; type pooling="max"')
        states = self._states(batch)
        weigh = _ACTIVATIONS[activation]
        return self.finite(_sparse(self._maxima(batch, states, lambda logits: weigh(logits.float().clamp(min=0)).sum(1))))


class CausalLMModel(VocabularyModel):
    """A causal language model, whose states see the tokens before them, or the whole text."""

    def __init__(self, spec: ModelSpec) -> None:
        files = model_files(fetch(spec.name, spec.revision), CAUSAL_LMS)
        checkpoint = load_causal_lm(files, dtype=spec.torch_dtype, device=spec.torch_device)
        super().__init__(spec, checkpoint)
        tokenizer: Any = checkpoint.tokenizer
        self.specials = [token for token in (tokenizer.bos_token_id, tokenizer.eos_token_id) if token is not None]
        self.width = int(checkpoint.config.hidden_size)

    @torch.inference_mode()
    def vectors(self, batch: Batch, rules: Rules, *, bidirectional: bool, factor: float) -> sparse.csr_array:
        """Return the vectors (n, vocabulary) by *rules*, float32. Raises LexbenchError for NaN.

        Logits are multiplied by *factor*, which is above 0. With *bidirectional* each position attends to its whole text.
        """
        ids, real = (torch.from_numpy(array).to(self.device) for array in (batch.ids, batch.real))
        mask = real[:, None, None, :].expand(-1, 1, real.shape[1], -1) if bidirectional else real
        states = self.body(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        if rules.position_top_k:
            return self.finite(self.of_positions(batch, states, rules, factor))
        return self.finite(self.of_maxima(self._maxima(batch, states), rules, factor))


# ---- bodies ----------------------------------------------------------------------------------------------------------------

_LINEAR = ("embeddingHead", "linear")  # the layer behind the pooling, in ANCE and ADORE, and in sentence-transformers
_NORM = ("norm",)
_RESIDUAL = "residual.weight"
_SPECIAL_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_EPSILON = 1e-5  # the default of torch's LayerNorm, which all of them use
_TERM_WEIGHT = "tok_proj"  # (1, h) and (1,), the name by COIL's authors


class BodyModel(TransformerModel):
    """The body of a checkpoint, and all other tensors of the checkpoint by name."""

    causal: ClassVar[bool] = False  # whether it may be a causal language model's

    def __init__(self, spec: ModelSpec) -> None:
        files = self.files(fetch(spec.name, spec.revision))
        body, self.others, tokenizer, config = load_body(files, dtype=spec.torch_dtype, device=spec.torch_device)
        super().__init__(spec, body, tokenizer, config)
        self.folder = files.folder
        self._settings = {"use_cache": False} if files.config["model_type"] in CAUSAL_LMS else {}
        self.width = int(config.hidden_size)

    @classmethod
    def files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of the model in *folder*."""
        return body_files(folder, causal=cls.causal)

    def states(self, batch: Batch) -> Tensor:
        """Return the last hidden states (n, longest, width) of *batch*; padding is not attended to."""
        ids, mask = _on_device(batch, self.device)
        types = {} if batch.types is None else {"token_type_ids": torch.from_numpy(batch.types).to(self.device)}
        return _last_states(self.body, batch, ids, mask, **types, **self._settings)

    def pooled(self, batch: Batch, poolings: Sequence[str], skip: int = 0) -> Tensor:
        """Return the *poolings* of each text, joined (n, poolings x width), float32.

        They leave out the first *skip* positions. A pooling of no position is 0; "cls" is then the first state.
        """
        states = self.states(batch)
        lengths = torch.from_numpy(batch.real.sum(axis=1)).to(self.device)
        counted = torch.from_numpy(batch.real).to(self.device, torch.float32)
        counted[:, :skip] = 0
        parts = [_pooled(states, pooling, counted, lengths, skip) for pooling in poolings]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def special_token(self, role: str, instead: str) -> int:
        """Return the id of the token of *role* ("eos" or "mask").

        Raises CommandError if there is none; the message suggests to type *instead*.
        """
        if (number := getattr(self.tokenizer, f"{role}_token_id")) is None:
            raise CommandError(f"{self.name}: its tokenizer has no token {role!r}; type {instead}")
        return int(number)


def _pooled(states: Tensor, pooling: str, counted: Tensor, lengths: Tensor, skip: int) -> Tensor:
    """Return one pooling (n, width) of the *states* (n, longest, width) at *counted* positions (n, longest), 1 or 0."""
    rows = torch.arange(len(states), device=states.device)
    if pooling == "cls":
        return states[rows, torch.where(lengths > skip, skip, 0)].float()
    if pooling == "last":
        return states[rows, lengths.clamp(min=1) - 1].float().masked_fill((lengths <= skip).unsqueeze(1), 0)
    if pooling == "max":
        highest = states.float().masked_fill(counted.unsqueeze(2) == 0, -torch.inf).amax(1)
        return highest.masked_fill((lengths <= skip).unsqueeze(1), 0)
    places = torch.arange(1, counted.shape[1] + 1, device=states.device)
    weights = counted * places if pooling == "weightedmean" else counted
    summed = torch.bmm(weights.unsqueeze(1), states.float()).squeeze(1)
    total = weights.sum(1, keepdim=True).clamp(min=1)
    return summed / (total.sqrt() if pooling == "mean_sqrt_len" else total)


class HeadLayer(NamedTuple):
    """A layer with weights behind the pooling."""

    step: str  # of `stated_modules.LAYERS`
    weight: Tensor
    bias: Tensor | None
    residual: Tensor | None = None  # (out, in) projects the input, if its width is another


class Head(nn.Module):
    """The layers behind the pooling, or behind the states of tokens, in their order."""

    def __init__(self, model: BodyModel) -> None:
        """Find the layers among the tensors of *model*."""
        super().__init__()
        self.name = model.name
        groups: dict[str, dict[str, Tensor]] = {}  # by the folder of a module, "" for the body's own file
        for key, tensor in model.others.items():
            place, _, name = key.rpartition("/")
            groups.setdefault(place, {})[name] = tensor.float()
        self.layers = [layer for group in groups.values() for layer in _layers(group)]

    @property
    def kind(self) -> str:
        """The value of the setting `head` that names its layers."""
        return "_".join(layer.step for layer in self.layers) or "none"

    def width(self, states: int) -> int:
        """Return the dimensions of vectors behind the head; *states* are those before it.

        Raises InvalidFile if a layer takes others than it gets.
        """
        for layer in self.layers:
            if (taken := layer.weight.shape[-1]) != states:
                raise InvalidFile(
                    f"{self.name}: a {layer.step} layer behind the model takes {taken} dimensions, and gets {states}; {AGAIN}"
                )
            states = len(layer.weight)
        return states

    def forward(self, vectors: Tensor, steps: Sequence[str]) -> Tensor:
        """Return *vectors* (n, width) after *steps*, whose layers are those of `kind`."""
        layers, before = iter(self.layers), vectors
        projection: Tensor | None = None
        for step in steps:
            if step == "linear":
                _, weight, bias, projection = next(layers)
                before, vectors = vectors, functional.linear(vectors, weight, bias)
            elif step == "layernorm":
                _, weight, bias, _ = next(layers)
                vectors = functional.layer_norm(vectors, vectors.shape[-1:], weight, bias, _EPSILON)
            elif step == "residual":
                vectors = vectors + (before if projection is None else functional.linear(before, projection))
            elif step == "normalize":
                vectors = functional.normalize(vectors, dim=1)
            else:
                vectors = getattr(nn, ACTIVATIONS[step])()(vectors)
        return vectors


def _layers(tensors: dict[str, Tensor]) -> Iterator[HeadLayer]:
    """Yield the layers among the *tensors* of one file by name."""

    def first(names: Sequence[str], part: str) -> Tensor | None:
        return next((tensors[f"{name}.{part}"] for name in names if f"{name}.{part}" in tensors), None)

    for step, names in (("linear", _LINEAR), ("layernorm", _NORM)):
        if (weight := first(names, "weight")) is not None:
            yield HeadLayer(step, weight, first(names, "bias"), tensors.get(_RESIDUAL))


class DenseModel(BodyModel):
    """A body with its head."""

    causal = True

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.head = Head(self)

    def dimensions_behind(self, poolings: int) -> int:
        """Return the dimensions of a vector that has so many *poolings* joined before the head."""
        return self.head.width(poolings * self.width)

    def check_head(self, steps: Sequence[str]) -> None:
        """Raise CommandError unless the layers of *steps* are those of the head: leaving one out gives other vectors."""
        wanted = "_".join(step for step in steps if step in LAYERS) or "none"
        if (actual := self.head.kind) != wanted:
            asked = "_".join(steps) or "none"
            raise CommandError(
                f'{self.name}: the head behind its pooling is "{actual}" and not "{asked}"; type head="{actual}"'
            )

    def prompt_tokens(self, prompt: str, *, special: bool) -> int:
        """Return how many tokens *prompt* has, with a first special token, and without a last one."""
        ids = tokenise(plain_copy(self.tokenizer), [prompt], special=special).ids.tolist()
        special_ids = {getattr(self.tokenizer, f"{role}_token_id", None) for role in _SPECIAL_ROLES}
        return len(ids) - (bool(ids) and ids[-1] in special_ids)

    @torch.inference_mode()
    def vectors(
        self, batch: Batch, poolings: Sequence[str], steps: Sequence[str], skip: int, width: int, *, unit_length: bool
    ) -> NDArray[np.float32]:
        """Return the vectors (n, width) of *batch*: the *poolings*, after the *steps* of the head, cut, perhaps of length 1.

        Poolings leave out the first *skip* positions. Raises LexbenchError for NaN.
        """
        found = self.head(self.pooled(batch, poolings, skip), steps)[:, :width]
        return self.finite((functional.normalize(found, dim=1) if unit_length else found).cpu().numpy())


class LateInteractionModel(BodyModel):
    """A body with a projection of each token's state: `linear` of ColBERT, or Dense modules of PyLate and others."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        if "linear.bias" in self.others:
            raise InvalidFile(f"{self.folder}: it has linear.bias, and the layer of a ColBERT has none; remove the tensor")
        self.head = Head(self)
        self.dimensions = self.head.width(self.width)

    def check_head(self, steps: Sequence[str]) -> None:
        """Raise InvalidFile unless the layers of *steps* are those behind the model."""
        wanted = "_".join(step for step in steps if step in LAYERS) or "none"
        if self.head.kind != wanted:
            raise InvalidFile(
                f'{self.name}: late interaction has layers "{wanted}" behind the model (of a ColBERT: linear.weight), and here '
                f'is "{self.head.kind}"; give a ColBERT'
            )

    def token_id(self, token: str, setting: str) -> int:
        """Return the id of *token*. Raises CommandError, which names the *setting*, if the tokenizer lacks it."""
        token_id = self.tokenizer.convert_tokens_to_ids(token)
        if token_id is None or token_id == self.tokenizer.unk_token_id:
            raise CommandError(f"{self.name}: its tokenizer has no token {token!r}; type {setting}=… as its authors do")
        return int(token_id)

    def punctuation(self) -> list[int]:
        """Return the ids of ASCII punctuation, of [UNK] too if the vocabulary lacks a character.

        PyLate, whose layers are modules, looks each character up. ColBERT's authors take the first token of each as a text.
        """
        if any("/" in name for name in self.others):
            return [token for token in self.tokenizer.convert_tokens_to_ids(list(punctuation)) if token is not None]
        tokens = tokenise(plain_copy(self.tokenizer), list(punctuation), special=False)
        return [int(token) for token in tokens.ids[tokens.starts[:-1]]]

    def known(self, tokens: list[str]) -> list[int]:
        """Return the ids of those *tokens* that the vocabulary has."""
        numbers = [number for number in self.tokenizer.convert_tokens_to_ids(tokens) if number is not None]
        return [number for number in numbers if self.tokenizer.convert_ids_to_tokens(number) in tokens]  # else it is [UNK]

    def mask(self, instead: str) -> int:
        """Return the id of [MASK], or of the end token of a tokenizer without one. Raises CommandError as `special_token`."""
        return self.special_token("mask" if self.tokenizer.mask_token_id is not None else "eos", instead)

    def marked(self, texts: Sequence[Input], length: int, setting: str, marker: int | None) -> Tokens:
        """Return the tokens of *texts* with *marker* behind the first token ([CLS]), at most *length* in total.

        Raises CommandError, which names the *setting*, if the model takes fewer.
        """
        cutter = self.cutter(length, setting)
        if marker is None:
            return tokenise(cutter, texts)
        tokens = tokenise(self.cutter(length - 1, setting), texts)
        starts = tokens.starts + np.arange(len(tokens.starts))
        return tokens._replace(ids=np.insert(tokens.ids, tokens.starts[:-1] + 1, marker), starts=starts)

    @torch.inference_mode()
    def vectors(self, batch: Batch, steps: Sequence[str], *, unit_length: bool) -> NDArray[np.float32]:
        """Return the vectors (tokens, dimensions) of the positions that pool, text after text, after *steps* of the head.

        Raises LexbenchError for NaN.
        """
        pools = torch.from_numpy(batch.pools).to(self.device)
        projected = self.head(self.states(batch)[pools].float(), steps)
        return self.finite((functional.normalize(projected, dim=1) if unit_length else projected).cpu().numpy())


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
        self.vocabulary = self.dimensions = int(self.body.config.vocab_size)  # type: ignore[union-attr,arg-type]

    @torch.inference_mode()
    def vectors(self, batch: Batch) -> sparse.csr_array:
        """Return the vectors (n, vocabulary), float32, indices sorted; a token that repeats has its largest weight above 0.

        Raises LexbenchError for NaN.
        """
        weights = functional.linear(self.states(batch), self.weight, self.bias).relu().squeeze(-1).float().cpu().numpy()
        rows, columns = np.nonzero(batch.pools & ~(weights <= 0))
        shape = len(batch.ids), self.vocabulary
        return self.finite(_joined(rows, batch.ids[rows, columns], weights[rows, columns], shape, np.maximum))


# ---- latent features -------------------------------------------------------------------------------------------------------

_FEATURES = 4096  # features projected at a time
_LAYER_NORM = 1e-5  # what sentence-transformers adds to the deviation of a state


class LatentModel(BodyModel):
    """A body, and the encoder of a sparse autoencoder: W (features, width), b (features,), and what is subtracted before W."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        weight, bias, self.subtracted = self._encoder()
        self.dimensions = self.vocabulary = len(weight)
        dtype = torch.float32 if self.int8 else spec.torch_dtype
        self.pieces = _projections(self, weight.to(dtype), None if bias is None else bias.to(dtype), _FEATURES)
        self.others = {}

    @classmethod
    def files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of the body and the autoencoder in *folder*."""
        return latent_files(folder)

    def _encoder(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return W, b and the tensor (width,) that is subtracted before W, found by their shapes and names.

        The decoder of the autoencoder is left out; it only serves training. Raises InvalidFile if there is no W, or two
        different ones, or a tensor that is neither.
        """
        shapes = {name: tuple(tensor.shape) for name, tensor in self.others.items() if "pooler." not in name}
        matrices = [name for name, shape in shapes.items() if len(shape) == 2 and shape[1] == self.width < shape[0]]  # noqa: PLR2004
        same = [name for name in matrices if torch.equal(self.others[name], self.others[matrices[0]])]
        if not matrices or len(same) < len(matrices):
            actual = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
            raise InvalidFile(
                f"{self.name}: a model of latent features has one tensor (features, {self.width}) behind its body, and here is "
                f"{actual}"
            )
        weight = self.others[same[0]]
        biases = [name for name, shape in shapes.items() if shape == (len(weight),)]
        before = [name for name, shape in shapes.items() if shape == (self.width,) and "dec" not in name]
        decoder = [name for name, shape in shapes.items() if shape in {(self.width, len(weight)), (self.width,)}]
        if unknown := shapes.keys() - {*matrices, *biases, *before, *decoder}:
            raise InvalidFile(f"{self.name}: lexbench does not know what {', '.join(sorted(unknown))} does; give another model")
        if max(len(biases), len(before)) > 1:
            raise InvalidFile(f"{self.name}: which of {', '.join([*biases, *before])} belongs to the features is not clear")
        own, subtracted = ([self.others[name].float() for name in names] for names in (biases, before))
        return weight.float(), own[0] if own else None, subtracted[0] if subtracted else None

    @torch.inference_mode()
    def vectors(self, batch: Batch, pooling: str, scaling: str, active: int) -> sparse.csr_array:
        """Return the vectors (n, features), float32. Raises LexbenchError for NaN.

        With *pooling* "max" each position that pools has features, of which a text has the largest. Other poolings make one
        state of a text first. *scaling* and *active* as in `features`.
        """
        if pooling == "max":
            positions, features, values = self.features(batch, scaling, active)
            texts = np.nonzero(batch.pools)[0][positions]
        else:
            texts, features, values = self._features(self.pooled(batch, [pooling]), scaling, active)
        return self.finite(_joined(texts, features, values, (len(batch.ids), self.dimensions), np.maximum))

    @torch.inference_mode()
    def features(self, batch: Batch, scaling: str, active: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the features of positions that pool: which of these positions, which feature, and its weight.

        *scaling* of states is "none", "length" (1) or "layer_norm". A position has at most *active* features.
        """
        pooled = torch.from_numpy(np.flatnonzero(batch.pools)).to(self.device)
        return self._features(self.states(batch).flatten(0, 1).index_select(0, pooled).float(), scaling, active)

    def _features(self, states: Tensor, scaling: str, active: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        if scaling == "length":
            states = functional.normalize(states, dim=1)
        elif scaling == "layer_norm":
            states = states - states.mean(1, keepdim=True)
            states = states / (states.std(1, keepdim=True) + _LAYER_NORM)
        if self.subtracted is not None:
            states = states - self.subtracted
        dtype = torch.float32 if self.int8 else getattr(torch, self.dtype)
        values, features = _largest_of_rows(self.pieces, states.to(dtype), active)
        kept = torch.logical_not(values <= 0)
        return kept.nonzero()[:, 0].cpu().numpy(), features[kept].cpu().numpy(), values[kept].cpu().numpy()
