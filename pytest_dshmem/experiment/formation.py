"""Formation: one sample under one condition. Every session is ingested in order, consolidated where the
condition says so, and then the memory is frozen.

Each step is saved before it is recorded and recorded before the next begins. A formation that is interrupted
goes on from its last whole step; a step that fails is tried again from the state before it.
"""

import functools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from pytest_dshmem.datasets.views import History, Session
from pytest_dshmem.experiment.condition import CONDITIONS
from pytest_dshmem.experiment.freezing import (
    Snapshot,
    digest_of,
    freeze,
    memory_files,
    open_snapshot,
    wait_until_settled,
)
from pytest_dshmem.experiment.ingestion import ingest, session_id_of
from pytest_dshmem.experiment.outcome import (
    RATE_LIMIT_PAUSE_SECONDS,
    RATE_LIMITS_BEFORE_GIVING_UP,
    Outcome,
)
from pytest_dshmem.experiment.pressure import PressureGate
from pytest_dshmem.experiment.runtime_pool import LiveRuntimes
from pytest_dshmem.experiment.salvage import INTERRUPTED, span_of, unrecorded
from pytest_dshmem.experiment.settings import Settings
from pytest_dshmem.harness.calls import CallLog
from pytest_dshmem.harness.checkpoint import Checkpoints, clear
from pytest_dshmem.harness.composition import Composition, Policy
from pytest_dshmem.harness.consolidation import Consolidator
from pytest_dshmem.harness.endpoint import HarnessError
from pytest_dshmem.harness.installation import install
from pytest_dshmem.harness.runtime import Deadlines, Runtime, RuntimeLost
from pytest_dshmem.harness.sandbox import IsolatedHome, Sandbox
from pytest_dshmem.record.entries import (
    Call,
    Consolidation,
    Formation,
    FormationKey,
    Ingestion,
)
from pytest_dshmem.record.run_directory import RunDirectory, opaque_name

Phase = Literal["ingest", "consolidate"]
NOTHING_SAID = Outcome("error")
DONE = ("ingested", "committed", "no-change", "truncated")
"""The states in which a step has come to its end, and the next one follows."""


class FormationStopped(Exception):
    """The run ended while this formation was under way; it goes on from its last step the next time."""


class FormationFailed(Exception):
    """A step that could not be done. `fatal` means that nothing else can be done either."""

    def __init__(self, reason: str, *, fatal: bool = False) -> None:
        super().__init__(reason)
        self.fatal = fatal


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do with one session."""

    phase: Phase
    session: Session


OnCalls = Callable[[Sequence[Call]], None]
"""Told of the calls in every record that a formation makes."""


@dataclass(frozen=True, slots=True)
class FormationMeans:
    """What a run has for forming: where records and homes are, and how it is told to stop or to slow down."""

    run: RunDirectory
    sandbox: Sandbox
    settings: Settings
    stop: threading.Event
    live: LiveRuntimes
    gate: PressureGate


class Former:
    """Forms memories for one run. One formation a call, in the caller's thread."""

    def __init__(self, means: FormationMeans, read_history: Callable[[str], History]) -> None:
        self._means = means
        self._read_history = read_history
        self.snapshot = functools.cache(self._open_snapshot)

    def form(self, key: FormationKey, on_calls: OnCalls = lambda _calls: None) -> Formation:
        """Forms one memory and records how it ended.

        Raises FormationStopped where the run was stopped, and FormationFailed only for a fatal reason.
        """
        started_at, clock = time.time(), time.monotonic()
        work = FormationWork(self._means, key, on_calls)
        fatal: FormationFailed | None = None
        snapshot: Snapshot | None = None
        reason: str | None = None
        try:
            snapshot = work.carry_out(self._read_history(key.sample_id))
        except FormationFailed as failure:
            reason, fatal = str(failure), failure if failure.fatal else None
        except HarnessError as error:
            reason = str(error)
        entry = Formation(
            key=key,
            state="frozen" if snapshot else "failed",
            reason=reason,
            digest=snapshot.digest if snapshot else None,
            files=snapshot.manifest.files if snapshot else (),
            started_at=started_at,
            seconds=time.monotonic() - clock,
        )
        self._means.run.formations.append(entry)
        self._means.run.formations.sync()
        if snapshot:
            work.clean_up()
        if fatal is not None:
            raise fatal
        return entry

    def _open_snapshot(self, key: FormationKey) -> Snapshot:
        """The frozen memory of a formation that is done."""
        return open_snapshot(self._means.run.snapshot_folder(key))


