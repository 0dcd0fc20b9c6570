"""What the server has served so far: totals for each API, and a record of each request if one is wanted."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO

from pytest_dshmem.offline.exchange import Tokens

_CREDENTIALS = frozenset({"x-api-key", "authorization", "proxy-authorization", "cookie"})


@dataclass(slots=True)
class Totals:
    """Requests of one API and the tokens of those that were answered in full.

    `failed` ended in an error or were cut; `abandoned` had no reader left when the reply was ready.
    The tokens of both are left out.
    """

    requests: int = 0
    failed: int = 0
    abandoned: int = 0
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    def add(self, tokens: Tokens) -> None:
        for name, count in asdict(tokens).items():
            setattr(self, name, getattr(self, name) + count)


@dataclass(slots=True)
class Served:
    """The server's ledger. Requests to unknown paths are counted nowhere."""

    messages: Totals = field(default_factory=Totals)
    chat: Totals = field(default_factory=Totals)
    in_flight: int = 0
    max_in_flight: int = 0

    def enter(self) -> None:
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)

    def leave(self) -> None:
        self.in_flight -= 1

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Capture:
    """A file that gets a JSON line for each request: path, headers less credentials, body, usage, status."""

    file: TextIO

    def record(
        self, path: str, headers: Mapping[str, str], body: object, status: int | None, tokens: Tokens
    ) -> None:
        """`status` is None where no answer was given; `body` is parsed JSON, or text that is not JSON."""
        shown = {name: value for name, value in headers.items() if name not in _CREDENTIALS}
        line = {"path": path, "headers": shown, "body": body, "status": status, "usage": asdict(tokens)}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
