"""Processes beside a runtime on its home: web profiles and commands. None outlives the runtime, or us."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_dshmem.harness.endpoint import HarnessError

WATCH = 'read -r _; kill -9 -"$1"'


class Companions:
    """The companions of one runtime, each in a process group of its own. Safe to use in many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lifelines: dict[int, Lifeline] = {}
        self._killed = False

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> subprocess.Popen[str]:
        """Starts one, its output piped as text. Give it back with `end`.

        Raises OSError where it cannot be run, and HarnessError once all have been killed.
        """
        with self._lock:
            if self._killed:
                raise HarnessError("the runtime was killed")
            process = subprocess.Popen(
                arguments,
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
            self._lifelines[process.pid] = Lifeline(process.pid)
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        """Kills one, if it is still there, with all that it has started."""
        with self._lock:
            lifeline = self._lifelines.pop(process.pid, None)
            signal_group(process.pid, signal.SIGKILL)
        process.wait()
        if lifeline is not None:
            lifeline.release()

    def kill_all(self) -> None:
        """Kills every one, and lets none start any more. They are still to be given back."""
        with self._lock:
            self._killed = True
            for group in self._lifelines:
                signal_group(group, signal.SIGKILL)


class Lifeline:
    """Kills a process group when this process ends before `release`, however it ends: also by SIGKILL."""

    def __init__(self, group: int) -> None:
        # The other end of this pipe is ours alone: the watcher's `read` ends when we do.
        self._watcher = subprocess.Popen(
            ("/bin/sh", "-c", WATCH, "lifeline", str(group)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def release(self) -> None:
        self._watcher.kill()
        self._watcher.communicate()


def signal_group(group: int, number: signal.Signals) -> None:
    """Sends a signal to a process group, if there still is one."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
