"""A gate says passed or failed with a reason, whatever the data; what cannot be decided has failed."""

from collections.abc import Callable
from pathlib import Path

import pytest
import synthetic_run as synthetic
from synthetic_run import synthetic_run

from pytest_dshmem.record.entries import QuestionKey
from pytest_dshmem.report.gates import GateResult, fail_under, no_worse_than
from pytest_dshmem.report.reading import RunReading, read_run

SAMPLES = tuple(f"place-{number}" for number in range(6))


def number(key: QuestionKey) -> int:
    return int(key.question_id.rsplit("q", 1)[1])


def up_to(last: int) -> Callable[[QuestionKey], bool]:
    return lambda key: number(key) <= last


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunReading]:
    """Makes a run of 36 questions over six samples and reads it."""
    monkeypatch.setattr(synthetic, "SAMPLES", SAMPLES)

    def make(name: str, correct: Callable[[QuestionKey], bool], **changes: object) -> RunReading:
        wanted: dict[str, object] = {"conditions": ("memory",), "correct": correct, **changes}
        synthetic_run(tmp_path / name, **wanted)  # type: ignore[arg-type]
        return read_run(tmp_path / name)

    return make


def test_an_accuracy_at_the_threshold_passes_and_below_it_fails(run: Callable[..., RunReading]) -> None:
    reading = run("half", up_to(3))
    assert fail_under(reading, 50.0).passed
    below = fail_under(reading, 50.1)
    assert not below.passed
    assert "50.0 % (18 of 36 judged) against 50.1 %" in below.reason


def test_the_control_is_not_gated_where_a_memory_is(run: Callable[..., RunReading]) -> None:
    both = run("both", lambda key: key.condition == "memory", conditions=("baseline", "memory"))
    assert fail_under(both, 90.0).passed
    alone = run("alone", up_to(0), conditions=("baseline",))
    assert not fail_under(alone, 90.0).passed


def test_missing_verdicts_that_the_threshold_hangs_on_leave_it_undecided(
    run: Callable[..., RunReading],
) -> None:
    reading = run("troubled", up_to(6), trouble=True)
    assert fail_under(reading, 80.0).passed
    undecided = fail_under(reading, 90.0)
    assert not undecided.passed
    assert "cannot be decided: 7 of 43 questions have no verdict" in undecided.reason


def test_a_run_that_was_not_judged_fails_with_that_reason(run: Callable[..., RunReading]) -> None:
    reading = run("unjudged", up_to(6), judged=False)
    assert fail_under(reading, 0.0) == GateResult(False, "memory: cannot be decided: nothing was judged")
    assert "cannot be decided" in no_worse_than(reading, reading).reason


def test_the_same_answers_are_no_worse(run: Callable[..., RunReading]) -> None:
    result = no_worse_than(run("now", up_to(3)), run("then", up_to(3)))
    assert result.passed
    assert "not shown to be worse, 0 questions lost and 0 won against then in 36 pairs" in result.reason


def test_a_clear_loss_is_worse(run: Callable[..., RunReading]) -> None:
    result = no_worse_than(run("now", up_to(3)), run("then", up_to(4)))
    assert not result.passed
    # Six questions lost and none won: p = 1/64.
    assert "worse, 6 questions lost and 0 won" in result.reason
    assert "p = 0.0156, confidence 95.0 %" in result.reason


def test_a_stricter_confidence_or_a_margin_lets_the_same_loss_pass(run: Callable[..., RunReading]) -> None:
    now, then = run("now", up_to(3)), run("then", up_to(4))
    assert no_worse_than(now, then, confidence=0.99).passed
    forgiving = no_worse_than(now, then, margin=0.1)
    assert forgiving.passed
    assert "3 lost ones forgiven" in forgiving.reason


def test_a_small_loss_is_not_shown_to_be_worse(run: Callable[..., RunReading]) -> None:
    def three_lost(key: QuestionKey) -> bool:
        return number(key) <= 3 and not (number(key) == 1 and key.question_id < "place-3")

    assert no_worse_than(run("now", three_lost), run("then", up_to(3))).passed


def test_missing_verdicts_that_could_turn_it_leave_it_undecided(run: Callable[..., RunReading]) -> None:
    then = run("then", up_to(3), trouble=True)
    now = run("now", up_to(3), trouble=True)
    result = no_worse_than(now, then)
    assert not result.passed
    assert "cannot be decided: 7 questions without a verdict could turn it" in result.reason


def test_runs_of_different_things_cannot_be_decided_and_raise_nothing(run: Callable[..., RunReading]) -> None:
    other = run("other", up_to(6), settings={"data.sha256": "2" * 64})
    result = no_worse_than(run("now", up_to(6)), other)
    assert not result.passed
    assert "cannot be decided: these are not measurements of the same thing: data.sha256" in result.reason


def test_a_baseline_without_the_condition_cannot_be_decided(run: Callable[..., RunReading]) -> None:
    then = run("then", up_to(6), conditions=("memory-consolidate", "oracle", "full-history"))
    now = run("now", up_to(6), conditions=("baseline",))
    result = no_worse_than(now, then.narrowed("oracle"))
    assert result.passed
    undecided = no_worse_than(now, read_run(then.path).narrowed("nothing"))
    assert not undecided.passed
    assert "has no condition to compare it with" in undecided.reason
