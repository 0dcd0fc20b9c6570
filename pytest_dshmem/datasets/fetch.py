"""Downloads a published file, resuming where an earlier attempt was cut, and tells which files are sound.

What has arrived waits in `FILE.part`. Only a file of the published size and hash gets its real name.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_dshmem.datasets.cache import file_sha256
from pytest_dshmem.datasets.catalog import PUBLISHED, Published, data_places, find_in
from pytest_dshmem.datasets.views import DataError

Progress = Callable[[int, int], None]
"""Called with the bytes that are there and the bytes that there will be."""

_CHUNK = 1 << 18
_SILENCE_SECONDS = 60.0
_FRUITLESS_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class FileStatus:
    """One published file as found on this machine."""

    entry: Published
    state: Literal["good", "wrong hash", "absent"]
    path: Path | None = None
    sha256: str | None = None


def fetch(entry: Published, folder: Path, progress: Progress) -> Path:
    """Downloads the file into `folder` and returns its path, at once where it is there already.

    Raises DataError where the file cannot be had, with the way to get it by hand; where another fetch into
    the folder is under way; where a file of its name with another hash is there; and where what arrived has
    another hash: that is kept beside, with `.wrong-hash` at the end of its name, and never used.
    """
    target = folder / entry.file_name
    if target.exists():
        return _checked_target(target, entry)
    with _only_fetch(target):
        part = target.with_name(target.name + ".part")
        try:
            _complete(part, entry, progress)
        except OSError as error:
            raise DataError(
                f"{part} cannot be written ({error.strerror}): make room or permit it, and fetch again."
            ) from None
        if (sha256 := file_sha256(part)) != entry.sha256:
            aside = part.replace(target.with_name(target.name + ".wrong-hash"))
            raise DataError(
                f"What arrived has the sha256 {sha256} and not the published {entry.sha256}: it is kept as "
                f"{aside} and not used. Fetch again."
            )
        return part.replace(target)


def verify(folder: Path | None, environment: Mapping[str, str]) -> tuple[FileStatus, ...]:
    """The state of every published file where benchmarks look for it. Hashes are computed, not remembered."""
    return tuple(_status(entry, data_places(folder, environment)) for entry in PUBLISHED)


def _status(entry: Published, places: tuple[Path, ...]) -> FileStatus:
    path = next((found for place in places if (found := find_in(entry, place)) is not None), None)
    if path is None:
        return FileStatus(entry, "absent")
    sha256 = file_sha256(path)
    return FileStatus(entry, "good" if sha256 == entry.sha256 else "wrong hash", path, sha256)


def _checked_target(target: Path, entry: Published) -> Path:
    if (sha256 := file_sha256(target)) != entry.sha256:
        raise DataError(
            f"{target} is there with the sha256 {sha256} and not the published {entry.sha256}: "
            "move it away or fetch into another folder with --to."
        )
    return target


@contextmanager
def _only_fetch(target: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = target.with_name(target.name + ".lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=0):
            yield
    except Timeout:
        raise DataError(f"Another fetch of {target} is under way: wait for it.") from None
    except OSError as error:
        raise DataError(
            f"{target.parent} cannot be written ({error.strerror}): choose another with --to."
        ) from None


def _complete(part: Path, entry: Published, progress: Progress) -> None:
    """Brings the partial file to its full size, going on after every cut as long as attempts bear fruit."""
    fruitless = 0
    while (before := _size(part, entry)) < entry.bytes:
        reason = _download(part, before, entry, progress)
        fruitless = 0 if _size(part, entry) > before else fruitless + 1
        if fruitless == _FRUITLESS_ATTEMPTS:
            raise _unreachable(part, entry, reason)


def _size(part: Path, entry: Published) -> int:
    """How much has arrived. A partial file that is too long is another file's, and is begun anew."""
    size = part.stat().st_size if part.exists() else 0
    if size > entry.bytes:
        part.unlink()
        return 0
    return size


def _download(part: Path, start: int, entry: Published, progress: Progress) -> str:
    """One request, from byte `start` on. Returns why no more came."""
    headers = {"User-Agent": "pytest-dshmem", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        response = urllib.request.urlopen(
            urllib.request.Request(entry.url, headers=headers), timeout=_SILENCE_SECONDS
        )
    except urllib.error.HTTPError as error:
        reason = f"the server answers {error.code} {error.reason}"
        if error.code < 500:
            raise _unreachable(part, entry, reason) from None
        return reason
    except (OSError, http.client.HTTPException) as error:
        return _why(error)
    with response:
        return _store(response, part, start, entry, progress)


def _store(
    response: http.client.HTTPResponse, part: Path, start: int, entry: Published, progress: Progress
) -> str:
    """Writes what comes. A server that does not know ranges sends the whole file, which begins anew."""
    arrived = start if response.status == http.HTTPStatus.PARTIAL_CONTENT else 0
    if (problem := _problem_with(response, arrived, entry)) is not None:
        raise _unreachable(part, entry, problem)
    with part.open("ab" if arrived else "wb") as file:
        while True:
            try:
                data = response.read(_CHUNK)
            except (OSError, http.client.HTTPException) as error:
                return _why(error)
            if not data:
                return "the connection was cut"
            file.write(data[: entry.bytes - arrived])
            arrived += len(data)
            if arrived > entry.bytes:
                raise _unreachable(part, entry, "the server sends more than the published size")
            progress(arrived, entry.bytes)


def _problem_with(response: http.client.HTTPResponse, arrived: int, entry: Published) -> str | None:
    """What speaks against a response before any of it is written, None where nothing does."""
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        promised = response.headers.get("Content-Range", "")
        wanted = f"bytes {arrived}-{entry.bytes - 1}/{entry.bytes}"
        return None if promised == wanted else f"the server offers {promised or 'no range'}, not {wanted}"
    length = response.headers.get("Content-Length")
    if length is not None and length != str(entry.bytes):
        return f"the server offers {length} bytes, not the published {entry.bytes}"
    return None


def _why(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error) or type(error).__name__


def _unreachable(part: Path, entry: Published, reason: str) -> DataError:
    folder = part.parent
    return DataError(
        f"{entry.name} could not be downloaded: {reason}. Run the command again to go on from what "
        f"has arrived, or download {entry.url} by other means, put it into {folder} as {entry.file_name}, "
        f"and check it with `dshmem data verify --in {folder}`."
    )
