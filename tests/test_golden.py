"""The recorded digests of computed numbers hold for BM25; `make golden` compares all of them."""

import forking
import golden


def test_bm25_computes_what_was_recorded(tmp_path):
    """On every processor, BM25 and what is made of it have the recorded bytes, also where self-matches are dropped."""
    _, recorded = golden.recorded()
    with forking.commands(tmp_path):
        here = golden.answers(["pydoc", "selves"], neural=False, lexbench=[str(tmp_path / "lexbench")])

    assert len(here) > 40
    assert here == {row: recorded.get(row) for row in here}
