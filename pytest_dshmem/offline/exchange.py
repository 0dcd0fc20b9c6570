"""What the server and its two APIs hand each other: a request's reply, and the tokens that it used."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one reply, as its API reported them. `reasoning` is a part of `output`."""

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0


NO_TOKENS = Tokens()


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response. Events (SSE) are sent in chunks, so that they can be cut short."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    tokens: Tokens = NO_TOKENS

    @property
    def streamed(self) -> bool:
        return self.content_type == "text/event-stream"


def json_response(status: int, body: Mapping[str, Any], *, tokens: Tokens = NO_TOKENS) -> Response:
    return Response(status, json.dumps(body).encode(), tokens=tokens)


def tokens_in(value: object) -> int:
    """About how many tokens a text or the JSON of anything else has: one for four characters, rounded up."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def digest_of(body: bytes) -> str:
    """A short name for a request, the same whenever the same request comes."""
    return sha256(body).hexdigest()[:20]
