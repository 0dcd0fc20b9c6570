"""The three folders that a memory system can keep its state in."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Base = Literal["dsh-home", "home", "workspace"]


@dataclass(frozen=True, slots=True)
class HomePaths:
    """One sandbox's folders, all absolute: HOME, DSH_HOME and the workspace of its sessions."""

    home: Path
    dsh_home: Path
    workspace: Path

    def folder(self, base: Base) -> Path:
        folders: dict[Base, Path] = {
            "home": self.home,
            "dsh-home": self.dsh_home,
            "workspace": self.workspace,
        }
        return folders[base]
