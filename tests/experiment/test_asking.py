"""Asking on the real runtime: fresh sessions on one snapshot, and nothing lost when a runtime is."""

import functools
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from guarded_runtime import files_holding, runtimes_under
from memory_home import bundled_system
from scripted_model import Reply, Request, ScriptedModel, ToolUse
from tiny_experiment import (
    API_KEY,
    KEPT,
    SITTINGS,
    TinyExperiment,
    formation_key,
    memory_of_snapshot,
    studious,
)

from pytest_dshmem.experiment import question_homes
from pytest_dshmem.experiment.engine import RunHalted
from pytest_dshmem.harness.runtime import Deadlines

pytestmark = pytest.mark.runtime

PLAIN = formation_key("memory")
QUESTIONS = ("q1", "q2", "q3")


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(studious) as model:
        yield model


@pytest.fixture
def experiment(tmp_path: Path, model: ScriptedModel) -> TinyExperiment:
    return TinyExperiment.at(tmp_path, model.url)


def question_in(request: Request) -> str | None:
    """The id of the question that a request asks; None for a request of formation."""
    texts = {"Which tree": "q1", "What did Jonas": "q2", "When did Jonas": "q3"}
    return next((name for text, name in texts.items() if f"Question: {text}" in request.user_text), None)


def recorded(experiment: TinyExperiment, question_id: str) -> list[str]:
    entries = experiment.run.hypotheses.read()
    return [entry.state for entry in entries if entry.key.question_id == question_id]


