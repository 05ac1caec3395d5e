"""The folder of a trained model: where it is, which of its files decide the vectors, and their digests.

A model is a folder, or a name on the Hugging Face hub that is downloaded once. The folder has a plain model of transformers,
the modules of sentence-transformers that `modules.json` lists, or a LoRA adapter (see `lora`). Every other module of this
package reads checkpoints through this one. Loads no torch.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from pathlib import Path, PurePosixPath
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec

from lexbench.errors import CannotStart, CommandError, InvalidFile, MissingData, require
from lexbench.storage.reading import cached_file_digest

P = ParamSpec("P")
R = TypeVar("R")

CONFIG = "config.json"
MODULES = "modules.json"
ABOUT = "config_sentence_transformers.json"  # e.g. prompts
TRANSFORMER = "sentence_bert_config.json"  # of a module Transformer, e.g. lengths
OLD_TRANSFORMER = tuple(  # its names in old folders, by the model's type
    f"sentence_{kind}_config.json" for kind in ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
ROUTER = "router_config.json"
IDF = "idf.json"  # weights of query tokens, in the document models of OpenSearch
QUERY_EXPANSIONS = "query_expansions.json"  # terms that query tokens add, see `inference_free`
PICKLED_WEIGHTS = "pytorch_model.bin"
WEIGHTS_INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
TOKENIZER = ("added_tokens.json", "merges.txt", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json")
VOCABULARY = ("tokenizer.json", "vocab.txt", "vocab.json")  # a tokenizer has one of these
SENTENCEPIECE = ("sentencepiece.bpe.model", "spiece.model", "tokenizer.model")  # or one of these, which transformers converts
WITH_WEIGHTS = ("Dense", "LayerNorm", "SparseAutoEncoder")  # kinds of modules behind the first that have weights
AGAIN = "take the file from the model's source again"
_PADDED_POSITIONS = ("roberta", "xlm-roberta", "camembert", "mpnet")  # they count positions from the id of [PAD] on
_COUNTED_POSITIONS = ("bert", "distilbert", "dpr", "electra", "ernie")  # padding in front of a text has positions, too
_POINTER = b"version https://git-lfs"  # how a file begins that Git LFS has not downloaded
_READ = f"(model.safetensors, {WEIGHTS_INDEX} or {PICKLED_WEIGHTS})"
_OBJECT = 'copy model.safetensors from the model\'s source, or give an object, e.g. SentenceTransformer(FOLDER, backend="%s")'
_SAVED = "copy model.safetensors from the model's source, or load the model and save it by save_pretrained"
_OTHER_WEIGHTS = {  # files of weights that lexbench does not read, and what to do
    ADAPTER_WEIGHTS: f"an adapter also has {ADAPTER}; copy it there",
    "*.safetensors": f"one file must be called model.safetensors, and several need {WEIGHTS_INDEX} from their source",
    "*.onnx": _OBJECT % "onnx",
    "onnx/*.onnx": _OBJECT % "onnx",
    "openvino/*.xml": _OBJECT % "openvino",
    **dict.fromkeys(("*model*.bin", "*model*.pt", "*.h5", "*.msgpack", "*.gguf", "*.ckpt*"), _SAVED),
}
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z")
_NOT_IN_VECTORS = ("_name_or_path", "transformers_version", "torch_dtype", "dtype")  # settings of config.json


class Adapter(NamedTuple):
    """A LoRA adapter: pairs of matrices B (out, rank) and A (rank, in), whose product is added to weights (out, in)."""

    weights: Path  # safetensors
    alpha: float  # the product is multiplied by alpha / rank
    by_root: bool  # rank-stabilised: by alpha / sqrt(rank) instead


@dataclass(frozen=True)
class CheckpointFiles:
    """The files of one checkpoint."""

    folder: Path  # of the transformers model: a subfolder if modules are listed, the base model if there is an adapter
    config: dict[str, Any]  # the content of config.json
    weights: Sequence[Path]  # safetensors, or one pytorch_model.bin
    tokenizer: Sequence[Path]
    defaults: dict[str, Any] = field(default_factory=dict)  # settings of the encoder that the folder states
    heads: Mapping[Path, str] = field(default_factory=dict)  # weights of modules behind the model, and the modules' subfolders
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of their tensors, as the modules state them
    adapter: Adapter | None = None

    @property
    def tokenizer_folder(self) -> Path:
        """The folder of the tokenizer; an adapter may bring its own."""
        return self.tokenizer[0].parent

    @property
    def longest(self) -> int | None:
        """How many tokens a text may have by config.json; None for any number, or if it states none."""
        return stated_longest(self.config)

    @property
    def all_weights(self) -> list[Path]:
        """The files of all weights, those of heads and of an adapter included."""
        return [*self.weights, *self.heads, *([self.adapter.weights] if self.adapter else [])]


class Module(NamedTuple):
    """A module of a sentence-transformers folder."""

    kind: str  # its class, e.g. "Transformer" or "Pooling"; with its module if that is code of the model's authors
    subfolder: str  # relative to the checkpoint's folder, "" for that itself


class Routes(NamedTuple):
    """The modules of a Router, by what goes through them."""

    query: list[Module]
    document: list[Module]


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class if it has none."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def longest_text(positions: int | None, model_type: str | None, pad: int) -> int | None:
    """Return how many tokens a model with so many *positions* takes; None for any number. *pad* is the id of its [PAD]."""
    if not positions or positions < 0:  # XLNet says -1
        return None
    return positions - pad - 1 if model_type in _PADDED_POSITIONS else positions


def stated_longest(config: Mapping[str, Any]) -> int | None:
    """Return how many tokens a text may have by a config.json; None for any number, or if it states none."""
    positions, pad = config.get("max_position_embeddings"), config.get("pad_token_id")
    known = type(positions) is int
    return longest_text(positions, config.get("model_type"), pad if type(pad) is int else 0) if known else None


def check_length(length: int, setting: str, model: str, longest: int | None) -> None:
    """Raise CommandError, which names the *setting*, if *length* is above *longest*, the tokens that *model* takes."""
    if longest is not None and length > longest:
        raise CommandError(f"{setting}={length}: {model} takes at most {longest} tokens; type {setting}={longest}")


# ---- JSON files ------------------------------------------------------------------------------------------------------------


def folder_reader(read: Callable[Concatenate[Path, P], R]) -> Callable[Concatenate[Path, P], R]:
    """Turn any parsing error of the decorated *read* into one InvalidFile that names the folder."""

    @wraps(read)
    def reading(folder: Path, /, *args: P.args, **settings: P.kwargs) -> R:
        try:
            return read(folder, *args, **settings)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise InvalidFile(f"{folder}: a file of settings makes no sense ({reason}); {AGAIN}") from error

    return reading


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Raises InvalidFile if it cannot be read or has something else in it."""
    value = _json_value(path)
    if not isinstance(value, dict):
        raise InvalidFile(f"{path}: expected a JSON object {{…}} of settings; {AGAIN}")
    return value


