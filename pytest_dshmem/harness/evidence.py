"""Evidence of how a consolidation ended: a status word, an exit status, or the state on disk."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_dshmem.harness.memory_system import MemorySystem
from pytest_dshmem.harness.paths import HomePaths
from pytest_dshmem.harness.triggers import (
    Evidence,
    ExitStatusEvidence,
    FilesEvidence,
    QuietEvidence,
    StatusEvidence,
)
from pytest_dshmem.record.entries import ConsolidationState

_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Finding:
    """What the evidence says. `reason` is the system's own, or ours where there is no evidence."""

    state: ConsolidationState
    reason: str | None = None


def judge_status(evidence: StatusEvidence, body: dict[str, Any] | None) -> Finding:
    """The meaning of the status word in a reply. A missing or unknown word is a failure that names it."""
    word = _at(body, evidence.status)
    if not isinstance(word, str):
        return Finding("failed", f"the reply has no status word at {evidence.status!r}")
    state = evidence.meaning(word)
    if state is None:
        return Finding("failed", f"the reply has the status word {word!r}, which the profile does not know")
    reason = _at(body, evidence.reason) if evidence.reason else None
    return Finding(state, None if reason is None else str(reason))


def judge_exit_status(evidence: ExitStatusEvidence, status: int | None, complaint: str | None) -> Finding:
    """The meaning of a command's exit status. `complaint` is what it wrote last on its standard error."""
    if status in evidence.committed:
        return Finding("committed")
    if status in evidence.no_change:
        return Finding("no-change")
    said = f": {complaint}" if complaint else ""
    state: ConsolidationState = "truncated" if status in evidence.truncated else "failed"
    return Finding(state, f"the command ended with status {status}{said}")


class StateWatch:
    """Notices what has appeared or changed on disk since the last consolidation, or since it was made."""

    def __init__(self, evidence: Evidence, system: MemorySystem, paths: HomePaths) -> None:
        self._evidence = evidence
        self._system = system
        self._paths = paths
        self._before = self._signatures()

    def wait(self, deadline: float) -> Finding:
        """Waits for something new, and for quiet if evidence asks for it, until `deadline` (monotonic)."""
        quiet_seconds = self._evidence.seconds if isinstance(self._evidence, QuietEvidence) else 0.0
        seen = self._signatures()
        changed_at = time.monotonic()
        while True:
            current = self._signatures()
            now = time.monotonic()
            if current != seen:
                seen, changed_at = current, now
            if seen.items() - self._before.items() and now - changed_at >= quiet_seconds:
                self._before = seen
                return Finding("committed")
            if now >= deadline:
                return Finding("timeout", f"no evidence in time: {self._expectation()}")
            time.sleep(_POLL_SECONDS)

    def _signatures(self) -> dict[Path, tuple[int, int]]:
        signatures: dict[Path, tuple[int, int]] = {}
        for file in self._files():
            # A file may go between being listed and being looked at.
            with contextlib.suppress(FileNotFoundError):
                state = file.stat()
                signatures[file] = (state.st_mtime_ns, state.st_size)
        return signatures

    def _files(self) -> Iterator[Path]:
        if isinstance(self._evidence, FilesEvidence):
            yield from self._paths.folder(self._evidence.base).glob(self._evidence.glob)
        elif isinstance(self._evidence, QuietEvidence):
            for root in self._system.state:
                folder = root.folder(self._paths)
                yield from (folder / file for file in root.files(self._paths))

    def _expectation(self) -> str:
        if isinstance(self._evidence, FilesEvidence):
            return f"no file {self._evidence.glob} under {self._evidence.base} has appeared or changed"
        return "the state has not changed, or has not come to rest"


def _at(body: dict[str, Any] | None, path: str) -> Any:
    """The value at a dotted path in a reply; None where there is none."""
    value: Any = body
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
