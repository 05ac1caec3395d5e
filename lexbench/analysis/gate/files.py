"""The two files of a gate: lexbench-gate.toml has the gates, lexbench-gate.json their baselines. Users commit both."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from lexbench.errors import CannotStart, CommandError, InvalidFile
from lexbench.storage import atomic
from lexbench.storage.reading import Strict, decode_json, read_toml
from lexbench.suites import HEADLINE

COMMITS, CONFIDENCE, MARGIN = 100, 0.95, 0.02  # defaults
_HEAD = """\
# Retrieval tests; run them: lexbench gate
schema = 1
confidence = {confidence}  # no gate fails by chance in this share of histories of `commits` commits
commits = {commits}
"""
_TABLE = """
[[gate]]
name = {name}
dataset = {dataset}
system = {system}
measure = {measure}
margin = {margin}  # a smaller fall of the mean is tolerated
"""

_NESTED = 2  # levels: gates, fields of a baseline, queries

Share = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]


class Gate(Strict, frozen=True):
    """One retrieval test: a system on a dataset, with limits."""

    name: str
    dataset: str  # as `run dataset` takes it; folders are relative to the file
    system: str  # as -r takes it, or `module:function`
    columns: dict[str, str] = msgspec.field(default_factory=dict)  # of the tables in a folder
    measure: str = HEADLINE
    margin: Share = MARGIN
    depth: Annotated[int, msgspec.Meta(ge=1)] = 100
    max_index_bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    reference: str = ""  # the system whose speed is measured in the same run
    min_qps_ratio: Positive | None = None  # queries per second over those of the reference
    max_latency_ratio: Positive | None = None  # median latency over that of the reference

    def __post_init__(self) -> None:
        """Refuse speed limits without a reference, and a reference without limits; msgspec adds the place to the error."""
        if (self.min_qps_ratio is None and self.max_latency_ratio is None) == bool(self.reference):
            raise ValueError("`reference` and `min_qps_ratio` or `max_latency_ratio` belong together")


class GateFile(Strict, frozen=True):
    """The content of lexbench-gate.toml."""

    schema: Literal[1]
    gate: Annotated[tuple[Gate, ...], msgspec.Meta(min_length=1)]
    confidence: Share = CONFIDENCE
    commits: Annotated[int, msgspec.Meta(ge=1)] = COMMITS

    def __post_init__(self) -> None:
        """Refuse two gates with one name; msgspec adds the place to the error."""
        names = [gate.name for gate in self.gate]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two gates are called {twice[0]!r}")


class Baseline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The scores of a system that were accepted last."""

    dataset: str
    contract: str
    system: str
    system_sha256: str  # of everything that decides its answers; "" for an object, which another session cannot identify
    measure: str  # with the relevance threshold of the dataset
    depth: int
    digests: dict[str, str]  # of the corpus, the queries and the judgements
    lexbench: str  # version
    index_bytes: int | None
    values: dict[str, Annotated[float, msgspec.Meta(ge=0, le=1)]]  # by query id
    ranks: dict[str, dict[str, int]] = {}  # by query id: of the relevant documents among the first 20


def read_gates(path: Path) -> GateFile:
    """Read lexbench-gate.toml. Raises CannotStart if it is missing, InvalidFile if it is wrong."""
    if not path.is_file():
        raise CannotStart(f"there is no {path}; make it: lexbench gate init -d DATASET -r SYSTEM")
    return read_toml(path, GateFile)


def read_baselines(path: Path) -> dict[str, Baseline]:
    """Return the baselines of a file by gate, {} if the file is missing. Raises InvalidFile if it is malformed."""
    if not path.is_file():
        return {}
    try:
        found: dict[str, Baseline] = decode_json(path, dict[str, Baseline])
    except InvalidFile as error:
        raise InvalidFile(f"{error}; make it again: lexbench gate update") from None
    return found


def write_baselines(baselines: dict[str, Baseline], path: Path) -> None:
    """Write baselines atomically, one query per line, so that a commit shows which queries changed.

    Raises CommandError for a baseline that is 0 for all queries: no gate could find a fall from there.
    """
    for name, baseline in baselines.items():
        if not any(baseline.values.values()):
            raise CommandError(
                f"gate {name!r}: {baseline.measure} of {baseline.system} is 0 for all queries of {baseline.dataset}: that is "
                "no baseline, because nothing can fall from there"
            )
    rows: dict[str, Any] = {name: msgspec.to_builtins(baselines[name]) for name in sorted(baselines)}
    atomic.write_text(path, _json(rows) + "\n")


def _json(value: Any, indent: int = 0) -> str:
    """Return *value* as JSON with a line for each value down to the fields of a baseline, and below them one for each query."""
    if not isinstance(value, dict) or indent > _NESTED:
        return json.dumps(value, ensure_ascii=False)
    inside = ",\n".join(
        f"{' ' * (indent + 1)}{json.dumps(name, ensure_ascii=False)}: {_json(one, indent + 1)}" for name, one in value.items()
    )
    return f"{{\n{inside}\n{' ' * indent}}}" if value else "{}"


def add_gate(path: Path, gate: Gate) -> None:
    """Append a gate to lexbench-gate.toml, which is made if it is missing."""
    text = path.read_text(encoding="utf-8") if path.is_file() else _HEAD.format(confidence=CONFIDENCE, commits=COMMITS)
    quoted = {name: json.dumps(value, ensure_ascii=False) for name, value in msgspec.to_builtins(gate).items()}
    pairs = (f"{json.dumps(role)} = {json.dumps(name, ensure_ascii=False)}" for role, name in gate.columns.items())
    columns = f"columns = {{ {', '.join(pairs)} }}\n" if gate.columns else ""
    atomic.write_text(path, text + _TABLE.format(**quoted) + columns)
