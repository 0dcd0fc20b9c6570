"""Ingestion: one session of a history brought to the memory system, by reading it or by replaying it."""

import hashlib
import time
from collections.abc import Iterable
from datetime import UTC, timedelta

from pytest_dshmem.datasets.views import History, Session, Setting
from pytest_dshmem.experiment.condition import Condition
from pytest_dshmem.experiment.outcome import Outcome, outcome_of
from pytest_dshmem.experiment.prompting import ingestion_prompt
from pytest_dshmem.experiment.settings import Settings
from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.harness.memory_system import MemorySystem
from pytest_dshmem.harness.replay import PastSession, PastTurn, Role, replay
from pytest_dshmem.harness.runtime import Runtime, TurnTimeout
from pytest_dshmem.harness.turn import Turn
from pytest_dshmem.record.entries import FormationKey, Ingestion
from pytest_dshmem.record.run_directory import formation_name

BETWEEN_TURNS = timedelta(minutes=1)
ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}


def ingest(
    runtime: Runtime,
    settings: Settings,
    key: FormationKey,
    history: History,
    session: Session,
    attempt: int,
) -> tuple[Ingestion, Outcome]:
    """Brings one session to the memory: the record, and what it tells of the endpoint. Raises RuntimeLost."""
    started_at, clock = time.time(), time.monotonic()
    bring = _replayed if settings.ingestion == "replay" else _read
    try:
        outcome, turn = bring(runtime, settings, key, history, session)
    except TurnTimeout as error:
        outcome, turn = Outcome("timeout", str(error)), None
    entry = Ingestion(
        key=key,
        session=session.number,
        attempt=attempt,
        state="ingested" if outcome.state == "completed" else outcome.state,
        reason=outcome.reason,
        finish_reason=turn.finish_reason if turn else None,
        started_at=started_at,
        seconds=time.monotonic() - clock,
        tool_seconds=turn.tool_seconds if turn else 0.0,
        calls=runtime.calls.take_all(abandoned=outcome.state == "timeout"),
    )
    return entry, outcome


def past_session(key: FormationKey, session: Session) -> PastSession:
    """A session of a chat with an assistant as the harness keeps it: its date, read as UTC, and its turns in
    order, a minute apart."""
    begin = session.date.replace(tzinfo=UTC)
    turns = (
        PastTurn(
            role=ROLES[turn.speaker],
            text=turn.text,
            time=round((begin + place * BETWEEN_TURNS).timestamp() * 1000),
        )
        for place, turn in enumerate(session.turns)
    )
    return PastSession(
        id=session_id_of(key, session.number),
        created_at=round(begin.timestamp() * 1000),
        turns=tuple(turns),
    )


def why_not_replay(system: MemorySystem, conditions: Iterable[Condition], setting: Setting) -> str | None:
    """Why no memory can be formed by replay, in one sentence; None where it can."""
    forming = [condition for condition in conditions if condition.forms_memory]
    if forming and setting != "assistant-chat":
        return (
            "a chat between two people has no user and no assistant, so it cannot be replayed as a session; "
            "use --dshmem-ingestion transcript"
        )
    if all(condition.consolidates for condition in forming) or system.captures_replay:
        return None
    return (
        "--mode memory would form nothing, as replay runs no turn in which the agent could write, and the "
        f"profile of {system.name} does not say captures_replay; use --mode memory-consolidate"
    )


def session_id_of(key: FormationKey, number: int) -> str:
    """The harness's id of an ingested session: it goes over the wire, so it tells nothing."""
    name = f"{formation_name(key)}/{number}"
    return f"s-{hashlib.sha256(name.encode()).hexdigest()[:24]}"


def _read(
    runtime: Runtime, settings: Settings, key: FormationKey, history: History, session: Session
) -> tuple[Outcome, Turn | None]:
    """The agent reads the dated session and may write to its memory."""
    session_id, limits = session_id_of(key, session.number), settings.limits
    with runtime.session(session_id, "ingest"):
        turn = runtime.turn(session_id, ingestion_prompt(history, session), limits.ingest_seconds)
    return outcome_of(turn, limits.ingest_steps, limits.ingest_seconds), turn


def _replayed(
    runtime: Runtime, settings: Settings, key: FormationKey, _history: History, session: Session
) -> tuple[Outcome, Turn | None]:
    """The session is put into the session store as it was; no model is asked."""
    try:
        replay(runtime, past_session(key, session), settings.limits.ingest_seconds)
    except HarnessError as error:
        return Outcome("error", str(error)), None
    return Outcome("completed"), None
