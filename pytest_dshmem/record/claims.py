"""Claims on units of work, so that no two processes on one run directory do the same work.

Every process holds an operating-system lock on a file of its own for as long as it lives. A claim names its
owner; it counts while the owner's lock is held, and lapses in the moment in which the owner dies, however it
dies. No clock, no lease and no heartbeat is involved.
"""

import contextlib
import os
import threading
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict

from pytest_dshmem.record.journal import Journal

ALIVE_MEMORY_SECONDS = 0.5


class ClaimLine(BaseModel):
    """One event in the claims table."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit: str
    owner: str
    event: Literal["take", "drop"]


class Claims:
    """This process's view of who works on what. Safe for threads; one instance a process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.owner = f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
        self._life = FileLock(self._owner_file(self.owner), thread_local=False)
        self._life.acquire()
        self._table = Journal(folder / "claims.jsonl", ClaimLine)
        self._reader = self._table.reader()
        self._owners: dict[str, str] = {}
        self._seen_alive: dict[str, float] = {}
        self._thread_lock = threading.Lock()

    def take(self, unit: str) -> bool:
        """True if the unit has become this process's to do; False while it is somebody's who lives."""
        with self._thread_lock:
            self._catch_up()
            if self._is_held(unit):
                return False
            with self._table.writing() as write:
                self._catch_up()
                if self._is_held(unit):
                    return False
                write(ClaimLine(unit=unit, owner=self.owner, event="take"))
                self._catch_up()
                return True

    def drop(self, unit: str) -> None:
        """Gives a unit back, done or not: what was done is in the journals."""
        with self._thread_lock:
            self._catch_up()
            if self._owners.get(unit) == self.owner:
                self._table.append(ClaimLine(unit=unit, owner=self.owner, event="drop"))
                self._catch_up()

    def others_at(self, prefix: str = "") -> int:
        """How many other live processes hold claims on units whose names begin so."""
        with self._thread_lock:
            self._catch_up()
            owners = {owner for unit, owner in self._owners.items() if unit.startswith(prefix)}
            return sum(1 for owner in owners - {self.owner} if self._is_alive(owner))

    def close(self) -> None:
        """Ends this owner's life: whatever it still holds is free for others."""
        with contextlib.suppress(OSError):
            self._owner_file(self.owner).unlink()
        self._life.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _is_held(self, unit: str) -> bool:
        owner = self._owners.get(unit)
        return owner is not None and self._is_alive(owner)

    def _owner_file(self, owner: str) -> Path:
        return self._folder / f"{owner}.owner"

    def _catch_up(self) -> None:
        for line in self._reader.new_entries():
            if line.event == "take":
                self._owners[line.unit] = line.owner
            elif self._owners.get(line.unit) == line.owner:
                del self._owners[line.unit]

    def _is_alive(self, owner: str) -> bool:
        if owner == self.owner:
            return True
        if time.monotonic() - self._seen_alive.get(owner, float("-inf")) < ALIVE_MEMORY_SECONDS:
            return True
        file = self._owner_file(owner)
        if not file.exists():
            return False
        if _can_be_locked(file):
            return False
        self._seen_alive[owner] = time.monotonic()
        return True


def anyone_alive(folder: Path) -> bool:
    """Whether a process holds, or may take, claims in this folder."""
    return any(not _can_be_locked(file) for file in folder.glob("*.owner"))


def _can_be_locked(file: Path) -> bool:
    """Whether nobody holds the lock on a file."""
    probe = FileLock(file, thread_local=False)
    try:
        probe.acquire(timeout=0)
    except Timeout:
        return False
    probe.release()
    return True
