"""Collection as hooks: markers, parameters, narrowing, and the run that is opened when all is known."""

from __future__ import annotations

import pytest

from pytest_dshmem.face.collection import (
    MARKER,
    benchmark_of,
    limit,
    our_cases,
    parametrize,
)
from pytest_dshmem.face.distribution import is_controller
from pytest_dshmem.face.problems import as_usage_errors, problem_of, refuse, remember
from pytest_dshmem.face.rerun import select_by_last_verdicts
from pytest_dshmem.face.session import PYTEST_SESSION, SESSION, session_of


def register_marker(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARKER}(benchmark): the test asks the questions of a memory benchmark"
    )


def remember_session(session: pytest.Session) -> None:
    session.config.stash[PYTEST_SESSION] = session


def generate(metafunc: pytest.Metafunc) -> None:
    """Gives a marked test the benchmark's questions, or keeps the problem for after collection."""
    try:
        name = benchmark_of(metafunc)
        if name is None:
            return
        with as_usage_errors():
            found = session_of(metafunc.config).bench(name).all_cases
    except pytest.UsageError as error:
        remember(metafunc.config, str(error))
        found = []
    parametrize(metafunc, found)


def narrow(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Applies what must come after -k and --lf, then opens the runs of what is left."""
    problem = problem_of(config)
    if problem is not None:
        refuse(config, items, problem)
        return
    if SESSION not in config.stash or not our_cases(items):
        return
    ours = session_of(config)
    try:
        dropped = select_by_last_verdicts(config, ours.options, items)
    except pytest.UsageError as error:
        refuse(config, items, str(error))
        return
    if ours.options.limit is not None:
        items[:], beyond = limit(items, ours.options.limit)
        dropped += beyond
    if dropped:
        config.hook.pytest_deselected(items=dropped)
    if not our_cases(items) or config.option.collectonly or is_controller(config):
        return
    begin = ours.plan if ours.options.plan else ours.open_runs
    try:
        with as_usage_errors():
            begin(items)
    except pytest.UsageError as error:
        refuse(config, items, str(error))
    del session
