"""Falsified results: every command that reads results refuses them by name."""

import json
import shutil
from pathlib import Path

import pytest
from tiny import ended, enter

import lexbench
from lexbench.errors import LexbenchError
from lexbench.results import SystemResults, file_name, load
from lexbench.runner.soundness import contradictions, read_folder, read_results

COMMITTED = Path(__file__).parents[1] / "leaderboard" / "results"
N = "nDCG@10"


def boards(tmp_path, suite, *systems):
    """Copy committed results into a folder of results; return it."""
    (tmp_path / "board" / "results" / suite).mkdir(parents=True)
    for system in systems:
        shutil.copy(COMMITTED / suite / f"{system}.json", tmp_path / "board" / "results" / suite)
    return tmp_path / "board"


def falsify(board, change, system="bm25"):
    """Change the entry of one system, by a function or by fields of its result; return its file."""
    (path,) = board.glob(f"results/*/{system}.json")
    entry = json.loads(path.read_bytes())
    if callable(change):
        change(entry, entry["results"][0])
    else:
        entry["results"][0] |= change
    path.write_text(json.dumps(entry))
    return path


def only_the_best_queries(_entry, result):
    """Keep the queries that bm25 does well on; make counts, means and ties agree."""
    kept = [at for at, value in enumerate(result["per_query"][N]) if value > 0.3]
    result["query_ids"] = [result["query_ids"][at] for at in kept]
    result["per_query"] = {name: [values[at] for at in kept] for name, values in result["per_query"].items()}
    result["means"] = {name: sum(values) / len(values) for name, values in result["per_query"].items()}
    result["counts"]["queries"], result["ties"], result["top"] = len(kept), {}, [result["top"][at] for at in kept]


def first_value(value):
    """Set the value of the first query, and the mean accordingly."""

    def change(_entry, result):
        values = result["per_query"][N]
        result["means"][N] += (value - values[0]) / len(values)
        values[0], result["ties"] = value, {}

    return change


def within(*path, to):
    """Set a field inside the result, e.g. counts.queries."""

    def change(_entry, result):
        for name in path[:-1]:
            result = result[name]
        result[path[-1]] = to

    return change


def sum_as_mean(_entry, result):
    """Keep values that add up to .9, and show the sum as the mean."""
    values = result["per_query"][N] = [0.004] * len(result["query_ids"])
    result["means"][N], result["ties"] = sum(values), {}


