"""Runs and judgements: their canonical order, ties, cuts and self-matches; and their files, which read back as written."""

import gzip

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lexbench.errors import InvalidFile, LexbenchError
from lexbench.trec.ids import encode, factorize, lookup
from lexbench.trec.qrels import Qrels, read_qrels, write_beir_qrels, write_qrels
from lexbench.trec.runs import (
    Run,
    max_passage,
    read_run,
    strictly_decreasing,
    without_self_matches,
    write_msmarco_run,
    write_run,
)  # fmt: skip
from lexbench.types import Hits, Judgement

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**100), max_value=2.0**100)
IDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
RUN = "q1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2 1 tag\nq2\tQ0\td1\t7\t-1e3\ttag\n"


def file(folder, text, name="file.txt"):
    """Write *text* into a file of *folder*."""
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def listed(run):
    """Return {query: [(document, score), …]} in the run's order."""
    ids = [one.decode() for one in run.table[run.docs].tolist()]
    pairs = list(zip(ids, run.scores.tolist(), strict=True))
    return {query: pairs[run.offsets[i] : run.offsets[i + 1]] for i, query in enumerate(run.query_ids)}


def entries(run):
    """Return the run as (query, document, score), in its order."""
    return [(query, *pair) for query, pairs in listed(run).items() for pair in pairs]


WELL_FORMED = [
    RUN, RUN.replace("tag\n", "a tag of words\n", 1), RUN.replace(" tag", "").replace("\ttag", ""), RUN.rstrip("\n"),
    RUN.replace("\n", "\r\n"), RUN.replace(" ", "  \t"), f"# by us\n\n{RUN}\n \n", " " + RUN,
]  # fmt: skip


@pytest.mark.parametrize("name", ["run.trec", "run.trec.gz"])
@pytest.mark.parametrize("text", WELL_FORMED)
def test_a_run_reads_with_any_white_space_comments_and_blank_lines(tmp_path, text, name):
    """White space, line ends, comments above it, a missing last newline or tag, and words after the tag do not change a run."""
    assert entries(read_run(file(tmp_path, text, name))) == [("q1", "d1", 2.5), ("q1", "d2", 1.0), ("q2", "d1", -1000.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q Q0 d 1 1 t x\nq Q0 d2 2 t\n", r"run:2: 5 columns, not 6: 'q Q0 d2 2 t'"),
        ("q d 1 2 t\nq e 3 1 t\n", r"run: 5 columns are query document rank score tag, but the third does not count 1, 2"),
        ("q\td\t1\t2\nq\te\t2\t3\n", r"run: 4 columns are query document rank score, but the fourth does not fall with the"),
        ("q\td\t1\t2\nq\te\t2\thigh\n", r"run:2: 'high' is not a number; 4 columns are query document rank score"),
        ("q 0 d 1\n", r"run:1: 'd' is not a number; this is a file of judgements"),
        ("map\tq1\t0.5\nmap\tq2\t0.7\n", r"run: these are values of measures per query, and no run"),
        ("q1\tnDCG@10\t0.5\nq1\tRR\t0.7\n", r"run: these are values of measures per query, and no run"),
        ("q Q0 d 1 1\nq Q0 d2 2 0 t\n", r"run:2: 6 columns, not 5"),
        ("# c\nq Q0 d 1 1 t\n\nq Q0 d2 2 high t\n", r"run:4: 'high' is not a number"),
        ("q Q0 d 1 nan t\n", r"run: document 'd' of query 'q' has a score that is not a finite"),
        ("q Q0 d 1 2 t\nq Q0 d 2 1 t\n", r"run: document 'd' of query 'q' is there more than once"),
        ("q d\n", r"run:1: 2 columns, not 6"),
        ("q\td\t1\nq\te\t3\n", r"run: the third column is not the rank .* lexbench import scored"),
        ("q\td\t1.5\n", r"run: the third column is not the rank"),
        ("q\td\t2\nq\te\t1\nr\td\t1\n", r"run: the third column counts down .* import scored \S+ NEW, or import msmarco"),
    ],
)
def test_a_file_that_is_no_run_is_refused_with_its_line(tmp_path, text, message):
    """The error message names the file, the line and the fault."""
    with pytest.raises(InvalidFile, match=message):
        read_run(file(tmp_path, text, "run"))


