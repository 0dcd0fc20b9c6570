"""A run does not go on trying when nothing works any more."""

from pytest_dshmem.experiment.streak import FailureStreak
from pytest_dshmem.record.entries import Hypothesis, HypothesisState, QuestionKey


def record(state: HypothesisState = "error", reason: str | None = "TRANSPORT: no route") -> Hypothesis:
    key = QuestionKey(question_id="q", condition="memory")
    return Hypothesis(key=key, sample_id="s", state=state, reason=reason, started_at=0.0, seconds=0.0)


def test_so_many_failures_of_one_kind_are_a_reason_to_stop() -> None:
    streak = FailureStreak(limit=3)
    assert [streak.note(record()) for _ in range(2)] == [None, None]
    assert streak.note(record()) == "3 questions in a row failed the same way: TRANSPORT: no route"


def test_an_answer_between_them_begins_the_count_anew() -> None:
    streak = FailureStreak(limit=2)
    assert streak.note(record()) is None
    assert streak.note(record("answered", None)) is None
    assert streak.note(record()) is None


def test_failures_of_different_kinds_are_no_streak() -> None:
    streak = FailureStreak(limit=2)
    assert streak.note(record(reason="SERVER: one")) is None
    assert streak.note(record(reason="SERVER: another")) is None


def test_what_the_agent_did_itself_is_no_failure_of_the_endpoint() -> None:
    streak = FailureStreak(limit=1)
    assert streak.note(record("blocked", "too many steps")) is None
    assert streak.note(record("timeout", "no end")) is None
