"""The recorded digests of computed numbers hold for BM25; `make golden` compares all of them."""

import golden
import pytest

FEW = (["selves"], ""), (["pydoc"], "b=0.75")  # all of the small dataset, and of pydoc one BM25


@pytest.mark.parametrize("chosen", [FEW, pytest.param(((["pydoc"], ""),), marks=pytest.mark.slow)], ids=["few", "all"])
def test_bm25_computes_what_was_recorded(fast, chosen):
    """On every processor, BM25 and what is made of it have the recorded bytes, also where self-matches are dropped."""
    _, recorded = golden.recorded()
    here = {}
    for wanted, text in chosen:
        here |= golden.answers(wanted, text, neural=False, lexbench=[str(fast / "lexbench")])

    assert {dataset for dataset, *_ in here} == {dataset for wanted, _ in chosen for dataset in wanted}
    assert len(here) > 20
    shared = {(data, file): value for (data, system, file), value in recorded.items() if system == "bm25"}  # it came first
    assert here == {row: recorded.get(row, shared.get(row[::2])) for row in here}
