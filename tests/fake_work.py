"""Work without a runtime: a former, an asker and a pool that do what a test says, and an engine on them.

Run as a program (`fake_work.py RUN SECONDS`), it works on a run as one of several processes would.
"""

import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pytest_dshmem.experiment.asking import Asked
from pytest_dshmem.experiment.engine import Engine, WorkItem
from pytest_dshmem.experiment.pressure import PressureGate
from pytest_dshmem.record.entries import (
    Call,
    Formation,
    FormationKey,
    Hypothesis,
    HypothesisState,
    QuestionKey,
)
from pytest_dshmem.record.run_directory import RunDirectory

PATIENCE_SECONDS = 30.0

Answering = Callable[[QuestionKey, int], Asked]
Forming = Callable[[FormationKey], Formation]


def item(sample: str, number: int, condition: str = "memory") -> WorkItem:
    """Question `number` of a sample; under `baseline` it needs no formation."""
    formation = FormationKey(sample_id=sample, condition=condition)
    return WorkItem(
        question=QuestionKey(question_id=f"{sample}-q{number}", condition=condition),
        sample_id=sample,
        formation=None if condition == "baseline" else formation,
    )


def call(**fields: Any) -> Call:
    return Call(purpose="qa", model="m", started_at=0.0, seconds=0.0, finish="stop").model_copy(update=fields)


def asked(
    key: QuestionKey,
    attempt: int = 1,
    state: HypothesisState = "answered",
    *,
    calls: tuple[Call, ...] = (),
    fatal: bool = False,
    rate_limited: bool = False,
) -> Asked:
    entry = Hypothesis(
        key=key,
        sample_id=key.question_id.split("-")[0],
        attempt=attempt,
        state=state,
        hypothesis=f"answer to {key.question_id}" if state == "answered" else "",
        reason=None if state == "answered" else f"it was {state}",
        started_at=0.0,
        seconds=0.0,
        calls=calls,
    )
    return Asked(entry, fatal=fatal, rate_limited=rate_limited)


def frozen(key: FormationKey) -> Formation:
    return Formation(key=key, state="frozen", digest="d", started_at=0.0, seconds=0.0)


def failed(key: FormationKey, reason: str = "the memory is empty") -> Formation:
    return Formation(key=key, state="failed", reason=reason, started_at=0.0, seconds=0.0)


