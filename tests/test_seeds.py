"""Several trainings as one system: means and deviations by hand, intervals, and where they are shown."""

from math import sqrt

import msgspec
import pytest
import samples
from scipy.stats import ttest_ind
from tiny import answer, ended

import lexbench
from lexbench.analysis.seeds import as_one, interval_over_seeds, merge_seeds, seed_groups
from lexbench.errors import CannotStart, CommandError, UnknownName
from lexbench.notation import split_list
from lexbench.report.leaderboard import copies
from lexbench.report.leaderboard.markdown import markdown
from lexbench.results import Exposure, Note, Results, write_results

pytestmark = pytest.mark.usefixtures("open_contracts")


def result(system, values, dataset="pydoc/test", **facts):
    """Make a result of an encoder."""
    recipe = {"plugin": "retrievers/encoded", "settings": {"model": system, "length": 256}}
    return samples.result(system, values, dataset, **{"recipe": recipe} | facts)


SEEDS = [result("n42", [0.25, 0.75]), result("n43", [0.5, 1.0]), result("n44", [0.75, 0.0])]  # means .5, .75, .375


def test_a_system_of_seeds_has_means_and_a_deviation():
    """.5, .75 and .375 are .541667 +- .190940; queries have mean values; the common part of the recipes is kept.

    What one seed was trained on counts for all.
    """
    seen = Exposure(status="in-domain", because=["n43 was trained on it"])
    exposures = (Exposure(status="zero-shot"), seen, Exposure(status="zero-shot"))
    seeds = [msgspec.structs.replace(seed, exposure=exposure) for seed, exposure in zip(SEEDS, exposures, strict=True)]
    one = as_one("nano", seeds)
    assert one.exposure == seen

    assert one.means == {"nDCG@10": pytest.approx(1.625 / 3)}
    assert one.per_query == {"nDCG@10": pytest.approx([0.5, 1.75 / 3])}
    deviation = sqrt(sum((mean - 1.625 / 3) ** 2 for mean in (0.5, 0.75, 0.375)) / 2)
    assert one.seeds.deviation("nDCG@10") == pytest.approx(deviation) == pytest.approx(0.190940, abs=1e-6)
    assert one.seeds.systems == {"n42": "", "n43": "", "n44": ""}
    assert one.recipe == {"plugin": "retrievers/encoded", "settings": {"length": 256}}


def test_the_interval_over_seeds_is_welchs():
    """It equals scipy's for two groups, the t interval for a group and a single run, and is None for two runs."""
    one, other = [0.5, 0.75, 0.375], [0.25, 0.5]
    ours = interval_over_seeds(one, other)
    theirs = ttest_ind(one, other, equal_var=False).confidence_interval(0.95)

    assert ours == pytest.approx((theirs.low, theirs.high))
    alone = interval_over_seeds(one, [0.5])  # t of .975 with 2 degrees of freedom is 4.302653
    assert alone == pytest.approx((1 / 24 - 4.302653 * 0.190940 / sqrt(3), 1 / 24 + 4.302653 * 0.190940 / sqrt(3)), abs=1e-5)
    assert interval_over_seeds([0.5], [0.25]) is None
    assert interval_over_seeds([0.5, 0.5], [0.25]) == (0.25, 0.25)


def test_seeds_are_read_by_commas_outside_of_brackets():
    """Commas inside settings and strings do not separate seeds."""
    assert split_list('a, b(k1=1, b=0)@c(x="1,2"),d') == ["a", 'b(k1=1, b=0)@c(x="1,2")', "d"]
    assert seed_groups(["nano = bm25(k1=1, b=0), bm25"]) == {"nano": ["bm25(k1=1, b=0)", "bm25"]}


@pytest.mark.parametrize("text", ["nano", "nano = a", "nano = a, ", "nano = a, a", "= a, b"])
def test_malformed_seeds_are_refused(text):
    """A group has a name and at least two different members."""
    with pytest.raises(CommandError):
        seed_groups([text])


