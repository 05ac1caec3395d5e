"""The notation of systems."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexbench.errors import LexbenchError
from lexbench.measures import parse as parse_measure
from lexbench.notation import Call, Expression, parse

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


names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name.isidentifier() and name not in __import__("keyword").kwlist and name not in ("true", "false", "none")
)
finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | finite | st.text(max_size=8)
values = scalars | st.lists(scalars, max_size=3).map(tuple)
calls = st.builds(
    Call,
    names,
    st.lists(values, max_size=2).map(tuple),
    st.dictionaries(names, values, max_size=2).map(lambda d: tuple(sorted(d.items()))),
)
parts = st.builds(Expression, calls, st.lists(calls, max_size=2).map(tuple), st.none() | calls)


@given(parts)
def test_any_part_survives_the_round_trip(part):
    """Any expression that is written reads back to an equal one."""
    assert parse(str(part)) == part


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("bm25(", "is no valid expression"),
        ("", "is no valid expression"),
        ("bm25(k1=)", "is no valid expression"),
        ("bm25(k1=1, k1=2)", "twice"),
        ("3", "is not a name with settings"),
        ("a.b(1)", "is not a name with settings"),
        ("x(1 + 2)", "is not a number"),
        ("x(**y)", "twice, or not at all"),
        ("x(y=lambda: 1)", "is not a number"),
        ("a" + "|b" * 5000, "200 operators|characters"),
        ("a" + "|b" * 1000, "1,000 operators"),
        ("x" + ".y" * 1000, "1,000 operators"),
        ("x(" + "1+" * 20_000 + "1)", "40,004 characters"),
        ("x(" + "-" * 800 + "1)", "800 operators"),
        ("x(" + "not " * 2000 + "1)", "2,000 operators"),
        ("x(" * 60 + ")" * 60, "50 brackets"),
        ("x(" + "[" * 3000 + "]" * 3000 + ")", "50 brackets"),
        ("x(a=" + "9" * 4200 + ")", "4200 digits"),
        ("x(a=" + "9" * 4400 + ")", "is no valid expression"),
        ("x(a=-" + "9" * 30 + ")", "30 digits"),
        ("x(a=1e999)", "too large"),
        ("x(" + "a" * 9000 + "=1,)+", "is no valid expression"),
        ("x\x00", "is no valid expression"),
        ("x(a={[]: 1})", "is not a number"),
    ],
)
@pytest.mark.parametrize("read", [parse, parse_measure])
def test_the_error_for_an_invalid_text_is_one_line(text, complaint, read):
    """An invalid text, however long or nested, gives one line that says what is wrong and quotes at most one line of it."""
    with pytest.raises(LexbenchError, match=complaint if read is parse else None) as caught:
        read(text)

    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_long_paths_and_lists_of_weights_are_read():
    """Operators in strings and points in numbers do not count: long paths and lists of weights are read."""
    path, weights = "/data/" + "a-b.c/" * 300, ", ".join(["0.125"] * 500)

    assert str(parse(f'lexmae(model="{path}")@impact')) == f'lexmae(model="{path}")@impact'
    assert len(dict(parse(f"ensemble(bm25, weights=[{weights}])").head.kwargs)["weights"]) == 500


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        *zip(EXAMPLES, EXAMPLES, strict=True),
        ("dense(model=a/b)", 'dense(model="a/b")'),
        ("dense(model=./a b/c-1.0@x, query_length=3)", 'dense(model="./a b/c-1.0@x", query_length=3)'),
        ("ensemble(bm25, dense(/m)|top_k(3)@flat)", 'ensemble(bm25, dense("/m")|top_k(3)@flat)'),
        ("dense(model='a/b', x=\"c/d\", y=e/f)", 'dense(model="a/b", x="c/d", y="e/f")'),
        ("bm25(k1=0.9, b=0.4)", "bm25(b=0.4, k1=0.9)"),
        ("x(a=true, b=false, c=none)", "x(a=True, b=False, c=None)"),
    ],
)
def test_an_expression_is_written_in_one_form(typed, written):
    """The written form reads back to an equal expression. In it, paths are quoted, and settings are sorted by name.

    A value with a slash is a path, also with spaces, dots and @ in it.
    """
    assert str(parse(typed)) == written
    assert parse(written) == parse(typed)
