"""Intervals and tests, against the reference libraries to 1e-9, and at the edges."""

import math
import statistics as standard

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_dshmem.experiment.comparison import describe_comparison
from pytest_dshmem.experiment.statistics import (
    Interval,
    NoInterval,
    Pair,
    cluster_interval,
    compare_pairs,
    detectable_difference,
    mcnemar_exact,
    normal_quantile,
    paired_interval,
    spread,
    t_quantile,
    wilson_interval,
)

CLOSE = 1e-9


def close(value: float) -> object:
    return pytest.approx(value, rel=CLOSE, abs=CLOSE)


def bounds(interval: Interval | NoInterval) -> tuple[float, float]:
    assert isinstance(interval, Interval)
    return interval.low, interval.high


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 9, 10, 31, 100, 499, 1539])
def test_t_quantile(level: float, degrees: int) -> None:
    assert t_quantile(level, degrees) == close(stats.t.ppf((1 + level) / 2, degrees))


@pytest.mark.parametrize(("level", "degrees"), [(0.95, 0), (0.0, 3), (1.0, 3)])
def test_t_quantile_refuses_what_has_none(level: float, degrees: int) -> None:
    with pytest.raises(ValueError, match="t quantile"):
        t_quantile(level, degrees)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_normal_quantile(level: float) -> None:
    assert normal_quantile(level) == close(stats.norm.ppf((1 + level) / 2))


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson(counts: tuple[int, int]) -> None:
    reference = stats.binomtest(*counts, 0.5).proportion_ci(0.95, "wilson")
    low, high = bounds(wilson_interval(*counts))
    assert (low, high) == (close(reference.low), close(reference.high))
    assert 0 <= low <= counts[0] / counts[1] <= high <= 1


def test_wilson_at_the_edges() -> None:
    assert wilson_interval(0, 0) == NoInterval("there are no items")
    assert bounds(wilson_interval(0, 10))[0] == 0
    assert bounds(wilson_interval(10, 10))[1] == 1
    assert bounds(wilson_interval(10, 10))[0] < 0.75


def test_conv_26_alone_shows_a_rate_to_about_seven_points() -> None:
    low, high = bounds(wilson_interval(114, 152))
    assert 0.06 < (high - low) / 2 < 0.07


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 1)), min_size=2, max_size=80))
def test_cluster_interval_is_that_of_the_sandwich_estimator(values: list[tuple[str, int]]) -> None:
    """Against ordinary least squares on a constant with clustered covariance, written with numpy matrices."""
    names, outcomes = [name for name, _ in values], np.array([x for _, x in values], dtype=float)
    groups = sorted(set(names))
    interval = cluster_interval(values, bounds=(-math.inf, math.inf))
    design = np.ones((len(values), 1))
    bread = np.linalg.inv(design.T @ design)
    estimate = (bread @ design.T @ outcomes)[0]
    scores = (outcomes - estimate)[:, None] * design
    sums = np.array([scores[[name == group for name in names]].sum(axis=0) for group in groups])
    if len(groups) < 2 or np.allclose(sums, 0, atol=1e-9):
        assert isinstance(interval, NoInterval)
        return
    variance = (bread @ sums.T @ sums @ bread)[0, 0] * len(groups) / (len(groups) - 1)
    half = stats.t.ppf(0.975, len(groups) - 1) * math.sqrt(variance)
    assert bounds(interval) == (close(estimate - half), close(estimate + half))


def test_cluster_interval_agrees_with_statsmodels() -> None:
    api = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    chance = np.random.default_rng(7)
    groups = chance.integers(0, 10, 400)
    outcomes = (chance.random(400) < 0.5 + 0.04 * groups).astype(int)
    model = api.OLS(outcomes, np.ones(400)).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "df_correction": True}, use_t=True
    )
    low, high = model.conf_int(0.05)[0]
    ours = cluster_interval([(str(group), int(x)) for group, x in zip(groups, outcomes, strict=True)])
    assert bounds(ours) == (close(low), close(high))


def test_one_item_a_cluster_is_the_ordinary_t_interval() -> None:
    values = [1, 0, 0, 1, 1, 1, 0, 1]
    interval = cluster_interval([(str(n), x) for n, x in enumerate(values)], bounds=(-9, 9))
    reference = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert bounds(interval) == (close(reference.low), close(reference.high))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "no items"),
        ([("a", 1), ("a", 0)], "one cluster"),
        ([("a", 1), ("b", 1)], "do not differ"),
        ([("a", 0), ("b", 0)], "do not differ"),
        ([("a", 0), ("a", 1), ("b", 0), ("b", 1)], "do not differ"),
    ],
)
def test_no_cluster_interval_comes_with_its_reason(values: list[tuple[str, int]], reason: str) -> None:
    interval = cluster_interval(values)
    assert isinstance(interval, NoInterval)
    assert reason in interval.reason


