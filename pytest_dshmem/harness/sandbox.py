"""Sandboxes: isolated homes with credentials in reach, outside of any repository, private to their owner."""

import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.harness.paths import HomePaths
from pytest_dshmem.record.places import is_inside_repository

PRIVATE = 0o700
CALLS_FILE = "calls.jsonl"
THIS_PROCESS = secrets.token_hex(4)
"""A name that no other process has, dead or alive, for the homes that only this one uses."""


@dataclass(frozen=True, slots=True)
class IsolatedHome:
    """A home for one runtime: the folders that a memory system may write to, and the runtime's own folder."""

    paths: HomePaths
    runtime_folder: Path
    native_cache: Path

    @property
    def launch_folder(self) -> Path:
        """An empty folder to start in, so that no `.env` of anybody's is read."""
        return self.runtime_folder / "empty"

    @property
    def temporary_folder(self) -> Path:
        return self.runtime_folder / "tmp"

    @property
    def calls_file(self) -> Path:
        return self.runtime_folder / CALLS_FILE

    @property
    def stderr_file(self) -> Path:
        return self.runtime_folder / "stderr.log"

    @property
    def launcher(self) -> Path:
        return self.runtime_folder / "launch.sh"

    @property
    def process_file(self) -> Path:
        """Where the runtime's launcher leaves the number of its process, which becomes the runtime's."""
        return self.runtime_folder / "process"

    @property
    def patch(self) -> Path:
        return self.runtime_folder / "evaluation.patch.yml"

    def remove(self) -> None:
        """Removes the home; a workspace, which several homes may share, stays."""
        shutil.rmtree(self.runtime_folder.parent, ignore_errors=True)


class Sandbox:
    """All isolated homes of one run below one private folder.

    The folder's path is a function of the run alone: memory systems may key what they store by the path of
    the workspace, so a run that is continued must find its workspaces where they were.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def for_run(cls, run_id: str, *, parent: Path | None = None) -> "Sandbox":
        """The sandbox of a run. Raises HarnessError where its place is in a repository or cannot be made."""
        base = parent or default_parent()
        if is_inside_repository(base):
            raise HarnessError(
                f"the sandbox {base} would lie in a repository; name a folder outside of one with "
                "--dshmem-sandbox"
            )
        sandbox = cls(base.resolve() / run_id)
        sandbox._make(base)
        if parent is None and base.lstat().st_uid != os.getuid():
            raise HarnessError(f"{base} belongs to somebody else; name another folder with --dshmem-sandbox")
        return sandbox

    def home(self, formation: str, name: str) -> IsolatedHome:
        """A home of a formation, made if it is not there. Homes of one formation share its workspace."""
        folder = self.root / formation / name
        home = IsolatedHome(
            paths=HomePaths(
                home=folder / "home",
                dsh_home=folder / "dsh-home",
                workspace=self.workspace(formation),
            ),
            runtime_folder=folder / "runtime",
            native_cache=self.root / "native",
        )
        made = (
            home.paths.home,
            home.paths.dsh_home,
            home.paths.workspace,
            home.launch_folder,
            home.temporary_folder,
            home.native_cache,
        )
        for part in made:
            self._make(part)
        return home

    def foreign_calls_files(self, formation: str) -> list[Path]:
        """The recorders' files in all homes for questions that are not this process's."""
        folder = self.root / formation
        homes = (home for home in folder.glob("questions-*") if THIS_PROCESS not in home.name)
        return sorted(file for home in homes if (file := home / "runtime" / CALLS_FILE).exists())

    def workspace(self, formation: str) -> Path:
        return self.root / formation / "workspace"

    def remove_formation(self, formation: str) -> None:
        shutil.rmtree(self.root / formation, ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
            self.root.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
            for part in (folder, *folder.parents):
                if part.is_relative_to(self.root):
                    part.chmod(PRIVATE)
        except OSError as error:
            raise HarnessError(f"cannot make the sandbox folder {folder}: {error.strerror}") from error


def default_parent() -> Path:
    """Where sandboxes live if nothing else is said: a private folder in the temporary folder."""
    return Path(tempfile.gettempdir()) / f"dshmem-{os.getuid()}"
