"""Cost is what was spent: every attempt, no token twice, and nothing that was not seen as zero."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import scoreatpercentile
from synthetic_run import STARTED, call, synthetic_run

from pytest_dshmem.record.entries import Call, Usage
from pytest_dshmem.report.ledger import PHASES, Ledger, WorkItem, account, ledger, percentile_90
from pytest_dshmem.report.reading import read_run

JOURNALS = {
    "ingestion": "ingestion.jsonl",
    "consolidation": "consolidation.jsonl",
    "qa": "qa.jsonl",
    "judge": "judge.jsonl",
}
TOKEN_CLASSES = ("input", "cache_read", "cache_write", "output")

counts = st.integers(min_value=0, max_value=10**9)
usages = st.builds(
    Usage,
    input=counts,
    cache_read=counts,
    cache_write=counts,
    output=counts,
    reasoning=st.none() | counts,
)
calls = st.builds(
    Call,
    purpose=st.just("qa"),
    model=st.just("any"),
    started_at=st.just(STARTED),
    seconds=st.integers(0, 1000).map(float),
    finish=st.just("end_turn"),
    failure=st.none() | st.just("SERVER"),
    usage=st.none() | usages,
)
work = st.builds(
    WorkItem,
    calls=st.lists(calls, max_size=4).map(tuple),
    seconds=st.integers(0, 1000).map(float),
    tool_seconds=st.integers(0, 1000).map(float),
    attempts=st.integers(1, 3),
    unseen=st.integers(0, 1),
)


def spent(folder: Path, **how: Any) -> Ledger:
    synthetic_run(folder, **how)
    return ledger(read_run(folder))


def raw_calls(folder: Path, journal: str) -> list[dict[str, Any]]:
    lines = (folder / journal).read_text(encoding="ascii").splitlines()
    return [call for line in lines for call in json.loads(line)["calls"]]


@pytest.mark.parametrize("phase", PHASES)
def test_totals_of_a_phase_are_the_sums_over_its_journal(tmp_path: Path, phase: str) -> None:
    found = spent(tmp_path / "run", trouble=True, repeats=2).phases[phase]  # type: ignore[index]
    recorded = raw_calls(tmp_path / "run", JOURNALS[phase])
    usages = [call["usage"] for call in recorded if call["usage"] is not None]
    assert found.calls.total == len(recorded) > 0
    assert found.failed.total == sum(call["failure"] is not None for call in recorded)
    for name in (*TOKEN_CLASSES, "reasoning"):
        assert getattr(found, name).total == sum(usage[name] for usage in usages) > 0
    assert found.tokens.total == sum(usage[name] for usage in usages for name in TOKEN_CLASSES)
    assert found.model_seconds.total == pytest.approx(math.fsum(call["seconds"] for call in recorded))


def test_the_whole_is_the_sum_of_the_phases_and_of_the_conditions(tmp_path: Path) -> None:
    whole = spent(tmp_path / "run", trouble=True)
    reading = read_run(tmp_path / "run")
    conditions = [ledger(reading.narrowed(condition)) for condition in reading.conditions]
    assert len(conditions) == 2
    for name in ("calls", "failed", *TOKEN_CLASSES, "reasoning", "tokens", "seconds"):
        total = getattr(whole.whole, name).total
        assert total > 0
        assert total == pytest.approx(sum(getattr(phase, name).total for phase in whole.phases.values()))
        assert total == pytest.approx(sum(getattr(part.whole, name).total for part in conditions))


@given(st.lists(work, max_size=6))
def test_tokens_are_counted_once_whatever_the_calls(items: list[WorkItem]) -> None:
    found = account(items)
    seen = [call.usage for item in items for call in item.calls if call.usage is not None]
    total = sum(u.input + u.cache_read + u.cache_write + u.output for u in seen)
    classes = [getattr(found, name).total for name in TOKEN_CLASSES]
    assert found.calls.total == sum(len(item.calls) for item in items)
    assert found.unmetered == found.calls.total - len(seen) + sum(item.unseen for item in items)
    assert found.at_least == (found.unmetered > 0)
    if seen:
        assert found.tokens.total == total == sum(classes)
    else:
        nothing = not any(item.calls or item.unseen for item in items)
        assert found.tokens.total == (0 if nothing else None)


@given(st.lists(work, max_size=6))
def test_reasoning_never_changes_the_tokens(items: list[WorkItem]) -> None:
    def silent(call: Call) -> Call:
        usage = call.usage and call.usage.model_copy(update={"reasoning": None})
        return call.model_copy(update={"usage": usage})

    muted = [
        WorkItem(tuple(map(silent, i.calls)), i.seconds, i.tool_seconds, i.attempts, i.unseen) for i in items
    ]
    assert account(muted).tokens == account(items).tokens
    assert account(muted).output == account(items).output


def test_failed_attempts_and_repeated_units_are_part_of_the_cost(tmp_path: Path) -> None:
    qa = spent(tmp_path / "run", trouble=True).phases["qa"]
    assert qa.failed.total == 2
    assert qa.repeated == 1
    assert qa.items == 29
    assert qa.seconds.total == 30 * 3.5


def test_what_nobody_saw_is_at_least_and_never_zero(tmp_path: Path) -> None:
    found = spent(tmp_path / "run", trouble=True)
    assert found.phases["consolidation"].unmetered == 1
    assert found.phases["consolidation"].at_least
    assert found.whole.at_least
    unseen = account([WorkItem((call("qa", metered=False),), 1.0, 0.0, 1, 0)])
    assert unseen.tokens.total is None
    assert unseen.tokens.median is None
    assert unseen.at_least


def test_a_run_without_trouble_is_metered_in_full(tmp_path: Path) -> None:
    found = spent(tmp_path / "run")
    assert not found.whole.at_least
    assert found.whole.failed.total == 0


def test_reasoning_that_no_provider_tells_is_unknown() -> None:
    usage = Usage(input=3, output=4)
    mute = call("qa").model_copy(update={"usage": usage})
    found = account([WorkItem((mute,), 1.0, 0.0, 1, 0)])
    assert found.reasoning.total is None
    assert found.tokens.total == 7


def test_the_cost_of_a_question_with_and_without_its_share_of_forming(tmp_path: Path) -> None:
    found = spent(tmp_path / "run", conditions=("memory-consolidate",))
    alone, together = found.question, found.question_with_formation
    assert alone is not None
    assert together is not None
    # a question makes calls of size 1 and 2, a session of size 3 and 1 and its consolidation of size 2:
    # 460 tokens a size; four sessions serve twelve questions
    assert alone.tokens == 460 * 3
    assert together.tokens == 460 * 3 + 460 * 6 * 4 / 12
    assert alone.seconds == 3.5
    assert together.seconds == pytest.approx(3.5 + (7.0 + 4.0) * 4 / 12)


def test_judging_is_not_part_of_the_cost_of_a_question(tmp_path: Path) -> None:
    judged = spent(tmp_path / "judged").question_with_formation
    assert judged == spent(tmp_path / "unjudged", judged=False).question_with_formation


def test_a_run_in_which_nothing_was_asked_has_no_cost_of_a_question(tmp_path: Path) -> None:
    run = synthetic_run(tmp_path / "run", judged=False)
    run.hypotheses.path.unlink()
    found = ledger(read_run(tmp_path / "run"))
    assert found.question is None
    assert found.phases["qa"].calls.total == 0
    assert found.phases["qa"].calls.median is None


def test_time_at_work_counts_what_happens_at_once_only_once(tmp_path: Path) -> None:
    # all records start in the same moment, and the longest is a formation of 25 s
    assert spent(tmp_path / "run", conditions=("memory",)).busy_seconds == 25.0


def test_medians_are_of_items_metered_in_full(tmp_path: Path) -> None:
    qa = spent(tmp_path / "run", conditions=("memory",), trouble=True).phases["qa"]
    assert qa.tokens.median == 3 * 460
    assert qa.calls.p90 == 2


@pytest.mark.parametrize(
    ("values", "expected"), [([7.0], 7.0), ([0.0, 10.0], 9.0), ([float(n) for n in range(11)], 9.0)]
)
def test_the_90th_percentile_is_interpolated(values: list[float], expected: float) -> None:
    assert percentile_90(values) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_the_90th_percentile_agrees_with_scipy(values: list[float]) -> None:
    expected = float(scoreatpercentile(values, 90))
    assert percentile_90(values) == pytest.approx(expected, rel=1e-9, abs=1e-9)
