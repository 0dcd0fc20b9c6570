"""Back-pressure: fewer calls in flight when a provider says it is too much, more again when it goes well."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["ok", "rate-limited", "failed"]


@dataclass(slots=True)
class Passage:
    """A place in the gate that somebody holds. It has failed unless its holder says otherwise."""

    outcome: Outcome = "failed"


class PressureGate:
    """Lets at most `limit` calls through at a time, from one thread or many.

    Additive increase, multiplicative decrease: a rate limit halves the limit, at most once in
    `window_seconds` (the calls in flight meet the same wall, which is one piece of news);
    `successes_to_grow` calls without a rate limit between them raise it by one, up to `ceiling`. Other
    failures change nothing.
    """

    def __init__(
        self,
        ceiling: int,
        *,
        window_seconds: float = 5.0,
        successes_to_grow: int = 8,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if ceiling < 1:
            raise ValueError(f"a gate needs room for one call or more, not {ceiling}")
        self._ceiling = ceiling
        self._window_seconds = window_seconds
        self._successes_to_grow = successes_to_grow
        self._clock = clock
        self._changed = threading.Condition()
        self._limit = ceiling
        self._in_flight = 0
        self._successes = 0
        self._slowdowns = 0
        self._last_slowdown: float | None = None

    @property
    def limit(self) -> int:
        with self._changed:
            return self._limit

    @property
    def in_flight(self) -> int:
        with self._changed:
            return self._in_flight

    @property
    def slowdowns(self) -> int:
        """How often the limit was lowered."""
        with self._changed:
            return self._slowdowns

    def acquire(self, timeout: float | None = None) -> bool:
        """Wait for a place, `timeout` seconds at most (None: as long as it takes). True if got one."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._in_flight < self._limit, timeout):
                return False
            self._in_flight += 1
            return True

    def release(self, outcome: Outcome = "ok") -> None:
        """Give the place back and say how the call went. Raises RuntimeError where none was taken."""
        with self._changed:
            if self._in_flight == 0:
                raise RuntimeError("a place was given back that nobody had taken")
            self._in_flight -= 1
            if outcome == "rate-limited":
                self._slow_down()
            elif outcome == "ok":
                self._speed_up()
            self._changed.notify_all()

    @contextlib.contextmanager
    def passing(self) -> Iterator[Passage]:
        """Holds a place, waited for as long as it takes."""
        self.acquire()
        passage = Passage()
        try:
            yield passage
        finally:
            self.release(passage.outcome)

    def slow_down(self) -> None:
        """Lower the limit for a rate limit that was met outside of this gate."""
        with self._changed:
            self._slow_down()

    def _slow_down(self) -> None:
        self._successes = 0
        now = self._clock()
        if self._last_slowdown is not None and now - self._last_slowdown < self._window_seconds:
            return
        self._last_slowdown = now
        self._slowdowns += 1
        self._limit = max(1, self._limit // 2)

    def _speed_up(self) -> None:
        self._successes += 1
        if self._successes >= self._successes_to_grow and self._limit < self._ceiling:
            self._limit += 1
            self._successes = 0
