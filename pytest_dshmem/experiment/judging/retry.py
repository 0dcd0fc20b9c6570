"""Asking until there is a reply: which failures are worth another attempt, and how long to wait before it."""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from pytest_dshmem.experiment.judging.client import Attempt, Failure, FailureName
from pytest_dshmem.experiment.pressure import Outcome, PressureGate

FATAL: frozenset[FailureName] = frozenset({"auth", "quota", "not-found"})
"""Failures that every other call would meet as well: they end the judging."""

_PASSING: frozenset[FailureName] = frozenset({"timeout", "server", "connection", "malformed-response"})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How patient to be with one item.

    Passing failures are met with `attempts` calls in all. Rate limits do not use these up, since waiting is
    their cure. The wait starts at `first_delay` seconds and doubles up to `longest_delay`; where the provider
    names a time, that is waited. All waits of one item together stay within `patience` seconds.
    """

    attempts: int = 4
    first_delay: float = 0.5
    longest_delay: float = 20.0
    patience: float = 600.0


class Brake:
    """Ends waiting and starting: pulled from inside, or by the caller's own event, which we never set."""

    def __init__(self, outer: threading.Event | None = None) -> None:
        self._inner = threading.Event()
        self._outer = outer

    @property
    def pulled(self) -> bool:
        return self._inner.is_set() or (self._outer is not None and self._outer.is_set())

    def pull(self) -> None:
        self._inner.set()

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until pulled. True if pulled."""
        slice_seconds = 0.1 if self._outer is not None else seconds
        while seconds > 0 and not self.pulled:
            self._inner.wait(min(slice_seconds, seconds))
            seconds -= slice_seconds
        return self.pulled


def ask_until_answered(
    ask: Callable[[], Attempt], gate: PressureGate, policy: RetryPolicy, brake: Brake
) -> tuple[Attempt, ...]:
    """All attempts made, the last one decisive. Empty if the brake was pulled before the first."""
    made: list[Attempt] = []
    waited = 0.0
    while _take_place(gate, brake):
        attempt = _ask_in_place(ask, gate)
        made.append(attempt)
        if attempt.failure is None or not _worth_another(made, policy):
            break
        delay = _delay(policy, attempt.failure, len(made))
        waited += delay
        if waited > policy.patience or brake.wait(delay):
            break
    return tuple(made)


def _worth_another(made: list[Attempt], policy: RetryPolicy) -> bool:
    names = [attempt.failure.name for attempt in made if attempt.failure]
    passing = sum(name in _PASSING for name in names)
    return names[-1] == "rate-limit" or (names[-1] in _PASSING and passing < policy.attempts)


def _take_place(gate: PressureGate, brake: Brake) -> bool:
    while not brake.pulled:
        if gate.acquire(timeout=0.2):
            return True
    return False


def _ask_in_place(ask: Callable[[], Attempt], gate: PressureGate) -> Attempt:
    outcome: Outcome = "failed"
    try:
        attempt = ask()
        if attempt.failure is None:
            outcome = "ok"
        elif attempt.failure.name == "rate-limit":
            outcome = "rate-limited"
        return attempt
    finally:
        gate.release(outcome)


def _delay(policy: RetryPolicy, failure: Failure, attempts: int) -> float:
    if failure.retry_after is not None:
        return failure.retry_after
    doubled = policy.first_delay * 2.0 ** min(attempts - 1, 30)
    # Half fixed, half by chance, so that calls that failed together do not come back together.
    return min(policy.longest_delay, doubled) * random.uniform(0.5, 1.0)
