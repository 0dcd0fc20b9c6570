"""Every trigger that a profile can name, against a host that is not there: what counts as which receipt."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pytest_dshmem.harness.companions import Companions
from pytest_dshmem.harness.consolidation import Consolidator, Receipt
from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.harness.memory_system import MemorySystem
from pytest_dshmem.harness.paths import HomePaths

SECRET = "sk-a-secret-of-the-test"
STATUS = {
    "kind": "status",
    "status": "result.status",
    "reason": "result.why",
    "committed": ["done"],
    "no_change": ["same"],
    "truncated": ["cut"],
    "failed": ["broken"],
}


class Host:
    """A host whose runtime answers as the test says."""

    def __init__(self, folder: Path, answer: Callable[[str, dict[str, Any]], dict[str, Any]]) -> None:
        self.paths = HomePaths(folder / "home", folder / "dsh-home", folder / "workspace")
        for path in (self.paths.home, self.paths.dsh_home, self.paths.workspace):
            path.mkdir()
        self.environment: Mapping[str, str] = {"PATH": "/usr/bin:/bin", "MODEL_API_KEY": SECRET}
        self.dsh_command = (
            sys.executable,
            "-c",
            "import json, sys; print(json.dumps({'argv': sys.argv[1:]}))",
        )
        self.patches = (Path("/patch.yml"),)
        self.companions = Companions()
        self.asked: list[tuple[str, dict[str, Any], float]] = []
        self._answer = answer

    def request(self, method: str, params: dict[str, Any], timeout: float) -> dict[str, Any]:
        self.asked.append((method, params, timeout))
        return self._answer(method, params)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, lambda _method, _params: {"result": {"status": "done"}})


def system(consolidation: dict[str, Any]) -> MemorySystem:
    return MemorySystem.model_validate(
        {
            "name": "sample",
            "title": "A sample",
            "version": "1",
            "verified": True,
            "rows": ["sample"],
            "install": {"kind": "package", "package": "sample", "version": "1.0.0"},
            "state": [{"name": "memory", "base": "dsh-home", "path": "memory", "kind": "markdown"}],
            "memory_roots": ["memory"],
            "writes_during_qa": False,
            "redirect_home": False,
            "tools": {"ingest": ["read"], "qa": ["read"]},
            "consolidation": consolidation,
            "usage": {"metering": "unmetered"},
        }
    )


def jsonrpc(**changes: Any) -> MemorySystem:
    return system(
        {
            "trigger": "jsonrpc",
            "method": "memory/tidy",
            "timeout_seconds": 7.0,
            "evidence": {**STATUS, **changes},
        }
    )


def command(*arguments: str, evidence: dict[str, Any] | None = None, seconds: float = 20.0) -> MemorySystem:
    return system(
        {
            "trigger": "command",
            "command": list(arguments),
            "timeout_seconds": seconds,
            "evidence": evidence or {"kind": "exit-status", "no_change": [4], "truncated": [5]},
        }
    )


def consolidate(memory_system: MemorySystem, host: Host) -> Receipt:
    with Consolidator(memory_system, host) as consolidator:
        return consolidator.consolidate("s1")


def test_a_system_without_consolidation_says_so(host: Host) -> None:
    with pytest.raises(HarnessError, match="the memory system sample has no consolidation"):
        Consolidator(system({"trigger": "none"}), host)


@pytest.mark.parametrize(
    ("word", "state"),
    [("done", "committed"), ("same", "no-change"), ("cut", "truncated"), ("broken", "failed")],
)
def test_a_status_word_decides(tmp_path: Path, word: str, state: str) -> None:
    reply = {"result": {"status": word, "why": "because"}}
    host = Host(tmp_path, lambda _method, _params: reply)
    receipt = consolidate(jsonrpc(), host)
    assert (receipt.state, receipt.raw, receipt.reason) == (state, reply, "because")
    assert host.asked == [("memory/tidy", {"sessionId": "s1"}, 7.0)]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"result": {"status": "hm"}}, "the status word 'hm', which the profile does not know"),
        ({"result": {"status": True}}, "no status word at 'result.status'"),
        ({"result": "done"}, "no status word at 'result.status'"),
        ({}, "no status word at 'result.status'"),
    ],
)
def test_what_is_not_known_is_a_failure(tmp_path: Path, reply: dict[str, Any], reason: str) -> None:
    receipt = consolidate(jsonrpc(), Host(tmp_path, lambda _method, _params: reply))
    assert receipt.state == "failed"
    assert reason in str(receipt.reason)
    assert receipt.raw == reply


def test_a_refused_request_is_a_failure(tmp_path: Path) -> None:
    def refuse(_method: str, _params: dict[str, Any]) -> dict[str, Any]:
        raise HarnessError("memory/tidy was refused: no such method")

    receipt = consolidate(jsonrpc(), Host(tmp_path, refuse))
    assert (receipt.state, receipt.reason) == ("failed", "memory/tidy was refused: no such method")


class Lost(Exception):
    pass


@pytest.mark.parametrize("wrapped", [False, True])
def test_no_answer_in_time_is_a_timeout(tmp_path: Path, wrapped: bool) -> None:
    def be_silent(_method: str, _params: dict[str, Any]) -> dict[str, Any]:
        if not wrapped:
            raise TimeoutError
        raise Lost from TimeoutError()

    receipt = consolidate(jsonrpc(), Host(tmp_path, be_silent))
    assert (receipt.state, receipt.reason) == ("timeout", "no answer within 7 s")


def test_a_lost_runtime_is_not_a_receipt(tmp_path: Path) -> None:
    def die(_method: str, _params: dict[str, Any]) -> dict[str, Any]:
        raise Lost("gone")

    with pytest.raises(Lost):
        consolidate(jsonrpc(), Host(tmp_path, die))


def test_secrets_are_masked_in_receipts(tmp_path: Path) -> None:
    reply = {"result": {"status": "broken", "why": f"key {SECRET} refused"}, "log": [f"{SECRET}!"]}
    receipt = consolidate(jsonrpc(), Host(tmp_path, lambda _method, _params: reply))
    assert receipt.reason == "key *** refused"
    assert SECRET not in repr(receipt)


@pytest.mark.parametrize(
    ("status", "state"), [(0, "committed"), (4, "no-change"), (5, "truncated"), (1, "failed"), (77, "failed")]
)
def test_an_exit_status_decides(host: Host, status: int, state: str) -> None:
    script = f"echo working; echo 'sorry: '$MODEL_API_KEY >&2; exit {status}"
    receipt = consolidate(command("sh", "-c", script), host)
    assert receipt.state == state
    said = f"the command ended with status {status}: sorry: ***"
    assert receipt.reason == (None if state in ("committed", "no-change") else said)


def test_a_command_gets_the_session_and_the_way_to_start_dsh(host: Host) -> None:
    evidence = {"kind": "status", "status": "argv", "committed": ["x"]}
    arguments = ("{dsh}", "--profile", "sdk", "{patches}", "{session_id}", "{memory_root}/x")
    receipt = consolidate(command(*arguments, evidence=evidence), host)
    assert receipt.raw == {
        "argv": ["--profile", "sdk", "--patch", "/patch.yml", "s1", "$SANDBOX/dsh-home/memory/x"]
    }
    assert receipt.state == "failed", "a list is no status word"


def test_a_command_may_answer_with_a_status_on_its_last_line(host: Host) -> None:
    script = """echo progress; echo '{"result": {"status": "same"}}'"""
    assert consolidate(command("sh", "-c", script, evidence=STATUS), host).state == "no-change"
    receipt = consolidate(command("sh", "-c", "echo done", evidence=STATUS), host)
    assert (receipt.state, receipt.reason) == ("failed", "the command did not answer with a JSON object")


def test_a_command_that_does_not_end_is_killed_with_its_children(host: Host) -> None:
    started = time.monotonic()
    receipt = consolidate(command("sh", "-c", "sleep 60 & sleep 60", seconds=0.3), host)
    assert receipt.state == "timeout"
    assert time.monotonic() - started < 10


def test_a_command_that_is_not_there_is_a_failure(host: Host) -> None:
    receipt = consolidate(command("/nowhere/tidy"), host)
    assert (receipt.state, receipt.reason) == (
        "failed",
        "the command /nowhere/tidy cannot be run: No such file or directory",
    )


@contextmanager
def listener(
    status: int, body: bytes, delay: float = 0.0
) -> Iterator[tuple[int, list[tuple[str, str, Any]]]]:
    """A loopback server that gives one answer to everything, and keeps what it was asked."""
    asked: list[tuple[str, str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append((self.path, self.headers.get("authorization", ""), sent))
            time.sleep(delay)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()


def http_system(seconds: float = 10.0) -> MemorySystem:
    return system(
        {
            "trigger": "http",
            "endpoint_file": "{dsh_home}/endpoint.json",
            "route": "/tidy",
            "timeout_seconds": seconds,
            "evidence": STATUS,
        }
    )


def leave_endpoint(host: Host, text: str) -> None:
    (host.paths.dsh_home / "endpoint.json").write_text(text, "utf-8")


def test_a_listener_is_asked_with_the_token_it_left(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with listener(200, b'{"result": {"status": "done"}}') as (port, asked):
        leave_endpoint(host, json.dumps({"port": port, "token": "sesame"}))
        assert consolidate(http_system(), host).state == "committed"
    assert asked == [("/tidy", "Bearer sesame", {"sessionId": "s1"})]


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (500, b"out of order", "/tidy answered with HTTP 500: out of order"),
        (200, b"fine", "/tidy did not answer with a JSON object"),
        (200, b"[]", "/tidy did not answer with a JSON object"),
    ],
)
def test_a_bad_answer_is_a_failure(host: Host, status: int, body: bytes, reason: str) -> None:
    with listener(status, body) as (port, _asked):
        leave_endpoint(host, json.dumps({"port": port}))
        receipt = consolidate(http_system(), host)
    assert (receipt.state, receipt.reason) == ("failed", reason)


def test_a_listener_that_is_too_slow_is_a_timeout(host: Host) -> None:
    with listener(200, b"{}", delay=2.0) as (port, _asked):
        leave_endpoint(host, json.dumps({"port": port}))
        receipt = consolidate(http_system(seconds=0.2), host)
    assert receipt.state == "timeout"


def test_nobody_listening_is_a_failure(host: Host) -> None:
    with listener(200, b"{}") as (port, _asked):
        pass
    leave_endpoint(host, json.dumps({"port": port}))
    receipt = consolidate(http_system(), host)
    assert receipt.state == "failed"
    assert "/tidy cannot be reached" in str(receipt.reason)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"port": "x"}', '{"port": null}'])
def test_a_bad_endpoint_file_is_a_failure(host: Host, text: str) -> None:
    leave_endpoint(host, text)
    receipt = consolidate(http_system(), host)
    assert receipt.reason == "the endpoint file endpoint.json does not hold a JSON object with a port"


def test_a_missing_endpoint_file_is_a_failure(host: Host) -> None:
    receipt = consolidate(http_system(), host)
    assert receipt.reason == "the endpoint file endpoint.json cannot be read: No such file or directory"


def automatic(evidence: dict[str, Any], seconds: float = 5.0) -> MemorySystem:
    return system({"trigger": "automatic", "timeout_seconds": seconds, "evidence": evidence})


SUMMARIES = {"kind": "files", "base": "dsh-home", "glob": "memory/summaries/*.md"}


def write(host: Host, name: str, text: str) -> None:
    file = host.paths.dsh_home / "memory" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


def test_a_file_that_appeared_since_the_opening_is_evidence(host: Host) -> None:
    write(host, "summaries/old.md", "old")
    with Consolidator(automatic(SUMMARIES), host) as consolidator:
        write(host, "summaries/s1.md", "new")
        assert consolidator.consolidate("s1").state == "committed"


def test_each_consolidation_needs_evidence_of_its_own(host: Host) -> None:
    with Consolidator(automatic(SUMMARIES, seconds=0.3), host) as consolidator:
        write(host, "summaries/all.md", "one")
        assert consolidator.consolidate("s1").state == "committed"
        assert consolidator.consolidate("s2").state == "timeout"
        write(host, "summaries/all.md", "one and two")
        assert consolidator.consolidate("s2").state == "committed"


def test_evidence_that_comes_late_is_waited_for(host: Host) -> None:
    with Consolidator(automatic(SUMMARIES), host) as consolidator:
        late = threading.Timer(0.3, write, (host, "summaries/s1.md", "new"))
        late.start()
        assert consolidator.consolidate("s1").state == "committed"
        late.join()


def test_no_evidence_is_a_timeout_and_never_a_success(host: Host) -> None:
    write(host, "summaries/old.md", "old")
    write(host, "elsewhere.md", "x")
    receipt = consolidate(automatic(SUMMARIES, seconds=0.2), host)
    assert (receipt.state, receipt.raw) == ("timeout", None)
    assert "no file memory/summaries/*.md under dsh-home has appeared or changed" in str(receipt.reason)


def test_a_state_that_has_changed_must_come_to_rest(host: Host) -> None:
    quiet = automatic({"kind": "quiet", "seconds": 0.4}, seconds=3.0)
    assert consolidate(automatic({"kind": "quiet", "seconds": 0.1}, seconds=0.3), host).state == "timeout"

    stop = threading.Event()

    def keep_writing() -> None:
        count = 0
        while not stop.wait(0.1):
            count += 1
            write(host, "notes.md", "x" * count)

    with Consolidator(quiet, host) as consolidator:
        writer = threading.Thread(target=keep_writing)
        writer.start()
        threading.Timer(0.8, stop.set).start()
        started = time.monotonic()
        receipt = consolidator.consolidate("s1")
        writer.join()
    assert receipt.state == "committed"
    assert time.monotonic() - started > 1.0, "it waited for the writer to stop"
