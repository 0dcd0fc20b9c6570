"""A DeepSeek Harness runtime that we drive but do not trust: fail-closed, bounded in time, reaped."""

import contextlib
import os
import re
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict

from pytest_dshmem.harness.calls import CallLog
from pytest_dshmem.harness.companions import Companions
from pytest_dshmem.harness.composition import (
    Composition,
    child_environment,
    inherited_environment,
    write_launcher,
)
from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.harness.masking import masked
from pytest_dshmem.harness.paths import HomePaths
from pytest_dshmem.harness.sandbox import IsolatedHome
from pytest_dshmem.harness.turn import Turn, TurnFailure, read_turn

if TYPE_CHECKING:
    from deepseek_harness import DeepSeekHarness
    from deepseek_harness.models import Notification

REQUEST_SECONDS = 30.0
GRACE_SECONDS = 10.0
INACTIVE_WORDS = "did not activate"
REQUEST_EVENT = "request/header"
_FILE_URL = re.compile(r"file://\S*?([^/\s()]+)(?=[\s()]|$)")


class RuntimeLost(Exception):
    """The runtime died under a session that did nothing wrong; the session may be tried again elsewhere."""


class TurnTimeout(Exception):
    """A turn did not end in time, even after the runtime was told to cancel it; the runtime is dead."""


class Answer(BaseModel):
    """Any JSON object that the runtime answers with."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Limits in seconds: for a start, and for a request that does no model work."""

    start: float = 120.0
    request: float = REQUEST_SECONDS
    grace: float = GRACE_SECONDS


