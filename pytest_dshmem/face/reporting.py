"""Reports as hooks: hypotheses taken off test reports, work ended in good order, the summary at the end."""

from __future__ import annotations

import json
import time

import pytest

from pytest_dshmem.face import progress
from pytest_dshmem.face.distribution import HALTED_KEY, is_controller
from pytest_dshmem.face.problems import is_worker, problem_of
from pytest_dshmem.face.results import detach
from pytest_dshmem.face.session import SESSION, BenchmarkSession
from pytest_dshmem.face.summary import RunSummary, show

FAILURE_FILE = "failure.json"
FAILURES = pytest.StashKey[list[dict[str, str]]]()
INTERRUPTED = pytest.StashKey[bool]()
SUCCESS = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


class ReportTaker:
    """Takes hypotheses off the reports where reports arrive, and hands them to the hook."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        config.stash[FAILURES] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hypothesis = detach(report)
        if report.failed and SESSION in self._config.stash:
            state = hypothesis.state if hypothesis is not None else report.when
            self._config.stash[FAILURES].append(
                {"id": report.nodeid, "state": str(state), "reason": _reason(report)}
            )
        if hypothesis is not None:
            self._config.hook.pytest_dshmem_hypothesis(
                config=self._config, nodeid=report.nodeid, hypothesis=hypothesis
            )

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Tells an interrupt by the user from pytest's own way to stop, as with --maxfail under xdist."""
        self._config.stash[INTERRUPTED] = not isinstance(excinfo.value, pytest.Session.Interrupted)


def register(config: pytest.Config) -> None:
    """Reports are taken by the process that shows them; a worker only passes them on."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(ReportTaker(config), "dshmem-reports")


def finish(session: pytest.Session, exitstatus: int) -> None:
    """Ends the work of this process; a problem that a worker had becomes the session's usage error."""
    config = session.config
    if SESSION in config.stash:
        ours = config.stash[SESSION]
        ours.finish(abandon=exitstatus == pytest.ExitCode.INTERRUPTED)
        progress.stop(config)
        if is_worker(config):
            config.workeroutput[HALTED_KEY] = ours.halted  # type: ignore[attr-defined]
        if ours.planned and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK
        if not is_worker(config) and not config.pluginmanager.hasplugin("terminalreporter"):
            _clean_silently(ours, exitstatus)
    if problem_of(config) is not None and not is_worker(config):
        session.exitstatus = pytest.ExitCode.USAGE_ERROR


def summarise(reporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Judges every run of this session and prints what came out. Workers, too, have a terminal reporter."""
    if is_worker(config):
        return
    problem = problem_of(config)
    if problem is not None and is_controller(config):
        reporter.write_line(f"ERROR: {problem}", red=True)
    if problem is not None or SESSION not in config.stash:
        return
    ours = config.stash[SESSION]
    show(reporter, ours.planned)
    passed = exitstatus in SUCCESS and ours.halted is None
    interrupted = config.stash.get(INTERRUPTED, False)
    for path in ours.runs():
        (path / FAILURE_FILE).unlink(missing_ok=True)
        summary = RunSummary(path, ours.options, ours.bench_of(path), config, reporter)
        passed = summary.carry_out(judging=not interrupted) and passed
    if not passed and exitstatus in SUCCESS:
        exitstatus = pytest.ExitCode.TESTS_FAILED
        ours.require_exit_status(exitstatus)
    if ours.halted is not None:
        reporter.write_line(f"the run was stopped: {ours.halted}", red=True)
    _leave_or_clean(reporter, exitstatus, config, ours, passed)


def close(config: pytest.Config) -> None:
    if SESSION in config.stash:
        config.stash[SESSION].close()
        del config.stash[SESSION]


def _leave_or_clean(
    reporter: pytest.TerminalReporter,
    exitstatus: int,
    config: pytest.Config,
    ours: BenchmarkSession,
    passed: bool,
) -> None:
    """After success the sandbox goes, and so does a run that nobody named; after a failure both stay."""
    if not ours.runs():
        return
    if passed:
        ours.remove_sandboxes()
        ours.remove_temporary()
        return
    failure = {
        "exit_status": int(exitstatus),
        "written_at": time.time(),
        "halted": ours.halted,
        "failures": config.stash[FAILURES],
    }
    for path in ours.runs():
        (path / FAILURE_FILE).write_text(json.dumps(failure, indent=1) + "\n", encoding="utf-8")
        reporter.write_line(f"not all went well: {path / FAILURE_FILE} says what; continue with")
        reporter.write_line(f"  --dshmem-run {path}")


def _clean_silently(ours: BenchmarkSession, exitstatus: int) -> None:
    """Without a terminal there is no summary, and no verdicts: the run itself always stays."""
    if exitstatus == pytest.ExitCode.OK:
        ours.remove_sandboxes()


def _reason(report: pytest.TestReport) -> str:
    lines = str(report.longrepr).strip().splitlines()
    return lines[-1][:300] if lines else ""
