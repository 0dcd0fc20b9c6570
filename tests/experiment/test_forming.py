"""Formation on the real runtime: it goes on from any step, costs its calls once, ends in a named state."""

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from guarded_runtime import files_holding, runtimes_under
from scripted_model import Reply, Request, ScriptedModel, ToolUse
from tiny_experiment import (
    API_KEY,
    KEPT,
    SAMPLE,
    TinyExperiment,
    formation_key,
    memory_of_snapshot,
    session_in,
    studious,
)

from pytest_dshmem.experiment.formation import FormationFailed, FormationStopped
from pytest_dshmem.experiment.pressure import PressureGate
from pytest_dshmem.experiment.salvage import INTERRUPTED
from pytest_dshmem.harness.checkpoint import Checkpoints
from pytest_dshmem.record.entries import Call, Formation
from pytest_dshmem.record.journal import Journal

pytestmark = pytest.mark.runtime

KEY = formation_key("memory-consolidate")
PLAIN = formation_key("memory")
STEPS = [("ingestion", 1), ("consolidation", 1), ("ingestion", 2), ("consolidation", 2)]


class Crash(BaseException):
    """The process dies here."""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(studious) as model:
        yield model


@pytest.fixture
def experiment(tmp_path: Path, model: ScriptedModel) -> TinyExperiment:
    return TinyExperiment.at(tmp_path, model.url)


