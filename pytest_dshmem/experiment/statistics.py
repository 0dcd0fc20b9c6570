"""Intervals, paired comparison and spread, with the standard library alone.

Proportions are fractions of one; a level of 0.95 means a 95 % interval. Where the data allow no interval the
result is a NoInterval with the reason, never an interval of zero width that would look like certainty.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Literal

LEVEL = 0.95
POWER = 0.80

Alternative = Literal["two-sided", "a-better", "b-better"]


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float
    level: float
    method: str


@dataclass(frozen=True, slots=True)
class NoInterval:
    """Why there is no interval, as the end of a sentence."""

    reason: str


def normal_quantile(level: float) -> float:
    """z such that a standard normal lies in [-z, z] with probability `level`."""
    return NormalDist().inv_cdf((1 + level) / 2)


def t_quantile(level: float, degrees: int) -> float:
    """t such that Student's t with `degrees` (1 or more) lies in [-t, t] with probability `level`.

    Bisection on the finite series for whole degrees of freedom, in the angle whose tangent is
    t / sqrt(degrees): Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    if degrees < 1 or not 0 < level < 1:
        raise ValueError("a t quantile needs one degree of freedom or more and a level between 0 and 1")
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        if _t_probability(middle, degrees) < level:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan(low)


def _t_probability(angle: float, degrees: int) -> float:
    odd = degrees % 2
    cosine_squared = math.cos(angle) ** 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(2 + odd, degrees + 1, 2):
        total += term
        term *= (k - 1) / k * cosine_squared
    series = math.sin(angle) * total
    return 2 / math.pi * (angle + series) if odd else series


def wilson_interval(successes: int, n: int, level: float = LEVEL) -> Interval | NoInterval:
    """Wilson's score interval of a proportion, for independent items (Wilson 1927, JASA 22: 209-212)."""
    if n == 0:
        return NoInterval("there are no items")
    z_squared = normal_quantile(level) ** 2
    rate = successes / n
    centre = (rate + z_squared / (2 * n)) / (1 + z_squared / n)
    half = math.sqrt(z_squared * (rate * (1 - rate) + z_squared / (4 * n)) / n) / (1 + z_squared / n)
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Interval(low, high, level, "Wilson")


def cluster_interval(
    values: Sequence[tuple[str, int]], level: float = LEVEL, bounds: tuple[float, float] = (0.0, 1.0)
) -> Interval | NoInterval:
    """Interval of the mean of (cluster, whole number) pairs, for items that are alike within a cluster.

    With G clusters, n items, mean m and r_g the sum of (x - m) over cluster g, the variance of the mean is
    G / (G - 1) * sum(r_g ** 2) / n ** 2 and the quantile is Student's with G - 1 degrees of freedom
    (Liang and Zeger 1986, Biometrika 73: 13-22; Cameron and Miller 2015, J. Human Resources 50: 317-372).
    The interval is cut at `bounds`. With few clusters it is wide, and still somewhat too narrow.
    """
    sums: defaultdict[str, int] = defaultdict(int)
    sizes: defaultdict[str, int] = defaultdict(int)
    for cluster, value in values:
        sums[cluster] += value
        sizes[cluster] += 1
    clusters, n, total = len(sizes), len(values), sum(sums.values())
    if n == 0:
        return NoInterval("there are no items")
    if clusters < 2:
        return NoInterval("all items belong to one cluster, which says nothing about others")
    # Residuals times n are whole numbers: whether they all vanish is then a fact, not a matter of rounding.
    squares = sum((sums[cluster] * n - sizes[cluster] * total) ** 2 for cluster in sizes)
    if squares == 0:
        return NoInterval("the clusters do not differ at all, so their spread cannot be estimated")
    error = math.sqrt(clusters / (clusters - 1) * squares) / n**2
    half = t_quantile(level, clusters - 1) * error
    mean = total / n
    method = f"cluster-robust, {clusters} clusters"
    return Interval(max(bounds[0], mean - half), min(bounds[1], mean + half), level, method)


