"""Tests, intervals, corrections and tie groups, compared with values by hand and scipy."""

import itertools

import numpy as np
import pytest
from scipy import stats

from lexbench.analysis.compare.tables import no_worse
from lexbench.analysis.significance import bootstrap, randomisation
from lexbench.analysis.significance.cautions import cautions, skewness
from lexbench.analysis.significance.noninferiority import fewest_queries, lower_bound, noninferiority

RESAMPLES = 10_000


@pytest.fixture(scope="module")
def pairs():
    """Return the differences in nDCG@10 (50,) of every two of five synthetic runs; some queries are hard for all."""
    chance = np.random.default_rng(2)
    hard = chance.normal(0.2, 0.3, 50)
    runs = [np.clip(hard + chance.normal(0.01 * better, 0.15, 50), 0, 1) for better in range(5)]
    return [one - other for one, other in itertools.combinations(runs, 2)]


def test_p_of_few_queries_is_exact():
    """Of eight sign patterns of (1, 2, 3), 6 and -6 are as far from 0: p = 2/8; of sixteen for (3, 1, -1, -1), ten are.

    Without a difference p is 1. The observed signs count as one draw, so it is never 0.
    """
    assert randomisation.p_value(np.array([1.0, 2.0, 3.0])) == 0.25
    assert randomisation.p_value(np.array([3.0, 1.0, -1.0, -1.0])) == 14 / 16
    assert randomisation.p_value(np.array([3.0, 1.0, 1.0, -1.0, 0.0, 0.0])) == 8 / 16
    assert randomisation.p_value(np.zeros(6980)) == 1.0
    assert randomisation.p_value(np.full(100, 0.5)) == 1 / (1 + RESAMPLES)


@pytest.mark.parametrize("values", [[], [0.1, np.nan]])
@pytest.mark.parametrize("function", [randomisation.p_value, bootstrap.interval, bootstrap.difference_interval])
def test_empty_and_infinite_values_are_refused(values, function):
    """No query, or a value that is not finite, is an error."""
    with pytest.raises(ValueError, match="at least one query, and finite values"):
        function(np.array(values))


def test_p_agrees_with_scipy(pairs):
    """For every two runs, p equals scipy's within four standard deviations of two Monte Carlo estimates."""
    for differences in pairs:
        theirs = stats.permutation_test(
            (differences,),
            lambda values, axis: np.abs(values.sum(axis=axis)),
            permutation_type="samples",
            alternative="greater",  # of the absolute mean: scipy's own two-sided p is twice a one-sided one, and noisier
            n_resamples=RESAMPLES,
            random_state=np.random.default_rng(1),
            vectorized=True,
        )
        deviation = np.sqrt(2 * theirs.pvalue * (1 - theirs.pvalue) / RESAMPLES)
        assert randomisation.p_value(differences) == pytest.approx(theirs.pvalue, abs=4 * deviation + 1 / RESAMPLES)


def test_the_interval_agrees_with_scipy(pairs):
    """Both ends equal scipy's within four standard deviations of such percentiles: .15 standard errors of the mean."""
    for differences in pairs:
        theirs = stats.bootstrap(
            (differences,), np.mean, n_resamples=RESAMPLES, method="percentile", random_state=np.random.default_rng(1)
        ).confidence_interval
        error = differences.std(ddof=1) / np.sqrt(len(differences))
        assert bootstrap.interval(differences) == pytest.approx((theirs.low, theirs.high), abs=0.15 * error)


def test_under_the_null_hypothesis_p_is_below_5_percent_in_5_percent_of_cases():
    """Of 1,000 pairs of equal systems, 5 % have a significant difference: 50 +- 4 x 6.9 of them."""
    rng = np.random.default_rng(7)
    found = [randomisation.p_value(rng.normal(0, 0.3, 25), resamples=999, seed=at) for at in range(1000)]

    assert 23 <= sum(p <= 0.05 for p in found) <= 77  # (1000 x .05 x .95)^(1/2) = 6.9


def test_the_interval_of_a_difference_by_hand():
    """With three queries there are 27 resamples: its half width is the 95 % quantile of their distances in standard errors."""
    values = np.array([-0.1, 0.0, 0.4])
    error = values.std() / np.sqrt(2)
    drawn = np.array(list(itertools.product(values, repeat=3)))
    errors = np.maximum(drawn.std(axis=1) / np.sqrt(2), 0.2 * error)
    half = np.percentile(np.repeat(np.abs(drawn.mean(axis=1) - 0.1) / errors, 1000), 95) * error

    assert bootstrap.difference_interval(values) == pytest.approx((0.1 - half, 0.1 + half), rel=0.02)
    assert bootstrap.difference_interval(np.full(5, 0.25)) == (0.25, 0.25)


