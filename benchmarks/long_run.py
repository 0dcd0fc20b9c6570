"""A run of 1,540 questions: what it holds in memory at the end, and what it takes to find it finished.

python benchmarks/long_run.py [--mode memory] [--concurrency 8] [--keep FOLDER]

All questions of LoCoMo (set DSHMEM_DATA) with a model that takes no time. Measured are the memory of the
pytest process and its runtimes at the end over that after the first 100 questions, and then the time of the
same command once more, which finds nothing to do, over that of as many trivial parametrized tests.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from figures import Figure, median_of, parser_for, ratio, show
from suite_runs import SuiteRun, locomo_file, run_suite, scratch

from pytest_dshmem.offline.process import StandIn

MEMORY_BOUND = 1.5
FINISHED_BOUND = 3.0
TRIVIAL = """\
import pytest


@pytest.mark.parametrize("number", range({count}))
def test_number(number):
    assert number >= 0
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--mode", default="memory")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3, help="times that the finished run is started again")
    parser.add_argument("--select", nargs="*", default=[], help="pytest options that make it a shorter run")
    parser.add_argument("--keep", type=Path, help="folder to keep the run in, and to find it again")
    options = parser.parse_args(arguments)
    locomo_file()
    with scratch(options.keep) as folder, StandIn.start() as model:
        command = [
            "suites/locomo",
            *options.select,
            f"--mode={options.mode}",
            f"--dshmem-run={folder / 'run'}",
            f"--dshmem-concurrency={options.concurrency}",
        ]
        was_there = (folder / "run").exists()
        first = run_suite(command, model.url).require()
        figures = [] if was_there else [memory(first)]
        trivial = trivial_tests(folder, len(hypotheses(folder / "run")))
        figures += median_of(options.repeat, lambda: [finished(command, trivial, model.url)])
    return show(figures)


def hypotheses(run: Path) -> list[str]:
    return (run / "hypotheses.jsonl").read_text(encoding="utf-8").splitlines()


def memory(run: SuiteRun) -> Figure:
    """Memory of the process and its runtimes: the end over the time after 100 questions."""
    held = {
        int(name.split()[1]): (moment["resident"], moment["runtimes"])
        for name, moment in run.moments.items()
        if name.startswith("hypothesis ")
    }
    for number, (own, runtimes) in sorted(held.items()):
        print(f"after {number} questions: {own / 1e6:.0f} MB and {runtimes / 1e6:.0f} MB in runtimes")
    last = max(held)
    return ratio(
        f"memory after {last} questions over that after 100",
        sum(held[last]) / 1e6,
        sum(held[100]) / 1e6,
        MEMORY_BOUND,
        unit="MB",
    )


def trivial_tests(folder: Path, count: int) -> list[str]:
    """Tests that do nothing, as many as there are questions: the arguments that run them."""
    file = folder / "test_trivial.py"
    file.write_text(TRIVIAL.format(count=count), encoding="utf-8")
    return [str(file), f"--rootdir={folder}"]


def finished(command: Sequence[str], trivial: Sequence[str], url: str) -> Figure:
    """The finished run over the trivial tests, whole processes, one after the other."""
    seconds = run_suite(command, url).require().seconds
    return ratio(
        "a finished run over as many trivial tests",
        seconds,
        run_suite(trivial).require().seconds,
        FINISHED_BOUND,
    )


if __name__ == "__main__":
    sys.exit(main())
