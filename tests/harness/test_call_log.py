"""The recorder's file: each call goes to the session that caused it, once, its failed tries included."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_dshmem.harness.calls import CallLog
from pytest_dshmem.record.entries import Usage

USAGE = {"inputTokens": 7, "outputTokens": 3, "cacheReadTokens": 2, "cacheWriteTokens": 1}


class Recorder:
    """Writes what the recorder in the runtime writes."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def write(self, **line: Any) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def start(self, call: str, session: str | None, *, at: int = 1000, purpose: str | None = None) -> None:
        self.write(
            kind="start", call=call, session=session, purpose=purpose, model="m", effort="low", startedAt=at
        )

    def end(self, call: str, *, finish: str = "stop", failure: str | None = None, usage: Any = None) -> None:
        self.write(
            kind="end", call=call, ms=250, firstTokenMs=40, usage=usage, finish=finish, failure=failure
        )

    def call(self, call: str, session: str | None, **more: Any) -> None:
        self.start(call, session, at=more.pop("at", 1000))
        self.end(call, **more)


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "calls.jsonl")


@pytest.fixture
def log(recorder: Recorder) -> CallLog:
    return CallLog(recorder.file)


def test_before_the_first_call_there_is_none(log: CallLog) -> None:
    assert log.take("a") == ()
    assert log.take_all(abandoned=True) == ()


def test_a_call_is_read_with_its_times_and_tokens(recorder: Recorder, log: CallLog) -> None:
    recorder.call("1", "a", usage=USAGE)

    (call,) = log.take("a")

    assert (call.purpose, call.model, call.effort) == ("turn", "m", "low")
    assert (call.started_at, call.seconds, call.first_token_seconds) == (1.0, 0.25, 0.04)
    assert (call.finish, call.failure) == ("stop", None)
    assert call.usage == Usage(input=7, output=3, cache_read=2, cache_write=1, reasoning=None)


def test_a_call_is_taken_once_and_by_its_own_session(recorder: Recorder, log: CallLog) -> None:
    recorder.call("1", "a")
    recorder.call("2", "b")

    assert len(log.take("a")) == 1
    assert log.take("a") == ()
    assert len(log.take_all()) == 1
    assert log.take("b") == ()


def test_a_worker_s_calls_belong_to_the_session_that_it_works_for(recorder: Recorder, log: CallLog) -> None:
    recorder.write(kind="child", session="worker", parent="a")
    recorder.write(kind="child", session="helper", parent="worker")
    recorder.call("1", "a", at=3000)
    recorder.call("2", "helper", at=1000)
    recorder.call("3", "worker", at=2000)

    assert [call.purpose for call in log.take("a")] == ["worker", "worker", "turn"], "in order of time"


def test_a_direct_call_of_a_plugin_is_seen(recorder: Recorder, log: CallLog) -> None:
    recorder.call("1", None)
    assert [call.purpose for call in log.take("a")] == ["direct"]


def test_a_refused_try_has_its_code_and_took_no_tokens(recorder: Recorder, log: CallLog) -> None:
    recorder.call("1", "a", finish="error", failure="RATE_LIMIT")
    recorder.call("2", "a", usage={"inputTokens": 1})

    failed, succeeded = log.take("a")

    assert (failed.failure, failed.usage) == ("RATE_LIMIT", Usage())
    assert succeeded.usage == Usage(input=1)


def test_a_call_under_way_is_taken_when_it_has_ended(recorder: Recorder, log: CallLog) -> None:
    recorder.start("1", "a")
    assert log.take("a") == ()
    recorder.end("1")
    assert len(log.take("a")) == 1


def test_a_call_that_a_dead_runtime_left_is_abandoned_and_unmetered(recorder: Recorder, log: CallLog) -> None:
    recorder.call("1", "a", usage=USAGE)
    recorder.start("2", "a")
    recorder.start("3", "b")

    ended, left = log.take_abandoned("a")

    assert (ended.finish, left.finish, left.usage) == ("stop", "abandoned", None)
    assert log.take_abandoned("a") == ()
    assert [call.finish for call in log.take_all(abandoned=True)] == ["abandoned"]


def test_a_line_that_is_half_written_is_read_when_it_is_whole(recorder: Recorder, log: CallLog) -> None:
    recorder.start("1", "a")
    line = json.dumps({"kind": "end", "call": "1", "ms": 5, "finish": "stop"}) + "\n"
    with recorder.file.open("a", encoding="utf-8") as file:
        file.write(line[:20])
        file.flush()
        assert log.take("a") == ()
        file.write(line[20:])

    assert len(log.take("a")) == 1


def test_a_try_that_broke_off_may_have_cost_something(recorder: Recorder, log: CallLog) -> None:
    recorder.call("1", "a", finish="error", failure="STREAM_CLOSED")
    (cut,) = log.take("a")
    assert (cut.failure, cut.usage) == ("STREAM_CLOSED", None)
