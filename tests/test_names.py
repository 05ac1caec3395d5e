"""Names that users give to systems: every printed name can be typed back in every command."""

import json
import shlex

import fruit
import pytest
from tiny import ended, run

import lexbench
from lexbench.analysis.compare.result_choice import select
from lexbench.analysis.stored_results import definition, stored_results
from lexbench.cli import code
from lexbench.errors import CommandError, NotationError
from lexbench.notation import split_name
from lexbench.results import SystemResults, file_name, files_of, load
from lexbench.retrievers.bm25 import BM25
from lexbench.runner import jobs
from lexbench.storage.store import Store

NAMES = {
    "splade-tiny": "bm25(b=0.1)",
    "BM25 (b = .12), it's": "bm25(b=0.12)",
    'ä|ö/nano "50%" [x] k=3': "bm25(b=0.13)",
    ":( <b>*_`\\": "bm25(b=0.15)",
}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Return a folder for a store and a folder of results."""
    return tmp_path_factory.mktemp("names")


@pytest.fixture
def board(places, bread_suite, monkeypatch):
    """Use the store with a system of each name on bread, which the first test runs, and return the folder of results."""
    monkeypatch.setenv("LEXBENCH_STORE", str(places / "store"))
    monkeypatch.chdir(places)
    if not (places / "board").exists():
        systems = [word for name, expression in NAMES.items() for word in ("-r", f"{name} = {expression}")]
        assert code(["run", "suite", "bread", "-d", "bread/test", "-r", "bm25", *systems, "--results", "board"]) == 0
    return places / "board"


COMMANDS = [
    ["compare", "bm25", "{name}", "--json"],
    ["compare", "bm25", "{name}", "--results", "board", "--json"],
    ["compare", "bm25", "{name}", "--lists", "-d", "bread/test", "--json"],
    ["compare", "--seeds", "both = bm25, {name}", "bm25", "--json"],
    ["score", "{name}", "-d", "bread/test", "--json"],
    ["explain", "sourdough starter", "-d", "bread/test", "-r", "{name}", "--json"],
    ["export", "trec", "out", "-r", "{name}", "--json"],
    ["export", "json", "out", "-r", "{name}", "--results", "board", "--json"],
    ["verify", "bread", "-r", "{name}", "--json"],
    ["exposure", "-r", "{name}", "--json"],
    ["judge", "pool", "bm25", "{name}", "-d", "bread/test", "--json"],
    ["run", "suite", "bread", "-d", "bread/test", "-r", "{name}", "--json"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_every_printed_name_can_be_typed_back(board, capsys, command):
    """Every command takes every name that it or another command printed, and answers for that system alone."""
    for name in NAMES:
        if "--seeds" in command and ("," in name or "[" in name):
            continue  # a comma separates seeds
        exit_code, out, err = run(capsys, *(word.format(name=name) for word in command))

        assert exit_code == (1 if command[0] == "verify" else 0), err  # nothing is published of these systems
        shown = {"export": file_name(name)}.get(command[0], "both" if "--seeds" in command else name)
        assert any(json.dumps(text)[1:-1] in json.dumps(json.loads(out)) for text in (name, shown))


def test_a_second_name_is_the_same_system(board, capsys):
    """A second name, the first name and the expression give the same figures, each under the typed text."""
    assert run(capsys, "run", "suite", "bread", "-d", "bread/test", "-r", "tuned = bm25(b=0.1)")[0] == 0
    found = [json.loads(run(capsys, "compare", "bm25", text, "--json")[1]) for text in ("splade-tiny", "tuned", "bm25(b=0.1)")]

    assert [one["systems"][1] for one in found] == ["splade-tiny", "tuned", "bm25(b=0.1)"]
    assert len({one["datasets"][0]["scores"][1]["mean"] for one in found}) == 1


def test_one_name_of_two_systems_is_refused(store, tmp_path, capsys):
    """A name that was given to two expressions is an error that shows both; the expressions still work."""
    folder = fruit.write(tmp_path / "fruit")
    for expression in ("bm25(b=0.1)", "bm25(b=0.2)"):
        assert run(capsys, "run", folder, "-r", f"mine = {expression}", "-r", "bm25", "-m", "nDCG@10")[0] == 0
    for words in (("compare", "bm25", "mine"), ("score", "mine", "-d", folder), ("run", folder, "-r", "mine")):
        refused = ended(capsys, 2, *words)
        assert "'mine' is the name of several systems: bm25(b=0.1), bm25(b=0.2); type the expression" in refused.err
        assert refused.out == ""
    assert run(capsys, "compare", "bm25", "bm25(b=0.2)")[0] == 0
    ended(capsys, 0, "run", folder, "-r", "bm25 = bm25(b=0.1)", "-m", "nDCG@10")  # the name of another expression
    found = json.loads(ended(capsys, 0, "compare", "bm25", "bm25(b=0.1)", "--json").out)
    assert (found["systems"], found["expressions"]) == (["bm25", "bm25(b=0.1)"], {})


def test_python_takes_remembered_names_and_paths(board, places):
    """`lexbench.run` takes a name of the store like the shell, and refuses names that no table can show."""
    (found,) = lexbench.run("bread/test", [":( <b>*_`\\"], store=places / "store")

    assert (found.system, found.expression) == (":( <b>*_`\\", "bm25(b=0.15)")
    with pytest.raises(NotationError, match="is no name for a system"):
        lexbench.run("pydoc", {"a\nb": "bm25"})


def test_a_folder_called_like_a_system_does_not_hide_it(board, places, capsys):
    """A name that was run comes before a folder of the same name."""
    (places / "bm25").mkdir(exist_ok=True)

    assert json.loads(run(capsys, "compare", "bm25", "splade-tiny", "--json")[1])["systems"] == ["bm25", "splade-tiny"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tuned=bm25(k1=0.8)", ("tuned", "bm25(k1=0.8)")),
        ('A + B=ensemble(bm25, splade(model="a=b"))', ("A + B", 'ensemble(bm25, splade(model="a=b"))')),
        ('splade(model="a=b")@impact', ("", 'splade(model="a=b")@impact')),
        ("BM25 (k1 = .8) = bm25(k1 = 0.8)", ("BM25 (k1 = .8)", "bm25(k1 = 0.8)")),
        ('a = splade(model="x = y")', ("a", 'splade(model="x = y")')),
        ("bm25(k1 = 0.8)", ("", "bm25(k1 = 0.8)")),
        ("bm25(k1 = 0.8", ("", "bm25(k1 = 0.8")),
        ('splade(model="x = y")', ("", 'splade(model="x = y")')),
        ("ensemble(bm25, bm25(b = .3))", ("", "ensemble(bm25, bm25(b = .3))")),
    ],
)
def test_a_name_ends_at_its_equals_sign(text, expected):
    """The = of a setting ends no name; brackets in a name end nothing."""
    assert split_name(text) == expected


@pytest.mark.parametrize("name", ["", "a\nb", "a\tb", "\x1b[31m", "\u202ename", "x" * 101])
def test_names_that_no_table_can_show_are_refused(name):
    """An empty, long or unprintable name is refused."""
    with pytest.raises(NotationError, match="is no name for a system"):
        split_name(f"{name} = bm25")


def test_a_plug_in_keeps_its_name(tmp_path):
    """`-r bm25` is BM25 even if the store has another system of that name; other names are looked up in the store."""
    store = Store(tmp_path)
    store.remember_name("bm25", "bm25(b=0.1)")
    store.remember_name("mine", "bm25(b=0.2)")

    assert [definition(text, store) for text in ("bm25", "mine", "other")] == ["bm25", "mine = bm25(b=0.2)", "other"]


@pytest.mark.usefixtures("bread_suite")
def test_a_name_is_in_results_tables_and_pages(store, tmp_path, capsys):
    """A named system runs once; its name is in tables, files and pages, together with its expression."""
    words = ["run", "suite", "bread", "-d", "bread/test", "--results", str(tmp_path / "board")]
    assert "flat = bm25(b=0.0)" in ended(capsys, 0, *words, "-r", "bm25", "-r", "flat = bm25(b=0.0)").out
    (file,) = [path for path in files_of(tmp_path / "board") if path.stem == "flat"]
    assert (load(file, SystemResults).system, load(file, SystemResults).results[0].expression) == ("flat", "bm25(b=0.0)")

    for text, label in {"flat": "flat", "bm25(b=0.0)": "bm25(b=0.0)", "other = bm25(b=0.0)": "other"}.items():
        (chosen,) = select([text], lambda: stored_results(store), store.names())
        assert (chosen.system, chosen.expression or chosen.system) == (label, "bm25(b=0.0)")

    pages = lexbench.leaderboard(tmp_path / "board").pages()
    assert "flat = bm25(b=0.0)" in pages[tmp_path / "board" / "README.md"].replace("\\", "")
    assert "-r 'flat = bm25(b=0.0)'" in pages[tmp_path / "board" / "reproduce.sh"]

    assert "'flat' is the name of bm25(b=0.0) and of bm25(b=0.9)" in ended(capsys, 2, *words, "-r", "flat = bm25(b=0.9)").err


@pytest.mark.usefixtures("bread_suite", "store")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-r 'x = bm25(k1=1)' -r 'x = bm25(k1=2)'", "two systems are called 'x': bm25(k1=1) and bm25(k1=2); name one"),
        ("-r 'flat = bm25(b=0.9)' -r bm25", "'flat' is the name of bm25(b=0.0) and of bm25(b=0.9); rename one of them"),
        ("-r 'a = bm25(b=0.1)' -r bm25 --seeds 'flat = a, bm25'", "'flat' is the name of bm25(b=0.0) and of flat; rename"),
        (
            "-r bm25 -r 'a = bm25(b=0.1)' --seeds 'bm25 = a, bm25'",
            "--seeds bm25: a system of this run has this name; give another",
        ),
        ("-r bm25 -r 'a = bm25(b=0.1)' --seeds 'x = bm25, bm25()'", "--seeds x: bm25 is given twice; name each seed once"),
        (
            "-r bm25 -r 'a = bm25(b=0.1)' --seeds 'x = a, bm25' --seeds 'y = bm25, a'",
            "--seeds y: bm25 is given twice; name each seed once",
        ),
        ("-r 'bad = bm25(b=0.3)' -r bm25", "bad.json: "),  # a damaged file of results
    ],
)
def test_names_that_clash_are_refused_before_any_work(tmp_path, capsys, monkeypatch, words, said):
    """A name of two systems costs no work: of the command, of a group of seeds, and of results that the folder has."""
    folder = tmp_path / "board"
    ended(capsys, 0, "run", "suite", "bread", "-d", "bread/test", "-r", "flat = bm25(b=0.0)", "--results", str(folder))
    (file,) = files_of(folder)
    file.with_name("bad.json").write_text("{")
    before = {path.name: path.read_bytes() for path in files_of(folder)}
    monkeypatch.setattr(jobs, "run", lambda *_, **__: pytest.fail("work has begun"))
    assert code(["run", "suite", "bread", "-d", "bread/test", *shlex.split(words), "--results", str(folder)]) in (1, 2)

    assert said in capsys.readouterr().err.replace("\n", " ")
    assert {path.name: path.read_bytes() for path in files_of(folder)} == before


@pytest.mark.usefixtures("store")
def test_systems_of_a_program_whose_names_clash_are_refused_before_any_work(monkeypatch):
    """Two objects of one class have one name."""
    monkeypatch.setattr(jobs, "run", lambda *_, **__: pytest.fail("work has begun"))
    with pytest.raises(CommandError, match=r"two systems are called 'BM25': an object and an object; name one"):
        lexbench.run("pydoc/test", [BM25(), BM25(k1=2.0)])


def letters(texts):
    """Return how many letters each text has, as a vector."""
    return [[float(len(text))] for text in texts]


@pytest.mark.parametrize(
    ("name", "given", "what"),
    [
        ("splade_v3", "bm25(k1=2)", "bm25(k1=2)"), ("bm25@lucene", "bm25(k1=2)", "bm25(k1=2)"),
        ("bm25(k1=1.2)", "bm25(k1=2)", "bm25(k1=2)"), ("bm25", letters, "an object"),
        ("lexmae_nano@impact", letters, "an object"), ("lexmae_nano@impact", "lexmae_nano(dtype='int8')@impact", "lexmae_nano"),
    ],
)  # fmt: skip
def test_the_name_of_another_system_is_refused(name, given, what):
    """It would stand for something else in every table, and nobody could type it back."""
    with pytest.raises(CommandError) as raised:
        lexbench.run("pydoc/test", {name: given})
    assert str(raised.value).startswith(f"{name!r} is the name of another system, and this is {what}")
    assert str(raised.value).endswith(f"; give it another name: -r 'my {name} = …', or {{'my {name}': …}} in Python")


@pytest.mark.usefixtures("bread_suite", "store")
@pytest.mark.parametrize("name", ["dense", "sparse_mlm", "ensemble", "flat", "bm25"])
def test_the_name_of_a_plugin_that_is_no_system_is_free(name, tmp_path):
    """No system is called `dense`, so a function can be called that, and so can a system; `bm25` may be a tuned BM25."""
    for board, given in {"b=0.3": "bm25(b=0.3)", "object": letters if name != "bm25" else "bm25(b=0.2)"}.items():
        results = lexbench.run("bread/test", {name: given}, measures=["nDCG@10"], results=tmp_path / board)
        assert results.failures == []
        assert [one.system for one in lexbench.results(tmp_path / board)] == [name]


@pytest.mark.usefixtures("bread_suite", "store")
def test_results_whose_names_clash_are_not_written_in_part(tmp_path):
    """If a name is that of another system, `save` writes no file at all."""
    found = lexbench.run("bread/test", {"a": "bm25", "flat": "bm25(b=0.0)"})
    lexbench.run("bread/test", {"flat": "bm25(b=0.9)"}, results=tmp_path / "board")
    with pytest.raises(CommandError, match=r"'flat' is the name of bm25\(b=0\.0\) and of bm25\(b=0\.9\)"):
        found.save(tmp_path / "board")
    assert [path.stem for path in files_of(tmp_path / "board")] == ["flat"]
