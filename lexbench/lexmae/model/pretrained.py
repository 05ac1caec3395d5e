"""Models that a recipe names, to begin with or to learn from: folders, or names on the hub. No code of a model is run."""

from pathlib import Path
from typing import Any

from transformers import AutoConfig

from lexbench.checkpoints import files
from lexbench.checkpoints.hub import fetch
from lexbench.checkpoints.pretrained import first_line
from lexbench.checkpoints.pretrained import load_model as model
from lexbench.checkpoints.pretrained import load_tokenizer as tokenizer
from lexbench.errors import InvalidFile, MissingData

__all__ = ["config", "find", "model", "modules", "tokenizer", "transformer"]


def find(model: str, revision: str | None = None) -> Path:
    """Return the folder of *model*, downloaded if need be; errors as of `lexbench.checkpoints.hub.fetch`."""
    folder = fetch(model, revision)
    if not any((folder / name).is_file() for name in ("config.json", files.MODULES)):
        raise MissingData(f"{folder}: no config.json, so this is no model; give the folder that save_pretrained wrote")
    return folder


def modules(folder: Path) -> list[tuple[str, Path]]:
    """Return class name and folder of each module of a sentence-transformers model; none where it is a plain model."""
    return [(kind, folder / path) for kind, path in files.modules(folder)]


def transformer(folder: Path) -> Path:
    """Return where in *folder* the model of transformers is: *folder* itself, or the first of its modules."""
    return next((path for _, path in modules(folder)), folder)


def config(folder: Path) -> Any:
    """Return the configuration in *folder*; InvalidFile where it does not read."""
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # whatever a setting that does not fit the others leads to
        remedy = "take the model from its source again"
        raise InvalidFile(f"{folder / 'config.json'}: does not read ({first_line(error)}); {remedy}") from error
