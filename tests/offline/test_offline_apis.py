"""The frames of the Messages API and the bodies of Chat Completions, with the usage they report."""

import json
from typing import Any

import pytest

from pytest_dshmem.offline import chat_api, messages_api
from pytest_dshmem.offline.exchange import NO_TOKENS, Response, Tokens

WINDOW = 1_000_000
HISTORY = '<history>\n<session date="2 May, 2024">\nOtto: I live in Porto with Ada.\n</session>\n</history>\n'
ASKED = {"role": "user", "content": f"{HISTORY}\nQuestion: Where does Otto live?"}
TOOL = {"name": "keep", "input_schema": {"properties": {"text": {}}}}


def request(**changes: Any) -> dict[str, Any]:
    return {"model": "m", "stream": True, "max_tokens": 1000, "messages": [ASKED], **changes}


def events(response: Response) -> list[dict[str, Any]]:
    assert response.content_type == "text/event-stream"
    frames = response.body.decode().split("\n\n")
    assert frames.pop() == ""
    found = []
    for frame in frames:
        name, data = frame.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


def respond(**changes: Any) -> Response:
    return messages_api.respond(request(**changes), "d1", WINDOW)


def test_a_text_comes_as_one_block_between_start_and_stop() -> None:
    found = events(respond())
    assert [event["type"] for event in found] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    text = "".join(event["delta"]["text"] for event in found if event["type"] == "content_block_delta")
    assert text == "I live in Porto with Ada."
    assert found[-2]["delta"]["stop_reason"] == "end_turn"


def test_a_thought_is_a_signed_block_before_the_text() -> None:
    found = events(respond(thinking={"type": "enabled"}))
    starts = [event["content_block"]["type"] for event in found if event["type"] == "content_block_start"]
    assert starts == ["thinking", "text"]
    kinds = [event["delta"]["type"] for event in found if event["type"] == "content_block_delta"]
    assert kinds[:3] == ["thinking_delta", "thinking_delta", "signature_delta"]


def test_a_tool_call_carries_its_arguments_as_json_in_pieces() -> None:
    session = {"role": "user", "content": '<session date="2 May, 2024">\nOtto: I live in Porto.\n</session>'}
    found = events(respond(messages=[session], tools=[TOOL]))
    starts = [event["content_block"] for event in found if event["type"] == "content_block_start"]
    assert {start["name"] for start in starts} == {"keep"}
    assert len({start["id"] for start in starts}) == len(starts)
    pieces = [
        event["delta"]["partial_json"]
        for event in found
        if event["type"] == "content_block_delta" and event["index"] == 0
    ]
    assert "Porto" in json.loads("".join(pieces))["text"]
    assert found[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_reply_longer_than_the_limit_is_cut_and_says_so() -> None:
    response = respond(max_tokens=2)
    found = events(response)
    text = "".join(
        event["delta"].get("text", "") for event in found if event["type"] == "content_block_delta"
    )
    assert text == "I live i"
    assert found[-2]["delta"]["stop_reason"] == "max_tokens"
    assert response.tokens.output == 2


def test_usage_is_the_same_in_the_frames_and_in_the_ledger() -> None:
    response = respond(system="s" * 40, tools=[TOOL])
    usage = events(response)[-2]["usage"]
    assert response.tokens == Tokens(
        input=usage["input_tokens"],
        cache_read=usage["cache_read_input_tokens"],
        cache_write=usage["cache_creation_input_tokens"],
        output=usage["output_tokens"],
    )
    assert min(response.tokens.input, response.tokens.cache_write, response.tokens.output) > 0


def test_a_later_request_reads_from_the_cache_what_was_sent_before_the_last_reply() -> None:
    first = respond(system="s" * 40).tokens
    said = {"role": "assistant", "content": "In Porto."}
    later = respond(system="s" * 40, messages=[ASKED, said, {"role": "user", "content": "Thanks."}]).tokens
    assert later.cache_read == first.input + first.cache_write
    assert later.cache_write == 0
    assert later.input == 3 + 2


def test_a_prompt_beyond_the_window_gets_the_error_that_names_it() -> None:
    response = messages_api.respond(request(), "d1", 10)
    assert response.status == 400
    error = json.loads(response.body)["error"]
    assert error["type"] == "invalid_request_error"
    assert "too long for the model's context window" in error["message"]
    assert response.tokens == NO_TOKENS


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model": ""}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": ["hello"]}, "role"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"tools": ["read"]}, "tools"),
        ({"stream": False}, "stream"),
    ],
)
def test_a_malformed_request_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    response = respond(**change)
    assert response.status == 400
    assert named in json.loads(response.body)["error"]["message"]


PROMPT = (
    "Reply yes or no.\n\nQuestion: Where does Otto live?\n\nCorrect Answer: Porto\n\n"
    "Model Response: In Porto\n\nIs it right?"
)


def judged(**changes: Any) -> Response:
    body = {"model": "j", "messages": [{"role": "user", "content": PROMPT}], **changes}
    return chat_api.respond(body, "d1")


def test_a_completion_holds_the_verdict_and_its_usage_adds_up() -> None:
    response = judged()
    body = json.loads(response.body)
    assert body["choices"][0]["message"]["content"] == "yes"
    assert body["choices"][0]["finish_reason"] == "stop"
    usage, tokens = body["usage"], response.tokens
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert usage["prompt_tokens"] == tokens.input + tokens.cache_read
    assert usage["prompt_tokens_details"]["cached_tokens"] == tokens.cache_read
    assert usage["completion_tokens_details"]["reasoning_tokens"] == tokens.reasoning > 0
    assert usage["completion_tokens"] == tokens.output > tokens.reasoning


def test_a_small_limit_leaves_no_room_for_reasoning() -> None:
    response = judged(max_tokens=10)
    assert json.loads(response.body)["choices"][0]["message"]["content"] == "yes"
    assert response.tokens.reasoning == 0
    assert response.tokens.output <= 10


def test_content_in_parts_is_read_too() -> None:
    parts = [{"type": "text", "text": PROMPT}]
    assert b'"yes"' in judged(messages=[{"role": "user", "content": parts}]).body


@pytest.mark.parametrize(
    "change", [{"model": None}, {"messages": []}, {"n": 2}, {"stream": True}, {"max_tokens": "ten"}]
)
def test_a_malformed_judging_request_is_refused(change: dict[str, Any]) -> None:
    response = judged(**change)
    assert response.status == 400
    assert json.loads(response.body)["error"]["type"] == "invalid_request_error"
