"""Write docs/systems.md: every system of the catalogue, what to type for it, and what was published of it.

Run it as `python tools/systems_page.py` after a change of the catalogue; a test holds the page fresh.
"""

from pathlib import Path
from typing import get_args

from lexbench import catalog
from lexbench.catalog import Family, Model, Published

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "systems.md"
_OWN = ROOT / "lexbench" / "catalog"
_DEV = ("msmarco-passage/dev/small", "msmarco-passage-titled/dev/small")
_ELSE = (  # printed where there is nothing on MS MARCO dev, the first that there is
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

Every system that the LexMAE paper (Shen et al., ICLR 2023) names, and some that came later: what to type for it after \
`lexbench run … -r`, and what was published. `lexbench show model NAME` tells the rest, its settings, licence and all its \
published scores. This page is made from the files in `lexbench/catalog/` by `tools/systems_page.py`.

- **weights**: *public* ones are fetched from the Hugging Face hub when they are first used; *included* ones are in the \
package; *bring* means that you give a folder, or a file, and says where it is; *unneeded*, there are none.
- **MRR@10** and **R@1000** are on the 6,980 dev queries of MS MARCO passages, as others printed them: no figure here is ours. \
**T**: its passages have their titles, which makes them easier to find; such figures stand under `msmarco-passage-titled`, and \
are not to be compared with the rest.
- **else** is one figure of those that have none there.
"""
_COLUMNS = ("system", "in the paper", "type", "weights", "MRR@10", "R@1000", "else", "printed by")
_UNRUN = ("system", "in the paper", "family", "why not", "MRR@10", "R@1000", "else", "printed by")


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


def _row(found: Model, *middle: str) -> list[str]:
    """Return the cells of one system."""
    rank, recall = (_first(found, _DEV, measure) for measure in ("RR@10", "R@1000"))
    other = None
    if rank is None:
        other = next((one for dataset, measure in _ELSE if (one := _first(found, (dataset,), measure))), None)
    sources = dict.fromkeys(_source(one) for one in (rank, recall, other) if one)
    said = f"{_value(other)} {other.measure}, {other.dataset}" if other else ""
    return [found.summary, ", ".join(found.named), *middle, _value(rank), _value(recall), said, "; ".join(sources)]


def _weights(found: Model) -> str:
    return f"{found.weights}: {found.why}" if found.why else found.weights


def _first(found: Model, datasets: tuple[str, ...], measure: str) -> Published | None:
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
    PAGE.write_text(page(), encoding="utf-8")
