"""Finds what comes with the project: sample corpora, memory profiles, the offline model's data."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def bundled_path(*parts: str) -> Path:
    """The path of a file or folder under `fixtures/`, in a wheel or in a repository checkout.

    A wheel carries `fixtures/` inside the package, a checkout beside it. Raises FileNotFoundError, naming
    both places, where neither has it: then the installation is broken.
    """
    roots = (_PACKAGE / "fixtures", _PACKAGE.parent / "fixtures")
    for root in roots:
        path = root.joinpath(*parts)
        if path.exists():
            return path
    looked = " and ".join(str(root) for root in roots)
    raise FileNotFoundError(f"{'/'.join(parts)} is not in {looked}: install pytest-dshmem again.")
