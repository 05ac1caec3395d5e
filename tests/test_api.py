"""The Python API."""

import json
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
import samples
from samples import Length
from tiny import answer, ended

import lexbench
from lexbench.errors import CommandError, NotationError, UnknownName
from lexbench.results import SystemResults, file_name, load, write_results
from lexbench.runner.plan import plan_suite
from lexbench.storage.stopwatch import Measurement
from lexbench.suites import suite as suite_named


def test_failures_are_listed_and_a_wrong_name_is_raised_before_work(tmp_path, monkeypatch):
    """A missing dataset is a failure in the results; an unknown name is raised at once."""
    for name in ("IR_DATASETS_HOME", "LEXBENCH_DATA"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("LEXBENCH_OFFLINE", "1")
    results = lexbench.run("beir", [Length()], datasets=["beir/nq"], store=tmp_path / "store")

    assert len(results) == 0
    assert [(one.system, one.dataset, one.scored) for one in results.failures] == [("Length", "beir/nq", False)]
    assert "beir/nq" in str(results)
    with pytest.raises(UnknownName, match="bm25"):
        lexbench.run("beir", ["bm2"])


def test_runs_that_write_at_once_lose_nothing(tmp_path):
    """Runs that add measures to one file of a folder of results wait for each other, and leave no lock behind."""
    measures = [f"P@{cutoff}" for cutoff in range(1, 9)]
    found = [samples.result("x", [0.0], means={name: 0.0}, per_query={name: [0.0]}) for name in measures]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: write_results([one], "pydoc", tmp_path), found))

    (whole,) = load(tmp_path / "results" / "pydoc" / "x.json", SystemResults).results
    assert set(whole.means) == set(measures)
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["pydoc"]


def test_results_become_a_table_and_a_data_frame(tmp_path, bread):
    """Results iterate, print as a table, and give one row per result."""
    pytest.importorskip("pandas", reason="it is in the extra pandas")
    results = lexbench.run(bread, {"lengths": Length(), "bm25": "bm25"}, store=tmp_path)
    frame, means = results.to_pandas(), lexbench.summary(results).to_pandas()

    assert [result.system for result in results] == ["lengths", "bm25"]
    assert list(frame.columns) == ["system", "dataset", "query", "measure", "value"]
    assert len(frame) == sum(len(result.query_ids) * len(result.means) for result in results)
    of_bm25 = frame[(frame["system"] == "bm25") & (frame["measure"] == "nDCG@10")]
    assert of_bm25["value"].mean() == pytest.approx(means["nDCG@10"][1])
    assert means["nDCG@10"][1] > means["nDCG@10"][0]
    assert "lengths" in str(results)
    assert '<td style="text-align:left">lengths</td>' in results._repr_html_()  # what a notebook shows


def test_an_object_without_identity_is_not_resumed(tmp_path, bread):
    """An encoder object without identity is encoded in each run, and only the corpus stays; one with an identity is kept."""

    class Counting(Length):
        calls = 0

        def encode_document(self, texts):
            Counting.calls += 1
            return super().encode_document(texts)

    class Known(Counting):
        def identity(self):
            return json.loads('{"weights": 1}')

    lexbench.run(bread, [Counting()], store=tmp_path)
    once, Counting.calls = Counting.calls, 0
    lexbench.run(bread, [Counting()], store=tmp_path)
    assert Counting.calls == once > 0
    assert {path.parts[len(tmp_path.parts)] for path in tmp_path.rglob("*.json")} == {"corpora", "places"}

    lexbench.run(bread, [Known()], store=tmp_path)
    Counting.calls = 0
    lexbench.run(bread, [Known()], store=tmp_path)
    assert Counting.calls == 0


def test_an_interrupted_object_starts_anew(tmp_path, bread, monkeypatch):
    """An object that was interrupted while encoding may have changed: its old vectors are not used."""
    monkeypatch.setattr("lexbench.encodings.shards.SHARD", 32)
    monkeypatch.setattr("lexbench.plugins._BATCH", 4)

    class Growing(Length):
        factor, calls = 1.0, 0

        def encode_document(self, texts):
            self.calls += 1
            if self.calls == 18:  # in the second shard
                raise KeyboardInterrupt
            return super().encode_document(texts) * self.factor

    encoder = Growing()
    with pytest.raises(KeyboardInterrupt):
        lexbench.run(bread, [encoder], store=tmp_path)
    assert list((tmp_path / "sessions").iterdir()) == []
    assert not (tmp_path / "encodings").exists()

    encoder.calls, encoder.factor = 100, 2.0
    again = lexbench.run(bread, {"grown": encoder}, store=tmp_path)
    assert len(again) == 1


