"""Our own processor time per question, with a model that takes no time.

python benchmarks/processor.py [--concurrency 8] [--repeat 3] [--keep FOLDER]

The 152 questions of conv-26 (set DSHMEM_DATA) on a ready memory. Counted is what the pytest process uses
from the end of collection until the last hypothesis: engine, SDK client, records and pytest's reporting.
The runtimes and the model are processes of their own.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from figures import Figure, median_of, parser_for, show
from ready_memory import ReadyMemory
from suite_runs import locomo_file, scratch

from pytest_dshmem.offline.process import StandIn
from pytest_dshmem.record.run_directory import RunDirectory

BOUND_MS = 15.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder to keep the formed memory in, and to find it again")
    options = parser.parse_args(arguments)
    locomo_file()
    with scratch(options.keep) as folder:
        memory = ReadyMemory(folder, ["-k", "conv-26", "--mode=memory"])
        return show(median_of(options.repeat, lambda: [measure(memory, options.concurrency)]))


def measure(memory: ReadyMemory, concurrency: int) -> Figure:
    memory.restore()
    with StandIn.start() as model:
        done = memory.ask(model.url, concurrency).require()
    questions = len(RunDirectory.open(memory.run).selected())
    used = done.between("collected", "last hypothesis", "processor")
    whole = done.moments["end"]["processor"]
    return Figure(
        "our processor time a question",
        1000 * used / questions,
        BOUND_MS,
        unit="ms",
        from_what=f"{used:.2f} s for {questions} questions; the whole process used {whole:.2f} s",
    )


if __name__ == "__main__":
    sys.exit(main())
