"""How the `dshmem` command speaks: lines in colour where a person reads them, errors as one sentence."""

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from pytest_dshmem.report.lines import Line, Style

COLOURS: Mapping[Style, str] = MappingProxyType(
    {"heading": "1", "warning": "33", "good": "32", "bad": "31", "dim": "2"}
)


def show(lines: Iterable[Line]) -> None:
    """Prints lines, in colour on a terminal unless NO_COLOR is set."""
    in_colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for line in lines:
        colour = COLOURS.get(line.style) if in_colour else None
        print(f"\033[{colour}m{line.text}\033[0m" if colour else line.text)


def positive_count(text: str) -> int:
    """A whole number above 0, as argparse takes it."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def fail(error: Exception) -> int:
    """Says on stderr what went wrong, and gives the exit status for it."""
    print(f"dshmem: {error}", file=sys.stderr)
    return 1


def refuse(error: Exception) -> int:
    """The same for a command that was given something it cannot be carried out with."""
    fail(error)
    return 2
