"""The web profile of a home, run for the routes that plugins add to its loopback server."""

import contextlib
import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from pytest_dshmem.harness.companions import Companions, signal_group
from pytest_dshmem.harness.endpoint import HarnessError

_URL = re.compile(r"http://(?:127\.0\.0\.1|localhost|\[::1\]):\d+")
_STOP_SECONDS = 5.0
_REMEMBERED_LINES = 200


@dataclass(frozen=True, slots=True)
class WebCommand:
    """How the web profile is started. `required_rows` must be active, or it is of no use."""

    dsh_command: tuple[str, ...]
    patches: tuple[Path, ...]
    environment: Mapping[str, str]
    folder: Path
    required_rows: tuple[str, ...]
    start_seconds: float

    @property
    def arguments(self) -> list[str]:
        patch_options = [option for patch in self.patches for option in ("--patch", str(patch))]
        return [*self.dsh_command, "--profile", "web", *patch_options, "--no-open", "--port", "0"]


class WebProfile:
    """One `dsh --profile web`. Started when its address is first asked for, killed when closed."""

    def __init__(self, command: WebCommand, companions: Companions | None = None) -> None:
        self._command = command
        self._companions = companions or Companions()
        self._server: _Server | None = None

    def address(self) -> str:
        """`http://HOST:PORT` of the running server. Raises HarnessError where it does not come up."""
        if self._server is None or not self._server.is_running:
            self.close()
            self._server = _Server(self._command, self._companions)
        try:
            return self._server.address()
        except HarnessError:
            self.close()
            raise

    @property
    def pid(self) -> int | None:
        """The running process; None where there is none."""
        return self._server.pid if self._server is not None and self._server.is_running else None

    def close(self) -> None:
        """Ends the process and all that it started; afterwards none is left."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server:
    """The process and what it has said so far.

    The address that it prints carries a token for its own pages; only host and port are kept.
    """

    def __init__(self, command: WebCommand, companions: Companions) -> None:
        self._command = command
        self._companions = companions
        self._address: str | None = None
        self._errors: deque[str] = deque(maxlen=_REMEMBERED_LINES)
        self._heard = threading.Event()
        try:
            self._process = companions.start(command.arguments, command.environment, command.folder)
        except OSError as error:
            raise HarnessError(f"the web profile did not start: {error.strerror}") from error
        _listen(self._await_address, self._process.stdout)
        self._error_listener = _listen(self._remember_errors, self._process.stderr)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def address(self) -> str:
        self._heard.wait(self._command.start_seconds)
        if self._address is None:
            raise HarnessError(f"the web profile did not start: {self._last_words()}")
        for row in self._command.required_rows:
            inactive = next((line for line in list(self._errors) if line.startswith(f"{row} (")), None)
            if inactive is not None:
                raise HarnessError(f"not active in the web profile: {inactive}")
        return self._address

    def stop(self) -> None:
        signal_group(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        self._companions.end(self._process)

    def _await_address(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                match = _URL.search(line)
                if match and self._address is None:
                    self._address = match.group(0)
                    self._heard.set()
        self._heard.set()

    def _remember_errors(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._errors.append(line.strip())

    def _last_words(self) -> str:
        if not self._heard.is_set():
            return f"it printed no address within {self._command.start_seconds:.0f} s"
        # Its output has ended: it is ending, and what it has to say about that is on its way.
        self._error_listener.join(_STOP_SECONDS)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        said = [line for line in list(self._errors) if line and not line.startswith("at ")]
        return said[-1] if said else f"it ended with status {self._process.returncode}"


def _listen(listener: Callable[[IO[str]], None], stream: IO[str] | None) -> threading.Thread:
    assert stream is not None
    thread = threading.Thread(target=listener, args=(stream,), name="dshmem-web", daemon=True)
    thread.start()
    return thread
