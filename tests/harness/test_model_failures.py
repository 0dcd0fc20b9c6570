"""Every way in which a model can fail is a state with a sentence, and every try is recorded."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from guarded_runtime import API_KEY, GuardedRuntime, guarded_runtime, one_after_the_other
from scripted_model import Reply, ToolUse

from pytest_dshmem.experiment.outcome import outcome_of
from pytest_dshmem.harness.composition import ModelRetries, Policy
from pytest_dshmem.record.entries import Usage

pytestmark = pytest.mark.runtime

RETRIES = ModelRetries(attempts=2, first_delay=0.02, longest_delay=0.1, idle_seconds=1.0)
TOO_LONG = "prompt is too long for the model's context window: 12 tokens > 3 maximum"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedRuntime]:
    def policies(_home: object) -> dict[str, Policy]:
        return {"qa": Policy(turn_seconds=10.0)}

    with guarded_runtime(tmp_path_factory.mktemp("failures"), policies, retries=RETRIES) as started:
        yield started


@pytest.fixture(autouse=True)
def the_runtime_lives_on(guarded: GuardedRuntime) -> Iterator[None]:
    yield
    turn, _ = guarded.turn("qa", lambda _request: Reply(text="Still here."))
    assert turn.response == "Still here."
    guarded.runtime.calls.take_all()


@pytest.mark.parametrize(
    ("reply", "state", "code", "fatal", "tries"),
    [
        (Reply(status=401, error="this key is not known"), "error", "AUTH", True, 1),
        (Reply(status=402, error="the account is empty"), "error", "QUOTA", True, 1),
        (Reply(status=400, error="the request is odd"), "error", "INVALID_REQUEST", False, 1),
        (Reply(status=400, error=TOO_LONG), "context-overflow", "CONTEXT_WINDOW_EXCEEDED", False, 2),
        (Reply(status=429, error="slow down"), "error", "RATE_LIMIT", False, 3),
        (Reply(status=500, error="the server is ill"), "error", "SERVER", False, 3),
        (Reply(text="It is a", cut=True), "error", "STREAM_CLOSED", False, 1),
        (Reply(), "error", "EMPTY_RESPONSE", False, 3),
        (Reply(text="Too late.", hang=2.0), "error", "TIMEOUT", False, 3),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isupper() else "",
)
def test_a_failed_call_ends_in_its_named_state(
    guarded: GuardedRuntime, reply: Reply, state: str, code: str, fatal: bool, tries: int
) -> None:
    turn, requests = guarded.turn("qa", lambda _request: reply)

    outcome = outcome_of(turn, 8, 30.0)
    assert (outcome.state, outcome.fatal, turn.response) == (state, fatal, "")
    assert outcome.rate_limited == (code == "RATE_LIMIT")
    assert outcome.reason is not None
    assert outcome.reason.startswith(f"{code}: ")
    assert "\n" not in outcome.reason
    assert len(requests) == tries
    calls = guarded.runtime.calls.take_all()
    assert [(call.finish, call.failure) for call in calls] == [("error", code)] * tries


@pytest.mark.parametrize("failed", [Reply(status=429, headers={"retry-after": "0"}), Reply(status=503)])
def test_a_call_that_succeeds_at_last_is_an_answer_and_the_failed_try_is_recorded(
    guarded: GuardedRuntime, failed: Reply
) -> None:
    answer = Reply(text="Quince.", input_tokens=70, cache_read_tokens=20, output_tokens=3)

    turn, _ = guarded.turn("qa", one_after_the_other(failed, answer))

    assert (turn.finish_reason, turn.failure, turn.response) == ("completed", None, "Quince.")
    first, second = guarded.runtime.calls.take_all()
    assert first.failure is not None
    assert first.usage is None, "what a failed try cost is not known, which is not nothing"
    assert (second.failure, second.usage) == (None, Usage(input=70, cache_read=20, output=3))


def test_an_answer_that_was_cut_off_by_its_limit_is_no_answer(guarded: GuardedRuntime) -> None:
    turn, requests = guarded.turn("qa", lambda _request: Reply(text="It is a", stop_reason="max_tokens"))

    assert len(requests) == 1
    assert outcome_of(turn, 8, 30.0).state == "max-tokens"


def test_tool_calls_that_were_cut_off_are_not_run(guarded: GuardedRuntime) -> None:
    cut = Reply(tool_uses=(ToolUse("read", {"file_path": "a"}),), stop_reason="max_tokens")

    turn, requests = guarded.turn("qa", lambda _request: cut)

    assert len(requests) == 1
    assert outcome_of(turn, 8, 30.0).state == "max-tokens"


def test_a_key_that_the_provider_repeats_stays_out_of_the_words(guarded: GuardedRuntime) -> None:
    refusal = Reply(status=401, error=f"the key {API_KEY} is not known")

    turn, requests = guarded.turn("qa", lambda _request: refusal)

    assert requests[0].headers["x-api-key"] == API_KEY
    assert outcome_of(turn, 8, 30.0).reason == "AUTH: the key *** is not known"


def test_an_endpoint_that_is_not_there_is_an_error_with_a_sentence(tmp_path: Path) -> None:
    def policies(_home: object) -> dict[str, Policy]:
        return {"qa": Policy()}

    with guarded_runtime(tmp_path, policies, retries=RETRIES) as alone:
        alone.model.close()
        with alone.runtime.session("s", "qa"):
            turn = alone.runtime.turn("s", "Is anybody there?", 20.0)
        calls = alone.runtime.calls.take("s")

    outcome = outcome_of(turn, 8, 20.0)
    assert outcome.state == "error"
    assert str(outcome.reason).startswith("TRANSPORT: ")
    assert [call.failure for call in calls] == ["TRANSPORT"] * 3
