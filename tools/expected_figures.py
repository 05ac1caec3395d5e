"""Write suites/expected/<suite>.toml: published figures that the catalogue does not have, for `lexbench verify`.

Run `python tools/expected_figures.py reference-results.json` after a change of the catalogue. The argument is a list of figures
as their sources print them: system, variant, dataset, measure, value, source, place. Figures on datasets without a contract,
and figures that the catalogue already has, are left out.
"""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lexbench import catalog
from lexbench.catalog import CatalogModel
from lexbench.contracts import all_contracts
from lexbench.errors import LexbenchError
from lexbench.storage import atomic

FOLDER = Path(__file__).parent.parent / "suites" / "expected"
_FILES: dict[str, tuple[str, ...]] = {  # prefixes of the dataset ids of a suite
    "beir": ("beir/",),
    "msmarco_doc": ("msmarco-document/dev",),
    "msmarco_passage": ("msmarco-passage/dev", "msmarco-passage-titled/dev"),
    "trec_dl": ("msmarco-passage/trec", "msmarco-passage-titled/trec", "msmarco-document/trec"),
}
_PAPER = "LexMAE paper"
_SYSTEMS = {  # name in the sources -> expression
    r"bm25-flat|flat|flat/bm25|bm25(-doc)?(-default)?(-slim)?|bm25/bm25-default": "bm25",
    r"bm25-tuned|bm25/bm25-tuned": "bm25(k1=0.82, b=0.68)",
    r"bm25-doc-tuned": "bm25(k1=4.46, b=0.82)",
    r"bm25-d2q-t5(-doc)?(-default)?|docTTTTTquery/bm25-default": 'bm25(expansions="FILE")',
    r"docTTTTTquery/bm25-tuned": 'bm25(expansions="FILE", k1=0.82, b=0.68)',
    r"bm25-d2q-t5-tuned|docTTTTTquery/bm25-tuned2": 'bm25(expansions="FILE", k1=2.18, b=0.86)',
    r"bm25-d2q-t5-doc-tuned": 'bm25(expansions="FILE", k1=4.68, b=0.87)',
    r"contriever": "contriever",
    r"contriever-msmarco": "contriever_msmarco",
    r"bge-base-en-v1\.5\.(faiss|lucene-flat|flat\.onnx|faiss-flat\.pytorch|parquet\.flat\.onnx/bge-flat-onnx)": "bge_base",
    r"splade-pp-ed(-onnx|-pytorch|\.onnx/splade-pp-ed-onnx)?|naver/splade-cocondenser-ensembledistil": "splade_pp_ed",
    r"splade-pp-sd(-onnx|-pytorch|\.onnx/splade-pp-sd-onnx)|naver/splade-cocondenser-selfdistil": "co_self_distil",
    r"splade-v3(-pytorch|\.onnx|\.onnx/splade-v3-onnx)|naver/splade-v3": "splade_v3",
    r"distill-splade-max\.cached/.*|naver/splade_v2_distil": "distilsplade_max",
    r"naver/splade_v2_max": "splade_max",
    r"naver/efficient-splade-V-large": "v_splade_large",
    r"naver/efficient-splade-VI-BT-large": "bt_splade_large",
    r"unicoil(-onnx|-pytorch|\.onnx|\.onnx/unicoil)": "unicoil",
    r"unicoil-noexp(-onnx|-pytorch|\.cached/unicoil-noexp-cached(_q)?)": "unicoil_noexp",
    r"ance-pytorch": "ance",
    r"distilbert-kd-tasb-pytorch": "tas_b",
    r"tct_colbert-v2-hnp-pytorch": "tct_colbert_v2_hnp",
    r"cosdpr-distil\.faiss-flat\.pytorch|cos-dpr-distil\.parquet\.flat\.onnx/.*": "cosdpr_distil",
    r"STAR": "star",
    r"ADORE\+STAR": "adore",
}
_TOP = re.compile(r"top-(\d+)")  # of the LexMAE paper's Table 4


