"""The engine: up to K units of work in flight, each done exactly once, whoever else works on the same run.

A unit is a formation or a question. It is claimed in the run directory before it is begun and recorded
before the claim is given back, so any number of processes may work on one run: each takes the first unit that
is ready and that nobody has, in order. Results of others arrive through the journals.
"""

import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pytest_dshmem.datasets.views import DataError
from pytest_dshmem.experiment.asking import Asker
from pytest_dshmem.experiment.formation import FormationFailed, FormationStopped, Former
from pytest_dshmem.experiment.outcome import RATE_LIMIT
from pytest_dshmem.experiment.pressure import PressureGate
from pytest_dshmem.experiment.question_attempts import (
    TRIED_AGAIN,
    Means,
    QuestionAttempts,
    nothing_left_behind,
)
from pytest_dshmem.experiment.question_homes import NO_MEMORY
from pytest_dshmem.experiment.runtime_pool import LiveRuntimes, PoolClosed, RuntimePool
from pytest_dshmem.experiment.streak import FailureStreak
from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.record.claims import Claims
from pytest_dshmem.record.entries import Call, Formation, FormationKey, Hypothesis, QuestionKey
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.record.run_directory import RunDirectory, formation_name, opaque_name

FOREIGN_POLL_SECONDS = 0.1
INTERNAL_ERRORS = "internal-errors.txt"


class RunHalted(Exception):
    """The run has stopped before this unit was done. `reason` says why, in one sentence."""


