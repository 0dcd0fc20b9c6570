"""A runtime with a memory system on a scripted model, for tests of what a memory system does.

Every test takes a workspace of its own, so that tests can share the runtime, which is slow to start.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripted_model import Reply, Request, ScriptedModel, ToolUse

from pytest_dshmem.harness.composition import Composition, Policy
from pytest_dshmem.harness.endpoint import Endpoint
from pytest_dshmem.harness.memory_system import MemorySystem, load_memory_system
from pytest_dshmem.harness.runtime import Runtime
from pytest_dshmem.harness.sandbox import IsolatedHome, Sandbox
from pytest_dshmem.harness.turn import Turn

BUNDLED = Path(__file__).parent.parent / "fixtures" / "memory"
MODEL = "scripted"
API_KEY = "a-key-that-must-stay-secret"
TURN_SECONDS = 60.0


def bundled_system(name: str, **config: Any) -> MemorySystem:
    """A bundled memory system, with some of its plugin's settings changed."""
    system = load_memory_system(name, BUNDLED)
    install = system.install.model_copy(update={"config": {**system.install.config, **config}})
    return system.model_copy(update={"install": install})


def in_turn(*replies: Reply) -> Callable[[Request], Reply]:
    """A model that gives these replies one after the other, and plain words ever after."""
    remaining = itertools.chain(replies, itertools.repeat(Reply(text="Fine.")))
    return lambda _request: next(remaining)


def update(**edit: Any) -> Reply:
    return Reply(tool_uses=(ToolUse("memory_update", edit),))


def commit(*edits: dict[str, Any]) -> Reply:
    return Reply(tool_uses=(ToolUse("memory_commit", {"edits": list(edits)}),))


class MemoryHome:
    """A home with a running memory system. `model.handler` decides what the model says."""

    def __init__(self, system: MemorySystem, home: IsolatedHome, model: ScriptedModel, runtime: Runtime):
        self.system = system
        self.model = model
        self.runtime = runtime
        self._home = home
        self._sessions = itertools.count(1)

    @property
    def memory(self) -> Path:
        return self.system.readable_roots(self._home.paths)[0]

    @property
    def dsh_home(self) -> Path:
        return self._home.paths.dsh_home

    def workspace(self, name: str) -> Path:
        folder = self._home.paths.workspace / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def session(self, workspace: Path) -> Iterator[str]:
        """A session in a workspace, disposed of at the end."""
        session_id = f"s{next(self._sessions)}"
        opening = {"sessionId": session_id, "role": "ingest", "cwd": str(workspace)}
        self.runtime.request("dshmem/open", opening)
        try:
            yield session_id
        finally:
            self.runtime.request("dshmem/dispose", {"sessionId": session_id})

    def turn(self, workspace: Path, *replies: Reply, prompt: str = "Go on.") -> Turn:
        """One turn in a fresh session, in which the model gives these replies."""
        self.model.handler = in_turn(*replies)
        with self.session(workspace) as session_id:
            return self.runtime.turn(session_id, prompt, TURN_SECONDS)

    def finished_session(self, workspace: Path, prompt: str, answer: str) -> str:
        self.model.handler = in_turn(Reply(text=answer))
        with self.session(workspace) as session_id:
            self.runtime.turn(session_id, prompt, TURN_SECONDS)
        return session_id

    def update(self, workspace: Path, **edit: Any) -> str:
        """What the tool `memory_update` answers to one edit."""
        self.turn(workspace, update(**edit))
        return self.last_request.tool_results[-1]

    @property
    def last_request(self) -> Request:
        return self.model.requests[-1]

    def folder(self, workspace: Path) -> Path:
        """The folder in which the reference plugin keeps a workspace's memory."""
        found = list((self.memory / "workspaces").glob(f"{workspace.name}-*"))
        assert len(found) == 1, found
        return found[0]

    def files(self) -> dict[str, bytes]:
        """Every file of the memory with its bytes."""
        files = (path for path in self.memory.rglob("*") if path.is_file())
        return {path.relative_to(self.memory).as_posix(): path.read_bytes() for path in files}

    def files_of(self, workspace: Path) -> dict[str, str]:
        """The files of one workspace's memory by name; none where it has no memory yet."""
        folders = (self.memory / "workspaces").glob(f"{workspace.name}-*")
        return {path.name: path.read_text("utf-8") for folder in folders for path in folder.iterdir()}

    def receipts(self, session_id: str) -> list[dict[str, Any]]:
        """The receipts that the reference plugin has left about a session."""
        folder = self.dsh_home / "memory-receipts"
        return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob(f"{session_id}.*.json"))]


@contextmanager
def memory_home(folder: Path, system: MemorySystem) -> Iterator[MemoryHome]:
    """Starts a home with a memory system; ends it, and its model, at the end."""
    home = Sandbox(folder / "sandbox").home("formation", "ingest")
    roots = system.readable_roots(home.paths)
    for root in roots:
        root.mkdir(parents=True)
    with ScriptedModel() as model:
        endpoint = Endpoint(api_key=API_KEY, base_url=model.url)
        composition = Composition(
            endpoint=endpoint,
            model=MODEL,
            policies={
                "ingest": Policy(tools=system.tools.ingest, read_roots=roots),
                "worker": Policy(tools=system.tools.worker),
            },
            memory_rows=system.patch_rows(home.paths, model=MODEL, provider=endpoint.provider),
            required_rows=system.rows,
        )
        with Runtime.start(home, composition) as runtime:
            yield MemoryHome(system, home, model, runtime)
