"""Make the list of `pydoc` documents that the Pythons on the command line agree on.

    python tools/pydoc_corpus.py PYTHON3.11 PYTHON3.12 PYTHON3.13

writes suites/pydoc/corpus.tsv, a line `id<TAB>digest` for each document with the same text in all of them. A new list is a new
corpus: judgements and expected scores of the old one do not apply to it.
"""

import argparse
import sys
from pathlib import Path

from lexbench.datasets.docstrings import collect, digest

LIST = Path(__file__).parent.parent / "suites" / "pydoc" / "corpus.tsv"


def main() -> None:
    """Collect the documents of each Python, write the shared ones, and print the counts."""
    parser = argparse.ArgumentParser(description="Make the list of pydoc documents.")
    parser.add_argument("python", nargs="+", help="an interpreter; the supported versions, one each")
    parser.add_argument("--output", type=Path, default=LIST)
    arguments = parser.parse_args()
    found = {python: dict(collect(python)) for python in arguments.python}
    ids = set.intersection(*map(set, found.values()))
    shared = set.intersection(*(set(documents.items()) for documents in found.values()))
    arguments.output.write_text("".join(f"{doc_id}\t{digest(text)}\n" for doc_id, text in sorted(shared)), newline="\n")
    for python, documents in found.items():
        sys.stdout.write(f"{python}: {len(documents)} documents, {len(documents) - len(ids)} not in all Pythons\n")
    words = sum(len(text.split()) for _, text in shared) / len(shared)
    sys.stdout.write(f"{len(ids)} ids in all, {len(shared)} with the same text, of {words:.1f} words on average\n")


if __name__ == "__main__":
    main()
