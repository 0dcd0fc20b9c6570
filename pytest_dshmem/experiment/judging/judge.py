"""Judging many items at once: cached, resumable, in bounded time, and stopped where going on is pointless."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

from pytest_dshmem.experiment.judging.client import Attempt, ChatClient, ClientSettings
from pytest_dshmem.experiment.judging.errors import JudgeError
from pytest_dshmem.experiment.judging.item import JudgeItem, cache_key
from pytest_dshmem.experiment.judging.parse import Reading, read_reply
from pytest_dshmem.experiment.judging.protocol import Protocol
from pytest_dshmem.experiment.judging.retry import FATAL, Brake, RetryPolicy, ask_until_answered
from pytest_dshmem.experiment.pressure import PressureGate
from pytest_dshmem.record.entries import QuestionKey, Verdict

FAILURES_IN_A_ROW = 10
"""So many items failing the same way, one after the other, are taken for the endpoint's state."""

Record = Callable[[Verdict], None]
Progress = Callable[[int, int, Verdict], None]
"""Called with the number of items settled, the number of items, and the verdict just recorded."""


@dataclass(frozen=True, slots=True)
class JudgeOutcome:
    """What judging came to. `verdicts` follow the order of the items; unjudged items have none.

    `reused` counts the items whose verdict was known, `asked` the calls' items (alike ones counted once).
    `stopped` is one sentence where judging ended early, None where it went through.
    """

    verdicts: tuple[Verdict, ...]
    unjudged: tuple[QuestionKey, ...]
    reused: int
    asked: int
    slowdowns: int
    seconds: float
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class _Task:
    """One reply to get, for all the items that it settles."""

    cache_key: str
    prompt: str
    items: tuple[JudgeItem, ...]


Attempts = tuple[Attempt, ...]
Ask = Callable[[_Task], Attempts]


def judge_all(
    items: Sequence[JudgeItem],
    protocol: Protocol,
    settings: ClientSettings,
    *,
    record: Record,
    existing: Iterable[Verdict] = (),
    concurrency: int = 32,
    policy: RetryPolicy | None = None,
    on_progress: Progress | None = None,
    stop: threading.Event | None = None,
) -> JudgeOutcome:
    """Judge the items, up to `concurrency` at a time.

    `existing` are the verdicts recorded so far: what is judged among them is used again, errors and
    unreadable replies are tried again. Items that look alike to the judge are judged once. `record` and
    `on_progress` are called from this thread only, as verdicts come. When `stop` is set nothing new starts,
    and what is in flight is recorded. Raises JudgeError, before any call, where the protocol cannot judge an
    item or two items have one key.
    """
    if concurrency < 1:
        raise JudgeError(f"The judge's concurrency must be 1 or more, not {concurrency}.")
    started = time.monotonic()
    gate, brake = PressureGate(concurrency), Brake(stop)
    ledger = _Ledger(items, protocol, record, on_progress)
    tasks = ledger.plan(existing)
    if tasks:
        with ChatClient(settings) as client:

            def ask(task: _Task) -> Attempts:
                return ask_until_answered(
                    lambda: client.complete(protocol.model, task.prompt, protocol.parameters),
                    gate,
                    policy or RetryPolicy(),
                    brake,
                )

            _share_out(tasks, ask, concurrency, brake, ledger.take)
    return ledger.outcome(gate.slowdowns, time.monotonic() - started)


