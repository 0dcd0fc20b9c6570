"""The published files, where to find them on this machine, and how to open one as a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_dshmem.bundled import bundled_path
from pytest_dshmem.datasets.cache import cache_folder, file_sha256
from pytest_dshmem.datasets.locomo import LoCoMo
from pytest_dshmem.datasets.longmemeval import LongMemEval
from pytest_dshmem.datasets.views import Benchmark, DataError, DataFile

BENCHMARKS = ("locomo", "longmemeval")
VARIANTS = ("oracle", "s", "m")
DEFAULT_VARIANT = "s"

LOCOMO_COMMIT = "3eb6f2c585f5e1699204e3c3bdf7adc5c28cb376"
LONGMEMEVAL_REVISION = "98d7416c24c778c2fee6e6f3006e7a073259d48f"


@dataclass(frozen=True, slots=True)
class Published:
    """A file as its authors published it: where it can be had, and what it must be to be used."""

    name: str
    benchmark: str
    file_name: str
    url: str
    bytes: int
    sha256: str
    licence: str


def _locomo(file_name: str, size: int, sha256: str) -> Published:
    url = f"https://raw.githubusercontent.com/snap-research/locomo/{LOCOMO_COMMIT}/data/{file_name}"
    return Published("locomo", "locomo", file_name, url, size, sha256, "CC BY-NC 4.0")


def _longmemeval(variant: str, file_name: str, size: int, sha256: str) -> Published:
    repository = "https://huggingface.co/datasets/xiaowu0162/longmemeval-cleaned"
    url = f"{repository}/resolve/{LONGMEMEVAL_REVISION}/{file_name}"
    return Published(f"longmemeval-{variant}", "longmemeval", file_name, url, size, sha256, "MIT")


PUBLISHED = (
    _locomo(
        "locomo10.json",
        2_805_274,
        "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4",
    ),
    _longmemeval(
        "oracle",
        "longmemeval_oracle.json",
        15_388_478,
        "821a2034d219ab45846873dd14c14f12cfe7776e73527a483f9dac095d38620c",
    ),
    _longmemeval(
        "s",
        "longmemeval_s_cleaned.json",
        277_383_467,
        "d6f21ea9d60a0d56f34a05b609c79c88a451d2ae03597821ea3d5a9678c3a442",
    ),
    _longmemeval(
        "m",
        "longmemeval_m_cleaned.json",
        2_737_100_077,
        "9d79e5524794a2e6900a3aa9cb7d9152c5a3e8319c9a87c25494ba1eacee495f",
    ),
)


def published(name: str) -> Published:
    """The pins of a published file by its name: `locomo`, `longmemeval-oracle`, `-s` or `-m`."""
    for entry in PUBLISHED:
        if entry.name == name:
            return entry
    names = ", ".join(entry.name for entry in PUBLISHED)
    raise DataError(f"There is no published file {name!r}: choose one of {names}.")


def locate(name: str, folder: Path | None, environment: Mapping[str, str]) -> Path:
    """The path of a published file on this machine, whatever its content is.

    `folder`, where given, is the only place: a folder or the file itself. Else `DSHMEM_DATA` (likewise) and
    then the user's cache folder are looked through, each with a subfolder named after the benchmark. Raises
    DataError, naming the command that downloads the file, where there is none.
    """
    entry = published(name)
    places = data_places(folder, environment)
    for place in places:
        if (path := find_in(entry, place)) is not None:
            return path
    looked = " or ".join(str(place) for place in places)
    to = f" --to {folder}" if folder is not None else ""
    raise DataError(
        f"{entry.file_name} is not in {looked}: download it with `dshmem data fetch {name}{to}`, "
        "or name its folder with --dshmem-data or DSHMEM_DATA."
    )


def data_places(folder: Path | None, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Where data files are looked for, in order."""
    if folder is not None:
        return (folder.expanduser(),)
    named = environment.get("DSHMEM_DATA")
    return (*((Path(named).expanduser(),) if named else ()), cache_folder(environment))


def find_in(entry: Published, place: Path) -> Path | None:
    """The entry's file in a folder, or `place` itself where that is a file."""
    candidates = (place, place / entry.file_name, place / entry.benchmark / entry.file_name)
    return next((path for path in candidates if path.is_file()), None)


def open_benchmark(
    name: str,
    *,
    environment: Mapping[str, str],
    folder: Path | None = None,
    allow_unpinned: bool = False,
    variant: str | None = None,
    captions: bool = True,
    sample_corpus: bool = False,
) -> Benchmark:
    """Opens `locomo` or `longmemeval`: the published file, or the small sample corpus that comes with us.

    `variant` is LongMemEval's size (`oracle`, `s`, `m`; `s` where None) and means nothing to LoCoMo or to a
    sample corpus; `captions` concerns LoCoMo alone. A file whose hash is not the published one is refused
    with DataError unless `allow_unpinned`, and its DataFile then says that it is not pinned.
    """
    if name not in BENCHMARKS:
        raise DataError(f"There is no benchmark {name!r}: choose one of {', '.join(BENCHMARKS)}.")
    if sample_corpus:
        path = bundled_path("corpora", f"{name}-sample.json")
        file = DataFile(f"{name}-sample", file_sha256(path), path.stat().st_size, False, sample_corpus=True)
        # Scanning a few kilobytes is cheaper than keeping an index, and leaves nothing behind.
        return _benchmark(name, path, file, captions, cache=None)
    entry = published(name if name == "locomo" else f"longmemeval-{_checked_variant(variant)}")
    path = locate(entry.name, folder, environment)
    cache = cache_folder(environment)
    return _benchmark(name, path, _identify(path, entry, cache, allow_unpinned), captions, cache)


def _benchmark(name: str, path: Path, file: DataFile, captions: bool, cache: Path | None) -> Benchmark:
    if name == "locomo":
        return LoCoMo(path, file, captions)
    return LongMemEval(path, file, cache)


def _checked_variant(variant: str | None) -> str:
    if variant is None:
        return DEFAULT_VARIANT
    if variant not in VARIANTS:
        raise DataError(f"There is no LongMemEval variant {variant!r}: choose one of {', '.join(VARIANTS)}.")
    return variant


def _identify(path: Path, entry: Published, cache: Path, allow_unpinned: bool) -> DataFile:
    sha256 = file_sha256(path, cache)
    pinned = sha256 == entry.sha256
    other = next((each.name for each in PUBLISHED if each.sha256 == sha256 and each != entry), None)
    if other is not None:
        raise DataError(
            f"{path} is the published {other}, not {entry.name}: choose that one or another file."
        )
    if not pinned and not allow_unpinned:
        raise DataError(
            f"{path} is not the published {entry.name}: its sha256 is {sha256}, the published one is "
            f"{entry.sha256}. Download that with `dshmem data fetch {entry.name}`, or use this file as it "
            "is with --dshmem-allow-unpinned."
        )
    return DataFile(entry.name, sha256, path.stat().st_size, pinned)