def test_a_proportion_stays_within_its_bounds() -> None:
    values = [("a", 1)] * 5 + [("b", 0)] * 5
    assert bounds(cluster_interval(values)) == (0.0, 1.0)


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_the_binomial_test_of_the_discordant_pairs(only_a: int, only_b: int) -> None:
    if only_a + only_b == 0:
        assert mcnemar_exact(0, 0) == 1.0
        return
    n = only_a + only_b
    assert mcnemar_exact(only_a, only_b) == close(stats.binomtest(only_a, n).pvalue)
    for alternative, scipys in [("a-better", "greater"), ("b-better", "less")]:
        p = stats.binomtest(only_a, n, alternative=scipys).pvalue
        assert mcnemar_exact(only_a, only_b, alternative) == close(p)  # type: ignore[arg-type]


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=2, max_size=200))
def test_paired_interval_is_that_of_the_paired_t_test(differences: list[int]) -> None:
    interval = paired_interval(differences)
    if len(set(differences)) == 1:
        assert isinstance(interval, NoInterval)
        return
    reference = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert bounds(interval) == (close(max(-1, reference.low)), close(min(1, reference.high)))


@pytest.mark.parametrize(("n", "discordance"), [(152, 0.2), (1540, 0.2), (1540, 0.05), (500, 0.5)])
def test_the_detectable_difference_needs_just_so_many_pairs(n: int, discordance: float) -> None:
    d = detectable_difference(n, discordance)
    assert d is not None
    z1, z2 = stats.norm.ppf(0.975), stats.norm.ppf(0.8)
    needed = (z1 * math.sqrt(discordance) + z2 * math.sqrt(discordance - d * d)) ** 2 / d**2
    assert needed == close(n)


def test_the_detectable_difference_is_found_in_four_of_five_trials() -> None:
    n, discordance = 500, 0.3
    d = detectable_difference(n, discordance)
    assert d is not None
    chance = np.random.default_rng(11)
    shares = [(discordance - d) / 2, (discordance + d) / 2, 1 - discordance]
    only_a, only_b, _ = chance.multinomial(n, shares, size=4000).T
    z = np.abs(only_a - only_b) / np.sqrt(only_a + only_b)
    assert np.mean(z > stats.norm.ppf(0.975)) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(("n", "discordance"), [(0, 0.2), (100, 0.0), (10, 0.1)])
def test_too_little_data_detects_nothing(n: int, discordance: float) -> None:
    assert detectable_difference(n, discordance) is None


def test_spread_makes_no_trend_of_less_than_three() -> None:
    assert spread([]) is None
    two = spread([0.5, 0.7])
    assert two is not None
    assert (two.n, two.median, two.minimum, two.maximum, two.deviation) == (2, 0.6, 0.5, 0.7, None)
    values = [0.5, 0.7, 0.62]
    three = spread(values)
    assert three is not None
    assert three.deviation == close(standard.stdev(values))


def pairs(both_right: int, only_a: int, only_b: int, both_wrong: int, clusters: int = 10) -> list[Pair]:
    outcomes = (
        [(True, True)] * both_right
        + [(True, False)] * only_a
        + [(False, True)] * only_b
        + [(False, False)] * both_wrong
    )
    return [Pair(a, b, str(number % clusters)) for number, (a, b) in enumerate(outcomes)]


def test_a_comparison_counts_every_pair_once() -> None:
    comparison = compare_pairs(pairs(70, 5, 20, 57))
    counts = (comparison.both_right, comparison.only_a, comparison.only_b, comparison.both_wrong)
    assert counts == (70, 5, 20, 57)
    assert (comparison.n, comparison.clusters) == (152, 10)
    assert comparison.difference == close(15 / 152)
    assert comparison.p_value == close(stats.binomtest(5, 25).pvalue)
    low, high = bounds(comparison.clustered)
    assert low < 15 / 152 < high


@pytest.mark.parametrize(
    ("counts", "clusters", "said"),
    [
        ((70, 5, 20, 57), 10, ["B is 9.9 points above A", "B is better", "McNemar p = 0.004"]),
        ((70, 20, 5, 57), 10, ["B is 9.9 points below A", "A is better"]),
        ((70, 10, 12, 60), 10, ["do not show which one is better", "smaller one is not ruled out"]),
        ((70, 10, 10, 62), 10, ["B is level with A"]),
        ((70, 5, 20, 57), 3, ["only 3 histories"]),
        ((70, 5, 20, 57), 1, ["about one history"]),
        ((70, 0, 0, 82), 10, ["No question changed sides", "could be shown"]),
        ((0, 0, 3, 0), 3, ["could be shown", "no interval"]),
        ((1, 0, 0, 0), 1, ["Of 1 question judged in both"]),
        ((0, 0, 0, 0), 1, ["nothing can be compared"]),
    ],
)
def test_a_comparison_is_put_in_words(
    counts: tuple[int, int, int, int], clusters: int, said: list[str]
) -> None:
    words = describe_comparison(compare_pairs(pairs(*counts, clusters=clusters)))
    for phrase in said:
        assert phrase in words


@given(st.tuples(*[st.integers(0, 30)] * 4), st.integers(1, 12))
def test_any_comparison_can_be_described(counts: tuple[int, int, int, int], clusters: int) -> None:
    words = describe_comparison(compare_pairs(pairs(*counts, clusters=clusters)), "run a", "run b")
    assert words.endswith(".")
    assert "nan" not in words.split()
