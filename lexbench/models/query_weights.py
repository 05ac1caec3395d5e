"""Tables of query weights for models without inference for queries: the weight of a query token is looked up.

There are two layouts. A SparseEncoder of sentence-transformers has a Router, whose route "query" is one SparseStaticEmbedding
with a tensor `weight` (vocabulary,). The document models of OpenSearch are plain folders with `idf.json`, {"token": weight}.
Used by the encoder `inference_free`. Loads no torch.
"""

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.models.checkpoint import IDF, MODULES, VOCABULARY, read_json, routes

if TYPE_CHECKING:
    from tokenizers import Tokenizer

STATIC = "SparseStaticEmbedding"


def table_file(folder: Path) -> Path:
    """Return the file of query weights in a model's *folder*.

    Raises MissingData if it has none, CommandError if its queries go through something else than a table.
    """
    found = routes(folder) if (folder / MODULES).is_file() else None
    if found is None:
        if (folder / IDF).is_file():
            return folder / IDF
        raise MissingData(
            f"{folder}: it has no weights for queries (a Router's {STATIC}, or {IDF}); give "
            'query_weights="FILE" with {"token": weight}'
        )
    kinds = [module.kind for module in found.query]
    if kinds != [STATIC]:
        raise CommandError(f"{folder}: its queries go through {' and '.join(kinds)}; lexbench looks them up in one {STATIC}")
    place = folder / found.query[0].subfolder
    named = read_json(place / "config.json").get("path")  # set if the module was made from a file
    return place / Path(str(named)).name if named else place / "model.safetensors"


def tokenizer_file(folder: Path) -> Path:
    """Return the file of the tokenizer of queries: that of the route "query" if there is one, else the model's."""
    found = routes(folder) if (folder / MODULES).is_file() else None
    places = [*(folder / module.subfolder for route in (found or ()) for module in route), folder]
    path = next((place / name for place in places for name in VOCABULARY if (place / name).is_file()), None)
    if path is None:
        raise MissingData(f"{folder}: no tokenizer for queries ({', '.join(VOCABULARY)}); copy it from the model's source")
    return path


def load_tokenizer(path: Path) -> "Tokenizer":
    """Return the tokenizer in a file, without padding and truncation. Only tokenizer.json loads without transformers."""
    from tokenizers import Tokenizer

    if path.name == "tokenizer.json":
        tokenizer = Tokenizer.from_file(str(path))
    else:
        from lexbench.models.loading import load_encoding_tokenizer

        tokenizer = Tokenizer.from_str(load_encoding_tokenizer(path.parent).backend_tokenizer.to_str())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def read_table(path: Path, tokenizer: Path) -> NDArray[np.float32]:
    """Return the weight of each token (vocabulary,), in the order of token ids; tokens missing in a JSON file have 0.

    Raises MissingData if there is no file, InvalidFile if it is no table of weights from 0 up.
    """
    if not path.is_file():
        raise MissingData(f"{path}: there is no such file of weights for queries")
    return _read(path, tokenizer, (path.stat().st_mtime_ns, tokenizer.stat().st_mtime_ns))


@lru_cache(maxsize=4)
def _read(path: Path, tokenizer: Path, _modified: tuple[int, int]) -> NDArray[np.float32]:
    weights = _from_tensor(path) if path.suffix == ".safetensors" else _from_json(path, tokenizer)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise InvalidFile(f"{path}: a weight of a token is negative or no number")
    return weights


def _from_tensor(path: Path) -> NDArray[np.float32]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise InvalidFile(f"{path}: does not read as safetensors ({error})") from error
    weight = next((tensor for name, tensor in tensors.items() if name.rpartition(".")[2] == "weight"), None)
    if weight is None or weight.ndim != 1:
        shapes = ", ".join(f"{name} {tensor.shape}" for name, tensor in tensors.items())
        raise InvalidFile(f"{path}: weights for queries are a tensor `weight` (vocabulary,), and here is {shapes or 'nothing'}")
    return weight.astype(np.float32)


def _from_json(path: Path, tokenizer: Path) -> NDArray[np.float32]:
    vocabulary = load_tokenizer(tokenizer).get_vocab(with_added_tokens=True)
    try:
        pairs = [(token, float(weight)) for token, weight in json.loads(path.read_bytes()).items()]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidFile(f'{path}: it is no table {{"token": weight}} ({error})') from None
    known = [(vocabulary[token], weight) for token, weight in pairs if token in vocabulary]
    if not known:
        raise InvalidFile(f"{path}: none of its {len(pairs)} tokens is in the model's vocabulary; it is of another tokenizer")
    weights = np.zeros(max(vocabulary.values()) + 1, np.float32)
    weights[[number for number, _ in known]] = [weight for _, weight in known]
    return weights
