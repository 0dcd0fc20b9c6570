"""Judging over the wire, against a chat server on loopback that each test scripts."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pytest_dshmem.experiment.judging.client import ChatClient, ClientSettings
from pytest_dshmem.experiment.judging.errors import JudgeError
from pytest_dshmem.experiment.judging.item import JudgeItem
from pytest_dshmem.experiment.judging.judge import FAILURES_IN_A_ROW, JudgeOutcome, judge_all
from pytest_dshmem.experiment.judging.protocol import binary_protocol, longmemeval_protocol
from pytest_dshmem.experiment.judging.retry import Brake, RetryPolicy
from pytest_dshmem.record.entries import QuestionKey, Usage, Verdict

KEY = "secret-0123456789"
RIGHT = '{"reason": "same fact", "verdict": "correct"}'
QUICK = RetryPolicy(attempts=3, first_delay=0.01, longest_delay=0.02, patience=5.0)


@dataclass
class Reply:
    """What the server sends back. `body` bytes go as they are; text becomes a completion."""

    text: str = RIGHT
    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    usage: dict[str, Any] | None = None
    delay: float = 0.0


Script = Callable[[dict[str, Any], int], Reply]


class ChatServer:
    """A Chat Completions server whose replies a script decides, from the request and its ordinal (from 1)."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.most_in_flight = 0
        self.script: Script = lambda *_: Reply()
        self._lock = threading.Lock()
        self._in_flight = 0
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: dict[str, Any], key: str | None) -> Reply:
        with self._lock:
            self.requests.append(request)
            self.keys.add(key)
            ordinal = len(self.requests)
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
        reply = self.script(request, ordinal)
        time.sleep(reply.delay)
        with self._lock:
            self._in_flight -= 1
        return reply

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                reply = server._answer(request, self.headers["authorization"])
                body = reply.body if reply.body is not None else completion(reply)
                self.send_response(reply.status)
                for name, value in {"content-type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Quiet."""

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is what some tests are about."""


def completion(reply: Reply) -> bytes:
    usage = reply.usage or {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    message = {"role": "assistant", "content": reply.text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def failing(status: int, message: str = "no", **headers: str) -> Reply:
    body = json.dumps({"error": {"message": message}}).encode()
    return Reply(status=status, body=body, headers=headers)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    chat = ChatServer()
    yield chat
    chat.close()


def item(number: int, hypothesis: str | None = None, condition: str = "memory") -> JudgeItem:
    return JudgeItem(
        key=QuestionKey(question_id=f"q{number:03}", condition=condition),
        question=f"What did Mara plant in bed {number}?",
        gold="beans",
        category="single-hop",
        abstention=False,
        hypothesis=f"beans, in bed {number}" if hypothesis is None else hypothesis,
    )


def items(count: int) -> list[JudgeItem]:
    return [item(number) for number in range(count)]


def judge(server: ChatServer, judged: list[JudgeItem], **options: Any) -> tuple[JudgeOutcome, list[Verdict]]:
    recorded: list[Verdict] = []
    outcome = judge_all(
        judged,
        options.pop("protocol", binary_protocol("judge-1", server.url)),
        ClientSettings(server.url, KEY, timeout_seconds=options.pop("timeout_seconds", 5.0)),
        record=recorded.append,
        policy=options.pop("policy", QUICK),
        **options,
    )
    return outcome, recorded


def test_each_item_gets_a_verdict_in_its_place_and_is_recorded_with_its_call(server: ChatServer) -> None:
    server.script = lambda request, _: Reply(
        text=RIGHT if "bed 1?" not in request["messages"][0]["content"] else '{"verdict": "wrong"}'
    )
    outcome, recorded = judge(server, items(4), concurrency=3)
    assert [verdict.key.question_id for verdict in outcome.verdicts] == ["q000", "q001", "q002", "q003"]
    assert [verdict.correct for verdict in outcome.verdicts] == [True, False, True, True]
    assert sorted(recorded, key=lambda verdict: verdict.key.question_id) == list(outcome.verdicts)
    assert (outcome.asked, outcome.reused, outcome.unjudged, outcome.stopped) == (4, 0, (), None)
    call = outcome.verdicts[0].calls[0]
    assert (call.purpose, call.model, call.finish, call.failure) == ("judge", "judge-1", "stop", None)
    assert call.usage == Usage(input=100, output=20)
    assert server.requests[0]["temperature"] == 0
    assert server.keys == {f"Bearer {KEY}"}


def test_no_item_means_no_call(server: ChatServer) -> None:
    outcome, recorded = judge(server, [])
    assert (outcome.verdicts, recorded, server.requests) == ((), [], [])


def test_an_unreadable_reply_is_unparsed_and_kept(server: ChatServer) -> None:
    server.script = lambda *_: Reply(text="I would say it is correct.")
    outcome, _ = judge(server, items(1))
    verdict = outcome.verdicts[0]
    assert (verdict.state, verdict.correct) == ("unparsed", None)
    assert verdict.reply == "I would say it is correct."


def test_a_reply_that_no_record_could_hold_is_made_writable(server: ChatServer) -> None:
    server.script = lambda *_: Reply(text='{"reason": "half an emoji \ud83d", "verdict": "correct"}')
    outcome, recorded = judge(server, items(1))
    assert outcome.verdicts[0].correct is True
    assert "\\ud83d" in recorded[0].model_dump_json().replace("\\\\", "\\")


def test_what_is_judged_is_used_again_and_errors_and_unparsed_are_retried(server: ChatServer) -> None:
    server.script = lambda request, _: {
        "bed 0?": Reply(),
        "bed 1?": Reply(text="hm"),
        "bed 2?": failing(400, "too long"),
    }[request["messages"][0]["content"].split("plant in ")[1].split("\n")[0]]
    first, recorded = judge(server, items(3))
    assert [verdict.state for verdict in first.verdicts] == ["judged", "unparsed", "error"]
    server.requests.clear()
    server.script = lambda *_: Reply()
    second, again = judge(server, items(3), existing=recorded)
    assert len(server.requests) == len(again) == second.asked == 2
    assert second.reused == 1
    assert [verdict.state for verdict in second.verdicts] == ["judged"] * 3
    third, nothing = judge(server, items(3), existing=[*recorded, *again])
    assert (third.asked, nothing, third.verdicts) == (0, [], second.verdicts)


def test_alike_items_are_judged_once_and_each_gets_its_own_record(server: ChatServer) -> None:
    alike = [item(1), item(1, condition="baseline"), item(2)]
    outcome, recorded = judge(server, alike)
    assert len(server.requests) == outcome.asked == 2
    assert [verdict.key for verdict in outcome.verdicts] == [one.key for one in alike]
    assert [len(verdict.calls) for verdict in outcome.verdicts] == [1, 0, 1]
    # A later run with one more condition needs no call either, and nothing is recorded twice.
    oracle = [*alike, item(1, condition="oracle")]
    later, added = judge(server, oracle, existing=recorded)
    assert (later.asked, [verdict.key.condition for verdict in added]) == (0, ["oracle"])


def test_another_hypothesis_or_protocol_is_judged_anew(server: ChatServer) -> None:
    _, recorded = judge(server, [item(1)])
    outcome, _ = judge(server, [item(1, "peas")], existing=recorded)
    assert outcome.asked == 1
    outcome, _ = judge(server, [item(1)], existing=recorded, protocol=binary_protocol("judge-2", server.url))
    assert outcome.asked == 1


def test_every_failed_attempt_is_a_call_of_its_own(server: ChatServer) -> None:
    server.script = lambda _, ordinal: [failing(500), failing(429), Reply()][ordinal - 1]
    outcome, _ = judge(server, items(1))
    verdict = outcome.verdicts[0]
    assert (verdict.state, verdict.attempts) == ("judged", 3)
    assert [call.failure for call in verdict.calls] == ["server", "rate-limit", None]
    unseen = [call.usage is None for call in verdict.calls]
    assert unseen == [True, False, False], "what was refused took no tokens; what broke off may have"


@pytest.mark.parametrize(
    ("reply", "failure", "calls"),
    [
        (failing(500), "server", 3),
        (failing(400), "bad-request", 1),
        (Reply(body=b"<html>"), "malformed-response", 3),
        (Reply(body=b'{"choices": []}'), "malformed-response", 3),
        (Reply(body=b"[" * 100_000), "malformed-response", 3),
        (Reply(body=b"{}", headers={"content-encoding": "gzip"}), "connection", 3),
    ],
)
def test_a_failing_call_is_an_error_and_not_a_wrong_answer(
    server: ChatServer, reply: Reply, failure: str, calls: int
) -> None:
    server.script = lambda *_: reply
    outcome, _ = judge(server, items(1))
    verdict = outcome.verdicts[0]
    assert (verdict.state, verdict.correct) == ("error", None)
    assert [call.failure for call in verdict.calls] == [failure] * calls
    assert (verdict.reason or "").startswith(f"{failure}: ")


def test_a_call_without_usage_is_unmetered(server: ChatServer) -> None:
    message = {"choices": [{"message": {"content": RIGHT}, "finish_reason": "stop"}]}
    server.script = lambda *_: Reply(body=json.dumps(message).encode())
    outcome, _ = judge(server, items(1))
    assert outcome.verdicts[0].correct is True
    assert outcome.verdicts[0].calls[0].usage is None


def test_cached_and_reasoning_tokens_are_told_apart(server: ChatServer) -> None:
    server.script = lambda *_: Reply(
        usage={
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "total_tokens": 150,
            "prompt_tokens_details": {"cached_tokens": 64},
            "completion_tokens_details": {"reasoning_tokens": 30},
        }
    )
    outcome, _ = judge(server, items(1))
    assert outcome.verdicts[0].calls[0].usage == Usage(input=36, cache_read=64, output=50, reasoning=30)


def test_a_wrong_key_stops_all_in_one_sentence(server: ChatServer) -> None:
    server.script = lambda *_: failing(401, f"bad key {KEY}")
    outcome, recorded = judge(server, items(200), concurrency=4)
    assert outcome.stopped is not None
    assert "refused the key" in outcome.stopped
    assert len(server.requests) <= 4
    assert len(outcome.unjudged) == 200 - len(recorded)
    assert KEY not in "".join(verdict.model_dump_json() for verdict in recorded) + outcome.stopped


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (failing(402, "balance"), "no quota"),
        (
            Reply(status=429, body=b'{"error": {"message": "pay", "code": "insufficient_quota"}}'),
            "no quota",
        ),
        (failing(404, "no such model"), "no model judge-1"),
    ],
)
def test_what_every_call_would_meet_stops_all(server: ChatServer, reply: Reply, words: str) -> None:
    server.script = lambda *_: reply
    outcome, _ = judge(server, items(50), concurrency=2)
    assert outcome.stopped is not None
    assert words in outcome.stopped
    assert len(server.requests) <= 2


def test_a_dead_endpoint_stops_after_some_failures_in_a_row() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    recorded: list[Verdict] = []
    outcome = judge_all(
        items(100),
        binary_protocol("judge-1", url),
        ClientSettings(url, KEY),
        record=recorded.append,
        concurrency=2,
        policy=QUICK,
    )
    assert outcome.stopped is not None
    assert "connection" in outcome.stopped
    assert FAILURES_IN_A_ROW <= len(recorded) <= FAILURES_IN_A_ROW + 2


def test_single_failures_among_good_replies_stop_nothing(server: ChatServer) -> None:
    server.script = lambda _, ordinal: failing(400) if ordinal % 2 else Reply()
    outcome, _ = judge(server, items(40), concurrency=1)
    assert outcome.stopped is None
    assert sum(verdict.state == "error" for verdict in outcome.verdicts) == 20


def test_rate_limits_lower_concurrency_and_fail_nothing(server: ChatServer) -> None:
    server.script = lambda _, ordinal: failing(429, **{"retry-after": "0.05"}) if ordinal <= 8 else Reply()
    outcome, _ = judge(server, items(30), concurrency=8)
    assert outcome.slowdowns == 1
    assert {verdict.state for verdict in outcome.verdicts} == {"judged"}


def test_a_rate_limit_without_end_becomes_an_error_when_patience_ends(server: ChatServer) -> None:
    server.script = lambda *_: failing(429, **{"retry-after": "3600"})
    outcome, _ = judge(server, items(1))
    assert outcome.verdicts[0].calls[-1].failure == "rate-limit"
    assert len(server.requests) == 1
    assert outcome.seconds < 5


def test_the_provider_is_waited_for_as_long_as_it_asks(server: ChatServer) -> None:
    server.script = lambda _, ordinal: failing(503, **{"retry-after": "0.3"}) if ordinal == 1 else Reply()
    outcome, _ = judge(server, items(1))
    first, second = outcome.verdicts[0].calls
    assert second.started_at - first.started_at >= 0.3


def test_a_call_has_a_time_limit(server: ChatServer) -> None:
    server.script = lambda *_: Reply(delay=3.0)
    outcome, _ = judge(server, items(1), timeout_seconds=0.2, policy=RetryPolicy(attempts=1))
    assert [call.failure for call in outcome.verdicts[0].calls] == ["timeout"]
    assert outcome.seconds < 3


def test_blanks_that_keep_a_connection_alive_do_not_outlast_the_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        threading.Thread(target=_drip, args=(listener,), daemon=True).start()
        with ChatClient(ClientSettings(url, KEY, timeout_seconds=0.3)) as client:
            attempt = client.complete("judge-1", "well?", {})
    assert attempt.failure is not None
    assert attempt.failure.name == "timeout"
    assert attempt.call.seconds < 2


def _drip(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n")
        try:
            for _ in range(100):
                connection.sendall(b"\n")
                time.sleep(0.05)
        except OSError:
            return


def test_a_stop_ends_in_good_order(server: ChatServer) -> None:
    stop = threading.Event()
    recorded: list[Verdict] = []

    def record(verdict: Verdict) -> None:
        recorded.append(verdict)
        stop.set()

    server.script = lambda *_: Reply(delay=0.05)
    outcome = judge_all(
        items(50),
        binary_protocol("judge-1", server.url),
        ClientSettings(server.url, KEY),
        record=record,
        concurrency=4,
        stop=stop,
    )
    assert outcome.stopped is not None
    assert len(recorded) == len(server.requests) == 50 - len(outcome.unjudged)
    assert 1 <= len(recorded) <= 8


def test_as_many_calls_as_wanted_are_in_flight_and_never_more(server: ChatServer) -> None:
    server.script = lambda *_: Reply(delay=0.1)
    judge(server, items(24), concurrency=8)
    assert server.most_in_flight == 8


def test_progress_is_told_from_the_callers_thread(server: ChatServer) -> None:
    seen: list[tuple[int, int]] = []
    threads: set[int] = set()

    def on_progress(done: int, total: int, verdict: Verdict) -> None:
        assert verdict.state == "judged"
        seen.append((done, total))
        threads.add(threading.get_ident())

    judge(server, items(5), on_progress=on_progress)
    assert seen == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]
    assert threads == {threading.get_ident()}


def test_an_error_of_the_recorder_is_the_callers(server: ChatServer) -> None:
    def record(_: Verdict) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        judge_all(items(3), binary_protocol("m", server.url), ClientSettings(server.url, KEY), record=record)


def test_items_that_cannot_be_judged_cost_no_call(server: ChatServer) -> None:
    protocol = longmemeval_protocol("judge-1", server.url)
    with pytest.raises(JudgeError, match="no rubric for questions of type 'single-hop'"):
        judge(server, items(3), protocol=protocol)
    with pytest.raises(JudgeError, match="stands twice"):
        judge(server, [item(1), item(1, "other")])
    with pytest.raises(JudgeError, match="concurrency"):
        judge(server, items(1), concurrency=0)
    assert server.requests == []


@pytest.mark.parametrize("key", ["", " ", "key\n", "clé", "two words"])
def test_a_key_that_cannot_be_one_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(JudgeError) as caught:
        ClientSettings("https://judge.example/v1", key)
    assert not key.strip() or key not in str(caught.value)


def test_the_key_is_in_no_representation() -> None:
    assert KEY not in repr(ClientSettings("https://judge.example/v1", KEY))


def test_a_brake_ends_waiting_from_inside_and_outside() -> None:
    outer = threading.Event()
    inside, outside = Brake(outer), Brake(outer)
    assert inside.wait(0.01) is False
    inside.pull()
    assert inside.wait(60) is True
    assert outside.pulled is False
    outer.set()
    assert outside.wait(60) is True
