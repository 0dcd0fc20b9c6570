"""Homes in which questions are asked: a snapshot put back, a runtime on it, and a watch over every file."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from pytest_dshmem.experiment.freezing import (
    Snapshot,
    digest_of,
    memory_files,
    restore,
    signature_of,
)
from pytest_dshmem.experiment.settings import Settings
from pytest_dshmem.harness.composition import Composition, Policy
from pytest_dshmem.harness.installation import install
from pytest_dshmem.harness.runtime import Deadlines, Runtime
from pytest_dshmem.harness.sandbox import IsolatedHome, Sandbox
from pytest_dshmem.record.entries import Call

NO_MEMORY = "no-memory"


class QuestionHome:
    """One home with one runtime. Many questions may be asked in it at once, if the system does not write."""

    def __init__(
        self,
        home: IsolatedHome,
        settings: Settings,
        snapshot: Snapshot | None,
        on_birth: Callable[[Runtime], None],
    ) -> None:
        self._home = home
        self._settings = settings
        self._snapshot = snapshot
        self._lock = threading.Lock()
        self._dirty = False
        self._lost = False
        self._prepare()
        self.runtime = Runtime.start(
            home,
            question_composition(settings, home, snapshot is not None),
            Deadlines(start=settings.limits.start_seconds),
            on_birth,
        )
        self._signature = signature_of(settings.system, home.paths)

    @property
    def digest(self) -> str | None:
        """The digest of the snapshot that questions see here; None where there is no memory."""
        return self._snapshot.digest if self._snapshot else None

    @property
    def usable(self) -> bool:
        """Whether further questions may be asked here."""
        return not self._dirty and not self._lost

    def is_clean(self) -> bool:
        """Whether the memory is still the snapshot, byte for byte."""
        if self._snapshot is None:
            return True
        with self._lock:
            return self._look()

    def lose(self, session_id: str) -> tuple[Call, ...]:
        """Takes this home out of use: its runtime is gone. The calls that its session had made."""
        self._lost = True
        return self.runtime.calls.take_abandoned(session_id)

    def relative(self, opened: Iterable[str]) -> tuple[str, ...]:
        """Opened files as `root/path` of the memory; what is not part of it is left out."""
        named = []
        for path in opened:
            real = Path(path).resolve()
            for root in self._settings.system.state:
                folder = root.folder(self._home.paths).resolve()
                if real.is_relative_to(folder):
                    named.append(f"{root.name}/{real.relative_to(folder).as_posix()}")
                    break
        return tuple(named)

    def remove(self) -> None:
        """Removes the folders; the runtime must have ended."""
        self._home.remove()

    def _prepare(self) -> None:
        if self._snapshot is None:
            return
        install(self._settings.system, self._home, self._settings.endpoint)
        restore(self._snapshot, self._settings.system, self._home.paths)

    def _look(self) -> bool:
        seen = signature_of(self._settings.system, self._home.paths)
        if seen != self._signature and not self._dirty:
            files = memory_files(self._settings.system, self._home.paths)
            self._dirty = digest_of(files) != self.digest
            self._signature = seen
        return not self._dirty


def open_question_home(
    sandbox: Sandbox,
    formation: str,
    name: str,
    settings: Settings,
    snapshot: Snapshot | None,
    on_birth: Callable[[Runtime], None],
) -> QuestionHome:
    """Makes a home for questions on a snapshot and starts its runtime, which `on_birth` gets before that."""
    return QuestionHome(sandbox.home(formation, name), settings, snapshot, on_birth)


def question_composition(settings: Settings, home: IsolatedHome, with_memory: bool) -> Composition:
    """A runtime for asking. Without a memory there is no memory system and no tool in it."""
    system, limits = settings.system, settings.limits
    roots = system.readable_roots(home.paths) if with_memory else ()
    for root in roots:
        root.mkdir(parents=True, exist_ok=True)
    policy = Policy(
        tools=system.tools.qa if with_memory else (),
        read_roots=roots,
        max_steps=limits.question_steps,
        turn_seconds=limits.question_seconds,
        effort=settings.question_effort,
    )
    rows = system.patch_rows(home.paths, model=settings.model, provider=settings.endpoint.provider)
    return Composition(
        endpoint=settings.endpoint,
        model=settings.model,
        policies={"qa": policy},
        memory_rows=rows if with_memory else (),
        required_rows=system.rows if with_memory else (),
        retries=settings.retries,
    )
