"""A run's budget: every call that the journals hold counts, whoever made it, and nothing counts twice."""

from decimal import Decimal
from pathlib import Path

import pytest

from pytest_dshmem.experiment.budget import Budget, Limit
from pytest_dshmem.record.entries import (
    Call,
    Consolidation,
    FormationKey,
    Hypothesis,
    Ingestion,
    QuestionKey,
    Usage,
    Verdict,
)
from pytest_dshmem.record.run_directory import RunDirectory

FORMATION = FormationKey(sample_id="orchard", condition="memory")
QUESTION = QuestionKey(question_id="orchard-q001", condition="memory")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", {"benchmark": "locomo"}, {})


def call(tokens: int, *, model: str = "some-model", failure: str | None = None) -> Call:
    """A call whose tokens are spread over all classes, with reasoning within the output."""
    usage = Usage(input=tokens - 30, cache_read=10, cache_write=5, output=15, reasoning=15)
    return Call(
        purpose="qa",
        model=model,
        started_at=0.0,
        seconds=1.0,
        finish="error" if failure else "end_turn",
        failure=failure,
        usage=None if tokens == 0 else usage,
    )


def ingested(*calls: Call) -> Ingestion:
    return Ingestion(key=FORMATION, session=1, state="ingested", started_at=0.0, seconds=1.0, calls=calls)


def consolidated(*calls: Call, metered: bool = True) -> Consolidation:
    return Consolidation(
        key=FORMATION, session=1, state="committed", metered=metered, started_at=0, seconds=1, calls=calls
    )


def asked(*calls: Call) -> Hypothesis:
    return Hypothesis(
        key=QUESTION, sample_id="orchard", state="answered", started_at=0.0, seconds=1.0, calls=calls
    )


def judged(*calls: Call) -> Verdict:
    return Verdict(key=QUESTION, protocol="p", cache_key="c", state="judged", correct=True, calls=calls)


def test_calls_of_every_phase_count_and_the_limit_itself_is_the_end(run: RunDirectory) -> None:
    budget = Budget(run, Limit(tokens=400))
    run.ingestions.append(ingested(call(100)))
    run.consolidations.append(consolidated(call(100)))
    run.hypotheses.append(asked(call(100)))
    assert budget.why_stop() is None
    run.verdicts.append(judged(call(99)))
    assert budget.why_stop() is None
    run.hypotheses.append(asked(call(50), call(51)))
    assert budget.why_stop() == (
        "the budget of 400 tokens is used up: 500 were counted; "
        "the same command with a larger budget continues"
    )
    assert budget.why_stop() is not None


def test_what_earlier_sessions_and_other_processes_spent_counts_too(run: RunDirectory) -> None:
    run.hypotheses.append(asked(call(300)))
    budget = Budget(run, Limit(tokens=500))
    RunDirectory(run.path).hypotheses.append(asked(call(200)))
    assert budget.why_stop() is not None
    assert Budget(run, Limit(tokens=501)).why_stop() is None


def test_failed_calls_are_no_unmetered_ones_and_unmetered_ones_are_said(run: RunDirectory) -> None:
    run.hypotheses.append(asked(call(0, failure="RATE_LIMIT"), call(100)))
    assert "nobody could meter" not in str(Budget(run, Limit(tokens=100)).why_stop())
    run.consolidations.append(consolidated(metered=False))
    run.hypotheses.append(asked(call(0)))
    reason = Budget(run, Limit(tokens=100)).why_stop()
    assert reason is not None
    assert "100 were counted beside 2 calls or runs that nobody could meter" in reason


def test_money_is_added_up_exactly(run: RunDirectory) -> None:
    limit = Limit(cost=Decimal("0.30"), price=lambda _call: Decimal("0.10"), currency="USD")
    budget = Budget(run, limit)
    run.hypotheses.append(asked(call(100), call(100)))
    assert budget.why_stop() is None
    run.hypotheses.append(asked(call(100)))
    assert budget.why_stop() == (
        "the budget of 0.30 USD is used up: 0.3000 USD were spent; "
        "the same command with a larger budget continues"
    )


def test_a_call_without_a_known_price_stops_the_run(run: RunDirectory) -> None:
    def price(made: Call) -> Decimal | None:
        return None if made.model == "a-plugins-own" else Decimal("0.001")

    budget = Budget(run, Limit(cost=Decimal(5), price=price, currency="USD"))
    run.hypotheses.append(asked(call(100)))
    assert budget.why_stop() is None
    run.consolidations.append(consolidated(call(100, model="a-plugins-own")))
    reason = budget.why_stop()
    assert reason is not None
    assert "cannot be known" in reason
    assert "a-plugins-own" in reason


def test_without_a_limit_in_money_prices_are_not_asked_for(run: RunDirectory) -> None:
    def price(_made: Call) -> Decimal | None:
        raise AssertionError

    run.hypotheses.append(asked(call(100)))
    assert Budget(run, Limit(tokens=1_000, price=price)).why_stop() is None


def test_the_first_limit_that_is_reached_is_the_reason(run: RunDirectory) -> None:
    limit = Limit(tokens=50, cost=Decimal(1), price=lambda _call: Decimal(2), currency="EUR")
    run.hypotheses.append(asked(call(100)))
    assert "tokens" in str(Budget(run, limit).why_stop())
    only_money = Limit(tokens=500, cost=limit.cost, price=limit.price, currency="EUR")
    assert "EUR" in str(Budget(run, only_money).why_stop())
