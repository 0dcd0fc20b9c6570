"""How a turn ended, as the state of a record: an error is never an answer."""

from dataclasses import dataclass
from typing import Literal

from pytest_dshmem.harness.turn import Turn

TurnState = Literal["completed", "error", "timeout", "blocked", "max-tokens", "context-overflow"]

FATAL_CODES = frozenset({"AUTH", "QUOTA"})
OVERFLOW_CODES = frozenset({"CONTEXT_WINDOW_EXCEEDED"})
RATE_LIMIT = "RATE_LIMIT"
RATE_LIMITS_BEFORE_GIVING_UP = 20
RATE_LIMIT_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A state, and in words why. `fatal` means that no other turn can fare better."""

    state: TurnState
    reason: str | None = None
    fatal: bool = False
    rate_limited: bool = False


def outcome_of(turn: Turn, steps: int, seconds: float) -> Outcome:
    """Names how a turn ended, given the limits that it had."""
    reason = turn.finish_reason
    if reason == "completed":
        return Outcome("completed")
    if reason == "max-tokens":
        return Outcome("max-tokens", "the model reached its output limit")
    if reason == "blocked":
        return Outcome("blocked", f"more than {steps} steps were wanted")
    if reason == "aborted":
        return Outcome("timeout", f"no end within {seconds:.0f} s")
    if turn.failure is None:
        return Outcome("error", f"the turn ended without an answer ({reason or 'no reason given'})")
    code = turn.failure.code
    words = f"{code}: {_first_line(turn.failure.message)}"
    if code in OVERFLOW_CODES:
        return Outcome("context-overflow", words)
    return Outcome("error", words, fatal=code in FATAL_CODES, rate_limited=code == RATE_LIMIT)


def _first_line(message: str) -> str:
    return (message.strip().splitlines() or ["no message"])[0][:200]
