"""The pytest plugin: hooks that delegate. What they do is in the modules of `face`, and below them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_dshmem.face import collecting, distribution, options, progress, reporting, results, status
from pytest_dshmem.face.fixtures import (
    ask,
    dshmem,
    formation,
    formation_case,
    question,
    snapshot,
)

__all__ = ["ask", "dshmem", "formation", "formation_case", "question", "snapshot"]


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    from pytest_dshmem import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    collecting.register_marker(config)
    distribution.register(config)
    reporting.register(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    collecting.remember_session(session)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    collecting.generate(metafunc)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    collecting.narrow(session, config, items)


def pytest_collection_finish(session: pytest.Session) -> None:
    progress.start(session.config)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
    return results.encode((yield))


def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> Any:
    return status.of(report, config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporting.finish(session, exitstatus)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    reporting.summarise(terminalreporter, exitstatus, config)


def pytest_unconfigure(config: pytest.Config) -> None:
    reporting.close(config)