def test_in_an_ms_marco_run_the_rank_decides(tmp_path):
    """Lists come in rank order, independent of the ids and of the order of lines; what is written reads back."""
    run = read_run(file(tmp_path, "7\td1\t2\n7\td9\t1\n7\td5\t3\n3\td1\t1\n"))
    write_msmarco_run(run, tmp_path / "run")

    assert [entry[:2] for entry in entries(run)] == [("7", "d9"), ("7", "d1"), ("7", "d5"), ("3", "d1")]
    assert (tmp_path / "run").read_text() == "7\td9\t1\n7\td1\t2\n7\td5\t3\n3\td1\t1\n"
    scored = read_run(file(tmp_path, "7\td1\t0.5\n7\td9\t0.75\n"), "scored")  # Tevatron writes query, document and score
    assert entries(scored) == [("7", "d9", 0.75), ("7", "d1", 0.5)]


COLBERT = [("3", "8", 1, 9.5), ("3", "0", 2, 9.5), ("3", "5", 3, -1.0), ("7", "0", 1, 30.0)]


@pytest.mark.parametrize("first", [1, 0])
@pytest.mark.parametrize("form", ["{}\t{}\t{}\t{}\n", "{} {} {} {} tag\n"])
def test_a_run_of_colbert_has_ranks_and_scores(tmp_path, form, first):
    """Without TREC's second column, ranks that count and scores that fall with them show which column is which."""
    lines = [form.format(query, document, rank - 1 + first, score) for query, document, rank, score in COLBERT]

    expected = [("3", "8", 9.5), ("3", "0", 9.5), ("3", "5", -1.0), ("7", "0", 30.0)]
    assert entries(read_run(file(tmp_path, "".join(lines)))) == expected
    assert entries(read_run(file(tmp_path, "".join(reversed(lines))), "colbert")) == expected[3:] + expected[:3]


def test_ranks_may_count_from_0(tmp_path):
    """In MS MARCO's three columns, the first rank of every list may be 0; not of some lists only."""
    assert [entry[1] for entry in entries(read_run(file(tmp_path, "7\td9\t0\n7\td1\t1\n3\td1\t0\n")))] == ["d9", "d1", "d1"]
    with pytest.raises(InvalidFile, match="not the rank"):
        read_run(file(tmp_path, "7\td1\t0\n7\td9\t1\n3\td1\t1\n3\td2\t2\n"))


def test_a_run_file_is_ordered_by_its_scores_as_double(tmp_path):
    """Scores that differ only in double order a run file; with float32 they tie and the id decides."""
    path = file(tmp_path, "q Q0 a 1 12.34567891 t\nq Q0 b 2 12.34567890 t\nq Q0 c 3 12.34567890 t\n")

    assert entries(read_run(path)) == [("q", "a", 12.34567891), ("q", "c", 12.3456789), ("q", "b", 12.3456789)]
    assert [entry[1] for entry in entries(read_run(path, precision="float32"))] == ["c", "b", "a"]
    assert [entry[1] for entry in entries(read_run(path).as_float32())] == ["c", "b", "a"]
    write_run(read_run(path), tmp_path / "written")  # with scores lowered, so that tools that read float32 keep the order
    assert [entry[1] for entry in entries(read_run(tmp_path / "written", precision="float32"))] == ["a", "c", "b"]


def test_a_score_beyond_float32_is_a_score_of_a_run_file(tmp_path):
    """1e39 is refused with float32. As double it is scored, and written as the largest float32 number."""
    path = file(tmp_path, "q Q0 a 1 1e39 t\nq Q0 b 2 2e39 t\nq Q0 c 3 1 t\n", "run")
    write_run(read_run(path), tmp_path / "written")

    assert [entry[1] for entry in entries(read_run(path))] == ["b", "a", "c"]
    with pytest.raises(InvalidFile, match="run: document 'a' of query 'q' has a score that is not a finite float32 number: 1e"):
        read_run(path, precision="float32")
    written = "q Q0 b 1 3.40282347e+38 lexbench\nq Q0 a 2 3.40282326e+38 lexbench\nq Q0 c 3 1 lexbench\n"
    assert (tmp_path / "written").read_text() == written