class _Ledger:
    """Which item has which verdict, and whether it makes sense to go on. Used by one thread."""

    def __init__(
        self, items: Sequence[JudgeItem], protocol: Protocol, record: Record, on_progress: Progress | None
    ) -> None:
        self._items = items
        self._protocol = protocol
        self._record = record
        self._on_progress = on_progress
        self._verdicts: dict[QuestionKey, Verdict] = {}
        self._reused = 0
        self._asked = 0
        self._streak: deque[str | None] = deque(maxlen=FAILURES_IN_A_ROW)
        self._stopped: str | None = None

    def plan(self, existing: Iterable[Verdict]) -> list[_Task]:
        """Settle what is known already; return what has to be asked."""
        judged = [verdict for verdict in existing if verdict.state == "judged"]
        by_cache_key = {verdict.cache_key: verdict for verdict in judged}
        recorded = {(verdict.key, verdict.cache_key): verdict for verdict in judged}
        alike: dict[str, list[JudgeItem]] = {}
        keys = {item: cache_key(self._protocol.key, item) for item in self._items}
        if len({item.key for item in self._items}) < len(self._items):
            raise JudgeError("One question stands twice among the answers to judge: give the latest only.")
        for item, key in keys.items():
            if (item.key, key) not in recorded and key not in by_cache_key:
                alike.setdefault(key, []).append(item)
        tasks = [_Task(key, self._protocol.render(group[0]), tuple(group)) for key, group in alike.items()]
        for item, key in keys.items():
            if (item.key, key) in recorded:
                self._verdicts[item.key] = recorded[item.key, key]
            elif key in by_cache_key:
                self._settle(_for_twin(by_cache_key[key], item))
        self._reused = len(self._verdicts)
        return tasks

    def take(self, task: _Task, attempts: Attempts) -> bool:
        """Record what came of a task. True if it makes sense to go on."""
        if attempts:
            self._asked += 1
            verdict = _verdict(self._protocol, task, attempts)
            self._settle(verdict)
            for twin in task.items[1:]:
                self._settle(_for_twin(verdict, twin))
            self._stopped = self._stopped or self._reason_to_stop(attempts[-1])
        return self._stopped is None

    def outcome(self, slowdowns: int, seconds: float) -> JudgeOutcome:
        unjudged = tuple(item.key for item in self._items if item.key not in self._verdicts)
        stopped = self._stopped
        if stopped is None and unjudged:
            stopped = f"Judging was stopped with {len(unjudged)} answers not judged: judge again to go on."
        return JudgeOutcome(
            verdicts=tuple(self._verdicts[item.key] for item in self._items if item.key in self._verdicts),
            unjudged=unjudged,
            reused=self._reused,
            asked=self._asked,
            slowdowns=slowdowns,
            seconds=seconds,
            stopped=stopped,
        )

    def _settle(self, verdict: Verdict) -> None:
        self._record(verdict)
        self._verdicts[verdict.key] = verdict
        if self._on_progress is not None:
            self._on_progress(len(self._verdicts), len(self._items), verdict)

    def _reason_to_stop(self, last: Attempt) -> str | None:
        failure = last.failure
        self._streak.append(failure.name if failure else None)
        if failure is None:
            return None
        at = f"The judge at {self._protocol.endpoint}"
        if failure.name == "auth":
            return f"{at} refused the key ({failure.reason}): set the right key and judge again."
        if failure.name == "quota":
            return f"{at} has no quota left for this key ({failure.reason}): top it up and judge again."
        if failure.name == "not-found":
            return (
                f"{at} has no such address, or no model {self._protocol.model} ({failure.reason}): "
                "check base URL and model, and judge again."
            )
        if len(self._streak) == FAILURES_IN_A_ROW and set(self._streak) == {failure.name}:
            return (
                f"{at} failed for {FAILURES_IN_A_ROW} answers in a row ({failure.name}: {failure.reason}): "
                "see to that and judge again."
            )
        return None


def _share_out(
    tasks: Sequence[_Task],
    ask: Ask,
    concurrency: int,
    brake: Brake,
    take: Callable[[_Task, Attempts], bool],
) -> None:
    """Have the tasks asked by threads, and every result taken in this one, until `take` says no more.

    The threads are daemons: a caller that is interrupted leaves the calls in flight behind, and goes.
    """
    working = min(concurrency, len(tasks))
    waiting: SimpleQueue[_Task | None] = SimpleQueue()
    results: SimpleQueue[tuple[_Task, Attempts] | BaseException | None] = SimpleQueue()

    def work() -> None:
        try:
            for task in iter(waiting.get, None):
                if brake.pulled:
                    break
                attempts = ask(task)
                if _is_fatal(attempts):
                    brake.pull()
                results.put((task, attempts))
            results.put(None)
        except BaseException as error:
            results.put(error)

    for task_or_end in (*tasks, *[None] * working):
        waiting.put(task_or_end)
    for number in range(working):
        threading.Thread(target=work, name=f"judge-{number + 1}", daemon=True).start()
    try:
        while working:
            result = results.get()
            if result is None:
                working -= 1
            elif isinstance(result, BaseException):
                raise result
            elif not take(*result):
                brake.pull()
    finally:
        brake.pull()


def _is_fatal(attempts: Attempts) -> bool:
    failure = attempts[-1].failure if attempts else None
    return failure is not None and failure.name in FATAL


def _verdict(protocol: Protocol, task: _Task, attempts: Attempts) -> Verdict:
    last = attempts[-1]
    if last.failure is not None:
        reading = Reading(None, reason=f"{last.failure.name}: {last.failure.reason}")
    else:
        reading = read_reply(protocol.parse_rule, last.reply)
    return Verdict(
        key=task.items[0].key,
        protocol=protocol.key,
        cache_key=task.cache_key,
        state="error" if last.failure else "judged" if reading.readable else "unparsed",
        correct=reading.correct,
        strict=reading.strict,
        reply=last.reply,
        reason=reading.reason,
        attempts=len(attempts),
        calls=tuple(attempt.call for attempt in attempts),
    )


def _for_twin(verdict: Verdict, item: JudgeItem) -> Verdict:
    """The same verdict on an item that looks the same to the judge. It cost no call of its own."""
    return verdict.model_copy(update={"key": item.key, "attempts": 0, "calls": ()})
