"""Sessions of one runtime begin one after the other, and none keeps the others out for good."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deepseek_harness.models import Notification
from guarded_runtime import guarded_runtime, one_after_the_other

from pytest_dshmem.harness.composition import Policy
from pytest_dshmem.harness.runtime import REQUEST_EVENT, Entrance

PATIENCE_SECONDS = 10.0
HELD_SECONDS = 1.5


def event(kind: str) -> Notification:
    return Notification(method="session.event", payload={"sessionId": "s", "event": {"type": kind}})


class Passer:
    """A turn in a thread of its own: it enters, is told of events, and ends when it is let go."""

    def __init__(self, entrance: Entrance) -> None:
        self._entrance = entrance
        self.entered = threading.Event()
        self._leave = threading.Event()
        self.tell: Callable[[Notification], None] = lambda _notification: None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._leave.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with self._entrance.passing() as self.tell:
            self.entered.set()
            assert self._leave.wait(PATIENCE_SECONDS)


def test_a_turn_waits_until_the_one_before_has_reached_the_model() -> None:
    entrance = Entrance()
    first = Passer(entrance)
    assert first.entered.wait(PATIENCE_SECONDS)
    second = Passer(entrance)

    first.tell(event("step/start"))
    assert not second.entered.wait(0.05)

    first.tell(event(REQUEST_EVENT))
    assert second.entered.wait(PATIENCE_SECONDS)
    first.end()
    second.end()


def test_further_requests_of_a_turn_let_nobody_in_a_second_time() -> None:
    entrance = Entrance()
    first = Passer(entrance)
    assert first.entered.wait(PATIENCE_SECONDS)
    first.tell(event(REQUEST_EVENT))
    second = Passer(entrance)
    assert second.entered.wait(PATIENCE_SECONDS)

    first.tell(event(REQUEST_EVENT))
    third = Passer(entrance)

    assert not third.entered.wait(0.05)
    for passer in (first, second, third):
        passer.end()


def test_a_turn_that_ends_before_it_has_reached_the_model_gives_way() -> None:
    entrance = Entrance()

    with pytest.raises(RuntimeError, match="refused"), entrance.passing():
        raise RuntimeError("refused")

    with entrance.passing():
        pass


@pytest.mark.runtime
def test_the_wait_at_the_entrance_is_no_part_of_a_turns_time(tmp_path: Path) -> None:
    with (
        guarded_runtime(tmp_path, lambda _home: {"qa": Policy()}) as guarded,
        ThreadPoolExecutor(1) as threads,
    ):
        guarded.turn("qa", one_after_the_other())  # the first turn of a runtime takes longer
        runtime = guarded.runtime
        with runtime.session("late", "qa"):
            with runtime._entrance.passing():
                waiting = threads.submit(runtime.turn, "late", "Go on.", HELD_SECONDS / 2)
                time.sleep(HELD_SECONDS)
                released_at = time.time()
            turn = waiting.result(PATIENCE_SECONDS)

    assert turn.finish_reason == "completed", "its limit counts from its beginning, too"
    assert turn.started_at >= released_at
    assert turn.seconds < HELD_SECONDS