def optional_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, or {} if there is no file. Raises InvalidFile if it cannot be read."""
    return read_json(path) if path.is_file() else {}


def _json_value(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidFile(f"{path}: {error.strerror}; {AGAIN}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"{path}: not valid JSON ({error}); {AGAIN}") from error


# ---- modules of sentence-transformers --------------------------------------------------------------------------------------


def modules(folder: Path) -> list[Module]:
    """Return the modules that a sentence-transformers *folder* lists, in order; an empty list for a plain model.

    Raises InvalidFile if `modules.json` cannot be read or names a place outside the folder.
    """
    path = folder / MODULES
    if not path.is_file():
        return []
    try:
        listed = [Module(_class_name(entry["type"]), str(entry["path"])) for entry in _json_value(path)]
    except (TypeError, KeyError) as error:
        raise InvalidFile(f"{path}: it is no list of modules, each with `type` and `path`; {AGAIN}") from error
    listed = [module._replace(subfolder="" if module.subfolder == "." else module.subfolder) for module in listed]
    subfolders = [PurePosixPath(module.subfolder) for module in listed]
    if any(subfolder.is_absolute() or ".." in subfolder.parts for subfolder in subfolders):
        raise InvalidFile(f"{path}: a module lies outside the folder; {AGAIN}")
    return listed


def _class_name(named: Any) -> str:
    """Return the name of a module's class; with its Python module if that is not of sentence-transformers or PyLate."""
    name = str(named)
    known = name.partition(".")[0] in ("sentence_transformers", "pylate", name)
    return name.rpartition(".")[2] if known else name


