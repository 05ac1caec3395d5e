"""ir_metadata: what a run file is of, in YAML beside it (TIREx: `run.txt` and `ir-metadata.yml` in one folder).

The specification's own place is a comment at the head of the run (`# ir_metadata.start` ... `# ir_metadata.end`). That is
read and not written: pytrec_eval, ir_measures and ranx fail on `#` lines. Fields: ir_metadata 0.2, which is 0.1
(https://www.ir-metadata.org) with what TIREx's tracker adds of machine and time (its "IR Metadata Extension"). What is read
is kept as it is, of either version.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lexbench.errors import InvalidFile
from lexbench.interop.formats import RUN_NOT_KEPT, Export, Import, Target, run_of
from lexbench.results import Result
from lexbench.storage import atomic
from lexbench.storage.reading import lines
from lexbench.storage.stopwatch import Measurement

if TYPE_CHECKING:
    from lexbench.analysis.stored_results import StoredResult
    from lexbench.trec.runs import Run

RUN, METADATA = "run.txt", "ir-metadata.yml"
SCHEMA = {"schema version": 0.2}  # as the tracker writes it
_START, _END = "ir_metadata.start", "ir_metadata.end"


def write(run: "Run", result: Result, folder: Path) -> Iterator[Path]:
    """Write a run and its metadata into *folder*, yielding both paths."""
    from lexbench.trec.runs import write_run

    folder.mkdir(parents=True, exist_ok=True)
    write_run(run, folder / RUN)
    yield folder / RUN
    write_metadata(metadata(result), folder / METADATA)
    yield folder / METADATA


def metadata(result: Result) -> dict[str, Any]:
    """Return what is known of a run, in the fields of the specification; who made it is the user's to add."""
    measured = result.measured
    machine = machine_fields(measured.machine, measured.versions)
    typed = f"{result.system} = {result.notation}" if result.notation else result.system
    command = ["lexbench", "run", "dataset", result.dataset, "-r", typed]
    fields: dict[str, Any] = _filled(
        {
            **SCHEMA,
            "tag": "lexbench",
            **machine,
            "research goal": {"evaluation": {"reported measures": list(result.means)}},
            "implementation": {
                **machine.get("implementation", {}),
                "executable": {"cmd": command},
                "source": {"lang": ["python"]},
            },
            "resources": {"runtime": _runtime(measured)},
            "method": {
                "automatic": True,
                "score ties": "document id in byte order, descending, as trec_eval; written scores have none",
                "retrieval": [{"name": result.system, "method": str(result.recipe.get("plugin", "")).rpartition("/")[2]}],
            },
            "data": {
                "test collection": {
                    "name": result.dataset,
                    "contract": result.contract,
                    **{f"{what} sha256": digest for what, digest in sorted(result.digests.items())},
                }
            },
        }
    )
    return fields


def machine_fields(machine: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields `platform` and `implementation` of the facts of a *machine* and *versions* of packages.

    What is not known is left out.
    """
    system, _, architecture = machine.get("system", "").partition(" ")
    cores, gibibytes = (int(machine.get(name) or 0) for name in ("cores", "memory_gib"))
    cpu = {"model": machine.get("processor"), "architecture": architecture, "number of cores": cores or None}
    packages = [f"{name}=={number}" for name, number in versions.items()]
    fields: dict[str, Any] = _filled(
        {
            "platform": {
                "hardware": {"cpu": cpu, "ram": f"{gibibytes * 1024} MB" if gibibytes else None},
                "operating system": {"kernel": system},
                "software": {"python": machine.get("python")},
            },
            "implementation": {"python": {"packages": packages}},
        }
    )
    return fields


def _runtime(measured: Measurement) -> dict[str, str]:
    """Return when the run began and what its stages took; no duration where one of them was done by an earlier process."""
    whole = sum(measured.seconds.values())
    took = {} if measured.resumed or not whole else {"wallclock": f"{whole * 1000:.0f} ms"}
    return ({"start time": measured.started} if measured.started else {}) | took


def _filled(value: Any) -> Any:
    """Return *value* without what is empty: a field that stands there says something."""
    if isinstance(value, dict):
        fields = ((name, _filled(field)) for name, field in value.items())
        return {name: field for name, field in fields if field not in (None, "", [], {})}
    return [_filled(item) for item in value] if isinstance(value, list) else value


def write_metadata(fields: dict[str, Any], path: Path) -> None:
    """Write metadata as YAML."""
    atomic.write_bytes(path, msgspec.yaml.encode(fields))


def read_run(path: Path) -> "Run":
    """Read the run of a folder of a run and its metadata, or a run file; InvalidFile where it does not read."""
    from lexbench.trec import runs

    return runs.read_run(path / RUN if path.is_dir() else path)


def read_metadata(path: Path) -> dict[str, Any]:
    """Read the metadata in a folder beside a run, or in the head of a run file; InvalidFile where there are none."""
    source = path / METADATA if path.is_dir() else path
    text = b"".join(line + b"\n" for _, line in lines(source)) if path.is_dir() else _head(path)
    try:
        return msgspec.yaml.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidFile(f"{source}: its metadata do not read: {error}") from None


def _head(path: Path) -> bytes:
    """Return the YAML in the comment at the head of a run file."""
    inside = False
    head: list[bytes] = []
    for _, line in lines(path):
        if not line.startswith(b"#"):
            break
        text = line[1:].removeprefix(b" ")
        if text.strip() == _END.encode():
            return b"\n".join(head)
        if inside:
            head.append(text)
        inside = inside or text.strip() == _START.encode()
    raise InvalidFile(f"{path}: it does not begin with `# {_START}` ... `# {_END}`; a run without metadata is imported as trec")


def _export(results: "Sequence[StoredResult]", target: Target) -> Iterator[Path]:
    yield from write(run_of(results[0]), results[0].result, target.path)


def _copy_metadata(source: Path, target: Path) -> None:
    write_metadata(read_metadata(source), target.with_name(f"{target.name}.{METADATA}"))


_LOST = "equal scores, as in trec; the value of every query, sizes, notes"
_NOT_KEPT = f"{RUN_NOT_KEPT}; the metadata are kept beside the run"
EXPORTS = (Export("ir-metadata", "the run, and its metadata beside it", _LOST, _export),)
IMPORTS = (Import("ir-metadata", "a run with metadata, in its head or beside it", _NOT_KEPT, read_run, _copy_metadata),)
