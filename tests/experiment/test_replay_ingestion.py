"""Ingestion by replay: sessions reach the memory system as finished sessions, and no model reads them."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from capturing_memory import capturing_memory
from memory_home import API_KEY, MODEL, bundled_system
from scripted_model import Reply, Request, ScriptedModel, ToolUse

from pytest_dshmem.datasets.views import History, Session, Setting, Turn
from pytest_dshmem.experiment.condition import CONDITIONS, Condition
from pytest_dshmem.experiment.formation import FormationMeans, FormationStopped, Former
from pytest_dshmem.experiment.freezing import open_snapshot
from pytest_dshmem.experiment.ingestion import past_session, session_id_of, why_not_replay
from pytest_dshmem.experiment.pressure import PressureGate
from pytest_dshmem.experiment.runtime_pool import LiveRuntimes
from pytest_dshmem.experiment.settings import Settings
from pytest_dshmem.harness.endpoint import Endpoint
from pytest_dshmem.harness.memory_system import MemorySystem
from pytest_dshmem.harness.replay import PastSession, PastTurn
from pytest_dshmem.harness.sandbox import Sandbox
from pytest_dshmem.record.entries import FormationKey
from pytest_dshmem.record.run_directory import RunDirectory

MEMORY, CONSOLIDATED = CONDITIONS["memory"], CONDITIONS["memory-consolidate"]
HISTORY = History(
    sample_id="q-1",
    setting="assistant-chat",
    participants=("user", "assistant"),
    sessions=tuple(
        Session(
            number=number,
            date=datetime(2023, 5, number, 23, 59),
            date_text=f"2023/05/0{number} (Mon) 23:59",
            turns=(Turn("user", f"My plant number {number} is a fern."), Turn("assistant", "")),
        )
        for number in (1, 2, 3)
    ),
)


def test_a_session_keeps_its_date_and_its_turns_stand_a_minute_apart() -> None:
    key = FormationKey(sample_id="q-1", condition="memory-consolidate")
    midnight = 1_683_072_000_000
    assert past_session(key, HISTORY.sessions[1]) == PastSession(
        id=session_id_of(key, 2),
        created_at=midnight - 60_000,
        turns=(
            PastTurn("user", "My plant number 2 is a fern.", midnight - 60_000),
            PastTurn("assistant", "", midnight),
        ),
    )


def test_an_empty_session_is_a_session() -> None:
    key = FormationKey(sample_id="q-1", condition="memory-consolidate")
    assert past_session(key, replace(HISTORY.sessions[0], turns=())).turns == ()


@pytest.mark.parametrize(
    ("conditions", "setting", "captures", "reason"),
    [
        ((CONSOLIDATED,), "assistant-chat", False, None),
        ((MEMORY,), "assistant-chat", True, None),
        ((MEMORY,), "assistant-chat", False, "--mode memory would form nothing"),
        ((CONSOLIDATED, MEMORY), "assistant-chat", False, "--mode memory would form nothing"),
        ((CONSOLIDATED,), "group-chat", True, "two people has no user and no assistant"),
        ((CONDITIONS["baseline"], CONDITIONS["oracle"]), "group-chat", False, None),
    ],
)
def test_what_replay_cannot_do_is_said_beforehand(
    conditions: tuple[Condition, ...], setting: Setting, captures: bool, reason: str | None
) -> None:
    system = bundled_system("reference").model_copy(update={"captures_replay": captures})
    found = why_not_replay(system, conditions, setting)
    assert (found is None) if reason is None else (found is not None and reason in found)


def consolidate(request: Request) -> Reply:
    """A worker that keeps each session in a file of its own."""
    number = request.user_text.partition("My plant number ")[2][:1]
    edit = {
        "scope": "workspace",
        "name": f"plant-{number}",
        "description": "A plant",
        "content": f"Plant {number} is a fern.",
        "mode": "append",
    }
    return Reply(tool_uses=(ToolUse("memory_commit", {"edits": [edit]}),))


class Laboratory:
    """One run on a scripted model, formed as often as one likes."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.run = RunDirectory.create(folder / "run", {}, {})
        self.model = model
        self._sandbox = Sandbox(folder / "sandbox")

    def former(self, system: MemorySystem, stop: threading.Event | None = None) -> Former:
        endpoint = Endpoint(api_key=API_KEY, base_url=self.model.url)
        settings = Settings(endpoint=endpoint, model=MODEL, system=system, ingestion="replay")
        means = FormationMeans(
            self.run, self._sandbox, settings, stop or threading.Event(), LiveRuntimes(), PressureGate(1)
        )
        return Former(means, lambda _sample: HISTORY)

    def memory(self, key: FormationKey) -> str:
        snapshot = open_snapshot(self.run.snapshot_folder(key))
        files = (snapshot.folder / "files" / file.root / file.path for file in snapshot.manifest.files)
        return "\n".join(file.read_text("utf-8") for file in files)


