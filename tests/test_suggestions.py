"""Mistakes by the habits of other tools: each gets one line that ends in a command, and that command works when it is typed."""

import re
import shlex
import shutil
from importlib.util import find_spec

import fruit
import pytest
from tiny import ended, enter, install, run

from lexbench.cli import code
from lexbench.errors import MissingExtra, install_advice
from lexbench.runner.repairs import of_hub, repaired
from lexbench.synonyms import nearest

TYPED = r"""
run good -r BM25
run good -r Bm25
run good -r bm-25
run good -r bm_25
run good -r okapi
run good -r lucene
run good -r 'BM25(k1=0.9)'
run good -r 'bm25(K1=0.9)'
run good -r 'bm25(k=0.9)'
run good -r 'bm25(k1=1,2)'
run good -r 'bm25(k1=1.2'
run good -r 'bm25(k1:1.2)'
run good -r 'bm25 k1=1.2'
run good -r 'bm25[k1=1.2]'
run good -r 'bm25{k1=1.2}'
run good -r 'bm25(k1="1.2")'
run good -r 'bm25(k1=1.2;b=0.5)'
run good -r bm25,bm25@lucene
run good -r 'bm25+bm25(k1=2.0)'
run good -r 'bm25 + bm25(b=0.1)'
run good -r 'bm25>bm25(b=0.1)'
run good -r 'bm25 >> bm25(b=0.1)'
run good -r 'bm25 % 10 >> bm25(b=0.1)'
run good -r 'lexmae_nano+bm25'
run good -r lexmae-nano
run good -r LexMAE_nano
run good -r lexmaenano
run good -r 'lexmae_nano@Impact'
run good -r 'lexmae_nano@impcat'
run good -r 'lexmae_nano|topk(8)@impact'
run good -r 'lexmae_nano|top-k(8)@impact'
run good -r 'lexmae_nano|TopK(8)'
run good -r 'hybrid(bm25, bm25(b=0.1))'
run good -r 'rrf(bm25, bm25(b=0.1))'
run good -r 'Ensemble(bm25, bm25(b=0.1))'
run good -r 'fusion(bm25, bm25(b=0.1))'
run good -r 'ensemble(bm25, bm25(b=0.1), weight=[1, 2])'
run good -r 'ensemble(bm25, bm25(b=0.1), method="rrf")'
run good -r 'ensemble(bm25, bm25(b=0.1), scores="RRF")'
run good -r 'ensemble(bm25, bm25(b=0.1), scores="min-max")'
run good bm25
run good -r bm25 lexmae_nano
run good -s bm25
run good --retriever bm25
run good --retrievers bm25
run good --model bm25
run good --models bm25
run good --systems bm25
run good --method bm25
run good -r bm25 -m ndcg10
run good -r bm25 -m hit@1
run good -r bm25 -m hits@10
run good -r bm25 -m hit_rate@5
run good -r bm25 -m P5
run good -r bm25 -m nDGC@10
run good -r bm25 -m nDCG@ten
run good -r bm25 -m 'nDCG@10,R@100'
run good -r bm25 -m nDCG@10 R@100
run good -r bm25 --metric nDCG@10
run good -r bm25 --metrics nDCG@10
run good -r bm25 --measures nDCG@10
run good -r bm25 -e nDCG@10
run good -r bm25 --output out
run good -r bm25 --out out
run good -r bm25 -o out
run good -r bm25 --output-dir out
run good -r bm25 --save out
run good -r bm25 --result out
run good -r bm25 -k 10 -m nDCG@5
run good -r bm25 --top-k 10 -m nDCG@5
run good -r bm25 --topk 10 -m nDCG@5
run good -r bm25 --k 10 -m nDCG@5
run good -r bm25 --hits 10 -m nDCG@5
run good -r bm25 --limit 10 -m nDCG@5
run good -r bm25 --dryrun
run good -r bm25 --dry_run
run good -r bm25 --Brief
run good -r bm25 --json-output
run good -r bm25 --subset test
run good -r bm25 --qrels test
run ./godo -r bm25
run ./nothere -r bm25
run godo -r bm25
run Good -r bm25
run good/ -r bm25 --split tset
run good/corpus.jsonl -r bm25
run --dataset good -r bm25
run -d good -r bm25
run --data good -r bm25
run data good -r bm25
run datasets good -r bm25
run folder good -r bm25
run suit pydoc -r bm25 --dry-run
run PyDoc -r bm25 --dry-run
run pydoc/tst -r bm25 --dry-run
run scifact -r bm25 --dry-run
run BEIR/scifact -r bm25 --dry-run
run beir-scifact -r bm25 --dry-run
run nfcorpus -r bm25 --dry-run
evaluate good -r bm25
eval good -r bm25
benchmark good -r bm25
bench good -r bm25
search good -r bm25
rnu good -r bm25
Run good -r bm25
compare bm25 tuned -d Good
compare bm25 tuned -d goood
compare bm25 tuned -d pydoc
compare BM25 tuned
compare bm25 tunned
compare bm25 Tuned
compare bm25 vs tuned
compare bm25,tuned
compare -r bm25 -r tuned
compare bm25 tuned --metric nDCG@10
compare bm25 tuned -m ndcg10
compare bm25 tuned --output out
compare bm25 tuned --dataset-id good
diff bm25 tuned
cmp bm25 tuned
reports bm25 tuned
score good.run good
score good.run -q good/qrels/test.tsv
score -r good.run -d good
score good.run --dataset goood
score good.rnu -d good
score good.run -d good --per_query
leaderboard board
leaderboard --results bord
leaderboard -o board
leaderboard --folder board
leaderboard --output board
board --results board
leader-board --results board
audit --results board
audit leaderboard board
list metrics
list index
list runs
ls suites
list
show models
datasets
models
measures
systems
version
-V
-v
help
help run
run help
info
gate --init -d good -r bm25
explain apple bm25 good
explain apple -d good
explain apple -r BM25 -d good
explain -q apple -r bm25 -d good
explain apple --system bm25 --data good
doctor --fix
doctor all
judge good
store ls
store show
gate init good bm25 --file one.toml
export CSV out
export Json out
export csv
export csv -o out
export excel out
gate init -d good -r BM25 --file two.toml
score good.qrels good.run
score -m map good/qrels/test.tsv good.run
score good.run --judgements good.qrels
score good.run --qrels good.qrel
compare good.run good2.run good.qrels
compare good.qrels good.run good2.run
show metrics
show engine
list collections
run good -r 'BM25Retriever(k1=1.2)'
run good -r 'bm25(k1 = 1.2 b = 0.4)'
run good -r 'bm25 -k1 1.2'
run good --bm25
run good -r bm25 --batch-size 32
run good -r bm25 -m 'nDCG@10 R@100'
run good -r bm25 -m recall@k
run good -r bm25 -m Hit_Rate
run good -r bm25 -m MRR@Ten
run good -r bm25 -d good
run good -r bm25 --format json
run good -r bm25 --split
run good -r
compare bm25 tuned --test ttest
compare bm25 tuned --baseline bm25
report bm25 tuned --output out.html
commit
git status
clone good
pull
cache
clean
init
serve board
sweep good -r bm25
plot bm25 tuned
watch good
import good.run
leaderboard --results board --format latex
""".strip().splitlines()
SYSTEMS = ["-r", "bm25", "-r", "tuned = bm25(b=0.1)"]
NEURAL = find_spec("torch") is not None


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    """Make a folder with data, a run, and results of two systems there, which are in a store, too."""
    root = tmp_path_factory.mktemp("suggestions")
    fruit.write(root / "good", split="test")
    (root / "good.run").write_text("qa Q0 a3 1 2.0 t\n")
    (root / "good2.run").write_text("qa Q0 a1 1 2.0 u\n")
    (root / "good.qrels").write_text("qa 0 a3 1\n")
    (root / "colbert.tsv").write_text("qa\ta3\t1\t2.0\n")  # four columns, as judgements have
    with pytest.MonkeyPatch.context() as patch:
        enter(root, patch)
        assert code(["run", "good", *SYSTEMS, "--results", "board"]) == 0
    return root