class Record(NamedTuple):
    """One figure under lexbench's names."""

    called: str  # the name in its source
    system: str  # the expression; "" if there is none
    source: str
    dataset: str
    where: str
    measure: str
    value: float


def records(path: Path) -> Iterator[Record]:
    """Yield the figures in *path* that belong into the files."""
    models = [found for found in catalog.listing().values() if not isinstance(found, LexbenchError)]
    kept = {
        (_typed(model), figure.source, figure.dataset, figure.measure, figure.value)
        for model in models
        for figure in model.published
    }
    for raw in json.loads(path.read_bytes())["records"]:
        if raw["unit"] != "fraction" or raw["source"] == "derived":
            continue
        found = _record(raw, models)
        named = {found.system, *(_typed(model) for model in models if raw["system"] in (*model.named, model.name))}
        figure = found.source, found.dataset, found.measure, found.value
        if found.dataset in all_contracts() and kept.isdisjoint((system, *figure) for system in named):
            yield found


def _typed(model: CatalogModel) -> str:
    return model.system or model.name


def _record(raw: dict[str, Any], models: list[CatalogModel]) -> Record:
    name, variant = raw["system"], raw["variant"] or ""
    source = _PAPER if raw["source"] == "paper" else raw["source"]
    system = next((typed for pattern, typed in _SYSTEMS.items() if re.fullmatch(pattern, name)), "")
    named = next((model for model in models if name in model.named), None)
    if named and source in (_PAPER, "repo README") and not (system or variant):
        system = _typed(named)
    if name == "LexMAE" and (top := _TOP.fullmatch(variant)):
        system = f"lexmae|top_k({top[1]})"
    dataset = raw["dataset"]
    titled = dataset.replace("msmarco-passage/", "msmarco-passage-titled/")
    base = named or (catalog.model(system) if system in catalog.names() else None)
    if base and base.titles and titled in all_contracts():
        dataset = titled
    if source == _PAPER and name == "BM25" and dataset.startswith("beir/"):
        # These are Anserini's multifield figures, not the flat BM25 of lexbench. ArguAna's is older than BEIR's rule for it.
        name, system = "BM25 (multifield)", ""
    own = f" ({variant})" if variant and source in (_PAPER, "repo README") else ""
    return Record(f"{name}{own}", system, source, dataset, raw["where"], raw["metric"], raw["value"])


def text(found: list[Record]) -> str:
    """Return the records of one suite as TOML: a table per system and source, a line per dataset."""
    tables = []
    for key in sorted({record[:3] for record in found}):
        own = [record for record in found if record[:3] == key]
        lines = [_line(place, [one for one in own if one[3:5] == place]) for place in sorted({one[3:5] for one in own})]
        fields = zip(("called", "system", "source"), key, strict=True)
        said = "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in fields if value)
        tables.append(f"[[systems]]\n{said}figures = [\n{''.join(lines)}]\n")
    return "# Made by tools/expected_figures.py; do not edit.\nschema = 1\n\n" + "\n".join(tables)


def _line(place: tuple[Any, ...], own: list[Record]) -> str:
    dataset, where = map(json.dumps, place)
    values = ", ".join(f'"{measure}" = {value}' for measure, value in sorted({(one.measure, one.value) for one in own}))
    return f"  {{ dataset = {dataset}, values = {{ {values} }}, where = {where} }},\n"


def main() -> None:
    """Write every file, and print the number of its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="figures as their sources print them, as JSON")
    file = parser.parse_args().file
    if not file.is_file():
        parser.error(f"there is no file {file}")
    found = list(dict.fromkeys(records(file)))
    for name, begins in _FILES.items():
        own = [record for record in found if record.dataset.startswith(begins)]
        atomic.write_text(FOLDER / f"{name}.toml", text(own))
        print(f"{name}: {len(own)} figures")
    print(f"{len(found)} in all")


if __name__ == "__main__":
    main()
