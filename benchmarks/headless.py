"""Questions in one process against one `dsh headless` process per question.

python benchmarks/headless.py [--concurrency 32] [--processes 2 4 8] [--questions 16] [--latency 2]

The suite asks the 152 questions of conv-26 (set DSHMEM_DATA) on a ready memory. The processes ask some of
them at each parallelism; the best rate is taken for all of them. Their profile is the stock one, so their
turns may take fewer calls than the suite's: that is to their advantage.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from figures import parser_for, ratio, show
from ready_memory import ReadyMemory
from suite_runs import KEY, locomo_file, scratch

from pytest_dshmem.harness.composition import child_environment, inherited_environment
from pytest_dshmem.harness.endpoint import Endpoint
from pytest_dshmem.harness.runtime import runtime_command
from pytest_dshmem.harness.sandbox import IsolatedHome, Sandbox
from pytest_dshmem.offline.process import StandIn
from pytest_dshmem.record.run_directory import RunDirectory

TIMES_FASTER = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4, 8], help="processes at a time")
    parser.add_argument("--questions", type=int, default=16, help="questions asked by processes")
    parser.add_argument("--latency", type=float, default=2.0, help="seconds a model call")
    parser.add_argument("--keep", type=Path, help="folder to keep the formed memory in, and to find it again")
    options = parser.parse_args(arguments)
    locomo_file()
    with scratch(options.keep) as folder, StandIn.start(latency=options.latency) as model:
        memory = ReadyMemory(folder, ["-k", "conv-26", "--mode=memory"])
        memory.restore()
        suite = memory.ask(model.url, options.concurrency).require()
        questions = [text.question for text in RunDirectory.open(memory.run).references.read()]
        paces = {
            processes: seconds_a_question(
                folder / "processes", model.url, questions[: options.questions], processes
            )
            for processes in options.processes
        }
    for processes, seconds in paces.items():
        print(f"dsh headless, {processes} at a time: {seconds:.2f} s a question")
    best = min(paces.values()) * len(questions)
    measure = f"dsh headless over the suite at K = {options.concurrency}, {len(questions)} questions"
    return show([ratio(measure, best, suite.seconds, TIMES_FASTER, at_least=True)])


def seconds_a_question(folder: Path, url: str, questions: Sequence[str], processes: int) -> float:
    """Seconds by the clock that a question takes with so many processes at a time."""
    sandbox = Sandbox.for_run("headless", parent=folder)
    endpoint = Endpoint(api_key=KEY, base_url=url)
    home = sandbox.home("questions", "headless")
    ask(home, endpoint, "Unpack yourself.")
    started = time.monotonic()
    with ThreadPoolExecutor(processes) as threads:
        list(threads.map(lambda question: ask(home, endpoint, question), questions))
    return (time.monotonic() - started) / len(questions)


def ask(home: IsolatedHome, endpoint: Endpoint, question: str) -> str:
    """One process for one question: its answer."""
    done = subprocess.run(
        [*runtime_command(), "--profile", "headless", question],
        cwd=home.launch_folder,
        env={**inherited_environment(os.environ), **child_environment(home, endpoint)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"dsh headless ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
