"""What the comparison of two runs on the same items shows, and what it cannot show, in words."""

from pytest_dshmem.experiment.statistics import LEVEL, Interval, NoInterval, PairedComparison

FEW_CLUSTERS = 10
"""Below so many histories a cluster interval is itself uncertain, which is said beside it."""


def describe_comparison(comparison: PairedComparison, a: str = "A", b: str = "B") -> str:
    """A few plain sentences: what was counted, what it shows, and what it could not have shown.

    `a` and `b` are the names by which the two runs are called.
    """
    if comparison.n == 0:
        return f"{a} and {b} have no question that was judged in both: nothing can be compared."
    return " ".join(
        [_counted(comparison, a, b), *_shown(comparison, a, b), _not_shown(comparison), *_caution(comparison)]
    )


def _counted(comparison: PairedComparison, a: str, b: str) -> str:
    return (
        f"Of {_count(comparison.n, 'question')} judged in both, {comparison.both_right} are right in both, "
        f"{comparison.only_a} only in {a}, {comparison.only_b} only in {b}, "
        f"{comparison.both_wrong} in neither."
    )


def _shown(comparison: PairedComparison, a: str, b: str) -> list[str]:
    if comparison.only_a + comparison.only_b == 0:
        return ["No question changed sides: these data show no difference."]
    interval = comparison.clustered if isinstance(comparison.clustered, Interval) else comparison.paired
    sentences = [f"{b} is {_points(comparison.only_b - comparison.only_a, comparison.n)} {a}"]
    if isinstance(interval, Interval):
        sentences[0] += (
            f" ({100 * interval.level:g} % interval {100 * interval.low:+.1f} to {100 * interval.high:+.1f}, "
            f"{interval.method})"
        )
    else:
        sentences[0] += f" (no interval: {interval.reason})"
    sentences[0] += f"; exact McNemar p = {_p_value(comparison.p_value)}."
    sentences.append(_judgement(comparison, interval, a, b))
    return sentences


def _judgement(comparison: PairedComparison, interval: Interval | NoInterval, a: str, b: str) -> str:
    level = interval.level if isinstance(interval, Interval) else LEVEL
    tested = comparison.p_value < 1 - level
    apart = isinstance(interval, Interval) and (interval.low > 0 or interval.high < 0)
    better = b if comparison.only_b > comparison.only_a else a
    if tested and apart:
        return f"That is more than chance would explain: {better} is better on these questions."
    if tested or apart:
        return (
            "Test and interval disagree: the one sees a difference, the other does not, so take it as a hint "
            "and no more."
        )
    return "Chance alone would explain it: these data do not show which one is better."


def _not_shown(comparison: PairedComparison) -> str:
    if comparison.detectable is None:
        return "With so few changed questions no difference, however one-sided, could be shown."
    return (
        f"The smallest true difference that this many questions would have shown in four of five trials is "
        f"about {100 * comparison.detectable:.1f} points; a smaller one is not ruled out."
    )


def _caution(comparison: PairedComparison) -> list[str]:
    if comparison.clusters == 1:
        return ["All questions are about one history: nothing here speaks for other histories."]
    if comparison.clusters < FEW_CLUSTERS:
        return [f"They are about only {comparison.clusters} histories, so the interval is itself uncertain."]
    return []


def _points(net: int, n: int) -> str:
    if net == 0:
        return "level with"
    return f"{abs(100 * net / n):.1f} points {'above' if net > 0 else 'below'}"


def _p_value(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