@pytest.mark.parametrize(
    "text", ["q1 0 d1 2\nq1 0 d2 -1\n", "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t-1\n", "q1\t0\td2\t-1\nq1\t0\td1\t2\n"]
)
def test_qrels_read_in_three_layouts_and_keep_negative_grades(tmp_path, text):
    """The layouts are those of TREC, BEIR and MS MARCO."""
    assert list(read_qrels(file(tmp_path, text)).judgements()) == [("q1", "d1", 2), ("q1", "d2", -1)]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q 0 d 1 x\n", r":1: 5 columns, not 4"),
        ("q 7 0 1\nq 8 0 1\n", r":1: documents are in the third column, and here the second has more different values"),
        ("q Q0 d 1 2.5 x\n", r":1: query Q0 document rank score tag are the columns of a run"),
        ("q 0 d 1\n# end\n", r":2: 2 columns, not 4: '# end'; comments stand only above the first line of data"),
        ("q 0 7\nq 0 8\n", r":1: which of the three columns is which\? Write a first line 'query-id 0 corpus-id' or"),
        ("q a 1\nq b 2\nq c 3\nq d 4\n", r": the third column counts 1, 2, 3, … for each query, so this is a run"),
        *((text, ": there are no judgements in it") for text in ("", "# only a comment\n", "query-id\tcorpus-id\tscore\n")),
        ("q 0 d high\n", r":1: the grade 'high' is no number; grades are numbers, e.g. 0, 1 or 2"),
        ("q 0 d nan\n", r":1: the grade 'nan' is no number"),
        ("q 0 d 2147483648\n", ":1: a grade beyond 2147483647: 2147483648"),
    ],
)
def test_a_file_that_has_no_qrels_is_refused(tmp_path, monkeypatch, text, message, large):
    """The error message names the file, the line if there is one, and what is wrong, for small and large files."""
    if large:
        monkeypatch.setattr("lexbench.trec.columns._LARGE", 0)
    with pytest.raises(InvalidFile, match=r"file\.txt" + message):
        read_qrels(file(tmp_path, text))


def test_utf16_is_refused(tmp_path):
    """The error message says how to save the file."""
    (tmp_path / "file").write_bytes("q 0 d 1\n".encode("utf-16"))
    with pytest.raises(InvalidFile, match="file: it is UTF-16 or UTF-32; save it as UTF-8"):
        read_qrels(tmp_path / "file")


@pytest.mark.parametrize("name", ["run.trec", "run.trec.gz"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.dictionaries(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), FLOATS | st.sampled_from([0.0, 1.0, 3e5])))
def test_a_run_that_is_written_reads_back(tmp_path, name, scored):
    """Order and exported scores survive writing and reading, to the last bit."""
    run = Run.from_entries([q for q, _ in scored], [f"d{d}" for _, d in scored], list(scored.values()))
    write_run(run, tmp_path / name)
    again = read_run(tmp_path / name)

    assert [entry[:2] for entry in entries(run)] == [entry[:2] for entry in entries(again)]
    assert np.array_equal(strictly_decreasing(run.offsets, run.scores), again.scores.astype(np.float32))


def test_written_files_are_repeatable_and_plain(tmp_path):
    """Six columns, ranks from 1, no comment; the same bytes each time, compressed or not."""
    run = Run.from_entries(["q", "q"], ["a", "b"], [1, 1])
    for name in ("1.gz", "2.gz"):
        write_run(run, tmp_path / name, "me")

    assert (tmp_path / "1.gz").read_bytes() == (tmp_path / "2.gz").read_bytes()
    assert gzip.decompress((tmp_path / "1.gz").read_bytes()).decode() == "q Q0 b 1 1 me\nq Q0 a 2 0.99999994 me\n"


