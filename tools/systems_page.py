"""Write docs/systems.md: every system of the catalogue, what to type for it, and its published figures.

Run it as `python tools/systems_page.py` after a change of the catalogue. A test checks that the page is up to date.
"""

import argparse
from pathlib import Path
from typing import get_args

from lexbench import catalog
from lexbench.catalog import CatalogModel, Family, Published

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "systems.md"
_OWN = ROOT / "lexbench" / "catalog"
_DEV = ("msmarco-passage/dev/small", "msmarco-passage-titled/dev/small")
_ELSE = (  # of a system without figures on MS MARCO dev the first of these is shown
    ("msmarco-document/dev", "RR@100"),
    ("msmarco-passage/trec-dl-2019/judged", "nDCG@10"),
    ("beir/scifact/test", "nDCG@10"),
)
_TITLES = {
    "bm25": "BM25",
    "sparse": "Learned sparse vectors",
    "dense": "Dense vectors",
    "compressed dense": "Compressed dense vectors",
    "hybrid": "Several retrievers together",
    "reranker": "Rerankers",
}
_HEAD = """\
# Systems

Every system that the LexMAE paper (Shen et al., ICLR 2023) names, and some later ones: what to type after \
`lexbench run … -r`, and published figures. `lexbench show model NAME` shows the settings, the licence and all published \
figures of one system. `tools/systems_page.py` makes this page from the files in `lexbench/catalog/`.

- **weights**: *public* weights are downloaded from the Hugging Face hub when they are first used. *Included* weights are in \
the package. *Bring* means that you give a folder or a file; the cell says where to find it. *Unneeded*: the system has no \
weights.
- **MRR@10** and **R@1000** are for the 6,980 dev queries of MS MARCO passages, from the named source. No figure on this page \
is ours. **T** marks passages with titles, which are easier to find. Their dataset in lexbench is `msmarco-passage-titled`; \
do not compare them with the others.
- **elsewhere** is a figure on another dataset, for a system without figures on MS MARCO passages.
"""
_COLUMNS = ("system", "in the paper", "type", "weights", "MRR@10", "R@1000", "elsewhere", "source")
_UNRUN = ("system", "in the paper", "family", "why not", "MRR@10", "R@1000", "elsewhere", "source")


def page() -> str:
    """Return the page as Markdown."""
    models = [catalog.model(path.stem) for path in sorted(_OWN.glob("*.toml"))]
    parts = [_HEAD]
    for family in get_args(Family):
        rows = [_row(one, f"`{one.run}`", _weights(one)) for one in models if one.family == family and one.weights != "none"]
        if rows:
            parts.append(f"## {_TITLES.get(family, family.capitalize())}\n\n{_table(_COLUMNS, rows)}")
    rows = [_row(one, one.family, one.why) for one in models if one.weights == "none"]
    parts.append(f"## What cannot be run\n\n{_table(_UNRUN, rows)}")
    return "\n".join(parts)


def _table(header: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(found: CatalogModel, *middle: str) -> list[str]:
    """Return the cells of one system."""
    rank, recall = (_first(found, _DEV, measure) for measure in ("RR@10", "R@1000"))
    other = None
    if rank is None:
        other = next((one for dataset, measure in _ELSE if (one := _first(found, (dataset,), measure))), None)
    sources = dict.fromkeys(_source(one) for one in (rank, recall, other) if one)
    said = f"{_value(other)} {other.measure}, {other.dataset}" if other else ""
    return [found.summary, ", ".join(found.named), *middle, _value(rank), _value(recall), said, "; ".join(sources)]


def _weights(found: CatalogModel) -> str:
    return f"{found.weights}: {found.why}" if found.why else found.weights


def _first(found: CatalogModel, datasets: tuple[str, ...], measure: str) -> Published | None:
    return next((one for one in found.published if one.dataset in datasets and one.measure == measure), None)


def _value(one: Published | None) -> str:
    """Write a figure with as many digits as its source prints, and T for passages with titles."""
    if one is None:
        return ""
    digits = 4 if one.source.startswith(("pyserini", "anserini")) else max(3, len(str(one.value)) - 2)
    return f"{one.value:.{digits}f}".lstrip("0") + (" T" if "-titled/" in one.dataset else "")


def _source(one: Published) -> str:
    if one.source in ("repo README", "model card"):
        return one.where
    return f"{one.source}, {one.where}" if one.source == "LexMAE paper" else one.source


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    PAGE.write_text(page(), encoding="utf-8")
