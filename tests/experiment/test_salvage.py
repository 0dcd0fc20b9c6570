"""Calls that a process paid for and did not live to record are recorded by whoever takes its work over."""

import json
from pathlib import Path

import pytest

from pytest_dshmem.experiment.asking import session_name
from pytest_dshmem.experiment.salvage import QuestionSalvage, span_of, unrecorded
from pytest_dshmem.harness.sandbox import THIS_PROCESS, Sandbox
from pytest_dshmem.record.entries import Call, Hypothesis, QuestionKey
from pytest_dshmem.record.run_directory import RunDirectory

KEY = QuestionKey(question_id="q1", condition="memory")
OTHER = QuestionKey(question_id="q2", condition="memory")
GROUP = "f-1"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", {"benchmark": "locomo"}, {})


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path / "sandbox")


def write_calls(sandbox: Sandbox, home: str, key: QuestionKey, *starts_ms: int, ended: bool = True) -> None:
    """What the recorder of a home writes of the first attempt's calls."""
    lines: list[dict[str, object]] = []
    for start in starts_ms:
        lines.append(
            {
                "kind": "start",
                "call": f"7/{start}",
                "session": f"{session_name(key)}1",
                "purpose": None,
                "model": "m",
                "effort": None,
                "startedAt": start,
            }
        )
        if ended:
            usage = {"inputTokens": 5, "outputTokens": 2}
            lines.append(
                {
                    "kind": "end",
                    "call": f"7/{start}",
                    "ms": 40,
                    "firstTokenMs": 9,
                    "usage": usage,
                    "finish": "stop",
                    "failure": None,
                }
            )
    with sandbox.home(GROUP, home).calls_file.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def starts(calls: tuple[Call, ...]) -> list[float]:
    return [call.started_at for call in calls]


def test_calls_of_a_dead_process_are_found_under_the_question_that_they_were_made_for(
    run: RunDirectory, sandbox: Sandbox
) -> None:
    write_calls(sandbox, "questions-dead-1", KEY, 1000, 2000)
    write_calls(sandbox, "questions-dead-2", OTHER, 3000)
    salvage = QuestionSalvage(run, sandbox)

    assert starts(salvage.take(GROUP, KEY)) == [1.0, 2.0]
    assert starts(salvage.take(GROUP, OTHER)) == [3.0]
    assert salvage.take(GROUP, KEY) == ()


def test_a_call_whose_end_nobody_saw_is_unmetered_and_not_free(run: RunDirectory, sandbox: Sandbox) -> None:
    write_calls(sandbox, "questions-dead-1", KEY, 1000, ended=False)

    (call,) = QuestionSalvage(run, sandbox).take(GROUP, KEY)

    assert (call.finish, call.usage) == ("abandoned", None)


def test_what_is_recorded_already_is_not_counted_twice(run: RunDirectory, sandbox: Sandbox) -> None:
    write_calls(sandbox, "questions-dead-1", KEY, 1000)
    recorded = QuestionSalvage(run, sandbox).take(GROUP, KEY)
    run.hypotheses.append(
        Hypothesis(key=KEY, sample_id="s", state="error", started_at=1.0, seconds=0.0, calls=recorded)
    )
    write_calls(sandbox, "questions-dead-1", KEY, 2000)

    assert starts(QuestionSalvage(run, sandbox).take(GROUP, KEY)) == [2.0]


def test_homes_of_this_process_are_left_to_their_own_logs(run: RunDirectory, sandbox: Sandbox) -> None:
    write_calls(sandbox, f"questions-{THIS_PROCESS}-1", KEY, 1000)

    assert QuestionSalvage(run, sandbox).take(GROUP, KEY) == ()


def test_a_process_that_dies_while_others_work_is_seen_by_them(run: RunDirectory, sandbox: Sandbox) -> None:
    salvage = QuestionSalvage(run, sandbox)
    assert salvage.take(GROUP, KEY) == ()

    write_calls(sandbox, "questions-later-1", KEY, 1000)

    assert starts(salvage.take(GROUP, KEY)) == [1.0]


def test_a_call_is_known_by_its_start_since_its_end_may_come_after_it_was_recorded() -> None:
    early = Call(purpose="turn", model="m", started_at=1.0, seconds=0.0, finish="abandoned")
    late = early.model_copy(update={"seconds": 2.0, "finish": "stop"})
    record = Hypothesis(key=KEY, sample_id="s", state="error", started_at=1.0, seconds=0.0, calls=(early,))

    assert unrecorded([late], [record]) == ()


def test_the_span_of_calls_reaches_from_the_first_start_to_the_last_end() -> None:
    calls = [
        Call(purpose="turn", model="m", started_at=start, seconds=seconds, finish="stop")
        for start, seconds in ((10.0, 5.0), (11.0, 1.0))
    ]

    assert span_of(calls) == (10.0, 5.0)
