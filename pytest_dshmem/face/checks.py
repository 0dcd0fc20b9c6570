"""What option values must be, beyond their type. Every check raises ArgumentTypeError with one sentence."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Iterable
from pathlib import Path

from pytest_dshmem.experiment.condition import ConditionError, parse_conditions
from pytest_dshmem.record.places import is_inside_repository


def known_conditions(text: str) -> None:
    try:
        parse_conditions(text)
    except ConditionError as error:
        raise ArgumentTypeError(str(error)) from None


def outside_of_repositories(folder: Path) -> None:
    if is_inside_repository(folder):
        raise ArgumentTypeError(f"{folder} lies inside a repository; name a folder outside of it")


def existing_file(file: Path) -> None:
    if not file.is_file():
        raise ArgumentTypeError(f"there is no file {file}")


def existing_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise ArgumentTypeError(f"there is no folder {folder}")


def file_to_write(file: Path) -> None:
    if file.is_dir():
        raise ArgumentTypeError(f"{file} is a folder; name a file")
    existing_folder(file.parent)


def existing_run(run: Path) -> None:
    if not (run / "run.json").is_file():
        raise ArgumentTypeError(f"{run} holds no run: there is no run.json in it")


def existing_runs(runs: Iterable[Path]) -> None:
    for run in runs:
        existing_run(run)


def percentage(number: float) -> None:
    if not 0 <= number <= 100:
        raise ArgumentTypeError(f"{number:g} is not between 0 and 100")


def more_than_nothing(number: float) -> None:
    if not (number > 0 and math.isfinite(number)):
        raise ArgumentTypeError(f"{number:g} is not more than 0")