SEEDS = {"seeds": {"systems": {"a": "", "b": ""}, "means": {N: [0.1, 0.2]}}}
TIE = {"lowest": 0.9, "highest": 0.95, "queries": 0.0}
FALSIFIED = {
    "fewer queries, all else to match": (only_the_best_queries, "its number of queries is 125, and the contract cranfield@2"),
    "renamed queries": (lambda _, one: one.update(query_ids=[f"q{q}" for q in one["query_ids"]]), "SHA-256 of the query ids"),
    "queries in another order": (lambda _, one: one["query_ids"].reverse(), "not comparable on cranfield: they have different"),
    "a query twice": (lambda _, one: one["query_ids"].__setitem__(0, one["query_ids"][1]), "a query twice"),
    "no queries": ({"query_ids": [], "per_query": {N: []}, "means": {N: 0.5}, "ties": {}}, "it has no queries"),
    "other judgements": (within("digests", "qrels", to="0" * 64), "its SHA-256 of the judgements is 0000000000000000"),
    "other query texts": (within("digests", "queries", to="0" * 64), "its SHA-256 of the queries is 0000000000000000"),
    "no digests": ({"digests": {}}, "it has no SHA-256 of the judgements"),
    "version 99": ({"contract": "cranfield@99"}, "under the contract cranfield@99, and this lexbench has cranfield@2"),
    "version 0": ({"contract": "cranfield@0"}, "under the contract cranfield@0"),
    "no contract": ({"contract": "none"}, "under the contract none"),
    "contract of another dataset": ({"contract": "pydoc/test@1"}, "its contract 'pydoc/test@1' is not of this dataset"),
    "contract with markup": ({"contract": "`<script>`"}, "is not of this dataset"),
    "fewer documents": (within("counts", "documents", to=7), "its number of documents is 7"),
    "absent documents": (within("counts", "judged_absent", to=7), "its number of judged documents that the corpus lacks is 7"),
    "count of queries": (within("counts", "queries", to=9), "it counts 9 queries but has 225"),
    "negative count": (within("counts", "unjudged", to=-1), "a count, a size or a time below 0"),
    "negative size": (within("sizes", "index", to=-1), "a count, a size or a time below 0"),
    "missing queries with scores": (within("counts", "missing", to=220), "220 of 225 queries returned nothing, but"),
    "higher mean": (within("means", N, to=0.9), "the mean of nDCG@10 is 0.9, and that of its values"),
    "the sum as mean": (sum_as_mean, "the mean of nDCG@10 is 0.9"),
    "a value of 1.5": (first_value(1.5), "nDCG@10 has a mean or a value that is not from 0 to 1"),
    "a value of -0.5": (first_value(-0.5), "nDCG@10 has a mean or a value that is not from 0 to 1"),
    "infinity": (first_value(float("inf")), "bm25.json: "),
    "not a number": (within("means", N, to=float("nan")), "bm25.json: "),
    "no values": ({"per_query": {}}, "nDCG@10 has a mean but no values by query"),
    "too few values": (within("per_query", N, to=[0.5]), "it has 1 values of nDCG@10 for 225 queries"),
    "values without a mean": (lambda _, one: one["means"].pop(N), "it has values of nDCG@10, and no mean"),
    "mean outside its tie interval": (within("ties", N, to=TIE), "from 0.9 to 0.95, does not hold its mean"),
    "tie interval reversed": (within("ties", N, to=TIE | {"highest": 0.1}), "from 0.9 to 0.1, does not hold its mean"),
    "impossible tie share": (within("ties", N, "queries", to=7), "a value that is not from 0 to 1"),
    "impossible unjudged share": (within("incomplete", N, "highest", to=2), "a value that is not from 0 to 1"),
    "impossible other precision": ({"other_precision": {N: 3.0}}, "a value that is not from 0 to 1"),
    "too shallow": ({"depth": 10}, "R@100 looks at 100 documents per query, and only 10 were kept"),
    "recall of exact of 1.2": ({"found": {"10": 1.2}}, "its recall of exact is not from 0 to 1"),
    "other seeds": (SEEDS, "the mean of nDCG@10 is not that of its seeds"),
    "another schema": ({"schema": 99}, "its schema is 99"),
    "another schema of the file": (lambda entry, _: entry.update(schema=99), "its schema is 99"),
    "another system": ({"system": "b"}, "it has a result of b among those of bm25"),
    "another name": (lambda entry, _: entry.update(system="b"), "it is of b on classic, whose file is classic/b.json"),
    "another suite": (lambda entry, _: entry.update(suite="beir"), "it is of bm25 on beir, whose file is beir/bm25.json"),
    "a dataset twice": (lambda entry, one: entry["results"].append(one), "cranfield is there 2 times"),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSIFIED)
def test_a_falsified_result_is_refused_by_name(tmp_path, name):
    """Committed results are accepted. After one change, the message names the file or the systems, and the fault."""
    change, said = FALSIFIED[name]
    board = boards(tmp_path, "classic", "bm25", "bm25@lucene")
    assert len(read_folder(board)) == 2
    falsify(board, change)
    with pytest.raises(LexbenchError) as refused:
        read_folder(board)

    assert said in str(refused.value)
    assert "bm25" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_measure_deeper_than_the_lists_of_a_run_file_is_marked_instead(tmp_path):
    """Nobody can make the lists of a run file longer, so the result is accepted with a note."""
    board = boards(tmp_path, "classic", "bm25")
    falsify(board, {"depth": 10, "notes": [{"kind": "short lists", "text": "the longest list has 10 documents"}]})

    assert [result.depth for result in read_folder(board)][:1] == [10]


ORACLE = 'ensemble(bm25, nano@impact, weights="oracle")'


@pytest.mark.parametrize(
    ("name", "facts", "said"),
    [
        (ORACLE, {"notes": []}, 'not marked as an upper bound, and its system has weights="oracle"'),
        (
            "best",
            {"notation": f"pipeline({ORACLE}, bm25)"},
            'not marked as an upper bound, and its system has weights="oracle"',
        ),
        ("bm25(k1=1.2)", {"bound": True}, 'marked as an upper bound, and its system has no weights="oracle"'),
    ],
)
def test_an_upper_bound_cannot_become_a_result(tmp_path, name, facts, said):
    """A result says that it is an upper bound if and only if its system chooses weights on the tested queries."""
    board = boards(tmp_path, "pydoc", "bm25")

    def rename(entry, result):
        result |= {"system": name, **facts}
        entry["system"] = name

    path = falsify(board, rename)
    with pytest.raises(LexbenchError) as refused:
        read_folder(path.rename(path.with_name(f"{file_name(name)}.json")).parents[2])
    assert said in str(refused.value)

    honest = falsify(board, {"bound": "weights" in str(facts) or name == ORACLE}, system=file_name(name))
    (result,) = load(honest, SystemResults).results
    assert not list(contradictions(result))


