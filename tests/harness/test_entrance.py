"""Sessions of one runtime begin one after the other, and none keeps the others out for good."""

import threading
from collections.abc import Callable

import pytest
from deepseek_harness.models import Notification

from pytest_dshmem.harness.runtime import REQUEST_EVENT, Entrance

PATIENCE_SECONDS = 10.0


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
