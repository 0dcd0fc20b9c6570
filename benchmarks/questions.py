"""Questions on a ready memory, against a bare SDK loop and against the ideal.

python benchmarks/questions.py [--concurrency 16 32] [--latency 2] [--repeat 3] [--keep FOLDER]

The 152 questions of conv-26 (set DSHMEM_DATA), most of them two model calls of `latency` seconds each.
Whole processes are compared, from start to end: imports, collection, runtimes, records and summary
included. The ideal is the time of all model calls over K.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from figures import Figure, parser_for, ratio, show
from ready_memory import ReadyMemory
from suite_runs import HERE, environment, locomo_file, scratch

from pytest_dshmem.offline.process import StandIn

RUNTIMES = 2
OVER_BARE_LOOP = 1.10
OVER_IDEAL = {16: 1.3, 32: 1.5}


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds: the suite's process, of it from collection to last hypothesis, the bare loop's process."""

    suite: float
    asking: float
    bare: float
    ideal: float


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
        figures: list[Figure] = []
        for concurrency in options.concurrency:
            rounds = [measure(memory, concurrency, options.latency) for _ in range(options.repeat)]
            figures += compare(rounds, concurrency)
    return show(figures)


def measure(memory: ReadyMemory, concurrency: int, latency: float) -> Round:
    """One round: the bare loop, then the suite, on one endpoint."""
    with StandIn.start(latency=latency) as model:
        memory.restore()
        bare = bare_loop(memory.run, concurrency, model.url)
        before = model.served()["messages"]["requests"]
        suite = memory.ask(model.url, concurrency).require()
        calls = model.served()["messages"]["requests"] - before
    asking = suite.between("collected", "last hypothesis")
    done = Round(suite.seconds, asking, bare, calls * latency / concurrency)
    print(f"K = {concurrency}, {calls} calls: {done}", flush=True)
    return done


def compare(rounds: Sequence[Round], concurrency: int) -> list[Figure]:
    """Medians of the rounds over each other."""
    suite = statistics.median(done.suite for done in rounds)
    bare = statistics.median(done.bare for done in rounds)
    ideal = rounds[0].ideal
    print(f"K = {concurrency}: the bare loop itself took {bare / ideal:.2f} times the ideal")
    limit = OVER_IDEAL.get(concurrency, max(OVER_IDEAL.values()))
    return [
        ratio(f"suite over bare loop, K = {concurrency}", suite, bare, OVER_BARE_LOOP),
        ratio(f"suite over ideal, K = {concurrency}", suite, ideal, limit),
    ]


def bare_loop(run: Path, concurrency: int, url: str) -> float:
    """Seconds that the bare loop's process took."""
    options = [f"--concurrency={concurrency}", f"--runtimes={RUNTIMES}"]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, HERE / "bare_loop.py", run, *options],
        env=environment(url),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds = time.monotonic() - began
    told = json.loads(done.stdout.splitlines()[-1])
    print(f"bare loop: {told}", flush=True)
    return seconds


if __name__ == "__main__":
    sys.exit(main())