class FormationWork:
    """One formation under way: its steps, its home, and the runtime that is alive between steps."""

    def __init__(self, means: FormationMeans, key: FormationKey, on_calls: OnCalls) -> None:
        self._run = means.run
        self._settings = means.settings
        self._live = means.live
        self._stop = means.stop
        self._gate = means.gate
        self._on_calls = on_calls
        self._key = key
        self._checkpoints = Checkpoints(means.run.checkpoint_folder(key))
        self._home = means.sandbox.home(opaque_name(key), "formation")
        self._open = ExitStack()
        self._runtime: Runtime | None = None
        self._consolidator: Consolidator | None = None

    def carry_out(self, history: History) -> Snapshot:
        """All steps that are not done yet, then the snapshot."""
        system, paths = self._settings.system, self._home.paths
        try:
            steps, done = self._steps(history), self._resume()
            if done < len(steps):
                self._record_left_behind(steps[done])
            for number, step in enumerate(steps[done:], start=done + 1):
                self._do(number, step, history)
            self._close_runtime()
            if not memory_files(system, paths):
                raise FormationFailed("the memory is empty after ingestion: nothing was written to it")
            if digest_of(memory_files(system, paths)) == self._digest_at_start():
                raise FormationFailed("the memory is unchanged after ingestion: nothing was written to it")
            return freeze(system, paths, self._run.snapshot_folder(self._key))
        finally:
            self._close_runtime()

    def clean_up(self) -> None:
        """Removes what only a formation under way needs."""
        self._checkpoints.remove()
        self._home.remove()

    def _steps(self, history: History) -> list[Step]:
        consolidates = CONDITIONS[self._key.condition].consolidates
        phases: tuple[Phase, ...] = ("ingest", "consolidate") if consolidates else ("ingest",)
        return [Step(phase, session) for session in history.sessions for phase in phases]

    def _resume(self) -> int:
        """Makes the home what it was after the last whole step; the number of steps done by then."""
        checkpoint = self._checkpoints.latest()
        if checkpoint is None:
            clear(self._home.paths)
            self._install()
            digest = digest_of(memory_files(self._settings.system, self._home.paths))
            self._checkpoints.save(self._home.paths, 0, {"digest": digest})
            return 0
        self._checkpoints.restore(checkpoint, self._home.paths)
        self._install()
        self._record_if_missing(checkpoint.note)
        return checkpoint.step

    def _install(self) -> None:
        system = self._settings.system
        install(system, self._home, self._settings.endpoint, system.dsh_profiles)

    def _digest_at_start(self) -> object:
        checkpoint = self._checkpoints.latest()
        return checkpoint.note["digest"] if checkpoint else None

    def _do(self, number: int, step: Step, history: History) -> None:
        attempt, rate_limits = 0, 0
        while True:
            if self._stop.is_set():
                raise FormationStopped
            attempt += 1
            try:
                entry, outcome = self._attempt(step, history, attempt)
            except RuntimeLost as lost:
                entry, outcome = self._lost(step, attempt, str(lost)), NOTHING_SAID
            if entry.state in DONE:
                self._conclude(number, entry)
                return
            self._record(entry)
            if outcome.fatal:
                raise FormationFailed(f"session {step.session.number}: {entry.reason}", fatal=True)
            if self._stop.is_set():
                raise FormationStopped
            if outcome.rate_limited and rate_limits < RATE_LIMITS_BEFORE_GIVING_UP:
                rate_limits += 1
                self._stop.wait(RATE_LIMIT_PAUSE_SECONDS)
            elif attempt - rate_limits >= self._settings.limits.attempts or step.phase == "consolidate":
                raise FormationFailed(
                    f"session {step.session.number}: {step.phase} ended as {entry.state}: {entry.reason}"
                )
            self._start_again()

    def _attempt(
        self, step: Step, history: History, attempt: int
    ) -> tuple[Ingestion | Consolidation, Outcome]:
        runtime = self._running()
        entry: Ingestion | Consolidation
        with self._gate.passing() as passage:
            if self._stop.is_set():
                raise FormationStopped
            if step.phase == "ingest":
                entry, outcome = ingest(runtime, self._settings, self._key, history, step.session, attempt)
            else:
                entry, outcome = self._consolidate(step.session, attempt), NOTHING_SAID
            passage.outcome = "ok" if entry.state in DONE else "failed"
        return entry, outcome

    def _consolidate(self, session: Session, attempt: int) -> Consolidation:
        started_at = time.time()
        assert self._consolidator is not None
        receipt = self._consolidator.consolidate(session_id_of(self._key, session.number))
        return Consolidation(
            key=self._key,
            session=session.number,
            attempt=attempt,
            state=receipt.state,
            reason=receipt.reason,
            receipt=receipt.raw,
            metered=self._settings.system.usage.metering != "unmetered",
            started_at=started_at,
            seconds=receipt.seconds,
            calls=self._calls(),
        )

    def _lost(self, step: Step, attempt: int, reason: str) -> Ingestion | Consolidation:
        return self._broken_off(
            step,
            attempt=attempt,
            reason=f"the runtime was lost: {reason}",
            started_at=time.time(),
            seconds=0.0,
            calls=self._calls(abandoned=True),
        )

    def _broken_off(self, step: Step, **known: Any) -> Ingestion | Consolidation:
        """The record of an attempt that came to no end of its own."""
        common: dict[str, Any] = {"key": self._key, "session": step.session.number, **known}
        if step.phase == "ingest":
            return Ingestion(state="error", **common)
        return Consolidation(state="failed", **common)

    def _calls(self, *, abandoned: bool = False) -> tuple[Call, ...]:
        return self._runtime.calls.take_all(abandoned=abandoned) if self._runtime else ()

    def _conclude(self, number: int, entry: Ingestion | Consolidation) -> None:
        """Saves a step once the system has come to rest; what it did on its own until then is part of it."""
        rests = wait_until_settled(self._settings.system, self._home.paths)
        entry = entry.model_copy(update={"calls": entry.calls + self._calls()})
        if rests:
            self._save(number, entry)
            return
        self._record(entry)
        raise FormationFailed(
            f"session {entry.session}: the memory did not come to rest, it was still being written to "
            f"{self._settings.system.settle.timeout_seconds:.0f} s later"
        )

    def _save(self, number: int, entry: Ingestion | Consolidation) -> None:
        """The checkpoint carries the record, so that a crash between the two loses neither."""
        kind = "ingestion" if isinstance(entry, Ingestion) else "consolidation"
        note = {"digest": self._digest_at_start(), kind: entry.model_dump(mode="json")}
        self._checkpoints.save(self._home.paths, number, note)
        self._record(entry)

    def _record(self, entry: Ingestion | Consolidation) -> None:
        if isinstance(entry, Ingestion):
            self._run.ingestions.append(entry)
        else:
            self._run.consolidations.append(entry)
        self._on_calls(entry.calls)

    def _record_if_missing(self, note: dict[str, object]) -> None:
        if "ingestion" in note:
            ingestion = Ingestion.model_validate(note["ingestion"])
            if ingestion not in self._run.ingestions.read().entries:
                self._run.ingestions.append(ingestion)
        if "consolidation" in note:
            consolidation = Consolidation.model_validate(note["consolidation"])
            if consolidation not in self._run.consolidations.read().entries:
                self._run.consolidations.append(consolidation)

    def _record_left_behind(self, step: Step) -> None:
        """Records what a process that died in this step had spent on it."""
        found = CallLog(self._home.calls_file).take_all(abandoned=True)
        if not found:
            return
        records = (*self._run.ingestions.read(), *self._run.consolidations.read())
        calls = unrecorded(found, (entry for entry in records if entry.key == self._key))
        if calls:
            started_at, seconds = span_of(calls)
            self._record(
                self._broken_off(
                    step, reason=INTERRUPTED, started_at=started_at, seconds=seconds, calls=calls
                )
            )

    def _running(self) -> Runtime:
        if self._runtime is None:
            composition = formation_composition(self._settings, self._home)
            deadlines = Deadlines(start=self._settings.limits.start_seconds)
            runtime = Runtime.start(self._home, composition, deadlines, self._live.add)
            self._open.enter_context(self._live.holding(runtime))
            if CONDITIONS[self._key.condition].consolidates:
                self._consolidator = self._open.enter_context(Consolidator(self._settings.system, runtime))
            self._runtime = runtime
        return self._runtime

    def _start_again(self) -> None:
        """Back to the state before the failed step, with a new runtime."""
        self._close_runtime()
        self._resume()

    def _close_runtime(self) -> None:
        self._open.close()
        self._open = ExitStack()
        self._runtime = None
        self._consolidator = None


def formation_composition(settings: Settings, home: IsolatedHome) -> Composition:
    """A runtime for formation: the agent that ingests, and the system's own worker."""
    system, limits = settings.system, settings.limits
    roots = system.readable_roots(home.paths)
    for root in roots:
        root.mkdir(parents=True, exist_ok=True)
    policies = {
        "ingest": Policy(
            tools=system.tools.ingest,
            read_roots=roots,
            max_steps=limits.ingest_steps,
            turn_seconds=limits.ingest_seconds,
            effort=settings.ingest_effort,
        ),
        "worker": Policy(
            tools=system.tools.worker,
            read_roots=roots,
            max_steps=limits.ingest_steps,
            turn_seconds=limits.ingest_seconds,
        ),
    }
    return Composition(
        endpoint=settings.endpoint,
        model=settings.model,
        policies=policies,
        memory_rows=system.patch_rows(home.paths, model=settings.model, provider=settings.endpoint.provider),
        required_rows=system.rows,
        retries=settings.retries,
    )
