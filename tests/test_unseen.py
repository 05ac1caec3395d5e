"""A new collection from topics to tables, and runs, judgements and folders in the forms that users have.

Expected values are computed by hand, and again by pytrec_eval from the exported files.
"""

import bz2
import json
import lzma
from math import log2

import pytest
import pytrec_eval
import tiny
from tiny import answer, ended

# Ids like those of TREC CAR. The first document has "ferry" most often; the third and the fourth tie: they have one text.
FERRY, PIER, ROPE, TWIN, CRANE = "quay:Ferry/Times%20é", "quay:Pier", "quay:Rope/1", "quay:Rope/2", "quay:Crane"
DOCUMENTS = {
    FERRY: "ferry ferry ferry pier",
    PIER: "ferry pier",
    ROPE: "ferry pier crane rope",
    TWIN: "ferry pier crane rope",
    CRANE: "crane crane crane rope",
}
TOPICS = """
<top>
<num> Number: 7
<title> Ferries
<desc> Description:
When does the ferry leave?
<top>
<num> Number: 008
<title> ropes of
cranes
</top>
<top>
<num> Number: 9
<title> lighthouse
</top>
<top>
<num> Number: 10
<title> pier
</top>
<top>
<num> Number: 11
<title> nobody judged this
</top>
"""
# Query 9 finds nothing, 10 has nothing relevant, 11 is not judged; one judged document is not in the corpus; grades go below 0.
QRELS = (
    f"7\tITER1\t{FERRY}\t0\r\n7\tITER1\t{PIER}\t2\r\n7\tITER1\t{ROPE}\t1\r\n7\tITER1\t{TWIN}\t-1\r\n7\tITER1\tquay:Lost\t1\r\n"
    f"008\t0\t{CRANE}\t3\r\n008\t0\t{TWIN}\t1\r\n9\t0\t{PIER}\t1\r\n10\t0\t{FERRY}\t0\r\n10\t0\t{PIER}\t-2\r\n"
)
MEASURES = {"nDCG@10": "ndcg_cut_10", "RR@10": "recip_rank", "AP@100": "map_cut_100", "R@100": "recall_100", "P@5": "P_5"}
# By query, in the order of ids: 008 ranks CRANE, ROPE, TWIN, and 7 ranks FERRY, PIER, ROPE, TWIN.
EXPECTED = {
    "nDCG@10": [(3 + 1 / log2(4)) / (3 + 1 / log2(3)), 0, (2 / log2(3) + 1 / log2(4)) / (2 + 1 / log2(3) + 1 / log2(4)), 0],
    "RR@10": [1, 0, 1 / 2, 0],
    "AP@100": [(1 + 2 / 3) / 2, 0, (1 / 2 + 2 / 3) / 3, 0],
    "R@100": [1, 0, 2 / 3, 0],
    "P@5": [2 / 5, 0, 2 / 5, 0],
}
ASKED = [word for measure in MEASURES for word in ("-m", measure)]


@pytest.fixture
def quay(store, tmp_path):
    """Write the collection as a folder with TREC's topics and judgements; its store is beside it."""
    rows = (json.dumps({"_id": doc_id, "title": None, "text": text}) for doc_id, text in DOCUMENTS.items())
    files = {"corpus.jsonl": "\r\n".join(rows), "topics.txt": TOPICS, "qrels/test.tsv": QRELS}
    return tiny.write_files(tmp_path / "quay", files)


