"""The hooks that this plugin calls. Implement them in a conftest.py or a plugin to get what is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_dshmem.record.entries import Hypothesis
    from pytest_dshmem.report.reading import RunReading


@pytest.hookspec
def pytest_dshmem_hypothesis(config: pytest.Config, nodeid: str, hypothesis: Hypothesis) -> None:
    """Called once for every question, in the process that reports, when its test has ended.

    With xdist that is the controller. An unanswered question comes too: look at `hypothesis.state`.
    """


@pytest.hookspec
def pytest_dshmem_summary(config: pytest.Config, run: Path, reading: RunReading) -> None:
    """Called once for every run after it was judged, with all of its records."""
