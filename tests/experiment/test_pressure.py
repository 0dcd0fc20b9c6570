"""The gate that gives way under rate limits and recovers."""

import threading

import pytest

from pytest_dshmem.experiment.pressure import PressureGate


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def end_calls(gate: PressureGate, outcome: str, count: int) -> None:
    for _ in range(count):
        assert gate.acquire(timeout=0)
        gate.release(outcome)  # type: ignore[arg-type]


def test_no_more_than_the_limit_pass() -> None:
    gate = PressureGate(2)
    assert [gate.acquire(timeout=0) for _ in range(3)] == [True, True, False]
    assert gate.in_flight == 2
    gate.release()
    assert gate.acquire(timeout=0)


def test_a_burst_of_rate_limits_halves_the_limit_once() -> None:
    clock = Clock()
    gate = PressureGate(32, window_seconds=5, clock=clock)
    end_calls(gate, "rate-limited", 20)
    assert (gate.limit, gate.slowdowns) == (16, 1)
    clock.now = 5.0
    end_calls(gate, "rate-limited", 1)
    assert (gate.limit, gate.slowdowns) == (8, 2)


def test_the_limit_never_falls_below_one() -> None:
    clock = Clock()
    gate = PressureGate(3, window_seconds=1, clock=clock)
    for _ in range(5):
        end_calls(gate, "rate-limited", 1)
        clock.now += 1
    assert gate.limit == 1
    assert gate.acquire(timeout=0)


def test_successes_raise_it_one_by_one_up_to_the_ceiling() -> None:
    gate = PressureGate(4, successes_to_grow=3)
    end_calls(gate, "rate-limited", 1)
    assert gate.limit == 2
    end_calls(gate, "ok", 2)
    assert gate.limit == 2
    end_calls(gate, "ok", 1)
    assert gate.limit == 3
    end_calls(gate, "ok", 100)
    assert gate.limit == 4


def test_other_failures_change_nothing() -> None:
    gate = PressureGate(4)
    end_calls(gate, "failed", 50)
    assert (gate.limit, gate.slowdowns) == (4, 0)


def test_a_waiting_thread_gets_the_place_that_is_given_back() -> None:
    gate = PressureGate(1)
    assert gate.acquire()
    got = threading.Event()

    def wait() -> None:
        assert gate.acquire(timeout=10)
        got.set()

    threading.Thread(target=wait, daemon=True).start()
    assert not got.wait(0.05)
    gate.release()
    assert got.wait(10)


def test_misuse_is_an_error() -> None:
    with pytest.raises(ValueError, match="one call or more"):
        PressureGate(0)
    with pytest.raises(RuntimeError, match="nobody had taken"):
        PressureGate(1).release()
