"""The engine in one process: what is begun when, what is recorded, and how a run comes to an end."""

import errno
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_work import FakePool, Work, asked, call, failed, frozen, item, wait_for

from pytest_dshmem.experiment.asking import Asked, QuestionLost
from pytest_dshmem.experiment.engine import NotFormed, RunHalted
from pytest_dshmem.experiment.formation import FormationFailed, FormationStopped
from pytest_dshmem.experiment.outcome import RATE_LIMIT
from pytest_dshmem.experiment.pressure import PressureGate
from pytest_dshmem.record.entries import Call, Formation, FormationKey, HypothesisState, QuestionKey
from pytest_dshmem.record.journal import RecordError
from pytest_dshmem.record.run_directory import RunDirectory


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", {"model": "m"}, {})


ENDINGS: tuple[HypothesisState, ...] = ("answered", "empty", "blocked", "error", "timeout")
TWO_SAMPLES = [item(sample, number) for sample in ("a", "b") for number in (1, 2)]


class TestOrder:
    def test_one_worker_takes_the_first_unit_that_is_ready(self, run: RunDirectory) -> None:
        with Work(run, TWO_SAMPLES, concurrency=1) as work:
            answers = work.answers()
        assert work.journal.begun == ["form a", "ask a-q1", "ask a-q2", "form b", "ask b-q1", "ask b-q2"]
        assert [answer.hypothesis for answer in answers] == [
            f"answer to {which.question.question_id}" for which in TWO_SAMPLES
        ]

    def test_what_needs_no_memory_is_asked_without_a_formation(self, run: RunDirectory) -> None:
        with Work(run, [item("a", 1, "baseline"), item("a", 2, "baseline")], concurrency=1) as work:
            work.answers()
        assert work.journal.begun == ["ask a-q1", "ask a-q2"]
        assert work.pool.homes == {"None": 2}

    def test_every_question_is_asked_on_its_own_snapshot(self, run: RunDirectory) -> None:
        with Work(run, TWO_SAMPLES) as work:
            work.answers()
        assert work.pool.homes == {"snapshot of a": 2, "snapshot of b": 2}

    def test_a_sample_is_asked_while_another_is_still_being_formed(self, run: RunDirectory) -> None:
        b_is_done = threading.Event()

        def forming(key: FormationKey) -> Formation:
            if key.sample_id == "a":
                wait_for(b_is_done)
            return frozen(key)

        with Work(run, TWO_SAMPLES, forming=forming, concurrency=2) as work:
            assert [work.hypothesis(which).state for which in TWO_SAMPLES[2:]] == ["answered"] * 2
            b_is_done.set()
            assert [work.hypothesis(which).state for which in TWO_SAMPLES[:2]] == ["answered"] * 2

    def test_homes_are_released_when_nothing_is_left_to_ask_in_them(self, run: RunDirectory) -> None:
        with Work(run, TWO_SAMPLES, concurrency=1) as work:
            work.answers()
            work.engine.finish()
            assert len(set(work.pool.released)) == 2
        assert work.pool.closed


class TestConcurrency:
    @pytest.mark.parametrize("concurrency", [1, 3, 8])
    def test_as_many_units_are_in_flight_as_are_allowed_and_never_more(
        self, run: RunDirectory, concurrency: int
    ) -> None:
        all_at_once = threading.Barrier(concurrency)

        def answering(key: QuestionKey, attempt: int) -> Asked:
            all_at_once.wait(30)
            return asked(key, attempt)

        items = [item("a", number, "baseline") for number in range(concurrency * 3)]
        with Work(run, items, answering=answering, concurrency=concurrency) as work:
            work.answers()
        assert work.journal.most_in_flight == concurrency

    def test_formations_and_questions_share_the_bound(self, run: RunDirectory) -> None:
        items = [item(sample, number) for sample in "abcdef" for number in range(5)]
        with Work(run, items, concurrency=3) as work:
            work.answers()
        assert work.journal.most_in_flight <= 3
        assert Counter(work.journal.begun) == Counter(
            [f"form {sample}" for sample in "abcdef"] + [f"ask {i.question.question_id}" for i in items]
        )

    def test_rate_limits_lower_it_and_the_questions_are_answered_all_the_same(
        self, run: RunDirectory
    ) -> None:
        limited = (call(failure=RATE_LIMIT), call())
        gate = PressureGate(8)
        items = [item("a", number, "baseline") for number in range(12)]
        with Work(
            run,
            items,
            answering=lambda key, attempt: asked(key, attempt, calls=limited),
            concurrency=8,
            gate=gate,
        ) as work:
            assert {answer.state for answer in work.answers()} == {"answered"}
        assert gate.slowdowns == 1
        assert gate.limit < 8
        assert gate.in_flight == 0


