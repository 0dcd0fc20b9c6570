"""Replay: a past session stands in the session store as it was, for whoever reads it afterwards."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from capturing_memory import capturing_memory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_home import MemoryHome, bundled_system, commit, in_turn, memory_home

from pytest_dshmem.harness.consolidation import Consolidator
from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.harness.replay import (
    PastSession,
    PastTurn,
    ReplayError,
    Role,
    replay,
    require_same,
    stored_session,
)

MAY_8 = 1_683_554_160_000
MINUTE = 60_000
SECONDS = 60.0
NUMBERS = itertools.count(1)


def past(*said: tuple[Role, str], session_id: str = "") -> PastSession:
    """A session of 8 May 2023, a turn a minute."""
    turns = (PastTurn(role, text, MAY_8 + place * MINUTE) for place, (role, text) in enumerate(said))
    return PastSession(session_id or f"past-{next(NUMBERS)}", MAY_8, tuple(turns))


TEA = (("user", "I drink green tea now."), ("assistant", "Noted: green tea."))
TEA_NOTE = {
    "scope": "workspace",
    "name": "tea",
    "description": "What is drunk",
    "content": "Green tea.",
    "mode": "append",
}


def test_a_session_is_the_same_as_itself() -> None:
    session = past(*TEA)
    require_same(session, replace(session), "anywhere")


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (replace(past(*TEA, session_id="s"), created_at=MAY_8 + 1), "another date"),
        (past(TEA[0], session_id="s"), "1 turns instead of 2"),
        (past(TEA[0], ("assistant", "Noted: green tea"), session_id="s"), "another turn 2"),
        (past(TEA[0], ("user", TEA[1][1]), session_id="s"), "another turn 2"),
        (past(TEA[1], TEA[0], session_id="s"), "another turn 1"),
        (past(*TEA, session_id="t"), "another id"),
    ],
)
def test_every_difference_is_named(other: PastSession, difference: str) -> None:
    with pytest.raises(ReplayError, match=f"it has {difference} on disk"):
        require_same(past(*TEA, session_id="s"), other, "on disk")


def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="0 logs of the replayed session"):
        stored_session(tmp_path, "s")


@pytest.mark.parametrize("text", ["", "{\n", "[]\n", '{"id": "s"}\n', '{"id": "s", "createdAt": 1}\n{}\n'])
def test_a_log_that_cannot_be_read_is_an_error(tmp_path: Path, text: str) -> None:
    log = tmp_path / "sessions" / "place" / "s" / "session.v4.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(text)
    with pytest.raises(ReplayError, match="log of the replayed session cannot be read"):
        stored_session(tmp_path, "s")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryHome]:
    with memory_home(tmp_path_factory.mktemp("replay"), bundled_system("reference")) as started:
        yield started


@pytest.mark.runtime
@pytest.mark.parametrize(
    "said",
    [
        pytest.param(TEA, id="a user and an assistant"),
        pytest.param((), id="nothing"),
        pytest.param((("assistant", "Good morning."), *TEA), id="opened by the assistant"),
        pytest.param((*TEA, ("user", "Thanks.")), id="ended by the user"),
        pytest.param(
            (("user", "One"), ("user", "Two"), ("assistant", "Three"), ("assistant", "Four")),
            id="the same role twice",
        ),
        pytest.param((("user", ""), ("assistant", ""), ("user", " \n ")), id="blank"),
        pytest.param((("user", "{{x}} \u2028 \x00 👩‍👩‍👧 \ufeff"), ("assistant", "a\r\nb")), id="odd text"),
        pytest.param((("user", "half a pair: \ud83d"), ("assistant", "\udc4d")), id="lone surrogates"),
        pytest.param((("user", "long " * 40_000), ("assistant", "I see.")), id="200 kB"),
    ],
)
def test_every_turn_is_kept_exactly_and_no_model_is_asked(
    home: MemoryHome, said: tuple[tuple[Role, str], ...]
) -> None:
    session = past(*said)
    replay(home.runtime, session, SECONDS)
    assert stored_session(home.dsh_home, session.id) == session
    assert not [request for request in home.model.requests if request.session_id == session.id]


@pytest.mark.runtime
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=40)), max_size=12))
def test_any_session_reads_back_as_it_was_put_in(home: MemoryHome, said: list[tuple[Role, str]]) -> None:
    session = past(*said)
    replay(home.runtime, session, SECONDS)
    assert stored_session(home.dsh_home, session.id) == session


@pytest.mark.runtime
def test_a_session_is_replayed_once(home: MemoryHome) -> None:
    session = past(*TEA)
    replay(home.runtime, session, SECONDS)
    with pytest.raises(HarnessError, match="already exists"):
        replay(home.runtime, session, SECONDS)


@pytest.mark.runtime
def test_a_log_holds_whole_turns_and_nothing_of_today(home: MemoryHome) -> None:
    session = past(("user", "One"), ("assistant", "Two"), ("assistant", "Three"), ("user", "Four"))
    replay(home.runtime, session, SECONDS)
    (log,) = home.dsh_home.glob(f"sessions/*/{session.id}/*.jsonl")
    header, *events = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    assert header["createdAt"] == MAY_8
    assert [event["type"] for event in events] == [
        *("turn/start", "step/start", "user/message", "assistant/message", "step/end"),
        *("step/start", "assistant/message", "step/end", "turn/end"),
        *("turn/start", "step/start", "user/message", "step/end", "turn/end"),
        "session/end-seed",
    ]
    assert {event["time"] for event in events} == {turn.time for turn in session.turns}


@pytest.mark.runtime
def test_a_consolidator_finds_the_session_with_its_date(home: MemoryHome) -> None:
    session = past(*TEA)
    replay(home.runtime, session, SECONDS)
    home.model.handler = in_turn(commit(TEA_NOTE))
    with Consolidator(home.system, home.runtime) as consolidator:
        receipt = consolidator.consolidate(session.id)
    assert receipt.state == "committed", receipt.reason
    task = home.last_request.user_text
    assert '<finished_session recorded_on="2023-05-08">' in task
    assert task.index("I drink green tea now.") < task.index("Noted: green tea.")


@pytest.mark.runtime
def test_another_process_finds_the_session(tmp_path: Path) -> None:
    session = past(*TEA)
    with memory_home(tmp_path, bundled_system("reference-web")) as home:
        replay(home.runtime, session, SECONDS)
        home.model.handler = in_turn(commit(TEA_NOTE))
        with Consolidator(home.system, home.runtime) as consolidator:
            receipt = consolidator.consolidate(session.id)
        assert receipt.state == "committed", receipt.reason
        assert "I drink green tea now." in home.last_request.user_text


@pytest.mark.runtime
def test_a_system_sees_the_session_open_and_close_but_no_turn(tmp_path: Path) -> None:
    with memory_home(tmp_path, capturing_memory(tmp_path / "system")) as home:
        replay(home.runtime, past(*TEA), SECONDS)
        heard = home.files()["heard.txt"].decode().splitlines()
        assert heard == ["session/created", "agent/created", "agent/disposed", "session/disposed"]
        assert home.files()["captured.md"].decode().splitlines() == [text for _role, text in TEA]
        assert home.model.requests == []
