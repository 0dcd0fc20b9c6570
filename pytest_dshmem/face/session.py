"""The pytest session's side of the experiment: workbenches by benchmark, and the process-wide stand-in."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_dshmem.face.collection import FormationCase, QuestionCase, our_cases
from pytest_dshmem.face.options import Options, read_options
from pytest_dshmem.face.workbench import Workbench, temporary_run_folder

if TYPE_CHECKING:
    from pytest_dshmem.datasets.views import Question
    from pytest_dshmem.experiment.freezing import Snapshot
    from pytest_dshmem.record.entries import Formation, FormationKey, Hypothesis
    from pytest_dshmem.record.run_directory import RunDirectory
    from pytest_dshmem.report.lines import Line

SESSION = pytest.StashKey["BenchmarkSession"]()
RUN_KEY = "dshmem_run"
TOKEN_KEY = "dshmem_token"
WORKERS_KEY = "workercount"
SIGNATURES = Path("work", "sessions")
COUNTED_PER_LINE = 100


class BenchmarkSession:
    """All that this plugin keeps during one pytest session, in one process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._input: dict[str, Any] = getattr(config, "workerinput", {})
        self._cleanup = ExitStack()
        self._offline_url: str | None = None
        self._run_folder: Path | None = Path(self._input[RUN_KEY]) if RUN_KEY in self._input else None
        self._several = False
        self.token: str = self._input.get(TOKEN_KEY) or secrets.token_hex(8)
        self.options: Options = read_options(config)
        self.benches: dict[str, Workbench] = {}
        self.while_waiting: Callable[[], None] = lambda: None
        self.planned: list[Line] = []
        self.halted_in_worker: str | None = None

    @property
    def is_temporary(self) -> bool:
        """Whether nobody named a run directory, so that it goes when all went well."""
        return self.options.run is None

    @property
    def run_folder(self) -> Path:
        """Where runs are: the folder of one run, or of several, one a benchmark."""
        if self._run_folder is None:
            self._run_folder = self.options.run or temporary_run_folder()
        return self._run_folder

    def bench(self, name: str) -> Workbench:
        if name not in self.benches:
            processes = int(self._input.get(WORKERS_KEY, 1))
            self.benches[name] = Workbench(name, self.options, self._path_of_run, self.offline_url, processes)
        return self.benches[name]

    def offline_url(self) -> str:
        """The address of this process's stand-in, started when first asked for; it ends with the session."""
        if self._offline_url is None:
            from pytest_dshmem.offline.process import StandIn

            self._offline_url = self._cleanup.enter_context(StandIn.start()).url
        return self._offline_url

    def open_runs(self, items: list[pytest.Item]) -> None:
        """Opens a run for every benchmark that has tests left."""
        by_benchmark = _by_benchmark(items)
        self._several = len(by_benchmark) > 1
        for name, cases in by_benchmark.items():
            self.bench(name).prepare(cases)
            self._sign(self.bench(name).run)

    def plan(self, items: list[pytest.Item]) -> None:
        """Says what the collected questions would take, and leaves nothing to run."""
        from pytest_dshmem.face.planning import lines_of_plan

        for name, cases in _by_benchmark(items).items():
            self.planned += lines_of_plan(self.bench(name), cases, self._tell_counting)
        items[:] = []

    def _tell_counting(self, done: int, count: int) -> None:
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None and (done == 1 or done == count or done % COUNTED_PER_LINE == 0):
            reporter.write_line(f"counting the tokens of the histories: {done:,} of {count:,}")

    def question(self, case: QuestionCase) -> Question:
        return self.bench(case.formation.benchmark).benchmark.question(case.question_id)

    def formation(self, case: FormationCase) -> Formation | None:
        """Waits for a formation. Ends the test where it failed, or where the run was halted before."""
        from pytest_dshmem.experiment.engine import RunHalted

        if not case.condition.forms_memory:
            return None
        try:
            formation = self.bench(case.benchmark).engine.formation(_formation_key(case), self.while_waiting)
        except RunHalted as halted:
            self._end(str(halted))
        if formation.state != "frozen":
            pytest.fail(f"{case.sample_id} was not formed: {formation.reason}", pytrace=False)
        return formation

    def snapshot(self, case: FormationCase) -> Snapshot:
        """The frozen memory of a formation that is done."""
        return self.bench(case.benchmark).snapshot(_formation_key(case))

    def hypothesis(self, case: QuestionCase) -> Hypothesis:
        """Waits for a hypothesis. Ends the test where there was no memory, or the run was halted before."""
        from pytest_dshmem.experiment.engine import NotFormed, RunHalted
        from pytest_dshmem.record.entries import QuestionKey

        formation = case.formation
        key = QuestionKey(
            question_id=case.question_id, condition=formation.condition.name, repeat=formation.repeat
        )
        try:
            return self.bench(formation.benchmark).engine.hypothesis(key, self.while_waiting)
        except NotFormed as missing:
            pytest.fail(str(missing), pytrace=False)
        except RunHalted as halted:
            self._end(str(halted))

    def finish(self, *, abandon: bool) -> None:
        """Ends the work of this process in good order, or at once."""
        for bench in self.benches.values():
            bench.finish(abandon=abandon)

    def bench_of(self, run: Path) -> Workbench:
        """The workbench that a run belongs to; the controller of workers makes it now."""
        from pytest_dshmem.record.run_directory import RunDirectory

        return self.bench(str(RunDirectory.open(run).manifest.settings["benchmark"]))

    def require_exit_status(self, status: int) -> None:
        """Makes pytest end with this status."""
        session = self._config.stash.get(PYTEST_SESSION, None)
        if session is not None:
            session.exitstatus = status

    @property
    def halted(self) -> str | None:
        """Why the work was stopped before its time, in this process or in a worker, if it was."""
        return next((bench.halted for bench in self.benches.values() if bench.halted), self.halted_in_worker)

    def remove_sandboxes(self) -> None:
        """Removes the homes and workspaces of every run of this session that has nothing left to do."""
        from pytest_dshmem.harness.sandbox import Sandbox
        from pytest_dshmem.record.run_directory import RunDirectory

        for path in self.runs():
            run = RunDirectory.open(path)
            run.finish(Sandbox.for_run(run.manifest.run_id, parent=self.options.sandbox).remove)

    def runs(self) -> list[Path]:
        """The run directories that this session, in whichever of its processes, has made or continued."""
        if self._run_folder is None:
            return []
        places = [self._run_folder, *sorted(self._run_folder.glob("*"))]
        return [path for path in places if (path / SIGNATURES / self.token).is_file()]

    def close(self) -> None:
        self._cleanup.close()

    def remove_temporary(self) -> None:
        if self._run_folder is not None and self.is_temporary:
            shutil.rmtree(self._run_folder, ignore_errors=True)

    def _sign(self, run: RunDirectory) -> None:
        """Leaves a mark in the run, by which the process that reports knows that it is of this session."""
        signature = run.path / SIGNATURES / self.token
        signature.parent.mkdir(parents=True, exist_ok=True)
        signature.touch()

    def _path_of_run(self, name: str) -> Path:
        return self.run_folder / name if self._several else self.run_folder

    def _end(self, reason: str) -> NoReturn:
        """A test that cannot be asked because the run is over is skipped; a recorded one still passes."""
        pytest.skip(f"not asked: {reason}")


PYTEST_SESSION = pytest.StashKey[pytest.Session]()


def session_of(config: pytest.Config) -> BenchmarkSession:
    """The session that belongs to a pytest configuration, made when first asked for."""
    if SESSION not in config.stash:
        config.stash[SESSION] = BenchmarkSession(config)
    return config.stash[SESSION]


def _by_benchmark(items: list[pytest.Item]) -> dict[str, list[QuestionCase]]:
    found: dict[str, list[QuestionCase]] = {}
    for case in our_cases(items):
        found.setdefault(case.formation.benchmark, []).append(case)
    return found


def _formation_key(case: FormationCase) -> FormationKey:
    from pytest_dshmem.record.entries import FormationKey

    return FormationKey(sample_id=case.sample_id, condition=case.condition.name, repeat=case.repeat)