class Runtime:
    """One runtime process on one isolated home. Sessions may run in many threads at once."""

    def __init__(self, home: IsolatedHome, composition: Composition, deadlines: Deadlines) -> None:
        self._home = home
        self._composition = composition
        self._deadlines = deadlines
        self._harness = _new_harness(home, composition, deadlines)
        self._watch = TurnWatch(self._end_at_once)
        self._pid: int | None = None
        self._killed = False
        self._ended = False
        self.calls = CallLog(home.calls_file)
        self.companions = Companions()
        self._entrance = Entrance()

    @classmethod
    def start(
        cls,
        home: IsolatedHome,
        composition: Composition,
        deadlines: Deadlines | None = None,
        on_birth: Callable[["Runtime"], None] = lambda _runtime: None,
    ) -> "Runtime":
        """Starts a runtime and checks that it is the one that was asked for.

        `on_birth` gets the runtime before it starts, so that others can kill it meanwhile. Raises
        HarnessError where the guard, the memory system or any other row is not active, and RuntimeLost
        where it was killed.
        """
        nonce = secrets.token_hex(8)
        composition.write_patch(home, nonce)
        write_launcher(home, runtime_command())
        for left_by_an_earlier_start in (home.calls_file, home.stderr_file, home.process_file):
            left_by_an_earlier_start.unlink(missing_ok=True)
        runtime = cls(home, composition, deadlines or Deadlines())
        on_birth(runtime)
        try:
            runtime._harness.start()
            runtime._check(nonce)
        except BaseException as error:
            runtime.close()
            if runtime._killed:
                raise RuntimeLost("it was killed while it started") from error
            if isinstance(error, HarnessError) or not isinstance(error, Exception):
                raise
            raise HarnessError(f"DeepSeek Harness did not start: {runtime.explain(error)}") from error
        runtime._drain_in_background()
        return runtime

    @property
    def paths(self) -> HomePaths:
        return self._home.paths

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of a further process on this home, credential included."""
        return {
            **inherited_environment(os.environ),
            **child_environment(self._home, self._composition.endpoint),
        }

    @property
    def dsh_command(self) -> tuple[str, ...]:
        return runtime_command()

    @property
    def patches(self) -> tuple[Path, ...]:
        return (self._home.patch,)

    @contextlib.contextmanager
    def session(self, session_id: str, role: str) -> Iterator[None]:
        """A session of a role, in this home's workspace, gone from the runtime's memory afterwards."""
        workspace = str(self._home.paths.workspace)
        with self._entrance.passing():
            self.request("dshmem/open", {"sessionId": session_id, "role": role, "cwd": workspace})
        try:
            yield
        except (RuntimeLost, TurnTimeout):
            # A request to a runtime that has just died may be accepted, and then waits for its whole limit.
            raise
        except BaseException:
            self._dispose(session_id)
            raise
        self._dispose(session_id)

    def _dispose(self, session_id: str) -> None:
        with contextlib.suppress(RuntimeLost):
            self.request("dshmem/dispose", {"sessionId": session_id})

    def turn(self, session_id: str, prompt: str, seconds: float) -> Turn:
        """Runs one turn of an open session, until the session and all its children are idle.

        Its seconds, and its limit, count from when it begins; the wait for the entrance is not part of it.
        A model failure is no exception but a turn with a failure in it. Raises RuntimeLost where the runtime
        died, TurnTimeout where it had to be killed for this turn, HarnessError where it refused the prompt.
        """
        from deepseek_harness.api import Session
        from deepseek_harness.errors import HarnessError as SdkError
        from deepseek_harness.errors import JsonRpcError

        limit = seconds + self._deadlines.grace
        with self._entrance.passing() as passed, self._watch.deadline(session_id, limit):
            started, clock = time.time(), time.monotonic()
            try:
                # Not through the harness, which would start a second runtime in place of a dead one.
                result = Session(self._harness, session_id).run(prompt, on_notification=passed)
                self._wait_for_children(session_id)
            except JsonRpcError as error:
                raise HarnessError(f"the harness refused the prompt: {self._first_line(error)}") from error
            except SdkError as error:
                if self._watch.expired(session_id):
                    raise TurnTimeout(f"no end after {seconds:.0f} s; the runtime was killed") from error
                raise RuntimeLost(self.explain(error)) from error
        turn = read_turn(
            result.events, result.final_response, result.finish_reason, started, time.monotonic() - clock
        )
        return replace(turn, failure=self._masked_failure(turn.failure))

    def request(self, method: str, params: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        """One JSON-RPC request. Raises RuntimeLost where the runtime died or does not answer."""
        from deepseek_harness.errors import JsonRpcError, TransportClosedError

        try:
            answer = self._harness.client.request(
                method, params, response_model=Answer, timeout_seconds=timeout or self._deadlines.request
            )
        except (TransportClosedError, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                self._end_at_once()
            raise RuntimeLost(self.explain(error)) from error
        except JsonRpcError as error:
            raise HarnessError(f"{method} was refused: {self._first_line(error)}") from error
        return dict(answer.model_dump())

    def resident_bytes(self) -> int:
        return int(self.request("dshmem/status", {})["residentBytes"])

    def close(self) -> None:
        """Ends the runtime in good order, or kills it; afterwards no process is left."""
        self._watch.close()
        self._harness.close()
        self._ended = True

    def kill(self) -> None:
        """Kills the process and its companions at once; every session in it gets RuntimeLost."""
        self._killed = True
        self._end_at_once()

    def _end_at_once(self) -> None:
        self.companions.kill_all()
        # Once it has ended, its number may be another process's.
        pid = None if self._ended else self._pid or self._pid_at_launch()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def explain(self, error: BaseException) -> str:
        """What went wrong in one line: what did not start, the last error that was told, or `error`."""
        said = self._said()
        telling = [line for line in said if "error" in line.lower()]
        words = self._inactive_reason() or (telling or said or [self._first_line(error)])[-1]
        return self._masked(words[:400])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _pid_at_launch(self) -> int | None:
        """The number that the launcher has left; None before it has. What starts may write there later on,
        so a runtime that is checked is known by the number that it told."""
        try:
            return int(self._home.process_file.read_text("ascii"))
        except (OSError, ValueError):
            return None

    def _check(self, nonce: str) -> None:
        status = self.request("dshmem/status", {})
        self._pid = int(status["pid"])
        if status["nonce"] != nonce:
            raise HarnessError("the runtime that answered is not the one that was started")
        missing = set(self._composition.required_rows) - set(status["active"])
        inactive = sorted({*missing, *status["inactive"]})
        if inactive:
            raise HarnessError(
                f"not active in the harness: {', '.join(inactive)}. {self._inactive_reason()}".strip()
            )
        reason = self._inactive_reason()
        if reason:
            raise HarnessError(f"the harness says: {reason}")

    def _inactive_reason(self) -> str:
        lines = self._said()
        places = [number for number, line in enumerate(lines) if INACTIVE_WORDS in line]
        return " ".join(lines[places[0] : places[0] + 6])[:400] if places else ""

    def _said(self) -> list[str]:
        """What the runtime wrote on its standard error: no frames of stack traces, files by name alone."""
        try:
            written = self._home.stderr_file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
        lines = (_FILE_URL.sub(r"\1", line.strip()) for line in written.splitlines())
        return [line for line in lines if line and not line.startswith(("at ", "Full diagnostics:"))]

    def _wait_for_children(self, session_id: str) -> None:
        from deepseek_harness.errors import JsonRpcError

        # A failed turn may be told here once more; its events have said so. The watch bounds the time.
        with contextlib.suppress(JsonRpcError):
            self._harness.client.request("session/wait", {"sessionId": session_id}, response_model=Answer)

    def _first_line(self, error: BaseException) -> str:
        said = str(error).strip().splitlines()
        return self._masked(said[0] if said else error.__class__.__name__)

    def _masked_failure(self, failure: TurnFailure | None) -> TurnFailure | None:
        return failure and replace(failure, message=self._masked(failure.message))

    def _masked(self, words: str) -> str:
        """A provider may repeat the key that it refuses, and these words go into the record."""
        return str(masked(words, self._composition.endpoint.environment(), self._home.paths))

    def _drain_in_background(self) -> None:
        """Takes notifications that nobody asked for off the client's queue, which would grow without end."""

        def drain() -> None:
            with contextlib.suppress(Exception):
                while True:
                    self._harness.client.next_notification()

        threading.Thread(target=drain, name="dshmem-drain", daemon=True).start()


