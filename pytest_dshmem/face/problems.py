"""Problems of the user's making: one sentence, pytest's usage exit, found on whichever process finds them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pytest_dshmem.face.session import PROBLEM_KEY, session_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def as_usage_errors() -> Iterator[None]:
    """Turns every error that names what the user can put right into pytest's usage error."""
    from pytest_dshmem.datasets.views import DataError
    from pytest_dshmem.experiment.judging.errors import JudgeError
    from pytest_dshmem.harness.endpoint import HarnessError
    from pytest_dshmem.harness.memory_system import ProfileError
    from pytest_dshmem.offline.process import StandInError
    from pytest_dshmem.record.journal import RecordError

    try:
        yield
    except (DataError, HarnessError, ProfileError, RecordError, JudgeError, StandInError) as error:
        raise pytest.UsageError(str(error)) from error


def refuse(config: pytest.Config, items: list[pytest.Item], problem: str) -> None:
    """Ends the session for a problem. A worker cannot: it runs nothing and tells the controller."""
    if not session_of(config).is_worker:
        raise pytest.UsageError(problem)
    items[:] = []
    config.workeroutput[PROBLEM_KEY] = problem  # type: ignore[attr-defined]


def remember(config: pytest.Config, problem: str) -> None:
    """Keeps a problem until collection is over: raised within it, it would become a traceback."""
    session = session_of(config)
    session.problem = session.problem or problem
