"""Several engines on one run: every unit is done exactly once, also when one of them dies in the middle."""

import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import fake_work
import pytest
from fake_work import Patience, Work, asked, failed, frozen, item, shared_items, wait_for

from pytest_dshmem.experiment.asking import Asked
from pytest_dshmem.experiment.engine import NotFormed
from pytest_dshmem.record import claims as claims_module
from pytest_dshmem.record.entries import Formation, FormationKey, HypothesisState, QuestionKey
from pytest_dshmem.record.run_directory import RunDirectory


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", {"model": "m"}, {})


@pytest.fixture(autouse=True)
def _death_is_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_module, "ALIVE_MEMORY_SECONDS", 0.0)


def worker(run: RunDirectory, seconds: float) -> subprocess.Popen[str]:
    """Another process at work on the run; it has begun when this returns."""
    arguments = [sys.executable, str(Path(fake_work.__file__)), str(run.path), str(seconds)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"
    return process


def wait_for_answers(run: RunDirectory, number: int) -> None:
    patience = Patience()
    while len(run.hypotheses.read().entries) < number:
        patience()


def counts(run: RunDirectory) -> tuple[Counter[str], Counter[str]]:
    """How often each formation and each question was recorded."""
    return (
        Counter(entry.key.sample_id for entry in run.formations.read()),
        Counter(entry.key.question_id for entry in run.hypotheses.read()),
    )


ONCE = (
    Counter({"a": 1, "b": 1, "c": 1}),
    Counter({which.question.question_id: 1 for which in shared_items()}),
)


def test_two_engines_in_one_process_do_everything_once(run: RunDirectory) -> None:
    with Work(run, shared_items()) as one, Work(run, shared_items()) as other:
        assert one.answers() == other.answers()
    assert counts(run) == ONCE
    begun = Counter(one.journal.begun) + Counter(other.journal.begun)
    assert set(begun.values()) == {1}


def test_three_processes_do_everything_once(run: RunDirectory) -> None:
    workers = [worker(run, 0.003) for _ in range(3)]
    assert [process.wait(60) for process in workers] == [0, 0, 0]
    assert counts(run) == ONCE


def test_what_a_killed_process_had_is_done_by_another(run: RunDirectory) -> None:
    doomed = worker(run, 0.01)
    with Work(run, shared_items()) as work:
        wait_for_answers(run, 3)
        doomed.send_signal(signal.SIGKILL)
        doomed.communicate(timeout=30)
        assert {answer.state for answer in work.answers()} == {"answered"}
    assert counts(run) == ONCE


def test_a_killed_process_costs_what_was_in_flight_and_nothing_else(run: RunDirectory) -> None:
    doomed = worker(run, 0.01)
    wait_for_answers(run, 5)
    doomed.send_signal(signal.SIGKILL)
    doomed.communicate(timeout=30)
    before = [entry.key.question_id for entry in run.hypotheses.read()]
    with Work(run, shared_items()) as work:
        work.answers()
    assert not {f"ask {question}" for question in before} & set(work.journal.begun)
    assert counts(run) == ONCE


def test_a_formation_is_waited_for_where_another_engine_has_it(run: RunDirectory) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def forming(key: FormationKey) -> Formation:
        begun.set()
        wait_for(go_on)
        return frozen(key)

    items = [item("a", 1), item("b", 1, "baseline")]
    with Work(run, items[:1], forming=forming) as one:
        wait_for(begun)
        with Work(run, items) as other:
            assert other.hypothesis(items[1]).state == "answered", "there is other work meanwhile"
            go_on.set()
            assert other.hypothesis(items[0]) == one.hypothesis(items[0])
    assert "form a" not in other.journal.begun


def test_a_formation_that_failed_elsewhere_is_not_tried_again_in_the_same_run(run: RunDirectory) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def forming(key: FormationKey) -> Formation:
        begun.set()
        wait_for(go_on)
        return failed(key)

    with Work(run, [item("a", 1)], forming=forming):
        wait_for(begun)
        with Work(run, [item("a", 1)]) as other:
            go_on.set()
            with pytest.raises(NotFormed, match="the memory is empty"):
                other.hypothesis(item("a", 1))
    assert other.journal.begun == []


@pytest.mark.parametrize(
    ("state", "attempt", "asked_again"),
    [("answered", 1, False), ("blocked", 1, False), ("error", 2, False), ("error", 1, True)],
)
def test_what_another_process_has_left_is_taken_up_where_it_is_not_settled(
    run: RunDirectory, state: HypothesisState, attempt: int, asked_again: bool
) -> None:
    """An error on the last attempt is the end of it; before that, its owner has died or was interrupted."""
    first, second = item("a", 1, "baseline"), item("a", 2, "baseline")
    begun, go_on = threading.Event(), threading.Event()

    def answering(key: QuestionKey, number: int) -> Asked:
        begun.set()
        wait_for(go_on)
        return asked(key, number)

    with Work(run, [first, second], answering=answering, concurrency=1, attempts=2) as work:
        wait_for(begun)
        run.hypotheses.append(asked(second.question, attempt, state).entry)
        go_on.set()
        answer = work.hypothesis(second)
    assert answer.state == ("answered" if asked_again else state)
    assert ("ask a-q2" in work.journal.begun) == asked_again


def test_a_thousand_answers_of_others_are_taken_in(run: RunDirectory) -> None:
    items = [item("a", number, "baseline") for number in range(1500)]
    begun, go_on = threading.Event(), threading.Event()

    def answering(key: QuestionKey, number: int) -> Asked:
        begun.set()
        wait_for(go_on)
        return asked(key, number)

    with Work(run, items, answering=answering, concurrency=1) as work:
        wait_for(begun)
        with run.hypotheses.writing() as write:
            for which in items[1:]:
                write(asked(which.question).entry)
        go_on.set()
        assert {answer.state for answer in work.answers()} == {"answered"}
    assert work.journal.begun == ["ask a-q0"]
