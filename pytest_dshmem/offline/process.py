"""The stand-ins as a child process that ends with its parent, however that ends."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from urllib.request import ProxyHandler, build_opener

START_SECONDS = 30.0
STOP_SECONDS = 5.0
_PACKAGE_PARENT = Path(__file__).resolve().parents[2]


class StandInError(Exception):
    """The embedded model and judge could not be started: why, in one sentence."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """The embedded model and judge, running. Close it, or use it as a context manager.

    `url` is the base URL of both APIs, ending in `/v1`.
    """

    url: str
    _process: subprocess.Popen[bytes]

    @classmethod
    def start(
        cls,
        latency: float = 0.0,
        judge_latency: float = 0.0,
        capture: Path | None = None,
        trouble: Path | None = None,
        context_window: int | None = None,
    ) -> Self:
        """Starts the process and waits until it can be asked. Latencies are seconds. Raises StandInError."""
        options = [f"--latency={latency}", f"--judge-latency={judge_latency}"]
        options += [f"--capture={capture}"] if capture else []
        options += [f"--trouble={trouble}"] if trouble else []
        options += [f"--context-window={context_window}"] if context_window else []
        with tempfile.TemporaryFile() as errors:
            process = _spawn(options, errors)
            line = _first_line(process, START_SECONDS)
            if not line.startswith("ready "):
                _stop(process)
                errors.seek(0)
                told = errors.read().decode(errors="replace").strip().splitlines()
                raise StandInError(
                    f"The offline model did not start: {told[-1] if told else 'it said nothing'}"
                )
        return cls(f"{line.removeprefix('ready ')}/v1", process)

    @property
    def pid(self) -> int:
        return self._process.pid

    def served(self) -> dict[str, Any]:
        """Totals of what was served so far, for each API (`messages`, `chat`)."""
        opener = build_opener(ProxyHandler({}))
        with opener.open(f"{self.url.removesuffix('/v1')}/served", timeout=START_SECONDS) as reply:
            totals: dict[str, Any] = json.load(reply)
        return totals

    def close(self) -> None:
        """Ends the process. May be called again."""
        _stop(self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _spawn(options: list[str], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """Starts the child in a session of its own: an interrupt from the keyboard is the parent's to handle."""
    paths = [str(_PACKAGE_PARENT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-m", "pytest_dshmem.offline", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )


def _first_line(process: subprocess.Popen[bytes], seconds: float) -> str:
    """The first line that the process prints, or what there is of it when it ends or the time is over."""
    assert process.stdout is not None
    deadline, line = time.monotonic() + seconds, b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        piece = os.read(process.stdout.fileno(), 4096) if ready else b""
        if not piece:
            break
        line += piece
    return line.decode(errors="replace").strip()


def _stop(process: subprocess.Popen[bytes]) -> None:
    for end in (process.stdin, process.stdout):
        if end is not None and not end.closed:
            end.close()
    for harder in (process.terminate, process.kill):
        try:
            process.wait(STOP_SECONDS)
            return
        except subprocess.TimeoutExpired:
            harder()
    process.wait()
