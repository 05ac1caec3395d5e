"""What indexes on servers share: those that engines make, and those that `lexbench probe` searches."""

import json
from collections.abc import Sequence
from pathlib import Path
from platform import node
from typing import Any
from urllib.parse import SplitResult

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.errors import CommandError, MissingData, echoed
from lexbench.storage.artifact_folder import digest

_SPACES = {  # the names of Qdrant, OpenSearch, Elasticsearch and Milvus
    "dot": ("dot", "innerproduct", "dot_product", "max_inner_product", "ip"),
    "cosine": ("cosine", "cosinesimil"),
    "l2": ("euclid", "l2", "l2_norm"),
}
SIMILARITIES = tuple(_SPACES)


def own_name(path: Path, separator: str = "-") -> str:
    """Return the name, on any server, of what is built for the index in the folder *path*: the same if it is built again."""
    return f"lexbench{separator}{digest([node(), str(path.resolve())])}"


def kept_name(path: Path, facts: str, field: str, separator: str = "-") -> str:
    """Return the name that the file *facts* of an index has in *field*; of an interrupted build, the one that it used."""
    file = path / facts
    return str(json.loads(file.read_bytes())[field]) if file.is_file() else own_name(path, separator)


def check_there(url: str, name: str, there: int, sent: int, path: Path) -> None:
    """Raise MissingData if the server at *url* has not all of what it was *sent* for the index *name* in the folder *path*."""
    if there != sent:
        raise MissingData(
            f"{url} has {there:,} of the {sent:,} documents of {name}: "
            f"remove {path.parent}, and the command that made it makes it again"
        )


def server_of(address: SplitResult) -> str:
    """Return the address of the server at e.g. qdrant://HOST:6333/COLLECTION, or qdrant+https://HOST/COLLECTION."""
    return f"{address.scheme.partition('+')[2] or 'http'}://{address.netloc}"


def similarity_called(name: str) -> str:
    """Return the one of SIMILARITIES that a server calls *name*. Raises CommandError for any other."""
    found = next((ours for ours, theirs in _SPACES.items() if name.lower() in theirs), None)
    if found is None:
        raise CommandError(f"the index compares vectors by {name!r}; lexbench knows: {', '.join(SIMILARITIES)}")
    return found


def is_sparse(vectors: Any) -> bool:
    """Return whether *vectors* are sparse."""
    return bool(sparse.issparse(vectors))


def csr_rows(rows: Sequence[tuple[NDArray[Any], NDArray[np.float32]]], width: int = 0) -> sparse.csr_array:
    """Return sparse vectors (n, *width*) from the terms and weights of each; without a width it is that of the highest term."""
    offsets = np.cumsum([0, *(len(terms) for terms, _ in rows)])
    terms = np.concatenate([np.zeros(0, np.int64), *(terms for terms, _ in rows)]).astype(np.int64)
    weights = np.concatenate([np.zeros(0, np.float32), *(weights for _, weights in rows)]).astype(np.float32)
    made = sparse.csr_array((weights, terms, offsets), shape=(len(rows), width or int(terms.max(initial=-1)) + 1))
    made.sort_indices()
    return made


def as_json(text: str) -> Any:
    """Return the JSON of a filter. Raises CommandError if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"filter {echoed(text)} is no JSON: {error}") from None


def repeated_note(repeated: int) -> list[str]:
    """Return a note about requests that were sent again, if there are any."""
    return (
        [f"{repeated:,} requests were sent again because the server was busy; their waits are in the times"] if repeated else []
    )