def test_a_new_collection_has_the_values_computed_by_hand(quay, capsys):
    """From topics to per-query values, through the store; exported, pytrec_eval and `score` compute the same from the files."""
    words = ("run", "dataset", quay, "-r", "bm25", *ASKED)
    (result,) = answer(capsys, *words, "--json")["results"]

    assert result["query_ids"] == ["008", "10", "7", "9"]
    for measure, values in EXPECTED.items():
        assert result["per_query"][measure] == pytest.approx(values, abs=1e-12), measure
        assert result["means"][measure] == pytest.approx(sum(values) / 4, abs=1e-12)
    shown = " ".join(ended(capsys, 0, *words).out.split())
    assert "1 of 4 queries returned nothing and score 0" in shown
    assert "1 judged documents are not in the corpus, so no system finds them" in shown
    assert "1 of 4 judged queries have no relevant document" in shown

    ended(capsys, 0, "export", "trec", "out")
    (run,) = (path for path in (quay.parent / "out").iterdir() if ".trec" in path.name or ".run" in path.name)
    scored = answer(capsys, "score", run, "--qrels", quay / "qrels" / "test.tsv", *ASKED, "--json")
    assert scored["per_query"] == result["per_query"]
    judged, ranked = {}, {}
    for line in QRELS.splitlines():
        query, _, document, grade = line.split()
        judged.setdefault(query, {})[document] = int(grade)
    for line in run.read_text().splitlines():
        query, _, document, _, score, _ = line.split()
        ranked.setdefault(query, {})[document] = float(score)
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut", "recip_rank", "map_cut", "recall", "P"}).evaluate(ranked)
    for measure, theirs_name in MEASURES.items():
        there = [theirs.get(query, {}).get(theirs_name, 0.0) for query in result["query_ids"]]
        assert result["per_query"][measure] == pytest.approx(there, abs=1e-12), measure


def test_every_command_takes_the_new_collection(quay, tmp_path, monkeypatch, capsys):
    """With BM25 and a run file, score, compare and judge give the values computed by hand."""
    lines = (f"7 Q0 {ROPE} 0 3 a", f"7 Q0 {PIER} 1 2 a", f"008 Q0 {CRANE} 0 9 a", "12 Q0 quay:Nowhere 0 1 a")
    (tmp_path / "mine.run").write_text("\n".join(lines))
    ended(capsys, 0, "run", "dataset", quay, "-r", "bm25", "-r", 'run_file("mine.run")', "-m", "RR@10")
    monkeypatch.chdir(tmp_path)

    for dataset in (quay, "quay"):  # 7 has its relevant ROPE first
        scored = answer(capsys, "score", "mine.run", "-d", dataset, "-m", "RR@10", "--json")
        assert scored["per_query"]["RR@10"] == [1, 0, 1, 0]
        assert scored["counts"] == scored["counts"] | {"queries": 4, "missing": 2, "unjudged": 1}
    compared = answer(capsys, "compare", "bm25", 'run_file("mine.run")', "-m", "RR@10", "--json")
    assert [score["mean"] for score in compared["datasets"][0]["scores"]] == [(1 + 1 / 2) / 4, (1 + 1) / 4]
    # Of 008 one of three is shared, of 7 two of four; 10 and 12 are in one list alone, and count 0.
    (shared,) = answer(capsys, "compare", "--lists", "bm25", "mine.run", "-d", "quay", "-k", "3", "--json")
    assert shared["overlaps"]["3"] == pytest.approx((1 / 3 + 2 / 3) / 4)
    # Nothing that is judged is in the run file alone; without what BM25 alone has found, its TWIN of 008 is no longer relevant.
    pooled = answer(capsys, "judge", "pool", "bm25", "mine.run", "-d", "quay", "-m", "R@100", "--json")
    assert {row["system"]: (row["unique"], row["relevant"]) for row in pooled} == {
        "bm25": (5, 1),
        'run_file("mine.run")': (0, 0),
    }


