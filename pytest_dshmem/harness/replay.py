"""Past sessions put into a home's session store as they were, without a model call, and read back.

The runtime stores the events of each turn with their own times through its session service, then opens and
closes the session once: `session/created`, `agent/created`, `agent/disposed` and `session/disposed` are
emitted, and a memory system that captures finished sessions then sees all of it. Turns are not run again, so
no `turn/end`, and no other `session/event`, is emitted: a system that only listens to these forms nothing.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.harness.runtime import Runtime

SESSION_LOGS = "sessions/*/{id}/session.v*.jsonl"

Role = Literal["user", "assistant"]


class ReplayError(HarnessError):
    """A session that does not read back as it was put in: where, and what differs, in one sentence."""


@dataclass(frozen=True, slots=True)
class PastTurn:
    """One message of a past session. `time` is in milliseconds since the epoch."""

    role: Role
    text: str
    time: int


@dataclass(frozen=True, slots=True)
class PastSession:
    """A finished session. `created_at` is in milliseconds since the epoch; ids are unique in a home."""

    id: str
    created_at: int
    turns: tuple[PastTurn, ...]


def replay(runtime: Runtime, past: PastSession, seconds: float) -> None:
    """Puts a session into the runtime's store, and compares it with what an open session and the log show.

    Raises ReplayError where they differ, HarnessError where the runtime refuses the session, and RuntimeLost.
    """
    request = {
        "sessionId": past.id,
        "cwd": str(runtime.paths.workspace),
        "createdAt": past.created_at,
        "turns": [asdict(turn) for turn in past.turns],
    }
    answer = runtime.request("dshmem/replay", request, timeout=seconds)
    shown = tuple(PastTurn(**turn) for turn in answer["turns"])
    require_same(past, PastSession(past.id, answer["createdAt"], shown), "in the runtime")
    require_same(past, stored_session(runtime.paths.dsh_home, past.id), "on disk")


def stored_session(dsh_home: Path, session_id: str) -> PastSession:
    """A session as its uncompressed log on disk holds it. Raises ReplayError where there is none."""
    logs = sorted(dsh_home.glob(SESSION_LOGS.format(id=session_id)))
    if len(logs) != 1:
        raise ReplayError(f"the session store holds {len(logs)} logs of the replayed session, not one")
    try:
        header, *events = map(json.loads, logs[0].read_text(encoding="utf-8").split("\n")[:-1])
        return PastSession(header["id"], header["createdAt"], tuple(_turns_in(events)))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ReplayError(
            f"the log of the replayed session cannot be read: {type(error).__name__}"
        ) from error


def require_same(put_in: PastSession, read_back: PastSession, where: str) -> None:
    """Raises ReplayError with the first difference between a session and the same session read back."""
    if read_back == put_in:
        return
    if read_back.created_at != put_in.created_at:
        difference = "another date"
    elif len(read_back.turns) != len(put_in.turns):
        difference = f"{len(read_back.turns)} turns instead of {len(put_in.turns)}"
    else:
        pairs = enumerate(zip(put_in.turns, read_back.turns, strict=True), start=1)
        number = next((number for number, (one, other) in pairs if one != other), 0)
        difference = f"another turn {number}" if number else "another id"
    raise ReplayError(f"the replayed session does not read back as it was: it has {difference} {where}")


def _turns_in(events: list[Mapping[str, Any]]) -> Iterator[PastTurn]:
    for event in events:
        if event["type"] in ("user/message", "assistant/message"):
            message = event["data"].get("message", event["data"])
            text = "".join(block["text"] for block in message["content"])
            yield PastTurn(message["role"], text, event["time"])