def test_words_of_notes_decide_nothing(tmp_path):
    """A note may have any words: only its kind, and the field `bound`, have a meaning."""
    board = boards(tmp_path, "pydoc", "bm25")
    falsify(board, {"notes": [{"kind": "model", "text": "ORACLE: an upper bound, would look at more"}]})

    assert [result.bound for result in read_folder(board)] == [False]


def test_a_result_on_other_texts_of_pydoc_is_refused(tmp_path, capsys):
    """Every machine has the same corpus of pydoc: a result with another one is refused, like with any other contract."""
    board = boards(tmp_path, "pydoc", "bm25")
    falsify(board, within("digests", "corpus", to="f" * 64))

    said = "its SHA-256 of the corpus is ffffffffffffffff, and the contract pydoc/test@1 says f087afce12d93c72"
    assert said in ended(capsys, 2, "leaderboard", "--results", board).err


def test_a_users_dataset_needs_no_contract(tmp_path):
    """Results on a folder (version 0) are checked for contradictions only, even if the folder has the name of a dataset."""
    path = falsify(boards(tmp_path, "classic", "bm25"), {"contract": "cranfield@0", "digests": {}})
    assert read_results(path)[0].contract == "cranfield@0"
    falsify(tmp_path / "board", within("means", N, to=0.9))
    with pytest.raises(LexbenchError, match=r"the mean of nDCG@10 is 0\.9"):
        read_results(path)


def of_first_query(measure, value):
    """Set the value of the first query of two, and all that depends on it."""

    def change(_entry, result):
        result["per_query"][measure][0] = value
        result["means"][measure] = sum(result["per_query"][measure]) / 2
        result["ties"], result["incomplete"] = {}, {}

    return change


OWN = {
    "corpus": {"a": "red apple", "b": "green apple pie", "c": "plum"},
    "queries": {"q1": "apple", "q2": "pear"},
    "qrels": {"q1": {"b": 2, "c": 1}, "q2": {"c": 0}},
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (of_first_query(N, 1.0), "the documents that it keeps have"),
        ({"top": ["b a", ""]}, "the ranks of its relevant documents are not those of the documents that it keeps"),
        (of_first_query("R@1", 0.2), "no number of the relevant documents gives this value"),
        ({"ties": {}}, "has no interval for ties"),
    ],
    ids=["a value", "kept documents", "a recall", "ties"],
)
def test_results_on_own_data_are_checked_by_the_relevant_documents_beside_them(tmp_path, change, said):
    """A folder of results has the relevant documents of own data, so no machine needs the data."""
    lexbench.run(OWN, ["bm25"], measures=[N, "R@1", "Judged@10"], results=tmp_path, store=tmp_path / "store")
    assert len(read_folder(tmp_path)) == 1
    falsify(tmp_path, change)
    with pytest.raises(LexbenchError, match=said):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ["leaderboard", "--results", "board"],
        ["leaderboard", "--results", "sound", "--merge", "board"],
        ["compare", "bm25", "bm25@lucene", "--results", "board"],
        ["compare", "board"],
        ["verify", "classic", "--results", "board"],
        ["export", "csv", "out", "--results", "board"],
        ["store", "push", "there", "--results", "board"],
        ["store", "pull", "board", "--results", "here"],
    ],
    ids=" ".join,
)
def test_every_command_refuses_it(tmp_path, monkeypatch, capsys, words):
    """Each command that reads results exits with 2 and names the file and the command to type."""
    if words[0] == "store":
        pytest.importorskip("fsspec")
    enter(tmp_path, monkeypatch)
    board = boards(tmp_path, "classic", "bm25", "bm25@lucene")
    shutil.copytree(board, tmp_path / "sound")
    falsify(board, only_the_best_queries)

    (line,) = ended(capsys, 2, *words).err.splitlines()
    assert "bm25.json: bm25 on cranfield: its number of queries is 125" in line
    assert line.endswith("-r bm25")
    assert not any((tmp_path / name).exists() for name in ("out", "there", "here"))
