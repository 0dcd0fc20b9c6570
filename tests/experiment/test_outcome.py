"""Outcomes: how a turn ended is a state with a name, and an error is never an answer."""

import pytest

from pytest_dshmem.experiment.outcome import Outcome, outcome_of
from pytest_dshmem.harness.turn import Turn, TurnFailure


def outcome(finish_reason: str | None, failure: TurnFailure | None = None) -> Outcome:
    turn = Turn("a partial answer", finish_reason, failure, 0.0, 1.0, 0.0, ())
    return outcome_of(turn, steps=10, seconds=300.0)


@pytest.mark.parametrize(
    ("finish_reason", "expected"),
    [
        ("completed", Outcome("completed")),
        ("max-tokens", Outcome("max-tokens", "the model reached its output limit")),
        ("blocked", Outcome("blocked", "more than 10 steps were wanted")),
        ("aborted", Outcome("timeout", "no end within 300 s")),
        (None, Outcome("error", "the turn ended without an answer (no reason given)")),
        ("error", Outcome("error", "the turn ended without an answer (error)")),
        ("something-new", Outcome("error", "the turn ended without an answer (something-new)")),
    ],
)
def test_every_end_of_a_turn_has_a_state(finish_reason: str | None, expected: Outcome) -> None:
    assert outcome(finish_reason) == expected


@pytest.mark.parametrize(
    "code", ["SERVER", "TIMEOUT", "TRANSPORT", "EMPTY_RESPONSE", "INVALID_REQUEST", "NEW"]
)
def test_a_failure_of_the_model_is_an_error_with_its_code(code: str) -> None:
    assert outcome("error", TurnFailure(code, "it broke\nin two lines")) == Outcome(
        "error", f"{code}: it broke"
    )


@pytest.mark.parametrize("code", ["AUTH", "QUOTA"])
def test_what_no_other_turn_can_mend_is_fatal(code: str) -> None:
    ended = outcome("error", TurnFailure(code, "no"))
    assert (ended.state, ended.fatal, ended.rate_limited) == ("error", True, False)


def test_a_rate_limit_is_told_apart() -> None:
    ended = outcome("error", TurnFailure("RATE_LIMIT", "slow down"))
    assert (ended.state, ended.fatal, ended.rate_limited) == ("error", False, True)


def test_a_history_that_did_not_fit_is_a_state_of_its_own() -> None:
    ended = outcome("error", TurnFailure("CONTEXT_WINDOW_EXCEEDED", "too long"))
    assert ended == Outcome("context-overflow", "CONTEXT_WINDOW_EXCEEDED: too long")


def test_words_of_a_provider_are_one_short_line() -> None:
    assert outcome("error", TurnFailure("SERVER", "")).reason == "SERVER: no message"
    reason = outcome("error", TurnFailure("SERVER", "x" * 5000)).reason
    assert reason is not None
    assert len(reason) < 250
