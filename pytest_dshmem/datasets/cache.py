"""What is kept between runs so that no large file is read twice for the same answer."""

import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pytest_dshmem.datasets.views import DataError


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The user's cache folder for this project. `DSHMEM_CACHE` names another. Nothing is created here."""
    if chosen := environment.get("DSHMEM_CACHE"):
        return Path(chosen).expanduser().absolute()
    home = Path(environment["HOME"]) if environment.get("HOME") else Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "pytest-dshmem"
    shared = Path(environment.get("XDG_CACHE_HOME") or "")
    # The XDG rules say that a relative path is to be ignored.
    return (shared if shared.is_absolute() else home / ".cache") / "pytest-dshmem"


def file_sha256(path: Path, cache: Path | None = None) -> str:
    """The file's SHA-256 in hex.

    With a cache folder the hash is remembered under the file's path, size, modification time and inode, so
    that an unchanged file is not read again.
    """
    try:
        if cache is None:
            return _hash(path)
        remembered = cache / "hashes" / f"{_identity(path)}.txt"
        if (known := _remembered(remembered)) is not None:
            return known
        computed = _hash(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): check its permissions.") from None
    write_atomically(remembered, f"{computed}\n".encode())
    return computed


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a cache file so that a reader sees the whole of it or none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise unwritable(path.parent, error) from None


def unwritable(folder: Path, error: OSError) -> DataError:
    return DataError(
        f"The cache folder {folder} cannot be written ({error.strerror}): "
        "set DSHMEM_CACHE to a folder that can."
    )


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _identity(path: Path) -> str:
    status = path.stat()
    parts = (str(path.resolve()), status.st_size, status.st_mtime_ns, status.st_ino)
    return hashlib.sha256("\0".join(map(str, parts)).encode(errors="surrogateescape")).hexdigest()


def _remembered(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
    return text if len(text) == 64 and set(text) <= set("0123456789abcdef") else None
