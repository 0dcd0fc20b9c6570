"""One turn of an agent, read from the events that the harness reports of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TurnFailure:
    """Why the model or the harness failed: the harness's code (`AUTH`, `RATE_LIMIT`, …) and its words."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Turn:
    """How a turn ended. `opened` holds the absolute paths that the agent read."""

    response: str
    finish_reason: str | None
    failure: TurnFailure | None
    started_at: float
    seconds: float
    tool_seconds: float
    opened: tuple[str, ...]


def read_turn(
    events: Iterable[Mapping[str, Any]],
    response: str,
    finish_reason: str | None,
    started_at: float,
    seconds: float,
) -> Turn:
    """Reads a finished turn from its events (`{type, seq, time, data}`, times in milliseconds)."""
    asked: dict[str, Mapping[str, Any]] = {}
    opened: list[str] = []
    failure: TurnFailure | None = None
    tool_seconds = 0.0
    for event in events:
        data = event.get("data") or {}
        if event.get("type") == "tool/call":
            asked[data["callId"]] = event
        elif event.get("type") == "tool/result":
            call = asked.pop(data["message"]["toolCallId"], None)
            if call is not None:
                tool_seconds += (event["time"] - call["time"]) / 1000
                opened += _opened_by(call["data"], data)
        elif event.get("type") == "turn/end":
            failure = _failure(data.get("reason") or {})
    return Turn(
        response, finish_reason, failure, started_at, seconds, tool_seconds, tuple(dict.fromkeys(opened))
    )


def _opened_by(call: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    path = (result.get("meta") or {}).get("path")
    refused = (result.get("message") or {}).get("isError", False)
    return [path] if call.get("name") == "read" and isinstance(path, str) and not refused else []


def _failure(reason: Mapping[str, Any]) -> TurnFailure | None:
    error = reason.get("error")
    if not isinstance(error, Mapping):
        return None
    return TurnFailure(code=str(error.get("code", "UNKNOWN")), message=str(error.get("message", "")))
