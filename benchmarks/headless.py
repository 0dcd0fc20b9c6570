"""Questions in one process against one `dsh headless` process per question.

python benchmarks/headless.py [--concurrency 32] [--processes 4 8 16] [--questions 48] [--latency 0.5]

The suite asks the 152 questions of conv-26 (set DSHMEM_DATA) on a ready memory. The processes ask some of
them, in the same words and with the same memory plugin on the same memory, at each parallelism; the best
rate is taken for all of them. What else is in their profile is the stock one. Each has a home of its own with
a copy of the memory, since the plugin writes and no question may see another; with `--one-home` they share
one, as somebody would have it who does not mind. A process a question is bound by the processor and the suite
by the model, so the slower the model, the smaller the ratio, whatever the engine does.
"""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bare_loop import MODEL, prompts_of
from figures import parser_for, ratio, show
from ready_memory import ReadyMemory
from suite_runs import KEY, locomo_file, scratch

from pytest_dshmem.bundled import bundled_path
from pytest_dshmem.experiment.freezing import open_snapshot, restore
from pytest_dshmem.harness.composition import child_environment, inherited_environment
from pytest_dshmem.harness.endpoint import Endpoint
from pytest_dshmem.harness.memory_system import load_memory_system
from pytest_dshmem.harness.runtime import runtime_command
from pytest_dshmem.harness.sandbox import IsolatedHome, Sandbox
from pytest_dshmem.offline.process import StandIn
from pytest_dshmem.record.entries import FormationKey
from pytest_dshmem.record.run_directory import RunDirectory, opaque_name

TIMES_FASTER = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--processes", type=int, nargs="+", default=[4, 8, 16], help="processes at a time")
    parser.add_argument("--questions", type=int, default=48, help="questions asked by processes")
    parser.add_argument("--one-home", action="store_true", help="all processes in one home")
    parser.add_argument("--latency", type=float, default=0.5, help="seconds a model call")
    parser.add_argument("--keep", type=Path, help="folder to keep the formed memory in, and to find it again")
    options = parser.parse_args(arguments)
    locomo_file()
    with scratch(options.keep) as folder, StandIn.start(latency=options.latency) as model:
        memory = ReadyMemory(folder, ["-k", "conv-26", "--mode=memory"])
        memory.restore()
        suite = memory.ask(model.url, options.concurrency).require()
        prompts = prompts_of(RunDirectory.open(memory.run))
        with headless_on(RunDirectory.open(memory.run), model.url, options.one_home) as headless:
            paces = {
                processes: headless.seconds_a_question(prompts[: options.questions], processes)
                for processes in options.processes
            }
    for processes, seconds in paces.items():
        print(f"dsh headless, {processes} at a time: {seconds:.2f} s a question")
    best = min(paces.values()) * len(prompts)
    measure = f"dsh headless over the suite at K = {options.concurrency}, {len(prompts)} questions"
    return show([ratio(measure, best, suite.seconds, TIMES_FASTER, at_least=True)])


@dataclass(frozen=True, slots=True)
class Headless:
    """The stock profile with the memory plugin, on homes with the frozen memory."""

    endpoint: Endpoint
    next_home: Callable[[], IsolatedHome]

    def seconds_a_question(self, prompts: Sequence[str], processes: int) -> float:
        """Seconds by the clock that a question takes with so many processes at a time."""
        started = time.monotonic()
        with ThreadPoolExecutor(processes) as threads:
            list(threads.map(self.ask, prompts))
        return (time.monotonic() - started) / len(prompts)

    def ask(self, prompt: str) -> str:
        """One process for one question: its answer."""
        home = self.next_home()
        done = subprocess.run(
            [*runtime_command(), "--profile", "headless", "--patch", str(home.patch), prompt],
            cwd=home.paths.workspace,
            env={**inherited_environment(os.environ), **child_environment(home, self.endpoint)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            sys.exit(f"dsh headless ended with {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.stdout


@contextmanager
def headless_on(run: RunDirectory, url: str, one_home: bool) -> Iterator[Headless]:
    """Processes on the memory of a run of one sample, after a first one that has unpacked the native code."""
    key = FormationKey(sample_id=run.selected()[0].sample_id, condition="memory")
    snapshot = open_snapshot(run.snapshot_folder(key))
    system = load_memory_system("reference", bundled_path("memory"))
    endpoint = Endpoint(api_key=KEY, base_url=url)
    sandbox = Sandbox.for_run(run.manifest.run_id)
    numbers = itertools.repeat(1) if one_home else itertools.count(1)

    def next_home() -> IsolatedHome:
        home = sandbox.home(opaque_name(key), f"headless-{next(numbers)}")
        restore(snapshot, system, home.paths)
        rows = system.patch_rows(home.paths, model=MODEL, provider=endpoint.provider)
        # JSON is YAML.
        home.patch.write_text(json.dumps([{"insert": [dict(row) for row in rows]}]), encoding="utf-8")
        return home

    try:
        headless = Headless(endpoint, next_home)
        headless.ask("Unpack yourself.")
        yield headless
    finally:
        sandbox.remove()


if __name__ == "__main__":
    sys.exit(main())
