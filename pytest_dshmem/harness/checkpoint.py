"""Checkpoints of a home under way, so that a crash costs the step in flight and nothing before it.

Everything that a memory system may build on is kept: its state, the finished sessions, the workspace. What
the harness makes anew at each start, and every file with a credential in it, is left out.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_dshmem.harness.endpoint import CREDENTIALS_FILE, DOTENV_FILE
from pytest_dshmem.harness.paths import Base, HomePaths
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.record.run_directory import write_atomically

BASES: tuple[Base, ...] = ("dsh-home", "home", "workspace")
POINTER = "latest.json"
MADE_ANEW = frozenset({"profiles", "cache", ".anonymous-user-id", ".cache", ".npm"})
"""Names at the top of a home; deeper down they are a memory system's own."""
SECRET = frozenset({CREDENTIALS_FILE, DOTENV_FILE})


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The latest checkpoint of a formation: how many steps were done, and what was noted with it."""

    step: int
    note: dict[str, Any]
    folder: Path


class Checkpoints:
    """The checkpoints of one formation below one folder; only the latest is kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def latest(self) -> Checkpoint | None:
        """The latest checkpoint, or None where there is none that is whole."""
        try:
            pointer = json.loads((self._folder / POINTER).read_text(encoding="utf-8"))
            found = Checkpoint(pointer["step"], pointer["note"], self._folder / pointer["folder"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if found.folder.is_dir() else None

    def save(self, paths: HomePaths, step: int, note: dict[str, Any]) -> None:
        """Copies the home as it is. The one before stays until this one is whole.

        Raises RecordError where the disk refuses.
        """
        before = self.latest()
        folder = self._folder / f"step-{step}-{os.getpid()}-{os.urandom(3).hex()}"
        try:
            for base in BASES:
                _copy_tree(paths.folder(base), folder / base, before.folder / base if before else None)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise RecordError(f"cannot write the checkpoint {folder}: {error.strerror or error}") from error
        pointer = {"folder": folder.name, "step": step, "note": note}
        write_atomically(self._folder / POINTER, json.dumps(pointer))
        if before is not None:
            shutil.rmtree(before.folder, ignore_errors=True)

    def restore(self, checkpoint: Checkpoint, paths: HomePaths) -> None:
        """Makes a home what it was at a checkpoint."""
        clear(paths)
        for base in BASES:
            shutil.copytree(
                checkpoint.folder / base, paths.folder(base), dirs_exist_ok=True, copy_function=shutil.copy2
            )

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def clear(paths: HomePaths) -> None:
    """Empties a home; its folders stay."""
    for base in BASES:
        folder = paths.folder(base)
        for entry in folder.iterdir() if folder.is_dir() else ():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def _copy_tree(source: Path, target: Path, before: Path | None) -> None:
    """Copies a tree; a file that has not changed since the checkpoint before is linked, not copied."""
    target.mkdir(parents=True, exist_ok=True)
    for relative in _kept_files(source):
        file, copy = source / relative, target / relative
        copy.parent.mkdir(parents=True, exist_ok=True)
        earlier = before / relative if before is not None else None
        if earlier is not None and _same(file, earlier):
            os.link(earlier, copy)
        else:
            # The harness writes its caches through temporary files, which may be gone by now.
            with contextlib.suppress(FileNotFoundError):
                shutil.copy2(file, copy)


def _kept_files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        left_out = SECRET | MADE_ANEW if Path(place) == folder else SECRET
        folders[:] = sorted(name for name in folders if name not in left_out)
        for name in sorted(files):
            path = Path(place) / name
            if name not in left_out and path.is_file() and not path.is_symlink():
                yield path.relative_to(folder)


def _same(one: Path, other: Path) -> bool:
    try:
        a, b = one.stat(), other.stat()
    except OSError:
        return False
    return (a.st_size, a.st_mtime_ns) == (b.st_size, b.st_mtime_ns)
