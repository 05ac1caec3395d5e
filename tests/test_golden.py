"""The recorded digests of computed numbers hold for BM25; `make golden` compares all of them."""

import golden


def test_bm25_computes_what_was_recorded():
    """Corpus, indexes, runs and scores of BM25 and what is made of it, on pydoc and where self-matches are dropped, have the recorded bytes on every processor."""
    _, recorded = golden.recorded()
    here = golden.answers(["pydoc", "selves"], neural=False)

    assert len(here) > 40
    assert here == {row: recorded.get(row) for row in here}
