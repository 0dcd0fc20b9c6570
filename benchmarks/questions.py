"""Questions on a ready memory, against a bare SDK loop and against the ideal.

python benchmarks/questions.py [--concurrency 16 32] [--latency 2] [--repeat 3] [--keep FOLDER]

The 152 questions of conv-26 (set DSHMEM_DATA), most of them two model calls of `latency` seconds each.
Whole processes are compared, from start to end: imports, collection, runtimes, records and summary
included.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from figures import Figure, median_of, parser_for, ratio, show
from ready_memory import ReadyMemory
from suite_runs import HERE, environment, locomo_file, scratch

from pytest_dshmem.offline.process import StandIn

RUNTIMES = 2
OVER_BARE_LOOP = 1.10
OVER_IDEAL = {16: 1.3, 32: 1.5}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--latency", type=float, default=2.0, help="seconds a model call")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder to keep the formed memory in, and to find it again")
    options = parser.parse_args(arguments)
    locomo_file()
    with scratch(options.keep) as folder:
        memory = ReadyMemory(folder, ["-k", "conv-26", "--mode=memory"])
        figures = []
        for concurrency in options.concurrency:
            once = partial(measure, memory, concurrency, options.latency)
            figures += median_of(options.repeat, once)
    return show(figures)


def measure(memory: ReadyMemory, concurrency: int, latency: float) -> list[Figure]:
    """One round: the bare loop, then the suite, on one endpoint."""
    with StandIn.start(latency=latency) as model:
        memory.restore()
        bare = bare_loop(memory.run, concurrency, model.url)
        before = model.served()["messages"]["requests"]
        suite = memory.ask(model.url, concurrency).require()
        calls = model.served()["messages"]["requests"] - before
    ideal = calls * latency / concurrency
    asking = suite.between("collected", "last hypothesis")
    print(f"K = {concurrency}: {calls} calls; bare loop {bare}; suite {suite.seconds:.2f} s")
    print(f"of the suite's time {asking:.2f} s from the end of collection to the last hypothesis", flush=True)
    limit = OVER_IDEAL.get(concurrency, max(OVER_IDEAL.values()))
    return [
        ratio(f"suite over bare loop, K = {concurrency}", suite.seconds, bare["process"], OVER_BARE_LOOP),
        ratio(f"suite over ideal, K = {concurrency}", suite.seconds, ideal, limit),
        ratio(f"bare loop over ideal, K = {concurrency}", bare["process"], ideal, limit),
    ]


def bare_loop(run: Path, concurrency: int, url: str) -> dict[str, float]:
    """Seconds that the bare loop took, by part."""
    options = [f"--concurrency={concurrency}", f"--runtimes={RUNTIMES}"]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, HERE / "bare_loop.py", run, *options],
        env=environment(url),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {**seconds, "process": time.monotonic() - began}


if __name__ == "__main__":
    sys.exit(main())
