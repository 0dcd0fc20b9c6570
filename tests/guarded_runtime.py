"""Runtimes on a scripted model, for tests of what the harness may see, run, read, spend and leave behind."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scripted_model import Handler, Reply, Request, ScriptedModel

from pytest_dshmem.harness.composition import Composition, ModelRetries, Policy
from pytest_dshmem.harness.endpoint import Endpoint
from pytest_dshmem.harness.runtime import Deadlines, Runtime
from pytest_dshmem.harness.sandbox import IsolatedHome, Sandbox
from pytest_dshmem.harness.turn import Turn

API_KEY = "a-key-that-must-stay-secret"
MODEL = "scripted"
TURN_SECONDS = 30.0
FAST_RETRIES = ModelRetries(attempts=2, first_delay=0.05, longest_delay=0.2, idle_seconds=20.0)

Policies = Callable[[IsolatedHome], Mapping[str, Policy]]


@dataclass
class GuardedRuntime:
    """A running runtime. `model.handler` decides what the model says."""

    home: IsolatedHome
    model: ScriptedModel
    runtime: Runtime
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def turn(self, role: str, handler: Handler, *, prompt: str = "Go on.") -> tuple[Turn, list[Request]]:
        """One turn in a fresh session of a role, and the requests that the model got during it."""
        before = len(self.model.requests)
        self.model.handler = handler
        session_id = f"s{next(self._numbers)}"
        with self.runtime.session(session_id, role):
            turn = self.runtime.turn(session_id, prompt, TURN_SECONDS)
        return turn, self.model.requests[before:]

    @property
    def pid(self) -> int:
        return int(self.runtime.request("dshmem/status", {})["pid"])


@contextmanager
def guarded_runtime(
    folder: Path,
    policies: Policies,
    *,
    retries: ModelRetries = FAST_RETRIES,
    deadlines: Deadlines | None = None,
) -> Iterator[GuardedRuntime]:
    """Starts a runtime without a memory system, whose sessions have these policies."""
    home = Sandbox(folder / "sandbox").home("formation", "ingest")
    with ScriptedModel() as model:
        composition = Composition(
            endpoint=Endpoint(api_key=API_KEY, base_url=model.url),
            model=MODEL,
            policies=policies(home),
            retries=retries,
        )
        with Runtime.start(home, composition, deadlines) as runtime:
            yield GuardedRuntime(home, model, runtime)


def one_after_the_other(*replies: Reply) -> Handler:
    """A model that gives these replies in order, and plain words ever after."""
    remaining = itertools.chain(replies, itertools.repeat(Reply(text="That is all.")))
    return lambda _request: next(remaining)


def tree_of(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Everything below a folder: kind, size and time of change by path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        kind = "folder" if path.is_dir() else "file"
        found[path.relative_to(folder).as_posix()] = (kind, state.st_size, state.st_mtime_ns)
    return found


def files_holding(secret: str, folder: Path) -> list[Path]:
    """The files below a folder that hold a text, whatever they are."""
    needle = secret.encode()
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return [path for path in files if needle in path.read_bytes()]


def runtimes_under(folder: Path) -> list[int]:
    """The processes whose DSH home lies below a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"DSH_HOME={folder}".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found
