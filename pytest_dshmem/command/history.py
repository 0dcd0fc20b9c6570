"""`dshmem history`: runs of the same configuration over time."""

import argparse
from pathlib import Path

from pytest_dshmem.command.terminal import fail, show
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.report.history import history
from pytest_dshmem.report.history_text import history_lines


def add_history_command(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Registers `history`."""
    parser = subparsers.add_parser("history", help="runs of the same configuration over time")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="folders that hold runs")
    parser.set_defaults(run=_history)


def _history(arguments: argparse.Namespace) -> int:
    try:
        show(history_lines(history(arguments.folders)))
    except RecordError as error:
        return fail(error)
    return 0