def test_all_conditions_at_once_each_see_what_they_may(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    answers = experiment.ask("baseline", "memory", "oracle", "full-history")

    assert {entry.state for entry in answers.values()} == {"answered"}
    assert len(answers) == 12
    digest = experiment.former().snapshot(PLAIN).digest
    for (condition, _), entry in answers.items():
        assert entry.snapshot == (digest if condition == "memory" else None)
    for request in model.requests:
        if question_in(request) is not None:
            assert request.tools == (["read"] if "<workspace_memory" in request.user_text else [])
            assert request.body["output_config"]["effort"] == "high"

    asked = [request.user_text for request in model.requests if question_in(request) == "q2"]
    first, second = (sitting.turns[1].text for sitting in SITTINGS)
    seen = sorted((first in text, second in text, "<workspace_memory" in text) for text in asked)
    assert seen == [
        (False, False, False),  # baseline: nothing
        (False, False, True),  # memory: what the memory says, not a sentence of the history
        (False, True, False),  # oracle: the evidence session
        (True, True, False),  # full-history: all of it
    ]
    assert all(KEPT[1] not in text for text in asked), "details are opened, not shown"
    assert runtimes_under(experiment.folder) == []
    assert {request.headers["x-api-key"] for request in model.requests} == {API_KEY}
    assert files_holding(API_KEY, experiment.folder) == []


def test_a_memory_that_changes_under_a_question_is_contaminated_and_asked_again_in_a_clean_home(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    poisoned: list[Path] = []

    def poison(request: Request) -> Reply:
        if question_in(request) == "q2" and not poisoned:
            (home,) = experiment.sandbox.root.glob("*/questions-*/dsh-home/memory")
            poisoned.append(next(home.rglob("sitting-1.md")))
            poisoned[0].write_text("Mira planted a cactus.", "utf-8")
        return studious(request)

    model.handler = poison

    answers = experiment.ask("memory", concurrency=1)

    assert {entry.state for entry in answers.values()} == {"answered"}
    assert recorded(experiment, "q2") == ["contaminated", "answered"]
    assert recorded(experiment, "q3") == ["answered"]
    contaminated = next(entry for entry in experiment.run.hypotheses.read() if entry.state == "contaminated")
    assert contaminated.reason == "the memory was changed while the question was being asked"
    assert "cactus" not in str(memory_of_snapshot(experiment, PLAIN))
    assert not poisoned[0].exists(), "the home is gone with all that was in it"


def test_a_memory_tool_at_a_question_is_refused_and_changes_nothing(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    edit = {"scope": "global", "mode": "append", "content": "A note made at the wrong time."}

    def writes(request: Request) -> Reply:
        if question_in(request) is None:
            return studious(request)
        if request.tool_results:
            return Reply(text=request.tool_results[-1])
        return Reply(tool_uses=(ToolUse("memory_update", edit),))

    model.handler = writes

    answers = experiment.ask("memory")

    assert {entry.state for entry in answers.values()} == {"answered"}
    assert all("memory_update" in entry.hypothesis for entry in answers.values())
    assert len(list(experiment.run.hypotheses.read())) == 3, "none was contaminated"


def test_files_that_the_agent_opens_are_recorded_by_their_place_in_the_memory(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    def opens(request: Request) -> Reply:
        if question_in(request) is None:
            return studious(request)
        if request.tool_results:
            return Reply(text=KEPT[1] if KEPT[1] in request.tool_results[-1] else "It could not be read.")
        folder = request.user_text.split('dir="', 1)[1].split('"', 1)[0]
        return Reply(tool_uses=(ToolUse("read", {"file_path": f"{folder}/sitting-1.md"}),))

    model.handler = opens

    answers = experiment.ask("memory")

    for entry in answers.values():
        assert entry.hypothesis == KEPT[1]
        (opened,) = entry.opened
        assert opened.startswith("memory/workspaces/")
        assert opened.endswith("/sitting-1.md")
        assert len(entry.calls) == 2
        assert entry.tool_seconds > 0


def test_a_runtime_that_is_killed_costs_no_question(experiment: TinyExperiment, model: ScriptedModel) -> None:
    under_way = threading.Barrier(4)
    struck = threading.Event()

    def slow(request: Request) -> Reply:
        if question_in(request) is not None and not struck.is_set():
            under_way.wait(timeout=60.0)
            time.sleep(1.0)
        return studious(request)

    model.handler = slow

    def strike() -> None:
        under_way.wait(timeout=60.0)
        struck.set()
        for pid in runtimes_under(experiment.sandbox.root):
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=strike)
    killer.start()
    answers = experiment.ask("memory", concurrency=3)
    killer.join()

    assert {entry.state for entry in answers.values()} == {"answered"}
    for question_id in QUESTIONS:
        assert recorded(experiment, question_id) == ["answered"], "lost under it, asked again, recorded once"
    abandoned = [call for entry in answers.values() for call in entry.calls if call.finish == "abandoned"]
    assert len(abandoned) == 3, "what the lost attempts had cost is recorded too"


def test_a_runtime_that_hangs_times_its_question_out_and_spares_the_neighbours(
    experiment: TinyExperiment, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question_homes, "Deadlines", functools.partial(Deadlines, grace=0.5))
    stopped = threading.Event()

    def stops(request: Request) -> Reply:
        if question_in(request) is None or stopped.is_set():
            return studious(request)
        if question_in(request) != "q1":
            stopped.wait(timeout=60.0)
            time.sleep(6.0)
            return studious(request)
        time.sleep(2.0)
        stopped.set()
        for pid in runtimes_under(experiment.sandbox.root):
            os.kill(pid, signal.SIGSTOP)
        return studious(request)

    model.handler = stops
    short = experiment.with_limits(question_seconds=4.0, attempts=2)

    answers = short.ask("memory", concurrency=3)

    assert {entry.state for entry in answers.values()} == {"answered"}
    states = [state for question_id in QUESTIONS for state in recorded(experiment, question_id)]
    assert states.count("answered") == 3
    assert set(states) == {"answered", "timeout"}
    timed_out = next(entry for entry in experiment.run.hypotheses.read() if entry.state == "timeout")
    assert timed_out.reason == "no end after 4 s; the runtime was killed"
    assert runtimes_under(experiment.folder) == []


def test_an_empty_answer_is_a_state_of_its_own_and_is_not_asked_again(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    model.handler = lambda _request: Reply(text="  \n ")

    answers = experiment.ask("baseline")

    assert {entry.state for entry in answers.values()} == {"empty"}
    assert len(model.requests) == 3


def test_what_fails_every_time_ends_in_its_state_after_the_attempts_that_it_may_have(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    def fails(request: Request) -> Reply:
        replies = {
            "q1": Reply(status=400, error="the request is odd"),
            "q2": Reply(text="It is a", stop_reason="max_tokens"),
            "q3": Reply(
                status=400, error="prompt is too long for the model's context window: 9 tokens > 3 maximum"
            ),
        }
        return replies[str(question_in(request))]

    model.handler = fails

    answers = experiment.ask("baseline")

    assert [recorded(experiment, question_id) for question_id in QUESTIONS] == [
        ["error", "error"],
        ["max-tokens"],
        ["context-overflow"],
    ]
    assert answers["baseline", "q1"].reason == "INVALID_REQUEST: the request is odd"
    assert not any(entry.answered for entry in answers.values())


def test_a_wrong_key_halts_the_run_at_once_with_the_reason(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    model.handler = lambda _request: Reply(status=401, error="this key is not known")
    items = experiment.items("baseline")
    engine = experiment.engine(items, concurrency=1)
    try:
        assert engine.hypothesis(items[0].question).state == "error"
        with pytest.raises(RunHalted, match="q1: AUTH: this key is not known"):
            engine.hypothesis(items[1].question)
    finally:
        engine.finish()
    assert len(model.requests) == 1


def test_a_history_that_cannot_fit_is_found_without_a_call(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    answers = experiment.with_limits(context_window=10).ask("full-history")

    assert {entry.state for entry in answers.values()} == {"context-overflow"}
    assert "the model takes 10" in str(answers["full-history", "q1"].reason)
    assert model.requests == []


def test_a_second_run_asks_nothing_and_a_snapshot_that_was_changed_by_hand_is_refused(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    first = experiment.ask("memory")
    before = len(model.requests)

    assert experiment.ask("memory") == first
    assert len(model.requests) == before

    files = experiment.run.snapshot_folder(PLAIN) / "files"
    next(files.rglob("sitting-1.md")).write_text("Mira planted a cactus.", "utf-8")
    experiment.run.hypotheses.path.unlink()
    items = experiment.items("memory")
    engine = experiment.engine(items)
    try:
        with pytest.raises(RunHalted, match=r"the snapshot .* was changed: memory/.*sitting-1\.md"):
            engine.hypothesis(items[0].question)
    finally:
        engine.finish()
    assert len(model.requests) == before


def test_a_system_that_writes_during_questions_gets_a_home_for_each(
    tmp_path: Path, model: ScriptedModel
) -> None:
    system = bundled_system("reference").model_copy(update={"writes_during_qa": True})
    experiment = TinyExperiment.at(tmp_path, model.url, system=system)
    homes: list[str] = []

    def look(request: Request) -> Reply:
        if question_in(request) is not None:
            homes.append(request.user_text.split('dir="', 1)[1].split("/dsh-home/", 1)[0])
        return studious(request)

    model.handler = look

    answers = experiment.ask("memory", concurrency=1)

    assert {entry.state for entry in answers.values()} == {"answered"}
    assert len(set(homes)) == 3
