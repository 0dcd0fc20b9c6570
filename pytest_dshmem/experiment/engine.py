"""The engine: up to K units of work in flight, each done exactly once, whoever else works on the same run.

A unit is a formation or a question. It is claimed in the run directory before it is begun and recorded
before the claim is given back, so any number of processes may work on one run: each takes the first unit that
is ready and that nobody has, in order. Results of others arrive through the journals.
"""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pytest_dshmem.experiment.asking import Asker, QuestionLost
from pytest_dshmem.experiment.formation import FormationFailed, FormationStopped, Former
from pytest_dshmem.experiment.freezing import Snapshot
from pytest_dshmem.experiment.outcome import (
    RATE_LIMIT,
    RATE_LIMIT_PAUSE_SECONDS,
    RATE_LIMITS_BEFORE_GIVING_UP,
)
from pytest_dshmem.experiment.pressure import PressureGate
from pytest_dshmem.experiment.question_homes import NO_MEMORY
from pytest_dshmem.experiment.runtime_pool import LiveRuntimes, PoolClosed, RuntimePool
from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.record.claims import Claims
from pytest_dshmem.record.entries import Call, Formation, FormationKey, Hypothesis, QuestionKey
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.record.run_directory import RunDirectory, formation_name, opaque_name

LOSSES_BEFORE_GIVING_UP = 3
FOREIGN_POLL_SECONDS = 0.1

TRIED_AGAIN = frozenset({"error", "timeout", "contaminated"})
"""States that circumstances caused: a later run tries these again. What the agent itself did stands."""


class RunHalted(Exception):
    """The run has stopped before this unit was done. `reason` says why, in one sentence."""


