"""Attempts at one question: what counts against it, what is tried again, and what is recorded."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from fake_work import FakeAsker, FakeHome, FakePool, Journal, asked, call, item

from pytest_dshmem.experiment import question_attempts
from pytest_dshmem.experiment.asking import Asked, QuestionLost
from pytest_dshmem.experiment.outcome import RATE_LIMITS_BEFORE_GIVING_UP
from pytest_dshmem.experiment.pressure import PressureGate
from pytest_dshmem.experiment.question_attempts import (
    LOSSES_BEFORE_GIVING_UP,
    Means,
    QuestionAttempts,
)
from pytest_dshmem.experiment.runtime_pool import PoolClosed
from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.record.entries import Hypothesis, HypothesisState, QuestionKey

QUESTION = item("a", 1)
STANDING: tuple[HypothesisState, ...] = ("answered", "empty", "blocked", "max-tokens", "context-overflow")
PASSING: tuple[HypothesisState, ...] = ("error", "timeout", "contaminated")


class Attempt:
    """One question asked with a script of what happens, one step an attempt; the last step repeats."""

    def __init__(self, *script: Callable[[QuestionKey, int], Asked], limit: int = 2) -> None:
        self._script = script
        self.recorded: list[Hypothesis] = []
        self.halted: list[str] = []
        self.stop = threading.Event()
        self.gate = PressureGate(4)
        self.pool: Any = FakePool()
        self.journal = Journal()
        self.asker = FakeAsker(self.journal, self._answer)
        self.limit = limit

    def carry_out(self) -> Hypothesis | None:
        means = Means(
            cast(Any, self.asker),
            self.pool,
            self.gate,
            self.stop,
            self.limit,
            self.recorded.append,
            self._halt,
        )
        attempts = QuestionAttempts(means, QUESTION.question, "a", "group", cast(Any, "snapshot"))
        return attempts.carry_out()

    @property
    def states(self) -> list[str]:
        return [entry.state for entry in self.recorded]

    def _answer(self, key: QuestionKey, attempt: int) -> Asked:
        return self._script[min(attempt, len(self._script)) - 1](key, attempt)

    def _halt(self, reason: str) -> None:
        self.halted.append(reason)
        self.stop.set()


def ends_as(state: HypothesisState, **more: Any) -> Callable[[QuestionKey, int], Asked]:
    return lambda key, attempt: asked(key, attempt, state, **more)


def dies(*calls: Any) -> Callable[[QuestionKey, int], Asked]:
    def die(_key: QuestionKey, _attempt: int) -> Asked:
        raise QuestionLost("a neighbour hung", calls)

    return die


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_attempts, "RATE_LIMIT_PAUSE_SECONDS", 0.0)


@pytest.mark.parametrize("state", STANDING)
def test_what_the_agent_did_itself_stands(state: HypothesisState) -> None:
    attempt = Attempt(ends_as(state))
    entry = attempt.carry_out()
    assert entry is not None
    assert (entry.state, attempt.states) == (state, [state])


@pytest.mark.parametrize("state", PASSING)
def test_what_circumstances_did_is_tried_again(state: HypothesisState) -> None:
    attempt = Attempt(ends_as(state), ends_as("answered"))
    entry = attempt.carry_out()
    assert entry is not None
    assert (entry.state, entry.attempt) == ("answered", 2)
    assert attempt.states == [state, "answered"]


@pytest.mark.parametrize("limit", [1, 2, 4])
@pytest.mark.parametrize("state", PASSING)
def test_it_is_given_up_after_the_attempts_that_are_allowed(state: HypothesisState, limit: int) -> None:
    attempt = Attempt(ends_as(state), limit=limit)
    entry = attempt.carry_out()
    assert entry is not None
    assert entry == attempt.recorded[-1]
    assert [recorded.attempt for recorded in attempt.recorded] == list(range(1, limit + 1))


def test_a_history_that_is_too_long_is_never_asked() -> None:
    attempt = Attempt(ends_as("answered"))
    attempt.asker.too_long.add("a-q1")
    attempt.carry_out()
    assert attempt.states == ["context-overflow"]
    assert attempt.journal.begun == []


def test_a_runtime_that_died_of_something_else_does_not_count_but_its_calls_do() -> None:
    attempt = Attempt(
        dies(call(purpose="first")), dies(), ends_as("answered", calls=(call(purpose="last"),)), limit=1
    )
    entry = attempt.carry_out()
    assert entry is not None
    assert attempt.states == ["answered"]
    assert [made.purpose for made in entry.calls] == ["first", "last"]


def test_a_question_under_which_runtimes_keep_dying_is_given_up() -> None:
    attempt = Attempt(dies(call()), limit=5)
    entry = attempt.carry_out()
    assert entry is not None
    assert attempt.states == ["error"]
    assert entry.reason == f"the runtime died under it {LOSSES_BEFORE_GIVING_UP} times: a neighbour hung"
    assert len(entry.calls) == LOSSES_BEFORE_GIVING_UP


def test_rate_limits_do_not_count() -> None:
    limited = ends_as("error", rate_limited=True)
    attempt = Attempt(limited, limited, limited, ends_as("answered"), limit=1)
    assert attempt.carry_out() == attempt.recorded[-1]
    assert attempt.states == ["error", "error", "error", "answered"]


def test_rate_limits_without_end_do_count_in_the_end() -> None:
    attempt = Attempt(ends_as("error", rate_limited=True), limit=2)
    assert attempt.carry_out() is not None
    assert len(attempt.recorded) == RATE_LIMITS_BEFORE_GIVING_UP + 2


def test_a_fatal_error_is_recorded_and_ends_the_run() -> None:
    attempt = Attempt(ends_as("error", fatal=True), limit=5)
    assert attempt.carry_out() == attempt.recorded[-1]
    assert attempt.states == ["error"]
    assert attempt.halted == ["a-q1: it was error"]


def test_a_home_that_cannot_be_opened_is_an_attempt_that_failed() -> None:
    class NoHomes(FakePool):
        @contextlib.contextmanager
        def for_question(self, _group: str, _snapshot: object) -> Iterator[object]:
            raise HarnessError("DeepSeek Harness did not start: no room")
            yield

    attempt = Attempt(ends_as("answered"))
    attempt.pool = NoHomes()
    entry = attempt.carry_out()
    assert entry is not None
    assert attempt.states == ["error", "error"]
    assert entry.reason == "DeepSeek Harness did not start: no room"


def test_a_run_that_was_stopped_asks_nothing() -> None:
    attempt = Attempt(ends_as("answered"))
    attempt.stop.set()
    assert attempt.carry_out() is None
    assert (attempt.recorded, attempt.journal.begun) == ([], [])


def test_a_question_that_waited_for_its_home_until_the_run_ended_is_not_asked() -> None:
    attempt = Attempt(ends_as("answered"))

    class SlowHomes(FakePool):
        @contextlib.contextmanager
        def for_question(self, _group: str, _snapshot: object) -> Iterator[object]:
            attempt.stop.set()
            yield FakeHome()

    attempt.pool = SlowHomes()
    assert attempt.carry_out() is None
    assert (attempt.recorded, attempt.journal.begun) == ([], [])


def test_a_pool_that_closes_ends_the_attempts() -> None:
    attempt = Attempt(ends_as("answered"))

    class Closing(FakePool):
        @contextlib.contextmanager
        def for_question(self, _group: str, _snapshot: object) -> Iterator[object]:
            attempt.stop.set()
            raise PoolClosed
            yield

    attempt.pool = Closing()
    assert attempt.carry_out() is None
    assert attempt.gate.in_flight == 0


def test_an_interrupted_attempt_is_recorded_with_what_it_had_cost() -> None:
    attempt = Attempt()

    def interrupted(_key: QuestionKey, _attempt: int) -> Asked:
        attempt.stop.set()
        raise QuestionLost("killed", (call(purpose="paid"),))

    attempt._script = (interrupted,)
    entry = attempt.carry_out()
    assert entry is not None
    assert (entry.state, entry.reason) == ("error", "interrupted")
    assert [made.purpose for made in entry.calls] == ["paid"]


def test_what_a_lost_attempt_had_cost_is_recorded_when_the_run_ends_before_the_next() -> None:
    attempt = Attempt(dies(call(purpose="paid")))

    class EndsAtTheSecond(FakePool):
        @contextlib.contextmanager
        def for_question(self, _group: str, _snapshot: object) -> Iterator[object]:
            if attempt.journal.begun:
                attempt.stop.set()
            yield FakeHome()

    attempt.pool = EndsAtTheSecond()
    assert attempt.carry_out() is None
    assert attempt.states == ["error"]
    assert [made.purpose for made in attempt.recorded[0].calls] == ["paid"]


def test_a_question_whose_home_is_lost_while_it_waits_for_its_turn_gets_another() -> None:
    attempt = Attempt(ends_as("answered"))

    class FirstIsLost(FakePool):
        @contextlib.contextmanager
        def for_question(self, _group: str, _snapshot: object) -> Iterator[object]:
            self.homes["opened"] += 1
            yield FakeHome(usable=self.homes["opened"] > 1)

    attempt.pool = FirstIsLost()
    entry = attempt.carry_out()
    assert entry is not None
    assert attempt.states == ["answered"]
    assert attempt.pool.homes["opened"] == 2


def test_only_what_went_well_lets_the_gate_grow() -> None:
    slow = Attempt(ends_as("error"), limit=100)
    slow.gate.slow_down()
    slow.carry_out()
    assert slow.gate.limit == 2
    well = Attempt(ends_as("answered"))
    well.gate.slow_down()
    for _ in range(8):
        well.carry_out()
    assert well.gate.limit == 3
    assert well.gate.in_flight == 0