@pytest.mark.parametrize("write", [write_qrels, write_beir_qrels])
def test_qrels_that_are_written_read_back(tmp_path, write):
    """In either layout, grades below zero included."""
    qrels = Qrels.from_judgements([Judgement("2", "x", 1), Judgement("1", "y", -2)])
    write(qrels, tmp_path / "qrels")

    assert list(read_qrels(tmp_path / "qrels").judgements()) == list(qrels.judgements())


@pytest.mark.parametrize(
    ("query", "document", "tag"), [("a b", "d", "t"), ("q", "d\t", "t"), ("#", "d", "t"), ("q", "d", "my tag"), ("q", "d", "")]
)
def test_ids_that_would_not_read_back_are_not_written(tmp_path, query, document, tag):
    """White space splits an id, and a line that begins with # and a blank is a comment; then no file is left behind."""
    with pytest.raises(LexbenchError, match="cannot be written"):
        write_run(Run.from_entries([query], [document], [1]), tmp_path / "run", tag)

    assert list(tmp_path.iterdir()) == []


# Large files are read by compiled loops


NUMBERS = "0 -0 +1 1. .5 -2.25 1e3 1E-3 12.34567890123 0.1234567890123456 9007199254740993 1e300 1e-5 0.30000000000000004"
WILD = [f"\t q{i % 3}  Q0\td{'x' * i} 1\x0b{number}  t \n" for i, number in enumerate(NUMBERS.split())]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("lines", [WILD, ["# a comment\n", *WILD], [*WILD, *["\n"] * 7]], ids=["usual", "comment", "blank"])
def test_numbers_are_rounded_as_pythons(tmp_path, monkeypatch, lines, large):
    """Numbers of every form, all kinds of blanks and ids of any length are read exactly, in small and large files."""
    if large:
        monkeypatch.setattr("lexbench.trec.columns._LARGE", 0)
    run = read_run(file(tmp_path, "".join(lines)))
    expected = {(f"q{i % 3}", f"d{'x' * i}", float(number)) for i, number in enumerate(NUMBERS.split())}

    assert set(entries(run)) == expected
    assert run.query_ids == ("q0", "q1", "q2")


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q Q0 d 1 t", "5 columns, not 6"),
        ("q Q0 d 1 1_0 t", "'1_0' is not a number"),
        ("q Q0 d 1 . t", "'.' is not a number"),
        ("q Q0 d 1 2e t", "'2e' is not a number"),
        ("q Q0 d 1 ٣ t", "'٣' is not a number"),
        ("q Q0 \0 1 2 t", "NUL"),
        (f"q Q0 {'d' * 2000} 1 2 t", "a field of 2000 bytes"),
    ],
)
def test_a_faulty_line_is_named(tmp_path, monkeypatch, line, message, large):
    """The error message has the number of the line in the file, not in its block, for small and large files."""
    if large:
        monkeypatch.setattr("lexbench.trec.columns._LARGE", 0)
    with pytest.raises(InvalidFile, match=f"run:2: .*{message}"):
        read_run(file(tmp_path, f"q Q0 a 1 2 t\n{line}\n", "run"))
    monkeypatch.setattr("lexbench.storage.reading._BLOCK", 64)
    with pytest.raises(InvalidFile, match=f"run:101: .*{message}"):
        read_run(file(tmp_path, "".join(f"q Q0 d{i} 1 {i} t\n" for i in range(100)) + f"{line}\n", "run"))


def test_an_id_may_begin_with_a_hash_behind_a_blank(tmp_path):
    """A line that fits the columns is data, so no entry is lost silently."""
    assert entries(read_run(file(tmp_path, " #q Q0 d 1 2 t\n"))) == [("#q", "d", 2.0)]


# Order, ids and cuts


@given(st.lists(IDS, max_size=50))
def test_factorize_gives_the_ids_back_in_descending_order(ids):
    """Codes are places in a table that is unique and descends in byte order, for ids of any length and script."""
    table, codes = factorize(encode(ids))

    assert [one.encode() for one in ids] == table[codes].tolist()
    assert sorted({one.encode() for one in ids}, reverse=True) == table.tolist()


