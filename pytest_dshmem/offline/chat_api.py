"""The Chat Completions API of OpenAI, unstreamed, as far as judging needs it."""

from collections.abc import Mapping
from typing import Any

from pytest_dshmem.offline.exchange import CHARACTERS_PER_TOKEN, Response, Tokens, json_response, tokens_in
from pytest_dshmem.offline.judge import verdict_on

_CACHE_UNIT = 64
_REASONING = 12


def respond(request: Mapping[str, Any], digest: str) -> Response:
    """The response to a request: a verdict on the judging prompt in its user messages.

    Usage is modelled: one token for four characters; half of what was sent, in units of 64 tokens, came from
    the cache; 12 tokens of reasoning precede a reply, if the limit has room for them.
    """
    problem = _problem(request)
    if problem:
        return error(400, problem)
    prompt = "\n\n".join(_text(message) for message in request["messages"] if message.get("role") == "user")
    limit = _limit(request)
    content, complete = _limited(verdict_on(prompt), limit)
    sent = sum(tokens_in(_text(message)) for message in request["messages"])
    reasoning = _REASONING if limit is None or limit >= tokens_in(content) + _REASONING else 0
    cached = sent // 2 // _CACHE_UNIT * _CACHE_UNIT
    tokens = Tokens(
        input=sent - cached, cache_read=cached, output=tokens_in(content) + reasoning, reasoning=reasoning
    )
    return json_response(200, _completion(request["model"], digest, content, complete, tokens), tokens=tokens)


def error(status: int, message: str) -> Response:
    """An error as the Chat Completions API words it."""
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(
        status, "server_error" if status >= 500 else "invalid_request_error"
    )
    return json_response(status, {"error": {"message": message, "type": kind, "param": None, "code": None}})


def _problem(request: Mapping[str, Any]) -> str | None:
    messages = request.get("messages")
    if not isinstance(request.get("model"), str) or not request["model"]:
        return "model: a non-empty text is required"
    if (
        not isinstance(messages, list)
        or not messages
        or not all(isinstance(one, Mapping) for one in messages)
    ):
        return "messages: a non-empty list of messages is required"
    limit = _limit(request)
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        return "max_tokens: a whole number of at least 1 is required"
    if request.get("n", 1) != 1:
        return "n: only one reply is served"
    return "stream: only whole replies are served" if request.get("stream") else None


def _limit(request: Mapping[str, Any]) -> Any:
    return request.get("max_completion_tokens") or request.get("max_tokens")


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return str(content or "")


def _limited(text: str, limit: int | None) -> tuple[str, bool]:
    if limit is None or tokens_in(text) <= limit:
        return text, True
    return text[: limit * CHARACTERS_PER_TOKEN], False


def _completion(model: str, digest: str, content: str, complete: bool, tokens: Tokens) -> dict[str, Any]:
    sent = tokens.input + tokens.cache_read
    return {
        "id": f"chatcmpl-{digest}",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": "stop" if complete else "length",
                "logprobs": None,
            }
        ],
        "usage": {
            "prompt_tokens": sent,
            "completion_tokens": tokens.output,
            "total_tokens": sent + tokens.output,
            "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
            "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
        },
    }
