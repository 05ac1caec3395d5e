"""Tests, intervals, corrections and tie groups, compared with values by hand and scipy."""

import itertools

import numpy as np
import pytest
from scipy import stats

from lexbench.analysis.compare.tables import no_worse
from lexbench.analysis.significance import bootstrap, randomisation, resolution
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
@pytest.mark.parametrize("function", [randomisation.p_value, bootstrap.p_value, bootstrap.interval])
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


def test_under_the_null_hypothesis_p_is_below_5_percent_in_5_percent_of_cases():
    """Of 1,000 pairs of equal systems, 5 % have a significant difference: 50 +- 4 x 6.9 of them."""
    rng = np.random.default_rng(7)
    found = [randomisation.p_value(rng.normal(0, 0.3, 25), resamples=999, seed=at) for at in range(1000)]

    assert 23 <= sum(p <= 0.05 for p in found) <= 77  # (1000 x .05 x .95)^(1/2) = 6.9


def test_holm_by_hand():
    """Of four, the smallest is multiplied by 4 and the next by 3; the result never decreases and is at most 1."""
    assert randomisation.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert randomisation.holm([0.9, 0.6]) == [1.0, 1.0]
    assert randomisation.holm([]) == []


def test_queries_needed_by_the_randomisation_test_are_those_of_g_power():
    """G*Power's example of a paired t test: half a standard deviation takes 34 pairs."""
    values = np.resize([1.0, -1.0], 34)
    assert randomisation.queries_needed(values, 0.5 * values.std(ddof=1)) == 34


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
    shown = [noninferiority(np.repeat([-1.0, 0.0], [lost, queries - lost]), margin).holds for lost in range(queries // 10)]
    chances = stats.binom.pmf(np.arange(len(shown)), queries, margin)

    assert chances[shown].sum() <= 0.05


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


# ---- the bootstrap with an unseen query ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("queries", "difference"), [(2, 0.3), (5, 0.2), (115, 0.02), (6980, 0.0002)])
def test_p_of_equal_differences_by_hand(queries, difference):
    """If each of n queries differs by d, the unseen one outweighs them with probability (1 + d / .5) ** -n; p is twice that.

    The sum of n exponential variables has the Laplace transform (1 + s) ** -n, and a further one is above x with exp(-x).
    """
    expected = min(1, 2 * (1 + difference / 0.5) ** -queries)

    assert bootstrap.p_value(np.full(queries, difference)) == pytest.approx(expected, rel=0.02)
    assert bootstrap.p_value(np.full(queries, -difference)) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("queries", [4, 30, 115])
def test_p_and_interval_equal_those_of_random_weights(queries):
    """Both equal what 400,000 random weights give, within four standard deviations of these draws and 2 % of p."""
    rng = np.random.default_rng(queries)
    differences = np.where(rng.random(queries) < 0.8, rng.normal(0.04, 0.1, queries), rng.normal(0.3, 0.3, queries))
    weights = rng.dirichlet(np.ones(queries + 1), 400_000)
    drawn = {end: weights @ np.append(differences, end) for end in (-0.5, 0.5)}
    p = min(1, 2 * min(np.mean(drawn[-0.5] <= 0), np.mean(drawn[0.5] >= 0)))
    low, high = np.quantile(drawn[-0.5], 0.025), np.quantile(drawn[0.5], 0.975)

    assert bootstrap.p_value(differences) == pytest.approx(p, rel=0.02, abs=8 * np.sqrt(p / 400_000))
    assert bootstrap.interval(differences) == pytest.approx((low, high), abs=0.01 * (high - low))


def test_an_interval_is_without_0_exactly_if_p_is_below_its_level():
    """For 20 samples and two levels, test and interval agree."""
    rng = np.random.default_rng(3)
    for sample in (rng.normal(0.08, 0.2, 40) for _ in range(20)):
        for level in (0.95, 0.8):
            low, high = bootstrap.interval(sample, level=level)
            assert (low > 0 or high < 0) == (bootstrap.p_value(sample) < 1 - level)


def wins(rng, samples, queries, share, size):
    """Return differences (samples, queries) with mean 0: a *share* of wins of about *size*, and a small loss elsewhere."""
    won = rng.random((samples, queries)) < share
    losses = share * size / (1 - share) * rng.gamma(2, 0.5, (samples, queries))
    return np.where(won, size * rng.uniform(0.5, 1.5, (samples, queries)), -losses)


@pytest.mark.parametrize("queries", [10, 30, 50, 115, 300])
@pytest.mark.parametrize(("share", "size"), [(0.1, 0.5), (0.05, 0.5), (0.02, 0.6)])
def test_skewed_differences_of_mean_0_are_rejected_in_5_percent_of_cases_at_most(queries, share, size):
    """A system that loses a little everywhere and wins rarely is called different in at most 5 % of 400 samples (+- 2 %).

    The randomisation test rejects in up to 80 % of such samples; with wins in 2 % of 50 queries, in more than 25 %.
    """
    samples = wins(np.random.default_rng(queries), 400, queries, share, size)
    low, high = bootstrap.intervals(samples).T

    assert np.mean((low > 0) | (high < 0)) <= 0.05 + 0.02
    if (queries, share) == (50, 0.02):
        assert np.mean([randomisation.p_value(row, resamples=999) <= 0.05 for row in samples[:100]]) > 0.25


@pytest.mark.parametrize("queries", [10, 30, 115])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_intervals_of_scores_contain_the_mean_in_95_percent_of_cases(queries, share):
    """Of 400 samples of scores that are 1 with that probability and else 0, at least 95 % (- 2 %) have the mean inside."""
    scores = (np.random.default_rng(queries).random((400, queries)) < share).astype(float)
    low, high = bootstrap.intervals(scores, unseen=bootstrap.SCORES).T

    assert np.mean((low <= share) & (share <= high)) >= 0.95 - 0.02
    assert low.min() >= 0
    assert high.max() <= 1


def test_without_differences_p_is_1_and_the_interval_contains_0():
    """A system equals itself, also on one query."""
    for queries in (1, 50):
        assert bootstrap.p_value(np.zeros(queries)) == 1.0
        low, high = bootstrap.interval(np.zeros(queries))
        assert low <= 0 <= high


def test_an_unseen_query_counts_on_the_scale_of_the_measure():
    """Differences of scores from 0 to 100 have the p of the same scores from 0 to 1, if the largest is 100."""
    scores = np.append(np.random.default_rng(5).uniform(-0.2, 0.6, 60), 1.0)

    assert bootstrap.p_value(100 * scores) == pytest.approx(bootstrap.p_value(scores))
    assert bootstrap.interval(100 * scores) == pytest.approx(100 * np.array(bootstrap.interval(scores)))


def test_a_macro_mean_has_the_interval_of_independent_datasets():
    """Its standard error is half the root of the summed squares of two datasets' errors, for any sizes and means."""
    rng = np.random.default_rng(11)
    large, small = rng.normal(0.3, 0.2, 20_000), rng.normal(-0.1, 0.3, 8_000)
    low, high = bootstrap.macro_interval([large, small])
    error = np.sqrt(large.var() / 20_000 + small.var() / 8_000) / 2

    assert (low + high) / 2 == pytest.approx((large.mean() + small.mean()) / 2, abs=0.05 * error)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.05)
    assert bootstrap.macro_interval([large]) == pytest.approx(bootstrap.interval(large))


def test_a_macro_test_is_of_the_mean_over_datasets():
    """A gain on one dataset and an equal loss on another, with more queries, are no difference; weights change that."""
    rng = np.random.default_rng(6)
    gain, loss = rng.normal(0.1, 0.1, 100), rng.normal(-0.1, 0.1, 1000)
    gain, loss = gain - gain.mean() + 0.1, loss - loss.mean() - 0.1

    assert bootstrap.macro_p_value([gain, loss]) == 1.0
    assert bootstrap.macro_p_value([gain, loss], [3, 1]) < 0.001
    assert bootstrap.macro_p_value([gain]) == bootstrap.p_value(gain)
    scores = [np.stack([row, np.zeros_like(row)]) for row in (gain, loss)]
    assert bootstrap.pairwise(scores, [3, 1])[0, 1] == pytest.approx(bootstrap.macro_p_value([gain, loss], [3, 1]))


def test_a_stratified_test_is_of_the_macro_mean():
    """Means of stratified values are macro means for any numbers of queries. Signs are drawn within each dataset."""
    large, small = np.array([[0.5] * 300, [0.4] * 300]), np.array([[0.1, 0.2], [0.6, 0.7]])
    values = randomisation.stratified([large, small])
    assert values.mean(axis=1) == pytest.approx([(0.5 + 0.15) / 2, (0.4 + 0.65) / 2])
    assert randomisation.stratified([large, small], [0.75, 0.25]).mean(axis=1) == pytest.approx([0.4125, 0.4625])
    assert randomisation.p_value(values[1] - values[0]) == pytest.approx(0.5, abs=0.02)  # two small queries: 4 combinations


# ---- ranks and resolution --------------------------------------------------------------------------------------------------


def test_ranks_follow_from_the_tests():
    """Of two equal systems and a worse one, the first two have ranks 1 to 2, and the last is third."""
    rng = np.random.default_rng(1)
    good = rng.random(100)
    found = resolution.ranking([np.array([good * 0.2, good, good + rng.normal(0, 0.01, 100)])])

    assert found.ranks == ((3, 3), (1, 2), (1, 2))
    assert found.better.tolist() == [[False] * 3, [True, False, False], [True, False, False]]
    assert found.ps[0, 1] == found.ps[1, 0] < 1e-4


def test_clear_differences_stay_clear_among_many_systems():
    """If each of 26 systems is .03 above the one before on 400 queries, all 325 pairs differ."""
    base = 0.2 * np.random.default_rng(0).random(400)
    found = resolution.ranking([np.array([base + 0.03 * at for at in range(26)])])

    assert found.ranks == tuple((rank, rank) for rank in range(26, 0, -1))
    assert [randomisation.resamples_for(n) for n in (1, 250, 1225)] == [10_000, 10_000, 49_000]


def test_a_detectable_difference_is_found_in_four_of_five_samples():
    """Of 500 samples that vary like the one at hand and have that mean, 80 % (+- 8 %) are significant."""
    rng = np.random.default_rng(4)
    seen = rng.normal(0, 0.2, 80)
    least = resolution.minimum_detectable(seen)
    samples = rng.normal(0, seen.std(ddof=1), (500, 80)) + least

    assert np.mean([bootstrap.p_value(sample) < 0.05 for sample in samples]) == pytest.approx(0.8, abs=0.08)
    assert resolution.minimum_detectable(np.array([0.3])) == np.inf


def test_needed_queries_are_the_fewest_that_detect():
    """With that many queries of the same spread the difference is detectable, with one fewer it is not.

    If nothing varies, (1 + .02 / .5) ** -n is to be .025, which takes 95 queries.
    """
    differences = np.tile(np.random.default_rng(5).normal(0, 0.2, 80), 40)
    needed = resolution.queries_needed(differences[:80], 0.05)
    least = [
        resolution.minimum_detectable(differences[:n] - differences[:n].mean())
        for n in (80 * (needed // 80), 80 * (needed // 80 + 1))
    ]

    assert least[1] < 0.05 < least[0] * 1.01
    assert resolution.queries_needed(differences[:80] * 0, 0.02) == 95


def test_few_queries_and_skewed_differences_are_noted():
    """Twenty-nine queries get a note and thirty do not; one win of .5 in 60 queries decides the difference."""
    even, skewed = np.tile([0.1, -0.1], 30), np.append(np.full(59, -0.01), 0.5)

    assert list(resolution.cautions("x", {"a": even[:30]})) == []
    assert list(resolution.cautions("x", {"a": even[:29]})) == [
        "x: with 29 queries (fewer than 30) only large differences are significant"
    ]
    (note,) = resolution.cautions("x", {"a": even, "b": skewed})
    assert note == "x: a few queries decide the difference, so more queries may change it: b (skewness up to 7.6)"
