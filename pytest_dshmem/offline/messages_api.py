"""The Messages API of DeepSeek (Anthropic-like): a request in, server-sent events out.

Usage is modelled: one token for four characters. The first request of a session writes its fixed part (system
text and tools) to the cache; a later one reads all that stands before the last reply of the assistant.
The API has no field for reasoning tokens: they are a part of `output_tokens`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_dshmem.offline.exchange import CHARACTERS_PER_TOKEN, Response, Tokens, json_response, tokens_in
from pytest_dshmem.offline.model import Reply, reply_to

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class _Block:
    """One content block: how it starts, and the deltas that fill it."""

    start: Mapping[str, Any]
    deltas: tuple[Mapping[str, Any], ...]


def respond(request: Mapping[str, Any], digest: str, context_window: int) -> Response:
    """The response to a request; a request that is malformed or too long gets the error that names it."""
    problem = _problem(request)
    if problem:
        return error(400, problem)
    size, cached = _sizes(request)
    if size > context_window:
        return error(
            400,
            f"prompt is too long for the model's context window: {size} tokens > {context_window} maximum",
        )
    blocks, output, complete = _blocks(reply_to(request), digest, request["max_tokens"])
    first = not any(message["role"] == "assistant" for message in request["messages"])
    tokens = Tokens(
        input=size - cached,
        cache_read=0 if first else cached,
        cache_write=cached if first else 0,
        output=output,
    )
    stop_reason = "max_tokens" if not complete else _stop_reason(blocks)
    events = _events(str(request["model"]), digest, blocks, stop_reason, tokens)
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Response(200, body.encode(), "text/event-stream", tokens=tokens)


def error(status: int, message: str) -> Response:
    """An error as the Messages API words it."""
    kind = ERROR_TYPES.get(status, "api_error")
    return json_response(status, {"type": "error", "error": {"type": kind, "message": message}})


def _problem(request: Mapping[str, Any]) -> str | None:
    messages = request.get("messages")
    if not isinstance(request.get("model"), str) or not request["model"]:
        return "model: a non-empty text is required"
    if not isinstance(messages, list) or not messages:
        return "messages: a non-empty list is required"
    if any(not isinstance(one, Mapping) or not isinstance(one.get("role"), str) for one in messages):
        return "messages: each needs a role"
    tools = request.get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(one, Mapping) for one in tools):
        return "tools: a list of tools is required"
    limit = request.get("max_tokens")
    if not isinstance(limit, int) or limit < 1:
        return "max_tokens: a whole number of at least 1 is required"
    return None if request.get("stream") is True else "stream: only streamed replies are served"


def _sizes(request: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens of the whole request, and of the part of it that is in the cache or goes there."""
    messages = request["messages"]
    fixed = tokens_in(request.get("system") or "") + tokens_in(request.get("tools") or "")
    sizes = [tokens_in(message.get("content") or "") for message in messages]
    replies = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    shared = sum(sizes[: replies[-1]]) if replies else 0
    return fixed + sum(sizes), fixed + shared


def _blocks(reply: Reply, digest: str, max_tokens: int) -> tuple[list[_Block], int, bool]:
    """The content blocks that fit into a limit, their tokens, and whether they are all of the reply."""
    left = max_tokens * CHARACTERS_PER_TOKEN
    blocks, used = list[_Block](), 0
    for start, kind, text in _parts(reply, digest):
        if left <= 0:
            return blocks, used, False
        shown = text[:left]
        left -= len(shown)
        used += tokens_in(shown)
        blocks.append(_Block(start, _deltas(kind, shown)))
        if len(shown) < len(text):
            return blocks, min(used, max_tokens), False
    return blocks, min(used, max_tokens), True


def _parts(reply: Reply, digest: str) -> Iterator[tuple[Mapping[str, Any], str, str]]:
    """The parts of a reply: how a block starts, its field in deltas, and the whole text of that field."""
    if reply.thought:
        yield {"type": "thinking", "thinking": "", "signature": ""}, "thinking", reply.thought
    if reply.text:
        yield {"type": "text", "text": ""}, "text", reply.text
    for place, use in enumerate(reply.tool_uses):
        start = {"type": "tool_use", "id": f"toolu_{digest}{place:02}", "name": use.name, "input": {}}
        yield start, "partial_json", json.dumps(use.arguments, ensure_ascii=False)


def _deltas(field: str, text: str) -> tuple[Mapping[str, Any], ...]:
    """A text in two deltas, as streams come in pieces; a thought is followed by its signature."""
    kind = {"thinking": "thinking_delta", "text": "text_delta", "partial_json": "input_json_delta"}[field]
    middle = len(text) // 2
    pieces = [{"type": kind, field: piece} for piece in (text[:middle], text[middle:]) if piece]
    if field == "thinking":
        pieces.append({"type": "signature_delta", "signature": "offline"})
    return tuple(pieces)


def _stop_reason(blocks: list[_Block]) -> str:
    return "tool_use" if any(block.start["type"] == "tool_use" for block in blocks) else "end_turn"


def _events(
    model: str, digest: str, blocks: list[_Block], stop_reason: str, tokens: Tokens
) -> Iterator[Mapping[str, Any]]:
    usage = {
        "input_tokens": tokens.input,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation_input_tokens": tokens.cache_write,
    }
    message: dict[str, Any] = {
        "id": f"msg_{digest}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 0}}
    yield {"type": "message_start", "message": message}
    for index, block in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block.start}
        for delta in block.deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason, "stop_sequence": None},
        "usage": {**usage, "output_tokens": tokens.output},
    }
    yield {"type": "message_stop"}