class Entrance:
    """Lets turns begin one after the other, each when the one before has reached the model.

    All sessions share one processor: begun at once they would all reach the model late, and together.
    """

    def __init__(self) -> None:
        self._free = threading.Lock()

    @contextlib.contextmanager
    def passing(self) -> Iterator[Callable[["Notification"], None]]:
        """Holds the entrance until the yielded function sees a request to the model, or until the end."""
        self._free.acquire()
        inside = True

        def passed(notification: "Notification") -> None:
            nonlocal inside
            event = notification.payload.get("event")
            if inside and isinstance(event, dict) and event.get("type") == REQUEST_EVENT:
                inside = False
                self._free.release()

        try:
            yield passed
        finally:
            if inside:
                self._free.release()


class TurnWatch:
    """Kills a runtime in which a turn outlives its deadline, and remembers whose turn it was."""

    def __init__(self, kill: Any) -> None:
        self._kill = kill
        self._condition = threading.Condition()
        self._deadlines: dict[str, float] = {}
        self._expired: set[str] = set()
        self._closed = False
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def deadline(self, session_id: str, seconds: float) -> Iterator[None]:
        with self._condition:
            self._deadlines[session_id] = time.monotonic() + seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="dshmem-watch", daemon=True)
                self._thread.start()
            self._condition.notify()
        try:
            yield
        finally:
            with self._condition:
                self._deadlines.pop(session_id, None)

    def expired(self, session_id: str) -> bool:
        with self._condition:
            return session_id in self._expired

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify()

    def _run(self) -> None:
        with self._condition:
            while not self._closed:
                now = time.monotonic()
                late = {session for session, end in self._deadlines.items() if end <= now}
                if late:
                    self._expired |= late
                    self._deadlines.clear()
                    self._kill()
                nearest = min(self._deadlines.values(), default=now + 3600)
                self._condition.wait(max(0.01, nearest - now))


def runtime_command() -> tuple[str, ...]:
    """The command of the bundled harness. Raises HarnessError where it is not installed."""
    try:
        from deepseek_harness_runtime import resolve_bundled_launch_args
    except ImportError:
        raise HarnessError(
            "the DeepSeek Harness runtime is not installed: pip install deepseek-harness-sdk==0.2.1rc2"
        ) from None
    try:
        return tuple(resolve_bundled_launch_args("exe"))
    except (FileNotFoundError, ValueError) as error:
        raise HarnessError(f"the DeepSeek Harness runtime cannot be used: {error}") from None


def _new_harness(home: IsolatedHome, composition: Composition, deadlines: Deadlines) -> "DeepSeekHarness":
    from deepseek_harness import DeepSeekHarness, DeepSeekHarnessConfig

    return DeepSeekHarness(
        DeepSeekHarnessConfig(
            provider=composition.endpoint.provider,
            model=composition.model,
            cwd=str(home.paths.workspace),
            runtime_cwd=str(home.launch_folder),
            dsh_bin=str(home.launcher),
            dsh_home=str(home.paths.dsh_home),
            patches=(str(home.patch),),
            env=child_environment(home, composition.endpoint),
            initialize_timeout_seconds=deadlines.start,
            shutdown_timeout_seconds=5.0,
        )
    )