@pytest.fixture(scope="module")
def playground_with_pydoc(playground, tmp_path_factory):
    """Make another playground, whose store has results on pydoc/test, too: they cost time wherever results are read."""
    root = shutil.copytree(playground, tmp_path_factory.mktemp("pydoc") / "root")
    with pytest.MonkeyPatch.context() as patch:
        enter(root, patch)
        assert code(["run", "pydoc/test", *SYSTEMS, "-m", "nDCG@10"]) == 0
    return root


@pytest.fixture
def place(typed, request, monkeypatch):
    """Enter the playground for what is *typed*, a parameter of the test."""
    enter(request.getfixturevalue("playground_with_pydoc" if "-d pydoc" in typed else "playground"), monkeypatch)


def suggestion(error):
    """Return the words that the message of an error says to type."""
    (line,) = [line for line in error.splitlines() if line.startswith("lexbench: ")]
    found = re.search(r"type: lexbench (.*)$", line)
    assert found, line
    return shlex.split(found[1])


@pytest.fixture(scope="module")
def worked():
    """Return the commands that have worked, because many mistakes have one suggestion."""
    return set()


@pytest.mark.parametrize("typed", TYPED)
@pytest.mark.usefixtures("place")
def test_the_suggestion_works_when_it_is_typed(capsys, worked, typed):
    """The mistake is refused in one line, which ends in a command; the command ends with 0."""
    if "lexmae" in typed.lower() and not NEURAL:
        pytest.skip("models are in the extra neural")
    exit_code, _, error = run(capsys, *shlex.split(typed))

    assert exit_code in (2, 3)
    assert "bug in lexbench" not in error
    if (command := tuple(suggestion(error))) not in worked:
        ended(capsys, 0, *command)
        worked.add(command)


