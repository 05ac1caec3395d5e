"""Learned sparse vectors of documents, and queries without a model: a table has the weight of each query token.

"Inference-free" SPLADE (Geng et al. 2024, arXiv 2411.04403; the document models of OpenSearch, and sentence-transformers'
Router with a SparseStaticEmbedding): a query's vector has the weight of each of its tokens once. Encoding a query is only
tokenising it and looking up weights. Documents are encoded as by `sparse_mlm`.

A folder of LexMAE may also have query_expansions.json, {"token": {"term": factor}}: each token of a query adds these terms,
with its own weight times the factor. The weights of a term are added up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file
from scipy import sparse

from lexbench.arrays.vectors import canonical, csr_of
from lexbench.encoders._looked_up import looked_up
from lexbench.encoders.sparse_mlm import SparseMLM
from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.models.architectures import masked_lm_files
from lexbench.models.checkpoint import IDF, QUERY_EXPANSIONS, VOCABULARY, CheckpointFiles, fetch, routes
from lexbench.models.stated_modules import Keys
from lexbench.models.stated_settings import TEXT_HEAD_FILE
from lexbench.models.token_batches import cutter
from lexbench.models.wordpiece import WordPiece, read_wordpiece
from lexbench.registry import runtime
from lexbench.storage.reading import cached_file_digest

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True)
class InferenceFree(SparseMLM):
    """The settings of `SparseMLM`, and *query_weights*: a JSON file {"token": weight} that replaces the table in the folder.

    Special tokens are not added to queries. A repeated token counts once. Without *query_expansion* tokens add no other terms.
    """

    query_weights: str | None = runtime(None)  # its digest is in `identity`

    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        super().__post_init__()
        if self.query_model:
            raise CommandError(
                'inference_free(query_model=…): no model encodes queries; type sparse_mlm, or query_weights="FILE"'
            )
        if self.means:
            raise CommandError("inference_free(means=True): no model encodes queries, so they have no means; type sparse_mlm")

    @classmethod
    def checkpoint_files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of the model of documents, and the settings that the folder states."""
        return masked_lm_files(folder, documents_only=True)

    @classmethod
    def checkpoint_defaults(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that the checkpoint states. Raises MissingData if there is no table of query weights."""
        stated = super().checkpoint_defaults(settings)
        if not settings.get("query_weights"):
            _table_file(fetch(str(settings["model"]), settings.get("revision")))
        return stated

    def identity(self) -> dict[str, Any]:
        """Return the digests of the documents' model, and of the table and tokenizer of queries."""
        table, tokenizer = self._files()
        files = {"query_weights": table, "query_tokenizer": tokenizer, "query_expansions": self._expansions_file()}
        config = tokenizer.with_name("tokenizer_config.json")
        if tokenizer.parent != fetch(self.model, self.revision) and config.is_file():  # in a route; else it is in `model`
            files["query_tokenizer_config"] = config
        return self.index_identity() | {name: cached_file_digest(path) for name, path in files.items() if path}

    def notes(self) -> list[str]:
        """Return the notes of `Transformer`, and one that no model runs for queries."""
        known, adding = np.count_nonzero(self._lookup[1]), np.count_nonzero(np.diff(self._expansions.indptr) > 1)
        found = f"queries are looked up in a table of {known:,} weighted tokens; no model runs for them"
        if self._expansions_file():
            found += f"; {adding:,} tokens add other terms"
        unused = "; so they have no terms of the text head" if self.query_text_terms else ""
        return [*super().notes(), found + unused]

    def encode_query(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the vectors (texts, terms) of queries: the weight of each of their tokens, once. No text term has a weight."""
        tokenizer, weights, width = self._lookup
        prompted = [self.asked_prompt + text for text in texts]
        tokens = [encoding.ids for encoding in tokenizer.encode_batch_fast(prompted, add_special_tokens=False)]
        ids = np.fromiter(chain.from_iterable(tokens), np.int64)
        ends = np.fromiter(accumulate(map(len, tokens)), np.int64, len(tokens))
        added = self._expansions
        values, terms, offsets = looked_up(ids, ends, weights, added.indptr, added.indices, added.data)
        return self._finished(csr_of(values, terms, offsets, width), self.query_terms)

    def _vocabulary(self) -> int:
        """Return the number of terms of a document's vector: the vocabulary, and the terms of the text head if there is one."""
        files = self.checkpoint_files(fetch(self.model, self.revision))
        head = next((path for path in files.heads if path.name == TEXT_HEAD_FILE), None)
        return int(files.config["vocab_size"]) + (_tensor_length(head, "bias") if head else 0)

    def _files(self) -> tuple[Path, Path]:
        """Return the files of the table and of the tokenizer of queries."""
        folder = fetch(self.model, self.revision)
        table = Path(self.query_weights).expanduser() if self.query_weights else _table_file(folder)
        if not table.is_file():
            raise MissingData(f"{table}: there is no such file of weights for queries")
        return table, tokenizer_file(folder)

    @cached_property
    def _lookup(self) -> "tuple[Tokenizer, NDArray[np.float32], int]":
        """The tokenizer of queries, the weight of each token, and the width of vectors. Reading files would cost each query."""
        table, path = self._files()
        tokenizer, weights = load_tokenizer(path), _read_table(table, path)
        tokens = max(tokenizer.get_vocab().values()) + 1
        if tokens > len(weights):
            raise InvalidFile(
                f"{table}: weights of {len(weights):,} tokens, and {path} has {tokens:,}; give the table of this tokenizer"
            )
        return cutter(tokenizer, self.query_length), weights, max(len(weights), self._vocabulary())

    def _expansions_file(self) -> Path | None:
        """Return the file of the terms that tokens add, None if there is none or no *query_expansion*."""
        path = fetch(self.model, self.revision) / QUERY_EXPANSIONS
        return path if self.query_expansion and path.is_file() else None

    @cached_property
    def _expansions(self) -> sparse.csr_array:
        """Rows of query tokens (terms, terms): 1 for the token itself, and the factor of each term that it adds."""
        path, (tokenizer, _, width) = self._expansions_file(), self._lookup
        itself = sparse.eye_array(width, dtype=np.float32, format="csr")
        return canonical(_read_expansions(path, tokenizer, width) + itself) if path else itself


# ---- tables of query weights ----------------------------------------------------------------------------------------------
# There are two layouts. A SparseEncoder of sentence-transformers has a Router, whose route "query" is one SparseStaticEmbedding
# with a tensor `weight` (vocabulary,). The document models of OpenSearch are plain folders with `idf.json`, {"token": weight}.

_STATIC = "SparseStaticEmbedding"


def _table_file(folder: Path) -> Path:
    """Return the file of query weights in a model's *folder*.

    Raises MissingData if it has none, CommandError if its queries go through something else than a table.
    """
    found = routes(folder)
    if found is None:
        if (folder / IDF).is_file():
            return folder / IDF
        raise MissingData(
            f"{folder}: it has no weights for queries (a Router's {_STATIC}, or {IDF}); give "
            'query_weights="FILE" with {"token": weight}'
        )
    kinds = [module.kind for module in found.query]
    if kinds != [_STATIC]:
        raise CommandError(
            f"{folder}: its queries go through {' and '.join(kinds)}; lexbench looks them up in one {_STATIC}; "
            "give the object: lexbench.run(data, [SparseEncoder(FOLDER)])"
        )
    place = folder / found.query[0].subfolder
    keys = Keys(place / "config.json")
    named = keys.take("path")  # set if the module was made from a file
    keys.end("frozen")
    return place / Path(str(named)).name if named else place / "model.safetensors"


def tokenizer_file(folder: Path) -> Path:
    """Return the file of the tokenizer of queries: from the route "query" if there is one, else from the model."""
    places = [*(folder / module.subfolder for route in (routes(folder) or ()) for module in route), folder]
    path = next((place / name for place in places for name in VOCABULARY if (place / name).is_file()), None)
    if path is None:
        raise MissingData(f"{folder}: no tokenizer for queries ({', '.join(VOCABULARY)}); copy it from the model's source")
    return path


def load_tokenizer(path: Path) -> "PreTrainedTokenizerFast | WordPiece":
    """Return the tokenizer that transformers makes of a file and the settings beside it."""
    if (usual := read_wordpiece(path.parent)) is not None:
        return usual
    from lexbench.models import loading

    return loading.load_tokenizer(path.parent)


def _read_table(path: Path, tokenizer: Path) -> NDArray[np.float32]:
    """Return the weight of each token (vocabulary,), in the order of token ids; tokens missing in a JSON file have 0.

    Raises InvalidFile if it is no table of weights from 0 up.
    """
    weights = _from_tensor(path) if path.suffix == ".safetensors" else _from_json(path, tokenizer)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise InvalidFile(f"{path}: a weight of a token is negative or no number")
    return weights


def _from_tensor(path: Path) -> NDArray[np.float32]:
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise InvalidFile(f"{path}: not a valid safetensors file ({error})") from error
    if list(tensors) != ["weight"] or tensors["weight"].ndim != 1:
        shapes = ", ".join(f"{name} {tensor.shape}" for name, tensor in tensors.items())
        raise InvalidFile(
            f"{path}: weights for queries are one tensor `weight` (vocabulary,), and here is {shapes or 'nothing'}"
        )
    return tensors["weight"].astype(np.float32)


def _tensor_length(path: Path, name: str) -> int:
    """Return the length of the tensor *name* (n,) in a safetensors file, of which only the header is read."""
    try:
        with safe_open(path, framework="numpy") as file:
            return int(file.get_slice(name).get_shape()[0])
    except (SafetensorError, OSError, IndexError) as error:
        raise InvalidFile(f"{path}: not a valid text head ({error})") from error


def _from_json(path: Path, tokenizer: Path) -> NDArray[np.float32]:
    vocabulary = load_tokenizer(tokenizer).get_vocab()
    try:
        table = msgspec.json.decode(path.read_bytes(), type=dict[str, float])
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidFile(f'{path}: it is no table {{"token": weight}} ({error})') from None
    known = [(vocabulary[token], weight) for token, weight in table.items() if token in vocabulary]
    if not known:
        raise InvalidFile(f"{path}: none of its {len(table)} tokens is in the vocabulary; give a table for this tokenizer")
    weights = np.zeros(max(vocabulary.values()) + 1, np.float32)
    weights[[number for number, _ in known]] = [weight for _, weight in known]
    return weights


def _read_expansions(path: Path, tokenizer: "Tokenizer", width: int) -> sparse.csr_array:
    """Return the matrix (*width*, *width*) of a file {"token": {"term": factor}}.

    Raises InvalidFile if it is no such table, or has a token that the tokenizer lacks.
    """
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    try:
        table = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, float]])
        rows = [(vocabulary[token], vocabulary[term], value) for token, added in table.items() for term, value in added.items()]
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidFile(f'{path}: it is no table {{"token": {{"term": factor}}}} ({error})') from None
    except KeyError as error:
        raise InvalidFile(f"{path}: the token {error} is not in the vocabulary; give a table for this tokenizer") from None
    factors = np.array([value for _, _, value in rows], np.float32)
    if not (np.isfinite(factors).all() and (factors >= 0).all()):
        raise InvalidFile(f"{path}: a factor of a term is negative or no number")
    places = np.array([row[:2] for row in rows], np.int64).reshape(-1, 2).T
    return sparse.csr_array((factors, (places[0], places[1])), shape=(width, width))