@folder_reader
def routes(folder: Path) -> Routes | None:
    """Return the routes of a *folder* whose only module is a Router, None for any other folder.

    Raises CommandError if the Router lacks the route "query" or "document".
    """
    listed = modules(folder)
    if [module.kind for module in listed] != ["Router"]:
        return None
    place = listed[0].subfolder
    config = read_json(folder / place / ROUTER)
    structure, types = config["structure"], config["types"]
    if not {"query", "document"} <= set(structure):
        raise CommandError(f"{folder}: its Router has the routes {', '.join(structure)}; lexbench takes query and document")

    def route(name: str) -> list[Module]:
        return [Module(_class_name(types[key]), f"{place}/{key}".lstrip("/")) for key in structure[name]]

    return Routes(route("query"), route("document"))


@folder_reader
def module_kinds(folder: Path) -> list[str]:
    """Return the kinds of all modules of a sentence-transformers *folder*, those in the routes of a Router included."""
    listed = modules(folder)
    routers = (optional_json(folder / one.subfolder / ROUTER) for one in listed if one.kind == "Router")
    inside = (_class_name(kind) for config in routers for kind in config.get("types", {}).values())
    return [*(one.kind for one in listed), *inside]


@folder_reader
def transformer_folder(folder: Path) -> Path:
    """Return where the transformers model is: in *folder* itself, or in the folder of its first module."""
    return next((folder / module.subfolder for module in modules(folder)), folder)


@folder_reader
def prompts(folder: Path) -> dict[str, str]:
    """Return the prompts by name that a sentence-transformers *folder* puts before texts, {} for none."""
    return optional_json(folder / ABOUT).get("prompts") or {}


# ---- files of a model ------------------------------------------------------------------------------------------------------


@folder_reader
def transformer_files(folder: Path, model_types: Collection[str] | None = None) -> CheckpointFiles:
    """Return the files of the transformers model in *folder*.

    Raises MissingData if a file is missing, CommandError if *model_types* are given and the model is of none of them.
    """
    if not (folder / CONFIG).is_file():
        raise no_model(folder)
    config = read_json(folder / CONFIG)
    if model_types is not None and (model_type := config.get("model_type")) not in set(model_types):
        raise CommandError(f"{folder}: model_type {model_type!r} is not supported; there is: {', '.join(model_types)}")
    if quantised := config.get("quantization_config"):
        method = quantised.get("quant_method", "") if isinstance(quantised, dict) else ""
        raise CommandError(
            f"{folder}: config.json says that its weights are quantised (quantization_config {method}); take the model that is "
            "not quantised"
        )
    if not (tokenizer := tokenizer_files(folder)):
        names = ", ".join((*VOCABULARY, *SENTENCEPIECE))
        raise MissingData(f"{folder}: no tokenizer ({names}); copy its files from the model's source")
    check_padding(folder, config)
    return CheckpointFiles(folder, config, weight_files(folder), tokenizer)


def no_model(folder: Path) -> MissingData:
    """Return the error for a *folder* without the file that says what model it is."""
    if (folder / ADAPTER_WEIGHTS).is_file():
        return MissingData(f"{folder}: no {ADAPTER}, which {ADAPTER_WEIGHTS} needs; copy it from the adapter's source")
    return MissingData(f"{folder}: no {CONFIG}, so this is no model; give the folder that save_pretrained wrote")


class _Padding(msgspec.Struct):
    direction: str = "Right"


class _TokenizerFile(msgspec.Struct):
    padding: _Padding | None = None


@folder_reader
def check_padding(folder: Path, config: dict[str, Any]) -> None:
    """Raise CommandError if the tokenizer in *folder* pads on the left, and padding moves the positions of the model's texts.

    Raise it also if the tokenizer makes no mask of padding, which the model would then see.

    In transformers the vector of a text then depends on the longest text of its batch. The vectors of other models do not
    depend on padding, which lexbench puts on the right.
    """
    stated, tokenizer = optional_json(folder / "tokenizer_config.json"), folder / "tokenizer.json"
    if "attention_mask" not in (stated.get("model_input_names") or "attention_mask"):
        raise CommandError(
            f"{folder}: tokenizer_config.json has no attention_mask in its model_input_names, so that texts would see padding; "
            "add it for the vectors of each text alone"
        )
    if config.get("model_type") not in _COUNTED_POSITIONS:
        return
    side = stated.get("padding_side")
    if side is None and tokenizer.is_file():
        side = (msgspec.json.decode(tokenizer.read_bytes(), type=_TokenizerFile).padding or _Padding()).direction
    if str(side).lower() == "left":
        raise CommandError(
            f"{folder}: its tokenizer says padding_side=left, which moves the positions of a {config['model_type']}: vectors "
            "would depend on the other texts of a batch; say right in tokenizer_config.json for those of each text alone"
        )