class Journal:
    """What was begun, in order, and how much was in flight at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.begun: list[str] = []
        self.in_flight = 0
        self.most_in_flight = 0

    @contextlib.contextmanager
    def doing(self, what: str) -> Iterator[None]:
        with self._lock:
            self.begun.append(what)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            yield
        finally:
            with self._lock:
                self.in_flight -= 1


class FakeFormer:
    """Records the formations that `forming` gives."""

    def __init__(self, run: RunDirectory, journal: Journal, forming: Forming) -> None:
        self._run = run
        self._journal = journal
        self._forming = forming

    def form(self, key: FormationKey, _on_calls: object) -> Formation:
        with self._journal.doing(f"form {key.sample_id}"):
            entry = self._forming(key)
            self._run.formations.append(entry)
            return entry

    def snapshot(self, key: FormationKey) -> str:
        return f"snapshot of {key.sample_id}"


class FakeAsker:
    """Answers as `answering` does; no history is ever too long, but for the ids in `too_long`."""

    def __init__(self, journal: Journal, answering: Answering) -> None:
        self._journal = journal
        self._answering = answering
        self.too_long: set[str] = set()

    def prompt(self, key: QuestionKey) -> str:
        return f"prompt of {key.question_id}"

    def overflow(self, key: QuestionKey, _sample_id: str, _prompt: str) -> Hypothesis | None:
        return asked(key, state="context-overflow").entry if key.question_id in self.too_long else None

    def ask(self, _home: object, key: QuestionKey, _sample_id: str, _prompt: str, attempt: int) -> Asked:
        with self._journal.doing(f"ask {key.question_id}"):
            return self._answering(key, attempt)


@dataclass(frozen=True)
class FakeHome:
    """A home in which nothing is there to be asked."""

    usable: bool = True


class FakePool:
    """Room without end. `homes` counts the questions by the snapshot that they were asked on."""

    def __init__(self) -> None:
        self.homes: Counter[str] = Counter()
        self.released: list[str] = []
        self.closed = False

    @contextlib.contextmanager
    def for_formation(self) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def for_question(self, _group: str, snapshot: object) -> Iterator[object]:
        self.homes[str(snapshot)] += 1
        yield FakeHome()

    def release(self, group: str) -> None:
        self.released.append(group)

    def close(self) -> None:
        self.closed = True


class FakeRuntimes:
    """Runtimes that can be killed: whoever waits for `killed` is in one."""

    def __init__(self) -> None:
        self.killed = threading.Event()

    def kill_all(self) -> None:
        self.killed.set()


class Work:
    """An engine on fakes, and everything that a test wants to look at."""

    def __init__(
        self,
        run: RunDirectory,
        items: Sequence[WorkItem],
        *,
        answering: Answering = asked,
        forming: Forming = frozen,
        concurrency: int = 4,
        attempts: int = 2,
        gate: PressureGate | None = None,
        pool: FakePool | None = None,
        on_calls: Callable[[Sequence[Call]], str | None] = lambda _calls: None,
    ) -> None:
        self.run = run
        self.items = items
        self.journal = Journal()
        self.pool = pool or FakePool()
        self.runtimes = FakeRuntimes()
        self.asker = FakeAsker(self.journal, answering)
        self.stop = threading.Event()
        self.engine = Engine(
            run,
            items,
            cast(Any, FakeFormer(run, self.journal, forming)),
            cast(Any, self.asker),
            cast(Any, self.pool),
            cast(Any, self.runtimes),
            run.claims(),
            concurrency=concurrency,
            attempts=attempts,
            stop=self.stop,
            gate=gate,
            on_calls=on_calls,
        )

    def __enter__(self) -> "Work":
        self.engine.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.engine.finish(abandon=True)

    def hypothesis(self, which: WorkItem) -> Hypothesis:
        return self.engine.hypothesis(which.question, Patience())

    def formation(self, sample: str) -> Formation:
        return self.engine.formation(FormationKey(sample_id=sample, condition="memory"), Patience())

    def answers(self) -> list[Hypothesis]:
        """Every answer, waited for in order, as pytest does."""
        return [self.hypothesis(which) for which in self.items]

    def recorded(self) -> list[tuple[str, HypothesisState]]:
        return [(entry.key.question_id, entry.state) for entry in self.run.hypotheses.read()]


class Patience:
    """Ends a test that would wait for ever."""

    def __init__(self) -> None:
        self._end = time.monotonic() + PATIENCE_SECONDS

    def __call__(self) -> None:
        assert time.monotonic() < self._end, "nothing has come for too long"


def wait_for(event: threading.Event) -> None:
    assert event.wait(PATIENCE_SECONDS), "nothing has come for too long"


def shared_items() -> list[WorkItem]:
    """What the processes of a test work on together."""
    return [item(sample, number) for sample in ("a", "b", "c") for number in range(20)]


def work_along(run: Path, seconds: float) -> None:
    """One of several processes: every unit takes a while, and is noted down where it is done."""

    def answering(key: QuestionKey, attempt: int) -> Asked:
        time.sleep(seconds)
        return asked(key, attempt)

    def forming(key: FormationKey) -> Formation:
        time.sleep(seconds)
        return frozen(key)

    opened = RunDirectory.open(run)
    with Work(opened, shared_items(), answering=answering, forming=forming) as work:
        print("working", flush=True)
        work.answers()


if __name__ == "__main__":
    work_along(Path(sys.argv[1]), float(sys.argv[2]))
