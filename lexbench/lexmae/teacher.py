"""Frozen rerankers whose scores a model learns from (paper, appendix A, stage 3): cross-encoders, and dual encoders.

Pairs are computed in batches of like lengths, the longest first, so little is padded. Weights are float32; in another
precision the computation is under autocast.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Encoding, Tokenizer
from torch import Tensor
from torch.nn import functional
from transformers import AutoModel, AutoModelForSequenceClassification, PreTrainedTokenizerFast

from lexbench.encoders._checkpoint_modules import read_json
from lexbench.errors import CommandError, InvalidFile
from lexbench.lexmae import given_models
from lexbench.types import Document

LENGTH = 192  # tokens of a pair, special ones included
SCALE = 20.0  # of cosines: what dual encoders of sentence-transformers are trained with (its losses' `scale`)
_BATCH = 8192  # tokens that are computed at once, padding included
_POOLINGS = ("mean", "cls")


class Teacher(ABC):
    """What scores pairs of query and document; its weights do not change."""

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerFast, device: torch.device, dtype: torch.dtype) -> None:
        self._model = model.to(device).requires_grad_(False)
        self._device, self._dtype = device, dtype
        self._cut = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())  # a copy, which nobody else sets up
        self._cut.no_padding()
        self._cut.no_truncation()
        self._pad = tokenizer.pad_token_id or 0
        self._types = "token_type_ids" in tokenizer.model_input_names
        self._separator = str(tokenizer.sep_token)

    @abstractmethod
    def scores(self, queries: Sequence[str], documents: Sequence[Document]) -> Tensor:
        """Return how relevant documents[i] is to queries[i] (n,), float32, on the teacher's device."""

    def _computed(self, inputs: Sequence[Encoding]) -> Iterator[tuple[list[int], Any, Tensor]]:
        """Yield, for each batch, the places of its *inputs*, what the model returns for them, and their mask (n, longest)."""
        order = sorted(range(len(inputs)), key=lambda place: -len(inputs[place]))
        at = 0
        while at < len(order):
            longest = max(len(inputs[order[at]]), 1)
            places = order[at : at + max(1, _BATCH // longest)]
            ids = torch.full((len(places), longest), self._pad)
            mask, types = torch.zeros_like(ids), torch.zeros_like(ids)
            for row, place in enumerate(places):
                length = len(inputs[place])
                ids[row, :length] = torch.tensor(inputs[place].ids)
                types[row, :length] = torch.tensor(inputs[place].type_ids)
                mask[row, :length] = 1
            given = {"input_ids": ids, "attention_mask": mask} | ({"token_type_ids": types} if self._types else {})
            given = {name: tensor.to(self._device) for name, tensor in given.items()}
            reduced = self._dtype != torch.float32
            with torch.no_grad(), torch.autocast(self._device.type, self._dtype, enabled=reduced):
                yield places, self._model(**given), given["attention_mask"]
            at += len(places)


class CrossEncoder(Teacher):
    """A *ForSequenceClassification that reads [CLS] query [SEP] title [SEP] passage [SEP], the query as first segment."""

    def __init__(self, model: Any, tokenizer: PreTrainedTokenizerFast, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(model, tokenizer, device, dtype)
        positions = getattr(model.config, "max_position_embeddings", LENGTH)
        self._room = min(LENGTH, tokenizer.model_max_length, positions) - self._cut.num_special_tokens_to_add(is_pair=True)

    def scores(self, queries: Sequence[str], documents: Sequence[Document]) -> Tensor:
        """Return the logits (n,), of two the relevant one less the other; documents are cut where a pair is too long."""
        found = torch.empty(len(queries), device=self._device)
        for places, output, _ in self._computed(self._pairs(queries, documents)):
            logits = output.logits.float()
            found[places] = logits[:, -1] - (logits[:, 0] if logits.shape[1] > 1 else 0.0)
        return found

    def _pairs(self, queries: Sequence[str], documents: Sequence[Document]) -> list[Encoding]:
        """Return the tokens of pairs; a query is cut only where it leaves no room by itself."""
        texts = [f"{one.title}{self._separator}{one.body}" if one.title else one.text for one in documents]
        firsts = self._cut.encode_batch(list(queries), add_special_tokens=False)
        seconds = self._cut.encode_batch(texts, add_special_tokens=False)
        for first, second in zip(firsts, seconds, strict=True):
            first.truncate(self._room)
            second.truncate(self._room - len(first))
        return [self._cut.post_process(*pair) for pair in zip(firsts, seconds, strict=True)]


class DualEncoder(Teacher):
    """An encoder of sentence-transformers, scoring by 20 x cosine."""

    def __init__(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerFast,
        device: torch.device,
        dtype: torch.dtype,
        *,
        pooling: str = "mean",
        length: int = LENGTH,
    ) -> None:
        super().__init__(model, tokenizer, device, dtype)
        self._pooling = pooling
        self._cut.enable_truncation(length)

    def scores(self, queries: Sequence[str], documents: Sequence[Document]) -> Tensor:
        """Return 20 x cosine of each pair (n,); a text that occurs more than once is encoded once."""
        texts = [*queries, *(one.text for one in documents)]
        distinct = list(dict.fromkeys(texts))
        row = {text: place for place, text in enumerate(distinct)}
        vectors = self.encode(distinct)[[row[text] for text in texts]]
        return SCALE * (vectors[: len(queries)] * vectors[len(queries) :]).sum(1)

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Return vectors of length 1 (n, width), float32."""
        found = torch.empty(len(texts), self._model.config.hidden_size, device=self._device)
        for places, output, mask in self._computed(self._cut.encode_batch(list(texts))):
            states = output.last_hidden_state.float()
            real = mask.unsqueeze(2)
            found[places] = states[:, 0] if self._pooling == "cls" else (states * real).sum(1) / real.sum(1)
        return functional.normalize(found, dim=1)


def load(name: str, device: torch.device | str, dtype: torch.dtype) -> Teacher:
    """Return the teacher in *name*, a folder or a name on the hub.

    CommandError for a model of another kind; MissingData and InvalidFile where files are not there or do not read.
    """
    place = given_models.find(name)
    modules = given_models.modules(place)
    body = given_models.transformer(place)
    if any(str(name).endswith("ForSequenceClassification") for name in given_models.config(body).architectures or ()):
        return CrossEncoder(*_whole(body, AutoModelForSequenceClassification), torch.device(device), dtype)
    if [name for name, _ in modules if name != "Normalize"] != ["Transformer", "Pooling"]:
        raise CommandError(
            f"{name}: neither a *ForSequenceClassification of transformers nor a Transformer with Pooling of "
            "sentence-transformers; give a teacher that is one of them"
        )
    pooling, told = _pooling(modules[1][1]), _length(place, body)
    model, tokenizer = _whole(body, AutoModel)
    length = told or min(tokenizer.model_max_length, model.config.max_position_embeddings)
    return DualEncoder(model, tokenizer, torch.device(device), dtype, pooling=pooling, length=length)


def _whole(place: Path, kind: Any) -> tuple[Any, PreTrainedTokenizerFast]:
    """Return model and tokenizer; InvalidFile where a weight is missing, CommandError where there are more than two logits."""
    found, missing = given_models.model(place, kind)
    if missing := [name for name in missing if not name.startswith("pooler.")]:
        raise InvalidFile(f"{place}: {len(missing)} weights are missing ({missing[0]}); a teacher needs all of them")
    if kind is AutoModelForSequenceClassification and found.config.num_labels > 2:  # noqa: PLR2004 - relevant or not
        raise CommandError(f"{place}: it has {found.config.num_labels} logits; a teacher has one, or two")
    return found, given_models.tokenizer(place)


def _pooling(folder: Path) -> str:
    """Return how a model pools, in the old form of its settings or the new one; CommandError if lexbench does not."""
    told = read_json(folder / "config.json")
    on = (name for name, value in told.items() if value is True and name.startswith("pooling_mode_"))
    old = [name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token") for name in on]
    found = told.get("pooling_mode", old[0] if len(old) == 1 else old)
    if found not in _POOLINGS:
        raise CommandError(f"{folder}: it pools by {found!r}; lexbench does {', '.join(_POOLINGS)}")
    return str(found)


def _length(place: Path, body: Path) -> int:
    """Return how many tokens of a text a model of older sentence-transformers reads; 0: newer ones tell the tokenizer.

    CommandError where texts are changed before they are read.
    """
    files = place / "config_sentence_transformers.json", body / "sentence_bert_config.json"
    about, how = (read_json(path) if path.is_file() else {} for path in files)
    if how.get("do_lower_case") or any((about.get("prompts") or {}).values()):
        raise CommandError(
            f"{place}: it puts a prompt before texts or lower-cases them; lexbench does not: take another teacher"
        )
    return int(how.get("max_seq_length") or 0)
