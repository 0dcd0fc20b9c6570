"""`dshmem compare`: runs, or the conditions of one run, question by question."""

import argparse
import json
from pathlib import Path

from pytest_dshmem.command.terminal import fail, show
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.record.run_directory import write_atomically
from pytest_dshmem.report.compare import CompareError, compare_runs
from pytest_dshmem.report.comparison_figures import comparison_document, comparison_figures
from pytest_dshmem.report.comparison_text import comparison_lines
from pytest_dshmem.report.prices import PriceError, load_prices
from pytest_dshmem.report.reading import read_run


def add_compare_command(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Registers `compare`."""
    parser = subparsers.add_parser("compare", help="compare runs, or the conditions of one, by question")
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="run directories; the first is the base"
    )
    parser.add_argument("--mode", metavar="MODE", help="compare this condition only")
    parser.add_argument("--prices", type=Path, metavar="FILE", help="price file (TOML) for money")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the comparison as JSON")
    parser.add_argument(
        "--force", action="store_true", help="compare what is no measurement of the same thing"
    )
    parser.set_defaults(run=_compare)


def _compare(arguments: argparse.Namespace) -> int:
    try:
        prices = load_prices(arguments.prices) if arguments.prices else None
        readings = [read_run(path) for path in arguments.runs]
        found = [
            comparison_figures(comparison, prices)
            for comparison in compare_runs(readings, arguments.mode, arguments.force)
        ]
        for figures in found:
            show(comparison_lines(figures))
        if arguments.json:
            documents = [comparison_document(figures) for figures in found]
            write_atomically(arguments.json, json.dumps(documents, indent=1) + "\n")
    except (RecordError, CompareError, PriceError) as error:
        return fail(error)
    return 0
