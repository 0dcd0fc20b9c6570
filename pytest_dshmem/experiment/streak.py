"""Noticing that nothing works any more, before every question has been tried in vain."""

import threading

from pytest_dshmem.record.entries import Hypothesis

FAILURES_IN_A_ROW = 10


class FailureStreak:
    """Counts questions that failed the same way one after the other, with no success between. For threads."""

    def __init__(self, limit: int = FAILURES_IN_A_ROW) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._length = 0

    def note(self, entry: Hypothesis) -> str | None:
        """Takes one record into account; why to stop, in a sentence, once the streak is long enough."""
        with self._lock:
            if entry.state != "error":
                self._reason, self._length = None, 0
                return None
            same = entry.reason == self._reason
            self._reason, self._length = entry.reason, self._length + 1 if same else 1
            if self._length < self._limit:
                return None
            return f"{self._length} questions in a row failed the same way: {entry.reason}"
