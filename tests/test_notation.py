"""The notation of parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexbench.errors import NotationError
from lexbench.notation import Call, Part, parse

EXAMPLES = [
    "bm25",
    "bm25(k1=0.9)",
    "bm25@lucene",
    'lexmae(model="ckpt")@impact',
    'lexmae(model="ckpt")|top_k(64)|quantize(100)@seismic(query_cut=10)',
    'ensemble(lexmae(model="a")@impact, simlm@flat, weight=0.3)',
    "rerank(bm25, k=100)",
    "x(a=[1, 2.5, -3], b=None, c=True)",
    'run_file(path="runs/it\'s \\"quoted\\".trec")',
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_writing_undoes_reading(text):
    """What is written reads back to an equal part, and a text in its written form stays as it is."""
    assert parse(str(parse(text))) == parse(text)
    assert str(parse(text)) == text


names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name.isidentifier() and name not in __import__("keyword").kwlist and name not in ("true", "false", "none")
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
values = scalars | st.lists(scalars, max_size=3).map(tuple)
calls = st.builds(
    Call,
    names,
    st.lists(values, max_size=2).map(tuple),
    st.dictionaries(names, values, max_size=2).map(lambda d: tuple(sorted(d.items()))),
)
parts = st.builds(Part, calls, st.lists(calls, max_size=2).map(tuple), st.none() | calls)


@given(parts)
def test_any_part_survives_the_round_trip(part):
    """Whatever a part holds, reading what was written gives an equal part."""
    assert parse(str(part)) == part


def test_settings_are_sorted_by_name():
    """Two spellings of one system are one part."""
    assert parse("bm25(k1=0.9, b=0.4)") == parse("bm25(b=0.4,k1=0.9)")


def test_toml_and_json_words_are_read():
    """true, false and none are read as Python's True, False and None."""
    assert parse("x(a=true, b=false, c=none)") == parse("x(a=True, b=False, c=None)")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("bm25(", "does not read"),
        ("", "does not read"),
        ("bm25(k1=)", "does not read"),
        ("bm25(k1=1, k1=2)", "twice"),
        ("3", "is not a name with settings"),
        ("a.b(1)", "is not a name with settings"),
        ("x(1 + 2)", "is not a number"),
        ("x(**y)", "twice, or not at all"),
        ("x(y=lambda: 1)", "is not a number"),
    ],
)
def test_what_does_not_read_is_one_line(text, complaint):
    """A text that is no part costs one line that says where it stops making sense."""
    with pytest.raises(NotationError, match=complaint) as caught:
        parse(text)

    assert "\n" not in str(caught.value)