@pytest.fixture
def laboratory(tmp_path: Path) -> Iterator[Laboratory]:
    with ScriptedModel(consolidate) as model:
        yield Laboratory(tmp_path, model)


@pytest.mark.runtime
def test_the_consolidator_forms_the_memory_from_sessions_that_no_model_has_read(
    laboratory: Laboratory,
) -> None:
    key = FormationKey(sample_id="q-1", condition="memory-consolidate")
    formation = laboratory.former(bundled_system("reference")).form(key)
    assert formation.state == "frozen", formation.reason
    assert all(f"Plant {number} is a fern." in laboratory.memory(key) for number in (1, 2, 3))

    ingestions = laboratory.run.ingestions.read().entries
    assert [(one.session, one.state, one.calls) for one in ingestions] == [
        (number, "ingested", ()) for number in (1, 2, 3)
    ]
    consolidations = laboratory.run.consolidations.read().entries
    assert [one.state for one in consolidations] == ["committed"] * 3
    assert sum(len(one.calls) for one in consolidations) == len(laboratory.model.requests) == 3
    assert all(request.tools == ["memory_commit"] for request in laboratory.model.requests)


@pytest.mark.runtime
def test_an_interrupted_formation_goes_on_where_it_was(laboratory: Laboratory) -> None:
    key = FormationKey(sample_id="q-1", condition="memory-consolidate")
    stop = threading.Event()

    def stop_after_the_second(request: Request) -> Reply:
        if len(laboratory.model.requests) == 2:
            stop.set()
        return consolidate(request)

    laboratory.model.handler = stop_after_the_second
    with pytest.raises(FormationStopped):
        laboratory.former(bundled_system("reference"), stop).form(key)
    assert [one.session for one in laboratory.run.ingestions.read().entries] == [1, 2]

    formation = laboratory.former(bundled_system("reference")).form(key)
    assert formation.state == "frozen", formation.reason
    assert [one.session for one in laboratory.run.ingestions.read().entries] == [1, 2, 3]
    assert [one.session for one in laboratory.run.consolidations.read().entries] == [1, 2, 3]
    assert laboratory.memory(key).count("is a fern.") == 3


@pytest.mark.runtime
def test_a_system_that_captures_on_its_own_needs_no_consolidator(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    key = FormationKey(sample_id="q-1", condition="memory")
    formation = laboratory.former(capturing_memory(tmp_path / "system")).form(key)
    assert formation.state == "frozen", formation.reason
    assert all(f"My plant number {number} is a fern." in laboratory.memory(key) for number in (1, 2, 3))
    assert laboratory.model.requests == []


@pytest.mark.runtime
def test_a_memory_that_nothing_wrote_to_is_a_failure_before_any_question(laboratory: Laboratory) -> None:
    key = FormationKey(sample_id="q-1", condition="memory")
    formation = laboratory.former(bundled_system("reference")).form(key)
    assert (formation.state, formation.reason) == (
        "failed",
        "the memory is empty after ingestion: nothing was written to it",
    )