RUN = f"7 Q0 {ROPE} 1 3 a\n7 Q0 {PIER} 2 2 a\n008 Q0 {CRANE} 1 9 a\n"


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (RUN.replace(" 3 a", " 1 a"), "in 1 of 2 lists a later rank has a higher score: scores decide, as in trec_eval"),
        (RUN.replace("9 a", "9 b"), "its lines have 2 tags, e.g. 'a' and 'b': is it one run?"),
        (RUN, ""),
        (RUN.replace(" 1 ", " - ").replace(" 2 2 ", " - 4 "), ""),  # no ranks, and no order of lines
        ("\n".join(reversed(RUN.splitlines())), ""),
        (RUN.replace(" a", ""), ""),
    ],
    ids=["ranks against scores", "two tags", "well", "no ranks", "other order", "no tag"],
)
def test_contradictions_in_a_run_file_have_a_note(quay, tmp_path, capsys, run, line):
    """Scores decide, as in trec_eval. A note says if ranks contradict them, or if a file may contain two runs."""
    (tmp_path / "a.run").write_text(run)
    found = answer(capsys, "score", tmp_path / "a.run", "-d", quay, "-m", "RR", "--json")
    notes = [note["text"] for note in found["notes"]]

    assert [note for note in notes if " ranks" in note or "tags" in note or "rank has" in note] == ([line] if line else [])


NUMBERED = {
    "corpus.jsonl": tiny.lines(
        {"_id": number, "text": text, "metadata": {"x": [number]}} for number, text in enumerate(DOCUMENTS.values())
    )
    + '{"_id": 5, "title": "ferries \u2028 \x85 ferry", "text": null}\n',
    "topics.txt": None,
    "queries.jsonl": '{"_id": 7, "text": "ferry"}\n{"_id": 8, "text": null}\n',
    "qrels/test.tsv": "query_id\tcorpus_id\tscore\n7\t2\t1\n7\t2\t1\n",  # 2 is behind 0, 5 and 1
}
JUDGED = "\n".join(line for line in QRELS.splitlines() if line.startswith("7"))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, [1, 0, 1 / 2, 0]),
        ({"qrels/._test.tsv": b"\0\5", "qrels/test.tsv~": "x", "qrels/dev.tsv": "7 0 no 1\n"}, [1, 0, 1 / 2, 0]),
        ({"qrels/test.tsv": None, "qrels/dev.tsv": "query-id\tQ0\tcorpus-id\tRelevance\n" + JUDGED}, [1 / 2]),
        ({"topics.txt": "\ufeff" + TOPICS}, [1, 0, 1 / 2, 0]),
        ({"topics.txt": None, "topics.tsv": "7\tferries\n008\tropes of cranes\n9\tx\n10\tpier\n"}, [1, 0, 1 / 2, 0]),
        (
            {
                **dict.fromkeys(("corpus.jsonl", "topics.txt", "qrels/test.tsv")),
                "corpus.jsonl.bz2": bz2.compress(tiny.lines({"_id": k, "text": v} for k, v in DOCUMENTS.items()).encode()),
                "topics.txt.xz": lzma.compress(TOPICS.encode()),
                "qrels/test.tsv.gz": QRELS,
            },
            [1, 0, 1 / 2, 0],
        ),
        (NUMBERED, [1 / 4]),
    ],
    ids=["as it is", "other files beside", "no test, a header", "marks", "TSV", "compressed", "numbers"],
)
def test_folders_as_they_are_found(quay, capsys, change, expected):
    """Splits, headers, byte order marks, compression, numeric ids and null texts give the scores of the plain folder."""
    tiny.write_files(quay, change)
    (result,) = answer(capsys, "run", "dataset", quay, "-r", "bm25", "-m", "RR@10", "--json")["results"]

    assert result["per_query"]["RR@10"] == expected


def test_judged_queries_without_text_have_a_note(quay, capsys):
    """The note counts them and names one."""
    queries = tiny.lines({"_id": query, "text": ""} for query in ("7", "008", "9", "10"))
    tiny.write_files(quay, {"topics.txt": None, "queries.jsonl": queries})

    assert "4 of 4 judged queries have no text, e.g. '008'" in ended(capsys, 0, "run", "dataset", quay, "-r", "bm25").out