def test_there_are_200_mistakes():
    """The list is long enough to show a rule, not cases."""
    assert len(set(TYPED)) >= 200


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("run good -r 'bm25 % 10 >> bm25(b=0.1)'", "run good -r 'pipeline(bm25, bm25(b=0.1), k=10)'"),
        ("run good -r 'rrf(bm25, bm25(b=0.1))'", "run good -r 'ensemble(bm25, bm25(b=0.1), scores=\"rrf\")'"),
        ("run good -r 'x = BM25(k1=1,2)'", "run good -r 'x = bm25(k1=1.2)'"),
        ("run good -r bm25 -m 'nDCG@10,R@100'", "run good -r bm25 -m nDCG@10 -m R@100"),
        ("run good -r bm25 -m hit@1", "run good -r bm25 -m Success@1"),
        ("run good -r bm25 --output=out", "run good -r bm25 --results out"),
        ("compare bm25 tuned -d pydoc", "compare bm25 tuned -d pydoc/test"),
        ("explain apple bm25 good", "explain apple -r bm25 -d good"),
        ("version", "--version"),
        ("score good.qrels good.run", "score --qrels good.qrels good.run"),
        ("score colbert.tsv good.qrels", "score colbert.tsv --qrels good.qrels"),
        ("score good.run good.run --qrels good.qrels", "compare good.run good.run --qrels good.qrels"),
        ("score good.run good.run -d good", "compare good.run good.run -d good"),
        ("run good -r 'bm25(k1 = 1.2 b = 0.4)'", "run good -r 'bm25(k1 = 1.2, b = 0.4)'"),
        ("run good -r bm25 --format json", "run good -r bm25 --json"),
        ("rm bm25 --dry-run", "store remove bm25 --dry-run"),
    ],
)
@pytest.mark.usefixtures("place")
def test_a_suggestion_means_the_same(capsys, typed, meant):
    """What is suggested does what was meant, not only something that runs."""
    assert suggestion(run(capsys, *shlex.split(typed))[2]) == shlex.split(meant)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("typed", ["compare board board --qrels good.qrels"])
