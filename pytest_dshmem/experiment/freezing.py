"""Freezing: the memory as it stands after formation, copied, listed and hashed; and put back for asking."""

import contextlib
import hashlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from pydantic import ValidationError

from pytest_dshmem.harness.memory_system import MemorySystem
from pytest_dshmem.harness.paths import HomePaths
from pytest_dshmem.record.entries import Entry, MemoryFile
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.record.run_directory import write_atomically

MANIFEST = "manifest.json"
FILES = "files"
WORKSPACE_LOCK = "workspace.lock"
SETTLE_POLL_SECONDS = 0.05
LOCK_POLL_SECONDS = 0.02

Signature = frozenset[tuple[str, str, int, int, int]]
"""What a look at the state shows without reading it: root, path, size, time of change, inode."""


class SnapshotManifest(Entry):
    """What a snapshot holds. `place` tells whether the workspace's path is the one it was formed under."""

    digest: str
    place: str
    files: tuple[MemoryFile, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A frozen memory on disk."""

    folder: Path
    manifest: SnapshotManifest

    @property
    def digest(self) -> str:
        return self.manifest.digest


def freeze(system: MemorySystem, paths: HomePaths, folder: Path) -> Snapshot:
    """Copies the state of a stopped system and writes the digest manifest, or leaves nothing behind."""
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        for name, path in _state_files(system, paths):
            target = unfinished / FILES / name / path.relative_to(_root_folder(system, paths, name))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        files = memory_files(system, paths)
        manifest = SnapshotManifest(digest=digest_of(files), place=place_of(paths), files=files)
        unfinished.mkdir(parents=True, exist_ok=True)
        write_atomically(unfinished / MANIFEST, manifest.model_dump_json(indent=1) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    except OSError as error:
        raise RecordError(f"cannot write the snapshot {folder}: {error.strerror or error}") from error
    return Snapshot(folder, manifest)


def open_snapshot(folder: Path) -> Snapshot:
    """A snapshot as it was frozen. Raises RecordError where manifest and files do not agree."""
    try:
        manifest = SnapshotManifest.model_validate_json((folder / MANIFEST).read_bytes())
        for file in manifest.files:
            content = (folder / FILES / file.root / file.path).read_bytes()
            if hashlib.sha256(content).hexdigest() != file.sha256:
                raise RecordError(f"the snapshot {folder} was changed: {file.root}/{file.path}")
    except (OSError, ValidationError) as error:
        raise RecordError(f"the snapshot {folder} cannot be read: {type(error).__name__}") from error
    return Snapshot(folder, manifest)


def restore(snapshot: Snapshot, system: MemorySystem, paths: HomePaths) -> None:
    """Puts a snapshot into a home: its state roots then hold these files and nothing else.

    A state that is the snapshot already is not touched: homes of one formation share a workspace, and others
    may be reading there; of those that are made at the same time, in whichever processes, one puts it back.
    Raises RecordError where the home is at another place, where the snapshot has been changed, or where the
    disk refuses.
    """
    if snapshot.manifest.place != place_of(paths):
        raise RecordError(
            f"the snapshot {snapshot.folder.name} was formed under another sandbox path, by which memory "
            "systems may know their workspace; use the same --dshmem-sandbox and temporary folder as then"
        )
    with _alone_in(paths.workspace):
        _put_back(snapshot, system, paths)


def _put_back(snapshot: Snapshot, system: MemorySystem, paths: HomePaths) -> None:
    if digest_of(memory_files(system, paths)) == snapshot.digest:
        return
    try:
        for _name, path in list(_state_files(system, paths)):
            path.unlink()
        for file in snapshot.manifest.files:
            target = _root_folder(system, paths, file.root) / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(snapshot.folder / FILES / file.root / file.path, target)
    except OSError as error:
        raise RecordError(
            f"cannot put the snapshot {snapshot.folder} back: {error.strerror or error}"
        ) from error
    if digest_of(memory_files(system, paths)) != snapshot.digest:
        raise RecordError(
            f"the snapshot {snapshot.folder} was changed: its files are not those of its manifest"
        )


def memory_files(system: MemorySystem, paths: HomePaths) -> tuple[MemoryFile, ...]:
    """The state as it is now: every file with its size and hash, in a fixed order."""
    return tuple(
        MemoryFile(
            root=name,
            path=path.relative_to(_root_folder(system, paths, name)).as_posix(),
            bytes=path.stat().st_size,
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for name, path in _state_files(system, paths)
    )


def digest_of(files: tuple[MemoryFile, ...]) -> str:
    """sha256 over roots, paths and contents; the same files in any folder give the same."""
    digest = hashlib.sha256()
    for file in files:
        for part in (file.root, file.path, file.sha256):
            digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def signature_of(system: MemorySystem, paths: HomePaths) -> Signature:
    """A cheap look at the state, which changes whenever a file is written, replaced, added or removed."""
    looks = []
    for name, path in _state_files(system, paths):
        seen = path.stat()
        looks.append((name, str(path), seen.st_size, seen.st_mtime_ns, seen.st_ino))
    return frozenset(looks)


def wait_until_settled(
    system: MemorySystem, paths: HomePaths, pause: Callable[[float], None] = time.sleep
) -> bool:
    """Waits until the state has been quiet for as long as the profile asks. False if it never was."""
    quiet, end = system.settle.quiet_seconds, time.monotonic() + system.settle.timeout_seconds
    last, since = signature_of(system, paths), time.monotonic()
    while time.monotonic() - since < quiet:
        if time.monotonic() > end:
            return False
        pause(SETTLE_POLL_SECONDS)
        now = signature_of(system, paths)
        if now != last:
            last, since = now, time.monotonic()
    return True


def place_of(paths: HomePaths) -> str:
    """A name for the workspace's path that does not tell it."""
    return hashlib.sha256(str(paths.workspace).encode()).hexdigest()[:16]


@contextlib.contextmanager
def _alone_in(workspace: Path) -> Iterator[None]:
    """Keeps everybody else out of a workspace who wants to put a snapshot back there."""
    lock = FileLock(workspace.with_name(WORKSPACE_LOCK), poll_interval=LOCK_POLL_SECONDS)
    try:
        lock.acquire()
    except OSError as error:
        raise RecordError(f"cannot lock the workspace {workspace}: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()


def _state_files(system: MemorySystem, paths: HomePaths) -> Iterator[tuple[str, Path]]:
    for root in system.state:
        folder = root.folder(paths)
        for path in root.files(paths):
            yield root.name, folder / path


def _root_folder(system: MemorySystem, paths: HomePaths, name: str) -> Path:
    return next(root.folder(paths) for root in system.state if root.name == name)