def test_order_is_score_then_id_both_descending():
    """Equal scores are ordered by document id in descending byte order, so "9" comes before "10", and "é" before "z".

    Queries keep the order of their first entry, and may be interleaved.
    """
    run = Run.from_entries(["q", "b", *["q"] * 5, "b"], ["10", "x", "9", "z", "é", "a", "b", "y"], [1, 1, 1, 1, 1, 2, 0.5, 2])
    again = Run.from_entries(["q"] * 6, ["z", "10", "é", "b", "9", "a"], [1, 1, 1, 0.5, 1, 2])

    assert [doc for doc, _ in listed(run)["q"]] == ["a", "é", "z", "9", "10", "b"]
    assert listed(again)["q"] == listed(run)["q"]  # whatever the order of the entries
    assert listed(run)["b"] == [("y", 2.0), ("x", 1.0)]
    assert run.query_ids == ("q", "b")


@pytest.mark.parametrize("precision", ["double", "float32"])
def test_minus_zero_ties_with_zero(precision):
    """-0.0 equals 0.0, so the document id decides, and 0.0 is stored."""
    run = Run.from_entries(["q", "q"], ["a", "b"], [0.0, -0.0], precision)

    assert [doc for doc, _ in listed(run)["q"]] == ["b", "a"]
    assert not np.signbit(run.scores).any()


def test_hits_become_a_run_without_empty_places():
    """-1 is no document, and a query without documents has an empty list."""
    docs, scores = [[2, 0, -1], [-1, -1, -1], [1, -1, -1]], [[1, 3, 0], [0, 0, 0], [7, 0, 0]]
    hits = Hits(np.array(docs, np.int32), np.array(scores, np.float32))
    run = Run.from_hits(["q1", "q2", "q3"], hits, np.array([b"c", b"b", b"a"]))

    assert listed(run) == {"q1": [("c", 3.0), ("a", 1.0)], "q2": [], "q3": [("b", 7.0)]}
    assert run.ranks.tolist() == [1, 2, 1]


@pytest.mark.parametrize(("docs", "scores"), [((1, 2), (2, 2)), ((2, 2), (2, 3)), ((4,), (4,))])
def test_impossible_hits_are_refused(docs, scores):
    """Hits are two arrays of one shape, with one row per query."""
    with pytest.raises(ValueError, match="hits of 2 queries"):
        Run.from_hits(["a", "b"], Hits(np.ones(docs, np.int32), np.zeros(scores, np.float32)), np.array([b"x"]))


@pytest.mark.parametrize("position", [1, -2])
def test_positions_outside_of_the_corpus_are_refused(position):
    """Only -1 stands for no document."""
    hits = Hits(np.array([[0, position]], np.int32), np.ones((1, 2), np.float32))
    with pytest.raises(LexbenchError, match=f"a search found position {position} in a corpus of 1 documents; -1 stands for no"):
        Run.from_hits(["a"], hits, np.array([b"x"]))


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf"), 1e39])
def test_a_score_that_is_no_finite_float32_is_refused(score):
    """The error names the document and the query: NaN has no place in an order, and infinity no next number on export."""
    with pytest.raises(LexbenchError, match="document 'd2' of query 'q2' has a score that is not a finite float32 number"):
        Run.from_entries(["q1", "q2", "q2"], ["d1", "d1", "d2"], [1.0, 1.0, score])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.sampled_from([0.0, 1.0, 2.5, -1.0]) | FLOATS), max_size=60))
def test_strictly_decreasing_is_what_nextafter_would_do(entries):
    """The vectorised code equals a loop over nextafter, for any run; the lowest float32 number has none below it."""
    unique = {(query, doc): score for query, doc, score in entries}
    run = Run.from_entries([f"q{q}" for q, _ in unique], [f"d{d}" for _, d in unique], list(unique.values()))
    expected = []
    for start, stop in zip(run.offsets[:-1], run.offsets[1:], strict=True):
        last = np.float32(np.inf)
        for score in run.scores[start:stop]:
            last = min(score, np.nextafter(last, np.float32(-np.inf), dtype=np.float32))
            expected.append(last)

    assert np.array_equal(np.array(expected, np.float32), strictly_decreasing(run.offsets, run.scores))
    with pytest.raises(LexbenchError, match="lowest float32"):
        strictly_decreasing(np.array([0, 2]), np.array([np.finfo(np.float32).min] * 2))
    for start, stop in zip(run.offsets[:-1], run.offsets[1:], strict=True):
        ranked = list(zip(-run.scores[start:stop], run.docs[start:stop], strict=True))
        assert ranked == sorted(ranked)