def test_an_option_is_not_suggested_again(capsys, typed):
    """Judgements that were typed in vain get no second option."""
    assert "type:" not in run(capsys, *shlex.split(typed))[2]


def test_names_are_found_without_case_and_punctuation():
    """Equal letters come first, then another tool's word, then parts and similar names."""
    known = ["bm25", "top_k", "beir/scifact/test", "beir/scifact/train", "nano-beir/scifact", "Success", "R"]

    assert nearest("BM-25", known) == ["bm25"]
    assert nearest("TopK", known) == ["top_k"]
    assert nearest("SciFact", known)[0] == "beir/scifact/test"
    assert nearest("hit", known) == ["Success"]
    assert nearest("recall", known) == ["R"]
    assert nearest("qqqq", known) == []


def test_no_repair_is_offered_for_what_cannot_be_read():
    """A text that no rule explains gets no expression, and a valid one none either."""
    assert repaired("bm25", {"bm25"}) == ""
    assert repaired("(((", {"bm25"}) == ""
    assert repaired("what is this", {"bm25"}) == ""
    assert of_hub("naver/splade-v3") == "splade_v3@impact"
    assert of_hub("somebody/colbert-large") == 'late_interaction(model="somebody/colbert-large")'
    assert of_hub("bm25") == ""


def test_the_small_build_of_torch_is_named(monkeypatch):
    """Where torch is missing on Linux, whose build on PyPI is for CUDA, the message names the one for processors."""
    monkeypatch.setattr("sys.platform", "linux")
    assert "type: pip install 'lexbench[neural]'; without a GPU type before it: pip install torch --index-url https://" in str(
        MissingExtra("encoder 'dense'", "torch", "neural")
    )
    assert install_advice("neural", ["transformers"]) == "pip install 'lexbench[neural]'"
    monkeypatch.setattr("sys.platform", "darwin")
    assert install_advice("neural", ["torch"]) == "pip install 'lexbench[neural]'"


@pytest.mark.parametrize(("words", "said"), [
    (("show", "bm25"), "k1: 0.9"), (("show", "pydoc"), "headline: nDCG@10"), (("show", "pydoc/test"), "id: pydoc/test"),
    (("show", "lexmae_nano"), "encoder: sparse_mlm"), (("show", "impact"), "kind: engine"),
    (("show", "datasets", "pydoc/test"), "id:"),
    (("list", "system"), "bm25"), (("list", "Engines"), "impact"), (("list", "pydoc"), "headline: nDCG@10"),
])  # fmt: skip
def test_show_and_list_find_out_what_a_name_is(playground, monkeypatch, capsys, words, said):
    """A kind need not be typed, and may be singular, plural and in capitals."""
    enter(playground, monkeypatch)
    assert said in ended(capsys, 0, *words).out


def test_commands_of_other_packages_are_found(tmp_path, monkeypatch, capsys):
    """An entry point in lexbench.commands is a command; one that does not load costs one line, and never replaces ours."""
    module = "import click\n\n\n@click.command()\ndef command():\n    click.echo('hello')\n"
    lines = ["greet = hello:command", "broken = hello:nothing", "number = hello:click", "run = hello:command"]
    install(tmp_path, "hello", {"lexbench.commands": lines}, hello=module)
    monkeypatch.syspath_prepend(tmp_path)

    assert ended(capsys, 0, "greet").out == "hello\n"
    assert "command 'broken' (hello:nothing) does not load: AttributeError" in ended(capsys, 3, "broken").err
    assert "command 'number' (hello:click) is no command of click" in ended(capsys, 3, "number").err
    assert "Run systems on a suite" in ended(capsys, 0, "run", "--help").out
    assert "greet" in ended(capsys, 0, "--help").out
