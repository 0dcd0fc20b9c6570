"""The web profile as a process of ours, and the reference plugin's route on it."""

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from memory_home import MemoryHome, bundled_system, memory_home

from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.harness.web_profile import WebCommand, WebProfile


def command(*arguments: str, folder: Path, seconds: float = 30.0) -> WebCommand:
    """A stand-in for `dsh`; the options of the web profile come after its own arguments."""
    return WebCommand(arguments, (), os.environ, folder, ("wanted-row",), seconds)


def script(folder: Path, text: str) -> str:
    file = folder / "dsh.sh"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o700)
    return str(file)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc").is_dir() else True


def test_the_address_is_kept_without_its_token(tmp_path: Path) -> None:
    program = script(tmp_path, 'echo "dsh web: http://127.0.0.1:4711/?token=sesame"; exec sleep 60')
    with WebProfile(command(program, folder=tmp_path)) as web:
        assert web.address() == "http://127.0.0.1:4711"
        assert "sesame" not in repr(vars(web))


def test_closing_leaves_no_process_behind(tmp_path: Path) -> None:
    program = script(
        tmp_path, 'sleep 60 & echo $! > child; echo "http://127.0.0.1:4711/"; trap "" TERM; wait'
    )
    web = WebProfile(command(program, folder=tmp_path))
    web.address()
    child = int((tmp_path / "child").read_text())
    assert is_alive(child)
    web.close()
    deadline = time.monotonic() + 5
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(child)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('echo "port in use" >&2; exit 3', "the web profile did not start: port in use"),
        ("exit 3", "the web profile did not start: it ended with status 3"),
        ("exec sleep 60", "the web profile did not start: it printed no address within 1 s"),
        (
            'echo "wanted-row (p): failed" >&2; sleep 0.3; echo "http://127.0.0.1:4711/"; exec sleep 60',
            r"not active in the web profile: wanted-row \(p\): failed",
        ),
    ],
)
def test_a_profile_that_does_not_come_up_is_an_error(tmp_path: Path, text: str, reason: str) -> None:
    web = WebProfile(command(script(tmp_path, text), folder=tmp_path, seconds=1.0))
    with pytest.raises(HarnessError, match=reason):
        web.address()


def test_a_command_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="did not start: No such file or directory"):
        WebProfile(command(str(tmp_path / "nothing"), folder=tmp_path)).address()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryHome]:
    with memory_home(tmp_path_factory.mktemp("web"), bundled_system("reference-web")) as started:
        yield started


@pytest.fixture(scope="module")
def web(home: MemoryHome) -> Iterator[WebProfile]:
    runtime = home.runtime
    rows = (*home.system.rows, "dshmem-guard")
    with WebProfile(
        WebCommand(
            runtime.dsh_command, runtime.patches, runtime.environment, home.workspace("w"), rows, 120.0
        )
    ) as started:
        yield started


def refusal(url: str, method: str, content_type: str, body: bytes) -> tuple[int, str]:
    request = urllib.request.Request(url, body, {"content-type": content_type}, method=method)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    with refused.value:
        return refused.value.code, json.loads(refused.value.read())["error"]


@pytest.mark.runtime
def test_the_route_takes_json_posts_only(web: WebProfile) -> None:
    url = f"{web.address()}/memory/consolidate"
    assert refusal(url, "GET", "application/json", b"") == (405, "use POST")
    assert refusal(url, "POST", "text/plain", b"{}") == (415, "send application/json")
    needs_session = (400, "sessionId must name a finished session")
    assert refusal(url, "POST", "application/json", b"{}") == needs_session
    assert refusal(url, "POST", "application/json", b'{"sessionId": 3}') == needs_session
    assert refusal(url, "POST", "application/json", b"{")[0] == 400
    too_large = (400, "the body is larger than 4096 bytes")
    assert refusal(url, "POST", "application/json", b" " * 5000) == too_large


@pytest.mark.runtime
def test_a_server_that_was_killed_is_started_anew(web: WebProfile) -> None:
    web.address()
    assert web.pid is not None
    os.killpg(web.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while web.pid is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert refusal(f"{web.address()}/memory/consolidate", "GET", "application/json", b"")[0] == 405
