"""Isolation on the real runtime: nothing of the user comes in, and nothing is left or sent elsewhere."""

import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from guarded_runtime import (
    API_KEY,
    GuardedRuntime,
    files_holding,
    guarded_runtime,
    one_after_the_other,
    tree_of,
)
from memory_home import bundled_system
from memory_home import memory_home as start_memory_home
from scripted_model import Reply, ToolUse

from pytest_dshmem.harness.composition import Policy
from pytest_dshmem.harness.sandbox import IsolatedHome

pytestmark = pytest.mark.runtime

FOREIGN_SECRET = "a-secret-of-somebody-else"
POISON = "instructions-that-no-benchmark-may-see"


@contextmanager
def trap() -> Iterator[tuple[str, list[bytes]]]:
    """A proxy on loopback that keeps the first bytes of whoever connects, and never answers."""
    heard: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(1.0)
                try:
                    heard.append(connection.recv(200))
                except OSError:
                    heard.append(b"")

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", heard
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5.0)


def decoy_home(folder: Path) -> Path:
    """The home of a user who has DSH set up, with things in it that must neither be used nor changed."""
    home = folder / "user"
    profile = home / ".dsh" / "profiles" / "sdk"
    profile.mkdir(parents=True)
    (home / ".dsh" / ".credentials.yaml").write_text(
        f"refs:\n  DEEPSEEK_API_KEY: {FOREIGN_SECRET}\n", "utf-8"
    )
    (home / ".dsh" / ".env").write_text(f"DEEPSEEK_API_KEY={FOREIGN_SECRET}\n", "utf-8")
    for place in (home / ".dsh", home):
        (place / "AGENTS.md").write_text(POISON + "\n", "utf-8")
    return home


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A user's home, a working folder, a proxy and credentials in the environment of this process."""
    folder = tmp_path_factory.mktemp("isolation")
    working = folder / "working"
    working.mkdir()
    (working / ".env").write_text("DSH_HOME=/nowhere\n", "utf-8")
    (working / "AGENTS.md").write_text(POISON + "\n", "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(decoy_home(folder)))
        patch.setenv("OPENAI_API_KEY", FOREIGN_SECRET)
        patch.setenv("AWS_SECRET_ACCESS_KEY", FOREIGN_SECRET)
        patch.setenv("DSH_SOMETHING", FOREIGN_SECRET)
        patch.setenv("odd.name-of-a-key", FOREIGN_SECRET)
        patch.delenv("DSH_HOME", raising=False)
        patch.chdir(working)
        yield folder


@pytest.fixture(scope="module")
def proxy_heard(surroundings: Path) -> Iterator[list[bytes]]:
    assert surroundings.is_dir()
    with trap() as (address, heard), pytest.MonkeyPatch.context() as patch:
        for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
            patch.setenv(name, address)
        patch.setenv("NO_PROXY", "127.0.0.1,localhost")
        patch.setenv("no_proxy", "127.0.0.1,localhost")
        yield heard


@pytest.fixture(scope="module")
def before(surroundings: Path) -> dict[str, dict[str, tuple[str, int, int]]]:
    return {name: tree_of(surroundings / name) for name in ("user", "working")}


@pytest.fixture(scope="module")
def guarded(surroundings: Path, before: object, proxy_heard: list[bytes]) -> Iterator[GuardedRuntime]:
    assert before
    assert proxy_heard == []

    def policies(home: IsolatedHome) -> dict[str, Policy]:
        return {"qa": Policy(tools=("read",), read_roots=(home.paths.workspace,))}

    with guarded_runtime(surroundings, policies) as started:
        started.turn("qa", one_after_the_other(Reply(tool_uses=(ToolUse("read", {"file_path": "a"}),))))
        yield started


def test_the_environment_holds_the_model_credential_and_no_other(guarded: GuardedRuntime) -> None:
    environment = Path(f"/proc/{guarded.pid}/environ").read_text("utf-8").split("\0")

    assert f"DEEPSEEK_API_KEY={API_KEY}" in environment
    assert [variable for variable in environment if FOREIGN_SECRET in variable] == []
    names = {variable.partition("=")[0] for variable in environment}
    assert not names & {"OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "DSH_SOMETHING"}


def test_home_and_all_that_depends_on_it_lie_in_the_sandbox(
    guarded: GuardedRuntime, surroundings: Path
) -> None:
    environment = Path(f"/proc/{guarded.pid}/environ").read_text("utf-8").split("\0")
    values = dict(variable.split("=", 1) for variable in environment if "=" in variable)

    for name in ("HOME", "DSH_HOME", "TMPDIR", "PKG_NATIVE_CACHE_PATH"):
        assert Path(values[name]).is_relative_to(surroundings / "sandbox"), name
    launched_in = Path(f"/proc/{guarded.pid}/cwd").resolve()
    assert launched_in.is_relative_to(surroundings / "sandbox")
    assert list(launched_in.iterdir()) == [], "no .env of anybody's is found there"


def test_the_credential_is_in_no_argument_and_in_no_file(guarded: GuardedRuntime, surroundings: Path) -> None:
    arguments = Path(f"/proc/{guarded.pid}/cmdline").read_bytes()

    assert b"--patch" in arguments
    assert API_KEY.encode() not in arguments
    assert guarded.model.requests[0].headers["x-api-key"] == API_KEY, "it was there to be written down"
    assert files_holding(API_KEY, surroundings / "sandbox") == []
    assert files_holding(FOREIGN_SECRET, surroundings / "sandbox") == []


def test_every_folder_of_the_sandbox_is_private(guarded: GuardedRuntime, surroundings: Path) -> None:
    paths = guarded.home.paths
    folders = (paths.home, paths.dsh_home, paths.workspace, guarded.home.launch_folder)
    for folder in (*folders, *guarded.home.launch_folder.parents):
        if folder.is_relative_to(surroundings / "sandbox"):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder


def test_no_instructions_of_the_users_reach_the_model(guarded: GuardedRuntime) -> None:
    assert POISON not in str([request.body for request in guarded.model.requests])


def test_a_user_s_home_and_working_folder_stay_as_they_were(
    guarded: GuardedRuntime, surroundings: Path, before: dict[str, dict[str, tuple[str, int, int]]]
) -> None:
    assert ".dsh/.credentials.yaml" in before["user"]
    assert guarded.model.requests, "something was done in between"
    assert {name: tree_of(surroundings / name) for name in before} == before
    assert {entry.name for entry in surroundings.iterdir()} == {"user", "working", "sandbox"}


def test_nobody_but_the_model_endpoint_is_contacted(
    guarded: GuardedRuntime, proxy_heard: list[bytes]
) -> None:
    assert len(guarded.model.requests) >= 2
    assert proxy_heard == []
    # Connections that are open now lead to the model, and to nobody else.
    port = guarded.model.url.rsplit(":", 1)[1].split("/")[0]
    assert open_ports(guarded.pid) <= {int(port)}


def test_a_memory_system_writes_inside_its_sandbox_only(
    surroundings: Path, before: dict[str, dict[str, tuple[str, int, int]]], tmp_path: Path
) -> None:
    with start_memory_home(tmp_path, bundled_system("reference")) as home:
        workspace = home.workspace("w")
        session = home.finished_session(workspace, "I moved to Porto.", "Noted.")
        home.update(
            workspace, scope="workspace", name="porto", description="Moves", mode="append", content="Porto."
        )
        home.runtime.request("memory/consolidate", {"sessionId": session})
        assert len(home.files()) > 1

    assert {name: tree_of(surroundings / name) for name in before} == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"sandbox"}
    assert files_holding(API_KEY, tmp_path) == []


def open_ports(pid: int) -> set[int]:
    """The remote ports of a process's established TCP connections, which stand in the kernel's tables."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[len("socket:[") : -1])
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text("ascii").splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes and fields[3] == "01":
                ports.add(int(fields[2].split(":")[1], 16))
    return ports
