"""`dshmem data`: download, verify and list the published data sets."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from pytest_dshmem.datasets.cache import cache_folder
from pytest_dshmem.datasets.catalog import PUBLISHED, published
from pytest_dshmem.datasets.fetch import FileStatus, fetch, verify
from pytest_dshmem.datasets.views import DataError

_MEGABYTE = 1_000_000
_PERCENT_PER_LINE = 10


def add_data_commands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Registers `data fetch`, `data verify` and `data list`. Each sets `run`, which takes the arguments and
    returns the exit status."""
    data = subparsers.add_parser("data", help="download, verify and list data sets")
    commands = data.add_subparsers(dest="data_command", required=True, metavar="COMMAND")

    fetching = commands.add_parser("fetch", help="download a published file, resuming where it was cut")
    fetching.add_argument("name", choices=[entry.name for entry in PUBLISHED], help="which file")
    fetching.add_argument(
        "--to", type=Path, metavar="DIR", help="where to (default: the user's cache folder)"
    )
    fetching.set_defaults(run=_fetch)

    verifying = commands.add_parser(
        "verify", help="compare the files that are here with the published hashes"
    )
    verifying.add_argument(
        "--in",
        dest="folder",
        type=Path,
        metavar="DIR",
        help="where (default: DSHMEM_DATA and the cache folder)",
    )
    verifying.set_defaults(run=_verify)

    listing = commands.add_parser("list", help="what can be downloaded, and under which licence")
    listing.set_defaults(run=_list)


def _fetch(arguments: argparse.Namespace) -> int:
    entry = published(arguments.name)
    folder: Path = arguments.to or cache_folder(os.environ)
    on_terminal = sys.stderr.isatty()
    show = _progress_on_one_line() if on_terminal else _progress_in_few_lines()
    try:
        path = fetch(entry, folder, show)
    except DataError as error:
        return _failed(error, on_terminal)
    except KeyboardInterrupt:
        return _failed(DataError("Interrupted: the same command goes on from here."), on_terminal)
    print(f"{path}: {entry.bytes:,} bytes, hash as published, licence {entry.licence}")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    try:
        found = verify(arguments.folder, os.environ)
    except DataError as error:
        return _failed(error, False)
    for status in found:
        print(_status_line(status))
    if all(status.state == "absent" for status in found):
        return _failed(
            DataError("No published file was found: download one with `dshmem data fetch NAME`."), False
        )
    return int(any(status.state == "wrong hash" for status in found))


def _list(_: argparse.Namespace) -> int:
    for entry in PUBLISHED:
        print(f"{entry.name}  {entry.file_name}  {entry.bytes:,} bytes  {entry.licence}")
        print(f"  {entry.url}")
        print(f"  sha256 {entry.sha256}")
    return 0


def _status_line(status: FileStatus) -> str:
    name = f"{status.entry.name:<20}"
    if status.path is None:
        return f"{name}absent"
    if status.state == "wrong hash":
        return f"{name}WRONG HASH  {status.path}  is {status.sha256}, published is {status.entry.sha256}"
    return f"{name}good  {status.path}"


def _failed(error: DataError, after_progress: bool) -> int:
    print(f"{chr(10) if after_progress else ''}dshmem: {error}", file=sys.stderr)
    return 1


def _progress_on_one_line() -> Callable[[int, int], None]:
    def show(arrived: int, total: int) -> None:
        text = f"\r{arrived / _MEGABYTE:,.1f} of {total / _MEGABYTE:,.1f} MB ({arrived / total:.0%})"
        print(text, end="\n" if arrived == total else "", file=sys.stderr, flush=True)

    return show


def _progress_in_few_lines() -> Callable[[int, int], None]:
    said = -1

    def show(arrived: int, total: int) -> None:
        nonlocal said
        step = arrived * 100 // total // _PERCENT_PER_LINE
        if step > said:
            said = step
            print(
                f"{arrived / _MEGABYTE:,.1f} of {total / _MEGABYTE:,.1f} MB ({arrived / total:.0%})",
                file=sys.stderr,
            )

    return show
