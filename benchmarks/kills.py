"""Kills at random moments, each resumed: is anything lost, done twice, different, or missing from the
records?

python benchmarks/kills.py [--kills 50] [--seed 0] [--keep FOLDER]

In turn the pytest process, a worker of pytest-xdist and a runtime get SIGKILL at a moment drawn by the
seed. Then the same command is run until it is done, and its run directory is held against an undisturbed
one. The sample corpus is small, so that a moment in any phase is as likely as in a long run.
"""

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

from figures import Figure, parser_for, show
from probe import descendants
from suite_runs import PROJECT, command, environment, scratch

from pytest_dshmem.experiment.asking import session_name
from pytest_dshmem.experiment.ingestion import session_id_of
from pytest_dshmem.offline.process import StandIn
from pytest_dshmem.record.run_directory import RunDirectory

Victim = Literal["controller", "worker", "runtime"]
VICTIMS: tuple[Victim, ...] = ("controller", "worker", "runtime")
CORPUS = PROJECT / "fixtures" / "corpora" / "locomo-sample.json"
LATENCY = 0.1
POLL_SECONDS = 0.02
RESUMES = 4
EARLIER = 0.8
ORPHAN_SECONDS = 20.0
WORKER_MARK = b"exec(eval(sys.stdin.readline()))"
CONSOLIDATED = ("committed", "no-change")
SESSION_HEADER = "x-deepseek-harness-session-id"
WORKERS = ("worker", "direct")
ELSEWHERE = ""
RUNTIME_MARK = b"--profile\0sdk"


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill: of whom, after how many seconds, with or without workers."""

    number: int
    victim: Victim
    after: float
    workers: int

    def __str__(self) -> str:
        return f"{self.number:3} {self.victim} after {self.after:.1f} s, -n {self.workers}"


@dataclass(frozen=True, slots=True)
class Damage:
    """What a kill and its resumption left behind. All zeros is what should be."""

    lost: int = 0
    doubled: int = 0
    different: int = 0
    unrecorded: int = 0
    orphans: int = 0

    def __bool__(self) -> bool:
        return self != Damage()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder to keep the runs and their output in")
    options = parser.parse_args(arguments)
    chance = random.Random(options.seed)
    with scratch(options.keep) as folder:
        undisturbed = folder / "undisturbed"
        seconds = run_to_the_end(undisturbed)
        expected = (undisturbed / "hypotheses.jsonl").read_text(encoding="utf-8")
        print(f"undisturbed: {seconds:.1f} s, {len(expected.splitlines())} hypotheses", flush=True)
        damages = []
        for kill in draw(options.kills, seconds, chance):
            damages.append(suffer(kill, folder / f"kill-{kill.number}", expected))
            print(f"{kill}: {damages[-1] or 'no damage'}", flush=True)
    return show([total(field.name, damages) for field in fields(Damage)])


def total(what: str, damages: Sequence[Damage]) -> Figure:
    count = sum(getattr(damage, what) for damage in damages)
    return Figure(f"{what} in {len(damages)} kills", count, 0, unit="in all")


def draw(count: int, seconds: float, chance: random.Random) -> Iterator[Kill]:
    """The kills: victims in turn, moments from shortly after the start until shortly before the end."""
    for number, victim in zip(range(1, count + 1), itertools.cycle(VICTIMS), strict=False):
        workers = 2 if victim == "worker" else chance.choice([0, 2])
        yield Kill(number, victim, chance.uniform(0.15, 0.9) * seconds, workers)


def suffer(kill: Kill, run: Path, expected: str) -> Damage:
    """Starts a run, kills, resumes until it is done, and looks at what is left."""
    served = run.with_suffix(".served")
    with StandIn.start(latency=LATENCY, capture=served) as model:
        orphans = strike(kill, run, model.url)
        for _ in range(RESUMES if orphans is not None else 0):
            if resume(run, model.url, kill.workers) == 0:
                break
    if orphans is None:
        # Near its end a run has no runtime any more, and how soon it gets there differs from run to run.
        shutil.rmtree(run)
        served.unlink()
        return suffer(replace(kill, after=EARLIER * kill.after), run, expected)
    return damage(run, expected, requests_by_session(served), orphans)


def strike(kill: Kill, run: Path, url: str) -> int | None:
    """Kills the victim when its moment has come, or as soon as there is one. The processes left over.

    None where the run ended before that.
    """
    with started(run, url, kill.workers) as process:
        moment = time.monotonic() + kill.after
        while process.poll() is None:
            found = victims(kill.victim, process.pid)
            if found and time.monotonic() >= moment:
                below = descendants(process.pid)
                os.kill(found[kill.number % len(found)], signal.SIGKILL)
                process.wait()
                return left_over(below)
            time.sleep(POLL_SECONDS)
    return None


def victims(kind: Victim, pytest: int) -> list[int]:
    if kind == "controller":
        return [pytest]
    mark = WORKER_MARK if kind == "worker" else RUNTIME_MARK
    return sorted(pid for pid in descendants(pytest) if mark in command_line(pid))


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def left_over(processes: Sequence[int]) -> int:
    """How many of these processes will not go by themselves, in the time that they have for it."""
    end = time.monotonic() + ORPHAN_SECONDS
    while left := [pid for pid in processes if command_line(pid)]:
        if time.monotonic() > end:
            break
        time.sleep(POLL_SECONDS)
    return len(left)


def requests_by_session(served: Path) -> Counter[str]:
    """How many requests reached the endpoint, by the session that they came from."""
    with served.open(encoding="utf-8") as lines:
        return Counter(json.loads(line)["headers"].get(SESSION_HEADER, "") for line in lines)


def damage(run: Path, expected: str, served: Counter[str], orphans: int) -> Damage:
    """What the records of a resumed run lack, or have too much of."""
    records = RunDirectory.open(run)
    ingestions, consolidations = records.ingestions.read().entries, records.consolidations.read().entries
    hypotheses = records.hypotheses.read().entries
    done = Counter[object](
        [
            *((entry.key, entry.session, entry.state) for entry in ingestions if entry.state == "ingested"),
            *((entry.key, entry.session) for entry in consolidations if entry.state in CONSOLIDATED),
            *(entry.key for entry in hypotheses if entry.answered),
        ]
    )
    written = (run / "hypotheses.jsonl").read_text(encoding="utf-8").splitlines()
    wanted = expected.splitlines()
    return Damage(
        lost=sum(1 for chosen in records.selected() if not done[chosen.key]),
        doubled=sum(count - 1 for count in done.values()),
        different=sum(one != other for one, other in itertools.zip_longest(written, wanted)),
        unrecorded=unrecorded(served, records),
        orphans=orphans,
    )


def unrecorded(served: Counter[str], records: RunDirectory) -> int:
    """Requests that no record names, session by session: a call recorded twice makes up for none elsewhere.

    The sessions of workers have names of their own; they are held against the calls of all workers.
    """
    recorded: Counter[str] = Counter()
    for ingestion in records.ingestions.read():
        by_agent = sum(call.purpose not in WORKERS for call in ingestion.calls)
        recorded[session_id_of(ingestion.key, ingestion.session)] += by_agent
        recorded[ELSEWHERE] += len(ingestion.calls) - by_agent
    for consolidation in records.consolidations.read():
        recorded[ELSEWHERE] += len(consolidation.calls)
    for hypothesis in records.hypotheses.read():
        recorded[session_name(hypothesis.key)] += len(hypothesis.calls)
    asked: Counter[str] = Counter()
    for session_id, count in served.items():
        # The sessions of a question are numbered by its attempts.
        question = session_id[: session_id.rfind("-") + 1]
        name = next((name for name in (session_id, question) if name in recorded), ELSEWHERE)
        asked[name] += count
    return (asked - recorded).total()


def run_to_the_end(run: Path) -> float:
    """An undisturbed run: the seconds it took."""
    with StandIn.start(latency=LATENCY) as model:
        started_at = time.monotonic()
        if resume(run, model.url, workers=0) != 0:
            sys.exit("the undisturbed run did not pass")
        return time.monotonic() - started_at


def resume(run: Path, url: str, workers: int) -> int:
    """The exit status of the same command, when it has ended."""
    with started(run, url, workers) as process:
        return process.wait()


@contextmanager
def started(run: Path, url: str, workers: int) -> Iterator[subprocess.Popen[bytes]]:
    """A pytest session on a run directory. Its output is kept beside the run."""
    arguments = [
        "suites/locomo",
        "--mode=memory-consolidate",
        "--dshmem-no-judge",
        "--dshmem-allow-unpinned",
        f"--dshmem-data={CORPUS}",
        f"--dshmem-run={run}",
        *([f"--numprocesses={workers}"] if workers else []),
    ]
    with (
        run.with_suffix(".log").open("ab") as log,
        subprocess.Popen(
            command(arguments), cwd=PROJECT, env=environment(url), stdout=log, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


if __name__ == "__main__":
    sys.exit(main())
