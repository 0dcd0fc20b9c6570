"""Append-only journals: one JSON object a line, shared by threads and processes.

A line is written with one system call under a lock, so it is there whole or not at all once the process goes
on. What a crash leaves of an unfinished last line is sealed by the next writer and counted by readers.
"""

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from filelock import FileLock
from pydantic import BaseModel, ValidationError

EntryType = TypeVar("EntryType", bound=BaseModel)

LOCK_POLL_SECONDS = 0.005


class RecordError(Exception):
    """A record that cannot be written or read: what, where, and what to do, in one sentence."""


@dataclass(frozen=True, slots=True)
class JournalContents(Generic[EntryType]):
    """Entries in the order in which they were written, and the number of lines that a crash cut short."""

    entries: tuple[EntryType, ...]
    torn: int

    def __iter__(self) -> Iterator[EntryType]:
        return iter(self.entries)


class Journal(Generic[EntryType]):
    """One journal file. Instances in several threads and processes may append to the same file."""

    def __init__(self, path: Path, kind: type[EntryType], *, lock: Path | None = None) -> None:
        self.path = path
        self._kind = kind
        self._lock_path = lock or path.with_name(path.name + ".lock")
        self._thread_lock = threading.Lock()
        self._sealed_at = -1

    def append(self, entry: EntryType) -> None:
        """Writes one line. Raises RecordError where the disk refuses; the file then ends as before."""
        line = json.dumps(entry.model_dump(mode="json"), ensure_ascii=True, separators=(",", ":"))
        self._write(line.encode("ascii") + b"\n")

    def read(self) -> JournalContents[EntryType]:
        """Everything that is there. A missing file is an empty journal."""
        return JournalReader(self.path, self._kind).contents()

    def reader(self) -> "JournalReader[EntryType]":
        """A reader that remembers how far it has read."""
        return JournalReader(self.path, self._kind)

    def sync(self) -> None:
        """Waits until what was written would survive a loss of power."""
        if self.path.exists():
            with self.path.open("rb") as file:
                os.fsync(file.fileno())

    def _write(self, line: bytes) -> None:
        try:
            with self._thread_lock, FileLock(self._lock_path, poll_interval=LOCK_POLL_SECONDS):
                descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
                try:
                    self._append_to(descriptor, line)
                finally:
                    os.close(descriptor)
        except OSError as error:
            raise RecordError(
                f"cannot write to {self.path.name} in {self.path.parent}: {error.strerror or error}; "
                "make room or give it write access, then run the same command again to continue"
            ) from error

    def _append_to(self, descriptor: int, line: bytes) -> None:
        start = os.fstat(descriptor).st_size
        if start not in (0, self._sealed_at) and os.pread(descriptor, 1, start - 1) != b"\n":
            line = b"\n" + line
        try:
            written = os.write(descriptor, line)
            if written != len(line):
                os.write(descriptor, line[written:])
        except OSError:
            os.ftruncate(descriptor, start)
            raise
        self._sealed_at = start + len(line)


class JournalReader(Generic[EntryType]):
    """Reads a journal from where it stopped the last time."""

    def __init__(self, path: Path, kind: type[EntryType]) -> None:
        self._path = path
        self._kind = kind
        self._offset = 0
        self._line_number = 0
        self._torn = 0

    def new_entries(self) -> list[EntryType]:
        """Whole lines written since the last call. An unfinished last line is left for the next call."""
        chunk = self._read_chunk()
        end = chunk.rfind(b"\n") + 1
        self._offset += end
        parsed = [self._parse(line) for line in chunk[:end].split(b"\n")[:-1]] if end else []
        return [entry for entry in parsed if entry is not None]

    def contents(self) -> JournalContents[EntryType]:
        """All entries from the beginning, with the torn lines counted, an unfinished last one included."""
        entries = self.new_entries()
        unfinished = 1 if self._read_chunk().strip() else 0
        return JournalContents(tuple(entries), self._torn + unfinished)

    def _read_chunk(self) -> bytes:
        try:
            size = self._path.stat().st_size
            if size == self._offset:
                return b""
            with self._path.open("rb") as file:
                file.seek(self._offset)
                return file.read()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise RecordError(f"cannot read {self._path}: {error.strerror or error}") from error

    def _parse(self, line: bytes) -> EntryType | None:
        self._line_number += 1
        try:
            return self._kind.model_validate_json(line)
        except ValidationError as error:
            if not line.strip() or _is_torn(line):
                self._torn += 1 if line.strip() else 0
                return None
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise RecordError(
                f"{self._path.name} line {self._line_number} in {self._path.parent} is not a record of this "
                f"version ({place}: {first['msg']}); it was changed by hand or written by another version"
            ) from None


def _is_torn(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return True
    return False
