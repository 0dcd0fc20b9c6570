"""Progress: a line for every session ingested or consolidated and every memory frozen, as it happens.

The journals are followed rather than the work, so the lines are the same with and without workers. Questions
show as the tests that they are.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_dshmem.face.distribution import is_controller

if TYPE_CHECKING:
    from pytest_dshmem.record.entries import Call, Consolidation, Formation, Ingestion
    from pytest_dshmem.record.run_directory import RunDirectory

FOLLOWER = pytest.StashKey["Follower"]()
POLL_SECONDS = 0.25


class Follower:
    """Follows the runs of a session and writes lines through the terminal reporter.

    Where tests run in this process, lines are written while a test waits, with its output capture set aside.
    The controller of workers has no such moments, and no capture: there a thread writes them.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._started_at = time.time()
        self._looked_at = float("-inf")
        self._followed: dict[Path, RunNews] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def follow_in_background(self) -> None:
        self._thread = threading.Thread(target=self._run, name="dshmem-progress", daemon=True)
        self._thread.start()

    def tell(self) -> None:
        """Writes what is new, if the last look was long enough ago."""
        if time.monotonic() - self._looked_at < POLL_SECONDS:
            return
        self._looked_at = time.monotonic()
        lines = [line for news in self._news() for line in news.lines()]
        if not lines or self._config.get_verbosity() < 0:
            return
        capture = self._config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            self._write(lines)

    def _write(self, lines: list[str]) -> None:
        """Writes lines below what pytest has written so far, which may be half a line of dots."""
        self._config.pluginmanager.getplugin("terminalreporter").ensure_newline()
        writer = self._config.get_terminal_writer()
        if writer.width_of_current_line:
            writer.line()
        # All at once: with workers, pytest writes from another thread.
        writer.write("".join(f"{line}\n" for line in lines), flush=True)

    def close(self) -> None:
        """Writes what is left to say, and ends."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._looked_at = float("-inf")
        self.tell()

    def _run(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            self.tell()

    def _news(self) -> Iterator[RunNews]:
        from pytest_dshmem.face.session import session_of

        for path in session_of(self._config).runs():
            if path not in self._followed:
                from pytest_dshmem.record.run_directory import RunDirectory

                self._followed[path] = RunNews(RunDirectory(path), self._started_at)
            yield self._followed[path]


class RunNews:
    """What is new in one run since the last look."""

    def __init__(self, run: RunDirectory, since: float) -> None:
        self._since = since
        self._ingestions = run.ingestions.reader()
        self._consolidations = run.consolidations.reader()
        self._formations = run.formations.reader()

    def lines(self) -> list[str]:
        """A line for each thing done in this session, in the order in which it ended."""
        told = [
            *((one.started_at + one.seconds, ingestion_line(one)) for one in self._ingestions.new_entries()),
            *(
                (one.started_at + one.seconds, consolidation_line(one))
                for one in self._consolidations.new_entries()
            ),
            *((one.started_at + one.seconds, formation_line(one)) for one in self._formations.new_entries()),
        ]
        return [line for ended, line in sorted(told) if ended >= self._since]


def ingestion_line(entry: Ingestion) -> str:
    state = "ingested" if entry.state == "ingested" else f"{entry.state}: {entry.reason}"
    return _line(entry.key.sample_id, entry.key.condition, f"session {entry.session} {state}", entry)


def consolidation_line(entry: Consolidation) -> str:
    state = entry.state if entry.reason is None else f"{entry.state}: {entry.reason}"
    return _line(
        entry.key.sample_id, entry.key.condition, f"session {entry.session} consolidated, {state}", entry
    )


def formation_line(entry: Formation) -> str:
    if entry.state == "failed":
        return f"{entry.key.sample_id} {entry.key.condition}: not formed: {entry.reason}"
    size = sum(file.bytes for file in entry.files)
    what = f"memory frozen, {len(entry.files)} files, {size / 1000:,.1f} kB"
    return f"{entry.key.sample_id} {entry.key.condition}: {what}, {entry.seconds:.1f} s"


def start(config: pytest.Config) -> None:
    """Begins to follow, on the process that has the terminal, if any test of ours was collected."""
    from pytest_dshmem.face.session import SESSION, session_of

    if FOLLOWER in config.stash or hasattr(config, "workerinput"):
        return
    if not config.pluginmanager.hasplugin("terminalreporter"):
        return
    if is_controller(config):
        config.stash[FOLLOWER] = Follower(config)
        config.stash[FOLLOWER].follow_in_background()
    elif SESSION in config.stash and config.stash[SESSION].benches:
        config.stash[FOLLOWER] = Follower(config)
        session_of(config).while_waiting = config.stash[FOLLOWER].tell


def stop(config: pytest.Config) -> None:
    if FOLLOWER in config.stash:
        config.stash[FOLLOWER].close()
        del config.stash[FOLLOWER]


def _line(sample: str, condition: str, what: str, entry: Ingestion | Consolidation) -> str:
    return f"{sample} {condition}: {what}, {entry.seconds:.1f} s, {_tokens(entry.calls):,} tokens"


def _tokens(calls: tuple[Call, ...]) -> int:
    return sum(call.usage.tokens for call in calls if call.usage is not None)
