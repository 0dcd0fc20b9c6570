"""Gates: whether a run is good enough to pass. Whatever the data, the answer is a result with its reason.

What cannot be decided counts as failed. Conditions without a memory are controls and are not gated, unless
the run has no others.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_dshmem.experiment.statistics import LEVEL, mcnemar_exact
from pytest_dshmem.report.compare import (
    Unit,
    describe_blocking,
    differences_between,
    must_agree,
    pair_up,
    units_of,
)
from pytest_dshmem.report.reading import RunReading


@dataclass(frozen=True, slots=True)
class GateResult:
    """Whether a gate is passed, and why or why not, in a sentence for each condition."""

    passed: bool
    reason: str


def fail_under(reading: RunReading, threshold: float) -> GateResult:
    """Passed where the accuracy (judged right of all judged) is at least `threshold` per cent, 0 to 100.

    Selected questions without a verdict are neither right nor wrong. Where they could pull the accuracy below
    the threshold, the gate cannot be decided.
    """
    return _all_of([_is_high_enough(unit, threshold) for unit in _gated(reading)])


def no_worse_than(
    reading: RunReading, baseline: RunReading, confidence: float = LEVEL, margin: float = 0.0
) -> GateResult:
    """Failed where the data show, with one-sided `confidence`, that the run is worse than the baseline.

    Paired by question: McNemar's exact test, one-sided, on the questions that only one of the two has right.
    A `margin` (share of the pairs, 0 to 1) forgives that many questions that only the baseline has right. The
    statement is about these very questions, so it takes no account of how few histories they come from.

    Questions without a verdict on one side count against the run only where that changes nothing: if it
    would be the one thing that fails it, or if the two cannot be compared, the gate cannot be decided.
    """
    return _all_of([_is_no_worse(unit, baseline, confidence, margin) for unit in _gated(reading)])


def _is_high_enough(unit: Unit, threshold: float) -> GateResult:
    verdicts = unit.verdicts
    selected, judged, right = len(unit.questions), len(verdicts), sum(verdicts.values())
    if not judged:
        return _undecided(unit, "nothing was judged")
    shown = f"{_percent(right / judged)} ({right} of {judged} judged) against {threshold:g} %"
    if 100 * right < threshold * judged:
        return GateResult(False, f"{unit.label}: accuracy {shown}")
    if 100 * right < threshold * selected:
        missing = selected - judged
        return _undecided(
            unit, f"{missing} of {selected} questions have no verdict, and {shown} hangs on them"
        )
    return GateResult(True, f"{unit.label}: accuracy {shown}")


def _is_no_worse(unit: Unit, baseline: RunReading, confidence: float, margin: float) -> GateResult:
    other = _counterpart(unit, baseline)
    if other is None:
        return _undecided(unit, f"the baseline {baseline.path.name} has no condition to compare it with")
    blocking = [d for d in differences_between((other, unit)) if must_agree(d.field)]
    if blocking:
        return _undecided(unit, describe_blocking(blocking))
    pairs = pair_up(other, unit).total
    if not pairs.n:
        return _undecided(unit, "no question was judged in both runs")
    forgiven = math.floor(margin * pairs.n)
    p = _p_worse(pairs.only_a, pairs.only_b, forgiven)
    shown = (
        f"{pairs.only_a} questions lost and {pairs.only_b} won against {baseline.path.name} "
        f"in {pairs.n} pairs ({_forgiven(forgiven)}one-sided exact McNemar p = {p:.3g}, "
        f"confidence {_percent(confidence)})"
    )
    if p <= 1 - confidence:
        return GateResult(False, f"{unit.label}: worse, {shown}")
    lost_at_worst = _lost_without_verdict(other, unit)
    if _p_worse(pairs.only_a + lost_at_worst, pairs.only_b, forgiven) <= 1 - confidence:
        return _undecided(unit, f"{lost_at_worst} questions without a verdict could turn it: {shown}")
    return GateResult(True, f"{unit.label}: not shown to be worse, {shown}")


def _p_worse(lost: int, won: int, forgiven: int) -> float:
    return mcnemar_exact(max(0, lost - forgiven), won, "a-better")


def _forgiven(count: int) -> str:
    return f"{count} lost ones forgiven, " if count else ""


def _lost_without_verdict(baseline: Unit, unit: Unit) -> int:
    """How many more questions would be lost if every missing verdict were the worst for the run."""
    before, after = baseline.verdicts, unit.verdicts
    return sum(
        (question not in before or question not in after)
        and before.get(question, True)
        and not after.get(question, False)
        for question in unit.questions
    )


def _gated(reading: RunReading) -> Sequence[Unit]:
    units = units_of([reading])
    return [unit for unit in units if unit.reading.formations] or units


def _counterpart(unit: Unit, baseline: RunReading) -> Unit | None:
    candidates = _gated(baseline)
    same = [candidate for candidate in candidates if candidate.group == unit.group]
    if same:
        return same[0]
    return candidates[0] if len(candidates) == 1 else None


def _undecided(unit: Unit, why: str) -> GateResult:
    return GateResult(False, f"{unit.label}: cannot be decided: {why}")


def _all_of(results: Iterable[GateResult]) -> GateResult:
    results = tuple(results)
    if not results:
        return GateResult(False, "cannot be decided: the run selected no question")
    deciding = [result for result in results if not result.passed] or results
    return GateResult(all(result.passed for result in results), "; ".join(r.reason for r in deciding))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