@pytest.mark.parametrize(("queries", "share"), [(47, 0.1), (113, 0.1), (113, 0.05), (297, 0.02)])
def test_the_interval_of_a_difference_covers_the_mean_if_wins_are_rare(queries, share):
    """A system wins .5 in a *share* of the queries, and loses a little elsewhere: exact, binomial; percentiles cover less."""
    loss = -0.5 * share / (1 - share)
    wins = np.arange(min(queries, 60))
    samples = np.array([np.repeat([0.5, loss], [count, queries - count]) for count in wins])
    chances = stats.binom.pmf(wins, queries, share)

    def covers(intervals):
        return chances[(intervals[:, 0] <= 0) & (intervals[:, 1] >= 0)].sum()

    assert covers(bootstrap.difference_intervals(samples, resamples=2000)) >= 0.95
    assert covers(bootstrap.intervals(samples)) < 0.95


def test_cautions_name_few_queries_and_skewed_differences():
    """Symmetric differences of 30 or more queries have none; the rate that is named falls with the number of queries."""
    rng = np.random.default_rng(0)
    rare = np.where(np.arange(115) < 6, 0.5, -0.03)

    assert list(cautions("x", {"b": rng.normal(0, 0.2, 50)})) == []
    (few,) = cautions("x", {"b": rng.normal(0, 0.2, 29)})
    assert (few.kind, "x has 29 queries" in few.text) == ("test", True)
    (skewed,) = cautions("x", {"b": rng.normal(0, 0.2, 115), "c": rare, "d": rare})
    assert "x: differences are skewed (c and 1 more), and p assumes symmetric ones" in skewed.text
    assert "up to 8 %" in skewed.text
    assert skewness(np.array([0.0, 0.0, 1.0])) == pytest.approx(0.7071, abs=1e-4)  # by hand: 2 ** -0.5
    assert skewness(np.full(4, 0.1)) == 0


def test_a_macro_mean_has_the_interval_of_independent_datasets():
    """Its standard error is half the root of the summed squares of two datasets' errors, for any sizes."""
    rng = np.random.default_rng(11)
    large, small = rng.normal(0.5, 0.2, 2000), rng.normal(0.1, 0.3, 300)
    low, high = bootstrap.macro_difference_interval([large, small])
    error = np.sqrt(large.var() / 2000 + small.var() / 300) / 2

    assert (low + high) / 2 == pytest.approx((large.mean() + small.mean()) / 2, abs=0.05 * error)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.03)


def test_holm_by_hand():
    """Of four, the smallest is multiplied by 4 and the next by 3; the result never decreases and is at most 1."""
    assert randomisation.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert randomisation.holm([0.9, 0.6]) == [1.0, 1.0]
    assert randomisation.holm([]) == []


def test_the_detectable_difference_is_that_of_g_power():
    """G*Power's example of a paired t test: half a standard deviation takes 34 pairs; 33 are too few."""
    pairs = {queries: np.resize([1.0, -1.0], queries) for queries in (33, 34)}
    detectable = {n: randomisation.minimum_detectable(values) / values.std(ddof=1) for n, values in pairs.items()}

    assert detectable[34] < 0.5 < detectable[33]
    assert randomisation.minimum_detectable(np.array([0.3])) == np.inf


def test_no_worse_is_shown_by_the_bound_and_not_by_a_missing_difference():
    """The same small loss is within the margin for many queries, and not shown to be for few."""
    losses = np.random.default_rng(2).normal(-0.001, 0.05, 4000)
    many, few = noninferiority(losses, 0.005), noninferiority(losses[:40], 0.005)

    assert many.holds
    assert losses.mean() - 4 * losses.std() / np.sqrt(4000) < many.bound < losses.mean() - 1.645 * losses.std() / np.sqrt(4000)
    assert not few.holds
    assert randomisation.p_value(losses[:40]) > 0.05
    assert no_worse(0.005, [one.holds for one in (many, many, few)]) == "no worse than .005 on 2 of 3"


