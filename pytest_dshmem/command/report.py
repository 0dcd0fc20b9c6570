"""`dshmem report`: a finished run in the terminal, as one HTML file, or as JSON."""

import argparse
import json
import os
from pathlib import Path

from pytest_dshmem.command.terminal import fail, show
from pytest_dshmem.datasets.catalog import open_benchmark
from pytest_dshmem.datasets.views import Benchmark, DataError
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.record.run_directory import write_atomically
from pytest_dshmem.report.compare import CompareError, Comparison, compare_runs
from pytest_dshmem.report.diagnosis import read_diagnosis
from pytest_dshmem.report.diagnosis_text import diagnosis_lines, disputed_lines
from pytest_dshmem.report.figures import run_figures
from pytest_dshmem.report.html.gathering import page_content
from pytest_dshmem.report.html.page import render_page
from pytest_dshmem.report.json_report import report_document
from pytest_dshmem.report.overlay import OverlayError, load_overlay
from pytest_dshmem.report.prices import PriceError, Prices, load_prices
from pytest_dshmem.report.reading import RunReading, read_run
from pytest_dshmem.report.summary import summary_lines


def add_report_command(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Registers `report`."""
    parser = subparsers.add_parser("report", help="a finished run in the terminal, as HTML and as JSON")
    parser.add_argument("run_directory", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained HTML page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    parser.add_argument(
        "--without-text", action="store_true", help="leave question and gold text out of both"
    )
    parser.add_argument("--prices", type=Path, metavar="FILE", help="price file (TOML) for money")
    parser.add_argument(
        "--compare",
        type=Path,
        action="append",
        default=[],
        metavar="RUN",
        help="compare with this run, on the page",
    )
    parser.add_argument(
        "--force", action="store_true", help="compare what is no measurement of the same thing"
    )
    parser.add_argument(
        "--disputed",
        type=Path,
        metavar="FILE",
        help="published audit of LoCoMo's golds, to report without them too",
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="where the data set is, for --disputed")
    parser.set_defaults(run=_report)


def _report(arguments: argparse.Namespace) -> int:
    try:
        _write_reports(arguments)
    except (RecordError, CompareError, PriceError, OverlayError, DataError) as error:
        return fail(error)
    return 0


def _write_reports(arguments: argparse.Namespace) -> None:
    prices = load_prices(arguments.prices) if arguments.prices else None
    reading = read_run(arguments.run_directory)
    if arguments.html:
        write_atomically(arguments.html, _page(arguments, reading, prices))
        print(f"wrote {arguments.html}")
    if arguments.json:
        document = report_document(reading, prices, texts=not arguments.without_text)
        write_atomically(arguments.json, json.dumps(document, indent=1) + "\n")
        print(f"wrote {arguments.json}")
    if not arguments.html and not arguments.json:
        figures = run_figures(reading, prices)
        show(summary_lines(figures))
        show(disputed_lines(figures, _disputed(arguments, reading)))
        show(diagnosis_lines(read_diagnosis(reading.path) or (), figures.categories))


def _page(arguments: argparse.Namespace, reading: RunReading, prices: Prices | None) -> str:
    return render_page(
        page_content(
            reading,
            prices=prices,
            comparisons=_comparisons(arguments, reading),
            disputed=_disputed(arguments, reading),
            texts=not arguments.without_text,
        )
    )


def _comparisons(arguments: argparse.Namespace, reading: RunReading) -> tuple[Comparison, ...]:
    """With the runs that were named, those first; else of the run's own conditions, if it has several."""
    others = [read_run(path) for path in arguments.compare]
    if not others and len(reading.groups) < 2:
        return ()
    return compare_runs([*others, reading], force=arguments.force)


def _disputed(arguments: argparse.Namespace, reading: RunReading) -> frozenset[str]:
    if arguments.disputed is None:
        return frozenset()
    if reading.setting("benchmark") != "locomo":
        raise OverlayError("--disputed belongs to LoCoMo, and this run is of another benchmark; leave it out")
    benchmark = _benchmark(arguments.data)
    if benchmark.file.sha256 != reading.setting("data.sha256"):
        raise OverlayError("--disputed belongs to the published LoCoMo file, and this run used another one")
    samples = dict.fromkeys(listing.sample_id for listing in benchmark.listings())
    return load_overlay(arguments.disputed, list(samples))


def _benchmark(folder: Path | None) -> Benchmark:
    return open_benchmark("locomo", folder=folder, environment=os.environ)
