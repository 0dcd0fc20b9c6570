"""The `dshmem` command: what can be done with data sets, and with runs when pytest is over.

Exit status: 0 all is well, 1 something failed or does not hold, 2 wrong usage, 130 interrupted.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from pytest_dshmem.command.compare import add_compare_command
from pytest_dshmem.command.data import add_data_commands
from pytest_dshmem.command.export import add_export_command
from pytest_dshmem.command.history import add_history_command
from pytest_dshmem.command.judge import add_judge_command
from pytest_dshmem.command.report import add_report_command
from pytest_dshmem.command.verify import add_verify_command

INTERRUPTED = 130

COMMANDS = (
    add_data_commands,
    add_judge_command,
    add_report_command,
    add_compare_command,
    add_history_command,
    add_verify_command,
    add_export_command,
)


def main(words: Sequence[str] | None = None) -> int:
    """Carries out one command and returns its exit status. Usage errors end in SystemExit with status 2."""
    arguments = _parser().parse_args(words)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return run(arguments)
    except KeyboardInterrupt:
        print("dshmem: interrupted; what was recorded by then is kept", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone. Python's own flush at exit must not find the pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> argparse.ArgumentParser:
    from pytest_dshmem import __version__

    parser = argparse.ArgumentParser(
        prog="dshmem", description="Memory benchmarks for DeepSeek Harness: data sets, and finished runs."
    )
    parser.add_argument("--version", action="version", version=f"pytest-dshmem {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add_command in COMMANDS:
        add_command(subparsers)
    return parser


if __name__ == "__main__":
    sys.exit(main())