@pytest.mark.parametrize("margin", [0.005, 0.02])
@pytest.mark.parametrize("queries", [20, 50, 115, 300, 1000, 3000])
def test_a_loss_of_the_margin_is_called_no_worse_in_5_percent_of_cases_at_most(queries, margin):
    """If one query in 1 / margin loses 1.0, at most 5 % of samples pass (exact, binomial); bootstrap: 78 % at 50 queries."""
    most = min(queries // 10, int(stats.binom.isf(1e-9, queries, margin)) + 1)  # more than these hardly ever lose
    shown = [noninferiority(np.repeat([-1.0, 0.0], [lost, queries - lost]), margin).holds for lost in range(most)]
    chances = stats.binom.pmf(np.arange(len(shown)), queries, margin)

    assert chances[shown].sum() <= 0.05


@pytest.mark.slow
def test_a_bound_covers_the_mean_of_skewed_differences():
    """Of 500 samples of mostly 0 and a few large differences, at most 5 % have a bound above the true mean."""
    rng = np.random.default_rng(8)
    values, weights = np.array([-0.6, -0.1, 0.0, 0.3]), np.array([0.02, 0.03, 0.93, 0.02])
    bounds = [lower_bound(rng.choice(values, 200, p=weights)) for _ in range(500)]

    assert np.mean(np.array(bounds) > values @ weights) <= 0.05


def test_few_queries_show_nothing():
    """Twenty queries without a difference do not show a margin of .005; `fewest_queries` do, and one fewer do not.

    If every query loses 1, the bound is -1.
    """
    fewest = fewest_queries(0.005)

    assert not noninferiority(np.zeros(20), 0.005).holds
    assert noninferiority(np.zeros(fewest), 0.005).holds
    assert not noninferiority(np.zeros(fewest - 1), 0.005).holds
    assert noninferiority(np.full(5, -1.0), 0.1).bound == pytest.approx(-1)
    assert fewest >= 598  # (1 - .005) ** 597 is still above .05: no valid test takes fewer


def test_ranks_follow_from_the_tests():
    """Of two equal systems and a worse one, the first two have ranks 1 to 2, the last is third; p is at its floor."""
    rng = np.random.default_rng(1)
    good = rng.random(100)
    found = randomisation.ranking(np.array([good * 0.2, good, good + rng.normal(0, 0.01, 100)]))

    assert found.ranks == ((3, 3), (1, 2), (1, 2))
    assert found.better.tolist() == [[False] * 3, [True, False, False], [True, False, False]]
    assert found.ps[0, 1] == pytest.approx(3 / 10_001) == found.floor


def test_clear_differences_stay_clear_among_many_systems():
    """If each of 26 systems is .02 above the one before, all 325 pairs differ: p is fine enough for Holm."""
    base = np.random.default_rng(0).random(100)
    found = randomisation.ranking(np.array([base + 0.02 * at for at in range(26)]))

    assert found.ranks == tuple((rank, rank) for rank in range(26, 0, -1))
    assert [randomisation.resamples_for(n) for n in (1, 250, 1225)] == [10_000, 10_000, 49_000]


def test_a_stratified_test_is_of_the_macro_mean():
    """Means of stratified values are macro means for any numbers of queries. Signs are drawn within each dataset."""
    large, small = np.array([[0.5] * 300, [0.4] * 300]), np.array([[0.1, 0.2], [0.6, 0.7]])
    values = randomisation.stratified([large, small])
    assert values.mean(axis=1) == pytest.approx([(0.5 + 0.15) / 2, (0.4 + 0.65) / 2])
    assert randomisation.stratified([large, small], [0.75, 0.25]).mean(axis=1) == pytest.approx([0.4125, 0.4625])
    assert randomisation.p_value(values[1] - values[0]) == pytest.approx(0.5, abs=0.02)  # two small queries: 4 combinations


def test_needed_queries_are_the_fewest_that_detect():
    """With that many queries of the same spread the difference is detectable, with one less it is not."""
    differences = np.random.default_rng(5).normal(0, 0.2, 80)
    needed = randomisation.queries_needed(differences, 0.02)
    quantile, deviation = randomisation.student_quantile, differences.std(ddof=1)
    least = [(quantile(0.975, n - 1) + quantile(0.8, n - 1)) * deviation / np.sqrt(n) for n in (needed, needed - 1)]

    assert least[0] <= 0.02 < least[1]
    assert randomisation.queries_needed(differences * 0, 0.02) == 2