class NotFormed(Exception):
    """A question that will not be asked because its memory could not be formed: why, in one sentence."""


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

    def unit(self, question: QuestionKey) -> str:
        """The name under which one of the questions is claimed."""
        return f"{self.unit_prefix}{question.condition}/{question.question_id}#{question.repeat}"

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
        left_behind: Callable[[str, QuestionKey], tuple[Call, ...]] = nothing_left_behind,
    ) -> None:
        self._run = run
        self._former = former
        self._pool = pool
        self._live = live
        self._claims = claims
        self._concurrency = concurrency
        self._stop = stop
        self._on_calls = on_calls
        self.gate = gate or PressureGate(concurrency)
        self._streak = FailureStreak()
        self._means = Means(asker, pool, self.gate, stop, attempts, self._record, self.halt, left_behind)
        # Taken by its own name: an interrupt within a condition's `__enter__` would leave it held for ever.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._formations: dict[FormationKey, Formation] = {}
        self._hypotheses: dict[QuestionKey, Hypothesis] = {}
        self._given_up: set[QuestionKey] = set()
        self._left_out: dict[QuestionKey, str] = {}
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
        """The hypothesis of a question, as soon as it is there.

        Raises NotFormed where the memory for it could not be formed, RunHalted where the run ends before.
        """
        while True:
            while_waiting()
            with self._lock:
                found = self._settled_hypothesis(key)
                if found is not None:
                    return found
                if key in self._left_out:
                    raise NotFormed(self._left_out[key])
                if key not in self._asking:
                    self._require_running()
                self._changed.wait(FOREIGN_POLL_SECONDS)
                self._read_news()

    def formation(self, key: FormationKey, while_waiting: Callable[[], None] = _nothing) -> Formation:
        """How a formation ended, as soon as it has. Raises RunHalted where it will not."""
        while True:
            while_waiting()
            with self._lock:
                found = self._formations.get(key)
                if found is not None:
                    return found
                if key not in self._forming:
                    self._require_running()
                self._changed.wait(FOREIGN_POLL_SECONDS)
                self._read_news()

    def halt(self, reason: str) -> None:
        """Nothing new starts from now on; what is in flight ends as it will."""
        with self._lock:
            self._halted = self._halted or reason
            self._stop.set()
            self._changed.notify_all()

    @property
    def halted(self) -> str | None:
        """Why the run was halted before its time; None while it goes on, and where it came to its end."""
        with self._lock:
            return self._halted

    def finish(self, *, abandon: bool = False) -> None:
        """Ends all work: what is in flight is waited for, or abandoned. Reaps every runtime."""
        with self._lock:
            self._stop.set()
            self._changed.notify_all()
        if abandon:
            self._live.kill_all()
        for thread in self._threads:
            thread.join()
        try:
            self._pool.close()
        finally:
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
        except (RecordError, HarnessError, DataError) as error:
            self.halt(str(error))
        except Exception as error:
            self.halt(self._internal_error(error))

    def _internal_error(self, error: Exception) -> str:
        """A sentence for an error that nobody has foreseen; its traceback is kept in the work folder."""
        reason = f"internal error, {type(error).__name__}: {error}"
        file = self._run.work / INTERNAL_ERRORS
        try:
            with file.open("a", encoding="utf-8", errors="backslashreplace") as kept:
                kept.write("".join(traceback.format_exception(error)) + "\n")
        except OSError as refusal:
            return f"{reason} (its traceback could not be kept: {refusal.strerror or refusal})"
        return f"{reason} (its traceback is in {file})"

    def _next(self) -> Callable[[], None] | None:
        """The next unit, claimed; None when nothing is left or the run is over."""
        with self._lock:
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
            self._leave_out(group, self._formations[group.formation])
            return None
        if not self._is_worth_joining(group):
            return None
        for place in tuple(group.waiting):
            _position, item = place
            unit = group.unit(item.question)
            if self._settled_hypothesis(item.question) is not None:
                group.waiting.remove(place)
            elif self._claims.take(unit):
                group.waiting.remove(place)
                self._read_news()
                if not self._is_done_elsewhere(item.question):
                    group.in_flight += 1
                    self._asking.add(item.question)
                    return lambda: self._ask(group, item, unit)
                self._claims.drop(unit)
                self._changed.notify_all()
        return None

    def _leave_out(self, group: Group, failed: Formation) -> None:
        reason = f"{failed.key.sample_id} was not formed: {failed.reason}"
        self._left_out.update({item.question: reason for _position, item in group.waiting})
        group.waiting.clear()
        self._changed.notify_all()

    def _is_done_elsewhere(self, key: QuestionKey) -> bool:
        """Whether another process, which has given the question back, has settled it or given it up."""
        entry = self._hypotheses.get(key)
        if entry is None or key not in self._arrived:
            return False
        if entry.state in TRIED_AGAIN and entry.attempt < self._means.limit:
            return False
        self._given_up.add(key)
        return True

    def _is_worth_joining(self, group: Group) -> bool:
        """Whether to open a home for questions that other processes are at: not if they are done soon."""
        others = 0 if group.in_flight else self._claims.others_at(group.unit_prefix)
        return others == 0 or len(group.waiting) > 2 * self._concurrency * others

    def _form(self, key: FormationKey, unit: str) -> None:
        formation: Formation | None = None
        try:
            with self._pool.for_formation():
                if not self._stop.is_set():
                    formation = self._former.form(key, self.spent)
        except (FormationStopped, PoolClosed):
            pass
        except FormationFailed as failure:
            self.halt(str(failure))
        finally:
            with self._lock:
                self._forming.discard(key)
                if formation is not None:
                    self._formations[key] = formation
                self._changed.notify_all()
                self._claims.drop(unit)

    def _ask(self, group: Group, item: WorkItem, unit: str) -> None:
        entry: Hypothesis | None = None
        try:
            snapshot = None if group.formation is None else self._former.snapshot(group.formation)
            attempts = QuestionAttempts(self._means, item.question, item.sample_id, group.name, snapshot)
            entry = attempts.carry_out()
        finally:
            with self._lock:
                if entry is not None:
                    self._hypotheses[item.question] = entry
                    self._given_up.add(item.question)
                self._asking.discard(item.question)
                group.in_flight -= 1
                exhausted = not group.waiting and group.in_flight == 0
                self._changed.notify_all()
                self._claims.drop(unit)
        if exhausted:
            self._pool.release(group.name)

    def _record(self, entry: Hypothesis) -> None:
        self._run.hypotheses.append(entry)
        self.spent(entry.calls)
        hopeless = self._streak.note(entry)
        if hopeless is not None:
            self.halt(hopeless)

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
        if self._stop.is_set():
            raise RunHalted(self._halted or "the run has ended")
