"""Problems of the user's making: one sentence, pytest's usage exit, found on whichever process finds them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PROBLEM = pytest.StashKey[str]()
PROBLEM_KEY = "dshmem_problem"


@contextmanager
def as_usage_errors() -> Iterator[None]:
    """Turns every error that names what the user can put right into pytest's usage error."""
    from pytest_dshmem.datasets.views import DataError
    from pytest_dshmem.experiment.judging.errors import JudgeError
    from pytest_dshmem.harness.endpoint import HarnessError
    from pytest_dshmem.harness.memory_system import ProfileError
    from pytest_dshmem.offline.process import StandInError
    from pytest_dshmem.record.journal import RecordError
    from pytest_dshmem.report.overlay import OverlayError
    from pytest_dshmem.report.prices import PriceError

    known = (
        DataError,
        HarnessError,
        JudgeError,
        OverlayError,
        PriceError,
        ProfileError,
        RecordError,
        StandInError,
    )
    try:
        yield
    except known as error:
        raise pytest.UsageError(str(error)) from error


def is_worker(config: pytest.Config) -> bool:
    """Whether this process runs tests for a controller."""
    return hasattr(config, "workerinput")


def refuse(config: pytest.Config, items: list[pytest.Item], problem: str) -> None:
    """Ends the session for a problem. A worker cannot: it runs nothing and tells the controller."""
    if not is_worker(config):
        remember(config, problem)
        raise pytest.UsageError(problem)
    items[:] = []
    config.workeroutput[PROBLEM_KEY] = problem  # type: ignore[attr-defined]


def remember(config: pytest.Config, problem: str) -> None:
    """Keeps the first problem until collection is over: raised within it, it would become a traceback."""
    config.stash.setdefault(PROBLEM, problem)


def problem_of(config: pytest.Config) -> str | None:
    """The problem that stands in the session's way, if there is one."""
    return config.stash.get(PROBLEM, None)