class TestContinuing:
    def test_what_stands_is_kept_and_what_circumstances_did_is_tried_again(self, run: RunDirectory) -> None:
        items = [item("a", number) for number in range(5)]
        states = dict(zip(("a-q0", "a-q1", "a-q2", "a-q3", "a-q4"), ENDINGS, strict=True))
        with Work(
            run, items, answering=lambda key, n: asked(key, n, states[key.question_id]), attempts=1
        ) as work:
            assert [answer.state for answer in work.answers()] == list(ENDINGS)
        with Work(run, items, attempts=1) as again:
            assert [answer.state for answer in again.answers()] == [
                "answered",
                "empty",
                "blocked",
                "answered",
                "answered",
            ]
        assert sorted(again.journal.begun) == ["ask a-q3", "ask a-q4"]

    def test_nothing_is_done_twice(self, run: RunDirectory) -> None:
        with Work(run, TWO_SAMPLES) as work:
            first = work.answers()
        recorded = run.hypotheses.path.read_bytes()
        with Work(run, TWO_SAMPLES) as again:
            assert again.answers() == first
        assert again.journal.begun == []
        assert run.hypotheses.path.read_bytes() == recorded

    def test_a_formation_that_failed_is_tried_again_by_the_next_run(self, run: RunDirectory) -> None:
        with Work(run, [item("a", 1)], forming=failed) as work, pytest.raises(NotFormed):
            work.answers()
        with Work(run, [item("a", 1)]) as again:
            assert again.formation("a").state == "frozen"
            assert [answer.state for answer in again.answers()] == ["answered"]


class TestFormationsThatFail:
    def test_their_questions_are_left_out_and_the_others_asked(self, run: RunDirectory) -> None:
        def forming(key: FormationKey) -> Formation:
            return failed(key) if key.sample_id == "a" else frozen(key)

        with Work(run, TWO_SAMPLES, forming=forming) as work:
            assert work.formation("a").state == "failed"
            for which in TWO_SAMPLES[:2]:
                with pytest.raises(NotFormed, match=r"^a was not formed: the memory is empty$"):
                    work.hypothesis(which)
            assert [work.hypothesis(which).state for which in TWO_SAMPLES[2:]] == ["answered"] * 2
        assert "ask a-q1" not in work.journal.begun
        assert work.engine.halted is None

    def test_a_fatal_reason_ends_the_run(self, run: RunDirectory) -> None:
        def forming(_key: FormationKey) -> Formation:
            raise FormationFailed("session 1: AUTH: the key was refused", fatal=True)

        with Work(run, TWO_SAMPLES, forming=forming, concurrency=1) as work:
            with pytest.raises(RunHalted, match="the key was refused"):
                work.formation("a")
            with pytest.raises(RunHalted, match="the key was refused"):
                work.hypothesis(TWO_SAMPLES[3])
        assert work.journal.begun == ["form a"]


