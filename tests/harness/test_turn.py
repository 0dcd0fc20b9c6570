"""A turn, read from the events that the harness reports of it."""

from typing import Any

import pytest

from pytest_dshmem.harness.turn import Turn, TurnFailure, read_turn


def tool_call(call_id: str, name: str, time: int) -> dict[str, Any]:
    return {"type": "tool/call", "time": time, "data": {"callId": call_id, "name": name}}


def tool_result(call_id: str, path: str | None, time: int, *, refused: bool = False) -> dict[str, Any]:
    message = {"toolCallId": call_id, "isError": refused}
    meta = {"path": path} if path is not None else None
    return {"type": "tool/result", "time": time, "data": {"message": message, "meta": meta}}


def read(events: list[dict[str, Any]]) -> Turn:
    return read_turn(events, "An answer.", "completed", 5.0, 2.0)


def test_files_that_were_read_are_listed_once_in_order() -> None:
    turn = read(
        [
            tool_call("1", "read", 1000),
            tool_call("2", "read", 1100),
            tool_result("2", "/m/b.md", 1300),
            tool_result("1", "/m/a.md", 1500),
            tool_call("3", "read", 2000),
            tool_result("3", "/m/b.md", 2250),
        ]
    )
    assert turn.opened == ("/m/b.md", "/m/a.md")
    assert turn.tool_seconds == pytest.approx(0.2 + 0.5 + 0.25)


def test_a_refused_read_and_another_tool_s_path_are_not_opened_files() -> None:
    turn = read(
        [
            tool_call("1", "read", 0),
            tool_result("1", "/etc/passwd", 10, refused=True),
            tool_call("2", "memory_update", 20),
            tool_result("2", "/m/a.md", 30),
            tool_call("3", "read", 40),
            tool_result("3", None, 50),
        ]
    )
    assert turn.opened == ()
    assert turn.tool_seconds == pytest.approx(0.03)


def test_events_of_no_concern_and_results_of_no_call_are_passed_over() -> None:
    turn = read([{"type": "step/start", "data": None}, {"type": "step/end"}, tool_result("9", "/m/a.md", 1)])
    assert (turn.opened, turn.tool_seconds, turn.failure) == ((), 0.0, None)


def test_the_failure_of_a_turn_is_read_from_its_end() -> None:
    error = {"code": "SERVER", "message": "ill", "status": 500}
    turn = read([{"type": "turn/end", "data": {"reason": {"kind": "error", "error": error}}}])
    assert turn.failure == TurnFailure("SERVER", "ill")
    assert read([{"type": "turn/end", "data": {"reason": {"kind": "completed"}}}]).failure is None