def tokenizer_files(folder: Path) -> list[Path]:
    """Return the files of the tokenizer in *folder*; an empty list if there is no file with its tokens."""

    def there(*names: str) -> list[Path]:
        return [downloaded(folder / name) for name in sorted(names) if (folder / name).is_file()]

    tokens = there(*VOCABULARY) or there(*SENTENCEPIECE)
    return sorted({*tokens, *there(*TOKENIZER)}) if tokens else []


def downloaded(path: Path) -> Path:
    """Return *path*. Raises InvalidFile if Git LFS has not downloaded the file."""
    with path.open("rb") as file:
        if file.read(len(_POINTER)) == _POINTER:
            raise InvalidFile(f"{path}: Git LFS has not downloaded this file; type: git -C {path.parent} lfs pull")
    return path


@folder_reader
def weight_files(folder: Path) -> list[Path]:
    """Return the files of the weights in *folder*. Raises MissingData or InvalidFile if they are not complete."""
    if (whole := folder / "model.safetensors").is_file():
        return [downloaded(whole)]
    if (index := folder / WEIGHTS_INDEX).is_file():
        names = read_json(index).get("weight_map")
        if not isinstance(names, dict) or any(Path(str(name)).name != name for name in names.values()):
            raise InvalidFile(f"{index}: `weight_map` is no table of files beside it; {AGAIN}")
        shards = [folder / name for name in sorted(set(names.values()))]
        if missing := [shard.name for shard in shards if not shard.is_file()]:
            raise MissingData(f"{folder}: {missing[0]} is missing, one of {len(shards)} files of weights; copy it there")
        return [downloaded(shard) for shard in shards]
    if (pickled := folder / PICKLED_WEIGHTS).is_file():
        return [downloaded(pickled)]
    if link := next((path for path in (whole, index, pickled) if path.is_symlink()), None):
        raise MissingData(f"{link}: a link to a file that is gone; copy the file there, or download the model again")
    found = ((path, advice) for pattern, advice in _OTHER_WEIGHTS.items() for path in sorted(folder.glob(pattern)))
    if other := next(found, None):
        path, advice = other
        raise MissingData(f"{folder}: no weights that lexbench reads {_READ}, but {path.relative_to(folder)}; {advice}")
    raise MissingData(f"{folder}: no weights {_READ}; copy them from the model's source")


def digests(files: CheckpointFiles) -> dict[str, str]:
    """Return SHA-256 digests of everything that decides the vectors, in three parts: weights, tokenizer, config.

    They do not depend on where the files are. If the weights are one file, `weights` is its digest, as the hub shows it.
    """
    config = {key: value for key, value in files.config.items() if key not in _NOT_IN_VECTORS}
    weights = [cached_file_digest(path) for path in files.all_weights]
    added = {"adapter": [files.adapter.alpha, files.adapter.by_root]} if files.adapter else {}
    return {
        "weights": weights[0] if len(weights) == 1 else _json_digest(weights),
        "tokenizer": _json_digest({path.name: cached_file_digest(path) for path in files.tokenizer}),
        "config": _json_digest({"config": config, "defaults": files.defaults} | added),
    }


def _json_digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


# ---- the Hugging Face hub --------------------------------------------------------------------------------------------------

_SETTINGS = ("artifact.metadata", ADAPTER, CONFIG, MODULES, TRANSFORMER, *OLD_TRANSFORMER, ABOUT, ROUTER, IDF, QUERY_EXPANSIONS)
_SMALL = (*_SETTINGS, *TOKENIZER, *VOCABULARY, WEIGHTS_INDEX)
_PATTERNS = [pattern for name in dict.fromkeys(_SMALL) for pattern in (name, f"*/{name}")]
_SAFE = ("model.safetensors", "model-*.safetensors", ADAPTER_WEIGHTS)
_COPY = 'put a copy of the model into a folder and give model="FOLDER"'


