"""Ingestion: one session of a history brought to the memory system, by reading it or by replaying it."""

import hashlib
import time

from pytest_dshmem.datasets.views import History, Session
from pytest_dshmem.experiment.outcome import Outcome, outcome_of
from pytest_dshmem.experiment.prompting import ingestion_prompt
from pytest_dshmem.experiment.settings import Settings
from pytest_dshmem.harness.runtime import Runtime, TurnTimeout
from pytest_dshmem.record.entries import FormationKey, Ingestion
from pytest_dshmem.record.run_directory import formation_name


def ingest(
    runtime: Runtime,
    settings: Settings,
    key: FormationKey,
    history: History,
    session: Session,
    attempt: int,
) -> tuple[Ingestion, Outcome]:
    """Brings one session to the memory: the record, and what it tells of the endpoint. Raises RuntimeLost."""
    return read_transcript(runtime, settings, key, history, session, attempt)


def read_transcript(
    runtime: Runtime,
    settings: Settings,
    key: FormationKey,
    history: History,
    session: Session,
    attempt: int,
) -> tuple[Ingestion, Outcome]:
    """The agent reads the dated session and may write to its memory."""
    session_id = session_id_of(key, session.number)
    limits = settings.limits
    started_at, clock = time.time(), time.monotonic()
    tool_seconds, finish_reason = 0.0, None
    try:
        with runtime.session(session_id, "ingest"):
            turn = runtime.turn(session_id, ingestion_prompt(history, session), limits.ingest_seconds)
        outcome = outcome_of(turn, limits.ingest_steps, limits.ingest_seconds)
        tool_seconds, finish_reason = turn.tool_seconds, turn.finish_reason
    except TurnTimeout as error:
        outcome = Outcome("timeout", str(error))
    entry = Ingestion(
        key=key,
        session=session.number,
        attempt=attempt,
        state="ingested" if outcome.state == "completed" else outcome.state,
        reason=outcome.reason,
        finish_reason=finish_reason,
        started_at=started_at,
        seconds=time.monotonic() - clock,
        tool_seconds=tool_seconds,
        calls=runtime.calls.take_all(abandoned=outcome.state == "timeout"),
    )
    return entry, outcome


def session_id_of(key: FormationKey, number: int) -> str:
    """The harness's id of an ingested session: it goes over the wire, so it tells nothing."""
    name = f"{formation_name(key)}/{number}"
    return f"s-{hashlib.sha256(name.encode()).hexdigest()[:24]}"