def test_members_that_are_not_of_one_system_are_refused():
    """Members must have results on the same queries; a system of seeds cannot be a seed."""
    with pytest.raises(UnknownName, match="n45"):
        merge_seeds(Results(SEEDS), {"nano": ["n42", "n45"]})
    with pytest.raises(CannotStart, match="n42 and n43 are not comparable on pydoc/test"):
        as_one("nano", [SEEDS[0], result("n43", [0.5])])
    with pytest.raises(CannotStart, match="one system twice"):
        as_one("nano", [SEEDS[0], SEEDS[0]])
    with pytest.raises(CannotStart, match="itself a mean over seeds"):
        as_one("nano", [as_one("nano", SEEDS), SEEDS[0]])


def test_compare_takes_seeds_as_one_and_explains_its_test(store, tmp_path, capsys):
    """A against the mean of three: by hand +.0417 with p 1, because one query gains and one loses; and the t interval."""
    write_results([result("bm25", [0.5, 0.5]), *SEEDS], "pydoc", tmp_path / "saved")
    words = ["compare", "bm25", "--seeds", "nano = n42, n43, n44", "--results", "saved", "-d", "pydoc/test"]

    found = answer(capsys, *words, "--json")
    assert found["systems"] == ["bm25", "nano"]
    (on,) = found["datasets"]
    deviations = [(score["seeds"], score["deviation"]) for score in on["scores"]]
    assert deviations == [(1, None), (3, pytest.approx(0.190940, abs=1e-6))]
    (difference,) = on["differences"]
    assert difference["difference"] == pytest.approx(1 / 24)
    assert (difference["wins"], difference["ties"], difference["losses"]) == (1, 1, 0)
    assert difference["over_seeds"] == pytest.approx([-0.432655, 0.515988], abs=1e-5)
    out = ended(capsys, 0, *words).out
    assert "over seeds" in out
    assert "with these very models" in out
    assert max(map(len, out.splitlines())) <= 100


def test_a_run_takes_seeds_as_one(store, bread_suite, tmp_path, capsys):
    """Two of three BM25 settings as seeds are one row with +-, on screen, in the folder, and on the page."""
    words = ["run", "suite", "bread", "-d", "bread/test", "-m", "nDCG@10"]
    words += ["-r", "bm25", "-r", "one = bm25(k1=1.2)", "-r", "two = bm25(b=0.1)"]
    bm25, both = answer(capsys, *words, "--seeds", "both = one, two", "--results", "saved", "--json")["results"]

    assert (bm25["system"], both["system"]) == ("bm25", "both")
    assert both["means"]["nDCG@10"] == pytest.approx(sum(both["seeds"]["means"]["nDCG@10"]) / 2)
    assert sorted(path.stem for path in (tmp_path / "saved" / "results" / "bread").iterdir()) == ["bm25", "both"]
    board = lexbench.leaderboard(tmp_path / "saved").board
    page = markdown(board)
    assert f"±{abs(both['seeds']['means']['nDCG@10'][0] - both['seeds']['means']['nDCG@10'][1]) / sqrt(2):.4f}" in page
    command = " ".join(board.suites[0].command.replace("\\\n", "").split())
    assert "-r 'one = bm25(k1=1.2)' -r 'two = bm25(b=0.1)' -r bm25 --seeds 'both = one, two'" in command
    assert r"$\pm$" in copies.latex(copies.view(board))
    assert "±" not in copies.comma_separated(copies.view(board))
    assert "three" in ended(capsys, 3, *words, "--seeds", "both = one, three").err


def test_a_note_of_all_seeds_is_there_once():
    """What every seed says is said once; what some say names these."""
    common, own = Note("model", "texts are cut"), Note("index", "5 weights were clipped")
    seeds = [
        msgspec.structs.replace(SEEDS[at], notes=notes) for at, notes in enumerate(([common, own], [common], [own, common]))
    ]
    assert as_one("nano", seeds).notes == [common, Note("index", "n42, n44: 5 weights were clipped")]
