"""`lexbench compare`: settings that differ, tests, the queries that changed, and the similarity of ranked lists (--lists)."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
import samples
from samples import ranked
from tiny import answer, ended, run
from workbench import results

import lexbench
from lexbench.analysis.compare.comparison import config_diff
from lexbench.analysis.compare.result_choice import read_path
from lexbench.analysis.compare.tables import verdict
from lexbench.analysis.list_similarity import list_similarities, rbo
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.location import find_dataset
from lexbench.results import Measurement, Note, write_results
from lexbench.runner import soundness
from lexbench.storage.store import Store
from lexbench.suites import suite as suite_named

pytestmark = pytest.mark.usefixtures("open_contracts")

QUERIES = 40
RNG = np.random.default_rng(0)
BASE = RNG.random(QUERIES) * 0.8 + 0.1


def result(system, values, dataset="pydoc/test", **facts):
    """Make a result of BM25."""
    recipe = {"plugin": "retrievers/bm25", "version": 1, "settings": {"k1": 0.9}}
    return samples.result(system, values, dataset, **{"recipe": recipe} | facts)


def saved(folder, *found):
    """Write results like `--results` does and return the folder."""
    write_results(found, "pydoc", folder)
    return str(folder)


def test_a_clear_loss_is_found_and_can_fail_a_build(store, tmp_path, capsys):
    """A system that loses .1 on every query is worse: exit code 1 with --fail-if-worse, and 0 in the other direction."""
    folder = saved(tmp_path / "saved", result("old", BASE), result("new", BASE - 0.1))
    out, err = ended(capsys, 1, "compare", "old", "new", folder, "--fail-if-worse")

    assert err == "worse than old: new on pydoc/test\n"
    assert "-0.1000  [-0.100, -0.100]  ≤ 0.0001" in out
    assert " worse\n" in out
    assert "0/0/40" in out
    assert max(map(len, out.splitlines())) <= 100
    assert " better\n" in ended(capsys, 0, "compare", "new", "old", folder, "--fail-if-worse").out
    assert run(capsys, "compare", "old", "new", folder)[0] == 0


def test_with_a_margin_a_system_fails_unless_it_is_shown_to_be_no_worse(store, tmp_path, capsys):
    """A loss of .01 on every query is within a margin of .12 but not .005; a noisy system without a loss is not shown to be."""
    noisy = np.flip(BASE)
    pruned = np.maximum(BASE - 0.01, 0)
    folder = saved(tmp_path / "saved", result("full", BASE), result("pruned", pruned), result("noisy", noisy))

    assert run(capsys, "compare", "full", "pruned", folder, "-d", "pydoc/test", "--margin", ".2")[0] == 0
    found = lexbench.compare("full", "pruned", "noisy", folder, store=store.root, margin=0.12)
    assert [one.no_worse.holds for one in found.datasets[0].differences] == [True, False]
    assert found.worse == ["noisy on pydoc/test"]
    strict = lexbench.compare("full", "pruned", folder, store=store.root, margin=0.005)
    assert strict.worse == ["pruned on pydoc/test", "noisy on pydoc/test"]


def test_p_is_corrected_over_all_systems_and_datasets(store, tmp_path):
    """Two systems on two datasets are a family of four: the smallest p is multiplied by four."""
    lower = BASE - RNG.random(QUERIES) * 0.1
    systems = {"a": BASE, "b": lower, "c": BASE}.items()
    found = [result(name, values, dataset) for dataset in ("pydoc/test", "pydoc/dev") for name, values in systems]
    made = lexbench.compare(saved(tmp_path / "saved", *found), store=store.root)
    ps = [(one.p, one.corrected, verdict(one)) for on in made.datasets for one in on.differences]

    assert [one.dataset for one in made.datasets] == ["pydoc/dev", "pydoc/test"]
    assert ps == [(pytest.approx(1 / 10_001), pytest.approx(4 / 10_001), "worse"), (1.0, 1.0, "same")] * 2


def test_every_setting_that_differs_is_listed(store, tmp_path, capsys):
    """Settings, models, depth, machine and versions that differ are listed, and equal ones are not."""
    other = {"plugin": "retrievers/bm25", "version": 2, "settings": {"k1": 1.2}}
    first = result("a", BASE, measured=Measurement(machine={"processor": "P", "cores": "2"}, versions={"numpy": "2.0"}))
    second = result("b", BASE, recipe=other, measured=Measurement(machine={"processor": "P", "cores": "4"}, versions={}))
    found = {one.field: one.values for one in config_diff([[first], [msgspec.structs.replace(second, depth=10)]])}

    assert found == {
        "retriever": ["bm25 v1", "bm25 v2"], "k1": ["0.9", "1.2"], "depth": ["1000", "10"],
        "machine.cores": ["2", "4"], "versions.numpy": ["2.0", None],
    }  # fmt: skip
    out = run(capsys, "compare", saved(tmp_path / "saved", first, second))[1]
    assert out.index("pydoc/test, nDCG@10") < out.index("what differs") < out.index("machine.cores")


def test_digests_are_not_in_the_table(store, tmp_path, capsys):
    """A digest that differs is counted below the table; --json has it."""
    recipes = [{"plugin": "retrievers/bm25", "version": 1, "settings": {}, "identity": {"x": digit * 64}} for digit in "ab"]
    folder = saved(tmp_path / "saved", *(result(name, BASE, recipe=one) for name, one in zip("ab", recipes, strict=True)))
    out, everything = (run(capsys, "compare", folder, *more)[1] for more in ((), ("--json",)))

    assert "aaaaaaaa" not in out
    assert "1 more, e.g. digests of files and settings of only some systems: see --json" in " ".join(out.split())
    assert "a" * 64 in everything


def test_notes_name_left_out_datasets_and_upper_bounds(store, tmp_path, capsys):
    """Datasets that only one system has are named in one line, but not with -d.

    A result with weights tuned on the tested queries keeps its note.
    """
    bound = result("b", BASE, bound=True, notes=[Note("bound", "chosen on these queries"), Note("model", "ORACLE: a word")])
    notes = lexbench.compare(saved(tmp_path / "bound", result("a", BASE), bound), store=store.root).notes
    assert notes == ["b on pydoc/test: chosen on these queries"]
    folder = saved(tmp_path / "saved", *(result(name, BASE) for name in "ab"), result("a", BASE, "pydoc/dev"))
    line = "left out, because some systems have no result there: pydoc/dev"

    assert line in run(capsys, "compare", folder)[1]
    assert "left out" not in run(capsys, "compare", folder, "-d", "pydoc/test")[1]


def test_an_additional_transform_does_not_shift_the_others():
    """Transforms are named by their classes, so one more of them does not rename the others."""

    def recipe(*transforms):
        settings = {"transforms": [{"plugin": f"transforms/{name}", "version": 1, "settings": s} for name, s in transforms]}
        return {"plugin": "retrievers/encoded", "version": 2, "settings": settings}

    quantize = ("quantize", {"bits": 8})
    one, other = recipe(quantize), recipe(("top_k", {"k": 4}), quantize)
    found = config_diff([[result("a", BASE, recipe=one)], [result("b", BASE, recipe=other)]])

    expected = [("transforms.top_k", [None, "top_k v1"]), ("transforms.top_k.k", [None, "4"])]
    assert [(one.field, one.values, one.only_some) for one in found] == [(*row, False) for row in expected]


def test_settings_that_only_some_plug_ins_have_are_marked():
    """That BM25 has no query length follows from its plug-in; a different value of a common setting is listed."""
    other = {"plugin": "retrievers/encoded", "version": 2, "settings": {"query_length": 32}}

    both = [result("c", BASE, recipe=other | {"settings": {"k1": 2.0}})]
    assert [one.only_some for one in config_diff([[result("a", BASE)], both])] == [False, False]
    found = config_diff([[result("a", BASE)], [result("b", BASE, recipe=other)]])
    assert {one.field: one.only_some for one in found} == {"retriever": False, "k1": True, "query_length": True}


def test_one_name_in_two_folders_is_two_systems(store, tmp_path):
    """Different results of one name are labelled by folder; equal results given twice are one system."""
    old, new = saved(tmp_path / "old", result("bm25", BASE)), saved(tmp_path / "new", result("bm25", BASE + 0.1))

    assert lexbench.compare(old, new, store=store.root).systems == [f"{old}: bm25", f"{new}: bm25"]
    with_other = saved(tmp_path / "more", result("bm25", BASE), result("other", BASE))
    assert lexbench.compare("other", old, with_other, store=store.root).systems == ["other", "bm25"]


def test_judgements_are_read_once_for_all_files(store, tmp_path, monkeypatch):
    """However many files a folder has, the judgements of their dataset are read once."""
    folder = saved(tmp_path / "saved", *(result(f"system {number}", BASE) for number in range(5)))
    read = []
    monkeypatch.setattr(soundness, "_judgements_here", lambda contract: read.append(contract.id))
    assert len(read_path(Path(folder))) == 5
    assert read == ["pydoc/test"]


def test_names_can_be_looked_up_in_a_folder(store, tmp_path, capsys):
    """With --results, names are looked up in the folder and not in the store."""
    old, new = result("old", BASE), result("new", BASE - 0.1)
    folder = saved(tmp_path / "saved", old, new, result("bm25", BASE), result("my-model", BASE))
    document = answer(capsys, "compare", "old", "new", "--results", folder, "--json")

    assert document["systems"] == ["old", "new"]
    assert document["worse"] == ["new on pydoc/test"]
    assert document["datasets"][0]["differences"][0]["losses"] == QUERIES
    assert [change["text"] for change in document["query_changes"]] == [None] * 5  # these are no queries of pydoc
    assert f"no result in {folder} of 'other'" in ended(capsys, 3, "compare", "old", "other", "--results", folder).err
    assert lexbench.compare("old", "my-model", store=store.root, results=tmp_path / "saved").systems == [
        "old",
        "my-model",
    ]
    assert lexbench.compare("old", "my-model", folder, store=store.root).systems[:2] == ["old", "my-model"]


def test_a_mean_needs_all_its_members(store, tmp_path):
    """Eleven of the twelve datasets of beir-12@1 give no mean; twelve give the mean of the twelve differences."""
    members = next(one for one in suite_named("beir").aggregates if one.id == "beir-12@1").members
    losses = {name: 0.005 * at for at, name in enumerate(members)}
    found = [result(name, BASE - loss * (name == "b"), dataset) for dataset, loss in losses.items() for name in ("a", "b")]
    write_results(found, "beir", tmp_path / "whole")
    write_results(found[2:], "beir", tmp_path / "part")
    [macro] = lexbench.compare(str(tmp_path / "whole"), store=store.root).means

    assert lexbench.compare(str(tmp_path / "part"), store=store.root).means == []
    assert macro.means["a"] == pytest.approx(BASE.mean())
    assert macro.differences[0].difference == pytest.approx(-0.0275)
    assert macro.differences[0].interval == pytest.approx((-0.0275, -0.0275))


@pytest.fixture(scope="module")
def runs(bread, tmp_path_factory):
    """Run two sets of sparse vectors on bread that differ in one relevant document; return the store and names."""
    folder = tmp_path_factory.mktemp("vectors")
    dataset = open_dataset(*find_dataset(str(bread)))
    query, document = next((row.query_id, row.doc_id) for row in dataset.topics.judgements if row.grade == 2)
    judged = {row.doc_id for row in dataset.topics.judgements if row.query_id == query}
    ids = sorted(one.doc_id for one in dataset.source.documents())
    others = [one for one in ids if one not in judged][:9]  # each with a score of 2 x 2
    asked = {one.query_id: "tree" if at % 2 else "red red fox" for at, one in enumerate(dataset.queries)}
    lines = (f"{name}\t{text}\n" for name, text in (asked | {query: "red red fox"}).items())
    (folder / "queries.tsv").write_text("".join(lines))
    (folder / "tokens").write_text("fox\nred\ntree\n")
    names = []
    for name, own in (("first", {"red": 1, "tree": 5}), ("second", {"red": 3, "fox": 2})):
        vectors = {one: {"tree": 1} for one in ids} | {one: {"red": 2} for one in others} | {document: own}
        lines = (json.dumps({"id": one, "contents": "", "vector": vector}) for one, vector in vectors.items())
        (folder / name).write_text("\n".join(lines) + "\n")
        files = f'documents="{folder / name}", queries="{folder / "queries.tsv"}", vocabulary="{folder / "tokens"}"'
        names.append(f"{name} = vectors({files})@csr")
    store = Store(folder / "store")
    results(bread, store, names, depth=100)
    return store, names, query, document


def test_the_document_that_made_the_difference_is_named(runs, monkeypatch, capsys):
    """It scores 2 x 1 with the first vectors, behind nine documents with 4, and 2 x 3 + 1 x 2 with the second."""
    store, names, query, document = runs
    changed = next(one for one in lexbench.compare(*names, store=store.root, queries=200).query_changes if one.query == query)

    assert changed.text
    assert changed.value > changed.baseline_value
    moved = changed.moved[0]
    assert (moved.document, moved.grade, moved.baseline_rank, moved.rank) == (document, 2, 10, 1)
    assert moved.beginning
    monkeypatch.setenv("LEXBENCH_STORE", str(store.root))
    monkeypatch.setenv("COLUMNS", "100")
    out = ended(capsys, 0, "compare", *names, "--queries", "200").out
    assert f"↳ {document} 10 → 1: " in out
    assert max(map(len, out.splitlines())) <= 100


def test_documents_are_named_for_results_in_a_folder_and_for_run_files(runs, bread, tmp_path, monkeypatch, capsys):
    """The run of a result in a folder comes from the store; that of a run file from the file."""
    store, names, query, document = runs
    monkeypatch.setenv("LEXBENCH_STORE", str(store.root))
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "export", "trec", "runs", "-r", names[1])[0] == 0
    (file,) = (tmp_path / "runs").glob("*")
    systems = [names[0], f'foreign = run_file("{file}")']
    options = [word for name in systems for word in ("-r", name)]
    assert run(capsys, "run", "dataset", bread, *options, "-m", "nDCG@10", "--results", "board")[0] == 0

    for words in (["first", "foreign"], ["first", "foreign", "--results", "board"]):
        changes = answer(capsys, "compare", *words, "--queries", "200", "--json")["query_changes"]
        moved = next(change["moved"][0] for change in changes if change["query"] == query)
        assert (moved["document"], moved["baseline_rank"], moved["rank"]) == (document, 10, 1)


def letters(text):
    """Return a list of documents, one per letter."""
    return np.array([ord(letter) for letter in text], np.int64)


# rbo 0.1.3 of PyPI, `RankingSimilarity(list(one), list(two)).rbo_ext(p)`
@pytest.mark.parametrize(
    ("one", "two", "p", "expected"),
    [
        ("abcde", "bacfg", 0.9, 0.619335),
        ("abcde", "abcde", 0.9, 1.0),
        ("abcdefgh", "fdab", 0.9, 0.6509706267857143),
        ("abc", "xyz", 0.8, 0.0),
        ("abcdefg", "gfed", 0.98, 0.6246603459413334),
        ("ab", "b", 0.5, 0.25),
    ],
)
def test_extrapolated_rbo_is_that_of_another_implementation(one, two, p, expected):
    """For lists of equal and different length, equal, reversed and disjoint, in both orders."""
    assert rbo(letters(one), letters(two), p) == pytest.approx(expected, abs=1e-12)
    assert rbo(letters(two), letters(one), p) == pytest.approx(expected, abs=1e-12)


def test_overlap_is_a_mean_over_the_queries_of_either():
    """By hand: q1 shares two of three documents, q2 is equal, and q3 and q4 have only one list, which counts 0."""
    first = ranked(q1="abc", q2="de", q3="x")
    other = ranked(q2="de", q1="acz", q4="y")
    (found,) = list_similarities({"first": first, "other": other}, [1, 3]).systems

    assert (found.queries, found.one_sided) == (4, 2)
    assert found.overlaps == {1: pytest.approx(2 / 4), 3: pytest.approx((2 / 3 + 1) / 4)}
    assert found.same == {1: 0.5, 3: 0.25}
    expected = rbo(letters("abc"), letters("acz")) + 1.0
    assert found.rbo == pytest.approx(expected / 4)


def test_the_command_takes_run_files_without_judgements(tmp_path, monkeypatch, capsys):
    """Two run files are compared by their first documents."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.run").write_text("q1 Q0 d1 1 2 a\nq1 Q0 d2 2 1 a\n")
    (tmp_path / "b.run").write_text("q1 Q0 d1 1 2 b\nq1 Q0 d3 2 1 b\n")

    (found,) = answer(capsys, "compare", "--lists", "a.run", "b.run", "-k", "2", "--json")
    assert (found["overlaps"], found["same"]) == ({"2": 0.5}, {"2": 0.0})
    assert ".86 of the weight of RBO" in ended(capsys, 0, "compare", "--lists", "a.run", "b.run").out
