"""The server as a process: what it answers, what it records, how it fails on demand, and when it ends."""

import http.client
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import pytest

from pytest_dshmem.offline.process import StandIn, StandInError

ASKED = {"role": "user", "content": "Question: Where does Otto live?"}
MESSAGE = {"model": "m", "stream": True, "max_tokens": 1000, "messages": [ASKED]}
CHAT = {
    "model": "j",
    "messages": [
        {
            "role": "user",
            "content": "Question: Who?\n\nCorrect Answer: Ada\n\nModel Response: Ada\n\nYes or no?",
        }
    ],
}
KEY = {"x-api-key": "a-key-to-keep-secret"}
END_SECONDS = 10


class Connection:
    """One kept connection to a stand-in."""

    def __init__(self, stand_in: StandIn, timeout: float = 30.0) -> None:
        self._http = http.client.HTTPConnection(urlsplit(stand_in.url).netloc, timeout=timeout)

    def post(self, path: str, body: Any, headers: dict[str, str] = KEY) -> http.client.HTTPResponse:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._http.request("POST", path, content, headers)
        return self._http.getresponse()

    def ask(self) -> http.client.HTTPResponse:
        return self.post("/v1/messages", MESSAGE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()


@pytest.fixture(scope="module")
def stand_in() -> Iterator[StandIn]:
    with StandIn.start() as started:
        yield started


@pytest.fixture
def connection(stand_in: StandIn) -> Iterator[Connection]:
    with Connection(stand_in) as opened:
        yield opened


def test_it_serves_on_loopback_only(stand_in: StandIn) -> None:
    assert stand_in.url.startswith("http://127.0.0.1:")
    assert stand_in.url.endswith("/v1")


def test_one_connection_carries_many_requests_to_both_apis(connection: Connection) -> None:
    for _ in range(3):
        stream = connection.ask()
        assert stream.status == 200
        assert b"event: message_stop" in stream.read()
        completion = connection.post("/v1/chat/completions", CHAT, {"authorization": "Bearer any"})
        assert json.load(completion)["choices"][0]["message"]["content"] == "yes"


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
@pytest.mark.parametrize("headers", [{}, {"x-api-key": "wrong-key"}, {"authorization": "Bearer wrong-key"}])
def test_a_missing_or_refused_key_is_unauthorized(
    connection: Connection, path: str, headers: dict[str, str]
) -> None:
    response = connection.post(path, MESSAGE, headers)
    assert response.status == 401
    assert json.load(response)["error"]["type"] == "authentication_error"


@pytest.mark.parametrize("path", ["/", "/v1/models", "/v1/messages/batches", "/messages"])
def test_an_unknown_path_is_not_found(connection: Connection, path: str) -> None:
    response = connection.post(path, MESSAGE)
    assert (response.status, json.load(response)["error"]["type"]) == (404, "not_found_error")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_a_bad_request(connection: Connection, body: bytes) -> None:
    for path in ("/v1/messages", "/v1/chat/completions"):
        response = connection.post(path, body)
        assert response.status == 400
        assert "JSON object" in json.load(response)["error"]["message"]


def test_bytes_that_are_no_http_are_a_bad_request_and_harm_nobody(
    stand_in: StandIn, connection: Connection
) -> None:
    for path, headers in (
        ("/v1/messages", {"content-length": "many"}),
        ("/v1/messages", {"x": "y" * 70_000}),
    ):
        with Connection(stand_in) as broken:
            assert broken.post(path, MESSAGE, headers).status == 400
    assert connection.ask().status == 200


def test_the_totals_are_the_sum_of_what_was_answered() -> None:
    with StandIn.start() as stand_in, Connection(stand_in) as connection:
        usage = []
        for _ in range(2):
            frames = connection.ask().read().decode().split("\n\n")
            usage.append(json.loads(frames[-3].partition("data: ")[2])["usage"])
        completion = json.load(connection.post("/v1/chat/completions", CHAT))["usage"]
        connection.post("/v1/messages", MESSAGE, {}).read()
        served = stand_in.served()

    assert served["messages"] == {
        "requests": 3,
        "failed": 1,
        "abandoned": 0,
        "input": sum(one["input_tokens"] for one in usage),
        "cache_read": 0,
        "cache_write": 0,
        "output": sum(one["output_tokens"] for one in usage),
        "reasoning": 0,
    }
    assert served["chat"]["requests"] == 1
    assert served["chat"]["output"] == completion["completion_tokens"]
    assert served["chat"]["input"] + served["chat"]["cache_read"] == completion["prompt_tokens"]


def test_slow_requests_are_in_flight_together() -> None:
    with StandIn.start(latency=1.0) as stand_in:

        def ask(_: int) -> int:
            with Connection(stand_in) as connection:
                return connection.ask().status

        with ThreadPoolExecutor(64) as pool:
            assert set(pool.map(ask, range(64))) == {200}
        served = stand_in.served()
    assert served["max_in_flight"] == 64
    assert served["in_flight"] == 0


def test_a_capture_holds_every_request_and_no_credential(tmp_path: Path) -> None:
    capture = tmp_path / "capture.jsonl"
    secrets = {
        "x-api-key": "secret-1",
        "authorization": "Bearer secret-2",
        "cookie": "secret-3",
        "x-session": "s1",
    }
    with StandIn.start(capture=capture) as stand_in, Connection(stand_in) as connection:
        connection.post("/v1/messages", MESSAGE, secrets).read()
        connection.post("/v1/chat/completions", CHAT, secrets).read()
        connection.post("/elsewhere", {"text": "\ud800"}, secrets).read()

    text = capture.read_text(encoding="utf-8")
    assert "secret" not in text
    first, second, third = map(json.loads, text.splitlines())
    assert (first["path"], first["status"], first["body"]) == ("/v1/messages", 200, MESSAGE)
    assert first["headers"]["x-session"] == "s1"
    assert first["usage"]["input"] > 0
    assert second["usage"]["reasoning"] > 0
    assert (third["path"], third["status"]) == ("/elsewhere", 404)


def test_a_request_beyond_the_window_is_refused() -> None:
    with StandIn.start(context_window=5) as stand_in, Connection(stand_in) as connection:
        assert connection.ask().status == 400


def test_trouble_comes_as_its_rules_say(tmp_path: Path) -> None:
    rules = [
        {"ordinals": [1], "status": 429, "retry_after": 2},
        {"ordinals": [2], "cut": True},
        {"ordinals": [3], "drop": True},
        {"api": "chat", "every": 1, "status": 503},
    ]
    path = tmp_path / "trouble.json"
    path.write_text(json.dumps({"rules": rules}))
    with StandIn.start(trouble=path) as stand_in:
        with Connection(stand_in) as connection:
            limited = connection.ask()
            assert (limited.status, limited.getheader("retry-after")) == (429, "2")
        with Connection(stand_in) as connection, pytest.raises(http.client.IncompleteRead):
            connection.ask().read()
        with Connection(stand_in) as connection, pytest.raises(http.client.RemoteDisconnected):
            connection.ask()
        with Connection(stand_in) as connection:
            assert connection.post("/v1/chat/completions", CHAT).status == 503
        with Connection(stand_in) as connection:
            assert connection.ask().status == 200
        totals = stand_in.served()["messages"]
    assert (totals["requests"], totals["failed"]) == (4, 3)


def test_a_reply_that_nobody_waits_for_is_not_counted_as_served() -> None:
    with StandIn.start(latency=0.5) as stand_in:
        with Connection(stand_in, timeout=0.1) as impatient, pytest.raises(TimeoutError):
            impatient.ask()
        with Connection(stand_in) as patient:
            patient.ask().read()
        totals = stand_in.served()["messages"]
    assert (totals["requests"], totals["abandoned"]) == (2, 1)


@pytest.mark.parametrize("option", ["trouble", "capture"])
def test_a_start_that_fails_says_why(tmp_path: Path, option: str) -> None:
    missing: dict[str, Any] = {option: tmp_path / "none" / "file"}
    with pytest.raises(StandInError, match=r"did not start: .*none.file"):
        StandIn.start(**missing)


def test_closing_ends_the_process_and_may_be_repeated() -> None:
    stand_in = StandIn.start()
    stand_in.close()
    stand_in.close()
    assert not is_running(stand_in.pid)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def server() -> Iterator[subprocess.Popen[bytes]]:
    """The bare process, ready to be asked."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_dshmem.offline"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"ready http://127.0.0.1:")
    yield process
    process.kill()
    process.communicate()


def test_it_ends_when_its_input_ends(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    server.stdin = None
    assert server.wait(END_SECONDS) == 0


def test_it_ends_in_order_when_it_is_asked_to(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGTERM)
    assert server.wait(END_SECONDS) == 0


@pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="only Linux can wait for a process that is no child"
)
def test_it_ends_when_its_parent_is_killed() -> None:
    program = (
        "import sys, time; from pytest_dshmem.offline.process import StandIn; "
        "print(StandIn.start().pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    watched = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    ended, _, _ = select.select([watched], [], [], END_SECONDS)
    os.close(watched)
    assert ended