def mcnemar_exact(only_a: int, only_b: int, alternative: Alternative = "two-sided") -> float:
    """p-value of McNemar's exact test: were there no difference, `only_a` would be binomial(n, 1/2).

    `a-better` and `b-better` are the one-sided tests. Without discordant pairs the p-value is 1.
    """
    n = only_a + only_b
    smaller = {"two-sided": min(only_a, only_b), "a-better": only_b, "b-better": only_a}[alternative]
    tail = Fraction(sum(math.comb(n, k) for k in range(smaller + 1)), 2**n)
    return float(min(Fraction(1), 2 * tail if alternative == "two-sided" else tail))


def paired_interval(differences: Sequence[int], level: float = LEVEL) -> Interval | NoInterval:
    """Student's interval of the mean of paired differences (each -1, 0 or 1), for independent pairs."""
    n, total = len(differences), sum(differences)
    if n < 2:
        return NoInterval("it takes two pairs or more")
    scaled_variance = n * sum(d * d for d in differences) - total**2
    if scaled_variance == 0:
        return NoInterval("all pairs differ alike, so their spread cannot be estimated")
    half = t_quantile(level, n - 1) * math.sqrt(scaled_variance / (n * (n - 1)) / n)
    return Interval(max(-1.0, total / n - half), min(1.0, total / n + half), level, "paired t")


def detectable_difference(
    n: int, discordance: float, level: float = LEVEL, power: float = POWER
) -> float | None:
    """The smallest true difference that `n` independent pairs would have shown with this power.

    Solves n * d ** 2 = (z1 * sqrt(p) + z2 * sqrt(p - d ** 2)) ** 2 for d, where p is the share of discordant
    pairs (Connor 1987, Biometrics 43: 207-211). None where even the largest possible difference (d = p: all
    discordant pairs on one side) is too small to be shown.
    """
    z1, z2 = normal_quantile(level), NormalDist().inv_cdf(power)

    def shown(d: float) -> bool:
        return d * math.sqrt(n) >= z1 * math.sqrt(discordance) + z2 * math.sqrt(max(0.0, discordance - d * d))

    if n == 0 or discordance <= 0 or not shown(discordance):
        return None
    low, high = 0.0, discordance
    while low < (middle := (low + high) / 2) < high:
        if shown(middle):
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True, slots=True)
class Pair:
    """One item judged in two runs. Items of one cluster share a history."""

    a: bool
    b: bool
    cluster: str


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Two runs on the same items. `difference` is B's accuracy less A's; `clusters` counts the histories."""

    both_right: int
    only_a: int
    only_b: int
    both_wrong: int
    clusters: int
    p_value: float
    paired: Interval | NoInterval
    clustered: Interval | NoInterval
    detectable: float | None

    @property
    def n(self) -> int:
        return self.both_right + self.only_a + self.only_b + self.both_wrong

    @property
    def difference(self) -> float | None:
        return (self.only_b - self.only_a) / self.n if self.n else None


def compare_pairs(pairs: Iterable[Pair], level: float = LEVEL) -> PairedComparison:
    """Compare two runs item by item. Pass only items that were judged in both."""
    pairs = tuple(pairs)
    differences = [(pair.cluster, pair.b - pair.a) for pair in pairs]
    only_a = sum(pair.a and not pair.b for pair in pairs)
    only_b = sum(pair.b and not pair.a for pair in pairs)
    return PairedComparison(
        both_right=sum(pair.a and pair.b for pair in pairs),
        only_a=only_a,
        only_b=only_b,
        both_wrong=sum(not pair.a and not pair.b for pair in pairs),
        clusters=len({pair.cluster for pair in pairs}),
        p_value=mcnemar_exact(only_a, only_b),
        paired=paired_interval([difference for _, difference in differences], level),
        clustered=cluster_interval(differences, level, bounds=(-1.0, 1.0)),
        detectable=detectable_difference(len(pairs), (only_a + only_b) / len(pairs), level)
        if pairs
        else None,
    )


@dataclass(frozen=True, slots=True)
class Spread:
    """How a figure varies between repeats. `deviation` is None where fewer than three make no trend."""

    n: int
    median: float
    minimum: float
    maximum: float
    deviation: float | None


def spread(values: Sequence[float]) -> Spread | None:
    """Spread of a figure over repeats; None where there are none."""
    if not values:
        return None
    return Spread(
        n=len(values),
        median=statistics.median(values),
        minimum=min(values),
        maximum=max(values),
        deviation=statistics.stdev(values) if len(values) >= 3 else None,
    )
