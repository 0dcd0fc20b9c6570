"""Where runs may be kept."""

from pathlib import Path


def is_inside_repository(path: Path) -> bool:
    """Whether a folder, there or not, lies inside a version-controlled tree."""
    resolved = path.expanduser().resolve()
    return any(
        (folder / mark).exists() for folder in (resolved, *resolved.parents) for mark in (".git", ".hg")
    )