class Crowd:
    """A model that notes how many of its answers were under way at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = 0
        self.most = 0

    def __call__(self, request: Request) -> Reply:
        with self._lock:
            self._under_way += 1
            self.most = max(self.most, self._under_way)
        time.sleep(0.05)
        try:
            return studious(request)
        finally:
            with self._lock:
                self._under_way -= 1


def test_formations_keep_to_what_the_endpoint_bears(experiment: TinyExperiment, model: ScriptedModel) -> None:
    model.handler = crowd = Crowd()
    former = experiment.former(gate=PressureGate(1))

    with ThreadPoolExecutor(2) as threads:
        formations = list(threads.map(former.form, [PLAIN, KEY]))

    assert [formation.state for formation in formations] == ["frozen", "frozen"]
    assert crowd.most == 1


@dataclass(frozen=True)
class Undisturbed:
    """A formation that nothing disturbs: what the model was asked, and the memory that came of it."""

    experiment: TinyExperiment
    formation: Formation
    requests: list[Request]

    @property
    def memory(self) -> dict[str, str]:
        return memory_of_snapshot(self.experiment, KEY)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    with ScriptedModel(studious) as model:
        experiment = TinyExperiment.at(tmp_path_factory.mktemp("undisturbed"), model.url)
        return Undisturbed(experiment, experiment.former().form(KEY), model.requests)


def recorded_steps(experiment: TinyExperiment) -> list[tuple[str, int]]:
    entries = [("ingestion", entry) for entry in experiment.run.ingestions.read()]
    entries += [("consolidation", entry) for entry in experiment.run.consolidations.read()]
    return [(kind, entry.session) for kind, entry in sorted(entries, key=lambda pair: pair[1].started_at)]


def recorded_calls(experiment: TinyExperiment) -> int:
    entries = [*experiment.run.ingestions.read(), *experiment.run.consolidations.read()]
    return sum(len(entry.calls) for entry in entries)


def test_every_session_is_ingested_then_consolidated_and_the_memory_is_frozen(
    undisturbed: Undisturbed,
) -> None:
    experiment, formation = undisturbed.experiment, undisturbed.formation

    assert (formation.state, formation.reason) == ("frozen", None)
    assert recorded_steps(experiment) == STEPS
    assert {entry.state for entry in experiment.run.consolidations.read()} == {"committed"}
    assert recorded_calls(experiment) == len(undisturbed.requests) == 6
    assert KEPT[1] in undisturbed.memory["sitting-1.md"]
    assert KEPT[2] in undisturbed.memory["sitting-2.md"]
    assert undisturbed.memory["GLOBAL.md"].count("Kept: ") == 2
    assert formation.digest == experiment.former().snapshot(KEY).digest
    assert not experiment.run.checkpoint_folder(KEY).exists(), "what only a formation under way needs is gone"


def test_each_phase_is_offered_its_own_tools_and_effort(undisturbed: Undisturbed) -> None:
    offered = Counter(tuple(sorted(request.tools)) for request in undisturbed.requests)
    assert offered == {("memory_update", "read"): 4, ("memory_commit",): 2}
    ingesting = [request for request in undisturbed.requests if "memory_update" in request.tools]
    assert {request.body["output_config"]["effort"] for request in ingesting} == {"low"}


def test_no_request_names_the_sample_or_the_folder_of_the_run(undisturbed: Undisturbed) -> None:
    for request in undisturbed.requests:
        everything = str(request.body) + str(request.headers)
        assert SAMPLE not in everything
        assert KEY.condition not in everything
        assert str(undisturbed.experiment.run.path) not in everything


def test_a_formation_that_is_stopped_after_every_step_makes_the_same_calls_and_the_same_memory(
    experiment: TinyExperiment, model: ScriptedModel, undisturbed: Undisturbed
) -> None:
    for done in range(1, len(STEPS)):
        stop = threading.Event()

        def stop_now(_calls: Sequence[Call], stop: threading.Event = stop) -> None:
            stop.set()

        with pytest.raises(FormationStopped):
            experiment.former(stop).form(KEY, stop_now)
        assert recorded_steps(experiment) == STEPS[:done]
        assert files_holding(API_KEY, experiment.folder) == [], "neither in a home nor in a checkpoint"

    assert experiment.former().form(KEY).state == "frozen"

    assert recorded_steps(experiment) == STEPS
    assert len(model.requests) == recorded_calls(experiment) == len(undisturbed.requests)
    assert memory_of_snapshot(experiment, KEY) == undisturbed.memory


def test_a_crash_before_a_checkpoint_costs_the_step_in_flight_and_nothing_else(
    experiment: TinyExperiment,
    model: ScriptedModel,
    undisturbed: Undisturbed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = 3
    save, saved = Checkpoints.save, iter(range(100))

    def crash(self: Checkpoints, *arguments: Any) -> None:
        if next(saved) == step + 1:
            raise Crash
        save(self, *arguments)

    monkeypatch.setattr(Checkpoints, "save", crash)
    with pytest.raises(Crash):
        experiment.former().form(KEY)
    monkeypatch.undo()
    assert recorded_steps(experiment) == STEPS[:step]

    assert experiment.former().form(KEY).state == "frozen"

    assert recorded_steps(experiment) == [*STEPS[: step + 1], STEPS[step]]
    interrupted, repeated = list(experiment.run.consolidations.read())[1:]
    assert (interrupted.state, repeated.state) == ("failed", "committed")
    assert interrupted.reason == INTERRUPTED
    assert recorded_calls(experiment) == len(model.requests) == len(undisturbed.requests) + 1
    assert memory_of_snapshot(experiment, KEY) == undisturbed.memory, "nothing is kept twice"


def test_a_crash_between_checkpoint_and_record_loses_nothing_and_doubles_nothing(
    experiment: TinyExperiment,
    model: ScriptedModel,
    undisturbed: Undisturbed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append = Journal.append

    def crash(self: Journal[Any], entry: Any) -> None:
        if self.path.name == "consolidation.jsonl":
            raise Crash
        append(self, entry)

    monkeypatch.setattr(Journal, "append", crash)
    with pytest.raises(Crash):
        experiment.former().form(KEY)
    monkeypatch.undo()
    assert recorded_steps(experiment) == STEPS[:1]

    assert experiment.former().form(KEY).state == "frozen"

    assert recorded_steps(experiment) == STEPS
    assert len(model.requests) == recorded_calls(experiment) == len(undisturbed.requests)
    assert memory_of_snapshot(experiment, KEY) == undisturbed.memory


def test_a_memory_that_stays_empty_ends_the_sample(experiment: TinyExperiment, model: ScriptedModel) -> None:
    model.handler = lambda _request: Reply(text="Nothing worth keeping.")

    formation = experiment.former().form(PLAIN)

    assert (formation.state, formation.digest) == ("failed", None)
    assert formation.reason == "the memory is empty after ingestion: nothing was written to it"
    assert not experiment.run.snapshot_folder(PLAIN).exists()


def test_a_step_that_fails_is_tried_again_from_the_state_before_it(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    seen = iter(range(100))

    def dies_after_writing(request: Request) -> Reply:
        if request.tool_results and next(seen) == 0:
            return Reply(status=400, error="the request is odd")
        return studious(request)

    model.handler = dies_after_writing

    formation = experiment.former().form(PLAIN)

    assert formation.state == "frozen"
    states = [(entry.session, entry.attempt, entry.state) for entry in experiment.run.ingestions.read()]
    assert states == [(1, 1, "error"), (1, 2, "ingested"), (2, 1, "ingested")]
    assert memory_of_snapshot(experiment, PLAIN)["sitting-1.md"].count(KEPT[1]) == 1
    assert recorded_calls(experiment) == len(model.requests)


def test_an_ingestion_that_takes_too_long_or_loses_its_runtime_is_tried_again(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    seen = iter(range(100))

    def troubled(request: Request) -> Reply:
        number = next(seen)
        if number == 0:
            return Reply(text="Too late.", delay=6.0)
        if number == 4:
            (process,) = runtimes_under(experiment.sandbox.root)
            os.kill(process, signal.SIGKILL)
        return studious(request)

    model.handler = troubled

    formation = experiment.with_limits(ingest_seconds=3.0).former().form(PLAIN)

    assert formation.state == "frozen"
    timed_out, first, lost, second = experiment.run.ingestions.read()
    assert (timed_out.session, timed_out.state, timed_out.reason) == (1, "timeout", "no end within 3 s")
    assert (first.session, first.attempt, first.state) == (1, 2, "ingested")
    assert (lost.session, lost.state) == (2, "error")
    assert str(lost.reason).startswith("the runtime was lost: ")
    assert (second.session, second.attempt, second.state) == (2, 2, "ingested")
    assert recorded_calls(experiment) == len(model.requests)
    assert memory_of_snapshot(experiment, PLAIN)["sitting-2.md"].count(KEPT[2]) == 1


def test_a_step_that_fails_every_time_ends_the_sample_with_the_reason(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    def fails_on_the_second(request: Request) -> Reply:
        if "memory_update" in request.tools and session_in(request) == 2:
            return Reply(status=400, error="the request is odd")
        return studious(request)

    model.handler = fails_on_the_second

    formation = experiment.former().form(PLAIN)

    assert formation.state == "failed"
    assert formation.reason == "session 2: ingest ended as error: INVALID_REQUEST: the request is odd"
    assert len(list(experiment.run.ingestions.read())) == 3
    before = len(model.requests)
    model.handler = studious
    assert experiment.former().form(PLAIN).state == "frozen", "the next run tries that session again"
    assert len(model.requests) - before == 2, "and that one only"


def test_a_wrong_key_is_fatal_and_is_not_in_the_record(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    model.handler = lambda _request: Reply(status=401, error=f"{API_KEY} is not a key")

    with pytest.raises(FormationFailed, match=r"session 1: AUTH: \*\*\* is not a key") as failed:
        experiment.former().form(PLAIN)

    assert failed.value.fatal
    assert len(model.requests) == 1
    (formation,) = experiment.run.formations.read()
    assert formation.state == "failed"
    written = "".join(file.read_text("utf-8") for file in experiment.run.path.glob("*.json*"))
    assert "AUTH" in written
    assert API_KEY not in written


def test_a_failed_consolidation_ends_the_sample_and_is_all_that_the_next_run_repeats(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    refusal = Reply(status=400, error="the request is odd")
    model.handler = lambda asked: refusal if "memory_commit" in asked.tools else studious(asked)

    formation = experiment.former().form(KEY)

    assert formation.state == "failed"
    assert str(formation.reason).startswith("session 1: consolidate ended as failed: ")
    assert recorded_steps(experiment) == STEPS[:2]
    before = len(model.requests)
    model.handler = studious

    assert experiment.former().form(KEY).state == "frozen"

    states = [(entry.session, entry.state) for entry in experiment.run.consolidations.read()]
    assert states == [(1, "failed"), (1, "committed"), (2, "committed")]
    assert [entry.session for entry in experiment.run.ingestions.read()] == [1, 2]
    assert len(model.requests) - before == 4
    assert recorded_calls(experiment) == len(model.requests)


def test_a_truncated_consolidation_is_recorded_with_its_cost_and_ignored_and_no_change_is_a_success(
    experiment: TinyExperiment, model: ScriptedModel
) -> None:
    replies = iter(
        (
            Reply(text="I would like to", stop_reason="max_tokens"),
            Reply(tool_uses=(ToolUse("memory_commit", {"edits": []}),)),
        )
    )
    model.handler = lambda asked: next(replies) if "memory_commit" in asked.tools else studious(asked)

    formation = experiment.former().form(KEY)

    assert formation.state == "frozen"
    truncated, unchanged = experiment.run.consolidations.read()
    assert (truncated.state, unchanged.state) == ("truncated", "no-change")
    assert truncated.reason
    assert truncated.seconds > 0
    assert truncated.calls[0].usage is not None
    assert "GLOBAL.md" not in memory_of_snapshot(experiment, KEY)
