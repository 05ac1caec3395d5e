"""The recorded digests of computed numbers hold for BM25; `make golden` compares all of them."""

import importlib.util
from pathlib import Path

_FILE = Path(__file__).parent.parent / "tools" / "golden.py"
_SPEC = importlib.util.spec_from_file_location("golden", _FILE)
golden = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(golden)


def test_bm25_computes_what_was_recorded():
    """Corpus, indexes, runs and scores of BM25 and its passages on pydoc have the recorded bytes on every processor."""
    _, recorded = golden.recorded()
    here = golden.answers(["pydoc"], neural=False)

    assert len(here) > 30
    assert here == {row: recorded.get(row) for row in here}
