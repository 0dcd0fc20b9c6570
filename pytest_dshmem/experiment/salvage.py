"""Calls that were paid for by a process that died before it could record them.

The recorder in every runtime writes each call to a file in the runtime's home as it happens, and the homes
of a process that was killed stay in the sandbox. What such a file holds and no record does belongs to the
unit of work that it was spent on: whoever holds the claim on the unit takes it over and records it.
"""

import threading
from collections.abc import Iterable
from pathlib import Path

from pytest_dshmem.experiment.asking import session_name
from pytest_dshmem.harness.calls import CallLog
from pytest_dshmem.harness.sandbox import Sandbox
from pytest_dshmem.record.entries import Call, Consolidation, Hypothesis, Ingestion, QuestionKey
from pytest_dshmem.record.run_directory import RunDirectory

INTERRUPTED = "interrupted: the process that was at it died"


class QuestionSalvage:
    """What other processes spent on questions and did not record. Safe for threads."""

    def __init__(self, run: RunDirectory, sandbox: Sandbox) -> None:
        self._run = run
        self._sandbox = sandbox
        self._lock = threading.Lock()
        self._logs: dict[Path, CallLog] = {}

    def take(self, formation: str, key: QuestionKey) -> tuple[Call, ...]:
        """Unrecorded calls of a question whose claim the caller holds. `formation` is its opaque name."""
        name = session_name(key)
        found: list[Call] = []
        with self._lock:
            for file in self._sandbox.foreign_calls_files(formation):
                log = self._logs.setdefault(file, CallLog(file))
                for session_id in log.sessions():
                    if session_id.startswith(name):
                        found += log.take_abandoned(session_id)
        if not found:
            return ()
        return unrecorded(found, (entry for entry in self._run.hypotheses.read() if entry.key == key))


def unrecorded(
    found: Iterable[Call], records: Iterable[Ingestion | Consolidation | Hypothesis]
) -> tuple[Call, ...]:
    """Those calls that are in no record. A call is known by its start: its end may have come later."""
    recorded = {_identity(call) for record in records for call in record.calls}
    return tuple(call for call in found if _identity(call) not in recorded)


def span_of(calls: Iterable[Call]) -> tuple[float, float]:
    """When the first of some calls started, and the seconds from then until the last one ended."""
    times = [(call.started_at, call.started_at + call.seconds) for call in calls]
    start = min(started for started, _ended in times)
    return start, max(ended for _started, ended in times) - start


def _identity(call: Call) -> tuple[float, str, str]:
    return call.started_at, call.purpose, call.model