def _nothing() -> None:
    """What is done while waiting if nothing else is wanted."""


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One question to be asked, and the formation whose snapshot it needs, if any."""

    question: QuestionKey
    sample_id: str
    formation: FormationKey | None


@dataclass(slots=True)
class Group:
    """The questions of one formation that are still to be asked, in order."""

    formation: FormationKey | None
    waiting: deque[tuple[int, WorkItem]] = field(default_factory=deque)
    in_flight: int = 0

    @property
    def name(self) -> str:
        return NO_MEMORY if self.formation is None else opaque_name(self.formation)

    @property
    def unit_prefix(self) -> str:
        return f"ask:{self.name}/"

    @property
    def position(self) -> int:
        return self.waiting[0][0]


class Engine:
    """Does the work of one run in this process. Ask for a result and it comes when it is there."""

    def __init__(
        self,
        run: RunDirectory,
        items: Sequence[WorkItem],
        former: Former,
        asker: Asker,
        pool: RuntimePool,
        live: LiveRuntimes,
        claims: Claims,
        *,
        concurrency: int,
        attempts: int,
        stop: threading.Event,
        gate: PressureGate | None = None,
        on_calls: Callable[[Sequence[Call]], str | None] = lambda _calls: None,
    ) -> None:
        self._run = run
        self._former = former
        self._asker = asker
        self._pool = pool
        self._live = live
        self._claims = claims
        self._concurrency = concurrency
        self._attempts = attempts
        self._stop = stop
        self._on_calls = on_calls
        former.on_calls = self.spent
        self.gate = gate or PressureGate(concurrency)
        self._changed = threading.Condition()
        self._formations: dict[FormationKey, Formation] = {}
        self._hypotheses: dict[QuestionKey, Hypothesis] = {}
        self._given_up: set[QuestionKey] = set()
        self._arrived: set[QuestionKey] = set()
        self._asking: set[QuestionKey] = set()
        self._forming: set[FormationKey] = set()
        self._halted: str | None = None
        self._threads: list[threading.Thread] = []
        self._formation_news = run.formations.reader()
        self._hypothesis_news = run.hypotheses.reader()
        self._read_news(from_earlier_runs=True)
        self._groups = self._group(items)

    def start(self) -> None:
        """Starts as many workers as there is work for, at most K."""
        wanted = sum(len(group.waiting) for group in self._groups)
        for number in range(min(self._concurrency, wanted)):
            thread = threading.Thread(target=self._work, name=f"dshmem-worker-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def hypothesis(self, key: QuestionKey, while_waiting: Callable[[], None] = _nothing) -> Hypothesis:
        """The hypothesis of a question, as soon as it is there. Raises RunHalted where it will not come."""
        while True:
            while_waiting()
            with self._changed:
                found = self._settled_hypothesis(key)
                if found is not None:
                    return found
                if key not in self._asking:
                    self._require_running()
                self._changed.wait(FOREIGN_POLL_SECONDS)
                self._read_news()

    def formation(self, key: FormationKey, while_waiting: Callable[[], None] = _nothing) -> Formation:
        """How a formation ended, as soon as it has. Raises RunHalted where it will not."""
        while True:
            while_waiting()
            with self._changed:
                found = self._formations.get(key)
                if found is not None:
                    return found
                if key not in self._forming:
                    self._require_running()
                self._changed.wait(FOREIGN_POLL_SECONDS)
                self._read_news()

    def halt(self, reason: str) -> None:
        """Nothing new starts from now on; what is in flight ends as it will."""
        with self._changed:
            self._halted = self._halted or reason
            self._stop.set()
            self._changed.notify_all()

    @property
    def halted(self) -> str | None:
        """Why the run was halted; None while it goes on."""
        with self._changed:
            return self._halted

    def finish(self, *, abandon: bool = False) -> None:
        """Ends all work: what is in flight is waited for, or abandoned. Reaps every runtime."""
        self.halt("the run has ended")
        if abandon:
            self._live.kill_all()
        for thread in self._threads:
            thread.join()
        self._pool.close()
        self._claims.close()

    def _group(self, items: Iterable[WorkItem]) -> list[Group]:
        groups: dict[FormationKey | None, Group] = {}
        for position, item in enumerate(items):
            if self._settled_hypothesis(item.question) is None:
                group = groups.setdefault(item.formation, Group(item.formation))
                group.waiting.append((position, item))
        return list(groups.values())

    def _work(self) -> None:
        try:
            while (unit := self._next()) is not None:
                unit()
        except RecordError as error:
            self.halt(str(error))
        except Exception:
            self.halt("internal error: " + traceback.format_exc())

    def _next(self) -> Callable[[], None] | None:
        """The next unit, claimed; None when nothing is left or the run is over."""
        with self._changed:
            while not self._stop.is_set():
                self._read_news()
                left = [group for group in self._groups if group.waiting]
                if not left:
                    return None
                for group in sorted(left, key=lambda group: group.position):
                    unit = self._take_from(group)
                    if unit is not None:
                        return unit
                self._changed.wait(FOREIGN_POLL_SECONDS)
            return None

    def _take_from(self, group: Group) -> Callable[[], None] | None:
        if group.formation is None or group.formation in self._formations:
            return self._take_question(group)
        return self._take_formation(group.formation)

    def _take_formation(self, key: FormationKey) -> Callable[[], None] | None:
        unit = f"form:{formation_name(key)}"
        if key in self._forming or not self._claims.take(unit):
            return None
        self._read_news()
        if key in self._formations:
            self._claims.drop(unit)
            return None
        self._forming.add(key)
        return lambda: self._form(key, unit)

    def _take_question(self, group: Group) -> Callable[[], None] | None:
        if group.formation is not None and self._formations[group.formation].state == "failed":
            group.waiting.clear()
            return None
        if not self._is_worth_joining(group):
            return None
        for place, (_position, item) in enumerate(group.waiting):
            key = item.question
            unit = f"{group.unit_prefix}{key.condition}/{key.question_id}#{key.repeat}"
            if self._settled_hypothesis(item.question) is not None:
                del group.waiting[place]
                return self._take_from(group) if group.waiting else None
            if self._claims.take(unit):
                del group.waiting[place]
                self._read_news()
                if item.question in self._arrived:
                    # Another process had it and gave it back: whatever it recorded is the end of it.
                    self._given_up.add(item.question)
                    self._claims.drop(unit)
                    return self._take_from(group) if group.waiting else None
                group.in_flight += 1
                self._asking.add(item.question)
                return lambda: self._ask(group, item, unit)
        return None

    def _is_worth_joining(self, group: Group) -> bool:
        """Whether to open a home for questions that other processes are at: not if they are done soon."""
        others = 0 if group.in_flight else self._claims.others_at(group.unit_prefix)
        return others == 0 or len(group.waiting) > 2 * self._concurrency * others

    def _form(self, key: FormationKey, unit: str) -> None:
        formation: Formation | None = None
        try:
            with self._pool.for_formation():
                formation = self._former.form(key)
        except (FormationStopped, PoolClosed):
            pass
        except FormationFailed as failure:
            self.halt(str(failure))
        finally:
            with self._changed:
                self._forming.discard(key)
                if formation is not None:
                    self._formations[key] = formation
                self._claims.drop(unit)
                self._changed.notify_all()

    def _ask(self, group: Group, item: WorkItem, unit: str) -> None:
        try:
            entry = self._ask_until_settled(group, item)
            if entry is not None:
                with self._changed:
                    self._hypotheses[item.question] = entry
                    self._given_up.add(item.question)
        finally:
            with self._changed:
                self._claims.drop(unit)
                self._asking.discard(item.question)
                group.in_flight -= 1
                exhausted = not group.waiting and group.in_flight == 0
                self._changed.notify_all()
            if exhausted:
                self._pool.release(group.name)

    def _ask_until_settled(self, group: Group, item: WorkItem) -> Hypothesis | None:
        """Asks until the question is settled or its attempts are used up; None where the run ends first."""
        prompt = self._asker.prompt(item.question)
        entry = self._asker.overflow(item.question, item.sample_id, prompt)
        if entry is not None:
            return self._recorded(entry)
        snapshot = None if group.formation is None else self._former.snapshot(group.formation)
        attempts = Attempts()
        while not self._stop.is_set():
            attempts.number += 1
            entry = self._attempt(group.name, item, snapshot, prompt, attempts)
            if entry is None:
                continue
            self._recorded(entry)
            if entry.state not in TRIED_AGAIN or attempts.counted >= self._attempts:
                return entry
        return None

    def _attempt(
        self, group: str, item: WorkItem, snapshot: Snapshot | None, prompt: str, attempts: "Attempts"
    ) -> Hypothesis | None:
        """One attempt; None where it does not count because the question was not to blame."""
        started_at = time.time()
        self.gate.acquire()
        try:
            with self._pool.for_question(group, snapshot) as home:
                asked = self._asker.ask(home, item.question, item.sample_id, prompt, attempts.number)
            entry = asked.entry.model_copy(update={"calls": attempts.carried + asked.entry.calls})
            attempts.carried = ()
            if asked.fatal:
                self.halt(f"{item.question.question_id}: {entry.reason}")
                attempts.counted = self._attempts
            if asked.rate_limited and attempts.rate_limits < RATE_LIMITS_BEFORE_GIVING_UP:
                attempts.rate_limits += 1
                self._stop.wait(RATE_LIMIT_PAUSE_SECONDS)
            else:
                attempts.counted += 1
            return entry
        except PoolClosed:
            return None
        except QuestionLost as lost:
            attempts.carried += lost.calls
            attempts.losses += 1
            reason = f"the runtime died under it {attempts.losses} times: {lost}"
            if self._stop.is_set():
                reason = "interrupted"
            elif attempts.losses < LOSSES_BEFORE_GIVING_UP:
                return None
            attempts.counted = self._attempts
            return self._failed(item, reason, started_at, attempts)
        except HarnessError as error:
            attempts.counted += 1
            return self._failed(item, str(error), started_at, attempts)
        finally:
            self.gate.release()

    def _failed(self, item: WorkItem, reason: str, started_at: float, attempts: "Attempts") -> Hypothesis:
        carried, attempts.carried = attempts.carried, ()
        return Hypothesis(
            key=item.question,
            sample_id=item.sample_id,
            attempt=attempts.number,
            state="error",
            reason=reason,
            started_at=started_at,
            seconds=time.time() - started_at,
            calls=carried,
        )

    def _recorded(self, entry: Hypothesis) -> Hypothesis:
        self._run.hypotheses.append(entry)
        self.spent(entry.calls)
        return entry

    def spent(self, calls: Sequence[Call]) -> None:
        """Takes note of calls that were made: of rate limits, and of a budget that is used up."""
        if any(call.failure == RATE_LIMIT for call in calls):
            self.gate.slow_down()
        reason = self._on_calls(calls)
        if reason is not None:
            self.halt(reason)

    def _settled_hypothesis(self, key: QuestionKey) -> Hypothesis | None:
        found = self._hypotheses.get(key)
        if found is None or (found.state in TRIED_AGAIN and key not in self._given_up):
            return None
        return found

    def _read_news(self, *, from_earlier_runs: bool = False) -> None:
        """Takes in what is new in the journals. An error of an earlier run is tried again."""
        for formation in self._formation_news.new_entries():
            if formation.state == "frozen" or not from_earlier_runs:
                self._formations[formation.key] = formation
        for entry in self._hypothesis_news.new_entries():
            self._hypotheses[entry.key] = entry
            if not from_earlier_runs:
                self._arrived.add(entry.key)

    def _require_running(self) -> None:
        if self._halted is not None:
            raise RunHalted(self._halted)


@dataclass(slots=True)
class Attempts:
    """What has been tried for one question: numbers, and the cost of attempts that left no record."""

    number: int = 0
    counted: int = 0
    losses: int = 0
    rate_limits: int = 0
    carried: tuple[Call, ...] = ()