def test_self_matches_are_dropped_and_counted_before_the_cut():
    """Searched one deeper, a list still has *depth* documents after its query's own document is gone."""
    run = Run.from_entries(["1", "1", "1", "2", "2"], ["1", "x", "y", "x", "1"], [3, 2, 1, 2, 1])
    filtered = without_self_matches(run, 2)

    assert listed(filtered.run) == {"1": [("x", 2.0), ("y", 1.0)], "2": [("x", 2.0), ("1", 1.0)]}
    assert filtered.dropped == 1


def test_cut_keeps_the_first_of_each_list():
    """A list that is shorter stays as it is, and ranks still start at 1."""
    run = Run.from_entries(["a", "a", "a", "b"], ["x", "y", "z", "x"], [1, 2, 3, 4]).cut(2)

    assert listed(run) == {"a": [("z", 3.0), ("y", 2.0)], "b": [("x", 4.0)]}
    assert run.ranks.tolist() == [1, 2, 1]


@given(st.lists(IDS, max_size=50, unique=True), st.lists(IDS, max_size=50))
def test_lookup_finds_what_is_there_and_nothing_else(table, ids):
    """An id that is longer than all ids of the table is not found, even if it begins with one of them."""
    descending = np.array(sorted((one.encode() for one in table), reverse=True), dtype=np.bytes_)
    wanted = encode([*ids, *table, *(one + "x" for one in table)])
    expected = [descending.tolist().index(one) if one in descending.tolist() else -1 for one in wanted.tolist()]

    assert expected == lookup(descending, wanted).tolist()


def test_judgements_are_sorted_and_repeats_count_once():
    """Queries and documents ascend, and a repeated judgement counts once."""
    rows = [("b", "y", 2), ("b", "x", -1), ("a", "z", 0), ("b", "y", 2)]
    qrels = Qrels.from_judgements(Judgement(*row) for row in rows)

    assert list(qrels.judgements()) == [("a", "z", 0), ("b", "x", -1), ("b", "y", 2)]
    assert len(qrels) == 3


# Runs of passages


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("pq"), st.sampled_from(["a#b#1", "a#b#2", "c#1", "c#x y", "d", "#1", "e"])), FLOATS
    )
)
def test_the_best_passage_of_a_document_counts(scored):
    """Documents have the largest score of their passages, in trec_eval's order; an id without the mark is a document."""
    expected = {}
    for (query, name), score in scored.items():
        document = name.rpartition("#")[0] or name
        expected[query, document] = max(score + 0.0, expected.get((query, document), -np.inf))
    run = Run.from_entries([query for query, _ in scored], [name for _, name in scored], list(scored.values()))
    if not any("#" in name for _, name in scored):
        with pytest.raises(LexbenchError, match="no document id of the run has '#' in it"):
            max_passage(run, "#")
        return
    again = Run.from_entries([query for query, _ in expected], [name for _, name in expected], list(expected.values()))

    assert entries(max_passage(run, "#")) == entries(again)


def test_a_run_of_passages_has_a_note(tmp_path):
    """The note counts documents and passages; scores of run files stay double."""
    run = max_passage(read_run(file(tmp_path, "q Q0 a%1 1 1e-9 t\nq Q0 b%1 2 2e-9 t\nq Q0 a%2 3 3e-9 t\n")), "%")

    assert entries(run) == [("q", "a", 3e-9), ("q", "b", 2e-9)]
    assert run.precision == "double"
    assert run.notes[-1] == "its lists have 2 documents on average, from 3 passages; the best passage of each counts"
