"""Attempts at one question: asked again where circumstances failed it, until it is settled or given up."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pytest_dshmem.experiment.asking import Asked, Asker, QuestionLost
from pytest_dshmem.experiment.freezing import Snapshot
from pytest_dshmem.experiment.outcome import RATE_LIMIT_PAUSE_SECONDS, RATE_LIMITS_BEFORE_GIVING_UP
from pytest_dshmem.experiment.pressure import PressureGate
from pytest_dshmem.experiment.runtime_pool import PoolClosed, RuntimePool
from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.harness.runtime import RuntimeLost
from pytest_dshmem.record.entries import Call, Hypothesis, QuestionKey

LOSSES_BEFORE_GIVING_UP = 3
INTERRUPTED = "interrupted"

TRIED_AGAIN = frozenset({"error", "timeout", "contaminated"})
"""States that circumstances caused: a later run tries these again. What the agent itself did stands."""


def nothing_left_behind(_group: str, _key: QuestionKey) -> tuple[Call, ...]:
    """What is known of a question's unrecorded calls where nobody has looked for any."""
    return ()


@dataclass(frozen=True, slots=True)
class Means:
    """What a run has for asking. `limit` is the number of attempts that count against a question.

    `left_behind` tells which calls a process that died had made for a question and not recorded.
    """

    asker: Asker
    pool: RuntimePool
    gate: PressureGate
    stop: threading.Event
    limit: int
    record: Callable[[Hypothesis], None]
    halt: Callable[[str], None]
    left_behind: Callable[[str, QuestionKey], tuple[Call, ...]] = nothing_left_behind


class QuestionAttempts:
    """All attempts at one question, in the caller's thread.

    Rate limits do not count, and neither does a runtime that died of something else; every attempt that cost
    a call is recorded, with that cost.
    """

    def __init__(
        self, means: Means, key: QuestionKey, sample_id: str, group: str, snapshot: Snapshot | None
    ) -> None:
        self._means = means
        self._key = key
        self._sample_id = sample_id
        self._group = group
        self._snapshot = snapshot
        self._number = 0
        self._counted = 0
        self._losses = 0
        self._rate_limits = 0
        self._unrecorded = means.left_behind(group, key)

    def carry_out(self) -> Hypothesis | None:
        """What the question ended as, recorded; None where the run ends first."""
        means = self._means
        prompt = means.asker.prompt(self._key)
        overflow = means.asker.overflow(self._key, self._sample_id, prompt)
        if overflow is not None:
            means.record(overflow)
            return overflow
        while not means.stop.is_set():
            pauses = self._rate_limits
            entry = self._attempt(prompt)
            if entry is None:
                continue
            means.record(entry)
            if entry.state not in TRIED_AGAIN or self._counted >= means.limit:
                return entry
            if self._rate_limits > pauses:
                means.stop.wait(RATE_LIMIT_PAUSE_SECONDS)
        if self._unrecorded:
            means.record(self._failed(INTERRUPTED, time.time()))
        return None

    def _attempt(self, prompt: str) -> Hypothesis | None:
        """One attempt; None where it does not count because the question was not to blame."""
        means, started_at = self._means, time.time()
        self._number += 1
        try:
            # Room first and then the gate, as formations do: whoever has passed it waits for nothing more.
            with (
                means.pool.for_question(self._group, self._snapshot) as home,
                means.gate.passing() as passage,
            ):
                self._require_running()
                if not home.usable:
                    return None
                asked = means.asker.ask(home, self._key, self._sample_id, prompt, self._number)
                passage.outcome = "failed" if asked.entry.state in TRIED_AGAIN else "ok"
            return self._taken_up(asked)
        except (PoolClosed, RuntimeLost):
            # The run is over: no home was to be had, or it was killed before the question was begun.
            return None
        except QuestionLost as lost:
            return self._lost(lost, started_at)
        except HarnessError as error:
            self._counted += 1
            return self._failed(str(error), started_at)

    def _require_running(self) -> None:
        """A question that has waited for its turn is not begun when the run has ended by then."""
        if self._means.stop.is_set():
            raise PoolClosed

    def _taken_up(self, asked: Asked) -> Hypothesis:
        entry = asked.entry.model_copy(update={"calls": self._take_unrecorded() + asked.entry.calls})
        if asked.fatal:
            self._counted = self._means.limit
            self._means.halt(f"{self._key.question_id}: {entry.reason}")
        elif asked.rate_limited and self._rate_limits < RATE_LIMITS_BEFORE_GIVING_UP:
            self._rate_limits += 1
        else:
            self._counted += 1
        return entry

    def _lost(self, lost: QuestionLost, started_at: float) -> Hypothesis | None:
        self._unrecorded += lost.calls
        self._losses += 1
        if self._means.stop.is_set():
            reason = INTERRUPTED
        elif self._losses >= LOSSES_BEFORE_GIVING_UP:
            reason = f"the runtime died under it {self._losses} times: {lost}"
        else:
            return None
        self._counted = self._means.limit
        return self._failed(reason, started_at)

    def _failed(self, reason: str, started_at: float) -> Hypothesis:
        return Hypothesis(
            key=self._key,
            sample_id=self._sample_id,
            attempt=self._number,
            state="error",
            reason=reason,
            started_at=started_at,
            seconds=time.time() - started_at,
            calls=self._take_unrecorded(),
        )

    def _take_unrecorded(self) -> tuple[Call, ...]:
        calls, self._unrecorded = self._unrecorded, ()
        return calls
