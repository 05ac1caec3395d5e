"""Other tools' files become ours: runs and judgements as TREC files, which `lexbench score` takes; scores as published rows."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from shlex import quote

from lexbench.errors import CannotStart
from lexbench.interop import hub, ir_metadata, mteb, published, ranx
from lexbench.interop.published import Row
from lexbench.trec.qrels import Qrels, read_qrels, write_qrels
from lexbench.trec.runs import Run, read_run, write_run

_RUNS: Mapping[str, Callable[[Path], Run]] = {
    "trec": partial(read_run, layout="trec"),
    "msmarco": partial(read_run, layout="msmarco"),
    "scored": partial(read_run, layout="scored"),
    "ranx": ranx.read_run,
}
_QRELS: Mapping[str, Callable[[Path], Qrels]] = {"qrels": read_qrels, "ranx-qrels": ranx.read_qrels}
_ROWS: Mapping[str, Callable[[Path], Iterator[Row]]] = {
    "mteb": mteb.read,
    "model-index": hub.read_model_index,
    "eval-results": hub.read_eval_results,
}


def bring_in(layout: str, source: Path, target: Path) -> str:
    """Read *source*, a file or folder of the format *layout*, and write *target*; return what to type next, one line.

    A run becomes a TREC run, judgements TREC qrels, scores a TOML file in the form of suites/expected. InvalidFile where
    *source* does not read, CannotStart where it has no score of a dataset and measure that lexbench knows.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if layout in _ROWS:
        rows = list(_ROWS[layout](source))
        if not rows:
            raise CannotStart(f"{source}: no score of a dataset and measure that lexbench knows; see: lexbench list datasets")
        published.write(rows, target)
        return f"{len(rows)} published scores; as a file of suites/expected, `lexbench verify SUITE` compares with them"
    if layout in _QRELS:
        write_qrels(_QRELS[layout](source), target)
        return f"lexbench score RUN --qrels {quote(str(target))}"
    if layout == "ir-metadata":
        run, found = ir_metadata.read(source)
        beside = target.with_name(f"{target.name}.{ir_metadata.METADATA}")
        ir_metadata.write_metadata(found, beside)
    else:
        run = _RUNS[layout](source)
    write_run(run, target)
    system = quote(f"run_file(path={json.dumps(str(target), ensure_ascii=False)})")
    return f"lexbench score {quote(str(target))} --dataset ID; or as a system: -r {system}"