def fetch(model: str, revision: str | None = None) -> Path:
    """Return the folder of *model*: that folder itself, or a copy of the hub's model, downloaded if needed.

    Raises MissingData if there is neither, CommandError for a file, or for a folder with a *revision*.
    """
    return _local(model, revision) or _snapshot(model, revision)


def fetch_model(model: str, revision: str | None = None) -> Path:
    """Return the folder of *model* like `fetch`. Also raises MissingData if there is no model in the folder."""
    return _with_model(fetch(model, revision))


def fetch_settings(model: str, revision: str | None = None) -> Path:
    """Return the folder of *model* like `fetch_model`, but of the hub's models fetch settings and tokenizers alone."""
    return _with_model(_local(model, revision) or _download(model, revision, _PATTERNS))


def _with_model(folder: Path) -> Path:
    if not any((folder / name).is_file() for name in (CONFIG, MODULES)):
        raise no_model(folder)
    return folder


def _local(model: str, revision: str | None) -> Path | None:
    """Return the folder *model*, or None if it is a name on the hub. Raises the errors of `fetch`."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise CommandError(f"revision={revision!r} is for models of the hub; {model} is a folder")
        return folder
    if folder.exists():
        is_archive = folder.suffix in _ARCHIVES
        raise CommandError(f"{model} is a file; {'unpack it, and ' if is_archive else ''}give the folder that it is in")
    if model.startswith(("/", ".", "~")) or model.count("/") > 1:
        raise MissingData(f"no folder {model}; {_COPY}")
    require(f"model {model!r}", ("huggingface_hub",), "neural")
    return None


@lru_cache  # once per process, so that two calls see the same revision
def _snapshot(model: str, revision: str | None) -> Path:
    """Download settings, tokenizers and weights of the hub's *model*; pickled weights only if there are no safetensors."""
    folder = _download(model, revision, _PATTERNS)
    routed = [module for route in (routes(folder) or ()) for module in route]
    first, *behind = routed or modules(folder) or [Module("", "")]

    def download(subfolder: str, *names: str) -> None:
        # The settings are requested again because the hub's client warns if no file matches.
        _download(model, folder.name, [(PurePosixPath(subfolder) / name).as_posix() for name in (CONFIG, ADAPTER, *names)])

    if not any((folder / first.subfolder / name).is_file() for name in VOCABULARY):
        download(first.subfolder, *SENTENCEPIECE)
    for module in (first, *(module for module in behind if module.kind in WITH_WEIGHTS or module in routed)):
        download(module.subfolder, *_SAFE)
        if not any((folder / module.subfolder).glob("*.safetensors")):
            download(module.subfolder, PICKLED_WEIGHTS)
    return folder


def _download(model: str, revision: str | None, patterns: list[str]) -> Path:
    """Download the files of the hub's *model* that match *patterns*; return their folder, whose name is the commit."""
    from huggingface_hub import errors, snapshot_download
    from tqdm.auto import tqdm  # a dependency of huggingface_hub

    class Bar(tqdm):  # type: ignore[type-arg] # generic in its stubs only
        """A progress bar for weights, on terminals only."""

        def __init__(self, *args: Any, **settings: Any) -> None:
            hidden = patterns is _PATTERNS or not sys.stderr.isatty()
            super().__init__(*args, **settings | {"disable": hidden or settings.get("disable")})

    named = model if revision is None else f"{model} at revision {revision}"
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=patterns, tqdm_class=Bar))
    except errors.HFValidationError as error:
        raise MissingData(f"no folder {model}, and the Hugging Face hub has no such names; {_COPY}") from error
    except errors.GatedRepoError as error:
        raise MissingData(f"{model}: accept its terms at https://huggingface.co/{model}, then type: hf auth login") from error
    except errors.RevisionNotFoundError as error:
        raise MissingData(f"{named}: the Hugging Face hub has no such revision; look at its branches and commits") from error
    except errors.RepositoryNotFoundError as error:
        raise MissingData(f"no folder {model}, and no model of that name on the Hugging Face hub; {_COPY}") from error
    except errors.LocalEntryNotFoundError as error:
        reason = first_line(error.__cause__ or error)
        raise MissingData(
            f"{named} is not on this machine, and the Hugging Face hub cannot be reached ({reason}); {_COPY}"
        ) from error
    except Exception as error:  # errors of the hub's client, its transport or the disk
        raise CannotStart(f"{named} cannot be downloaded ({first_line(error)}); {_COPY}") from error