class TestStopping:
    def test_a_budget_that_is_used_up_starts_nothing_new_and_records_what_is_in_flight(
        self, run: RunDirectory
    ) -> None:
        second_begun, budget_used_up = threading.Event(), threading.Event()

        def answering(key: QuestionKey, attempt: int) -> Asked:
            if key.question_id == "a-q1":
                second_begun.set()
                wait_for(budget_used_up)
            else:
                wait_for(second_begun)
            return asked(key, attempt, calls=(call(),))

        def on_calls(_calls: Sequence[Call]) -> str | None:
            budget_used_up.set()
            return "the budget of 10 tokens is used up"

        items = [item("a", number, "baseline") for number in range(6)]
        with Work(run, items, answering=answering, concurrency=2, on_calls=on_calls) as work:
            assert [work.hypothesis(which).state for which in items[:2]] == ["answered", "answered"]
            for which in items[2:]:
                with pytest.raises(RunHalted, match=r"^the budget of 10 tokens is used up$"):
                    work.hypothesis(which)
        assert sorted(work.journal.begun) == ["ask a-q0", "ask a-q1"]
        assert sorted(work.recorded()) == [("a-q0", "answered"), ("a-q1", "answered")]

    def test_a_fatal_error_of_a_question_ends_the_run_and_is_recorded(self, run: RunDirectory) -> None:
        items = [item("a", number, "baseline") for number in range(6)]
        with Work(
            run,
            items,
            answering=lambda key, attempt: asked(key, attempt, "error", fatal=True),
            concurrency=1,
        ) as work:
            assert work.hypothesis(items[0]).state == "error"
            with pytest.raises(RunHalted, match=r"^a-q0: it was error$"):
                work.hypothesis(items[1])
        assert work.recorded() == [("a-q0", "error")]

    def test_the_end_of_a_run_waits_for_what_is_in_flight(self, run: RunDirectory) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def answering(key: QuestionKey, attempt: int) -> Asked:
            begun.set()
            wait_for(go_on)
            return asked(key, attempt)

        items = [item("a", number, "baseline") for number in range(3)]
        work = Work(run, items, answering=answering, concurrency=1)
        work.engine.start()
        wait_for(begun)
        ending = threading.Thread(target=work.engine.finish)
        ending.start()
        wait_for(work.stop)
        go_on.set()
        ending.join(30)
        assert work.recorded() == [("a-q0", "answered")]
        assert work.pool.closed
        assert run.finish(), "no claim is left"

    def test_an_interruption_ends_what_is_in_flight_and_records_what_it_had_cost(
        self, run: RunDirectory
    ) -> None:
        begun = threading.Event()

        def answering(_key: QuestionKey, _attempt: int) -> Asked:
            begun.set()
            wait_for(work.runtimes.killed)
            raise QuestionLost("killed", (call(purpose="paid"),))

        items = [item("a", number, "baseline") for number in range(3)]
        work = Work(run, items, answering=answering, concurrency=1)
        work.engine.start()
        wait_for(begun)
        work.engine.finish(abandon=True)
        (entry,) = run.hypotheses.read()
        assert (entry.state, entry.reason, len(entry.calls)) == ("error", "interrupted", 1)
        with pytest.raises(RunHalted, match="the run has ended"):
            work.hypothesis(items[2])

    def test_a_formation_that_was_stopped_is_not_recorded(self, run: RunDirectory) -> None:
        begun = threading.Event()

        def forming(_key: FormationKey) -> Formation:
            begun.set()
            wait_for(work.stop)
            raise FormationStopped

        work = Work(run, TWO_SAMPLES, forming=forming, concurrency=1)
        work.engine.start()
        wait_for(begun)
        work.engine.finish()
        assert list(run.formations.read()) == []
        with pytest.raises(RunHalted):
            work.formation("a")

    def test_a_formation_that_waits_for_room_is_not_begun_after_the_end(self, run: RunDirectory) -> None:
        class NoRoomInTime(FakePool):
            @contextmanager
            def for_formation(self) -> Iterator[None]:
                work.engine.halt("enough")
                yield

        work = Work(run, TWO_SAMPLES, pool=NoRoomInTime(), concurrency=1)
        with work, pytest.raises(RunHalted, match="enough"):
            work.formation("a")
        assert work.journal.begun == []

    def test_a_question_that_waits_for_the_gate_is_not_begun_after_the_end(self, run: RunDirectory) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def answering(key: QuestionKey, attempt: int) -> Asked:
            begun.set()
            wait_for(go_on)
            return asked(key, attempt)

        items = [item("a", number, "baseline") for number in range(4)]
        work = Work(run, items, answering=answering, concurrency=4, gate=PressureGate(1))
        work.engine.start()
        wait_for(begun)
        work.engine.halt("enough")
        go_on.set()
        work.engine.finish()
        assert len(work.journal.begun) == 1
        assert len(work.recorded()) == 1


class TestWhatNobodyForesaw:
    def test_it_is_one_sentence_and_the_traceback_is_kept(self, run: RunDirectory) -> None:
        def forming(_key: FormationKey) -> Formation:
            raise KeyError("colour")

        with Work(run, TWO_SAMPLES, forming=forming) as work, pytest.raises(RunHalted) as caught:
            work.formation("a")
        assert str(caught.value).startswith("internal error, KeyError: 'colour' (its traceback is in ")
        assert "\n" not in str(caught.value)
        kept = (run.work / "internal-errors.txt").read_text()
        assert "Traceback (most recent call last)" in kept
        assert "in forming" in kept

    @pytest.mark.parametrize("claims_are_refused_too", [False, True])
    def test_a_full_disk_ends_the_run_with_a_sentence_and_nobody_waits_for_ever(
        self, run: RunDirectory, monkeypatch: pytest.MonkeyPatch, claims_are_refused_too: bool
    ) -> None:
        items = [item("a", number, "baseline") for number in range(4)]

        def answering(key: QuestionKey, attempt: int) -> Asked:
            monkeypatch.setattr(run.hypotheses, "append", refuse)
            if claims_are_refused_too:
                monkeypatch.setattr(work.engine._claims, "drop", refuse)
            return asked(key, attempt)

        work = Work(run, items, concurrency=2, answering=answering)

        def refuse(_anything: object) -> None:
            raise RecordError(f"cannot write: {os.strerror(errno.ENOSPC)}")

        with work:
            for which in items:
                with pytest.raises(RunHalted, match=r"^cannot write: No space left on device$"):
                    work.hypothesis(which)
        monkeypatch.undo()
        with Work(run, items) as again:
            assert {answer.state for answer in again.answers()} == {"answered"}
