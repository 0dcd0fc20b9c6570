"""An index over a large data file: where each instance stands, so that one can be read with one seek.

Built once by a streaming scan and kept in the cache folder under the file's hash. Loading it parses one small
JSON file, so that collecting a benchmark costs milliseconds whatever the size of the data.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_dshmem.datasets.array_scan import scan_objects
from pytest_dshmem.datasets.cache import unwritable, write_atomically
from pytest_dshmem.datasets.fields import Record, parse_json
from pytest_dshmem.datasets.views import DataError, DataFile

# Raise it when what is stored or how an instance is surveyed changes: older indexes are then built anew.
_FORMAT = 1
_LOCK_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Entry:
    """One instance: its id and category, and where its text stands in the file, in bytes."""

    id: str
    category: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Survey:
    """What the scan notes of one instance. `oddities` counts what was unusual in it."""

    id: str
    category: str
    oddities: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class InstanceIndex:
    """The instances of one file in file order, and what was odd in the file as a whole."""

    entries: tuple[Entry, ...]
    oddities: Mapping[str, int]


def open_index(
    path: Path, file: DataFile, cache: Path | None, survey: Callable[[Record], Survey]
) -> InstanceIndex:
    """The index of the file at `path`, from the cache where there is one, else built now and kept there.

    One process builds, others wait for it. A stored index that cannot be read is built anew. Without a cache
    folder nothing is kept. Raises DataError where the file or one of its instances is not as it should be.
    """
    if cache is None:
        return build_index(path, survey)
    stored = cache / "index" / f"{file.sha256}.json"
    if (index := _load(stored, file)) is not None:
        return index
    with _only_builder(stored):
        index = _load(stored, file)
        if index is None:
            index = build_index(path, survey)
            write_atomically(stored, _dump(index, file))
    return index


def build_index(path: Path, survey: Callable[[Record], Survey]) -> InstanceIndex:
    """Scans the whole file, one instance in memory at a time."""
    entries: dict[str, Entry] = {}
    oddities: Counter[str] = Counter()
    try:
        with path.open("rb") as stream:
            for number, element in enumerate(scan_objects(stream)):
                place = f"{path}, instance {number}"
                noted = survey(Record(parse_json(element.text, place), place))
                if noted.id in entries:
                    raise DataError(f"{place}: the id {noted.id!r} is taken. Ids must be unique in the file.")
                entries[noted.id] = Entry(noted.id, noted.category, element.offset, len(element.text))
                oddities.update(noted.oddities)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): check its permissions.") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}. Repair the file or fetch the published one.") from None
    if not entries:
        raise DataError(f"{path} should be a list of instances: repair the file or fetch the published one.")
    return InstanceIndex(tuple(entries.values()), dict(sorted(oddities.items())))


def read_record(path: Path, entry: Entry) -> Record:
    """One instance, read with one seek. Raises DataError where another instance stands at its place."""
    place = f"{path}, instance {entry.id}"
    try:
        with path.open("rb") as stream:
            stream.seek(entry.offset)
            text = stream.read(entry.length)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): check its permissions.") from None
    return Record(parse_json(text, place), place)


@contextmanager
def _only_builder(stored: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = stored.with_suffix(".lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=_LOCK_SECONDS):
            yield
    except Timeout:
        raise DataError(
            f"Another process has been indexing for {_LOCK_SECONDS} s ({lock}): wait for it or end it."
        ) from None
    except OSError as error:
        raise unwritable(lock.parent, error) from None


def _dump(index: InstanceIndex, file: DataFile) -> bytes:
    rows = [[entry.id, entry.category, entry.offset, entry.length] for entry in index.entries]
    content = {
        "format": _FORMAT,
        "sha256": file.sha256,
        "bytes": file.bytes,
        "oddities": dict(index.oddities),
        "instances": rows,
    }
    return json.dumps(content).encode()


def _load(stored: Path, file: DataFile) -> InstanceIndex | None:
    try:
        content = json.loads(stored.read_bytes())
        if (content["format"], content["sha256"], content["bytes"]) != (_FORMAT, file.sha256, file.bytes):
            return None
        entries = tuple(
            Entry(str(name), str(category), int(offset), int(length))
            for name, category, offset, length in content["instances"]
        )
        return InstanceIndex(entries, {str(what): int(count) for what, count in content["oddities"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
