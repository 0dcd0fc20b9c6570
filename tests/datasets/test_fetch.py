"""Downloads against a server on loopback: cut, resumed, corrupted, refused."""

import hashlib
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from filelock import FileLock

from pytest_dshmem.datasets import fetch as fetching
from pytest_dshmem.datasets.catalog import Published
from pytest_dshmem.datasets.fetch import fetch, verify
from pytest_dshmem.datasets.views import DataError

CONTENT = random.Random(1).randbytes(1_000_000)


@dataclass
class Server:
    """What the server gives and how it misbehaves, and the ranges that it was asked for."""

    content: bytes = CONTENT
    knows_ranges: bool = True
    status: int | None = None
    cut_after: list[int] = field(default_factory=list)
    asked: list[str | None] = field(default_factory=list)
    url: str = ""

    @property
    def entry(self) -> Published:
        digest = hashlib.sha256(CONTENT).hexdigest()
        return Published("locomo", "locomo", "locomo10.json", self.url, len(CONTENT), digest, "none")

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted = handler.headers.get("Range")
        self.asked.append(wanted)
        if self.status is not None:
            handler.send_error(self.status)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.knows_ranges else 0
        body = self.content[start:]
        handler.send_response(206 if start else 200)
        if start:
            last, total = len(self.content) - 1, len(self.content)
            handler.send_header("Content-Range", f"bytes {start}-{last}/{total}")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        # A client that refuses what it is offered hangs up at once.
        with suppress(ConnectionError):
            handler.wfile.write(body[: self.cut_after.pop(0)] if self.cut_after else body)
        handler.close_connection = True


@pytest.fixture
def server() -> Iterator[Server]:
    behaviour = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            behaviour.answer(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        behaviour.url = f"http://127.0.0.1:{listener.server_port}/file"
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield behaviour
        listener.shutdown()
        thread.join()


def ignore(arrived: int, total: int) -> None:
    del arrived, total


def test_a_file_is_fetched_with_progress_and_not_fetched_twice(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = fetch(server.entry, tmp_path / "new", lambda *at: seen.append(at))
    assert path == tmp_path / "new" / "locomo10.json"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert seen == sorted(seen)
    assert fetch(server.entry, tmp_path / "new", ignore) == path
    assert server.asked == [None]


def test_a_cut_connection_is_resumed_where_it_was_cut(server: Server, tmp_path: Path) -> None:
    server.cut_after = [300_000, 400_000]
    assert fetch(server.entry, tmp_path, ignore).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=700000-"]


def test_a_killed_fetch_is_resumed_by_the_next(server: Server, tmp_path: Path) -> None:
    (tmp_path / "locomo10.json.part").write_bytes(CONTENT[:123_456])
    assert fetch(server.entry, tmp_path, ignore).read_bytes() == CONTENT
    assert server.asked == ["bytes=123456-"]
    assert not (tmp_path / "locomo10.json.part").exists()


def test_a_part_that_is_complete_is_only_checked(server: Server, tmp_path: Path) -> None:
    (tmp_path / "locomo10.json.part").write_bytes(CONTENT)
    assert fetch(server.entry, tmp_path, ignore).read_bytes() == CONTENT
    assert server.asked == []


def test_a_part_that_is_too_long_is_begun_anew(server: Server, tmp_path: Path) -> None:
    (tmp_path / "locomo10.json.part").write_bytes(CONTENT + b"more")
    assert fetch(server.entry, tmp_path, ignore).read_bytes() == CONTENT
    assert server.asked == [None]


def test_a_server_without_ranges_restarts_cleanly(server: Server, tmp_path: Path) -> None:
    server.knows_ranges = False
    server.cut_after = [300_000]
    assert fetch(server.entry, tmp_path, ignore).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-"]


def test_a_wrong_hash_is_kept_aside_and_never_used(server: Server, tmp_path: Path) -> None:
    (tmp_path / "locomo10.json.part").write_bytes(b"x" * 1000)
    with pytest.raises(DataError, match="not the published"):
        fetch(server.entry, tmp_path, ignore)
    assert not (tmp_path / "locomo10.json").exists()
    assert (tmp_path / "locomo10.json.wrong-hash").stat().st_size == len(CONTENT)
    assert fetch(server.entry, tmp_path, ignore).read_bytes() == CONTENT


def test_another_size_is_refused_before_it_is_downloaded(server: Server, tmp_path: Path) -> None:
    server.content = CONTENT + b"more"
    with pytest.raises(DataError, match=r"offers 1000004 bytes, not the published 1000000"):
        fetch(server.entry, tmp_path, ignore)
    (tmp_path / "locomo10.json.part").write_bytes(CONTENT[:10])
    with pytest.raises(DataError, match="offers bytes 10-1000003/1000004"):
        fetch(server.entry, tmp_path, ignore)


@pytest.mark.parametrize(("status", "requests"), [(404, 1), (416, 1), (503, 3)])
def test_a_refusal_names_the_status_and_the_manual_way(
    server: Server, tmp_path: Path, status: int, requests: int
) -> None:
    server.status = status
    with pytest.raises(DataError, match=f"answers {status}") as raised:
        fetch(server.entry, tmp_path, ignore)
    assert server.url in str(raised.value)
    assert f"dshmem data verify --in {tmp_path}" in str(raised.value)
    assert len(server.asked) == requests


def test_a_server_that_always_cuts_at_once_ends_in_an_error(server: Server, tmp_path: Path) -> None:
    server.cut_after = [0] * 9
    with pytest.raises(DataError, match="the connection was cut"):
        fetch(server.entry, tmp_path, ignore)
    assert len(server.asked) == 3


def test_a_closed_network_is_one_sentence(server: Server, tmp_path: Path) -> None:
    nowhere = replace(server.entry, url="http://127.0.0.1:9/file")
    with pytest.raises(DataError, match=r"could not be downloaded: .* by other means"):
        fetch(nowhere, tmp_path, ignore)


def test_a_file_of_another_hash_is_not_overwritten(server: Server, tmp_path: Path) -> None:
    (tmp_path / "locomo10.json").write_bytes(b"mine")
    with pytest.raises(DataError, match="move it away"):
        fetch(server.entry, tmp_path, ignore)
    assert (tmp_path / "locomo10.json").read_bytes() == b"mine"
    assert server.asked == []


def test_two_fetches_of_one_file_do_not_meet(server: Server, tmp_path: Path) -> None:
    with (
        FileLock(tmp_path / "locomo10.json.lock"),
        pytest.raises(DataError, match=r"Another fetch .* is under way"),
    ):
        fetch(server.entry, tmp_path, ignore)
    assert server.asked == []


def test_a_folder_that_cannot_be_is_one_sentence(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        fetch(server.entry, tmp_path / "file", ignore)


def test_verify_tells_good_wrong_and_absent(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = server.entry
    wrong = replace(good, name="other", file_name="other.json")
    absent = replace(good, name="third", file_name="third.json")
    monkeypatch.setattr(fetching, "PUBLISHED", (good, wrong, absent))
    (tmp_path / "locomo").mkdir()
    (tmp_path / "locomo" / "locomo10.json").write_bytes(CONTENT)
    (tmp_path / "other.json").write_bytes(CONTENT[:-1] + b"?")
    found = verify(tmp_path, {})
    assert [status.state for status in found] == ["good", "wrong hash", "absent"]
    assert found[0].path == tmp_path / "locomo" / "locomo10.json"
