"""Scores of query-document pairs by a sequence classifier, which reads [CLS] query [SEP] document [SEP].

Used by the reranker `cross_encoder`. Needs torch.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from lexbench.errors import LexbenchError
from lexbench.models.architectures import classifier_files, load_classifier, with_own_body
from lexbench.models.checkpoint import fetch, first_line
from lexbench.models.loading import check_token_ids, load_encoding_tokenizer
from lexbench.models.token_batches import Tokens, batches, tokenise
from lexbench.models.transformer_model import ModelSpec, TransformerModel
from lexbench.plugins import ScoredPairs
from lexbench.types import Document

_LEAST_TOKENS = {"cuda": 16_384}  # from so many on a batch of a GPU ends before it would have much padding
_RELEVANT = ("relevant", "true", "yes", "positive", "entailment", "match")  # labels, e.g. of a model of entailment
_PAIRS = 4096  # pairs whose tokens are in memory at a time


def _first_is_relevant(config: Any) -> bool:
    """Return whether the labels in config.json say that the first of two logits, not the second, means relevant."""
    names = [str(name).lower() for _, name in sorted((config.id2label or {}).items())]
    return len(names) == 2 and names[0] in _RELEVANT and names[1] not in _RELEVANT  # noqa: PLR2004


class CrossEncoderModel(TransformerModel):
    """A sequence classifier in memory, for `transformer_model.loaded`."""

    def __init__(self, spec: ModelSpec) -> None:
        files = classifier_files(fetch(spec.name, spec.revision))
        tokenizer = load_encoding_tokenizer(files.tokenizer_folder)
        model = with_own_body(load_classifier(files.folder)).to(spec.torch_device, spec.torch_dtype).requires_grad_(False)
        check_token_ids(tokenizer.get_vocab(), model.config.vocab_size, files.folder)
        super().__init__(spec, model, tokenizer, model.config)
        self._sign = -1.0 if _first_is_relevant(model.config) else 1.0
        self._takes_types = "token_type_ids" in tokenizer.model_input_names

    @torch.inference_mode()
    def scored_pairs(
        self,
        cutter: Tokenizer,
        queries: Sequence[str],
        documents: Sequence[Document],
        most_tokens: int,
        *,
        separated_titles: bool,
    ) -> ScoredPairs:
        """Return the logits (n,) of queries[i] with documents[i], and which pairs *cutter* has cut.

        With two logits the score is that of relevant minus the other one. Relevant is the second one, unless the names of
        labels say otherwise. *separated_titles* puts a separator between title and body. Batches have at
        most *most_tokens* tokens, padding included.
        """
        texts = [
            f"{document.title}{self.tokenizer.sep_token}{document.body}"
            if separated_titles and document.title
            else document.text
            for document in documents
        ]
        pairs = list(zip(queries, texts, strict=True))
        scores, cut = torch.empty(len(pairs), device=self.device), np.zeros(len(pairs), bool)
        for start, tokens in self._tokenised(cutter, pairs):
            block = scores[start : start + _PAIRS]
            cut[start : start + _PAIRS] = tokens.cut
            least = _LEAST_TOKENS.get(self.device.type)
            for batch in batches(tokens, most_tokens, len(tokens.starts), pad=self.pad, silent=(), least_tokens=least):
                inputs = {"input_ids": batch.ids}
                if self._takes_types and batch.types is not None:
                    inputs["token_type_ids"] = batch.types
                if not batch.real.all():
                    inputs["attention_mask"] = batch.real.astype(np.int64)
                given = {name: torch.from_numpy(array).to(self.device) for name, array in inputs.items()}
                logits = self._logits(given)
                last = logits[:, -1]
                block[torch.from_numpy(batch.texts)] = (last - logits[:, 0]) * self._sign if logits.shape[1] > 1 else last
        return ScoredPairs(scores.cpu().numpy(), cut)

    def _logits(self, given: dict[str, Tensor]) -> Tensor:
        """Return the logits (n, labels) of a batch, float32. Raises LexbenchError if the model cannot compute it."""
        try:
            logits: Tensor = self.body(**given).logits.float()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # of any model of transformers, e.g. one without a second token type
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise LexbenchError(f"{self.name}: the model cannot score a pair ({reason}); take another reranker") from error
        return logits

    def _tokenised(self, cutter: Tokenizer, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[int, Tokens]]:
        """Yield the first pair of each block, and the tokens of the block; those of the next one are made while a GPU works."""
        blocks = [pairs[start : start + _PAIRS] for start in range(0, len(pairs), _PAIRS)]
        if self.device.type != "cuda":
            yield from ((number * _PAIRS, tokenise(cutter, block, types=True)) for number, block in enumerate(blocks))
            return
        with ThreadPoolExecutor(1) as tokeniser:
            coming = [tokeniser.submit(tokenise, cutter, block, types=True) for block in blocks[:1]]
            for number in range(len(blocks)):
                coming += [tokeniser.submit(tokenise, cutter, block, types=True) for block in blocks[number + 1 : number + 2]]
                yield number * _PAIRS, coming.pop(0).result()
