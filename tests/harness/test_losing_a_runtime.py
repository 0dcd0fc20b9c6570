"""A runtime that dies or hangs: every session in it is told, in time, and no process is left."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from guarded_runtime import GuardedRuntime, guarded_runtime
from scripted_model import Reply, Request

from pytest_dshmem.harness.composition import Policy
from pytest_dshmem.harness.runtime import Deadlines, RuntimeLost, TurnTimeout
from pytest_dshmem.harness.turn import Turn

pytestmark = pytest.mark.runtime

GRACE = 1.0


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GuardedRuntime]:
    def policies(_home: object) -> dict[str, Policy]:
        return {"qa": Policy()}

    with guarded_runtime(tmp_path, policies, deadlines=Deadlines(request=5.0, grace=GRACE)) as started:
        yield started


def waiting_turns(
    guarded: GuardedRuntime, pool: ThreadPoolExecutor, seconds: dict[str, float]
) -> dict[str, Future[Turn]]:
    """Turns under way, one a session, each with a deadline, all waiting for a model that takes its time."""
    arrived = threading.Semaphore(0)

    def slow(_request: Request) -> Reply:
        arrived.release()
        return Reply(text="At last.", delay=20.0)

    def turn(session_id: str, limit: float) -> Turn:
        with guarded.runtime.session(session_id, "qa"):
            return guarded.runtime.turn(session_id, "Go on.", limit)

    guarded.model.handler = slow
    turns = {name: pool.submit(turn, name, limit) for name, limit in seconds.items()}
    for _ in turns:
        assert arrived.acquire(timeout=20.0)
    return turns


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def in_time(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_a_killed_runtime_is_lost_to_every_session_at_once(guarded: GuardedRuntime) -> None:
    pid = guarded.pid
    with ThreadPoolExecutor() as pool:
        turns = waiting_turns(guarded, pool, {"a": 60.0, "b": 60.0})
        killed_at = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        for turn in turns.values():
            with pytest.raises(RuntimeLost):
                turn.result(timeout=10.0)

    assert time.monotonic() - killed_at < 5
    lost = guarded.runtime.calls.take_abandoned("a") + guarded.runtime.calls.take_abandoned("b")
    assert [(call.finish, call.usage) for call in lost] == [("abandoned", None)] * 2
    with pytest.raises(RuntimeLost), guarded.runtime.session("c", "qa"):
        pytest.fail("a dead runtime opened a session")
    with pytest.raises(RuntimeLost):
        guarded.runtime.turn("c", "Anybody?", 5.0)
    guarded.runtime.close()
    assert is_gone(pid)


def test_a_runtime_that_hangs_is_killed_for_the_turn_whose_time_is_over(guarded: GuardedRuntime) -> None:
    pid = guarded.pid
    with ThreadPoolExecutor() as pool:
        turns = waiting_turns(guarded, pool, {"late": 1.0, "neighbour": 60.0})
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(TurnTimeout, match="no end after 1 s; the runtime was killed"):
            turns["late"].result(timeout=15.0)
        with pytest.raises(RuntimeLost):
            turns["neighbour"].result(timeout=15.0)

    guarded.runtime.close()
    assert in_time(5.0, lambda: is_gone(pid))


def test_a_request_that_a_hanging_runtime_does_not_answer_loses_it(guarded: GuardedRuntime) -> None:
    pid = guarded.pid
    os.kill(pid, signal.SIGSTOP)

    with pytest.raises(RuntimeLost):
        guarded.runtime.request("dshmem/status", {}, timeout=0.5)

    guarded.runtime.close()
    assert is_gone(pid)


def test_a_closed_runtime_does_not_come_back(guarded: GuardedRuntime) -> None:
    """The SDK would start a second one, without the checks that a start has."""
    guarded.runtime.close()

    with pytest.raises(RuntimeLost):
        guarded.runtime.turn("s", "Anybody?", 5.0)
    assert guarded.model.requests == []
