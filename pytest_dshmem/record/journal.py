"""Append-only journals: one JSON object a line, shared by threads and processes.

A line is written with one system call under a lock on the journal itself, so it is there whole or not at all
once the process goes on. What a crash leaves of an unfinished last line is sealed by the next writer and
counted by readers.
"""

import contextlib
import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

EntryType = TypeVar("EntryType", bound=BaseModel)


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

    def __init__(self, path: Path, kind: type[EntryType]) -> None:
        self.path = path
        self._kind = kind
        self._reading = threading.Lock()
        self._known: _Known[EntryType] | None = None

    def append(self, entry: EntryType) -> None:
        """Writes one line. Raises RecordError where the disk refuses; the file then ends as before."""
        with self.writing() as write:
            write(entry)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Callable[[EntryType], None]]:
        """Keeps all other writers out and yields what writes a line. Raises RecordError, as does that."""
        with self._refusals():
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            with self._refusals():
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield lambda entry: self._write(descriptor, entry)
        finally:
            os.close(descriptor)

    def read(self) -> JournalContents[EntryType]:
        """Everything that is there. A missing file is an empty journal.

        What this instance has read before it does not parse again, unless the file is another one by now.
        """
        with self._reading:
            # Kept again at the end: where a line cannot be read, the next reading begins at the beginning.
            known, self._known = self._known, None
            if known is None or known.reader.is_outdated():
                known = _Known(self.reader(), [])
            known.entries += known.reader.new_entries()
            self._known = known
            return JournalContents(tuple(known.entries), known.reader.torn)

    def reader(self) -> "JournalReader[EntryType]":
        """A reader that remembers how far it has read."""
        return JournalReader(self.path, self._kind)

    def sync(self) -> None:
        """Waits until what was written would survive a loss of power."""
        with self._refusals(), self.path.open("rb") as file:
            os.fsync(file.fileno())

    def _write(self, descriptor: int, entry: EntryType) -> None:
        text = json.dumps(entry.model_dump(mode="json"), ensure_ascii=True, separators=(",", ":"))
        line = text.encode("ascii") + b"\n"
        with self._refusals():
            start = os.fstat(descriptor).st_size
            if start and os.pread(descriptor, 1, start - 1) != b"\n":
                line = b"\n" + line
            try:
                while line:
                    line = line[os.write(descriptor, line) :]
            except OSError:
                os.ftruncate(descriptor, start)
                raise

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        """Puts what the disk refuses into words."""
        try:
            yield
        except OSError as error:
            raise RecordError(
                f"cannot write to {self.path.name} in {self.path.parent}: {error.strerror or error}; "
                "make room or give it write access, then run the same command again to continue"
            ) from error


class JournalReader(Generic[EntryType]):
    """Reads a journal from where it stopped the last time."""

    def __init__(self, path: Path, kind: type[EntryType]) -> None:
        self._path = path
        self._kind = kind
        self._file: tuple[int, int] | None = None
        self._offset = 0
        self._line_number = 0
        self._torn = 0
        self._unfinished = b""

    @property
    def torn(self) -> int:
        """The lines seen so far that a crash cut short, an unfinished last one included."""
        return self._torn + bool(self._unfinished.strip())

    def is_outdated(self) -> bool:
        """Whether what was read is not in the file any more: it was replaced, or cut."""
        if self._file is None:
            return False
        try:
            now = self._path.stat()
        except OSError:
            return True
        return (now.st_dev, now.st_ino) != self._file or now.st_size < self._offset

    def new_entries(self) -> list[EntryType]:
        """Whole lines written since the last call. An unfinished last line is left for the next call."""
        chunk = self._read_chunk()
        *lines, self._unfinished = chunk.split(b"\n")
        self._offset += len(chunk) - len(self._unfinished)
        if self._unfinished.endswith(b"}") and not _is_torn(self._unfinished):
            # A crash took the line's end and nothing of the line.
            self._offset += len(self._unfinished)
            lines.append(self._unfinished)
            self._unfinished = b""
        parsed = [self._parse(line) for line in lines]
        return [entry for entry in parsed if entry is not None]

    def _read_chunk(self) -> bytes:
        try:
            state = self._path.stat()
            self._file = (state.st_dev, state.st_ino)
            if state.st_size == self._offset:
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


@dataclass(slots=True)
class _Known(Generic[EntryType]):
    """What a journal has read so far, and the reader that goes on from there."""

    reader: JournalReader[EntryType]
    entries: list[EntryType]


def _is_torn(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return True
    return False