def test_the_command_that_repeats_a_job_has_all_its_options():
    """The command that repeats a failed job has the suite file, measures and depth."""
    plan = plan_suite(suite_named("beir"), ["bm25"], ["beir/nq"], ["R@100"], 200, "my suites/beir.toml")

    assert plan.jobs[0].command == "lexbench run suite 'my suites/beir.toml' -m R@100 --depth 200 -d beir/nq -r bm25"


@pytest.mark.usefixtures("bread_suite")
def test_results_are_compared_and_published_like_in_a_shell(tmp_path, capsys, monkeypatch):
    """Methods give what `run --results`, `compare` and `leaderboard --copy latex` give for the same work in another store."""
    systems = {"a b": "bm25(k1=1.2)", "bm25": "bm25"}
    found = lexbench.run("bread", systems, datasets=["bread/test"], measures=["nDCG@10"], store=tmp_path / "python", depth=10)
    found.save(tmp_path / "mine")
    page = found.leaderboard(tmp_path / "mine")

    monkeypatch.setenv("LEXBENCH_STORE", str(tmp_path / "shell"))
    typed = [word for name, one in systems.items() for word in ("-r", f"{name} = {one}")]
    shell = tmp_path / "shell results"
    options = ["-d", "bread/test", "-m", "nDCG@10", "--depth", "10", "--results", str(shell)]
    ended(capsys, 0, "run", "suite", "bread", *options, *typed)
    assert page == tmp_path / "mine" / "index.html"
    assert page.is_file()
    for one in found:
        files = [folder / "results" / "bread" / f"{file_name(one.system)}.json" for folder in (tmp_path / "mine", shell)]
        (ours,), (theirs,) = (load(file, SystemResults).results for file in files)
        nothing = Measurement()
        assert msgspec.structs.replace(ours, measured=nothing) == msgspec.structs.replace(theirs, measured=nothing)

    comparison = answer(capsys, "compare", "bm25", "a b", "--json")
    ours = json.loads(msgspec.json.encode(found.compare("bm25")))
    assert ours["datasets"] == comparison["datasets"]
    latex = ended(capsys, 0, "leaderboard", "--results", shell, "--copy", "latex", "--baseline", "bm25").out
    assert found.to_latex(baseline="bm25").splitlines() == latex.splitlines()
    with pytest.raises(UnknownName, match="no system in these results: 'bm'; did you mean 'bm25'"):
        found.compare("bm")


def test_a_comparison_shows_itself(tmp_path):
    """A comparison is a table in a notebook and in text, also of objects, and of data without a suite."""
    data = {"corpus": {"d1": "red fox", "d2": "car"}, "queries": {"q": "red"}, "qrels": {"q": {"d1": 1}}}
    found = lexbench.run(data, {"lengths": Length(), "bm25": "bm25"}, store=tmp_path)
    compared = found.compare("bm25")

    assert compared.systems == ["bm25", "lengths"]
    assert "B  lengths" in str(compared)
    assert ">B  lengths</td>" in compared._repr_html_()
    assert list(compared.to_pandas()["system"]) == ["bm25", "lengths"]
    assert "lengths" in found.to_latex()


def test_a_comparison_has_the_queries_of_the_data_that_was_just_run(tmp_path):
    """Queries that changed are shown with their texts, also of data in memory."""
    data = {"corpus": {"d1": "red fox", "d2": "blue car"}, "queries": {"q": "red one"}, "qrels": {"q": {"d1": 1}}}
    found = lexbench.run(data, {"bm25": "bm25", "wrong": lambda queries, k: {q: ["d2", "d1"] for q in queries}}, store=tmp_path)
    shown = str(found.compare("bm25"))
    assert "q: red one" in shown
    assert "were not found" not in shown


@pytest.mark.parametrize("given", [len, 5, None])
def test_a_measure_that_is_no_text_is_one_line(given):
    """A built-in function or number in place of a measure is refused, also where a suite's commands are written out."""
    with pytest.raises(NotationError, match="is no text"):
        lexbench.run("pydoc", ["bm25"], measures=[given])


def test_a_system_that_is_given_twice_is_run_once(tmp_path):
    """`-r bm25 -r bm25` is one job, also in another spelling; two systems of one name are refused."""
    assert [job.system for job in lexbench.plan("pydoc/test", ["bm25", "bm25()", "bm25"], store=tmp_path).jobs] == ["bm25"]
    with pytest.raises(CommandError, match="two systems are called 'a'"):
        lexbench.plan("pydoc/test", ["a = bm25", "a = bm25(k1=2.0)"], store=tmp_path)
