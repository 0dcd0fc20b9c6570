"""Judging saved answers against the ideal.

python benchmarks/judging.py RUN [--latency 0.5] [--concurrency 32] [--repeat 3]

RUN is a run directory with answers, such as `long_run.py --keep` leaves. What is measured is a whole
process of `dshmem judge`, summary included; the ideal is its calls times the latency over the concurrency.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from figures import Figure, median_of, parser_for, ratio, show
from suite_runs import environment, scratch

from pytest_dshmem.offline.process import StandIn

BOUND = 1.15
MODEL = "offline-judge"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_for(__doc__)
    parser.add_argument("run", type=Path, help="a run directory with answers")
    parser.add_argument("--latency", type=float, default=0.5, help="seconds a judge call")
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args(arguments)
    return show(
        median_of(options.repeat, lambda: [measure(options.run, options.latency, options.concurrency)])
    )


def measure(run: Path, latency: float, concurrency: int) -> Figure:
    with scratch() as folder, StandIn.start(judge_latency=latency) as judge:
        answers = folder / "run"
        shutil.copytree(run, answers, ignore=shutil.ignore_patterns("judge.jsonl"))
        started = time.monotonic()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest_dshmem.command.main", "judge", str(answers)),
                f"--concurrency={concurrency}",
                f"--model={MODEL}",
                f"--base-url={judge.url}",
            ],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - started
        calls = judge.served()["chat"]["requests"]
    if done.returncode != 0 or not calls:
        sys.exit(f"judging ended with {done.returncode} after {calls} calls: {done.stderr or done.stdout}")
    return ratio(
        f"judging {calls} answers, {concurrency} at a time, over the ideal",
        seconds,
        calls * latency / concurrency,
        BOUND,
    )


if __name__ == "__main__":
    sys.exit(main())
