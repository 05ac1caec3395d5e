"""Models without inference for queries: their tokens are looked up in a table of weights, and only documents need the model.

There are two layouts. A SparseEncoder of sentence-transformers is one Router: `router_config.json` lists the modules of the
route "query", here one SparseStaticEmbedding with its tensor `weight` (vocabulary,), and those of the route "document". The
document models of OpenSearch are plain folders of a masked-language model with `idf.json`, {"token": weight}. Loads no torch.
"""

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.checkpoints.files import MODULES, VOCABULARY, Module, modules, of_folder, read_json
from lexbench.errors import CommandError, InvalidFile, MissingData

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ROUTER = "router_config.json"
IDF = "idf.json"
STATIC = "SparseStaticEmbedding"


class Routes(NamedTuple):
    """The modules that queries and documents go through."""

    query: list[Module]
    document: list[Module]


@of_folder
def routes(folder: Path) -> Routes | None:
    """Return the routes of a *folder* whose model is one Router, None for any other; CommandError for other routes."""
    listed = modules(folder)
    if [module.kind for module in listed] != ["Router"]:
        return None
    place = listed[0].subfolder
    config = read_json(folder / place / ROUTER)
    structure, types = config["structure"], config["types"]
    if not {"query", "document"} <= set(structure):
        raise CommandError(f"{folder}: its Router has the routes {', '.join(structure)}; lexbench takes query and document")

    def route(name: str) -> list[Module]:
        return [Module(str(types[key]).rpartition(".")[2], f"{place}/{key}".lstrip("/")) for key in structure[name]]

    return Routes(route("query"), route("document"))


def table_file(folder: Path) -> Path:
    """Return the file of the weights of queries in a model's *folder*.

    MissingData where it has none, CommandError where its queries go through something else.
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
    named = read_json(place / "config.json").get("path")  # a module that was made of a file of its own
    return place / Path(str(named)).name if named else place / "model.safetensors"


def tokenizer_file(folder: Path) -> Path:
    """Return the file of the tokenizer of queries: that of the route "query", or of the model."""
    found = routes(folder) if (folder / MODULES).is_file() else None
    places = [*(folder / module.subfolder for route in (found or ()) for module in route), folder]
    path = next((place / name for place in places for name in VOCABULARY if (place / name).is_file()), None)
    if path is None:
        raise MissingData(f"{folder}: no tokenizer for queries ({', '.join(VOCABULARY)}); copy it from the model's source")
    return path


def load_tokenizer(path: Path) -> "Tokenizer":
    """Return the tokenizer of a file, which neither pads nor cuts; one without tokenizer.json needs transformers."""
    from tokenizers import Tokenizer

    if path.name == "tokenizer.json":
        tokenizer = Tokenizer.from_file(str(path))
    else:
        from lexbench.checkpoints.pretrained import load_encoding_tokenizer

        tokenizer = Tokenizer.from_str(load_encoding_tokenizer(path.parent).backend_tokenizer.to_str())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@lru_cache(maxsize=4)
def _read(path: Path, tokenizer: Path, _modified: tuple[int, int]) -> NDArray[np.float32]:
    vocabulary = load_tokenizer(tokenizer).get_vocab(with_added_tokens=True)
    size = max(vocabulary.values()) + 1
    weights = _of_tensor(path) if path.suffix == ".safetensors" else _of_json(path, vocabulary, size)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise InvalidFile(f"{path}: a weight of a token is negative or no number")
    return weights


def read_table(path: Path, tokenizer: Path) -> NDArray[np.float32]:
    """Return the weight of each token (vocabulary,) by its number; tokens that a JSON file leaves out have 0.

    InvalidFile for what is no table of weights from 0 up.
    """
    if not path.is_file():
        raise MissingData(f"{path}: there is no such file of weights for queries")
    return _read(path, tokenizer, (path.stat().st_mtime_ns, tokenizer.stat().st_mtime_ns))


def _of_tensor(path: Path) -> NDArray[np.float32]:
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


def _of_json(path: Path, vocabulary: dict[str, int], size: int) -> NDArray[np.float32]:
    try:
        table = json.loads(path.read_bytes())
        pairs = [(token, float(weight)) for token, weight in table.items()]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidFile(f'{path}: it is no table {{"token": weight}} ({error})') from None
    weights = np.zeros(size, np.float32)
    known = [(vocabulary[token], weight) for token, weight in pairs if token in vocabulary]
    if not known:
        raise InvalidFile(f"{path}: none of its {len(pairs)} tokens is in the model's vocabulary; it is of another tokenizer")
    weights[[number for number, _ in known]] = [weight for _, weight in known]
    return weights
