"""Model calls of one runtime as its recorder wrote them, sorted by session."""

import json
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

from pytest_dshmem.record.entries import Call, Usage

DIRECT = ""
REFUSED = frozenset({"AUTH", "QUOTA", "RATE_LIMIT", "INVALID_REQUEST", "CONTEXT_WINDOW_EXCEEDED"})
"""Failures in which the provider turned the request away: no token was read or written."""


class CallLog:
    """Follows a recorder's file. Thread-safe: many sessions take their calls from one log."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._offset = 0
        self._parents: dict[str, str] = {}
        self._open: dict[str, dict[str, Any]] = {}
        self._finished: defaultdict[str, list[Call]] = defaultdict(list)

    def take(self, session_id: str) -> tuple[Call, ...]:
        """The calls of a session and its children since the last time, and those of no session at all."""
        with self._lock:
            self._follow()
            taken = self._finished.pop(session_id, []) + self._finished.pop(DIRECT, [])
        return _in_order(taken)

    def take_all(self, *, abandoned: bool = False) -> tuple[Call, ...]:
        """Every call not taken yet; with `abandoned`, also those that a dead runtime left without an end."""
        with self._lock:
            self._follow()
            taken = [call for calls in self._finished.values() for call in calls]
            self._finished.clear()
            if abandoned:
                taken += [self._finish(start, {}) for start in self._open.values()]
                self._open.clear()
        return _in_order(taken)

    def take_abandoned(self, session_id: str) -> tuple[Call, ...]:
        """The calls of a session whose runtime is dead, those without an end included."""
        with self._lock:
            self._follow()
            left = [
                number for number, start in self._open.items() if self._root(start["session"]) == session_id
            ]
            taken = self._finished.pop(session_id, [])
            taken += [self._finish(self._open.pop(number), {}) for number in left]
        return _in_order(taken)

    def sessions(self) -> frozenset[str]:
        """The sessions with calls that nobody has taken yet, those without an end included."""
        with self._lock:
            self._follow()
            under_way = (self._root(start["session"]) for start in self._open.values())
            return frozenset((*self._finished, *under_way))

    def _follow(self) -> None:
        for line in self._new_lines():
            kind = line.get("kind")
            if kind == "child":
                self._parents[line["session"]] = line["parent"]
            elif kind == "start":
                self._open[line["call"]] = line
            elif kind == "end" and line["call"] in self._open:
                start = self._open.pop(line["call"])
                self._finished[self._root(start["session"])].append(self._finish(start, line))

    def _new_lines(self) -> list[dict[str, Any]]:
        if not self._file.exists():
            return []
        with self._file.open("rb") as file:
            file.seek(self._offset)
            chunk = file.read()
        end = chunk.rfind(b"\n") + 1
        self._offset += end
        return [json.loads(line) for line in chunk[:end].splitlines()]

    def _root(self, session_id: str | None) -> str:
        if session_id is None:
            return DIRECT
        while session_id in self._parents:
            session_id = self._parents[session_id]
        return session_id

    def _finish(self, start: dict[str, Any], end: dict[str, Any]) -> Call:
        first_token = end.get("firstTokenMs")
        return Call(
            purpose=self._purpose(start),
            model=start["model"],
            effort=start["effort"],
            started_at=start["startedAt"] / 1000,
            seconds=end.get("ms", 0) / 1000,
            first_token_seconds=None if first_token is None else first_token / 1000,
            finish=end.get("finish", "abandoned"),
            failure=end.get("failure"),
            usage=Usage() if end.get("failure") in REFUSED else _usage(end.get("usage")),
        )

    def _purpose(self, start: dict[str, Any]) -> str:
        if start["session"] is None:
            return "direct"
        if start["session"] in self._parents:
            return "worker"
        return start["purpose"] or "turn"


def _usage(seen: dict[str, Any] | None) -> Usage | None:
    if seen is None:
        return None
    return Usage(
        input=seen.get("inputTokens", 0),
        cache_read=seen.get("cacheReadTokens", 0),
        cache_write=seen.get("cacheWriteTokens", 0),
        output=seen.get("outputTokens", 0),
        reasoning=seen.get("reasoningTokens"),
    )


def _in_order(calls: list[Call]) -> tuple[Call, ...]:
    return tuple(sorted(calls, key=lambda call: call.started_at))
