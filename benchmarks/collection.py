"""Collecting LongMemEval-S against collecting as many trivial tests, and the memory of its first indexing.

python benchmarks/collection.py [FILE] [--repeat 3]

FILE is of the size of LongMemEval-S; without it one is made from the oracle file (set DSHMEM_DATA). What is
compared are the seconds and the peak memory of `pytest --collect-only`, whole processes, on a warm index.
"""

import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import s_size_file
from figures import Figure, parser_for, ratio, show
from long_run import TRIVIAL
from suite_runs import SuiteRun, run_suite, scratch

TIME_BOUND = 3.0
EXTRA_MEGABYTES = 60.0
INDEXING_MEGABYTES = 150.0
QUESTIONS = 500


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_for(__doc__)
    parser.add_argument("file", type=Path, nargs="?", help="a file of the size of LongMemEval-S")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args(arguments)
    with scratch() as folder:
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        file = options.file or folder / "longmemeval_s_cleaned.json"
        if options.file is None:
            s_size_file.write(file)
        trivial_tests = folder / "test_trivial.py"
        trivial_tests.write_text(TRIVIAL.format(count=QUESTIONS), encoding="utf-8")
        cold = collect(file)
        warm = [collect(file) for _ in range(options.repeat)]
        trivial = [
            run_suite(["--collect-only", f"--rootdir={folder}", str(trivial_tests)]).require() for _ in warm
        ]
    print(f"cold: {cold.seconds:.2f} s, peak {peak(cold):.0f} MB; warm peak {peak(warm[0]):.0f} MB")
    return show(
        [
            ratio(
                f"warm collection of {QUESTIONS} instances over trivial tests",
                statistics.median(run.seconds for run in warm),
                statistics.median(run.seconds for run in trivial),
                TIME_BOUND,
            ),
            Figure(
                "memory of warm collection beyond that of trivial tests",
                statistics.median(map(peak, warm)) - statistics.median(map(peak, trivial)),
                EXTRA_MEGABYTES,
                unit="MB",
            ),
            Figure("peak memory of first indexing", peak(cold), INDEXING_MEGABYTES, unit="MB"),
        ]
    )


def collect(file: Path) -> SuiteRun:
    run = run_suite(
        ["suites/longmemeval", "--collect-only", "--dshmem-allow-unpinned", f"--dshmem-data={file}"]
    ).require()
    if f"{QUESTIONS} tests collected" not in run.output:
        sys.exit(f"not {QUESTIONS} tests were collected:\n{run.output[-1000:]}")
    return run


def peak(run: SuiteRun) -> float:
    """The most memory that the process held, in megabytes."""
    return run.moments["end"]["peak"] / 1e6


if __name__ == "__main__":
    sys.exit(main())
