"""The least that asking can take: the same questions on the same homes through the SDK, and nothing else.

python benchmarks/bare_loop.py RUN --concurrency K [--runtimes N]

Asks every question of RUN's selection with threads that call the SDK: no pytest, no records, no checks, and
sessions are never disposed of. Prints one JSON object of seconds by the clock.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from deepseek_harness import DeepSeekHarness, DeepSeekHarnessConfig
from figures import parser_for
from suite_runs import KEY

from pytest_dshmem.bundled import bundled_path
from pytest_dshmem.datasets.catalog import open_benchmark
from pytest_dshmem.experiment.condition import CONDITIONS
from pytest_dshmem.experiment.freezing import Snapshot, open_snapshot, restore
from pytest_dshmem.experiment.prompting import question_prompt
from pytest_dshmem.experiment.question_homes import question_composition
from pytest_dshmem.experiment.settings import Settings
from pytest_dshmem.harness.composition import child_environment, write_launcher
from pytest_dshmem.harness.endpoint import Endpoint
from pytest_dshmem.harness.memory_system import load_memory_system
from pytest_dshmem.harness.runtime import runtime_command
from pytest_dshmem.harness.sandbox import IsolatedHome, Sandbox
from pytest_dshmem.record.entries import FormationKey
from pytest_dshmem.record.run_directory import RunDirectory, opaque_name

CONDITION = "memory"
MODEL = "deepseek-v4-flash"


def main(arguments: Sequence[str] | None = None) -> int:
    began = time.monotonic()
    parser = parser_for(__doc__)
    parser.add_argument("run", type=Path, help="a run directory whose memory is formed")
    parser.add_argument("--concurrency", type=int, default=16, help="threads")
    parser.add_argument("--runtimes", type=int, default=2, help="runtimes that share the questions")
    options = parser.parse_args(arguments)
    run = RunDirectory.open(options.run)
    prompts = prompts_of(run)
    key = FormationKey(sample_id=run.selected()[0].sample_id, condition=CONDITION)
    snapshot = open_snapshot(run.snapshot_folder(key))
    sandbox = Sandbox.for_run(run.manifest.run_id)
    with ExitStack() as ends:
        ends.callback(sandbox.remove)
        homes = [sandbox.home(opaque_name(key), f"bare-{number}") for number in range(options.runtimes)]
        with ThreadPoolExecutor(options.runtimes) as starters:
            runtimes = list(starters.map(lambda home: _start(home, snapshot), homes))
        for runtime in runtimes:
            ends.callback(runtime.close)
        started = time.monotonic()
        answers = _ask_all(runtimes, prompts, options.concurrency)
        asked = time.monotonic()
    print(
        json.dumps(
            {
                "start": started - began,
                "asking": asked - started,
                "with start": asked - began,
                "answered": sum(1 for answer in answers if answer),
            }
        )
    )
    return 0


def _ask_all(runtimes: list[DeepSeekHarness], prompts: list[str], concurrency: int) -> list[str]:
    turns: Iterator[tuple[DeepSeekHarness, str]] = zip(itertools.cycle(runtimes), prompts, strict=False)
    with ThreadPoolExecutor(concurrency) as threads:
        return list(threads.map(lambda turn: turn[0].start_session().run(turn[1]).final_response, turns))


def _start(home: IsolatedHome, snapshot: Snapshot) -> DeepSeekHarness:
    """A runtime as the engine makes it, in which a session needs no opening: every role may do the same."""
    endpoint = Endpoint(api_key=KEY, base_url=os.environ["DEEPSEEK_BASE_URL"])
    system = load_memory_system("reference", bundled_path("memory"))
    settings = Settings(endpoint=endpoint, model=MODEL, system=system)
    restore(snapshot, system, home.paths)
    composition = question_composition(settings, home, with_memory=True)
    composition = replace(composition, policies={"worker": composition.policies["qa"]})
    composition.write_patch(home, "bare")
    write_launcher(home, runtime_command())
    harness = DeepSeekHarness(
        DeepSeekHarnessConfig(
            provider=endpoint.provider,
            model=MODEL,
            cwd=str(home.paths.workspace),
            runtime_cwd=str(home.launch_folder),
            dsh_bin=str(home.launcher),
            dsh_home=str(home.paths.dsh_home),
            patches=(str(home.patch),),
            env=child_environment(home, endpoint),
            initialize_timeout_seconds=180.0,
        )
    )
    harness.start()
    return harness


def prompts_of(run: RunDirectory) -> list[str]:
    """The selected questions of a run in the words in which the suite asks them."""
    benchmark = open_benchmark(
        "locomo", environment=os.environ, folder=None, allow_unpinned=False, variant="s", captions=True
    )
    questions = (benchmark.question(chosen.key.question_id) for chosen in run.selected())
    return [question_prompt(question, CONDITIONS[CONDITION], None) for question in questions]


if __name__ == "__main__":
    sys.exit(main())
